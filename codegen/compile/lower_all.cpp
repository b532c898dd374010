#include "codegen/compile/lower_all.h"

#include <map>
#include <string_view>
#include <tuple>

#include "codegen/compile/kernel_table.h"
#include "codegen/lower/group/group_key.h"
#include "codegen/options/compile_hooks.h"
#include "codegen/options/progress.h"
#include "runtime/base/timing.h"

namespace reprise {

namespace {

/// Equal groups, of which one is lowered, and the targets that need it.
struct Job {
  const lower::Group* group;
  std::vector<const lower::Target*> targets;
};

Status legalize(CompileContext& context, const lower::Lowered& lowered,
                const lower::Target& target) {
  for (const lower::LoweredLaunch& l : lowered.launches)
    RP_TRY(context.kernels.prepare(l.kernel, l.number, legalized_for(target)));
  return {};
}

/// Time spent on one job.
struct JobTimes {
  double lower = 0, legalize = 0;
};

/// Lowers and legalises a form of the group's kernel, and the long form if there is one.
Status make(CompileContext& context, const lower::Group& group, const lower::Target& target,
            JobTimes& times, lower::LoopForm form = lower::LoopForm::Short) {
  auto start = Clock::now();
  RP_ASSIGN(const lower::Lowered* const lowered,
            context.lowerings.kernels_of(group, target, 0, form));
  const bool needs_long =
      form == lower::LoopForm::Short &&
      !lower::needs_long_form(context.model, *lowered, group, target).is_const(0);
  times.lower += ms_since(start);
  start = Clock::now();
  RP_TRY(legalize(context, *lowered, target));
  times.legalize += ms_since(start);
  return needs_long ? make(context, group, target, times, lower::LoopForm::Long) : Status();
}

std::vector<Job> jobs_of(const graph::Graph& g, const std::vector<TargetFusion>& variants) {
  std::map<std::string_view, size_t> by_key;
  std::vector<Job> jobs;
  for (const TargetFusion& v : variants) {
    for (lower::Group& group : v.fusion->groups) {
      if (!lower::has_kernels(group)) continue;
      if (!group.key) group.key = std::make_shared<const lower::GroupKey>(lower::key_of(g, group));
      const auto [it, added] = by_key.try_emplace(group.key->bytes, jobs.size());
      if (added) jobs.push_back({&group, {}});
      std::vector<const lower::Target*>& targets = jobs[it->second].targets;
      if (targets.empty() || targets.back() != &v.target) targets.push_back(&v.target);
    }
  }
  return jobs;
}

}  // namespace

Status lower_all(CompileContext& context, const std::vector<TargetFusion>& variants) {
  // Tests that inject faults must be called with the kernel of every group.
  const auto& hooks = context.options.hooks;
  if (!context.lowerings.enabled() || (hooks && hooks->kernel)) return {};
  const auto start = Clock::now();
  const std::vector<Job> jobs = jobs_of(context.model, variants);
  std::vector<JobTimes> times(jobs.size());
  const auto lower = [&](size_t i) {
    for (const lower::Target* target : jobs[i].targets) {
      // Building the variant's plan finds an error again and reports it.
      (void)make(context, *jobs[i].group, *target, times[i]);
    }
  };
  RP_TRY(in_parallel(context.options, "lowering", jobs.size(), "kernels were lowered", lower));
  // Jobs run concurrently, so their times divide the time that passed.
  JobTimes sum;
  for (const JobTimes& t : times) {
    sum.lower += t.lower;
    sum.legalize += t.legalize;
  }
  const double passed = ms_since(start), all = sum.lower + sum.legalize;
  const double legalize = all > 0 ? passed * sum.legalize / all : 0;
  context.times.lower += passed - legalize;
  context.times.legalize += legalize;
  return {};
}

}  // namespace reprise
