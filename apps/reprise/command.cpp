#include "apps/reprise/command.h"

#include "apps/common/files.h"
#include "apps/common/waiting.h"
#include "codegen/autotune/autotune.h"
#include "codegen/compile/targets.h"
#include "codegen/families/decoder.h"
#include "runtime/base/timing.h"
#include "runtime/platform/path.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

namespace reprise::app {

void Output::text(const std::string& s) const {
  if (json_path_ != "-") std::cout << s << std::flush;
}

Status Output::json(const Json& document) const {
  if (json_path_.empty()) return {};
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (json_path_ == "-") {
    std::cout << text << std::flush;
    return {};
  }
  return write_file(json_path_, text);
}

Json number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

Result<CompileOptions> CommonOptions::compile_options() const {
  CompileOptions o;
  RP_ASSIGN(o.shapes, parse_shapes(shapes));
  o.shapes.insert(facts.shapes.begin(), facts.shapes.end());
  RP_ASSIGN(o.values, parse_values(values));
  o.values.insert(facts.values.begin(), facts.values.end());
  std::set<std::string> optional(optional_inputs.begin(), optional_inputs.end());
  optional.insert(facts.optional_inputs.begin(), facts.optional_inputs.end());
  for (const std::string& name : optional) o.optional_inputs.push_back({name});
  RP_ASSIGN(o.ranges, parse_ranges(ranges));
  RP_ASSIGN(o.plans, parse_plans(plans));
  RP_ASSIGN(o.precision, parse_precision(precision));
  RP_ASSIGN(o.states, parse_states(states));
  o.grow_states = grow_states;
  for (const std::string& text : images) {
    RP_ASSIGN(o.images.emplace_back(), parse_image(text));
  }
  RP_ASSIGN(o.last, parse_last(last));
  if (!sample.empty()) {
    RP_ASSIGN(o.sample, parse_sample(sample));
  }
  o.disabled_passes = disabled_passes;
  RP_ASSIGN(o.pass_options, parse_pass_options(pass_options));
  o.fullgraph = fullgraph;
  o.nvrtc = nvrtc;
  o.cuda_cache_dir = cuda_cache_dir();
  o.keep_source = keep_source;
  o.log = [](const std::string& message) { note(message); };
  return o;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const size_t first = item.find_first_not_of(' '), last = item.find_last_not_of(' ');
    if (first != std::string::npos) out.push_back(item.substr(first, last - first + 1));
  }
  return out;
}

void add_without(CLI::App& command, CommonOptions& o) {
  command
      .add_option("--without", o.without,
                  "Take features of devices to be missing: buffer-addresses, update-after-bind, "
                  "transfer-queues, vulkan-1.2. Shows what devices do that lack them")
      ->delimiter(',');
}

