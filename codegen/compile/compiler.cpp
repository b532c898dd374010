#include "codegen/compile/compiler.h"

#include <algorithm>
#include <optional>

#include "codegen/builder/graph_builder.h"
#include "codegen/compile/compile_context.h"
#include "codegen/compile/compile_model.h"
#include "codegen/compile/growing_states.h"
#include "codegen/compile/host_plan.h"
#include "codegen/compile/parsed_options.h"
#include "codegen/compile/run_passes.h"
#include "codegen/compile/variants.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/nvrtc/images.h"
#include "codegen/onnx/importer.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/made_constants.h"
#include "codegen/options/progress.h"
#include "codegen/outputs/outputs.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "codegen/pixels/images.h"
#include "codegen/plan/input_values.h"
#include "codegen/plan/states.h"
#include "runtime/base/timing.h"
#include "runtime/platform/process.h"

namespace reprise {

namespace {

/// Records what the pass autocast has done.
void explain_precision(const CompileContext& context, passes::PassReport& report,
                       package::Explanation& explanation) {
  if (context.options.precision == DType::F32) return;
  explanation.precision = context.options.precision;
  explanation.narrowed = report.autocast.narrowed;
  explanation.kept = std::move(report.autocast.kept);
}

/// The imported graph as host calls, which is the reference. In a package of low precision, it too
/// has the large weights of layers and embeddings in that precision. Operators without a host
/// kernel are decomposed.
Result<plan::Plan> host_plan_of(CompileContext& context) {
  const graph::Graph& g = context.model;
  const DType precision = context.options.precision;
  const bool complete =
      std::ranges::none_of(g.nodes(), [](const auto& n) { return passes::lacks_host_kernel(*n); });
  if (precision == DType::F32 && complete)
    return build_host_plan(g, context.weights, context.bodies, context.state_count);
  const std::unique_ptr<graph::Graph> own = g.clone();
  if (!complete) RP_TRY(passes::decompose_for_host(*own));
  if (precision != DType::F32) passes::narrow_host_constants(*own, precision);
  return build_host_plan(*own, context.weights, context.bodies, context.state_count);
}

/// -1: unknown before a run.
int64_t bytes_of(const plan::Plan& p, const plan::Buffer& b) {
  const Expr count = element_count(b.shape);
  if (!count.is_const()) return -1;
  const int64_t bits =
      b.kind == plan::BufferKind::Weight ? p.weights[static_cast<size_t>(b.index)].packing.bits : 0;
  return bits != 0 ? count.value() * bits / 8
                   : count.value() * static_cast<int64_t>(size_of(b.dtype));
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
      const int64_t bytes = bytes_of(p, p.buffers[launch->buffers[i]]);
      int64_t& sum = launch->writes[i] ? info.bytes_written : info.bytes_read;
      sum = bytes < 0 || sum < 0 ? -1 : sum + bytes;
    }
    out.push_back(std::move(info));
  }
  return out;
}

int64_t count_launches(const lower::Fusion& fusion) {
  return std::ranges::count_if(fusion.groups, lower::has_kernels);
}

}  // namespace

void compile_for(const DeviceInfo& device, CompileOptions& options) {
  options.device = device.facts;
  if (device.facts.api == Api::Cuda) options.cuda_driver = device.driver_version;
}

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

