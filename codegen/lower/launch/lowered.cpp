#include "codegen/lower/launch/lowered.h"

#include <algorithm>
#include <limits>

#include "codegen/kernel/check/verify_reloads.h"

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

void bind_result(Evaluator& ev, const Group& group, const Index& index, Val result) {
  const graph::Graph& g = ev.graph();
  kernel::Builder& b = ev.builder();
  const graph::ValueId anchor = group.anchor->outputs[0];
  const kernel::Type type = ev.compute(g.value(anchor).dtype);
  if (b.type(result).ty != type.ty) result = b.convert(result, type.ty);
  ev.bind(anchor, index, result);
  ev.add_element(index, group.domain);
}

Status store_result(Evaluator& ev, const Group& group, const Index& index, Val result, int lanes) {
  bind_result(ev, group, index, result);
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

}  // namespace reprise::lower
