#include "tests/fuzz/lib/check.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "backends/registry.h"
#include "codegen/compile/targets.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/session/session.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_source.h"
#include "tests/support/rebuild.h"

namespace reprise::fuzz {

namespace {

using test::RandomSource;

bool is_disabled(const Config& c, std::string_view pass) {
  return std::find(c.disabled.begin(), c.disabled.end(), pass) != c.disabled.end();
}

/// Schedules by the config's seed, the same for equal kernels.
size_t choice_of(const Config& c, const std::string& kernel, size_t candidates) {
  if (c.schedule == 0 || candidates == 0) return 0;
  RandomSource rng(c.schedule, kernel);
  return static_cast<size_t>(rng.next() % candidates);
}

CompileOptions options_of(const Config& c, const Fault* fault) {
  CompileOptions o;
  const std::string backend = c.device.starts_with("cuda") ? "cuda" : "vulkan";
  o.targets = {c.variant.empty() ? backend : c.variant};
  if (const char* path = std::getenv("REPRISE_NVRTC")) o.nvrtc = path;
  o.disabled_passes = c.disabled;
  o.pass_options["batch.fewest"] = 2;  // random graphs have few equal kernels
  o.precision = c.precision;
  o.verify_passes = true;
  if (c.schedule != 0) {
    o.choose_schedule = [c](const ScheduleSite& q) {
      return choice_of(c, q.kernel, q.candidates.size());
    };
  }
  if (fault != nullptr && fault->graph) {
    o.on_pass = [fault](const std::string& pass, const graph::Graph& g) {
      fault->graph(pass, const_cast<graph::Graph&>(g));  // it is the compiler's own, and not const
    };
  }
  return o;
}

std::vector<Binding> bindings_of(const graph::Graph& g, const Tensors& inputs) {
  std::vector<Binding> out(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    out[i].name = g.value(g.inputs[i]).name;
    out[i].host = &inputs[i];
  }
  return out;
}

}  // namespace

std::string kind_name(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::Wrong:
      return "wrong";
    case Failure::Kind::Error:
      return "error";
    case Failure::Kind::Unstable:
      return "unstable";
    case Failure::Kind::Crash:
      return "crash";
    case Failure::Kind::Hang:
      return "hang";
    case Failure::Kind::Invalid:
      return "invalid";
  }
  return {};
}

std::string Config::str() const {
  std::string out = "device=" + device;
  if (!variant.empty()) out += " variant=" + variant;
  for (const std::string& pass : disabled) out += " disable=" + pass;
  if (schedule != 0) out += " schedule=" + std::to_string(schedule);
  if (isolate) out += " isolate=1";
  if (!replay) out += " replay=0";
  if (plans) out += " plans=1";
  if (built) out += " built=1";
  if (descriptors != 0) out += " descriptors=" + std::to_string(descriptors);
  if (precision != DType::F32) out += " precision=" + precision_name(precision);
  return out;
}

Result<Config> Config::parse(const std::string& text) {
  Config c;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t eq = word.find('=');
    const std::string name = word.substr(0, eq);
    const std::string value = eq == std::string::npos ? "" : word.substr(eq + 1);
    if (name == "device") {
      c.device = value;
    } else if (name == "variant") {
      c.variant = value;
    } else if (name == "disable") {
      c.disabled.push_back(value);
    } else if (name == "schedule") {
      c.schedule = std::stoull(value);
    } else if (name == "isolate") {
      c.isolate = value == "1";
    } else if (name == "replay") {
      c.replay = value != "0";
    } else if (name == "plans") {
      c.plans = value == "1";
    } else if (name == "built") {
      c.built = value == "1";
    } else if (name == "descriptors") {
      c.descriptors = value == "2" ? 2 : value == "1" ? 1 : 0;
    } else if (name == "precision") {
      RP_ASSIGN(c.precision, parse_precision(value));
    } else {
      return Status(Code::Usage, "'" + word +
                                     "' is none of device, variant, disable, schedule, isolate, "
                                     "replay, plans, built, descriptors "
                                     "and precision");
    }
  }
  return c;
}

