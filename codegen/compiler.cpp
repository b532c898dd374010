#include "codegen/compiler.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>

#include "codegen/lower/contraction.h"
#include "codegen/lower/fuse.h"
#include "codegen/lower/targets.h"
#include "codegen/lower_all.h"
#include "codegen/nvrtc/images.h"
#include "codegen/onnx/importer.h"
#include "codegen/ops/dims.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "codegen/plan_builder.h"
#include "codegen/probes.h"
#include "codegen/stopwatch.h"

namespace reprise {

namespace {

constexpr std::string_view kFusionPass = "fusion", kAttentionPass = "attention",
                           kAttentionPrice = "attention-price", kEqualKernels = "equal-kernels";

using Clock = std::chrono::steady_clock;

class Timer {
 public:
  explicit Timer(CompileReport* report) : report_(report) {}
  void lap(std::string name) {
    const auto now = Clock::now();
    if (report_ != nullptr) {
      report_->passes.push_back(
          {std::move(name), std::chrono::duration<double, std::milli>(now - start_).count()});
    }
    start_ = now;
  }
  void add(std::string name, double ms) {
    if (report_ != nullptr) report_->passes.push_back({std::move(name), ms});
    start_ = Clock::now();
  }

 private:
  CompileReport* report_;
  Clock::time_point start_ = Clock::now();
};

passes::PassOptions pass_options(const CompileOptions& o) {
  passes::PassOptions out{o.disabled_passes, o.pass_options, o.added_passes};
  out.numbers["autocast.precision"] = static_cast<int64_t>(o.precision);
  return out;
}

bool disabled(const CompileOptions& o, std::string_view pass) {
  return !pass_options(o).enabled(pass);
}

Status check_options(const CompileOptions& o) {
  RP_TRY(pass_options(o).check());
  if (o.precision != DType::F32 && o.precision != DType::F16 && o.precision != DType::BF16)
    return {Code::Usage, "the precision must be fp32, fp16 or bf16"};
  return parse_targets(o.targets, o.device, o.cuda_ptx).status();
}

lower::FuseAttention attention_of(const CompileOptions& o) {
  if (disabled(o, kAttentionPass)) return lower::FuseAttention::Never;
  return disabled(o, kAttentionPrice) ? lower::FuseAttention::Always : lower::FuseAttention::Priced;
}

bool verifies(const CompileOptions& options) {
#ifdef NDEBUG
  return options.verify_passes;
#else
  (void)options;
  return true;
#endif
}

/// After a pass: what it made is verified, timed and shown.
Status end_pass(const graph::Graph& g, std::string_view pass, bool core,
                const CompileOptions& options, Timer& timer) {
  const std::string name(pass);
  if (verifies(options)) RP_TRY(graph::verify(g, core).with_context("after pass " + name));
  timer.lap(name);
  if (options.on_pass) options.on_pass(name, g);
  return {};
}

Status run_passes(graph::Graph& g, const CompileOptions& options, Timer& timer,
                  package::Explanation& explanation) {
  const passes::PassOptions pass_opts = pass_options(options);
  passes::PassReport report;
  bool core = false;
  for (const passes::Pass& pass : passes::pipeline(pass_opts)) {
    if (pass.run == nullptr || !pass_opts.enabled(pass)) continue;
    RP_TRY(passes::run(pass, g, pass_opts, &report).with_context("pass " + std::string(pass.name)));
    if (options.plant_in_graph) options.plant_in_graph(pass.name, g);
    core |= pass.core;
    RP_TRY(end_pass(g, pass.name, core, options, timer));
  }
  if (options.precision == DType::F32) return {};
  explanation.precision = options.precision;
  explanation.narrowed = report.autocast.narrowed;
  explanation.kept = std::move(report.autocast.kept);
  return {};
}

/// The imported graph as host calls: the reference. In a package of low precision, large weights
/// of layers and embeddings are in that precision for it, too. Operators without a host kernel are
/// what they decompose into.
Result<plan::Plan> host_plan_of(const graph::Graph& g, WeightStore& weights,
                                const CompileOptions& options) {
  const bool complete =
      std::ranges::none_of(g.nodes(), [](const auto& n) { return passes::lacks_host_kernel(*n); });
  if (options.precision == DType::F32 && complete) return build_host_plan(g, weights);
  const std::unique_ptr<graph::Graph> own = g.clone();
  if (!complete) RP_TRY(passes::decompose_for_host(*own));
  if (options.precision != DType::F32) passes::narrow_host_constants(*own, options.precision);
  return build_host_plan(*own, weights);
}

int64_t bytes_of(const plan::Buffer& b) {
  const Expr count = element_count(b.shape);
  return count.is_const() ? count.value() * static_cast<int64_t>(size_of(b.dtype)) : -1;
}

std::vector<package::GroupInfo> describe_groups(const plan::Plan& p) {
  std::vector<package::GroupInfo> out;
  for (const plan::Step& step : p.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    if (launch == nullptr) continue;
    package::GroupInfo info;
    info.kernel = p.kernels[launch->kernel].name;
    info.nodes = launch->nodes;
    info.schedule = launch->schedule;
    info.bytes_read = info.bytes_written = 0;
    for (size_t i = 0; i < launch->buffers.size(); ++i) {
      const int64_t bytes = bytes_of(p.buffers[static_cast<size_t>(launch->buffers[i])]);
      int64_t& sum = launch->writes[i] ? info.bytes_written : info.bytes_read;
      sum = bytes < 0 || sum < 0 ? -1 : sum + bytes;
    }
    out.push_back(std::move(info));
  }
  return out;
}

Status require_no_host(const lower::Fusion& fusion) {
  for (const lower::Group& group : fusion.groups) {
    if (group.kind != lower::GroupKind::Host) continue;
    return unsupported("fullgraph: node '" + group.nodes[0]->name + "' (" + group.nodes[0]->op +
                       ") would run on the host: " + group.host_reason +
                       "; compile without --fullgraph to allow it");
  }
  return {};
}

/// Variants to build, in order of preference.
Result<std::vector<lower::Target>> chosen_targets(const graph::Graph& g,
                                                  const lower::Fusion& fusion,
                                                  const CompileOptions& o) {
  RP_ASSIGN(std::vector<lower::Target> all, parse_targets(o.targets, o.device, o.cuda_ptx));
  const bool half = std::any_of(fusion.groups.begin(), fusion.groups.end(),
                                [&](const auto& group) { return lower::is_half_gemm(g, group); });
  // Without a product for its matrices, such a variant of Vulkan is one of the others.
  std::erase_if(all, [&](const lower::Target& t) {
    const bool named = std::find(o.targets.begin(), o.targets.end(), t.name) != o.targets.end();
    return t.predicate.api == Api::Vulkan && t.predicate.matrix && !half && !named;
  });
  if (!o.device) return all;
  const auto fits = [&](const lower::Target& t) { return t.predicate.mismatch(*o.device).empty(); };
  const auto first = std::find_if(all.begin(), all.end(), fits);
  if (first == all.end()) return std::vector<lower::Target>{};
  return std::vector<lower::Target>{*first};
}

/// The portable fusion, or one with the device's prices where there are any.
Result<lower::Fusion> fusion_for(const graph::Graph& g, const CompileOptions& o,
                                 const Predicate& device = {},
                                 const std::set<const graph::Node*>& separate = {}) {
  lower::FusionOptions options;
  options.enabled = !disabled(o, kFusionPass);
  options.attention = attention_of(o);
  options.device = device;
  options.separate = separate;
  return lower::fuse(g, options);
}

void explain(package::Package& p, const lower::Fusion& fusion) {
  p.explanation.unfused.clear();
  for (const lower::Edge& e : fusion.unfused)
    p.explanation.unfused.push_back({e.from, e.to, e.reason});
}

/// Architectures whose facts are equal have the same plan, but for the images.
bool share_plan(const Predicate& a, const Predicate& b) {
  Predicate other = b;
  other.cuda_arch = a.cuda_arch;
  return a.api == Api::Cuda && a == other;
}

/// A variant that differs from `first` in the architecture alone.
package::Variant for_arch(const package::Variant& first, const lower::Target& target,
                          LowerReport& lowered) {
  package::Variant v = first;
  v.name = target.name;
  v.predicate = target.predicate;
  const size_t n = lowered.schedules.size();
  for (size_t i = 0; i < n; ++i) {
    if (lowered.schedules[i].site.variant != first.name) continue;
    ScheduleChoice choice = lowered.schedules[i];
    choice.site.variant = v.name;
    lowered.schedules.push_back(std::move(choice));
  }
  return v;
}

/// The plan for one target. A group whose kernel cannot be written must not refuse the model: its
/// nodes get kernels of their own, and the report names the fault.
Result<plan::Plan> plan_for(PlanContext& context, const lower::Fusion& fusion,
                            const lower::Target& target) {
  const CompileOptions& options = context.options;
  LowerReport& lowered = context.report;
  const size_t schedules = lowered.schedules.size();
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
    lowered.schedules.resize(schedules);
    const std::string name = kernel_name(*failed);
    report_fault(context, {target.name, name, {Code::Internal, plan.status().message()}},
                 "fusion made a kernel that cannot be written, so its operators run apart: ");
    RP_ASSIGN(smaller, fusion_for(context.g, options, target.predicate, separate));
    groups = &smaller;
  }
}

/// The fusions of a model: one for all variants whose devices answer alike what prices ask.
class VariantFusions {
 public:
  VariantFusions(const graph::Graph& g, const CompileOptions& options, lower::Fusion& portable)
      : g_(g), options_(options), known_{&portable} {}

