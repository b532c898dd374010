// Elementwise functions of one input that are one scalar operation.
#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;

Status infer_float(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  return infer_same(ctx);
}

Status infer_number(InferContext& ctx) {
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0))) {
    return ctx.invalid("input '" + ctx.input(0).name + "' is " +
                       std::string(name_of(ctx.dtype(0))) + ", expected numbers");
  }
  return infer_same(ctx);
}

using Operands = std::span<const Expr>;

std::optional<Expr> negative(const ContentsContext&, Operands x) {
  return Expr(0) - x[0];
}
std::optional<Expr> absolute(const ContentsContext& ctx, Operands x) {
  return max_of(x[0], Expr(0) - x[0], ctx.graph_symbols());
}
std::optional<Expr> sign(const ContentsContext& ctx, Operands x) {
  return less_than(0, x[0], ctx.graph_symbols()) - less_than(x[0], 0, ctx.graph_symbols());
}
std::optional<Expr> relu(const ContentsContext& ctx, Operands x) {
  return max_of(x[0], 0, ctx.graph_symbols());
}

constexpr OpDef float_row(std::string_view name, ScalarOp row) {
  return {.name = name,
          .infer = infer_float,
          .decompose = mark_core,
          .lowering = Lowering::Scalar,
          .row = row,
          .layout = LayoutRole::Elementwise};
}

constexpr OpDef number_row(std::string_view name, ScalarOp row,
                           void (*contents)(ContentsContext&)) {
  return {.name = name,
          .infer = infer_number,
          .contents = contents,
          .decompose = mark_core,
          .lowering = Lowering::Scalar,
          .row = row,
          .layout = LayoutRole::Elementwise};
}

}  // namespace

std::span<const OpDef> unary_ops() {
  static constexpr OpDef kOps[] = {
      number_row("Abs", ScalarOp::Abs, elementwise<absolute>),
      number_row("Neg", ScalarOp::Neg, elementwise<negative>),
      number_row("Sign", ScalarOp::Sign, elementwise<sign>),
      number_row("Relu", ScalarOp::Relu, elementwise<relu>),
      float_row("Reciprocal", ScalarOp::Reciprocal),
      float_row("Floor", ScalarOp::Floor),
      float_row("Ceil", ScalarOp::Ceil),
      float_row("Round", ScalarOp::Round),
      float_row("Sqrt", ScalarOp::Sqrt),
      float_row("Exp", ScalarOp::Exp),
      float_row("Log", ScalarOp::Log),
      float_row("Sin", ScalarOp::Sin),
      float_row("Cos", ScalarOp::Cos),
      float_row("Tan", ScalarOp::Tan),
      float_row("Asin", ScalarOp::Asin),
      float_row("Acos", ScalarOp::Acos),
      float_row("Atan", ScalarOp::Atan),
      float_row("Sinh", ScalarOp::Sinh),
      float_row("Cosh", ScalarOp::Cosh),
      float_row("Tanh", ScalarOp::Tanh),
      float_row("Asinh", ScalarOp::Asinh),
      float_row("Acosh", ScalarOp::Acosh),
      float_row("Atanh", ScalarOp::Atanh),
      float_row("Erf", ScalarOp::Erf),
      float_row("Sigmoid", ScalarOp::Sigmoid),
      float_row("Softplus", ScalarOp::Softplus),
      float_row("Softsign", ScalarOp::Softsign),
      float_row("HardSwish", ScalarOp::HardSwish),
      float_row("Mish", ScalarOp::Mish),
  };
  return kOps;
}

}  // namespace reprise::ops