/// A program and its results on the host, one per run.
struct Checker::Case {
  const Program& program;
  const CheckOptions& options;
  std::unique_ptr<graph::Graph> model;
  std::unique_ptr<Evaluation> core;
  std::vector<Reference> runs;
  std::vector<Reference> narrow;  // the same, with the errors of a lower precision
  DType narrow_precision = DType::F32;

  std::vector<Reference>& references(DType precision) {
    if (precision == DType::F32) return runs;
    if (narrow.empty() || narrow_precision != precision) {
      narrow.clear();
      for (const Reference& r : runs) {
        narrow.emplace_back(*core, r.symbols(), r.inputs(), r.expected(), precision);
      }
      narrow_precision = precision;
    }
    return narrow;
  }
};

Checker::Checker() {
  for (const DeviceInfo& info : list_devices()) {
    if (info.usable && info.facts.api != Api::Host) devices_.push_back(info.id);
  }
}

Result<std::shared_ptr<Device>> Checker::open(const Config& config) {
  auto& device = open_[config.device + std::string(static_cast<size_t>(config.descriptors), '-')];
  if (device == nullptr) {
    BackendOptions options;
    options.hidden.buffer_address = config.descriptors > 0;
    options.hidden.update_after_bind = config.descriptors > 1;
    RP_ASSIGN(OpenedDevice opened, open_device(config.device, options));
    device = opened.device;
  }
  return device;
}

namespace {

/// Sizes of all symbols in each run; symbols that the heading does not name are 2.
std::vector<std::vector<int64_t>> sizes_of(const graph::Graph& g, const test::Heading& heading) {
  using Kind = SymbolSource::Kind;
  size_t runs = 1;
  for (const auto& [name, sizes] : heading.sizes) runs = std::max(runs, sizes.size());
  std::vector<std::vector<int64_t>> out(runs);
  for (size_t r = 0; r < runs; ++r) {
    for (size_t s = 0; s < g.symbols.size(); ++s) {
      const SymbolSource& source = g.symbol_sources[s];
      const auto given = heading.sizes.find(g.symbols[s].name);
      Result<int64_t> size = std::numeric_limits<int64_t>::min();  // data decides it
      if (source.kind == Kind::Derived) size = source.value.eval(out[r]);
      if (source.kind == Kind::InputDim) size = 2;
      if (source.kind == Kind::InputDim && given != heading.sizes.end()) {
        size = given->second[std::min(r, given->second.size() - 1)];
      }
      out[r].push_back(size.ok() ? *size : std::numeric_limits<int64_t>::min());
    }
  }
  return out;
}

/// Devices without int64 refuse values that need it, by name.
bool documented(const Status& s) {
  const auto says = [&](const std::string& text) {
    return s.message().find(text) != std::string::npos;
  };
  return says("does not fit the 32 bits that this device computes with") || says("error word 2");
}

void count_operators(const graph::Graph& g, Verdict& v) {
  for (const auto& n : g.nodes()) {
    for (const graph::ValueId out : n->outputs) {
      if (out == graph::kNone) continue;
      v.count("op " + n->op);
      v.count("dtype " + std::string(name_of(g.value(out).dtype)));
      v.count("rank " + std::to_string(g.value(out).shape.size()));
      break;
    }
    for (const auto& [label, body] : n->subgraphs) count_operators(*body, v);
  }
}

}  // namespace

