// The sum of products that defines one element of a contraction, for shapes and dtypes that no
// tiled kernel takes.
#pragma once

#include "codegen/ops/element.h"

namespace reprise::ops {

/// A running sum of products. Products of fp16 are summed in F32 and rounded once, as tiled kernels
/// do.
class ProductSum {
 public:
  explicit ProductSum(ElementContext& ctx);
  /// sum += input 0 at `left` * input 1 at `right`.
  Status add(const Index& left, const Index& right);
  /// The same where `inside` holds; elsewhere neither element is loaded.
  Status add_where(kernel::Val inside, const Index& left, const Index& right);
  /// Sets the element that the context wants.
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