namespace {

/// What the passes have left of a graph becomes groups, and these become variants.
Status lower_graph(CompileContext& context, graph::Graph& g, package::Package& p,
                   CompileReport& out) {
  const CompileOptions& options = context.options;
  RP_ASSIGN(PlanRequests plans, requested_plans(g, options.plans));
  g.likely_sizes = std::move(plans.others);
  const lower::FusionOptions fusing = fusion_options(context);
  RP_ASSIGN(lower::Fusion fusion, lower::fuse(g, fusing));
  context.end_pass(std::string(kFusionPass));
  RP_TRY(report_progress(options, std::string(kFusionPass)));
  RP_TRY(context.device_bodies.prepare(context));
  context.end_pass("bodies");
  if (options.fullgraph) RP_TRY(context.device_bodies.require_no_host(fusion));
  RP_ASSIGN(const lower::Fusion unfused, lower::fuse(g, {.enabled = false,
                                                         .device = fusing.device,
                                                         .largest_weight = fusing.largest_weight}));
  p.explanation.launches_unfused = count_launches(unfused);
  explain_unfused(fusion, p.explanation);
  context.end_pass("explain");
  RP_TRY(build_variants(context, fusion, plans.plans, p));
  context.end_variants();
  out.images = {};
  RP_TRY(nvrtc::compile_images(p.variants, options, out.images));
  if (out.images.images > 0) context.end_pass("nvrtc");
  if (!p.variants.empty()) out.groups = describe_groups(p.variants[0].plan);
  return {};
}

/// Compiles a graph that has the outputs which the options ask for.
Result<package::Package> compile_outputs(graph::Graph& g, const CompileOptions& options,
                                         const ParsedOptions& parsed, CompileReport& out) {
  package::Package p;
  const ops::MadeConstants shared;
  CompileContext context(g, p, options, parsed, out);
  p.model_name = g.name;
  p.metadata = g.metadata;
  p.producer = "reprise 0.1.0";
  RP_TRY(add_images(g, options.images, options.ranges));
  RP_ASSIGN(const std::vector<StateOption> states, with_growing_states(g, options));
  RP_TRY(order_states(g, states));
  context.state_count = states.size();
  context.growing = growing_of(g, states);
  RP_ASSIGN(p.host_plan, host_plan_of(context));
  p.explanation.model_nodes = static_cast<int64_t>(g.nodes().size());
  context.end_pass("host-plan");
  passes::PassReport report_of_passes;
  RP_TRY(run_passes(context, report_of_passes));
  p.explanation.notes = g.notes;
  explain_precision(context, report_of_passes, p.explanation);
  // Inference during the passes may have added symbols, and guards that make dims equal.
  ops::resolve_guards(g);
  p.io = make_interface(g, context.state_count);
  RP_TRY(finish_states(g, states, context.weights, p.io));
  RP_TRY(store_input_values(options, context.weights, p.io));
  describe_images(options.images, p.io);
  adopt_interface(p.io, p.host_plan);
  RP_TRY(lower_graph(context, g, p, out));
  return p;
}

Result<package::Package> compile_graph(std::unique_ptr<graph::Graph> model,
                                       const CompileOptions& options, const ParsedOptions& parsed,
                                       CompileReport* report) {
  graph::Graph& g = *model;
  if (options.choose_schedule && options.plans.kind == PlanChoice::Kind::Given)
    return Status(Code::Usage,
                  "schedules are chosen by measurement for one plan; compile without "
                  "--plan, or without --mode max-autotune");
  if (!g.captures.empty()) return invalid_model("the graph captures values, which only bodies do");
  CompileReport unused;
  CompileReport& out = report != nullptr ? *report : unused;
  out = {};
  RP_TRY(add_last(g, options.last));
  if (!options.sample) return compile_outputs(g, options, parsed, out);
  CompileOptions with_states = options;  // those of sampling
  RP_TRY(add_sampling(g, with_states));
  return compile_outputs(g, with_states, parsed, out);
}

/// A model in a file, or in memory if there is no path.
struct ModelSource {
  const std::string* path = nullptr;
  std::span<const std::byte> bytes = {};
};

/// Compiles a model. With `refusals`, compiles what the importer does not refuse.
Result<package::Package> import_and_compile(const ModelSource& from, const CompileOptions& options,
                                            CompileReport* report,
                                            std::vector<onnx::Refusal>* refusals) {
  RP_ASSIGN(const ParsedOptions parsed, parse_options(options));
  const auto start = Clock::now();
  CompileOptions with_values = options;
  std::map<std::string, std::optional<HostTensor>> states, optional;
  for (const StateOption& s : options.states) states[s.input] = {};
  std::optional<platform::FileBytes> files(std::in_place);
  for (const OptionalInput& i : options.optional_inputs) optional[i.name] = {};
  onnx::ImportOptions import_options{options.shapes, options.ranges, refusals, &states,
                                     &optional,      options.values, &*files};
  std::erase_if(import_options.ranges,
                [&](const auto& r) { return is_image_size(options.images, r.first); });
  RP_ASSIGN(auto model, from.path ? onnx::import_file(*from.path, import_options)
                                  : onnx::import_bytes(from.bytes, import_options));
  for (StateOption& s : with_values.states)
    if (!s.initial) s.initial = states[s.input];
  for (OptionalInput& i : with_values.optional_inputs) i.value = optional[i.name];
  const double import_ms = ms_since(start);
  if (model->outputs.empty()) return package::Package();  // everything was refused
  auto compiled = compile_graph(std::move(model), with_values, parsed, report);
  if (!compiled.ok())
    return from.path ? compiled.status().with_context(*from.path) : compiled.status();
  package::leave_in_files(*compiled, *files);
  files.reset();
  platform::give_back_memory();
  if (report != nullptr) report->passes.insert(report->passes.begin(), {"import", import_ms});
  return compiled;
}

/// compile_supported() and compile_supported_bytes().
Result<package::Package> compile_what_is_supported(const ModelSource& from,
                                                   const CompileOptions& options,
                                                   CompileReport& report) {
  std::vector<onnx::Refusal> refusals;
  auto package = import_and_compile(from, options, &report, &refusals);
  report.refusals = std::move(refusals);
  const Code code = package.ok() ? Code::Ok : package.status().code();
  if (report.refusals.empty() || (code != Code::Unsupported && code != Code::InvalidModel))
    return package;
  // What is left of the model cannot be compiled, either.
  report.refusals.push_back({"", "", "", 0, package.status()});
  return package::Package();
}

}  // namespace