std::vector<Config> Checker::choose(const Program& p, const CheckOptions& options) const {
  if (!options.configs.empty()) return options.configs;
  RandomSource rng(p.heading.seed.value_or(1), "config");
  std::vector<Config> out{Config::on("core")};
  std::vector<std::string> variants;
  for (const lower::Target& t : vulkan_targets()) {
    variants.push_back(t.name);
    if (t.predicate.needs_int64) variants.push_back(with_float64(t).name);
  }
  variants.emplace_back("cuda:sm_90a");  // roles, which only the interpreter runs
  Config kernels = Config::on("interpreter");
  kernels.variant = rng.pick(variants);
  if (rng.chance(0.5)) kernels.schedule = rng.next() % 1000 + 1;
  if (rng.chance(0.25)) kernels.disabled = {"fusion"};
  out.push_back(kernels);
  if (options.onnxruntime) out.push_back(Config::on("onnxruntime"));
  if (options.cuda_text) {
    Config cuda = Config::on("cuda-text");
    if (rng.chance(0.5)) cuda.schedule = rng.next() % 1000 + 1;
    out.push_back(cuda);
  }
  if (!options.devices) return out;
  for (const std::string& id : devices_) out.push_back(Config::on(id));
  if (devices_.empty()) return out;
  Config addressless = Config::on(rng.pick(devices_));
  addressless.descriptors = rng.chance(0.5) ? 1 : 2;
  if (addressless.device.starts_with("vulkan")) out.push_back(addressless);
  Config varied = Config::on(rng.pick(devices_));
  switch (rng.in(0, 7)) {
    case 0:
      varied.disabled = {"fusion"};
      break;
    case 1:
      varied.isolate = true;
      break;
    case 2:
      varied.replay = false;
      break;
    case 3:
    case 4:
      varied.disabled = {rng.pick(pass_names())};
      break;
    case 5:
      varied.schedule = rng.next() % 1000 + 1;
      break;
    case 6:
      if (varied.device.starts_with("vulkan")) varied.variant = "vulkan-baseline";
      varied.schedule = rng.next() % 1000 + 1;
      break;
    default:
      varied.precision = rng.chance(0.7) ? DType::F16 : DType::BF16;
      break;
  }
  varied.built = rng.chance(0.3);
  out.push_back(varied);
  if (!p.symbols.empty() && rng.chance(0.5)) {
    Config planned = Config::on(rng.pick(devices_));
    planned.plans = true;
    out.push_back(planned);
  }
  return out;
}

Verdict Checker::check(const Program& p, const CheckOptions& options) {
  Verdict v;
  const auto invalid = [&](const Status& s) {
    v.failures.push_back({Failure::Kind::Invalid, Config::on("host"), s.message()});
    return v;
  };
  auto model = graph::parse(p.str());
  if (!model.ok()) return invalid(model.status());
  Case c{p, options, std::move(*model), nullptr, {}, {}};
  count_operators(*c.model, v);
  CompileOptions host_only;
  host_only.targets = {};
  auto package = compile(c.model->clone(), host_only);
  if (!package.ok()) {
    v.failures.push_back(
        {Failure::Kind::Error, Config::on("host"), "compile: " + package.status().message()});
    return v;
  }
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
  if (!session.ok()) return invalid(session.status());
  auto core = Evaluation::of(*c.model);
  if (!core.ok()) {
    v.failures.push_back({Failure::Kind::Error, Config::on("core"), core.status().message()});
    return v;
  }
  c.core = std::make_unique<Evaluation>(std::move(*core));
  for (const auto& symbols : sizes_of(*c.model, p.heading)) {
    Tensors inputs;
    for (const graph::ValueId in : c.model->inputs) {
      const graph::Value& value = c.model->value(in);
      inputs.push_back(test::random_values(value.dtype, test::dims_of(value.shape, symbols),
                                           p.heading.values_of(value.name),
                                           p.heading.seed.value_or(1), value.name));
    }
    auto outputs = (*session)->run(bindings_of(*c.model, inputs));
    if (!outputs.ok()) return invalid(outputs.status());
    c.runs.emplace_back(*c.core, symbols, std::move(inputs), std::move(*outputs));
  }
  for (const Config& config : choose(p, options)) {
    const size_t before = v.failures.size();
    v.count("on " + config.device + (config.descriptors != 0 ? " with descriptors" : ""));
    for (const std::string& pass : config.disabled) v.count("without " + pass);
    const Status s = run(c, config, v);
    if (!s.ok() && documented(s)) {
      v.count("refused: int64 beyond 32 bits");
    } else if (!s.ok()) {
      v.failures.push_back({Failure::Kind::Error, config, s.message()});
    }
    if (v.failures.size() > before && !options.configs.empty()) break;
  }
  return v;
}

