// Quantised tensors: conversions, and integer matrix multiplications and convolutions, as
// arithmetic on wider types. Casts from float saturate as quantisation requires.
#include "codegen/ops/math/quantize.h"

#include <cmath>

#include "codegen/ops/math/quantized.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/low_bit.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/window.h"

namespace reprise::ops {

void become_dequantize(graph::Graph& g, graph::Node& n, std::vector<graph::ValueId> inputs,
                       int64_t axis) {
  n.op = "DequantizeLinear";
  n.domain.clear();
  n.opset = 0;
  g.set_inputs(n, std::move(inputs));
  n.attrs = AttrMap{};
  n.attrs.set("axis", axis);
}

std::optional<int64_t> scaled_axis(const graph::Graph& g, const graph::Node& n) {
  if (Attributes(n).get_int("block_size") > 0) return std::nullopt;
  const bool adds = n.inputs.size() > kMinimum && n.inputs[kMinimum] != graph::kNone;
  if (adds) return std::nullopt;  // scaling a product would not add the minimum
  if (element_count(g.value(n.inputs[1]).shape).is_const(1)) return -1;
  return Attributes(n).get_int("axis");
}

Index scale_index(const graph::Graph& g, const graph::Node& n, const Index& element) {
  const auto axis = static_cast<size_t>(Attributes(n).get_int("axis"));
  if (const int64_t block = Attributes(n).get_int("block_size"); block > 0) {
    Index at = element;
    at[axis] = Expr::floordiv(at[axis], block);
    return at;
  }
  const Shape& scale = g.value(n.inputs[1]).shape;
  if (element_count(scale).is_const(1)) return Index(scale.size(), Expr(0));
  return {element[axis]};
}

graph::ValueId centered(OpBuilder& c, graph::ValueId q, graph::ValueId zero) {
  const graph::ValueId wide_q = c.cast(q, DType::I32);
  return zero == graph::kNone ? wide_q : c.sub(wide_q, c.cast(zero, DType::I32));
}

graph::ValueId repeat_blocks(OpBuilder& c, graph::ValueId v, int64_t axis, int64_t block,
                             const Expr& size) {
  // [.., n, ..] -> [.., n, block, ..] -> [.., n * block, ..], cut to the size.
  const Shape s = c.shape(v);
  const auto a = static_cast<size_t>(axis);
  Shape split = s;
  split.insert(split.begin() + axis + 1, Expr(1));
  Shape repeated = split;
  repeated[a + 1] = Expr(block);
  Shape flat = s;
  flat[a] *= Expr(block);
  return c.slice_axis(c.reshape(c.expand(c.reshape(v, split), repeated), flat), axis, 0, size);
}

namespace {

using V = OpBuilder::V;

bool quantized(DType t) {
  return is_int(t) && size_of(t) <= 2;
}

/// What QuantizeLinear makes and DequantizeLinear takes.
bool linearly_quantized(DType t) {
  return quantized(t) || (is_low_bit(t) && t != DType::F8E8M0);
}

constexpr const char* kLinearlyQuantized =
    "an integer of 2 to 16 bits or a float of 4 or 8 bits other than float8_e8m0fnu";

Status require_quantized(const InferContext& ctx, size_t i) {
  if (quantized(ctx.dtype(i))) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' is " + std::string(name_of(ctx.dtype(i))) +
                     ", expected an 8 or 16 bit integer");
}

// --- QuantizeLinear, DequantizeLinear ------------------------------------------------------------

Result<int64_t> quantized_axis(const InferContext& ctx) {
  const int64_t rank = ctx.rank(0);
  return rank == 0 ? Result<int64_t>(int64_t{0}) : ctx.axis(ctx.attrs().get_int("axis"), rank);
}

/// Checks a scale or zero point: one number, one per entry of the axis, or one per block.
Status check_scale(const InferContext& ctx, size_t i) {
  if (!ctx.has_input(i)) return {};
  const Shape& s = ctx.shape(i);
  const Shape& x = ctx.shape(0);
  const int64_t block = ctx.attrs().get_int("block_size");
  if (block < 0)
    return ctx.invalid("block_size is " + std::to_string(block) + ", must not be negative");
  if (block == 0 && s.size() <= 1 && element_count(s).is_const(1)) return {};
  RP_ASSIGN(const int64_t axis, quantized_axis(ctx));
  Shape wanted = x;
  if (block == 0) {
    wanted = x.empty() ? Shape{} : Shape{x[static_cast<size_t>(axis)]};
  } else if (!x.empty()) {
    Expr& d = wanted[static_cast<size_t>(axis)];
    d = Expr::ceildiv(d, Expr(block));
  }
  bool fits = wanted.size() == s.size();
  for (size_t d = 0; fits && d < s.size(); ++d) fits = ctx.unify(s[d], wanted[d], "dims").ok();
  if (fits) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' " + ctx.str(s) + " does not fit " +
                     ctx.str(x));
}