Result<package::Package> compile(std::unique_ptr<graph::Graph> model, const CompileOptions& options,
                                 CompileReport* report) {
  RP_ASSIGN(const ParsedOptions parsed, parse_options(options));
  return compile_graph(std::move(model), options, parsed, report);
}

Result<package::Package> compile_file(const std::string& path, const CompileOptions& options,
                                      CompileReport* report) {
  return import_and_compile({&path}, options, report, nullptr);
}

Result<package::Package> compile_bytes(std::span<const std::byte> model,
                                       const CompileOptions& options, CompileReport* report) {
  return import_and_compile({nullptr, model}, options, report, nullptr);
}

Result<package::Package> compile_built(const builder::BuiltGraph& model,
                                       const CompileOptions& options, CompileReport* report) {
  if (!model.graph) return Status(Code::Usage, "the graph was compiled or finished before");
  const auto refused = [](const char* option, const char* instead) {
    return Status(Code::Usage,
                  std::string(option) + " are options of model files; a built graph " + instead);
  };
  if (!options.shapes.empty()) return refused("shapes", "has the dims that input() was given");
  if (!options.values.empty()) return refused("values", "has constants");
  if (!options.optional_inputs.empty())
    return refused("optional inputs", "has inputs, constants and states");
  CompileOptions own = options;
  for (const builder::BuiltGraph::State& s : model.states)
    own.states.push_back({s.input, s.output, s.initial});
  std::unique_ptr<graph::Graph> graph = model.graph->clone();
  graph->metadata = model.graph->metadata;
  SizeRanges ranges = options.ranges;
  std::erase_if(ranges, [&](const auto& r) { return is_image_size(options.images, r.first); });
  RP_TRY(graph::apply_ranges(*graph, ranges));
  return compile(std::move(graph), own, report);
}

Result<package::Package> compile_supported(const std::string& path, const CompileOptions& options,
                                           CompileReport& report) {
  return compile_what_is_supported({&path}, options, report);
}

Result<package::Package> compile_supported_bytes(std::span<const std::byte> model,
                                                 const CompileOptions& options,
                                                 CompileReport& report) {
  return compile_what_is_supported({nullptr, model}, options, report);
}

}  // namespace reprise
