#include "codegen/compile/device_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "codegen/compile/host_plan.h"
#include "codegen/compile/kernel_table.h"
#include "codegen/lower/launch/packed_weights.h"
#include "codegen/options/compile_hooks.h"
#include "codegen/plan/state_updates.h"
#include "runtime/base/timing.h"

namespace reprise {
namespace {

using graph::Node;

std::vector<std::string> origins_of(const lower::Group& group) {
  std::vector<std::string> out;
  for (const Node* n : group.nodes) {
    for (const std::string& o : n->origins) {
      if (std::find(out.begin(), out.end(), o) == out.end()) out.push_back(o);
    }
  }
  return out;
}

/// "kernel 'add' (nodes 'a', 'b')"
std::string described(const lower::Group& group) {
  std::string nodes;
  for (const std::string& name : origins_of(group))
    nodes += (nodes.empty() ? "'" : ", '") + name + "'";
  return "kernel '" + kernel_name(group) + "' (nodes " + nodes + ")";
}

/// A launch without its group, nodes and schedule. `scratch`: the plan's buffers for the group's
/// scratch memory.
plan::Launch make_launch(const lower::LoweredLaunch& lowered,
                         const std::vector<plan::BufferId>& scratch, PlanBuffers& buffers) {
  plan::Launch launch;
  launch.grid = lowered.grid;
  launch.scalars = lowered.scalars;
  launch.iterations = lowered.iterations;
  for (const lower::LoweredBuffer& b : lowered.buffers) {
    launch.buffers.push_back(b.packed    ? plan::BufferId()
                             : b.scratch ? scratch[*b.scratch]
                                         : buffers.of(b.value));
    launch.writes.push_back(b.writes);
  }
  for (const lower::PackedOperand& p : lowered.packed) {
    const auto i = static_cast<size_t>(p.buffer);
    launch.buffers[i] = buffers.packed(lowered.buffers[i].value, p);
  }
  return launch;
}

/// For each step, the number of launches before it.
std::vector<size_t> launches_before(const plan::Plan& p) {
  std::vector<size_t> out;
  size_t launches = 0;
  for (const plan::Step& step : p.steps) {
    out.push_back(launches);
    if (std::holds_alternative<plan::Launch>(step.what)) ++launches;
  }
  return out;
}

/// Whether other plans read none of the packed weights in other forms only.
bool reads_known_forms(const std::multimap<graph::ValueId, plan::Packing>& known,
                       const lower::Lowered& lowered) {
  return std::ranges::all_of(lowered.launches, [&](const lower::LoweredLaunch& launch) {
    return std::ranges::all_of(launch.packed, [&](const lower::PackedOperand& p) {
      const auto [first, last] =
          known.equal_range(launch.buffers[static_cast<size_t>(p.buffer)].value);
      return first == last ||
             std::any_of(first, last, [&](const auto& f) { return f.second == p.packing; });
    });
  });
}

struct Chosen {
  lower::Lowered lowered;
  std::optional<ScheduleChoice> choice;  // for the report, if there was one
};

/// The group's kernel by the schedule that the options choose.
Result<Chosen> lower_chosen(CompileContext& context, const lower::Group& group,
                            const lower::Target& target, size_t number) {
  RP_ASSIGN(lower::Lowered first, context.lowerings.lower(group, target));
  if (first.choices.size() < 2) return Chosen{std::move(first), std::nullopt};
  ScheduleSite site{target.name, kernel_name(group), number, {}, first.choices};
  size_t choice = 0;
  if (context.options.choose_schedule) {
    std::string text;
    for (const lower::LoweredLaunch& launch : first.launches) {
      text += kernel::print(launch.kernel);
      for (const Expr& e : launch.grid) text += " " + e.str(context.model.symbols);
      for (const Expr& e : launch.scalars) text += " " + e.str(context.model.symbols);
    }
    const uint64_t hash = package::hash_bytes(std::as_bytes(std::span(text)));
    site.key = target.name + "-" + std::to_string(hash);
    choice = context.options.choose_schedule(site);
  }
  if (choice != 0) {
    RP_ASSIGN(first, context.lowerings.lower(group, target, choice));
  }
  return Chosen{std::move(first), ScheduleChoice{std::move(site), choice, {}}};
}

/// The plan of one variant under construction.
class DevicePlanBuilder {
 public:
  DevicePlanBuilder(CompileContext& context, const lower::Target& target)
      : context_(context),
        target_(target),
        buffers_(context.model, p_, context.weights, context.state_count),
        kernels_(context, target, p_),
        packed_weights_(context.model) {}

