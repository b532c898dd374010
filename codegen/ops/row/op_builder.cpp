#include "codegen/ops/row/op_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/ops/row/support.h"

namespace reprise::ops {

using graph::kNone;
using V = OpBuilder::V;

Shape OpBuilder::shape_after_failure() {
  constexpr size_t kMore = 8;  // axes that rewrites add
  size_t axes = 0;
  for (const auto* list : {&node().inputs, &node().outputs})
    for (const V v : *list)
      if (v != kNone) axes = std::max(axes, rw_.graph().value(v).shape.size());
  return Shape(axes + kMore, Expr(1));
}

V OpBuilder::take(Result<V> r) {
  if (r.ok()) return *r;
  fail(r.status());
  return kNone;
}

void OpBuilder::fail(Status s) {
  if (status_.ok()) status_ = std::move(s);
}

V OpBuilder::op(const std::string& name, std::vector<V> inputs, AttrMap attrs) {
  if (!ok()) return kNone;
  return take(rw_.emit(name, std::move(inputs), std::move(attrs)));
}

V OpBuilder::scalar(DType t, double value) {
  return ok() ? rw_.scalar_constant(t, value) : kNone;
}

V OpBuilder::ints(const std::vector<int64_t>& values) {
  return ok() ? rw_.int_constant(values) : kNone;
}

V OpBuilder::cast(V v, DType to) {
  if (!ok() || dtype(v) == to) return v;
  AttrMap a;
  a.set("to", dtype_to_onnx(to));
  return op("Cast", {v}, std::move(a));
}

V OpBuilder::reshape(V v, Shape to) {
  return ok() ? take(rw_.reshape(v, std::move(to))) : kNone;
}

V OpBuilder::transpose(V v, std::vector<int64_t> perm) {
  return ok() ? take(rw_.transpose(v, std::move(perm))) : kNone;
}

V OpBuilder::expand(V v, Shape to) {
  if (!ok() || shape(v) == to) return v;
  AttrMap a;
  a.set("shape", std::vector<Expr>(std::move(to)));
  return op("Expand", {v}, std::move(a));
}

V OpBuilder::slice(V v, std::vector<Expr> starts, std::vector<Expr> steps, Shape sizes) {
  if (!ok()) return kNone;
  AttrMap a;
  a.set("starts", std::move(starts));
  a.set("steps", std::move(steps));
  return take(rw_.emit_shaped("Slice", {v}, std::move(a), dtype(v), std::move(sizes)));
}

V OpBuilder::slice_axis(V v, int64_t axis, const Expr& begin, const Expr& size) {
  if (!ok()) return kNone;
  Shape sizes = shape(v);
  const auto a = static_cast<size_t>(axis);
  if (begin.is_const(0) && sizes[a] == size) return v;
  std::vector<Expr> starts(sizes.size(), Expr(0));
  std::vector<Expr> steps(sizes.size(), Expr(1));
  starts[a] = begin;
  sizes[a] = size;
  return slice(v, std::move(starts), std::move(steps), std::move(sizes));
}

V OpBuilder::concat(std::vector<V> inputs, int64_t axis) {
  if (inputs.size() == 1) return inputs[0];
  AttrMap a;
  a.set("axis", axis);
  return op("Concat", std::move(inputs), std::move(a));
}

V OpBuilder::range(const Expr& size) {
  if (!ok()) return kNone;
  const V start = scalar(DType::I64, 0);
  const V delta = scalar(DType::I64, 1);
  const V limit = expr_value(size, DType::I64);
  if (!ok()) return kNone;
  return take(rw_.emit_shaped("Range", {start, limit, delta}, {}, DType::I64, {size}));
}

V OpBuilder::positions(const Expr& size) {
  if (!ok()) return kNone;
  const V start = scalar(DType::I32, 0);
  const V delta = scalar(DType::I32, 1);
  const V limit = expr_value(size, DType::I32);
  if (!ok()) return kNone;
  AttrMap a;
  a.set("computed", int64_t{1});
  return take(rw_.emit_shaped("Range", {start, limit, delta}, std::move(a), DType::I32, {size}));
}

namespace {

/// Kernels count the elements of a row in 32 bits.
constexpr int64_t kMostInRow = std::numeric_limits<int32_t>::max();

/// The larger factor of a number, if kernels can count to both. Else 0.
int64_t countable_factor(int64_t n) {
  constexpr int64_t kMostTries = int64_t{1} << 20;
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  for (int64_t f = root; f > 1 && f > root - kMostTries; --f) {
    if (n % f == 0) return n / f <= kMostInRow ? n / f : 0;
  }
  return 0;
}

}  // namespace

/// A row of more elements than kernels count is reduced in steps: over its last axes, then over the
/// others. An axis of more elements becomes two.
V OpBuilder::reduce(const std::string& op_name, V v, std::vector<int64_t> axes) {
  if (axes.empty() || !ok()) return v;
  std::ranges::sort(axes);
  const Shape from = shape(v);
  std::vector<int64_t> last;
  for (int64_t count = 1; !axes.empty(); axes.pop_back()) {
    const auto axis = static_cast<size_t>(axes.back());
    const int64_t size = from[axis].is_const() ? std::max<int64_t>(from[axis].value(), 1) : 1;
    if (!last.empty() && size > kMostInRow / count) break;
    const int64_t factor = size > kMostInRow ? countable_factor(size) : 0;
    if (factor != 0) {
      Shape split = from, kept = from;
      split[axis] = Expr(size / factor);
      split.insert(split.begin() + axes.back() + 1, Expr(factor));
      kept[axis] = 1;
      v = reduce(op_name, reshape(v, std::move(split)), {axes.back(), axes.back() + 1});
      axes.pop_back();
      return reduce(op_name, reshape(v, std::move(kept)), std::move(axes));
    }
    count = size > kMostInRow ? kMostInRow : count * size;
    last.insert(last.begin(), axes.back());
  }
  AttrMap a;
  a.set("axes", std::move(last));
  return reduce(op_name, op(op_name, {v}, std::move(a)), std::move(axes));
}

V OpBuilder::mean(V v, std::vector<int64_t> axes) {
  if (!ok()) return kNone;
  Expr count = 1;
  const Shape s = shape(v);
  for (int64_t a : axes) count *= s[static_cast<size_t>(a)];
  const V sum = reduce("ReduceSum", v, std::move(axes));
  if (is_float(dtype(v))) return div(sum, expr_value(count, dtype(v)));
  // The mean of no elements is 0 for integers and NaN for floats.
  if (count.is_const()) return div(sum, expr_value(count.is_const(0) ? 1 : count, dtype(v)));
  return div(sum, max(expr_value(count, dtype(v)), 1.0));
}

V OpBuilder::matmul(V a, V b, const Shape& out) {
  const Shape as = shape(a), bs = shape(b);
  if (as.size() == 1) a = reshape(a, {Expr(1), as[0]});
  if (bs.size() == 1) b = reshape(b, {bs[0], Expr(1)});
  return reshape(op("MatMul", {a, b}), out);
}

V OpBuilder::expr_value(const Expr& e, DType t) {
  if (!ok()) return kNone;
  if (e.is_const()) return scalar(t, static_cast<double>(e.value()));
  AttrMap a;
  a.set("elements", std::vector<Expr>{e});
  a.set("dtype", dtype_to_onnx(DType::I64));
  a.set("scalar", int64_t{1});
  return cast(op("ShapeValue", {}, std::move(a)), t);
}

V OpBuilder::along_axis(V v, int64_t axis, int64_t rank) {
  if (!ok()) return kNone;
  Shape to(static_cast<size_t>(rank), Expr(1));
  to[static_cast<size_t>(axis)] = element_count(shape(v));
  return reshape(v, std::move(to));
}

void OpBuilder::replace(size_t output, V v) {
  if (!ok()) return;
  const auto& outputs = node().outputs;
  if (output >= outputs.size() || outputs[output] == kNone) return;
  fail(rw_.replace(output, v));
}

Result<bool> OpBuilder::finish() {
  if (!ok()) return status_;
  return true;
}

}  // namespace reprise::ops
