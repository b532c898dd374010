// The sum of products that defines one element of a contraction, for shapes and dtypes without a
// tiled kernel.
#pragma once

#include "codegen/ops/row/element.h"

namespace reprise::ops {

/// A running sum of products. fp16 products are summed in F32 and rounded once, as in tiled
/// kernels.
class ProductSum {
 public:
  explicit ProductSum(ElementContext& ctx);
  /// sum += input 0 at `left` * input 1 at `right`
  Status add(const Index& left, const Index& right);
  /// The same if `inside` holds. Otherwise neither element is loaded.
  Status add_where(kernel::Val inside, const Index& left, const Index& right);
  /// Sets the element of the context to the sum.
  void finish();

 private:
  Result<kernel::Val> added(kernel::Val old, const Index& left, const Index& right);

  ElementContext& ctx_;
  kernel::Builder& b_;
  kernel::Type result_;
  kernel::Type type_;
  int local_;
};

}  // namespace reprise::ops