namespace {

void add_device(CLI::App& command, CommonOptions& o) {
  command
      .add_option("--device", o.device,
                  "auto, host, vulkan[:N] or cuda[:N]; `reprise devices` lists them")
      ->capture_default_str();
  command.add_flag("--validation", o.validation,
                   "Turn on the Vulkan validation layers; their messages are failures");
  add_without(command, o);
}

void add_session(CLI::App& command, CommonOptions& o) {
  command.add_flag(
      "--warm-up", o.warm_up,
      "Launch every kernel without work while the model loads: drivers that compile at "
      "the first launch then do so during loading, not in the first run");
  command
      .add_option("--slice-us", o.slice_us,
                  "Cut runs in submissions of about this many microseconds, so that other users of "
                  "the device have their turn in between; 0: do not")
      ->check(CLI::Range(0, 1000000000))
      ->capture_default_str();
  command.add_flag("--check-kernels", o.check_kernels,
                   "Run each kernel alone while the model loads and compare its results; a "
                   "variant with a failing kernel is replaced by another one, or else by the host");
  command.add_flag("--isolate-tensors", o.isolate_tensors,
                   "Give each intermediate tensor its own memory, so that tools that watch "
                   "allocations detect accesses outside of tensors");
}

namespace {

bool is_tuned(const CommonOptions& options) {
  return options.mode.starts_with("max-autotune");
}

/// What sessions keep, and which part of the outputs is wanted.
void add_states(CLI::App& command, CommonOptions& o) {
  command
      .add_option("--state", o.states,
                  "INPUT=OUTPUT: sessions keep the input from run to run, and the output is its "
                  "next value. An initialiser of that name is the first value, by default zeros")
      ->allow_extra_args(false);
  command
      .add_option("--grow-states", o.grow_states,
                  "Inputs that are caches become states that grow: none, auto for all that are "
                  "recognised, or patterns of names such as past_key_*,past_value_*. An output "
                  "must be the input followed by new rows")
      ->capture_default_str();
  command
      .add_option("--last", o.last,
                  "OUTPUT or OUTPUT=AXIS: only the last position along the axis is wanted, by "
                  "default along the one before the last. Nothing else is computed then")
      ->allow_extra_args(false);
  command.add_option(
      "--sample", o.sample,
      "OUTPUT,KEY,...: samples a token from the last logits of each row, so that the package has "
      "the output sampled_ids [rows, 1], and inputs that runs may leave out: sampling.temperature "
      "(0: the likeliest token), .top_k, .top_p, .min_p and .seed. Keys: window=N (penalties for "
      "the last N sampled tokens: sampling.repetition_penalty, .presence_penalty and "
      ".frequency_penalty), bias (sampling.bias), mask (bits in sampling.allowed), rows (numbers "
      "for each row), only (without the logits), int32 (ids)");
  command
      .add_option("--image", o.images,
                  "NAME=FORMAT,KEY=VALUE,...: the input or output is an image in rgba8, bgra8, "
                  "rgba16f, r8 or nv12, and the first or last kernel converts it, as in "
                  "x=rgba8,resize=bilinear,mean=0.485:0.456:0.406,std=0.229:0.224:0.225. A pixel "
                  "is 0 to 1; the model gets (pixel * scale - mean) / std. Keys: resize=nearest or "
                  "bilinear (to the model's size), mean, std, scale, colors=rgb, bgr, gray or rgba "
                  "(of the model), layout=nchw or nhwc, crop=X:Y:WIDTH:HEIGHT or run (another "
                  "input, NAME.crop, has the rectangle), size=WIDTHxHEIGHT (by default each run "
                  "has its own), and for nv12 matrix=bt601 or bt709 and range=limited or full")
      ->allow_extra_args(false);
}

}  // namespace

/// What changes the inputs and outputs of the package.
void add_interface(CLI::App& command, CommonOptions& o) {
  command
      .add_option("--shape", o.shapes,
                  "Dims of a dynamic input: NAME=1x3x224x224. An .onnx is compiled for these "
                  "sizes only; a compiled .rpk keeps its dynamic dims")
      ->allow_extra_args(false);
  command
      .add_option("--range", o.ranges,
                  "NAME=MIN..MAX: limits the size of the dynamic dims of this name, as in "
                  "batch=1..64. Runs with other sizes are refused")
      ->allow_extra_args(false);
  command
      .add_option("--plan", o.plans,
                  "NAME=SIZE or NAME=MIN..MAX, several with commas between them: a plan with "
                  "kernels for these sizes, as in sequence=1, sequence=2..16 and sequence=17... A "
                  "run uses the first that serves its sizes, or else the plan for all sizes. auto: "
                  "the compiler decides; none: one plan for all sizes")
      ->allow_extra_args(false);
  command
      .add_option("--optional-input", o.optional_inputs,
                  "An input to which the file gives a value and that runs may give or leave out. "
                  "Other inputs with values are constants")
      ->allow_extra_args(false);
  command
      .add_option("--value", o.values,
                  "NAME=2,-1,3: the elements of a small input of integers in every run. They may "
                  "decide the ranks of results; runs with others are refused")
      ->allow_extra_args(false);
  add_states(command, o);
}

void add_compile(CLI::App& command, CommonOptions& o) {
  command
      .add_option("--mode", o.mode,
                  "default: fusion. reduce-overhead: fusion and recorded replay. max-autotune "
                  "and max-autotune-no-graphs: also measured schedules")
      ->check(
          CLI::IsMember({"default", "reduce-overhead", "max-autotune", "max-autotune-no-graphs"}))
      ->capture_default_str();
  const CLI::Option* seconds =
      command
          .add_option("--tune-seconds", o.tune_seconds,
                      "max-autotune: start no further candidates after this time")
          ->check(at_least_zero())
          ->capture_default_str();
  command.parse_complete_callback([&o, seconds] {
    if (seconds->count() > 0 && !is_tuned(o))
      throw CLI::ValidationError("--tune-seconds", "only --mode max-autotune measures schedules");
  });
  command
      .add_option(
          "--precision", o.precision,
          "Precision of tensors and large weights in memory, where that is safe: fp32, fp16 "
          "or bf16; sums and values inside a kernel stay fp32")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--nvrtc", o.nvrtc,
                  "Path of libnvrtc.so, which compiles for CUDA; by default it is searched for")
      ->envname("REPRISE_NVRTC");
  command
      .add_flag("--keep-source", o.keep_source,
                "Keep the CUDA text of kernels in the package and, for debuggers, beside the "
                "cached images on this machine")
      ->envname("REPRISE_KEEP_SOURCE");
  add_interface(command, o);
  command.add_option("--disable-pass", o.disabled_passes, "Switch a compiler pass off by name")
      ->allow_extra_args(false);
  command
      .add_option(
          "--pass-option", o.pass_options,
          "PASS.OPTION=NUMBER, such as fusion.limit=10: fusion makes only its first ten joins, "
          "which `explain --verbose` lists")
      ->allow_extra_args(false);
  command.add_flag("--fullgraph", o.fullgraph, "Make a node that falls back to the host an error");
}

}  // namespace

