// RoiAlign: means or maxima of samples of regions.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;
using kernel::Val;

/// X [N, C, H, W], regions [R, 4] and the index of each region's image [R].
Status infer_roi_align(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_float(ctx, 1));
  RP_TRY(require_int(ctx, 2));
  if (ctx.rank(0) != 4 || ctx.rank(1) != 2 || ctx.rank(2) != 1) {
    return ctx.invalid("X " + ctx.str(ctx.shape(0)) + ", rois " + ctx.str(ctx.shape(1)) +
                       " and batch_indices " + ctx.str(ctx.shape(2)) +
                       " must have ranks 4, 2 and 1");
  }
  RP_ASSIGN(const Expr regions,
            ctx.unify(ctx.shape(1)[0], ctx.shape(2)[0], "regions and batch_indices"));
  RP_TRY(ctx.unify(ctx.shape(1)[1], 4, "coordinates of a region").status());
  const int64_t height = ctx.attrs().get_int("output_height");
  const int64_t width = ctx.attrs().get_int("output_width");
  if (height < 1 || width < 1) {
    return ctx.invalid("output_height is " + std::to_string(height) + " and output_width is " +
                       std::to_string(width) + ", both must be positive");
  }
  ctx.set_output(0, ctx.dtype(0), {regions, ctx.shape(0)[1], height, width});
  return {};
}

/// Without a sampling ratio, a region may have as many samples as the image has place for. Some
/// drivers limit loops: those of an image of this size can be unrolled to fit.
bool has_short_loops(const Shape& x) {
  constexpr double kMostIterations = 0x1p21;
  const auto most = [](const Expr& size) { return 2 * static_cast<double>(size.value()) + 17; };
  return x[2].is_const() && x[3].is_const() && most(x[2]) * most(x[3]) <= kMostIterations;
}

Result<bool> roi_align(Rewriter& rw) {
  const graph::Node& n = rw.node();
  if (n.opset == 0) return false;
  OpBuilder c(rw);
  constexpr int64_t kMostSamples = 128;
  const int64_t ratio = c.attrs().get_int("sampling_ratio");
  const std::string mode = c.attrs().get_string("mode");
  if (ratio < 0 || (mode != "avg" && mode != "max")) return false;
  if (ratio > kMostSamples) return rw.keep("a region has more samples than a kernel takes");
  if (ratio == 0 && !has_short_loops(c.shape(c.in(0))))
    return rw.keep(
        "a region may have more samples than a kernel takes, as it has no sampling_ratio, "
        "and the image varies in size (--shape fixes it) or is large");
  // Before version 16 there was no shift by half a pixel.
  const std::string by_version = n.opset < 16 ? "output_half_pixel" : "half_pixel";
  AttrMap a;
  a.set("coordinate_transformation_mode",
        c.attrs().get_or("coordinate_transformation_mode", by_version));
  a.set("mode", mode);
  a.set("output_height", c.attrs().get_int("output_height"));
  a.set("output_width", c.attrs().get_int("output_width"));
  a.set("sampling_ratio", ratio);
  a.set("spatial_scale", c.attrs().get_float("spatial_scale"));
  const bool wide = c.dtype(c.in(0)) == DType::F64 || c.dtype(c.in(1)) == DType::F64;
  const auto regions = c.cast(c.in(1), wide ? DType::F64 : DType::F32);
  c.replace(0, c.op("RoiAlign", {c.in(0), regions, c.in(2)}, std::move(a)));
  return c.finish();
}

/// Where the samples of an output element lie along one axis of the image, and the pixels around
/// them. There are `sampling_ratio` of them, or if that is 0, one for each pixel that a bin covers.
class BinAxis {
 public:
  /// The pixels below and above a sample, and the weight of the one above.
  struct Sample {
    Val inside, first, second, fraction;
  };

  /// Axis 2 or 3.
  BinAxis(ElementContext& ctx, size_t axis)
      : ctx_(ctx), b_(ctx.builder()), axis_(axis), size_(ctx.input_shape(0)[axis]) {}

  /// Reads the region's coordinates.
  Status read() {
    const Attributes attrs(ctx_.node());
    const Expr& region = ctx_.index()[0];
    const int64_t column = axis_ == 3 ? 0 : 1;
    RP_ASSIGN(const Val from, ctx_.input(1, {region, Expr(column)}));
    RP_ASSIGN(const Val to, ctx_.input(1, {region, Expr(column + 2)}));
    type_ = b_.type(from);
    const bool half_pixel = attrs.get_string("coordinate_transformation_mode") == "half_pixel";
    const Val scale = constant(static_cast<double>(attrs.get_float("spatial_scale")));
    const Val shift = constant(half_pixel ? 0.5 : 0);
    begin_ = b_.sub(b_.mul(from, scale), shift);
    Val length = b_.sub(b_.sub(b_.mul(to, scale), shift), begin_);
    if (!half_pixel) length = b_.select(b_.lt(length, constant(1)), constant(1), length);
    const int64_t bins = attrs.get_int(axis_ == 3 ? "output_width" : "output_height");
    step_ = b_.div(length, constant(static_cast<double>(bins)));
    bin_ = b_.convert(ctx_.value(ctx_.index()[axis_]), type_.ty);
    const int64_t ratio = attrs.get_int("sampling_ratio");
    count_ = constant(static_cast<double>(ratio));
    if (ratio == 0) choose_count(length, constant(static_cast<double>(bins)));
    return {};
  }

