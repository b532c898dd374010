// Compilation of models in memory and in files.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "apps/common/devices.h"
#include "apps/common/inputs.h"
#include "apps/common/model.h"
#include "codegen/autotune/autotune.h"
#include "codegen/compile/compile_model.h"
#include "codegen/compile/compiler.h"
#include "codegen/families/decoder.h"
#include "python/native/arrays.h"
#include "python/native/dtypes.h"
#include "python/native/errors.h"
#include "python/native/graph_builder.h"
#include "python/native/package.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// The arguments of reprise.compile, as reprise/_compile.py passes them.
struct Settings {
  std::vector<std::string> targets;
  std::shared_ptr<Device> device;  // null: compile for `targets`
  std::string mode = "reduce-overhead";
  std::string precision = "fp32";
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;
  std::vector<std::string> plans;
  std::vector<std::pair<std::string, std::string>> states;  // inputs, and their next values
  std::string grow_states = "none";
  std::vector<std::string> optional_inputs;
  std::map<std::string, std::vector<int64_t>> values;
  std::vector<std::string> images;  // codegen/graph/image_option.h
  std::vector<std::string> last;    // codegen/graph/output_options.h
  std::string sample;               // likewise; empty: none
  bool fullgraph = false;
  std::vector<std::string> disabled_passes;
  std::map<std::string, int64_t> pass_options;
  bool probes = false;
  bool keep_source = false;
  std::string nvrtc;
  double tune_seconds = 30;
  nb::dict inputs;      // to measure with
  nb::object progress;  // None, or called with what is being done
};

/// Calls Python from threads of the compiler. The first exception is kept, and raised at the end.
class Progress {
 public:
  explicit Progress(const nb::object& callable) : callable_(callable) {}
  bool wanted() const { return !callable_.is_none(); }
  /// False after an exception.
  bool show(const std::string& what, size_t done, size_t total) {
    const nb::gil_scoped_acquire acquire;
    if (failed_) return false;
    try {
      callable_(what, done, total);
    } catch (nb::python_error& e) {
      failed_ = std::make_unique<nb::python_error>(e);
    }
    return failed_ == nullptr;
  }
  void raise() const {
    if (failed_) throw nb::python_error(*failed_);
  }

 private:
  const nb::object& callable_;
  std::unique_ptr<nb::python_error> failed_;
};

CompileOptions to_options(const Settings& s, Progress& progress) {
  CompileOptions o;
  o.targets = s.targets;
  o.shapes = s.shapes;
  for (const auto& [name, range] : s.ranges) o.ranges[name] = {range.first, range.second};
  o.plans = take(parse_plans(s.plans));
  for (const auto& [input, output] : s.states) o.states.push_back({input, output});
  o.grow_states = s.grow_states;
  for (const std::string& name : s.optional_inputs) o.optional_inputs.push_back({name});
  o.values = s.values;
  for (const std::string& text : s.images) o.images.push_back(take(parse_image(text)));
  o.last = take(parse_last(s.last));
  if (!s.sample.empty()) o.sample = take(parse_sample(s.sample));
  o.disabled_passes = s.disabled_passes;
  o.precision = take(parse_precision(s.precision));
  o.pass_options = {s.pass_options.begin(), s.pass_options.end()};
  o.fullgraph = s.fullgraph;
  o.probes = s.probes;
  o.keep_source = s.keep_source;
  o.nvrtc = s.nvrtc;
  o.cuda_cache_dir = app::cuda_cache_dir();
  o.log = [](const std::string& line) { log_line(Severity::Warning, line); };
  if (s.device) {
    const std::string& id = s.device->info().id;
    o.targets = {id.substr(0, id.find(':'))};
    if (s.device->get()) compile_for(s.device->info(), o);
  }
  if (progress.wanted()) {
    o.progress = [&](const std::string& what, size_t done, size_t total) {
      return progress.show(what, done, total);
    };
  }
  return o;
}

/// The caller's arrays as tensors that own their bytes.
std::map<std::string, HostTensor> read_inputs(const nb::dict& given) {
  std::map<std::string, HostTensor> out;
  for (const auto& [name, value] : given) {
    Array array;
    array.borrow(value);
    if (array.on_cuda() || !array.contiguous() || array.dtype() == DType::Invalid)
      refuse("inputs to measure with must be contiguous arrays in host memory");
    HostTensor tensor(array.dtype(), {array.dims().begin(), array.dims().end()});
    if (const size_t bytes = array.bytes(); bytes > 0)
      std::memcpy(tensor.mutable_bytes().data(), array.data(), bytes);
    out.emplace(nb::cast<std::string>(name), std::move(tensor));
  }
  return out;
}

