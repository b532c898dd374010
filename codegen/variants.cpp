#include "codegen/variants.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "codegen/lower/contraction.h"
#include "codegen/lower_all.h"
#include "codegen/plan_builder.h"
#include "codegen/probes.h"
#include "runtime/base/timing.h"

namespace reprise {

namespace {

lower::FuseAttention attention_of(const CompileContext& context) {
  if (context.disabled(kAttentionPass)) return lower::FuseAttention::Never;
  return context.disabled(kAttentionPrice) ? lower::FuseAttention::Always
                                           : lower::FuseAttention::Priced;
}

/// The variants to build, in order of preference.
std::vector<lower::Target> chosen_targets(const CompileContext& context,
                                          const lower::Fusion& fusion) {
  const CompileOptions& o = context.options;
  std::vector<lower::Target> all = context.targets;
  const bool half = std::any_of(fusion.groups.begin(), fusion.groups.end(), [&](const auto& group) {
    return lower::is_half_gemm(context.model, group);
  });
  // Without a GEMM for its matrices, a matrix variant of Vulkan would equal another variant.
  std::erase_if(all, [&](const lower::Target& t) {
    const bool named = std::find(o.targets.begin(), o.targets.end(), t.name) != o.targets.end();
    return t.predicate.api == Api::Vulkan && t.predicate.matrix && !half && !named;
  });
  if (!o.device) return all;
  const auto fits = [&](const lower::Target& t) { return t.predicate.mismatch(*o.device).empty(); };
  const auto first = std::find_if(all.begin(), all.end(), fits);
  if (first == all.end()) return {};
  return {*first};
}

/// The fusion with the prices of one variant's devices.
Result<lower::Fusion> fusion_for(const CompileContext& context, const Predicate& device,
                                 const std::set<const graph::Node*>& separate = {}) {
  lower::FusionOptions options = fusion_options(context);
  options.device = device;
  options.separate = separate;
  return lower::fuse(context.model, options);
}

/// Whether two CUDA architectures have equal facts, so that their plans differ only in the images.
bool share_plan(const Predicate& a, const Predicate& b) {
  Predicate other = b;
  other.cuda_arch = a.cuda_arch;
  return a.api == Api::Cuda && a == other;
}

/// A variant that differs from `first` only in the architecture. Copies its schedule choices.
package::Variant for_arch(const package::Variant& first, const lower::Target& target,
                          std::vector<ScheduleChoice>& schedules) {
  package::Variant v = first;
  v.name = target.name;
  v.predicate = target.predicate;
  const size_t n = schedules.size();
  for (size_t i = 0; i < n; ++i) {
    if (schedules[i].site.variant != first.name) continue;
    ScheduleChoice choice = schedules[i];
    choice.site.variant = v.name;
    schedules.push_back(std::move(choice));
  }
  return v;
}

/// The plan for one target. A group whose kernel cannot be written must not fail the compilation:
/// its nodes get kernels of their own, and the report names the fault.
Result<DevicePlan> plan_for(CompileContext& context, const lower::Fusion& fusion,
                            const lower::Target& target) {
  const size_t schedules = context.report.schedules.size();
  std::set<const graph::Node*> separate;
  lower::Fusion smaller;
  const lower::Fusion* groups = &fusion;
  while (true) {
    const lower::Group* failed = nullptr;
    auto plan = build_device_plan(context, *groups, target, &failed);
    if (plan.ok() || failed == nullptr) return plan;
    const size_t before = separate.size();
    separate.insert(failed->nodes.begin(), failed->nodes.end());
    if (separate.size() == before || failed->nodes.size() < 2) return plan;
    context.report.schedules.resize(schedules);
    const std::string name = kernel_name(*failed);
    context.report_fault(
        {target.name, name, {Code::Internal, plan.status().message()}},
        "fusion made a kernel that cannot be written, so its operators get separate kernels: ");
    RP_ASSIGN(smaller, fusion_for(context, target.predicate, separate));
    groups = &smaller;
  }
}

/// The fusions of a model. Variants whose devices give pricing the same answers share one.
class VariantFusions {
 public:
  VariantFusions(const CompileContext& context, lower::Fusion& portable)
      : context_(context), known_{&portable} {}

  Result<lower::Fusion*> of(const lower::Target& target) {
    const auto same = std::ranges::find_if(
        known_, [&](const lower::Fusion* f) { return f->asked.answers_like(target); });
    if (same != known_.end()) return *same;
    RP_ASSIGN(lower::Fusion made, fusion_for(context_, target.predicate));
    known_.push_back(&own_.emplace_back(std::move(made)));
    return known_.back();
  }

 private:
  const CompileContext& context_;
  std::vector<lower::Fusion*> known_;
  std::deque<lower::Fusion> own_;
};

}  // namespace

lower::FusionOptions fusion_options(const CompileContext& context) {
  lower::FusionOptions options;
  options.enabled = !context.disabled(kFusionPass);
  options.attention = attention_of(context);
  const int64_t limit = context.passes.number(kFusionPass, "limit");
  if (limit >= 0) options.limit.first = static_cast<size_t>(limit);
  if (const auto& only = context.options.fusion_decisions)
    options.limit.only.emplace(only->begin(), only->end());
  return options;
}

void explain_unfused(const lower::Fusion& fusion, package::Explanation& explanation) {
  explanation.unfused.clear();
  for (const lower::Edge& e : fusion.unfused)
    explanation.unfused.push_back({e.from, e.to, e.reason});
}

Status build_variants(CompileContext& context, lower::Fusion& portable, package::Package& p) {
  const CompileOptions& options = context.options;
  const std::vector<lower::Target> targets = chosen_targets(context, portable);
  const plan::Interface io = make_interface(context.model);
  ProbeMaker probes(io, options.threads);
  VariantFusions fusions(context, portable);
  std::vector<TargetFusion> wanted;
  for (const lower::Target& target : targets) {
    RP_ASSIGN(lower::Fusion * fusion, fusions.of(target));
    wanted.push_back({target, fusion});
  }
  RP_TRY(lower_all(context, wanted));
  for (const auto& [target, fusion] : wanted) {
    // A caller that chooses schedules does so for each variant, so plans are not shared then.
    if (!p.variants.empty() && !options.choose_schedule &&
        share_plan(p.variants.back().predicate, target.predicate)) {
      p.variants.push_back(for_arch(p.variants.back(), target, context.report.schedules));
      continue;
    }
    package::Variant v;
    v.name = target.name;
    v.predicate = target.predicate;
    if (p.variants.empty()) {
      explain_unfused(*fusion, p.explanation);
      context.report.decisions = fusion->decisions;
    }
    RP_ASSIGN(DevicePlan made, plan_for(context, *fusion, target));
    v.plan = std::move(made.plan);
    if (options.probes) {
      const auto start = Clock::now();
      RP_ASSIGN(v.probes, probes.make(v.plan, v.predicate, made.kernels));
      context.times.probes += ms_since(start);
    }
    p.variants.push_back(std::move(v));
  }
  for (const std::string& kernel : context.lowerings.incomplete_keys()) {
    context.report_fault(
        {"", kernel, internal_error("the key of kernel '" + kernel + "' lacks a value")});
  }
  return {};
}

}  // namespace reprise