  Result<lower::Fusion*> of(const lower::Target& target) {
    const auto same = std::ranges::find_if(
        known_, [&](const lower::Fusion* f) { return f->asked.answers_like(target); });
    if (same != known_.end()) return *same;
    RP_ASSIGN(lower::Fusion made, fusion_for(g_, options_, target.predicate));
    known_.push_back(&own_.emplace_back(std::move(made)));
    return known_.back();
  }

 private:
  const graph::Graph& g_;
  const CompileOptions& options_;
  std::vector<lower::Fusion*> known_;
  std::deque<lower::Fusion> own_;
};

Status build_variants(PlanContext& context, lower::Fusion& portable, package::Package& p) {
  const graph::Graph& g = context.g;
  const CompileOptions& options = context.options;
  LowerReport& lowered = context.report;
  RP_ASSIGN(const std::vector<lower::Target> targets, chosen_targets(g, portable, options));
  const plan::Interface io = make_interface(g);
  ProbeMaker probes(io, options.threads);
  VariantFusions fusions(g, options, portable);
  std::vector<TargetFusion> wanted;
  for (const lower::Target& target : targets) {
    RP_ASSIGN(lower::Fusion * fusion, fusions.of(target));
    wanted.push_back({target, fusion});
  }
  RP_TRY(lower_all(context, wanted));
  for (const auto& [target, fusion] : wanted) {
    // Schedules that are chosen from outside are chosen for each variant.
    if (!p.variants.empty() && !options.choose_schedule &&
        share_plan(p.variants.back().predicate, target.predicate)) {
      p.variants.push_back(for_arch(p.variants.back(), target, lowered));
      continue;
    }
    package::Variant v;
    v.name = target.name;
    v.predicate = target.predicate;
    if (p.variants.empty()) explain(p, *fusion);
    RP_ASSIGN(v.plan, plan_for(context, *fusion, target));
    if (options.probes) {
      const auto start = Clock::now();
      RP_ASSIGN(v.probes, probes.make(v.plan, v.predicate, lowered.kernels));
      lowered.probe_ms += ms_since(start);
    }
    p.variants.push_back(std::move(v));
  }
  return {};
}

int64_t count_launches(const lower::Fusion& fusion) {
  return std::count_if(fusion.groups.begin(), fusion.groups.end(),
                       [](const lower::Group& g) { return g.kind != lower::GroupKind::Host; });
}

}  // namespace

