// Conversions between element types.
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/low_bit.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Result<LowBitRules> rules_of(const Attributes& attrs) {
  const std::string mode = attrs.get_string("round_mode");
  const auto power = power_rounding(mode);
  if (!power)
    return invalid_model("attribute 'round_mode' is '" + mode + "'; known: up, down, nearest");
  return LowBitRules{attrs.get_int("saturate") != 0, *power};
}

Status infer_cast_to(InferContext& ctx, DType to) {
  ctx.set_output(0, to, ctx.shape(0));
  return {};
}

Status check_rules(const InferContext& ctx) {
  const Status s = rules_of(ctx.attrs()).status();
  return s.ok() ? s : ctx.invalid(s.message());
}

/// The contents are the same numbers, if the dtype can represent them.
void cast_contents(ContentsContext& ctx) {
  auto e = ctx.elements(0);
  if (!e) return;
  if (ctx.output(0).dtype == DType::Bool) {
    for (Expr& x : *e) x = Expr(1) - equal_to(x, 0, ctx.graph_symbols());
  }
  ctx.set_elements(0, std::move(*e));
}

Status infer_cast(InferContext& ctx) {
  RP_ASSIGN(const DType to, dtype_attr(ctx, "to"));
  RP_TRY(check_rules(ctx));
  return infer_cast_to(ctx, to);
}

Status infer_cast_like(InferContext& ctx) {
  RP_TRY(check_rules(ctx));
  return infer_cast_to(ctx, ctx.dtype(1));
}

/// Devices do not compute with strings. They convert numbers to a low-bit float by way of float32,
/// which is refused where that would round twice.
bool on_device(DType from, DType to) {
  if (from == DType::String || to == DType::String) return false;
  if (!is_low_bit(to) || is_low_bit_int(to)) return true;
  // Integers that float32 rounds are beyond the range of all but F8E8M0.
  const bool exact = from != DType::F64 && (!is_int(from) || size_of(from) < 4);
  return exact || (is_int(from) && from != DType::U64 && to != DType::F8E8M0);
}

/// Devices round such numbers twice, or have no form of the dtypes, which lowering says.
Result<bool> on_host(Rewriter& rw, DType to) {
  if (rw.input(0).dtype == DType::String || to == DType::String) return false;
  return rw.keep("devices convert " + std::string(name_of(rw.input(0).dtype)) + " to " +
                 std::string(name_of(to)) + " by way of float32, which rounds twice");
}

/// Removes the attributes that do not affect a cast to this type.
void drop_idle_rules(AttrMap& attrs, DType to) {
  const bool rounds = is_low_bit(to) && !is_low_bit_int(to);
  if (!rounds || attrs.get_int("saturate", 1) != 0) attrs.erase("saturate");
  if (to != DType::F8E8M0) attrs.erase("round_mode");
}

Result<bool> cast(Rewriter& rw) {
  const DType to = dtype_from_onnx(Attributes(rw.node()).get_int("to"));
  if (!on_device(rw.input(0).dtype, to)) return on_host(rw, to);
  drop_idle_rules(rw.node().attrs, to);
  return mark_core(rw);
}

Result<bool> cast_like(Rewriter& rw) {
  const DType to = rw.input(1).dtype;
  if (!on_device(rw.input(0).dtype, to)) return on_host(rw, to);
  AttrMap a = rw.node().attrs;
  drop_idle_rules(a, to);
  a.set("to", dtype_to_onnx(to));
  RP_ASSIGN(const graph::ValueId v, rw.emit("Cast", {rw.node().inputs[0]}, std::move(a)));
  RP_TRY(rw.replace(0, v));
  return true;
}

/// A conversion from float to an integer saturates to the dtype.
kernel::Val saturated(kernel::Builder& b, DType to, kernel::Val v) {
  const int bits = bits_of(to);
  const int64_t hi = (int64_t{1} << (is_signed_int(to) ? bits - 1 : bits)) - 1;
  const int64_t lo = is_signed_int(to) ? -hi - 1 : 0;
  const kernel::Val wide = b.convert(v, kernel::Ty::I32);
  const kernel::Type i32 = b.type(wide);
  return b.min(b.max(wide, b.constant(i32, static_cast<double>(lo))),
               b.constant(i32, static_cast<double>(hi)));
}

/// The code of v, a number as kernels compute with it.
kernel::Val low_bit_element(kernel::Builder& b, DType to, kernel::Val v, LowBitRules rules) {
  using kernel::Ty;
  const auto lanes = static_cast<int>(b.type(v).lanes);
  if (b.type(v).ty == Ty::Bool) {
    const kernel::Type u32 = kernel::vec(kernel::kU32, lanes);
    v = b.select(v, b.constant(u32, 1), b.constant(u32, 0));
  }
  if (!is_low_bit_int(to) && b.type(v).ty != Ty::F32) v = b.convert(v, Ty::F32);
  return low_bit_code(b, to, v, rules);
}

