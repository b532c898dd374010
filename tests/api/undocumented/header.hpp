/// @file
/// A header as header.h is, in C++.
#ifndef REPRISE_HEADER_HPP_
#define REPRISE_HEADER_HPP_

/// A namespace.
namespace reprise {

class UndocumentedClass {
 public:
  /// A method.
  void documented_method();
};

/// A class.
class Class {
 public:
  explicit Class(int number);
  void undocumented_method();
  /// A method.
  static void method();

 private:
  int private_member_;
};

using UndocumentedType = int;
int undocumented_function();
template <typename T>
T undocumented_template();

}  // namespace reprise

#endif
