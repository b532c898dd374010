// Writes decompositions as formulas. After an error, further calls do nothing, and finish() returns
// the first error.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

class OpBuilder {
 public:
  using V = graph::ValueId;

  explicit OpBuilder(Rewriter& rw) : rw_(rw) {}

  Rewriter& rewriter() { return rw_; }
  const graph::Node& node() { return rw_.node(); }
  Attributes attrs() { return Attributes(rw_.node(), &status_); }
  int64_t opset() { return rw_.node().opset; }
  V in(size_t i) { return rw_.node().inputs[i]; }
  bool has(size_t i) const { return rw_.has_input(i); }
  bool has_output(size_t i) {
    return i < node().outputs.size() && node().outputs[i] != graph::kNone;
  }
  /// A copy, because adding nodes invalidates references to the graph's values. After a failure,
  /// which leaves kNone, it has more axes than the node's tensors, so that each may be indexed.
  Shape shape(V v) {
    if (v != graph::kNone) return rw_.graph().value(v).shape;
    return ok() ? Shape{} : shape_after_failure();
  }
  DType dtype(V v) { return v == graph::kNone ? DType::Invalid : rw_.graph().value(v).dtype; }

  V op(const std::string& name, std::vector<V> inputs, AttrMap attrs = {});
  V scalar(DType t, double value);
  V ints(const std::vector<int64_t>& values);
  V constant(HostTensor t) { return rw_.constant(std::move(t)); }
  V add(V a, V b) { return op("Add", {a, b}); }
  V sub(V a, V b) { return op("Sub", {a, b}); }
  V mul(V a, V b) { return op("Mul", {a, b}); }
  V div(V a, V b) { return op("Div", {a, b}); }
  /// Rounded to nearest on every device, except extremely near a tie.
  V div_rn(V a, V b) { return op("DivRn", {a, b}); }
  V min(V a, V b) { return op("Min", {a, b}); }
  V max(V a, V b) { return op("Max", {a, b}); }
  V where(V c, V a, V b) { return op("Where", {c, a, b}); }
  /// The same with a constant of a's dtype.
  V add(V a, double b) { return add(a, scalar(dtype(a), b)); }
  V sub(V a, double b) { return sub(a, scalar(dtype(a), b)); }
  V mul(V a, double b) { return mul(a, scalar(dtype(a), b)); }
  V div(V a, double b) { return div(a, scalar(dtype(a), b)); }
  V min(V a, double b) { return min(a, scalar(dtype(a), b)); }
  V max(V a, double b) { return max(a, scalar(dtype(a), b)); }
  /// Adds no node if the dtype already matches.
  V cast(V v, DType to);
  V reshape(V v, Shape to);
  V transpose(V v, std::vector<int64_t> perm);
  V expand(V v, Shape to);
  V slice(V v, std::vector<Expr> starts, std::vector<Expr> steps, Shape sizes);
  /// The elements [begin, begin + size) along one axis.
  V slice_axis(V v, int64_t axis, const Expr& begin, const Expr& size);
  V concat(std::vector<V> inputs, int64_t axis);
  /// The numbers 0, 1, ..., size - 1, in I64.
  V range(const Expr& size);
  /// 0, 1, ... as I32. Constant folding keeps it and the masks made from it: a mask has the size of
  /// a product of several positions, whereas a kernel can compute it.
  V positions(const Expr& size);
  /// `op_name` is ReduceSum, ReduceMax, ...; the dims are kept.
  V reduce(const std::string& op_name, V v, std::vector<int64_t> axes);
  /// The sum divided by the count.
  V mean(V v, std::vector<int64_t> axes);
  /// A scalar whose value is a shape expression.
  V expr_value(const Expr& e, DType t);
  /// A vector along one axis of a tensor of the given rank: [n] -> [1, .., n, .., 1].
  V along_axis(V v, int64_t axis, int64_t rank);
  /// max(lo, min(hi, v))
  V clip(V v, double lo, double hi) { return min(max(v, lo), hi); }
  /// v, or slope * v if v is negative.
  V leaky_relu(V v, V slope) {
    return where(op("Less", {v, scalar(dtype(v), 0)}), mul(v, slope), v);
  }
  V leaky_relu(V v, double slope) { return leaky_relu(v, scalar(dtype(v), slope)); }
  /// The matrix multiplication of two operands, of which each may be a vector, in the shape `out`.
  V matmul(V a, V b, const Shape& out);

  void fail(Status s);
  void replace(size_t output, V v);
  /// The same in the output's dtype. Adds no node if the model does not use the output.
  void replace_cast(size_t output, V v) {
    if (ok() && has_output(output)) replace(output, cast(v, dtype(node().outputs[output])));
  }
  /// Returns true, or the first error.
  Result<bool> finish();
  bool ok() const { return status_.ok(); }

 private:
  V take(Result<V> r);
  Shape shape_after_failure();
  Rewriter& rw_;
  Status status_;
};

/// The dtype in which sums and exponentials of a dtype are computed: F32 for 16-bit floats.
inline DType accumulate_dtype(DType t) {
  return t == DType::F16 || t == DType::BF16 ? DType::F32 : t;
}

}  // namespace reprise::ops
