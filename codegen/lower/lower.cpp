#include "codegen/lower/lower.h"

#include <algorithm>
#include <limits>

#include "codegen/graph/symbol_ranges.h"
#include "codegen/kernel/verify_reloads.h"
#include "codegen/lower/attention.h"
#include "codegen/lower/contraction.h"

namespace reprise::lower {

using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

namespace {
constexpr int64_t kGridLimit = 65535;
// A loop's share of kLeastLoopLimit, if its number of iterations is constant. A kernel of up to
// seven such loops stays below the limit; a session refuses a kernel that does not.
constexpr int64_t kLoopShare = 8192;
// In the long form, a loop with a dynamic number of iterations is unrolled this many times.
constexpr int64_t kLongCopies = 16;
}  // namespace

std::array<Expr, 3> linear_grid(const Expr& groups) {
  if (groups.is_const() && groups.value() <= kGridLimit) return {groups, Expr(1), Expr(1)};
  return {Expr::min(groups, kGridLimit), Expr::ceildiv(groups, kGridLimit), Expr(1)};
}

Value linear_workgroup(Builder& b, const Expr& groups) {
  const Value x = b.convert(b.builtin(Builtin::WorkgroupId, 0), Ty::I32);
  if (groups.is_const() && groups.value() <= kGridLimit) return x;
  return b.convert(b.builtin(Builtin::WorkgroupId, 1), Ty::I32) * kGridLimit + x;
}

Value linear_invocation(Builder& b, const Expr& groups, uint32_t workgroup) {
  // Separate statements, as C++ leaves the order in which operands are evaluated unspecified.
  const Value group = linear_workgroup(b, groups);
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  return group * workgroup + local;
}

Status guard_units(Evaluator& ev, Value id, const Expr& units, int64_t per_group,
                   const std::function<Status()>& body) {
  const bool exact =
      units.is_const() && units.value() % per_group == 0 && units.value() / per_group <= kGridLimit;
  return ev.guard(exact ? Val{} : id < ev.value(units), body);
}

Index output_index(Evaluator& ev, const Group& group, graph::ValueId v, const Index& index) {
  const Shape& shape = ev.graph().value(v).shape;
  return shape == group.domain ? index : ev.unflatten(ev.flatten(index, group.domain), shape);
}

Status store_result(Evaluator& ev, const Group& group, const Index& index, Val result, int lanes) {
  const graph::Graph& g = ev.graph();
  kernel::Builder& b = ev.builder();
  const graph::ValueId anchor = group.anchor->outputs[0];
  const kernel::Type type = ev.compute(g.value(anchor).dtype);
  if (b.type(result).ty != type.ty) result = b.convert(result, type.ty);
  ev.bind(anchor, index, result);
  ev.add_element(index, group.domain);
  for (graph::ValueId v : group.outputs) {
    if (v == group.attention.log_sum) continue;  // the template stores it
    const Index at = output_index(ev, group, v, index);
    RP_ASSIGN(const Val val, ev.eval(v, at, lanes));
    RP_TRY(ev.store(v, at, val, lanes));
  }
  return {};
}

void limit_loops(Evaluator& ev, const TargetFacts& target, LoopForm form) {
  if (target.cpu_type()) ev.limit_loops(kLoopShare, form == LoopForm::Long ? kLongCopies : 1);
}

Result<Lowered> finish(Evaluator& ev, Builder& b, const Group& group, const Expr& groups,
                       std::string schedule) {
  RP_TRY(ev.status());
  LoweredLaunch launch;
  const Expr unknown = std::numeric_limits<int32_t>::max();
  launch.iterations = ev.iterations().is_overflow() ? unknown : ev.iterations();
  for (const Evaluator::BufferUse& u : ev.buffers()) {
    const bool output =
        std::find(group.outputs.begin(), group.outputs.end(), u.value) != group.outputs.end();
    const auto form = group.packed.find(u.value);
    if (u.packed && form != group.packed.end())
      launch.packed.push_back({form->second, static_cast<int>(launch.buffers.size())});
    launch.buffers.push_back({u.value, u.scratch, u.writes || output, u.packed});
  }
  launch.scalars = ev.scalars();
  launch.grid = linear_grid(groups);
  RP_ASSIGN(launch.kernel, b.finish());
  RP_TRY(kernel::verify_reloads(launch.kernel));
  RP_TRY(kernel::coalesce_loads(launch.kernel));
  Lowered out;
  out.launches.push_back(std::move(launch));
  out.scratch = ev.scratch();
  out.schedule = std::move(schedule);
  return out;
}

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