Status require_scale(const InferContext& ctx) {
  const DType t = ctx.dtype(1);
  if (!is_low_bit(t) || t == DType::F8E8M0) return {};
  return ctx.invalid("input '" + ctx.input(1).name + "' is " + std::string(name_of(t)) +
                     ", expected a scale of float or float8_e8m0fnu");
}

/// The float type to which QuantizeLinear rounds quotients: the attribute `precision`, or the type
/// of the scale.
Result<DType> quotient_dtype(const InferContext& ctx) {
  RP_ASSIGN(const DType t, ctx.attrs().get_int("precision") != 0 ? dtype_attr(ctx, "precision")
                                                                 : Result<DType>(ctx.dtype(1)));
  return is_float(t) ? t : DType::F32;
}

Status infer_quantize(InferContext& ctx) {
  DType to = DType::U8;
  if (ctx.has_input(2)) {
    to = ctx.dtype(2);
  } else {
    const int64_t number = ctx.attrs().get_int("output_dtype");
    if (number != 0) to = dtype_from_onnx(number);
  }
  if (!linearly_quantized(to)) {
    return ctx.error(Code::Unsupported, "the quantised type is " + std::string(name_of(to)) +
                                            ", must be " + kLinearlyQuantized);
  }
  RP_TRY(require_scale(ctx));
  RP_TRY(quotient_dtype(ctx).status());
  RP_TRY(check_scale(ctx, 1));
  RP_TRY(check_scale(ctx, 2));
  ctx.set_output(0, to, ctx.shape(0));
  return {};
}

Status infer_dequantize(InferContext& ctx) {
  if (!linearly_quantized(ctx.dtype(0))) RP_TRY(require_int(ctx, 0));
  if (ctx.dtype(1) != DType::F8E8M0) RP_TRY(require_float(ctx, 1));
  RP_TRY(check_scale(ctx, 1));
  RP_TRY(check_scale(ctx, 2));
  if (ctx.has_input(kMinimum)) {
    if (ctx.node().opset != 0) return ctx.invalid("has 4 inputs, expected 2 or 3");
    RP_TRY(require_float(ctx, kMinimum));
    RP_TRY(check_scale(ctx, kMinimum));
  }
  const int64_t number = ctx.attrs().get_int("output_dtype");
  const DType to = number != 0 ? dtype_from_onnx(number) : ctx.dtype(1);
  if (!is_float(to))
    return ctx.error(Code::Unsupported,
                     "output_dtype must be a float type, is " + std::string(name_of(to)));
  ctx.set_output(0, to, ctx.shape(0));
  return {};
}

/// Shapes a scale or zero point so that it broadcasts to x.
V aligned(OpBuilder& c, V v, const Shape& x) {
  const Shape s = c.shape(v);
  const auto rank = static_cast<int64_t>(x.size());
  const int64_t block = c.attrs().get_int("block_size");
  if (block == 0 && s.size() <= 1 && element_count(s).is_const(1)) return c.reshape(v, {});
  const int64_t given = c.attrs().get_int("axis");
  const int64_t axis = given < 0 ? given + rank : given;
  if (block == 0) return c.along_axis(v, axis, rank);
  return repeat_blocks(c, v, axis, block, x[static_cast<size_t>(axis)]);
}

/// The quantised value of q, a float32: rounded to the dtype and, unless the node says otherwise,
/// saturated to its range.
V saturating_cast(OpBuilder& c, V q, DType to) {
  if (is_low_bit_int(to)) {
    // A cast to so few bits wraps, but one to a byte saturates.
    const int bits = bits_of(to);
    const double least = is_signed_low_bit_int(to) ? -std::ldexp(1.0, bits - 1) : 0;
    const V byte = c.cast(q, carrier_of(to));
    return c.cast(c.clip(byte, least, least + std::ldexp(1.0, bits) - 1), to);
  }
  if (!is_low_bit(to)) return c.cast(q, to);
  AttrMap a;
  a.set("to", dtype_to_onnx(to));
  if (c.attrs().get_int("saturate") == 0) a.set("saturate", int64_t{0});
  return c.op("Cast", {q}, std::move(a));
}

