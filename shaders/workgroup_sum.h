// Kernel templates: sums and maxima over the invocations of a workgroup, through shared memory.
#pragma once

#include <functional>

#include "shaders/result_tile.h"

namespace reprise::shaders {

/// Combines one vector of `width` F32 values of every invocation of a workgroup, in a fixed order.
class WorkgroupSum {
 public:
  using Combine = std::function<Value(Value, Value)>;
  /// `invocations` is a power of two.
  WorkgroupSum(kernel::Builder& b, int invocations, int width);
  /// The shared memory that it uses.
  static constexpr int floats(int invocations, int width) { return (width + 1) * invocations; }

  /// Combines value(i), the i-th of this invocation, over all invocations. All of them must call
  /// this. Afterwards every invocation may load the results until the next call.
  void combine(int count, const std::function<Value(int i)>& value, const Combine& both);
  /// The i-th result.
  Value result(Val i);

 private:
  kernel::Builder& b_;
  int invocations_, width_, shared_;
  Value local_;
};

}  // namespace reprise::shaders
