#include "codegen/compile/variants.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "codegen/compile/device_plan.h"
#include "codegen/compile/host_plan.h"
#include "codegen/compile/lower_all.h"
#include "codegen/compile/targets.h"
#include "codegen/graph/size_hint.h"
#include "codegen/lower/problems/contraction.h"
#include "codegen/options/progress.h"
#include "codegen/probes/probes.h"
#include "runtime/base/cuda_entry.h"
#include "runtime/base/timing.h"

namespace reprise {

namespace {

lower::FuseAttention attention_of(const CompileContext& context) {
  if (context.disabled(kAttentionPass)) return lower::FuseAttention::Never;
  return context.disabled(kAttentionPrice) ? lower::FuseAttention::Always
                                           : lower::FuseAttention::Priced;
}

/// Whether devices with fp64 arithmetic run more of the model.
bool uses_float64(const CompileContext& context, const lower::Fusion& fusion) {
  return fusion.asked.asked_for_float64() ||
         std::ranges::any_of(context.device_bodies.entries(), [](const auto& body) {
           return body->fusion.asked.asked_for_float64();
         });
}

/// What matrix units multiply in a graph.
void add_mma_types(const graph::Graph& g, const lower::Fusion& fusion, std::vector<MmaTypes>& out) {
  for (const lower::Group& group : fusion.groups)
    if (const auto types = lower::mma_types(g, group)) out.push_back(*types);
}

/// Whether kernels round to fp16 what they store.
bool stores_halves(const graph::Graph& g, const lower::Fusion& fusion) {
  return std::ranges::any_of(fusion.groups, [&](const lower::Group& group) {
    return std::ranges::any_of(group.outputs, [&](graph::ValueId v) {
      return graph::storage_of(g.value(v)) == DType::F16;
    });
  });
}

/// The same for a model and the bodies in it.
bool stores_halves(const CompileContext& context, const lower::Fusion& fusion) {
  return stores_halves(context.model, fusion) ||
         std::ranges::any_of(context.device_bodies.entries(), [](const auto& body) {
           return stores_halves(*body->graph, body->fusion);
         });
}

/// The targets, each after its form with fp64 arithmetic, but for those that the user named.
std::vector<lower::Target> float64_before(const std::vector<lower::Target>& all,
                                          const std::vector<std::string>& named) {
  std::vector<lower::Target> out;
  for (const lower::Target& t : all) {
    const bool has_form =
        t.predicate.api == Api::Vulkan && t.predicate.needs_int64 && !t.predicate.needs_float64;
    if (has_form && std::ranges::find(named, t.name) == named.end()) out.push_back(with_float64(t));
    out.push_back(t);
  }
  return out;
}

/// The variants to build, in order of preference.
std::vector<lower::Target> chosen_targets(const CompileContext& context,
                                          const lower::Fusion& fusion) {
  const CompileOptions& o = context.options;
  std::vector<lower::Target> all = context.targets;
  std::vector<MmaTypes> products;
  add_mma_types(context.model, fusion, products);
  for (const auto& body : context.device_bodies.entries())
    add_mma_types(*body->graph, body->fusion, products);
  const auto uses = [&](const MmaConfig& matrix) {
    return std::ranges::find(products, matrix.types) != products.end();
  };
  // Without GEMMs of fp32, more architectures share a plan.
  const bool splits = std::ranges::find(products, kSplitMma) != products.end();
  if (!splits || context.disabled(kSplitProducts))
    std::ranges::for_each(all, remove_split_products);
  // Without a GEMM for its matrices, or without halves, such a variant of Vulkan would equal
  // another one.
  const bool halves = stores_halves(context, fusion);
  std::erase_if(all, [&](const lower::Target& t) {
    const bool named = std::find(o.targets.begin(), o.targets.end(), t.name) != o.targets.end();
    if (t.predicate.api != Api::Vulkan || named) return false;
    const auto& matrices = t.predicate.matrices;
    return matrices.empty() ? t.predicate.needs_exact_halves && !halves
                            : std::ranges::none_of(matrices, uses);
  });
  if (uses_float64(context, fusion)) {
    all = float64_before(all, o.targets);
    // Other variants would run nodes on the host.
    if (o.fullgraph) std::erase_if(all, [](const auto& t) { return !t.predicate.needs_float64; });
  }
  if (!o.device) return all;
  const auto fits = [&](const lower::Target& t) { return t.predicate.mismatch(*o.device).empty(); };
  const auto first = std::find_if(all.begin(), all.end(), fits);
  if (first == all.end()) return {};
  return {*first};
}

/// The fusion with the prices of one variant's devices.
/// What fusion does otherwise than it chose, because a kernel could not be written.
struct Exceptions {
  std::map<const graph::Node*, std::string> separate, on_host;
};

Result<lower::Fusion> fusion_for(const CompileContext& context, const Predicate& device,
                                 const Exceptions& exceptions = {}) {
  lower::FusionOptions options = fusion_options(context);
  options.device = device;
  options.separate = exceptions.separate;
  options.on_host = exceptions.on_host;
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
  package::for_each_plan(v, [&](package::CompiledPlan& p) { p.predicate = target.predicate; });
  const size_t n = schedules.size();
  for (size_t i = 0; i < n; ++i) {
    if (schedules[i].site.variant != first.name) continue;
    ScheduleChoice choice = schedules[i];
    choice.site.variant = v.name;
    schedules.push_back(std::move(choice));
  }
  return v;
}

/// Adds exceptions that let another fusion succeed where the kernel of a group could not be
/// written. A limit of kernels is no fault: it gives the reason why a node runs on the host.
/// Returns whether there is anything left to try.
bool except(CompileContext& context, const lower::Group& failed, const Status& why,
            const std::string& variant, Exceptions& to) {
  const bool is_limit = why.code() == Code::Unsupported;
  const size_t before = to.separate.size();
  if (failed.nodes.size() > 1) {
    const std::string reason =
        is_limit ? "one kernel for both cannot be written: " + why.message()
                 : "one kernel for both could not be written, which is a fault of the compiler; "
                   "please report it";
    for (const graph::Node* n : failed.nodes) to.separate.emplace(n, reason);
  }
  if (to.separate.size() > before) {
    if (is_limit) return true;
    context.report_fault(
        {variant, kernel_name(failed), {Code::Internal, why.message()}},
        "fusion made a kernel that cannot be written, so its operators get separate kernels: ");
    return true;
  }
  if (!is_limit || context.options.fullgraph) return false;
  for (const graph::Node* n : failed.nodes) to.on_host.emplace(n, why.message());
  return true;
}

/// The plan for one target. A group whose kernel cannot be written must not fail the compilation:
/// its nodes get kernels of their own, or run on the host.
Result<DevicePlan> plan_for(CompileContext& context, const lower::Fusion& fusion,
                            const lower::Target& target) {
  const size_t schedules = context.report.schedules.size();
  Exceptions exceptions;
  lower::Fusion smaller;
  const lower::Fusion* groups = &fusion;
  while (true) {
    const lower::Group* failed = nullptr;
    auto plan = build_device_plan(context, *groups, target, &failed);
    if (plan.ok() || failed == nullptr) return plan;
    if (!except(context, *failed, plan.status(), target.name, exceptions)) return plan;
    context.report.schedules.resize(schedules);
    RP_ASSIGN(smaller, fusion_for(context, target.predicate, exceptions));
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

/// Builds the plan of one graph, the model or a body, for each target.
class GraphPlans {
 public:
  GraphPlans(CompileContext& context, lower::Fusion& portable, plan::Interface io)
      : context_(context),
        fusions_(context, portable),
        io_(std::move(io)),
        probes_(io_, context.options) {}
  GraphPlans(const GraphPlans&) = delete;
  GraphPlans& operator=(const GraphPlans&) = delete;
  ~GraphPlans() = default;

  Status lower(const std::vector<lower::Target>& targets) {
    for (const lower::Target& target : targets) {
      RP_ASSIGN(lower::Fusion * fusion, fusions_.of(target));
      wanted_.push_back({target, fusion});
    }
    return lower_all(context_, wanted_);
  }
  const lower::Fusion& fusion(size_t target) const { return *wanted_[target].fusion; }

  Status build(size_t target, package::CompiledPlan& to) {
    RP_ASSIGN(DevicePlan made, plan_for(context_, *wanted_[target].fusion, wanted_[target].target));
    to.plan = std::move(made.plan);
    if (!context_.options.probes) return {};
    const auto start = Clock::now();
    RP_ASSIGN(to.probes, probes_.make(to.plan, to.predicate, made.kernels));
    context_.times.probes += ms_since(start);
    return {};
  }

  /// Reports keys of groups that lack a value.
  void report_keys() {
    for (const std::string& kernel : context_.lowerings.incomplete_keys()) {
      context_.report_fault(
          {"", kernel, internal_error("the key of kernel '" + kernel + "' lacks a value")});
    }
  }

 private:
  CompileContext& context_;
  VariantFusions fusions_;
  plan::Interface io_;
  ProbeMaker probes_;
  std::vector<TargetFusion> wanted_;
};

/// What the kernels of a plan need of devices that may have less than their architecture promises.
void raise_shared_bytes(const plan::Plan& plan, uint32_t& bytes) {
  for (const plan::KernelCode& k : plan.kernels) bytes = std::max(bytes, k.shared_bytes);
}

/// Asks of devices no more shared memory than the kernels of a variant for CUDA need: a package
/// runs where less is left for them.
void lower_shared_bytes(package::Variant& v) {
  if (v.predicate.api != Api::Cuda) return;
  uint32_t bytes = kStaticSharedBytes;
  package::for_each_plan(
      v, [&](const package::CompiledPlan& p) { raise_shared_bytes(p.plan, bytes); });
  package::for_each_plan(v, [&](package::CompiledPlan& p) { p.predicate.shared_bytes = bytes; });
}

size_t launch_count(const plan::Plan& plan) {
  return static_cast<size_t>(std::ranges::count_if(plan.steps, [](const plan::Step& s) {
    return std::holds_alternative<plan::Launch>(s.what);
  }));
}

/// Builds the plans of the bodies for each target.
class BodyPlans {
 public:
  explicit BodyPlans(const DeviceBodies& bodies) : bodies_(bodies) {
    for (const auto& body : bodies.entries())
      plans_.emplace_back(*body->context, body->fusion, body->form.io);
  }

  Status lower(const std::vector<lower::Target>& targets) {
    for (GraphPlans& plans : plans_) RP_TRY(plans.lower(targets));
    return {};
  }

  /// Adds the choices of schedules to the report.
  Status build(size_t target, package::Variant& v, CompileReport& report) {
    size_t launches = launch_count(v.plan);
    for (size_t b = 0; b < plans_.size(); ++b) {
      package::DeviceBody body = bodies_.entries()[b]->form;
      body.predicate = v.predicate;
      std::vector<ScheduleChoice>& own = bodies_.entries()[b]->report.schedules;
      own.clear();
      RP_TRY(plans_[b].build(target, body).with_context(body.name));
      for (ScheduleChoice& choice : own) {
        choice.site.number += DeviceBodies::first_site(b);
        for (size_t& launch : choice.launches) launch += launches;
        report.schedules.push_back(std::move(choice));
      }
      launches += launch_count(body.plan);
      v.bodies.push_back(std::move(body));
    }
    return {};
  }

  /// Adds the faults of the compiler in bodies to the report.
  void report_faults(CompileReport& to) {
    for (GraphPlans& plans : plans_) plans.report_keys();
    for (const auto& body : bodies_.entries())
      to.broken.insert(to.broken.end(), body->report.broken.begin(), body->report.broken.end());
  }

 private:
  const DeviceBodies& bodies_;
  std::deque<GraphPlans> plans_;
};

/// Whether a variant gets the plans of the one before it: they differ only in the architecture. A
/// caller that chooses schedules does so for each variant.
bool repeats_variant(const CompileContext& context, const package::Package& p, size_t variant,
                     const Predicate& predicate) {
  return variant > 0 && !context.options.choose_schedule &&
         share_plan(p.variants[variant - 1].predicate, predicate);
}

/// The interface for which the probes of a plan are made: with the sizes that it serves.
plan::Interface sized_interface(const plan::Interface& io, const graph::Graph& g) {
  plan::Interface out = io;
  out.symbols = g.symbols;
  return out;
}

/// The options of a plan for some sizes. Its kernels are shown with the sizes.
CompileOptions options_of_plan(const CompileContext& context, const std::string& sizes) {
  CompileOptions out = context.options;
  out.choose_schedule = nullptr;
  out.fusion_decisions.reset();
  if (out.on_kernel)
    out.on_kernel = [outer = out.on_kernel, sizes](const std::string& variant,
                                                   const auto&... rest) {
      outer(variant + " " + sizes, rest...);
    };
  return out;
}

std::string one_digit(double x) {
  const auto tenths = static_cast<int64_t>(std::lround(std::min(x, 1e6) * 10));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

/// Whether the compiler may add plans: nobody looks at the kernels of one plan or chooses them.
bool wants_plans(const CompileOptions& options) {
  return options.plans.kind == PlanChoice::Kind::Automatic && !options.choose_schedule &&
         !options.fusion_decisions && !options.hooks;
}

/// The candidates for the schedules of products and attentions, by the first result of each.
std::map<graph::ValueId, std::vector<lower::ScheduleCandidate>> candidates_of(
    CompileContext& context, const lower::Fusion& fusion, const lower::Target& target) {
  std::map<graph::ValueId, std::vector<lower::ScheduleCandidate>> out;
  for (const lower::Group& group : fusion.groups) {
    if (group.kind != lower::GroupKind::Contraction && group.kind != lower::GroupKind::Attention)
      continue;
    const auto lowered = context.lowerings.kernels_of(group, target);
    if (lowered.ok() && !(*lowered)->choices.empty())
      out.emplace(group.anchor->outputs[0], (*lowered)->choices);
  }
  return out;
}

/// The rows of a tile: schedules state tiles as ROWSxCOLUMNS. 1 if there is none.
double tile_rows(const std::string& schedule) {
  const auto digit = [&](size_t i) {
    return i < schedule.size() && schedule[i] >= '0' && schedule[i] <= '9';
  };
  for (size_t x = schedule.find('x'); x != std::string::npos; x = schedule.find('x', x + 1)) {
    if (x == 0 || !digit(x - 1) || !digit(x + 1)) continue;
    size_t first = x;
    while (first > 0 && digit(first - 1)) --first;
    return std::max(1.0, std::strtod(schedule.c_str() + first, nullptr));
  }
  return 1;
}

/// The rows of a product, or of one head of an attention, at representative sizes.
double rows_of(const graph::Graph& g, graph::ValueId result) {
  const Shape& shape = g.value(result).shape;
  return shape.size() < 2 ? 1 : graph::count_hint(g, {shape[shape.size() - 2]});
}

/// How many times faster than those of the plan for all sizes the products and attentions of a
/// plan are at its sizes, by their estimated costs.
double times_faster(CompileContext& general, const lower::Fusion& general_fusion,
                    CompileContext& context, const lower::Fusion& fusion,
                    const lower::Target& target) {
  const auto before = candidates_of(general, general_fusion, target);
  double own = 0, others = 0;
  for (const auto& [result, choices] : candidates_of(context, fusion, target)) {
    const auto at = before.find(result);
    if (at == before.end()) continue;
    const lower::ScheduleCandidate& chosen = at->second.front();
    const auto same =
        std::ranges::find(choices, chosen.schedule, &lower::ScheduleCandidate::schedule);
    own += choices.front().cost;
    if (same != choices.end()) {
      others += same->cost;
      continue;
    }
    // Nobody offers that schedule at these sizes: it takes as many tiles as they have.
    const double tile = tile_rows(chosen.schedule);
    const double tiles = std::ceil(rows_of(context.model, result) / tile) /
                         std::ceil(rows_of(general.model, result) / tile);
    others += std::max(choices.front().cost, chosen.cost * std::min(tiles, 1.0));
  }
  return own > 0 ? others / own : 1;
}

/// Adds a plan for some sizes to each variant.
Status add_plan(CompileContext& model, const lower::Fusion& general, PlanRequest request,
                const std::vector<lower::Target>& targets, package::Package& p) {
  const std::string sizes = package::describe_sizes(request.sizes, p.io.symbols);
  const std::shared_ptr<graph::Graph> g = with_sizes(model.model, request);
  const CompileOptions options = options_of_plan(model, sizes);
  CompileReport report;
  CompileContext context(*g, model, options, report);
  context.state_count = model.state_count;
  context.forms = model.forms;
  context.device_bodies.share(model.model, g);
  RP_ASSIGN(lower::Fusion portable, lower::fuse(*g, fusion_options(context)));
  if (request.automatic) {
    constexpr double kLeastGain = 1.5;  // a plan takes time to compile, and space
    const double gain = times_faster(model, general, context, portable, targets[0]);
    if (gain < kLeastGain) return {};
    request.why = "estimated to be " + one_digit(gain) + " times faster there than plan 0";
  }
  GraphPlans plans(context, portable, sized_interface(p.io, *g));
  RP_TRY(plans.lower(targets));
  for (size_t t = 0; t < targets.size(); ++t) {
    package::Variant& v = p.variants[t];
    if (repeats_variant(model, p, t, targets[t].predicate)) {
      v.plans.push_back(p.variants[t - 1].plans.back());
      v.plans.back().name = v.name;
      v.plans.back().predicate = v.predicate;
      continue;
    }
    package::SizedPlan plan;
    plan.name = v.name;
    plan.predicate = v.predicate;
    plan.sizes = request.sizes;
    plan.why = request.why;
    RP_TRY(plans.build(t, plan).with_context("the plan for " + sizes));
    adopt_interface(p.io, plan.plan);
    v.plans.push_back(std::move(plan));
    RP_TRY(report_progress(options, "variants", t + 1, targets.size()));
  }
  plans.report_keys();
  model.report.broken.insert(model.report.broken.end(), report.broken.begin(), report.broken.end());
  return {};
}

/// A session chooses a plan by the dims of inputs, before it is the run's turn to read the lengths
/// of states.
Status check_chosen_by_inputs(const PlanRequest& request, const plan::Interface& io) {
  for (const package::SymbolValues& s : request.sizes) {
    const auto symbol = static_cast<size_t>(s.symbol);
    if (io.sources[symbol].kind != SymbolSource::Kind::InputDim)
      return {Code::Usage, "plan '" + package::describe_sizes(request.sizes, io.symbols) + "': '" +
                               io.symbols[symbol].name +
                               "' is the length of a state; name a size of an input"};
  }
  return {};
}

}  // namespace

lower::FusionOptions fusion_options(const CompileContext& context) {
  lower::FusionOptions options;
  // Without a device, explanations are those of devices that run the most.
  options.device.needs_float64 = !context.options.device || context.options.device->float64;
  options.enabled = !context.disabled(kFusionPass);
  options.attention = attention_of(context);
  options.largest_weight = context.largest_weight;
  options.tests = &context.index_tests;
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

Status build_variants(CompileContext& context, lower::Fusion& portable,
                      const std::vector<PlanRequest>& plans, package::Package& p) {
  const CompileOptions& options = context.options;
  const std::vector<lower::Target> targets = chosen_targets(context, portable);
  GraphPlans model(context, portable, p.io);
  BodyPlans bodies(context.device_bodies);
  RP_TRY(model.lower(targets));
  RP_TRY(bodies.lower(targets));
  for (size_t t = 0; t < targets.size(); ++t) {
    const lower::Target& target = targets[t];
    if (repeats_variant(context, p, t, target.predicate)) {
      p.variants.push_back(for_arch(p.variants.back(), target, context.report.schedules));
      continue;
    }
    package::Variant v;
    v.name = target.name;
    v.predicate = target.predicate;
    if (p.variants.empty()) {
      explain_unfused(model.fusion(t), p.explanation);
      context.report.decisions = model.fusion(t).decisions;
    }
    RP_TRY(model.build(t, v));
    RP_TRY(bodies.build(t, v, context.report));
    p.variants.push_back(std::move(v));
    RP_TRY(report_progress(options, "variants", t + 1, targets.size()));
  }
  for (const PlanRequest& plan : plans) {
    RP_TRY(check_chosen_by_inputs(plan, p.io));
    RP_TRY(add_plan(context, portable, plan, targets, p));
  }
  if (!targets.empty() && wants_plans(options))
    for (PlanRequest& plan : automatic_plans(context.model, portable))
      if (check_chosen_by_inputs(plan, p.io).ok())
        RP_TRY(add_plan(context, portable, std::move(plan), targets, p));
  std::ranges::for_each(p.variants, lower_shared_bytes);
  model.report_keys();
  bodies.report_faults(context.report);
  return {};
}

}  // namespace reprise