/// round(x / scale) + zero, saturated to the dtype of output 0. Floats are rounded at the end.
Result<bool> quantize(Rewriter& rw) {
  RP_ASSIGN(const DType precision, quotient_dtype(InferContext(rw.graph(), rw.node())));
  OpBuilder c(rw);
  const DType to = c.dtype(rw.node().outputs[0]);
  const Shape shape = c.shape(c.in(0));
  // The quotient of two 16-bit floats is rounded correctly if it is first rounded to 32 bits.
  const auto operand = [&](V v) { return c.cast(c.cast(v, precision), DType::F32); };
  V q = operand(c.div_rn(operand(c.in(0)), operand(aligned(c, c.in(1), shape))));
  if (is_int(to) || is_low_bit_int(to)) q = c.op("Round", {q});
  if (c.has(2)) q = c.add(q, c.cast(aligned(c, c.in(2), shape), DType::F32));
  c.replace(0, saturating_cast(c, q, to));
  return c.finish();
}

/// (x - zero) * scale. The difference is exact in 32 bits.
Result<bool> dequantize(Rewriter& rw) {
  if (dequantizes(rw.node())) return false;
  OpBuilder c(rw);
  const Shape shape = c.shape(c.in(0));
  const DType from = c.dtype(c.in(0));
  const DType exact = is_low_bit(from) && !is_low_bit_int(from) ? DType::F32 : DType::I32;
  V x = c.cast(c.in(0), exact);
  if (c.has(2)) x = c.sub(x, c.cast(aligned(c, c.in(2), shape), exact));
  const V scale = c.cast(aligned(c, c.in(1), shape), DType::F32);
  c.replace(0, c.cast(c.mul(c.cast(x, DType::F32), scale), c.dtype(rw.node().outputs[0])));
  return c.finish();
}

/// Computes the same as dequantize() for the core form.
Status dequantize_element(ElementContext& ctx) {
  using kernel::Ty;
  kernel::Builder& b = ctx.builder();
  const auto as = [&](kernel::Val v, Ty type) {
    return b.type(v).ty == type ? v : b.convert(v, type);
  };
  const auto number = [&](size_t i, const Index& index) -> Result<kernel::Val> {
    RP_ASSIGN(const kernel::Val v, ctx.input(i, index));
    const DType t = ctx.graph().value(ctx.node().inputs[i]).dtype;
    return is_low_bit(t) ? low_bit_number(b, t, v) : v;
  };
  const Index at = scale_index(ctx.graph(), ctx.node(), ctx.index());
  RP_ASSIGN(kernel::Val x, number(0, ctx.index()));
  const Ty exact = b.type(x).ty == Ty::F32 ? Ty::F32 : Ty::I32;
  x = as(x, exact);
  if (has_input(ctx.node(), kZeroPoint)) {
    RP_ASSIGN(const kernel::Val zero, number(kZeroPoint, at));
    x = b.sub(x, as(zero, exact));
  }
  RP_ASSIGN(const kernel::Val scale, number(1, at));
  kernel::Val y = b.mul(as(x, Ty::F32), as(scale, Ty::F32));
  if (has_input(ctx.node(), kMinimum)) {
    RP_ASSIGN(const kernel::Val minimum, number(kMinimum, at));
    y = b.add(y, as(minimum, Ty::F32));
  }
  ctx.set(as(y, ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype).ty));
  return {};
}

// --- DynamicQuantizeLinear -----------------------------------------------------------------------

Status infer_dynamic(InferContext& ctx) {
  if (ctx.dtype(0) != DType::F32)
    return ctx.invalid("input is " + std::string(name_of(ctx.dtype(0))) + ", expected float32");
  ctx.set_output(0, DType::U8, ctx.shape(0));
  ctx.set_output(1, DType::F32, {});
  ctx.set_output(2, DType::U8, {});
  return {};
}

/// Computes scale and zero point from the range, which always includes 0. As in ONNX Runtime, an
/// empty range has a scale of 1.
Result<bool> dynamic_quantize(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = c.in(0);
  const auto axes = iota(0, static_cast<int64_t>(c.shape(x).size()));
  const V lo = c.min(c.reshape(c.reduce("ReduceMin", x, axes), {}), 0.0);
  const V hi = c.max(c.reshape(c.reduce("ReduceMax", x, axes), {}), 0.0);
  const V step = c.div_rn(c.sub(hi, lo), c.scalar(DType::F32, 255));
  const V empty = c.op("Equal", {step, c.scalar(DType::F32, 0)});
  const V scale = c.where(empty, c.scalar(DType::F32, 1), step);
  const V zero = c.op("Round", {c.clip(c.div_rn(c.op("Neg", {lo}), scale), 0, 255)});
  const V y = c.cast(c.add(c.op("Round", {c.div_rn(x, scale)}), zero), DType::U8);
  const V zero_point = c.cast(zero, DType::U8);
  c.replace(0, y);
  c.replace(1, scale);
  c.replace(2, zero_point);
  return c.finish();
}

