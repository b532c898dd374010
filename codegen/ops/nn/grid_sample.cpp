// GridSample: images at positions given as numbers.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;
using kernel::Val;

/// X [N, C, d...] and the positions grid [N, out..., rank of d].
Status infer_grid_sample(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("X " + ctx.str(ctx.shape(0)) + " and grid " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  RP_TRY(require_float(ctx, 1));
  RP_ASSIGN(const Expr batch, ctx.unify(ctx.shape(0)[0], ctx.shape(1)[0], "batches"));
  RP_TRY(ctx.unify(ctx.shape(1).back(), ctx.rank(0) - 2, "coordinates of the grid").status());
  Shape out{batch, ctx.shape(0)[1]};
  out.insert(out.end(), ctx.shape(1).begin() + 1, ctx.shape(1).end() - 1);
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Cubic interpolation in three dimensions, which ONNX does not define, runs on the host. The grid
/// is at least in float32: in 16 bits, positions would be pixels off.
Result<bool> grid_sample(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const size_t rank = c.shape(c.in(0)).size();
  std::string mode = c.attrs().get_string("mode");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string padding = c.attrs().get_string("padding_mode");
  const bool samples = mode == "nearest" || mode == "linear" || (mode == "cubic" && rank == 4);
  const bool pads = padding == "zeros" || padding == "border" || padding == "reflection";
  if (rank == 5 && mode == "cubic")
    return rw.keep("cubic interpolation in three dimensions has no device form");
  if (rank < 4 || rank > 5 || !is_float(t) || !samples || !pads) return false;
  const bool wide = t == DType::F64 || c.dtype(c.in(1)) == DType::F64;
  AttrMap a;
  a.set("align_corners", c.attrs().get_int("align_corners"));
  a.set("mode", mode);
  a.set("padding_mode", padding);
  const auto grid = c.cast(c.in(1), wide ? DType::F64 : DType::F32);
  c.replace(0, c.op("GridSample", {c.in(0), grid}, std::move(a)));
  return c.finish();
}

/// A pixel along one axis and its weight.
struct Tap {
  Val index;
  Val inside;  // whether the image has this pixel; null: always
  Val weight;
};

/// The taps of a position along one axis of the image.
class AxisSampler {
 public:
  /// Coordinate k of the grid: 0 is along the last axis of X.
  AxisSampler(ElementContext& ctx, int64_t k)
      : ctx_(ctx),
        b_(ctx.builder()),
        k_(k),
        size_(ctx.input_shape(0)[ctx.input_shape(0).size() - 1 - static_cast<size_t>(k)]) {
    const Attributes attrs(ctx.node());
    mode_ = attrs.get_string("mode");
    padding_ = attrs.get_string("padding_mode");
    align_corners_ = attrs.get_int("align_corners") != 0;
    pixels_ = attrs.get_int("pixels") != 0;
  }

  Result<std::vector<Tap>> taps() {
    RP_ASSIGN(const Val given, coordinate());
    const Val x = padded(pixel(given));
    if (mode_ == "nearest")
      return std::vector<Tap>{tap(b_.scalar_op(ScalarOp::Round, {x}), 0, constant(1))};
    const Val floor = b_.scalar_op(ScalarOp::Floor, {x});
    const Val f = b_.sub(x, floor);
    const Val rest = b_.sub(constant(1), f);
    if (mode_ == "linear") return std::vector<Tap>{tap(floor, 0, rest), tap(floor, 1, f)};
    return std::vector<Tap>{tap(floor, -1, far(b_.add(f, constant(1)))), tap(floor, 0, near(f)),
                            tap(floor, 1, near(rest)),
                            tap(floor, 2, far(b_.add(rest, constant(1))))};
  }

 private:
  Val constant(double v) { return b_.constant(type_, v); }

  Result<Val> coordinate() {
    const Index& out = ctx_.index();
    Index at{out[0]};
    at.insert(at.end(), out.begin() + 2, out.end());
    at.emplace_back(k_);
    RP_ASSIGN(const Val x, ctx_.input(1, at));
    type_ = b_.type(x);
    last_ = b_.convert(ctx_.number(size_ - 1), type_.ty);
    return x;
  }

  /// The position in pixels. NaN counts as outside.
  Val pixel(Val x) {
    if (!pixels_) {
      x = b_.add(x, constant(1));
      if (align_corners_) {
        x = b_.mul(b_.mul(x, constant(0.5)), last_);
      } else {
        x = b_.mul(b_.sub(b_.mul(x, b_.add(last_, constant(1))), constant(1)), constant(0.5));
      }
    }
    return b_.select(b_.eq(x, x), x, constant(-1));
  }

  /// Moves a position outside the image as the padding wants. Cubic taps are clamped one by one;
  /// three pixels outside, all of them are the border.
  Val padded(Val x) {
    if (padding_ == "zeros") return x;
    const Val lowest = constant(align_corners_ ? 0 : -0.5);
    const Val highest = align_corners_ ? last_ : b_.add(last_, constant(0.5));
    const Val outside = b_.logical_or(b_.lt(x, lowest), b_.lt(highest, x));
    if (padding_ == "reflection") return b_.select(outside, reflected(x, lowest, highest), x);
    const Val beyond = constant(mode_ == "cubic" ? 3 : 0);
    const Val clamped = b_.min(b_.max(x, b_.sub(constant(0), beyond)), b_.add(last_, beyond));
    return b_.select(outside, clamped, x);
  }

  Val reflected(Val x, Val lowest, Val highest) {
    const Val range = b_.sub(highest, lowest);
    const Val twice = b_.add(range, range);
    const Val distance = b_.scalar_op(ScalarOp::Abs, {b_.sub(x, lowest)});
    const Val r = b_.scalar_op(ScalarOp::Fmod, {distance, twice});
    const Val back = b_.select(b_.le(r, range), r, b_.sub(twice, r));
    return b_.select(b_.lt(constant(0), range), b_.add(lowest, back), lowest);
  }

  Tap tap(Val position, int64_t offset, Val weight) {
    const Val size = ctx_.value(size_);
    Val at = b_.convert(position, kernel::Ty::I32);
    if (offset != 0) at = b_.add(at, b_.i32(offset));
    if (padding_ == "zeros") return {at, b_.in_range(at, size), weight};
    if (padding_ == "reflection") at = reflected_index(at, size);
    at = b_.min(b_.max(at, b_.i32(0)), b_.sub(size, b_.i32(1)));
    const bool has_pixels = bounds(size_, ctx_.graph().symbols).lo >= 1;
    return {at, has_pixels ? Val{} : b_.in_range(at, size), weight};
  }

  /// Reflected at the centres of the outer pixels, or at their edges.
  Val reflected_index(Val at, Val size) {
    const Val last = b_.sub(size, b_.i32(1));
    const Val mirrored = b_.sub(b_.i32(align_corners_ ? 0 : -1), at);
    const Val distance = b_.select(b_.lt(at, b_.i32(0)), mirrored, at);
    const Val half = align_corners_ ? last : Val(size);
    const Val r = b_.rem(distance, b_.add(half, half));
    const Val end = align_corners_ ? b_.add(last, last) : b_.add(last, size);
    return b_.min(r, b_.sub(end, r));
  }

  // The weights of cubic interpolation with -3/4, of pixels in a distance of 1 to 2 and below 1.
  Val far(Val d) {
    Val v = b_.add(b_.mul(d, constant(-0.75)), constant(3.75));
    v = b_.sub(b_.mul(v, d), constant(6));
    return b_.add(b_.mul(v, d), constant(3));
  }
  Val near(Val d) {
    const Val v = b_.sub(b_.mul(d, constant(1.25)), constant(2.25));
    return b_.add(b_.mul(b_.mul(v, d), d), constant(1));
  }

  ElementContext& ctx_;
  kernel::Builder& b_;
  int64_t k_;
  const Expr& size_;
  std::string mode_, padding_;
  bool align_corners_ = false, pixels_ = false;
  kernel::Type type_;
  Val last_;  // the last pixel
};

/// The weighted sum of the pixels inside the image, over the product of the taps of all axes. A
/// pixel outside is never multiplied, because the weights of a position at infinity are NaN.
class Interpolation {
 public:
  Interpolation(ElementContext& ctx, std::vector<std::vector<Tap>> taps)
      : ctx_(ctx), b_(ctx.builder()), taps_(std::move(taps)) {
    type_ = b_.type(taps_[0][0].weight);
    sum_ = b_.constant(type_, 0);
  }

  Result<Val> sum() {
    Index at{ctx_.index()[0], ctx_.index()[1]};
    RP_TRY(add_taps(at, {}, {}));
    return sum_;
  }

 private:
  Status add_taps(Index& at, Val inside, Val weight) {
    const size_t d = at.size() - 2;
    if (d == taps_.size()) return add_pixel(at, inside, weight);
    for (const Tap& t : taps_[d]) {
      at.push_back(ctx_.opaque(t.index, ctx_.input_shape(0)[at.size()]));
      const Val both = inside && t.inside ? b_.logical_and(inside, t.inside)
                       : inside           ? inside
                                          : t.inside;
      RP_TRY(add_taps(at, both, weight ? b_.mul(weight, t.weight) : t.weight));
      at.pop_back();
    }
    return {};
  }

  Status add_pixel(const Index& at, Val inside, Val weight) {
    const auto with = [&]() -> Result<Val> {
      RP_ASSIGN(Val v, ctx_.input(0, at));
      if (b_.type(v) != type_) v = b_.convert(v, type_.ty);
      return b_.add(sum_, b_.mul(v, weight));
    };
    RP_ASSIGN(sum_, inside ? ctx_.guarded(inside, sum_, with) : with());
    return {};
  }

  ElementContext& ctx_;
  kernel::Builder& b_;
  std::vector<std::vector<Tap>> taps_;
  kernel::Type type_;
  Val sum_;
};

Status grid_sample_element(ElementContext& ctx) {
  const auto spatial = static_cast<int64_t>(ctx.input_shape(0).size()) - 2;
  std::vector<std::vector<Tap>> taps;
  for (int64_t k = spatial - 1; k >= 0; --k) {
    RP_ASSIGN(auto along, AxisSampler(ctx, k).taps());
    taps.push_back(std::move(along));
  }
  RP_ASSIGN(const Val sum, Interpolation(ctx, std::move(taps)).sum());
  const kernel::Type t = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  kernel::Builder& b = ctx.builder();
  ctx.set(t == b.type(sum) ? sum : b.convert(sum, t.ty));
  return {};
}

double grid_sample_reads(const graph::Graph& g, const graph::Node& n) {
  const std::string mode = Attributes(n).get_string("mode");
  if (mode == "nearest") return 1;
  const size_t axes = g.value(n.inputs[0]).shape.size() - 2;
  return std::pow(mode == "linear" ? 2 : 4, axes);
}

constexpr AttrDecl kGridSampleAttrs[] = {int_attr("align_corners", 0),
                                         string_attr("mode", "linear"),
                                         string_attr("padding_mode", "zeros"), core_flag("pixels")};

}  // namespace

std::span<const OpDef> grid_sample_ops() {
  static constexpr OpDef kOps[] = {{.name = "GridSample",
                                    .infer = infer_grid_sample,
                                    .decompose = grid_sample,
                                    .lowering = Lowering::Element,
                                    .element = grid_sample_element,
                                    .min_opset = 16,
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .attributes = kGridSampleAttrs,
                                    .sensitivity = kernel::Sensitivity::Step,
                                    .layout = LayoutRole::Fixed,
                                    .reads_per_element = grid_sample_reads}};
  return kOps;
}

}  // namespace reprise::ops
