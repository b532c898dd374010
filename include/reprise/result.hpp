/// @file
/// What the C++ layer returns: values, errors and owned handles. reprise.hpp includes it.
#ifndef REPRISE_RESULT_HPP_
#define REPRISE_RESULT_HPP_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/types.h"

namespace reprise {
inline namespace api {

/// What became of a call: its status is REPRISE_OK on success. Functions that have nothing else to
/// return return one.
struct Error {
  reprise_status status = REPRISE_OK;  ///< REPRISE_OK: there is no error
  std::string message;                 ///< for people; empty if there is no error
  /// The nodes of the model that the error concerns; none if it concerns none.
  std::vector<std::string> nodes = {};
};

/// The error that a function has filled.
inline Error error_of(const reprise_error& e) {
  Error out{e.status, e.message};
  for (size_t i = 0; const char* name = reprise_error_node(&e, i); ++i)
    out.nodes.emplace_back(name);
  return out;
}

/// A value, or the error that says why there is none. Test it before you use the value.
template <typename T>
class Result {
 public:
  /// A value.
  Result(T value) : value_(std::move(value)) {}
  /// An error of the C interface.
  Result(const reprise_error& e) : error_(error_of(e)) {}
  /// An error.
  Result(Error e) : error_(std::move(e)) {}
  /// Whether there is a value.
  explicit operator bool() const { return value_.has_value(); }
  /// The value; there must be one.
  /// @{
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  /// @}
  /// The error; its status is REPRISE_OK if there is a value.
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Calls a function of the C interface with the address of an error, and returns that error.
template <typename F>
Error outcome(F&& call) {
  reprise_error e{};
  if (call(&e) == REPRISE_OK) return {};
  return error_of(e);
}

/// Frees a handle with its function.
template <typename T, void (*Free)(T*)>
struct Freer {
  /// Frees `p`.
  void operator()(T* p) const { Free(p); }
};
/// A handle that is freed with its owner.
template <typename T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Freer<T, Free>>;

}  // namespace api
}  // namespace reprise

#endif
