// Comparisons, boolean logic and choice.
#include "codegen/ops/compose.h"
#include "codegen/ops/families.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;

std::optional<Expr> compare(const std::string& op, const Expr& a, const Expr& b,
                            std::span<const Symbol> t) {
  if (op == "Equal") return equal_to(a, b, t);
  if (op == "NotEqual") return Expr(1) - equal_to(a, b, t);
  if (op == "Less") return less_than(a, b, t);
  if (op == "Greater") return less_than(b, a, t);
  if (op == "LessOrEqual") return Expr(1) - less_than(b, a, t);
  if (op == "GreaterOrEqual") return Expr(1) - less_than(a, b, t);
  if (op == "And") return a * b;
  if (op == "Or") return max_of(a, b, t);
  if (op == "Xor") return a + b - Expr(2) * a * b;
  return std::nullopt;
}

/// Element of a vector or scalar that is broadcast to `count` elements; null when it is neither.
const Expr* at(const std::vector<Expr>& e, size_t i, size_t count) {
  if (e.size() == 1) return &e[0];
  return e.size() == count ? &e[i] : nullptr;
}

Status infer_pair(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  const Shape shapes[] = {ctx.shape(0), ctx.shape(1)};
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, DType::Bool, out);
  const auto a = ctx.elements(0);
  const auto b = ctx.elements(1);
  const Expr n = element_count(out);
  if (!a || !b || !n.is_const() || n.value() > kMaxElements || out.size() > 1) return {};
  std::vector<Expr> result;
  for (size_t i = 0; i < static_cast<size_t>(n.value()); ++i) {
    const Expr* x = at(*a, i, static_cast<size_t>(n.value()));
    const Expr* y = at(*b, i, static_cast<size_t>(n.value()));
    if (x == nullptr || y == nullptr) return {};
    const auto r = compare(ctx.node().op, *x, *y, ctx.graph_symbols());
    if (!r) return {};
    result.push_back(*r);
  }
  ctx.set_elements(0, std::move(result));
  return {};
}

Status infer_order(InferContext& ctx) {
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0))) {
    return ctx.invalid("inputs are " + std::string(name_of(ctx.dtype(0))) + ", need numbers");
  }
  return infer_pair(ctx);
}

Status require_bool(const InferContext& ctx, size_t i) {
  if (ctx.dtype(i) == DType::Bool) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' is " + std::string(name_of(ctx.dtype(i))) +
                     ", needs bool");
}

Status infer_boolean(InferContext& ctx) {
  RP_TRY(require_bool(ctx, 0));
  return infer_pair(ctx);
}

Status infer_not(InferContext& ctx) {
  RP_TRY(require_bool(ctx, 0));
  RP_TRY(infer_same(ctx));
  auto e = ctx.elements(0);
  if (!e) return {};
  for (Expr& x : *e) x = Expr(1) - x;
  ctx.set_elements(0, std::move(*e));
  return {};
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
  const auto c = ctx.elements(0);
  const auto a = ctx.elements(1);
  const auto b = ctx.elements(2);
  const Expr n = element_count(out);
  if (!c || !a || !b || !n.is_const() || n.value() > kMaxElements || out.size() > 1) return {};
  const auto count = static_cast<size_t>(n.value());
  std::vector<Expr> result;
  for (size_t i = 0; i < count; ++i) {
    const Expr* cond = at(*c, i, count);
    const Expr* x = at(*a, i, count);
    const Expr* y = at(*b, i, count);
    if (cond == nullptr || x == nullptr || y == nullptr) return {};
    result.push_back(select(*cond, *x, *y));
  }
  ctx.set_elements(0, std::move(result));
  return {};
}

Status infer_classify(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  ctx.set_output(0, DType::Bool, ctx.shape(0));
  return {};
}

Result<bool> is_inf(Rewriter& rw) {
  Compose c(rw);
  const bool negative = c.attrs().get_int("detect_negative", 1) != 0;
  const bool positive = c.attrs().get_int("detect_positive", 1) != 0;
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

constexpr OpDef pair(std::string_view name, ScalarOp row, Status (*infer)(InferContext&)) {
  return {.name = name,
          .infer = infer,
          .decompose = mark_core,
          .lowering = Lowering::Scalar,
          .row = row,
          .min_opset = 7,
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace

std::span<const OpDef> logic_ops() {
  static constexpr OpDef kOps[] = {
      pair("Equal", ScalarOp::Equal, infer_pair),
      pair("NotEqual", ScalarOp::NotEqual, infer_pair),
      pair("Less", ScalarOp::Less, infer_order),
      pair("LessOrEqual", ScalarOp::LessOrEqual, infer_order),
      pair("Greater", ScalarOp::Greater, infer_order),
      pair("GreaterOrEqual", ScalarOp::GreaterOrEqual, infer_order),
      pair("And", ScalarOp::And, infer_boolean),
      pair("Or", ScalarOp::Or, infer_boolean),
      pair("Xor", ScalarOp::Xor, infer_boolean),
      {.name = "Not",
       .infer = infer_not,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Not},
      {.name = "Where",
       .infer = infer_where,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Where,
       .min_inputs = 3,
       .max_inputs = 3},
      {.name = "IsNaN",
       .infer = infer_classify,
       .decompose = mark_core,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::IsNaN},
      {.name = "IsInf",
       .infer = infer_classify,
       .decompose = is_inf,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::IsInf,
       .attributes = "detect_negative detect_positive"},
  };
  return kOps;
}

}  // namespace reprise::ops