// --- Integer matrix multiplications --------------------------------------------------------------

/// Shapes a zero point or scale that is one number or one per row ([M] -> [M, 1]).
V per_row(OpBuilder& c, V v) {
  const Shape s = c.shape(v);
  if (s.size() != 1) return v;
  return element_count(s).is_const(1) ? c.reshape(v, {}) : c.reshape(v, {s[0], Expr(1)});
}

V optional(OpBuilder& c, size_t i) {
  return c.has(i) ? c.in(i) : graph::kNone;
}

Status infer_matmul_integer(InferContext& ctx) {
  RP_TRY(require_quantized(ctx, 0));
  RP_TRY(require_quantized(ctx, 1));
  RP_ASSIGN(Shape out, matmul_shape(ctx, ctx.shape(0), ctx.shape(1)));
  ctx.set_output(0, DType::I32, std::move(out));
  return {};
}

Result<bool> matmul_integer(Rewriter& rw) {
  OpBuilder c(rw);
  const V a_zero = c.has(2) ? per_row(c, c.in(2)) : graph::kNone;
  const V a = centered(c, c.in(0), a_zero);
  const V b = centered(c, c.in(1), optional(c, 3));
  c.replace(0, c.matmul(a, b, c.shape(rw.node().outputs[0])));
  return c.finish();
}

Status infer_qlinear_matmul(InferContext& ctx) {
  RP_TRY(require_quantized(ctx, 0));
  RP_TRY(require_quantized(ctx, 3));
  RP_TRY(require_quantized(ctx, 7));
  RP_ASSIGN(Shape out, matmul_shape(ctx, ctx.shape(0), ctx.shape(3)));
  ctx.set_output(0, ctx.dtype(7), std::move(out));
  return {};
}

/// round(sum * factor) + zero, saturated
V requantize(OpBuilder& c, V sum, V factor, V zero, DType to) {
  const V scaled = c.op("Round", {c.mul(c.cast(sum, DType::F32), factor)});
  return c.cast(c.add(scaled, c.cast(c.reshape(zero, {}), DType::F32)), to);
}

Result<bool> qlinear_matmul(Rewriter& rw) {
  OpBuilder c(rw);
  const graph::ValueId out = rw.node().outputs[0];
  // On a device, the scale of the result must be one number.
  for (size_t i : {size_t{6}, size_t{7}}) {
    if (!element_count(c.shape(c.in(i))).is_const(1))
      return rw.keep("the scale of the result is not one number");
  }
  const V a = centered(c, c.in(0), per_row(c, c.in(2)));
  const V b = centered(c, c.in(3), c.in(5));
  const V sum = c.matmul(a, b, c.shape(out));
  const V ratio =
      c.div_rn(c.cast(per_row(c, c.in(1)), DType::F32), c.cast(c.reshape(c.in(6), {}), DType::F32));
  const V factor = c.mul(ratio, c.cast(c.in(4), DType::F32));
  const V one = element_count(c.shape(factor)).is_const(1) ? c.reshape(factor, {}) : factor;
  c.replace(0, requantize(c, sum, one, c.in(7), c.dtype(out)));
  return c.finish();
}

// --- Integer convolutions ------------------------------------------------------------------------

/// The shape of the convolution of input 0 with the input `weight`.
Result<Shape> conv_shape(const InferContext& ctx, size_t weight, Window& w) {
  if (ctx.rank(weight) != ctx.rank(0))
    return ctx.invalid("input " + ctx.str(ctx.shape(0)) + " and weight " +
                       ctx.str(ctx.shape(weight)) + " differ in rank");
  RP_ASSIGN(auto kernel, kernel_of_weight(ctx, weight));
  RP_ASSIGN(w, read_window(ctx, std::move(kernel), WindowUse::Conv));
  const int64_t group = ctx.attrs().get_int("group");
  if (group < 1 || group >= (int64_t{1} << 31))
    return ctx.invalid("group is " + std::to_string(group) + ", must be in [1, 2^31)");
  const Shape& k = ctx.shape(weight);
  RP_ASSIGN([[maybe_unused]] const Expr channels,
            ctx.unify(ctx.shape(0)[1], k[1] * Expr(group), "channels"));
  Shape out{ctx.shape(0)[0], k[0]};
  out.insert(out.end(), w.out.begin(), w.out.end());
  return out;
}

