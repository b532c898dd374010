// Comparisons, boolean logic and choice.
#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;

using Operands = std::span<const Expr>;

std::optional<Expr> equal(const ContentsContext& ctx, Operands x) {
  return equal_to(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> not_equal(const ContentsContext& ctx, Operands x) {
  return Expr(1) - equal_to(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> less(const ContentsContext& ctx, Operands x) {
  return less_than(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> greater(const ContentsContext& ctx, Operands x) {
  return less_than(x[1], x[0], ctx.graph_symbols());
}
std::optional<Expr> less_or_equal(const ContentsContext& ctx, Operands x) {
  return Expr(1) - less_than(x[1], x[0], ctx.graph_symbols());
}
std::optional<Expr> greater_or_equal(const ContentsContext& ctx, Operands x) {
  return Expr(1) - less_than(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> conjunction(const ContentsContext&, Operands x) {
  return x[0] * x[1];
}
std::optional<Expr> disjunction(const ContentsContext& ctx, Operands x) {
  return max_of(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> exclusive(const ContentsContext&, Operands x) {
  return x[0] + x[1] - Expr(2) * x[0] * x[1];
}
std::optional<Expr> negation(const ContentsContext&, Operands x) {
  return Expr(1) - x[0];
}
std::optional<Expr> chosen(const ContentsContext&, Operands x) {
  return select(x[0], x[1], x[2]);
}

Status infer_pair(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  const Shape shapes[] = {ctx.shape(0), ctx.shape(1)};
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, DType::Bool, out);
  return {};
}

Status infer_order(InferContext& ctx) {
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0))) {
    return ctx.invalid("inputs are " + std::string(name_of(ctx.dtype(0))) + ", expected numbers");
  }
  return infer_pair(ctx);
}

Status require_bool(const InferContext& ctx, size_t i) {
  if (ctx.dtype(i) == DType::Bool) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' is " + std::string(name_of(ctx.dtype(i))) +
                     ", expected bool");
}

Status infer_boolean(InferContext& ctx) {
  RP_TRY(require_bool(ctx, 0));
  return infer_pair(ctx);
}

Status infer_not(InferContext& ctx) {
  RP_TRY(require_bool(ctx, 0));
  return infer_same(ctx);
}

Status infer_where(InferContext& ctx) {
  RP_TRY(require_bool(ctx, 0));
  if (ctx.dtype(1) != ctx.dtype(2)) {
    return ctx.invalid("branches differ in dtype: " + std::string(name_of(ctx.dtype(1))) + " and " +
                       std::string(name_of(ctx.dtype(2))));
  }
  const Shape shapes[] = {ctx.shape(0), ctx.shape(1), ctx.shape(2)};
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, ctx.dtype(1), out);
  return {};
}

Status infer_classify(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  ctx.set_output(0, DType::Bool, ctx.shape(0));
  return {};
}

Result<bool> is_inf(Rewriter& rw) {
  OpBuilder c(rw);
  const bool negative = c.attrs().get_int("detect_negative") != 0;
  const bool positive = c.attrs().get_int("detect_positive") != 0;
  if (negative && positive) {
    rw.node().attrs = {};
    return mark_core(rw);
  }
  const auto x = c.in(0);
  const auto zero = c.scalar(c.dtype(x), 0);
  const auto wanted = c.op(positive ? "Greater" : "Less", {x, zero});
  const auto inf = c.op("IsInf", {x});
  c.replace(0, negative || positive ? c.op("And", {inf, wanted})
                                    : c.op("And", {inf, c.op("Not", {inf})}));
  return c.finish();
}

constexpr AttrDecl kIsInfAttrs[] = {int_attr("detect_negative", 1), int_attr("detect_positive", 1)};

constexpr OpDef pair(std::string_view name, ScalarOp row, Status (*infer)(InferContext&),
                     void (*contents)(ContentsContext&)) {
  return {.name = name,
          .infer = infer,
          .contents = contents,
          .decompose = mark_core,
          .lowering = Lowering::Scalar,
          .row = row,
          .min_opset = 7,
          .min_inputs = 2,
          .max_inputs = 2,
          .layout = LayoutRole::Elementwise};
}

}  // namespace

std::span<const OpDef> logic_ops() {
  static constexpr OpDef kOps[] = {
      pair("Equal", ScalarOp::Equal, infer_pair, elementwise<equal>),
      pair("NotEqual", ScalarOp::NotEqual, infer_pair, elementwise<not_equal>),
      pair("Less", ScalarOp::Less, infer_order, elementwise<less>),
      pair("LessOrEqual", ScalarOp::LessOrEqual, infer_order, elementwise<less_or_equal>),
      pair("Greater", ScalarOp::Greater, infer_order, elementwise<greater>),
      pair("GreaterOrEqual", ScalarOp::GreaterOrEqual, infer_order, elementwise<greater_or_equal>),
      pair("And", ScalarOp::And, infer_boolean, elementwise<conjunction>),
      pair("Or", ScalarOp::Or, infer_boolean, elementwise<disjunction>),
      pair("Xor", ScalarOp::Xor, infer_boolean, elementwise<exclusive>),
      {.name = "Not",
       .infer = infer_not,
       .contents = elementwise<negation>,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Not,
       .layout = LayoutRole::Elementwise},
      {.name = "Where",
       .infer = infer_where,
       .contents = elementwise<chosen>,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Where,
       .min_inputs = 3,
       .max_inputs = 3,
       .layout = LayoutRole::Elementwise,
       .low_bit = true},
      {.name = "IsNaN",
       .infer = infer_classify,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::IsNaN,
       .layout = LayoutRole::Elementwise},
      {.name = "IsInf",
       .infer = infer_classify,
       .decompose = is_inf,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::IsInf,
       .attributes = kIsInfAttrs,
       .layout = LayoutRole::Elementwise},
  };
  return kOps;
}

}  // namespace reprise::ops