void add_common(CLI::App& command, CommonOptions& o, unsigned groups) {
  if (groups & kDevice) add_device(command, o);
  if (groups & kSession) add_session(command, o);
  if (groups & kCompile) add_compile(command, o);
  if (groups & kJson) {
    command.add_option("--json", o.json, "Write results as JSON to a file; - for standard output")
        ->check(no_model());
  }
  command.add_flag("--verbose", o.verbose, "Say more on standard error");
}

void add_inputs(CLI::App& command, InputOptions& o) {
  command.add_option("--input", o.files, "An input: NAME=FILE, a .npy or a .pb (TensorProto)")
      ->allow_extra_args(false);
  command.add_option("--data", o.data_dir,
                     "Folder with input_0.pb, input_1.pb, ... for every input that --input does "
                     "not give");
  command.add_option("--seed", o.seed, "Seed of inputs that are not given")
      ->check(whole_number())
      ->capture_default_str();
}

Result<std::string> data_folder(const std::string& path, const CommonOptions& common,
                                const InputOptions& options, bool use_test_data,
                                std::vector<std::string>& notes) {
  namespace fs = std::filesystem;
  if (!options.data_dir.empty()) {
    if (fs::is_directory(utf8_path(options.data_dir))) return options.data_dir;
    return Status(Code::Io, "--data: no such folder: '" + options.data_dir + "'");
  }
  const bool wanted = use_test_data && options.files.empty() && common.shapes.empty();
  const std::string beside = utf8_text(utf8_path(path).parent_path() / "test_data_set_0");
  if (!wanted || !fs::is_directory(utf8_path(beside))) return std::string();
  if (has_input_files(beside)) return beside;
  notes.push_back("'" + beside + "' has no input_0.pb, so the inputs are random");
  return std::string();
}

Result<InputSet> collect_inputs(const Model& model, const CommonOptions& common,
                                const InputOptions& options, bool use_test_data) {
  return collect_inputs(model.package->io, model.path, common, options, use_test_data);
}

Result<InputSet> collect_inputs(const plan::Interface& io, const std::string& path,
                                const CommonOptions& common, const InputOptions& options,
                                bool use_test_data) {
  InputSources sources;
  sources.seed = options.seed;
  RP_ASSIGN(sources.shapes, parse_shapes(common.shapes));
  std::vector<std::string> notes;
  RP_ASSIGN(const std::string dir, data_folder(path, common, options, use_test_data, notes));
  if (!dir.empty()) {
    RP_ASSIGN(sources.given, read_input_folder(dir, io, notes));
  }
  std::set<std::string> named;
  for (const std::string& text : options.files) {
    RP_ASSIGN(auto assignment, parse_assignment(text));
    if (!named.insert(assignment.first).second)
      return Status(Code::Usage, "--input gives '" + assignment.first + "' twice");
    RP_ASSIGN(sources.given[assignment.first], read_input(io, assignment.first, assignment.second));
  }
  if (!dir.empty()) RP_TRY(check_complete(dir, io, sources.given));
  RP_ASSIGN(InputSet inputs, make_inputs(io, sources, notes));
  for (const std::string& text : notes) note(text);
  return inputs;
}