Status Checker::run(Case& c, const Config& config, Verdict& v) {
  if (config.device == "core") return run_core(c, config, v);
  if (config.device == "onnxruntime") return run_onnxruntime(c, config, v);
  if (config.device == "interpreter" || config.device == "cuda-text")
    return run_kernels(c, config, v);
  return run_session(c, config, v);
}

namespace {

/// False where the results are wrong.
bool judge(Reference& reference, const Tensors& results, const Config& config,
           const std::string& which, Verdict& v) {
  const Comparison compared = reference.compare(results);
  v.count("elements", compared.elements);
  v.count("analysed", compared.analysed);
  v.count("skipped", compared.skipped);
  if (compared.wrong.empty()) return true;
  v.failures.push_back({Failure::Kind::Wrong, config, which + compared.wrong});
  return false;
}

}  // namespace

Status Checker::run_core(Case& c, const Config& config, Verdict& v) {
  for (Reference& r : c.runs) {
    RP_ASSIGN(const Trace trace, c.core->trace(r.symbols(), r.inputs()));
    if (!judge(r, c.core->outputs_of(trace.values), config, "", v)) return {};
  }
  return {};
}

/// With the errors of 16 bits, as it approximates more coarsely than the host.
Status Checker::run_onnxruntime(Case& c, const Config& config, Verdict& v) {
  const auto model = onnx_bytes(*c.model);
  if (!model.ok()) {
    v.count("ONNX Runtime: " + model.status().message());
    return {};
  }
  for (Reference& r : c.references(DType::F16)) {
    if (is_open(*c.model, r.inputs(), r.expected())) {
      v.count("ONNX Runtime: not compared, as results are open");
      continue;
    }
    const auto results = onnxruntime_.run(*model, *c.model, r.inputs());
    if (!results.ok() && results.status().code() != Code::Unsupported) return results.status();
    if (!results.ok()) {
      v.count("ONNX Runtime: refused");
      return {};
    }
    if (!judge(r, *results, config, "", v)) return {};
    v.count("ONNX Runtime: compared");
  }
  return {};
}

namespace {

/// Whether every two steps of which one writes what the other uses are ordered.
Status check_order(const plan::Plan& p) {
  const size_t n = p.steps.size();
  std::vector<std::set<plan::BufferId>> reads(n), writes(n);
  for (size_t i = 0; i < n; ++i) {
    if (const auto* launch = std::get_if<plan::Launch>(&p.steps[i].what)) {
      for (size_t b = 0; b < launch->buffers.size(); ++b) {
        (launch->writes[b] ? writes : reads)[i].insert(launch->buffers[b]);
      }
    } else {
      const auto& call = std::get<plan::HostCall>(p.steps[i].what);
      reads[i].insert(call.inputs.begin(), call.inputs.end());
      writes[i].insert(call.outputs.begin(), call.outputs.end());
    }
    reads[i].erase(plan::BufferId());
    writes[i].erase(plan::BufferId());
  }
  const auto meet = [](const std::set<plan::BufferId>& a, const std::set<plan::BufferId>& b) {
    return std::any_of(a.begin(), a.end(), [&](plan::BufferId x) { return b.count(x) != 0; });
  };
  std::vector<std::vector<bool>> waits(n, std::vector<bool>(n));  // [later][earlier]
  for (size_t i = 0; i < n; ++i) {
    for (const uint32_t before : p.steps[i].after) {
      waits[i][before] = true;
      for (size_t k = 0; k < n; ++k) waits[i][k] = waits[i][k] || waits[before][k];
    }
    for (size_t k = 0; k < i; ++k) {
      if (waits[i][k] ||
          !(meet(writes[i], writes[k]) || meet(writes[i], reads[k]) || meet(reads[i], writes[k])))
        continue;
      return internal_error("plan: step " + std::to_string(i) + " does not wait for step " +
                            std::to_string(k) + ", although one writes what the other uses");
    }
  }
  return {};
}

/// A plan for the sizes of the first run, and one for those up to the largest of any run; other
/// sizes are left to the plan for all.
PlanChoice plans_for(const graph::Graph& model, const std::vector<Reference>& runs, Verdict& v) {
  PlanChoice out;
  SizeRanges first, range;
  for (size_t s = 0; s < model.symbols.size(); ++s) {
    if (model.symbol_sources[s].kind != SymbolSource::Kind::InputDim) continue;
    const int64_t size = runs.front().symbols()[s];
    if (size < 1) continue;
    int64_t largest = size;
    for (const Reference& r : runs) largest = std::max(largest, r.symbols()[s]);
    first[model.symbols[s].name] = {size, size};
    if (largest > size) range[model.symbols[s].name] = {1, largest};
  }
  if (first.empty()) return out;
  out.kind = PlanChoice::Kind::Given;
  out.plans.push_back(std::move(first));
  if (!range.empty()) out.plans.push_back(std::move(range));
  v.count("plans", static_cast<int64_t>(out.plans.size()));
  return out;
}

/// Compiles the program as it is, or built once more.
Result<package::Package> compiled(const graph::Graph& model, const Config& config,
                                  const CompileOptions& options, Verdict& v) {
  if (!config.built) return compile(model.clone(), options);
  RP_ASSIGN(builder::BuiltGraph built, test::rebuild(model));
  v.count("built");
  return compile(std::move(built.graph), options);
}

}  // namespace