  /// Sample i; without a sampling ratio, i counts from the first one that may be inside.
  Sample sample(const Expr& i) {
    Val number = b_.convert(ctx_.value(i), type_.ty);
    if (first_) number = b_.add(number, first_);
    const Val within = b_.div(b_.add(number, constant(0.5)), count_);
    const Val at = b_.add(begin_, b_.mul(b_.add(bin_, within), step_));
    const Val pixels = ctx_.value(size_);
    const Val size = b_.convert(pixels, type_.ty);
    const Val last = b_.sub(size, constant(1));
    Val inside = b_.logical_and(b_.ge(at, constant(-1)), b_.le(at, size));
    const Val clamped = b_.max(b_.min(at, last), constant(0));
    const Val first = b_.convert(clamped, kernel::Ty::I32);
    if (bounds(size_, ctx_.graph().symbols).lo < 1)
      inside = b_.logical_and(inside, b_.in_range(first, pixels));
    const Val second = b_.min(b_.add(first, b_.i32(1)), b_.sub(pixels, b_.i32(1)));
    return {inside, first, second, b_.sub(clamped, b_.convert(first, type_.ty))};
  }

  const Expr& size() const { return size_; }
  kernel::Type type() const { return type_; }
  /// The number of samples.
  Val count() const { return count_; }
  /// Without a sampling ratio, the number of samples that may be inside, and whether it is that of
  /// all of them.
  const Expr& loops() const { return loops_; }
  Val all_looped() const { return all_looped_; }

 private:
  Val constant(double v) { return b_.constant(type_, v); }

  /// Samples are at least half a pixel apart if there are several, so the size of the image limits
  /// how many are inside. Quotients are inexact on devices; the number of samples must not be.
  void choose_count(Val length, Val bins) {
    const Val below = b_.scalar_op(ScalarOp::Floor, {step_});
    const Val more = b_.lt(b_.mul(below, bins), length);
    const Val wanted = b_.select(more, b_.add(below, constant(1)), below);
    count_ = b_.select(b_.lt(constant(0), wanted), wanted, constant(0));
    const Val origin = b_.add(begin_, b_.mul(bin_, step_));
    const Val outside = b_.sub(constant(-1), origin);
    const Val skipped = b_.scalar_op(ScalarOp::Floor, {b_.div(outside, b_.div(step_, count_))});
    first_ = b_.max(b_.sub(skipped, constant(8)), constant(0));
    constexpr int64_t kMargin = 16;
    const Expr most = size_ * Expr(2) + kMargin;
    const Val rest = b_.max(b_.sub(count_, first_), constant(0));
    const Val loops = b_.min(b_.convert(rest, kernel::Ty::I32), ctx_.value(most));
    loops_ = ctx_.opaque(loops, most + 1);
    all_looped_ = b_.eq(b_.convert(loops, type_.ty), count_);
  }

  ElementContext& ctx_;
  kernel::Builder& b_;
  size_t axis_;
  const Expr& size_;
  kernel::Type type_;
  Val begin_, step_, bin_, count_;
  Val first_;  // null: 0
  Expr loops_;
  Val all_looped_;
};

/// One output element: the samples of a bin.
class Bin {
 public:
  explicit Bin(ElementContext& ctx)
      : ctx_(ctx), b_(ctx.builder()), rows_(ctx, 2), columns_(ctx, 3) {}

  Result<Val> value() {
    const Attributes attrs(ctx_.node());
    RP_TRY(rows_.read());
    RP_TRY(columns_.read());
    max_ = attrs.get_string("mode") == "max";
    RP_ASSIGN(const Val image, ctx_.input(2, {ctx_.index()[0]}));
    image_ = ctx_.checked_index(image, ctx_.input_shape(0)[0], false);
    result_ = b_.local("samples", rows_.type());
    b_.local_store(result_, constant(max_ ? -std::numeric_limits<double>::infinity() : 0));
    const int64_t ratio = attrs.get_int("sampling_ratio");
    ratio == 0 ? add_those_inside() : add_all(ratio);
    RP_TRY(status_);
    const Val all = b_.local_load(result_);
    const Val samples = b_.mul(rows_.count(), columns_.count());
    if (!max_) return Val(b_.div(all, b_.max(samples, constant(1))));
    if (ratio != 0) return all;
    const Val some = b_.lt(constant(0), samples);
    const Val looped = b_.logical_and(rows_.all_looped(), columns_.all_looped());
    return Val(b_.select(b_.logical_and(some, looped), all, combined(all, constant(0))));
  }