Status check_package_options(const Model& model, const CommonOptions& options) {
  const char* option = !options.disabled_passes.empty()   ? "--disable-pass"
                       : !options.pass_options.empty()    ? "--pass-option"
                       : !options.states.empty()          ? "--state"
                       : options.grow_states != "none"    ? "--grow-states"
                       : !options.optional_inputs.empty() ? "--optional-input"
                       : !options.values.empty()          ? "--value"
                       : !options.images.empty()          ? "--image"
                       : options.precision != "fp32"      ? "--precision"
                                                          : nullptr;
  if (model.compiled || option == nullptr) return {};
  return {Code::Usage, "'" + model.path + "' is compiled already, so " + option +
                           " cannot change it; pass the .onnx file"};
}

namespace {

/// Compiles with measured schedules. The inputs are those beside the model, or else random.
Result<Model> tuned_model(const std::string& path, const CompileOptions& compile,
                          const CommonOptions& options, OpenedDevice& device) {
  RP_TRY(check_model_file(path));
  AutotuneOptions tuning;
  CommonOptions same = options;
  same.device = device.info.id;
  tuning.reopen = [&same]() -> Result<std::shared_ptr<Device>> {
    RP_ASSIGN(OpenedDevice again, open_selected(same, {}));
    return std::move(again.device);
  };
  tuning.cache_dir = default_backend_options().cache_dir;
  tuning.budget_s = options.tune_seconds;
  tuning.progress = [](const std::string& line) { note("tuning: " + line); };
  tuning.warning = [](const std::string& line) { note(line); };
  Model model;
  model.path = path;
  model.compiled = true;
  InputSet inputs;
  tuning.inputs = [&](const package::Package& p) -> Result<std::vector<HostTensor>> {
    RP_ASSIGN(inputs, collect_inputs(p.io, path, options, {}, true));
    return inputs.tensors;
  };
  const double start = now_ms();
  AutotuneReport report;
  Result<TunedPackage> result = autotune(path, compile, device.device, tuning, &report);
  if (!result.ok()) return inputs.explain(result.status());
  TunedPackage& tuned = *result;
  model.package = std::move(tuned.package);
  model.report = std::move(tuned.report);
  show_notes(*model.package);
  model.compile_ms = now_ms() - start;
  if (options.verbose) {
    for (const TunedKernel& k : report.kernels) {
      std::string line = "tuned " + k.kernel + ": " + k.schedule + (k.from_cache ? " (kept)" : "");
      for (const CandidateTime& c : k.candidates) {
        line += "; " + c.schedule +
                (c.rejected ? " rejected (" + c.reason + ")" : " " + format_number(c.us) + " us");
      }
      note(line);
    }
  }
  if (report.amplifies) return model;
  if (report.tuned_us > 0) {
    note("tuned: a run's kernels take " + format_number(report.tuned_us) + " us, by default " +
         format_number(report.default_us) + " us");
  } else if (report.runs > 0) {
    note("tuned: no schedule is faster than the default ones");
  } else {
    note(report.kernels.empty()
             ? "tuned: no kernel has a choice of schedules"
             : "tuned: nothing was measured, because all schedules are in the cache");
  }
  return model;
}

}  // namespace

namespace {

Result<Model> load_measured(const std::string& path, const CompileOptions& compile,
                            const CommonOptions& options, OpenedDevice& device) {
  const bool compiles = !path.ends_with(".rpk");
  const bool generates = families::is_decoder(path);
  const bool tuned = is_tuned(options) && device.device && compiles && !generates;
  if (is_tuned(options) && !tuned) {
    note(options.mode + ": nothing is measured, because " +
         (generates  ? "language models in other formats than ONNX are not measured"
          : compiles ? "the host has no schedules"
                     : "a package keeps its schedules"));
  }
  return tuned ? tuned_model(path, compile, options, device) : load_model(path, compile);
}

}  // namespace

Result<Model> load_for(const std::string& path, const CommonOptions& options,
                       OpenedDevice& device) {
  RP_ASSIGN(CompileOptions compile, options.compile_options());
  compile.targets = targets_for(device);
  // With checks, compile several variants, because a variant with a failing kernel is replaced.
  compile.probes = options.check_kernels;
  if (device.device && (is_tuned(options) || !options.check_kernels))
    compile_for(device.info, compile);
  RP_ASSIGN(Model model, load_measured(path, compile, options, device));
  RP_TRY(check_package_options(model, options));
  if (options.verbose && model.compiled) {
    for (const PassTime& pass : model.report.passes) {
      std::fprintf(stderr, "pass %-24s %8.2f ms\n", pass.name.c_str(), pass.ms);
    }
  }
  return model;
}