/// Integers narrower than 32 bits live in 32-bit registers. A conversion from float saturates to
/// the dtype, and one from an integer wraps, as all results do. Works on vectors.
Status cast_element(ElementContext& ctx) {
  using kernel::ScalarOp;
  kernel::Builder& b = ctx.builder();
  const DType to = ctx.graph().value(ctx.node().outputs[0]).dtype;
  DType from = ctx.graph().value(ctx.node().inputs[0]).dtype;
  RP_ASSIGN(kernel::Val v, ctx.input(0, ctx.index()));
  const bool power = from == DType::F8E8M0;
  if (is_low_bit(from) && to != from) {
    v = low_bit_number(b, from, v);
    from = low_bit_number_type(from);
  }
  const kernel::Type source = b.type(v);
  const kernel::Type target = kernel::vec(ctx.compute(to), source.lanes);
  if (to == from) {
    ctx.set(v);
    return {};
  }
  if (is_low_bit(to)) {
    RP_ASSIGN(const LowBitRules rules, rules_of(Attributes(ctx.node())));
    ctx.set(low_bit_element(b, to, v, rules));
    return {};
  }
  if (to == DType::Bool) {
    // F8E8M0 has no zero, but a device may take its least number, a subnormal float32, as zero.
    const kernel::Val yes = b.constant(kernel::vec(kernel::kBool, source.lanes), 1);
    ctx.set(power ? yes : b.scalar_op(ScalarOp::NotEqual, {v, b.constant(source, 0)}));
    return {};
  }
  if (from == DType::Bool) {
    ctx.set(b.select(v, b.constant(target, 1), b.constant(target, 0)));
    return {};
  }
  if (is_int(to) && bits_of(to) < 32 && is_float(from)) v = saturated(b, to, v);
  // Kernels compute bfloat16 in float32, which would round a float64 once more.
  if (from == DType::F64 && to == DType::BF16) v = b.scalar_op(ScalarOp::RoundBF16, {v});
  if (b.type(v) != target) v = b.convert(v, target.ty);
  ctx.set(v);
  return {};
}

// --- BitCast -------------------------------------------------------------------------------------

Status infer_bit_cast(InferContext& ctx) {
  RP_ASSIGN(const DType to, dtype_attr(ctx, "to"));
  const DType from = ctx.dtype(0);
  if (bits_of(from) == 0 || bits_of(to) != bits_of(from)) {
    return ctx.invalid("cannot read the bits of " + std::string(name_of(from)) + " as " +
                       std::string(name_of(to)) + ": elements must have equal sizes");
  }
  return infer_cast_to(ctx, to);
}

/// Devices hold elements of 32 bits, and 16-bit floats as float32, so the bits of other floats and
/// of low-bit types are read on the host. Between integers of one size the bits are those that a
/// conversion gives.
Result<bool> bit_cast(Rewriter& rw) {
  const DType from = rw.input(0).dtype;
  const DType to = dtype_from_onnx(Attributes(rw.node()).get_int("to"));
  const bool low_bit = from != to && (is_low_bit(from) || is_low_bit(to));
  const bool reads_bits = from != to && (is_float(from) || is_float(to));
  if (low_bit || (reads_bits && size_of(from) != 4))
    return rw.keep("devices hold elements in 32 bits, not those of " + std::string(name_of(from)));
  if (reads_bits) return mark_core(rw);
  AttrMap a;
  a.set("to", dtype_to_onnx(to));
  RP_ASSIGN(const graph::ValueId v, rw.emit("Cast", {rw.node().inputs[0]}, std::move(a)));
  RP_TRY(rw.replace(0, v));
  return true;
}

Status bit_cast_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  RP_ASSIGN(const kernel::Val v, ctx.input(0, ctx.index()));
  const DType to = ctx.graph().value(ctx.node().outputs[0]).dtype;
  ctx.set(b.bitcast(v, kernel::vec(ctx.compute(to), b.type(v).lanes)));
  return {};
}

constexpr AttrDecl kBitCastAttrs[] = {required_attr("to", AttrType::Int, CoreForm::Int)};
constexpr AttrDecl kCastAttrs[] = {required_attr("to", AttrType::Int, CoreForm::Int),
                                   int_attr("saturate", 1), string_attr("round_mode", "up")};
constexpr AttrDecl kCastLikeAttrs[] = {int_attr("saturate", 1), string_attr("round_mode", "up")};

}  // namespace

graph::NodeSpec cast_node(DType to) {
  graph::NodeSpec n;
  n.op = "Cast";
  n.attrs.set("to", dtype_to_onnx(to));
  return n;
}

std::span<const OpDef> cast_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Cast",
       .infer = infer_cast,
       .contents = cast_contents,
       .decompose = cast,
       .lowering = Lowering::Scalar,
       .element = cast_element,
       .min_opset = 6,
       .attributes = kCastAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Elementwise,
       .converts = true,
       .low_bit = true,
       .is_identity = always_identity},
      {.name = "CastLike",
       .infer = infer_cast_like,
       .contents = cast_contents,
       .decompose = cast_like,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kCastLikeAttrs,
       .low_bit = true},
      {.name = "BitCast",
       .infer = infer_bit_cast,
       .decompose = bit_cast,
       .lowering = Lowering::Scalar,
       .element = bit_cast_element,
       .attributes = kBitCastAttrs,
       .sensitivity = kernel::Sensitivity::Step,
       .layout = LayoutRole::Elementwise,
       .low_bit = true},
  };
  return kOps;
}

}  // namespace reprise::ops
