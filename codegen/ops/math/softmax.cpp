// Softmax and related operators, as reductions and scalar operations.
#include "codegen/ops/math/softmax.h"

#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// Since opset 13, Softmax normalises one axis (default -1); before, all from `axis` (default 1).
std::vector<int64_t> softmax_axes(const Attributes& attrs, int64_t opset, int64_t rank) {
  const bool flattens = opset != 0 && opset < 13;
  const int64_t given = attrs.get_or<int64_t>("axis", flattens ? 1 : -1);
  const int64_t axis = given < 0 ? given + rank : given;
  return flattens ? iota(axis, rank) : std::vector<int64_t>{axis};
}

Status infer_softmax(InferContext& ctx) {
  const bool flattens = ctx.opset() < 13;
  const int64_t axis = ctx.attrs().get_or<int64_t>("axis", flattens ? 1 : -1);
  // An axis that flattens may equal the rank. Then there is no axis to normalise.
  if (!(flattens && axis == ctx.rank(0))) {
    RP_ASSIGN([[maybe_unused]] const int64_t a, ctx.axis(axis, ctx.rank(0)));
  }
  return infer_same_float(ctx);
}

std::vector<int64_t> axes_of(OpBuilder& c) {
  return softmax_axes(c.attrs(), c.opset(), static_cast<int64_t>(c.shape(c.in(0)).size()));
}

Result<bool> softmax(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const Softmax s(c, c.cast(c.in(0), accumulate_dtype(t)), axes_of(c));
  c.replace(0, c.cast(s.value(c), t));
  return c.finish();
}

Result<bool> log_softmax(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const Softmax s(c, c.cast(c.in(0), accumulate_dtype(t)), axes_of(c));
  c.replace(0, c.cast(c.sub(s.difference, c.op("Log", {s.sum})), t));
  return c.finish();
}

/// One at the first maximum, zero elsewhere.
Result<bool> hardmax(Rewriter& rw) {
  OpBuilder c(rw);
  const Shape shape = c.shape(c.in(0));
  const std::vector<int64_t> axes = axes_of(c);
  if (axes.empty()) {
    c.replace(0, c.expand(c.scalar(c.dtype(c.in(0)), 1), shape));
    return c.finish();
  }
  const auto first = static_cast<size_t>(axes.front());
  Shape flat(shape.begin(), shape.begin() + axes.front());
  flat.push_back(product(shape, first, first + axes.size()));
  flat.insert(flat.end(), shape.begin() + axes.back() + 1, shape.end());
  const V x = c.reshape(c.in(0), flat);
  AttrMap a;
  a.set("axis", axes.front());
  a.set("select_last_index", int64_t{0});
  const V position =
      c.along_axis(c.range(flat[first]), axes.front(), static_cast<int64_t>(flat.size()));
  const V hot = c.op("Equal", {position, c.op("ArgMax", {x}, std::move(a))});
  c.replace(0, c.cast(c.reshape(hot, shape), c.dtype(c.in(0))));
  return c.finish();
}

constexpr AttrDecl kSoftmaxAttrs[] = {optional_attr("axis", AttrType::Int)};

constexpr OpDef softmax_op(std::string_view name, Result<bool> (*decompose)(Rewriter&)) {
  return {
      .name = name, .infer = infer_softmax, .decompose = decompose, .attributes = kSoftmaxAttrs};
}

}  // namespace

std::span<const OpDef> softmax_ops() {
  static constexpr OpDef kOps[] = {
      softmax_op("Softmax", softmax),
      softmax_op("LogSoftmax", log_softmax),
      softmax_op("Hardmax", hardmax),
  };
  return kOps;
}

}  // namespace reprise::ops
