#include "codegen/lower/lower.h"

#include <algorithm>

#include "codegen/graph/symbol_ranges.h"
#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/problems/attention.h"
#include "codegen/lower/problems/contraction.h"
#include "codegen/lower/problems/recurrent.h"

namespace reprise::lower {

using kernel::Builder;

namespace {

/// Whether no output has any element, whatever the dynamic dims are.
bool computes_nothing(const graph::Graph& g, const Group& group) {
  return std::ranges::all_of(
      group.outputs, [&](graph::ValueId v) { return element_count(g.value(v).shape).is_const(0); });
}

/// A kernel that is launched with no workgroups. Index arithmetic has no meaning if a dim is 0.
Result<Lowered> lower_nothing(const graph::Graph& g, const Group& group) {
  Builder b(kernel_name(group));
  Evaluator ev(g, group, b);
  for (const graph::ValueId v : group.outputs) ev.buffer(v);
  return finish(ev, b, group, 0, "nothing");
}

}  // namespace

Result<Lowered> lower(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      size_t choice, LoopForm form) {
  if (computes_nothing(g, group)) return lower_nothing(g, group);
  switch (group.kind) {
    case GroupKind::Row:
      return lower_row(g, group, target, choice, form);
    case GroupKind::Scan:
      return lower_scan(g, group, target, choice, form);
    case GroupKind::Pointwise:
      return lower_pointwise(g, group, target, choice, form);
    case GroupKind::Contraction:
      if (def_of(*group.anchor)->lowering == ops::Lowering::MatMul)
        return lower_matmul(g, group, target, choice);
      return lower_conv(g, group, target, choice);
    case GroupKind::Attention:
      return lower_attention(g, group, target, choice);
    case GroupKind::Sort:
      return lower_sort(g, group, target);
    case GroupKind::Recurrent:
      return lower_recurrent(g, group, target, choice, form);
    case GroupKind::AttentionGrad:
      return lower_attention_grad(g, group, target, choice);
    case GroupKind::Host:
      break;
  }
  return internal_error("a host group has no kernel");
}

Expr needs_long_form(const graph::Graph& g, const Lowered& short_form, const Group& group,
                     const TargetFacts& target) {
  const bool has_one = group.kind == GroupKind::Row || group.kind == GroupKind::Scan ||
                       group.kind == GroupKind::Pointwise || group.kind == GroupKind::Recurrent;
  if (!target.cpu_type() || !has_one) return 0;
  const Expr& iterations = short_form.launches[0].iterations;
  const Interval all = iterations.bounds(graph::symbol_ranges(g));
  if (!iterations.is_overflow() && all.max <= int64_t{kLeastLoopLimit}) return 0;
  return Expr::min(Expr::floordiv(iterations, int64_t{kLeastLoopLimit} + 1), 1);
}

}  // namespace reprise::lower
