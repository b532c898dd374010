// MaxRoiPool: the largest elements of the parts of regions.
#include <limits>
#include <string>

#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// Which pixels of one axis lie in each part of each region: bool [regions, parts, pixels].
V covered(Composer& c, V begin, V end, int64_t parts, const Expr& pixels) {
  const auto number = [&](double x) { return c.scalar(DType::F32, x); };
  const auto rounded = [&](V v) {  // halves away from zero
    const V up = c.op("Floor", {c.add(c.op("Abs", {v}), 0.5)});
    return c.mul(c.op("Sign", {v}), up);
  };
  const V first = rounded(begin), last = rounded(end);
  const V size = c.max(c.add(c.sub(last, first), 1.0), 1.0);
  const V step = c.div(size, static_cast<double>(parts));
  const V part = c.cast(c.reshape(c.positions(parts), {1, parts}), DType::F32);
  const V most = c.expr_value(pixels, DType::F32);
  const auto placed = [&](V v) { return c.min(c.max(c.add(v, first), number(0)), most); };
  const V from = placed(c.op("Floor", {c.mul(part, step)}));
  const V to = placed(c.op("Ceil", {c.mul(c.add(part, 1.0), step)}));
  const auto spread = [&](V v) { return c.reshape(v, {c.shape(begin)[0], parts, 1}); };
  const V at = c.cast(c.positions(pixels), DType::F32);
  return c.op("And", {c.op("LessOrEqual", {spread(from), at}), c.op("Less", {at, spread(to)})});
}

/// The largest element along the last axis of those that count. A part that is empty has the lowest
/// number.
V largest(Composer& c, V x, V counts, DType t) {
  const V none = c.scalar(t, -std::numeric_limits<double>::infinity());
  return c.reduce("ReduceMax", c.where(counts, x, none), {std::ssize(c.shape(x)) - 1});
}

Result<bool> max_roi_pool(Rewriter& rw) {
  Composer c(rw);
  const Shape x = c.shape(c.in(0)), rois = c.shape(c.in(1));
  const std::vector<int64_t> pooled = c.attrs().get_ints("pooled_shape");
  const DType t = c.dtype(c.in(0));
  if (x.size() != 4 || rois.size() != 2 || !rois[1].is_const(5) || pooled.size() != 2 ||
      pooled[0] < 1 || pooled[1] < 1 || !is_float(t))
    c.refuse(Code::InvalidModel,
             "X must be floats of rank 4, rois [regions, 5], and pooled_shape two positive sizes");
  if (!c.ok()) return c.finish();
  const auto scale = static_cast<double>(c.attrs().get_float("spatial_scale"));
  const V numbers = c.cast(c.in(1), DType::F32);
  const auto side = [&](int64_t i) { return c.mul(c.slice_axis(numbers, 1, i, 1), scale); };
  const V in_row = covered(c, side(1), side(3), pooled[1], x[3]);
  const V in_column = covered(c, side(2), side(4), pooled[0], x[2]);
  const V image = c.cast(c.reshape(c.slice_axis(c.in(1), 1, 0, 1), {rois[0]}), DType::I64);
  const V maps = c.model("Gather", {c.in(0), image});
  // First along the rows: [regions, channels, height, parts], then along the columns.
  const V rows = largest(c, c.reshape(maps, {rois[0], x[1], x[2], 1, x[3]}),
                         c.reshape(in_row, {rois[0], 1, 1, pooled[1], x[3]}), t);
  const V turned =
      c.reshape(c.transpose(c.reshape(rows, {rois[0], x[1], x[2], pooled[1]}), {0, 1, 3, 2}),
                {rois[0], x[1], 1, pooled[1], x[2]});
  V y = largest(c, turned, c.reshape(in_column, {rois[0], 1, pooled[0], 1, x[2]}), t);
  y = c.reshape(y, {rois[0], x[1], pooled[0], pooled[1]});
  const auto any = [&](V inside, const Shape& to) {
    return c.reshape(c.reduce("ReduceMax", c.cast(inside, DType::I32), {2}), to);
  };
  const V filled =
      c.mul(any(in_column, {rois[0], 1, pooled[0], 1}), any(in_row, {rois[0], 1, 1, pooled[1]}));
  const V some = c.op("Greater", {filled, c.scalar(DType::I32, 0)});
  c.replace(0, c.where(some, y, c.scalar(t, 0)));
  return c.finish();
}

constexpr AttrDecl kRoiPoolAttrs[] = {required_attr("pooled_shape", AttrType::Ints),
                                      float_attr("spatial_scale", 1.0F)};

}  // namespace

std::span<const OpDef> roi_pool_ops() {
  static constexpr OpDef kOps[] = {{.name = "MaxRoiPool",
                                    .infer = infer_composed,
                                    .decompose = max_roi_pool,
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .attributes = kRoiPoolAttrs}};
  return kOps;
}

}  // namespace reprise::ops