namespace {

/// Why no target would run on the device; empty if one would. Invalid targets refuse no device;
/// compilation reports the error.
std::string untargeted(const DeviceInfo& device, const CompileOptions& compile) {
  const auto targets = parse_targets(compile.targets, compile.device);
  if (!targets.ok()) return {};
  const auto fits = [&](const lower::Target& t) {
    return t.predicate.mismatch(device.facts).empty();
  };
  if (std::any_of(targets->begin(), targets->end(), fits)) return {};
  const std::string own = device.facts.api == Api::Cuda
                              ? "cuda:sm_" + std::to_string(device.facts.cuda_arch)
                              : std::string("vulkan");
  return "no target is for " + device.id + ": add " + own +
         " to --targets, or measure on another device (--device)";
}

}  // namespace

Result<Model> load_as(const std::string& path, const CompileOptions& compile,
                      const CommonOptions& options) {
  if (!is_tuned(options)) return load_model(path, compile);
  const auto refuses = [&](const DeviceInfo& d) { return untargeted(d, compile); };
  RP_ASSIGN(OpenedDevice device, open_selected_if(options, refuses));
  const std::string refused = device.device ? untargeted(device.info, compile) : std::string();
  if (!refused.empty() && !path.ends_with(".rpk"))
    return Status(Code::Usage, "--mode " + options.mode + ": " + refused);
  // The version of the device's driver decides which NVRTC is used.
  CompileOptions own = compile;
  if (device.info.facts.api == Api::Cuda) own.cuda_driver = device.info.driver_version;
  return load_measured(path, own, options, device);
}

Result<std::unique_ptr<Session>> make_session(const Model& model, const OpenedDevice& device,
                                              const CommonOptions& options, bool timestamps) {
  SessionOptions o;
  o.fullgraph = options.fullgraph;
  o.replay = options.mode == "reduce-overhead" || options.mode == "max-autotune";
  o.timestamps = timestamps;
  o.warm_up = options.warm_up;
  o.isolate_tensors = options.isolate_tensors;
  o.check_kernels = options.check_kernels;
  o.slice_ns = options.slice_us * 1000;
  o.cache_dir = default_backend_options().cache_dir;
  o.log = [verbose = options.verbose](Severity severity, const std::string& message) {
    if (verbose || severity != Severity::Info) note(message);
  };
  RP_ASSIGN(std::unique_ptr<Session> session, [&] {
    const Waiting waiting(builds_kernels(device.info, model.path));
    return Session::create(model.package, device.device, o);
  }());
  for (const std::string& line : session->variant_notes()) {
    // Notes about skipped variants are for --verbose; a note about the variant in use is always
    // shown.
    if (options.verbose || line.starts_with(session->variant() + ": ")) note(line);
  }
  if (options.verbose) {
    if (device.device) note("variant " + session->variant());
  }
  return session;
}

Result<std::unique_ptr<Session>> make_reference(const Model& model, const CommonOptions& options) {
  if (model.precision() == DType::F32 || !model.compiled)
    return Session::create(model.package, nullptr);
  RP_ASSIGN(CompileOptions host, options.compile_options());
  host.precision = DType::F32;
  host.fullgraph = false;
  host.targets = {};
  RP_ASSIGN(const Model reference, load_model(model.path, host));
  return Session::create(reference.package, nullptr);
}

StepCounts count_steps(const plan::Plan& plan) {
  StepCounts counts;
  std::set<uint32_t> kernels;
  std::set<std::string> nodes;
  for (const plan::Step& step : plan.steps) {
    if (const auto* launch = std::get_if<plan::Launch>(&step.what)) {
      ++counts.launches;
      kernels.insert(launch->kernel);
      nodes.insert(launch->nodes.begin(), launch->nodes.end());
    } else if (std::get<plan::HostCall>(step.what).device_bodies.empty()) {
      ++counts.host_calls;
    }
  }
  counts.kernels = static_cast<int64_t>(kernels.size());
  counts.device_nodes = static_cast<int64_t>(nodes.size());
  return counts;
}

}  // namespace reprise::app