  Status add_host_call(const lower::Group& group) {
    const graph::Node& n = *group.nodes[0];
    RP_ASSIGN(plan::HostCall call, host_call(n, buffers_, context_.bodies, group.host_reason));
    if (const DeviceBodies::Use* use = context_.device_bodies.of(n)) {
      call.device_bodies = use->bodies;
      call.reason = use->reason;
    }
    p_.steps.push_back({std::move(call), {}, 0});
    pending_.emplace_back();
    return {};
  }

  /// Chooses the kernels of a group. `number`: of the group.
  Status choose(const lower::Group& group, size_t number) {
    RP_ASSIGN(Chosen chosen, lower_by_choice(group, number));
    if (chosen.choice) RP_TRY(prefer_known_forms(group, chosen));
    packed_weights_.add(chosen.lowered);
    chosen_.emplace(number, std::move(chosen));
    return {};
  }

  /// Adds the kernels of a group, after those of all groups were chosen.
  Status add_kernel(const lower::Group& group, size_t number) {
    Chosen chosen = std::move(chosen_.extract(number).mapped());
    const std::optional<lower::Group> reader = packed_weights_.reader(group, chosen.lowered);
    if (!reader) return add_chosen(group, group, std::move(chosen));
    auto packed = lower_reader(*reader, chosen.choice ? chosen.choice->chosen : 0);
    if (packed.ok()) {
      chosen.lowered = *std::move(packed);
      return add_chosen(group, *reader, std::move(chosen));
    }
    if (packed.status().code() != Code::Unsupported)
      return packed.status().with_context(described(group)).about(origins_of(group));
    return add_chosen(group, group, std::move(chosen));
  }

  /// If a kernel cannot be emitted, `failed` is a group that uses it.
  Result<DevicePlan> finish(const lower::Group** failed) {
    const std::vector<uint32_t> order =
        update_states_in_place(p_, pending_, context_.model.symbol_sources, legalized_for(target_));
    for (size_t step = 0; step < pending_.size(); ++step) {
      if (!pending_[step]) continue;
      const lower::Group* const group = pending_[step]->group;
      Status added = kernels_.add(step, *std::move(pending_[step]));
      if (added.ok()) continue;
      *failed = group;
      return added.about(origins_of(*group));
    }
    RP_ASSIGN(const std::vector<uint32_t> merged, kernels_.merge());
    RP_TRY(kernels_.emit(failed));
    const auto start = Clock::now();
    const std::vector<uint32_t> position = plan::compute_hazards(p_, context_.model.symbol_sources);
    const std::vector<size_t> launches = launches_before(p_);
    for (auto& [choice, first, count] : choices_) {
      for (size_t step = first; step < first + count; ++step)
        choice.launches.push_back(launches[position[merged[order[step]]]]);
      context_.report.schedules.push_back(std::move(choice));
    }
    context_.times.hazards += ms_since(start);
    keep_forms();
    return DevicePlan{std::move(p_), kernels_.take_emitted()};
  }

 private:
  /// A weight that two plans pack differently is on the device twice. So a schedule that reads the
  /// form of another plan is chosen if it is hardly slower.
  Status prefer_known_forms(const lower::Group& group, Chosen& chosen) {
    constexpr double kHardlySlower = 1.15;
    constexpr size_t kMostTries = 6;
    const auto known = context_.forms->find(target_.name);
    if (known == context_.forms->end() || context_.options.choose_schedule ||
        reads_known_forms(known->second, chosen.lowered))
      return {};
    const std::vector<lower::ScheduleCandidate>& all = chosen.choice->site.candidates;
    for (size_t i = 1; i < std::min(all.size(), kMostTries); ++i) {
      if (all[i].cost > kHardlySlower * all[0].cost) continue;
      Result<lower::Lowered> other = context_.lowerings.lower(group, target_, i);
      if (!other.ok() || !reads_known_forms(known->second, *other)) continue;
      chosen.lowered = *std::move(other);
      chosen.choice->chosen = i;
      return {};
    }
    return {};
  }

  /// Notes the forms of the weights for the plans for other sizes.
  void keep_forms() {
    auto& forms = (*context_.forms)[target_.name];
    for (const auto& made : buffers_.packings()) {
      const auto [first, last] = forms.equal_range(made.first);
      if (std::none_of(first, last, [&](const auto& f) { return f.second == made.second; }))
        forms.insert(made);
    }
  }