 private:
  Val constant(double v) { return b_.constant(rows_.type(), v); }

  void add_all(int64_t ratio) {
    const int64_t samples = ratio * ratio;
    const auto body = [&](const Expr& i) { add(Expr::floordiv(i, ratio), Expr::mod(i, ratio)); };
    if (static_cast<double>(4 * samples) > kMaxUnrolledReads) return ctx_.loop(samples, body);
    for (int64_t i = 0; i < samples; ++i) body(i);
  }

  void add_those_inside() {
    ctx_.loop(rows_.loops(), [&](const Expr& i) {
      ctx_.loop(columns_.loops(), [&](const Expr& j) { add(i, j); });
    });
  }

  void add(const Expr& i, const Expr& j) {
    const Status s = add_sample(rows_.sample(i), columns_.sample(j));
    if (!s.ok()) status_ = s;
  }

  /// A sample outside the image counts as 0.
  Status add_sample(const BinAxis::Sample& row, const BinAxis::Sample& column) {
    const Val old = b_.local_load(result_);
    const auto with = [&]() -> Result<Val> {
      Val sum = old;
      for (const bool below : {false, true}) {
        for (const bool right : {false, true}) {
          RP_ASSIGN(const Val x, weighted(row, column, below, right));
          sum = combined(sum, x);
        }
      }
      return sum;
    };
    const Val inside = b_.logical_and(row.inside, column.inside);
    RP_ASSIGN(const Val v, ctx_.guarded(inside, combined(old, constant(0)), with));
    b_.local_store(result_, v);
    return {};
  }

  Result<Val> weighted(const BinAxis::Sample& row, const BinAxis::Sample& column, bool below,
                       bool right) {
    const Expr y = ctx_.opaque(below ? row.second : row.first, rows_.size());
    const Expr x = ctx_.opaque(right ? column.second : column.first, columns_.size());
    RP_ASSIGN(Val v, ctx_.input(0, {image_, ctx_.index()[1], y, x}));
    if (b_.type(v) != rows_.type()) v = b_.convert(v, rows_.type().ty);
    return Val(b_.mul(b_.mul(weight(row, below), weight(column, right)), v));
  }

  Val weight(const BinAxis::Sample& s, bool second) {
    return second ? s.fraction : Val(b_.sub(constant(1), s.fraction));
  }

  /// NaN is never the larger one.
  Val combined(Val old, Val v) { return max_ ? b_.select(b_.lt(old, v), v, old) : b_.add(old, v); }

  ElementContext& ctx_;
  kernel::Builder& b_;
  BinAxis rows_, columns_;
  bool max_ = false;
  Expr image_;
  int result_ = -1;
  Status status_;
};

Status roi_align_element(ElementContext& ctx) {
  RP_ASSIGN(const Val v, Bin(ctx).value());
  const kernel::Type t = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  kernel::Builder& b = ctx.builder();
  ctx.set(t == b.type(v) ? v : Val(b.convert(v, t.ty)));
  return {};
}

double roi_align_reads(const graph::Graph&, const graph::Node& n) {
  // Without a ratio, a few samples for each bin.
  const auto ratio = static_cast<double>(Attributes(n).get_int("sampling_ratio"));
  return 4 * std::max(ratio * ratio, 4.0);
}

constexpr AttrDecl kRoiAlignAttrs[] = {string_attr("coordinate_transformation_mode", "half_pixel"),
                                       string_attr("mode", "avg"),
                                       int_attr("output_height", 1),
                                       int_attr("output_width", 1),
                                       int_attr("sampling_ratio", 0),
                                       float_attr("spatial_scale", 1.0F)};

}  // namespace

std::span<const OpDef> roi_align_ops() {
  static constexpr OpDef kOps[] = {{.name = "RoiAlign",
                                    .infer = infer_roi_align,
                                    .decompose = roi_align,
                                    .lowering = Lowering::Element,
                                    .element = roi_align_element,
                                    .min_opset = 10,
                                    .min_inputs = 3,
                                    .max_inputs = 3,
                                    .attributes = kRoiAlignAttrs,
                                    .sensitivity = kernel::Sensitivity::Step,
                                    .layout = LayoutRole::Fixed,
                                    .reads_per_element = roi_align_reads}};
  return kOps;
}

}  // namespace reprise::ops