Result<DType> parse_precision(std::string_view name) {
  if (name == "fp32") return DType::F32;
  if (name == "fp16") return DType::F16;
  if (name == "bf16") return DType::BF16;
  return Status(Code::Usage,
                "there is no precision '" + std::string(name) + "'; choose from fp32, fp16, bf16");
}

std::string precision_name(DType precision) {
  return precision == DType::F16 ? "fp16" : precision == DType::BF16 ? "bf16" : "fp32";
}

std::vector<std::string> pass_names() {
  return passes::optional_passes();
}

Result<package::Package> compile(std::unique_ptr<graph::Graph> model, const CompileOptions& options,
                                 CompileReport* report) {
  RP_TRY(check_options(options));
  graph::Graph& g = *model;
  Timer timer(report);
  package::Package p;
  p.model_name = g.name;
  p.producer = "reprise 0.1.0";
  WeightStore weights(p);
  RP_ASSIGN(p.host_plan, host_plan_of(g, weights, options));
  p.explanation.model_nodes = static_cast<int64_t>(g.nodes().size());
  timer.lap("host-plan");
  RP_TRY(run_passes(g, options, timer, p.explanation));
  // Inference during the passes may have added symbols and guards, by which dims are the same.
  ops::resolve_guards(g);
  p.io = make_interface(g);
  adopt_interface(p.io, p.host_plan);
  RP_ASSIGN(lower::Fusion fusion, fusion_for(g, options));
  timer.lap(std::string(kFusionPass));
  if (options.fullgraph) RP_TRY(require_no_host(fusion));
  RP_ASSIGN(const lower::Fusion unfused, lower::fuse(g, {.enabled = false}));
  p.explanation.launches_unfused = count_launches(unfused);
  explain(p, fusion);
  timer.lap("explain");
  LowerReport lowered;
  const bool share_equal = !disabled(options, kEqualKernels);
  lower::LowerOnce lowerings(g, share_equal);
  KernelCache kernels(share_equal);
  PlanContext context{g, options, weights, lowerings, kernels, lowered};
  RP_TRY(build_variants(context, fusion, p));
  for (const std::string& kernel : lowerings.incomplete_keys()) {
    report_fault(context,
                 {"", kernel, internal_error("the key of kernel '" + kernel + "' lacks a value")});
  }
  timer.add("lower", lowered.lower_ms);
  timer.add("legalize", lowered.legalize_ms);
  timer.add("emit", lowered.emit_ms);
  timer.add("hazards", lowered.plan_ms);
  if (options.probes) timer.add("probes", lowered.probe_ms);
  ImageReport images;
  RP_TRY(nvrtc::compile_images(p.variants, options, images));
  if (images.images > 0) timer.lap("nvrtc");
  if (report != nullptr) report->images = std::move(images);
  if (report != nullptr) report->schedules = std::move(lowered.schedules);
  if (report != nullptr) report->broken = std::move(lowered.broken);
  if (report != nullptr && !p.variants.empty())
    report->groups = describe_groups(p.variants[0].plan);
  return p;
}

Result<package::Package> compile_file(const std::string& path, const CompileOptions& options,
                                      CompileReport* report) {
  RP_TRY(check_options(options));
  const auto start = Clock::now();
  onnx::ImportOptions import_options;
  import_options.shapes = options.shapes;
  RP_ASSIGN(auto model, onnx::import_file(path, import_options));
  if (report != nullptr) {
    report->passes.push_back({"import", ms_since(start)});
  }
  auto compiled = compile(std::move(model), options, report);
  if (!compiled.ok()) return compiled.status().with_context(path);
  return compiled;
}

}  // namespace reprise
