// Conversions between element types.
#include "codegen/ops/core_nodes.h"
#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

Status infer_cast_to(InferContext& ctx, DType to) {
  ctx.set_output(0, to, ctx.shape(0));
  return {};
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
  if (ctx.attrs().get_int("saturate") == 0) {
    return ctx.error(Code::Unsupported, "saturate = 0 belongs to float8, which is not supported");
  }
  return infer_cast_to(ctx, to);
}

Status infer_cast_like(InferContext& ctx) {
  return infer_cast_to(ctx, ctx.dtype(1));
}

Result<bool> cast(Rewriter& rw) {
  // Devices do not compute with strings.
  const DType to = dtype_from_onnx(Attributes(rw.node()).get_int("to"));
  if (to == DType::String || rw.input(0).dtype == DType::String) return false;
  rw.node().attrs.erase("saturate");
  rw.node().attrs.erase("round_mode");
  return mark_core(rw);
}

Result<bool> cast_like(Rewriter& rw) {
  if (rw.input(0).dtype == DType::String || rw.input(1).dtype == DType::String) return false;
  AttrMap a;
  a.set("to", dtype_to_onnx(rw.input(1).dtype));
  RP_ASSIGN(const graph::ValueId v, rw.emit("Cast", {rw.node().inputs[0]}, std::move(a)));
  RP_TRY(rw.replace(0, v));
  return true;
}

/// Integers narrower than 32 bits live in 32-bit registers. A conversion from float saturates to
/// the dtype, and one from an integer wraps, as all results do. Works on vectors.
Status cast_element(ElementContext& ctx) {
  using kernel::ScalarOp;
  kernel::Builder& b = ctx.builder();
  const DType to = ctx.graph().value(ctx.node().outputs[0]).dtype;
  const DType from = ctx.graph().value(ctx.node().inputs[0]).dtype;
  RP_ASSIGN(kernel::Val v, ctx.input(0, ctx.index()));
  const kernel::Type source = b.type(v);
  const kernel::Type target = kernel::vec(ctx.compute(to), source.lanes);
  if (to == from) {
    ctx.set(v);
    return {};
  }
  if (to == DType::Bool) {
    ctx.set(b.scalar_op(ScalarOp::NotEqual, {v, b.constant(source, 0)}));
    return {};
  }
  if (from == DType::Bool) {
    ctx.set(b.select(v, b.constant(target, 1), b.constant(target, 0)));
    return {};
  }
  const int bits = static_cast<int>(size_of(to)) * 8;
  if (is_int(to) && bits < 32 && is_float(from)) {
    const int64_t hi = (int64_t{1} << (is_signed_int(to) ? bits - 1 : bits)) - 1;
    const int64_t lo = is_signed_int(to) ? -hi - 1 : 0;
    const kernel::Val wide = b.convert(v, kernel::Ty::I32);
    const kernel::Type i32 = b.type(wide);
    v = b.min(b.max(wide, b.constant(i32, static_cast<double>(lo))),
              b.constant(i32, static_cast<double>(hi)));
  }
  if (b.type(v) != target) v = b.convert(v, target.ty);
  ctx.set(v);
  return {};
}

// --- BitCast -------------------------------------------------------------------------------------

Status infer_bit_cast(InferContext& ctx) {
  RP_ASSIGN(const DType to, dtype_attr(ctx, "to"));
  const DType from = ctx.dtype(0);
  if (size_of(from) == 0 || size_of(to) != size_of(from)) {
    return ctx.invalid("cannot read the bits of " + std::string(name_of(from)) + " as " +
                       std::string(name_of(to)) + ": elements must have equal sizes");
  }
  return infer_cast_to(ctx, to);
}

/// Devices hold elements of 32 bits, and 16-bit floats as float32, so the bits of other floats are
/// read on the host. Between integers of one size the bits are those that a conversion gives.
Result<bool> bit_cast(Rewriter& rw) {
  const DType from = rw.input(0).dtype;
  const DType to = dtype_from_onnx(Attributes(rw.node()).get_int("to"));
  if (from != to && (is_float(from) || is_float(to))) {
    return size_of(from) == 4 ? mark_core(rw) : Result<bool>(false);
  }
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
       .is_identity = always_identity},
      {.name = "CastLike",
       .infer = infer_cast_like,
       .contents = cast_contents,
       .decompose = cast_like,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kCastLikeAttrs},
      {.name = "BitCast",
       .infer = infer_bit_cast,
       .decompose = bit_cast,
       .lowering = Lowering::Scalar,
       .element = bit_cast_element,
       .attributes = kBitCastAttrs,
       .sensitivity = kernel::Sensitivity::Step,
       .layout = LayoutRole::Elementwise},
  };
  return kOps;
}

}  // namespace reprise::ops