/// Measures schedules. Inputs that are not given are random.
Result<TunedPackage> tune(const CompileModel& model, const CompileOptions& options,
                          const Settings& s, Progress& progress) {
  app::InputSources sources;
  sources.given = read_inputs(s.inputs);
  sources.shapes = s.shapes;
  AutotuneOptions tuning;
  tuning.budget_s = s.tune_seconds;
  tuning.cache_dir = app::default_backend_options().cache_dir;
  tuning.warning = options.log;
  tuning.progress = [&](const std::string& line) {
    log_line(Severity::Info, line);
    if (progress.wanted()) progress.show(line, 0, 0);
  };
  tuning.inputs = [&](const package::Package& p) -> Result<std::vector<HostTensor>> {
    std::vector<std::string> notes;
    RP_ASSIGN(app::InputSet set, app::make_inputs(p.io, sources, notes));
    for (const std::string& note : notes) log_line(Severity::Info, note);
    return std::move(set.tensors);
  };
  const nb::gil_scoped_release release;
  std::shared_ptr<reprise::Device> device = s.device->get();
  return autotune(model, options, device, tuning);
}

Package compile_with(const CompileModel& model, const Settings& s) {
  Progress progress(s.progress);
  const CompileOptions options = to_options(s, progress);
  const bool tuned = s.mode.starts_with("max-autotune") && s.device && s.device->get();
  Package out;
  out.mode = s.mode;
  if (tuned) {
    auto result = tune(model, options, s, progress);
    progress.raise();
    out.package = take(std::move(result)).package;
  } else {
    auto compiled = [&] {
      const nb::gil_scoped_release release;
      return model(options, nullptr);
    }();
    progress.raise();
    out.package = std::make_shared<const package::Package>(take(std::move(compiled)));
  }
  for (const std::string& note : out.package->explanation.notes) log_line(Severity::Info, note);
  flush_log();
  return out;
}

Package compile_memory(const nb::bytes& model, const Settings& s) {
  const std::span bytes(reinterpret_cast<const std::byte*>(model.c_str()), model.size());
  return compile_with([bytes](const CompileOptions& o,
                              CompileReport* report) { return compile_bytes(bytes, o, report); },
                      s);
}

Result<package::Package> compile_any(const std::string& path, const CompileOptions& options,
                                     CompileReport* report) {
  return families::is_decoder(path) ? app::compile_language_model(path, options, report)
                                    : compile_file(path, options, report);
}

Package compile_path(const std::string& path, const Settings& s) {
  return compile_with([&path](const CompileOptions& o,
                              CompileReport* report) { return compile_any(path, o, report); },
                      s);
}

Package compile_graph(const builder::BuiltGraph& graph, const Settings& s) {
  return compile_with([&graph](const CompileOptions& o,
                               CompileReport* report) { return compile_built(graph, o, report); },
                      s);
}

}  // namespace

void bind_compiler(nb::module_& m) {
  nb::class_<Settings>(m, "_Settings")
      .def(nb::init<>())
      .def_rw("targets", &Settings::targets)
      .def_rw("device", &Settings::device, nb::arg().none())
      .def_prop_rw(
          "mode", [](const Settings& s) { return s.mode; },
          [](Settings& s, const std::string& mode) { s.mode = parse_mode(mode); })
      .def_rw("precision", &Settings::precision)
      .def_rw("shapes", &Settings::shapes)
      .def_rw("ranges", &Settings::ranges)
      .def_rw("plans", &Settings::plans)
      .def_rw("states", &Settings::states)
      .def_rw("grow_states", &Settings::grow_states)
      .def_rw("optional_inputs", &Settings::optional_inputs)
      .def_rw("values", &Settings::values)
      .def_rw("last", &Settings::last)
      .def_rw("sample", &Settings::sample)
      .def_rw("images", &Settings::images)
      .def_rw("fullgraph", &Settings::fullgraph)
      .def_rw("disabled_passes", &Settings::disabled_passes)
      .def_rw("pass_options", &Settings::pass_options)
      .def_rw("probes", &Settings::probes)
      .def_rw("keep_source", &Settings::keep_source)
      .def_rw("nvrtc", &Settings::nvrtc)
      .def_rw("tune_seconds", &Settings::tune_seconds)
      .def_rw("inputs", &Settings::inputs,
              nb::for_getter(nb::sig("def inputs(self, /) -> dict[str, typing.Any]")),
              nb::for_setter(nb::sig("def inputs(self, value: dict[str, typing.Any], /) -> None")))
      .def_rw("progress", &Settings::progress, nb::arg().none());
  m.def("compile_bytes", compile_memory, nb::arg("model"), nb::arg("settings"));
  m.def("compile_file", compile_path, nb::arg("path"), nb::arg("settings"));
  m.def("compile_graph", compile_graph, nb::arg("graph"), nb::arg("settings"));
  m.def("pass_names", &pass_names, "The names that `disabled_passes` takes, in order.");
}

}  // namespace reprise::python