Status infer_conv_integer(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(require_quantized(ctx, 0));
  RP_TRY(require_quantized(ctx, 1));
  Window w;
  RP_ASSIGN(Shape out, conv_shape(ctx, 1, w));
  ctx.set_output(0, DType::I32, std::move(out));
  return {};
}

/// Shapes one number, or one per output channel ([M] -> [M, 1, ..]).
V per_channel(OpBuilder& c, V v, int64_t axis, int64_t rank) {
  if (v == graph::kNone) return v;
  return element_count(c.shape(v)).is_const(1) ? c.reshape(v, {}) : c.along_axis(v, axis, rank);
}

V integer_conv(OpBuilder& c, size_t weight, V x_zero, V w_zero, const Window& w) {
  const auto rank = static_cast<int64_t>(c.shape(c.in(0)).size());
  const V x = centered(c, c.in(0), per_channel(c, x_zero, 1, rank));
  const V k = centered(c, c.in(weight), per_channel(c, w_zero, 0, rank));
  return core_conv(c, x, k, w, c.attrs().get_int("group"));
}

Result<bool> conv_integer(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  Window w;
  RP_TRY(conv_shape(ctx, 1, w).status());
  OpBuilder c(rw);
  c.replace(0, integer_conv(c, 1, optional(c, 2), optional(c, 3), w));
  return c.finish();
}

Status infer_qlinear_conv(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  for (size_t i : {size_t{0}, size_t{3}, size_t{7}}) RP_TRY(require_quantized(ctx, i));
  Window w;
  RP_ASSIGN(Shape out, conv_shape(ctx, 3, w));
  ctx.set_output(0, ctx.dtype(7), std::move(out));
  return {};
}

Result<bool> qlinear_conv(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  Window w;
  RP_TRY(conv_shape(ctx, 3, w).status());
  OpBuilder c(rw);
  const auto rank = static_cast<int64_t>(c.shape(c.in(0)).size());
  V sum = integer_conv(c, 3, c.in(2), c.in(5), w);
  if (c.has(8)) sum = c.add(sum, c.along_axis(c.in(8), 1, rank));
  const V ratio = c.div_rn(c.reshape(c.in(1), {}), c.reshape(c.in(6), {}));
  const V factor = c.mul(ratio, per_channel(c, c.in(4), 1, rank));
  c.replace(0, requantize(c, sum, factor, c.in(7), c.dtype(rw.node().outputs[0])));
  return c.finish();
}

constexpr AttrDecl kQuantizeAttrs[] = {int_attr("axis", 1), int_attr("block_size", 0),
                                       int_attr("output_dtype", 0), int_attr("precision", 0),
                                       int_attr("saturate", 1)};
constexpr AttrDecl kDequantizeAttrs[] = {int_attr("axis", 1, CoreForm::Axis),
                                         int_attr("block_size", 0), int_attr("output_dtype", 0)};
constexpr AttrDecl kConvAttrs[] = {string_attr("auto_pad", "NOTSET"),
                                   optional_attr("dilations", AttrType::Ints),
                                   int_attr("group", 1),
                                   optional_attr("kernel_shape", AttrType::Ints),
                                   optional_attr("pads", AttrType::Ints),
                                   optional_attr("strides", AttrType::Ints)};

}  // namespace

std::span<const OpDef> quantize_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "QuantizeLinear",
       .infer = infer_quantize,
       .decompose = quantize,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kQuantizeAttrs,
       .low_bit = true},
      {.name = "DequantizeLinear",
       .infer = infer_dequantize,
       .decompose = dequantize,
       .lowering = Lowering::Scalar,
       .element = dequantize_element,
       .min_inputs = 2,
       .max_inputs = 4,
       .attributes = kDequantizeAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .dequantizes = true,
       .low_bit = true},
      {.name = "DynamicQuantizeLinear",
       .infer = infer_dynamic,
       .decompose = dynamic_quantize,
       .max_outputs = 3},
      {.name = "MatMulInteger",
       .infer = infer_matmul_integer,
       .decompose = matmul_integer,
       .min_inputs = 2,
       .max_inputs = 4},
      {.name = "QLinearMatMul",
       .infer = infer_qlinear_matmul,
       .decompose = qlinear_matmul,
       .min_inputs = 8,
       .max_inputs = 8},
      {.name = "ConvInteger",
       .infer = infer_conv_integer,
       .decompose = conv_integer,
       .min_inputs = 2,
       .max_inputs = 4,
       .attributes = kConvAttrs},
      {.name = "QLinearConv",
       .infer = infer_qlinear_conv,
       .decompose = qlinear_conv,
       .min_inputs = 8,
       .max_inputs = 9,
       .attributes = kConvAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