  Result<Chosen> lower_by_choice(const lower::Group& group, size_t number) {
    const auto start = Clock::now();
    auto chosen = lower_chosen(context_, group, target_, number);
    context_.times.lower += ms_since(start);
    if (!chosen.ok())
      return chosen.status().with_context(described(group)).about(origins_of(group));
    return chosen;
  }

  /// Lowers a group that reads packed weights. The choice was made for the group as it is without
  /// them, so that the key of its site does not depend on the tiles of other groups.
  Result<lower::Lowered> lower_reader(const lower::Group& reader, size_t choice) {
    const auto start = Clock::now();
    auto lowered = context_.lowerings.lower(reader, target_);
    if (lowered.ok() && choice != 0 && choice < lowered->choices.size())
      lowered = context_.lowerings.lower(reader, target_, choice);
    context_.times.lower += ms_since(start);
    return lowered;
  }

  /// `form`: the group as it was lowered.
  Status add_chosen(const lower::Group& group, const lower::Group& form, Chosen chosen) {
    lower::Lowered& lowered = chosen.lowered;
    if (const auto& hooks = context_.options.hooks; hooks && hooks->kernel) {
      hooks->kernel(group, lowered);
      for (lower::LoweredLaunch& l : lowered.launches) l.number.reset();
    }
    const Expr too_long = needs_long_form(context_.model, lowered, form, target_);
    // At every size of a run, the grid of one of the two forms is empty.
    for (lower::LoweredLaunch& l : lowered.launches) l.grid[0] *= Expr(1) - too_long;
    const size_t first = p_.steps.size();
    add_launches(group, std::move(lowered));
    if (chosen.choice)
      choices_.push_back({std::move(*chosen.choice), first, p_.steps.size() - first});
    return too_long.is_const(0) ? Status() : add_long_form(group, form, too_long);
  }

  void add_launches(const lower::Group& group, lower::Lowered lowered) {
    std::vector<plan::BufferId> scratch;
    for (const lower::ScratchBuffer& s : lowered.scratch)
      scratch.push_back(buffers_.add_scratch(s));
    for (lower::LoweredLaunch& l : lowered.launches) {
      plan::Launch launch = make_launch(l, scratch, buffers_);
      launch.group = l.kernel.name;
      launch.schedule = lowered.schedule;
      launch.nodes = origins_of(group);
      p_.steps.push_back({std::move(launch), {}, 0});
      pending_.emplace_back(PendingKernel{std::move(l.kernel), l.number, &group});
    }
  }

  Status add_long_form(const lower::Group& group, const lower::Group& form, const Expr& too_long) {
    const auto start = Clock::now();
    RP_ASSIGN(lower::Lowered lowered,
              context_.lowerings.lower(form, target_, 0, lower::LoopForm::Long));
    context_.times.lower += ms_since(start);
    for (lower::LoweredLaunch& l : lowered.launches) {
      l.kernel.name += "_long";
      l.grid[0] *= too_long;
    }
    add_launches(group, std::move(lowered));
    return {};
  }

  CompileContext& context_;
  const lower::Target& target_;
  plan::Plan p_;
  /// A choice of schedule, and the steps that its kernels became.
  struct ChosenSteps {
    ScheduleChoice choice;
    size_t first, count;
  };
  std::vector<ChosenSteps> choices_;
  std::vector<std::optional<PendingKernel>> pending_;  // parallel to the steps
  PlanBuffers buffers_;
  KernelTable kernels_;
  lower::PackedWeights packed_weights_;
  std::map<size_t, Chosen> chosen_;  // by the number of the group, until it is added
};

}  // namespace

Result<DevicePlan> build_device_plan(CompileContext& context, const lower::Fusion& fusion,
                                     const lower::Target& target, const lower::Group** failed) {
  DevicePlanBuilder plan(context, target);
  for (size_t i = 0; i < fusion.groups.size(); ++i) {
    const lower::Group& group = fusion.groups[i];
    if (!lower::has_kernels(group)) continue;
    *failed = &group;
    RP_TRY(plan.choose(group, i));
    *failed = nullptr;
  }
  for (size_t i = 0; i < fusion.groups.size(); ++i) {
    const lower::Group& group = fusion.groups[i];
    if (group.kind == lower::GroupKind::Memory) continue;
    if (group.kind == lower::GroupKind::Host) {
      RP_TRY(plan.add_host_call(group));
      continue;
    }
    *failed = &group;
    RP_TRY(plan.add_kernel(group, i));
    *failed = nullptr;
  }
  return plan.finish(failed);
}

}  // namespace reprise