Status Checker::run_session(Case& c, const Config& config, Verdict& v) {
  RP_ASSIGN(const std::shared_ptr<Device> device, open(config));
  CompileOptions options = options_of(config, c.options.fault);
  if (config.variant.empty()) options.device = device->info().facts;
  if (config.plans) options.plans = plans_for(*c.model, c.runs, v);
  std::string before = "?";
  const auto inject = options.on_pass;
  options.on_pass = [&](const std::string& pass, const graph::Graph& g) {
    std::string after = graph::print(g);
    if (before != "?" && after != before) v.count("pass " + pass);
    before = std::move(after);
    if (inject) inject(pass, g);
  };
  RP_ASSIGN(package::Package package, compiled(*c.model, config, options, v));
  RP_TRY(package::verify(package));
  if (package.variants.size() == 1) {
    for (const plan::Step& step : package.variants[0].plan.steps) {
      const auto* launch = std::get_if<plan::Launch>(&step.what);
      std::string schedule = launch == nullptr ? "host" : launch->schedule;
      std::erase_if(schedule, [](char x) { return x >= '0' && x <= '9'; });
      v.count("schedule " + schedule);
      const auto* call = std::get_if<plan::HostCall>(&step.what);
      if (call != nullptr && is_control_flow(*call))
        v.count((call->device_bodies.empty() ? "bodies on the host: " : "bodies on the device: ") +
                call->op);
    }
  }
  if (c.options.fault != nullptr && c.options.fault->package) c.options.fault->package(package);
  for (const package::Variant& variant : package.variants) {
    RP_TRY(check_order(variant.plan));
    for (const package::SizedPlan& plan : variant.plans) RP_TRY(check_order(plan.plan));
    for (const package::DeviceBody& body : variant.bodies) RP_TRY(check_order(body.plan));
  }
  SessionOptions session_options;
  session_options.isolate_tensors = config.isolate;
  session_options.replay = config.replay;
  RP_ASSIGN(const auto session,
            Session::create(std::make_shared<package::Package>(std::move(package)), device,
                            session_options));
  auto& references = c.references(config.precision);
  Tensors first;
  for (size_t i = 0; i < references.size(); ++i) {
    const std::string which = references.size() > 1 ? "run " + std::to_string(i) + ": " : "";
    RP_ASSIGN(Tensors results, session->run(bindings_of(*c.model, references[i].inputs())));
    if (!judge(references[i], results, config, which, v)) return {};
    if (i == 0) first = std::move(results);
  }
  // The first sizes again, after others.
  RP_ASSIGN(const Tensors again, session->run(bindings_of(*c.model, references[0].inputs())));
  for (size_t o = 0; o < again.size(); ++o) {
    if (same_bits(first[o], again[o])) continue;
    v.failures.push_back(
        {Failure::Kind::Unstable, config,
         "output " + std::to_string(o) + " differs between two runs on the same inputs"});
    return {};
  }
  return {};
}

