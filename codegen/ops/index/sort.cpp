// TopK: the largest or smallest elements along an axis, sorted.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

/// The number of wanted elements, if it is known before a run.
std::optional<Expr> wanted(const InferContext& ctx) {
  if (const auto count = ctx.attrs().get_exprs("count"); !count.empty()) return count[0];
  if (ctx.has_input(1)) {
    const auto e = ctx.elements(1);
    return e && e->size() == 1 ? std::optional((*e)[0]) : std::nullopt;
  }
  if (const auto* k = ctx.attrs().get<int64_t>("k")) return Expr(*k);
  return std::nullopt;
}

Status infer_topk(InferContext& ctx) {
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  const auto a = static_cast<size_t>(axis);
  const std::optional<Expr> k = wanted(ctx);
  if (!k && !ctx.has_input(1)) return ctx.invalid("neither the attribute nor the input k is given");
  const Expr dim = ctx.shape(0)[a];
  if (k && !k->is_overflow()) {
    if (!may_equal(min_of(*k, dim, ctx.graph_symbols()), *k, ctx.graph_symbols()))
      return ctx.invalid("k = " + k->str(ctx.graph_symbols()) + " is larger than the dim " +
                         dim.str(ctx.graph_symbols()));
    ctx.at_least(dim, "the dim of axis " + std::to_string(axis), *k, "k");
    ctx.at_least(*k, "k", 0, "no elements");
  }
  Shape out = ctx.shape(0);
  out[a] = k ? *k : ctx.fresh_symbol(0, a);
  ctx.set_output(0, ctx.dtype(0), out);
  ctx.set_output(1, DType::I64, std::move(out));
  return {};
}

/// A known k becomes an attribute. Elements are always sorted, which all versions allow.
Result<bool> top_k(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (ctx.attrs().has("count")) return mark_core(rw);
  const std::optional<Expr> k = wanted(ctx);
  if (!k || k->is_overflow()) return false;
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  AttrMap a;
  a.set("axis", axis);
  a.set("count", std::vector<Expr>{*k});
  a.set("largest", ctx.attrs().get_int("largest"));
  RP_ASSIGN(const auto results, rw.emit_all(rw.node().op, {rw.node().inputs[0]}, std::move(a), 2));
  for (size_t i = 0; i < rw.node().outputs.size(); ++i) {
    if (rw.node().outputs[i] != graph::kNone) RP_TRY(rw.replace(i, results[i]));
  }
  return true;
}

constexpr AttrDecl kTopKAttrs[] = {
    int_attr("axis", -1, CoreForm::Axis), core_attr("count", CoreForm::Exprs),
    optional_attr("k", AttrType::Int, CoreForm::Absent), int_attr("largest", 1, CoreForm::Flag),
    int_attr("sorted", 1, CoreForm::Absent)};

}  // namespace

std::span<const OpDef> sort_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "TopK",
       .infer = infer_topk,
       .decompose = top_k,
       .lowering = Lowering::Kernel,
       .kernel = "sort",
       .max_inputs = 2,
       .max_outputs = 2,
       .attributes = kTopKAttrs,
       .sensitivity = kernel::Sensitivity::Decision,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