namespace {

/// The passes of the pipeline, but those that are switched off.
Result<std::unique_ptr<graph::Graph>> optimised(const graph::Graph& model, const Config& config,
                                                const Fault* fault) {
  auto g = model.clone();
  for (const passes::Pass& pass : passes::pipeline()) {
    if (!pass.required && is_disabled(config, pass.name)) continue;
    RP_TRY(passes::run(pass, *g).with_context("pass " + std::string(pass.name)));
    if (fault != nullptr && fault->graph) fault->graph(std::string(pass.name), *g);
  }
  if (config.precision != DType::F32) passes::autocast(*g, config.precision);
  return g;
}

Result<lower::Target> target_of(const Config& config) {
  if (config.device == "cuda-text") return cuda_target(CudaArch{false, 80});
  RP_ASSIGN(const std::vector<lower::Target> targets, parse_targets({config.variant}));
  return targets.front();
}

}  // namespace

Status Checker::run_kernels(Case& c, const Config& config, Verdict& v) {
  RP_ASSIGN(const lower::Target target, target_of(config));
  RP_ASSIGN(const auto g, optimised(*c.model, config, c.options.fault));
  RP_ASSIGN(const lower::Fusion fusion, lower::fuse(*g, {.enabled = !is_disabled(config, "fusion"),
                                                         .device = target.predicate}));
  std::vector<lower::Lowered> kernels;
  for (const lower::Group& group : fusion.groups) {
    if (group.kind == lower::GroupKind::Host) {
      v.count("kernels apart: a node on the host");
      return {};  // sessions run those
    }
    RP_ASSIGN(lower::Lowered l, lower::lower(*g, group, target));
    const size_t choice = choice_of(config, kernel_name(group), l.choices.size());
    if (choice > 0) {
      RP_ASSIGN(l, lower::lower(*g, group, target, choice));
    }
    if (config.schedule % 2 == 1 && !needs_long_form(*g, l, group, target).is_const(0)) {
      RP_ASSIGN(l, lower::lower(*g, group, target, 0, lower::LoopForm::Long));
    }
    RP_TRY(test::legalize_for(l, target));
    for (lower::LoweredLaunch& launch : l.launches) {
      launch.kernel.name +=
          "_k" + std::to_string(kernels.size()) + "_" + std::to_string(&launch - l.launches.data());
      if (c.options.fault != nullptr && c.options.fault->kernel)
        c.options.fault->kernel(launch.kernel);
    }
    kernels.push_back(std::move(l));
  }
  test::Execute execute = test::interpret;
  std::optional<test::CudaOnCpu> module;
  if (config.device == "cuda-text" && !kernels.empty()) {
    std::vector<test::CudaSource> texts;
    for (const lower::Lowered& l : kernels) {
      for (const lower::LoweredLaunch& launch : l.launches) {
        RP_ASSIGN(std::string text, emit::cuda(launch.kernel));
        texts.push_back({launch.kernel.name, std::move(text), launch.kernel.workgroup});
      }
    }
    RP_ASSIGN(module, test::CudaOnCpu::load(texts));
    execute = test::cuda_on_cpu(*module);
  }
  for (Reference& r : c.references(config.precision)) {
    std::vector<int64_t> symbols = r.symbols();
    derive_sizes(*g, symbols);
    test::KernelRunner runner(*g, symbols, r.inputs());
    for (const lower::Lowered& l : kernels) {
      const std::string& name = l.launches.back().kernel.name;
      RP_TRY(runner.run(l, execute).with_context("kernel " + name + " (" + l.schedule + ")"));
    }
    Tensors results;
    for (size_t o = 0; o < g->outputs.size(); ++o) {
      HostTensor t(r.expected()[o].dtype(), r.expected()[o].dims());
      const auto& memory = runner.memory_of(g->outputs[o]);
      if (memory.size() < t.bytes().size())
        return internal_error("output " + std::to_string(o) + " has another size");
      std::copy_n(memory.begin(), t.bytes().size(), t.mutable_bytes().begin());
      results.push_back(std::move(t));
    }
    if (!judge(r, results, config, "", v)) return {};
  }
  return {};
}

}  // namespace reprise::fuzz
