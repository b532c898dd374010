// The C interface of the compiler.
#include "codegen/compile/compiler.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "capi/compiler/graph.h"
#include "capi/handles/handles.h"
#include "codegen/autotune/autotune.h"
#include "codegen/compile/compile_model.h"
#include "reprise/compiler.h"

using namespace reprise;
using namespace reprise::capi;

template <>
inline constexpr std::array reprise::capi::kStructEnds<reprise_compile_options>{
    offsetof(reprise_compile_options, ranges), offsetof(reprise_compile_options, pass_options),
    offsetof(reprise_compile_options, optional_inputs), offsetof(reprise_compile_options, plans)};

namespace {

Result<reprise_compile_options> read_options(const reprise_compile_options* options) {
  return read_struct(options, reprise_compile_options REPRISE_COMPILE_OPTIONS_INIT,
                     "reprise_compile_options");
}

/// Appends the caller's strings.
Status append(const char* const* list, size_t n, const char* name, std::vector<std::string>& to) {
  if (n > 0 && !list) return {Code::Usage, std::string(name) + " is null"};
  for (size_t i = 0; i < n; ++i) {
    if (!list[i]) return {Code::Usage, std::string(name) + " has an element that is null"};
    to.emplace_back(list[i]);
  }
  return {};
}

Result<CompileOptions> to_options(const reprise_compile_options& given) {
  CompileOptions o;
  o.fullgraph = given.fullgraph != 0;
  o.probes = given.probes != 0;
  RP_TRY(append(given.disabled_passes, given.disabled_pass_count, "disabled_passes",
                o.disabled_passes));
  if (given.precision) {
    RP_ASSIGN(o.precision, parse_precision(given.precision));
  }
  if (given.targets) {
    o.targets.clear();
    RP_TRY(append(given.targets, given.target_count, "targets", o.targets));
  }
  std::vector<std::string> images;
  RP_TRY(append(given.images, given.image_count, "images", images));
  for (const std::string& image : images) {
    RP_ASSIGN(o.images.emplace_back(), parse_image(image));
  }
  std::vector<std::string> ranges, shapes, states, pass_options, optional, values, plans;
  RP_TRY(append(given.ranges, given.range_count, "ranges", ranges));
  RP_ASSIGN(o.ranges, parse_ranges(ranges));
  RP_TRY(append(given.shapes, given.shape_count, "shapes", shapes));
  RP_ASSIGN(o.shapes, parse_shapes(shapes));
  RP_TRY(append(given.states, given.state_count, "states", states));
  RP_ASSIGN(o.states, parse_states(states));
  if (given.grow_states) o.grow_states = given.grow_states;
  RP_TRY(append(given.pass_options, given.pass_option_count, "pass_options", pass_options));
  RP_ASSIGN(o.pass_options, parse_pass_options(pass_options));
  RP_TRY(append(given.optional_inputs, given.optional_input_count, "optional_inputs", optional));
  for (std::string& name : optional) o.optional_inputs.push_back({std::move(name)});
  RP_TRY(append(given.values, given.value_count, "values", values));
  RP_ASSIGN(o.values, parse_values(values));
  RP_TRY(append(given.plans, given.plan_count, "plans", plans));
  RP_ASSIGN(o.plans, parse_plans(plans));
  std::vector<std::string> last;
  RP_TRY(append(given.last, given.last_count, "last", last));
  RP_ASSIGN(o.last, parse_last(last));
  if (given.sample) {
    RP_ASSIGN(o.sample, parse_sample(given.sample));
  }
  o.keep_source = given.keep_source != 0;
  if (given.nvrtc) o.nvrtc = given.nvrtc;
  if (given.cuda_cache_dir) o.cuda_cache_dir = given.cuda_cache_dir;
  RP_ASSIGN(o.threads.executor, read_executor(given.executor));
  if (given.progress) {
    o.progress = [progress = given.progress, user = given.progress_user](
                     const std::string& what, size_t done, size_t total) {
      return progress(user, what.c_str(), done, total) == 0;
    };
  }
  return o;
}

/// Passes everything that is refused to the caller, and returns the first refusal.
Status tell(const CompileReport& report, const reprise_compile_options& given) {
  for (const onnx::Refusal& r : report.refusals) {
    const reprise_refusal refusal{sizeof(reprise_refusal), r.node.c_str(), r.op.c_str(),
                                  r.domain.c_str(),        r.version,      r.why.message().c_str()};
    given.refused(given.refused_user, &refusal);
  }
  return report.refusals.empty() ? Status() : report.refusals.front().error();
}

Result<package::Package> compile_path(const char* path, const reprise_compile_options& given) {
  RP_ASSIGN(const CompileOptions o, to_options(given));
  if (!given.refused) return compile_file(path, o);
  CompileReport report;
  RP_ASSIGN(package::Package package, compile_supported(path, o, report));
  RP_TRY(tell(report, given).with_context(path));
  return package;
}

Result<package::Package> compile_model(std::span<const std::byte> model,
                                       const reprise_compile_options& given) {
  RP_ASSIGN(const CompileOptions o, to_options(given));
  if (!given.refused) return compile_bytes(model, o);
  CompileReport report;
  RP_ASSIGN(package::Package package, compile_supported_bytes(model, o, report));
  RP_TRY(tell(report, given));
  return package;
}

reprise_package* handle_of(std::shared_ptr<const package::Package> package) {
  return make_handle(std::make_shared<reprise_package>(std::move(package)));
}

/// The caller's tensors in the order of the model's inputs.
Result<std::vector<HostTensor>> inputs_of(const std::vector<reprise_tensor>& given,
                                          const plan::Interface& io) {
  std::vector<HostTensor> out;
  for (const plan::Slot& slot : io.inputs) {
    const auto t =
        std::ranges::find_if(given, [&](const auto& i) { return i.name && i.name == slot.name; });
    if (t == given.end()) return invalid_input("input '" + slot.name + "' is not given");
    const size_t rank = std::min<size_t>(t->rank, REPRISE_MAX_RANK);
    std::vector<int64_t> dims(t->dims, t->dims + rank);
    const auto count = checked_element_count(dims, slot.dtype);
    if (!count.ok()) return count.status().with_context("input '" + slot.name + "'");
    const size_t bytes = static_cast<size_t>(*count) * size_of(slot.dtype);
    const bool same_dtype = dtype_number(*t) == static_cast<int32_t>(slot.dtype);
    if (!same_dtype || t->bytes != bytes || (bytes > 0 && !t->data)) {
      return invalid_input("input '" + slot.name + "' must be " + describe(slot.dtype, dims) +
                           " of " + std::to_string(bytes) + " bytes in host memory");
    }
    HostTensor value(slot.dtype, std::move(dims));
    if (bytes > 0) std::memcpy(value.mutable_bytes().data(), t->data, bytes);
    out.push_back(std::move(value));
  }
  return out;
}

Result<std::shared_ptr<const package::Package>> tune(const CompileModel& model,
                                                     const CompileOptions& options,
                                                     const reprise_tune_options& tuning) {
  RP_ASSIGN(const std::shared_ptr<reprise_device> device, find_handle(tuning.device));
  if (!device->device) return Status(Code::Usage, "the host has no schedules to choose from");
  if (tuning.input_count > 0 && !tuning.inputs) return Status(Code::Usage, "inputs is null");
  if (!(tuning.seconds >= 0)) return Status(Code::Usage, "seconds is negative or not a number");
  RP_TRY(check_array(tuning.inputs, tuning.input_count, "reprise_tensor"));
  std::vector<reprise_tensor> inputs;
  for (size_t i = 0; i < tuning.input_count; ++i) {
    RP_ASSIGN(const auto t, read_struct(element(tuning.inputs, i),
                                        reprise_tensor REPRISE_TENSOR_INIT, "reprise_tensor"));
    const auto same_name = [&t](const reprise_tensor& other) {
      return t.name && other.name && std::string_view(t.name) == other.name;
    };
    if (std::ranges::any_of(inputs, same_name))
      return invalid_input("input '" + std::string(t.name) + "' is given twice");
    inputs.push_back(t);
  }
  AutotuneOptions o;
  if (tuning.seconds > 0) o.budget_s = tuning.seconds;
  if (tuning.cache_dir) o.cache_dir = tuning.cache_dir;
  if (tuning.log) {
    const auto log = [&tuning](reprise_severity severity) {
      return [&tuning, severity](const std::string& line) {
        tuning.log(tuning.log_user, severity, line.c_str());
      };
    };
    o.progress = log(REPRISE_SEVERITY_INFO);
    o.warning = log(REPRISE_SEVERITY_WARNING);
  }
  o.inputs = [&inputs](const package::Package& p) { return inputs_of(inputs, p.io); };
  std::shared_ptr<Device> measured = device->device;
  RP_ASSIGN(TunedPackage tuned, autotune(model, options, measured, o));
  return std::move(tuned.package);
}

reprise_status tune_model(const CompileModel& model, const reprise_compile_options* options,
                          const reprise_tune_options* tuning, reprise_package** out,
                          reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if (!model || !out || !tuning) return {Code::Usage, "the model, tuning or out is null"};
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(const CompileOptions o, to_options(read));
    RP_ASSIGN(const auto given, read_struct(tuning, reprise_tune_options REPRISE_TUNE_OPTIONS_INIT,
                                            "reprise_tune_options"));
    RP_ASSIGN(auto package, tune(model, o, given));
    *out = handle_of(std::move(package));
    return {};
  });
}

constexpr reprise_compiler_functions kTable{
    sizeof(reprise_compiler_functions),
    REPRISE_ABI_VERSION,
    0,
    reprise_compile_file,
    reprise_compile_memory,
    reprise_tune_file,
    reprise_tune_memory,
    reprise_graph_create,
    reprise_graph_free,
    reprise_graph_symbol,
    reprise_graph_guard,
    reprise_graph_input,
    reprise_graph_constant,
    reprise_graph_state,
    reprise_graph_next_state,
    reprise_graph_output,
    reprise_graph_add_node,
    reprise_graph_sizes,
    reprise_graph_begin_body,
    reprise_graph_body_input,
    reprise_graph_end_body,
    reprise_graph_type,
    reprise_graph_verify,
    reprise_compile_graph,
};

}  // namespace

reprise_status reprise_compile_file(const char* onnx_path, const reprise_compile_options* options,
                                    reprise_package** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if (!onnx_path || !out) return {Code::Usage, "onnx_path or out is null"};
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(auto package, compile_path(onnx_path, read));
    *out = handle_of(std::make_shared<const package::Package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_compile_memory(const void* onnx, size_t bytes,
                                      const reprise_compile_options* options, reprise_package** out,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if ((!onnx && bytes > 0) || !out) return {Code::Usage, "onnx or out is null"};
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(auto package, compile_model({static_cast<const std::byte*>(onnx), bytes}, read));
    *out = handle_of(std::make_shared<const package::Package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_compile_graph(reprise_graph* graph, const reprise_compile_options* options,
                                     reprise_package** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if (!out) return {Code::Usage, "out is null"};
    RP_ASSIGN(const std::shared_ptr<reprise_graph> held, find_handle(graph));
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(const CompileOptions o, to_options(read));
    RP_TRY(held->finish());
    RP_ASSIGN(auto package, compile_built(*held->built, o));
    *out = handle_of(std::make_shared<const package::Package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_tune_file(const char* onnx_path, const reprise_compile_options* options,
                                 const reprise_tune_options* tuning, reprise_package** out,
                                 reprise_error* error) {
  CompileModel model;
  if (onnx_path) {
    model = [onnx_path](const CompileOptions& o, CompileReport* report) {
      return compile_file(onnx_path, o, report);
    };
  }
  return tune_model(model, options, tuning, out, error);
}

reprise_status reprise_tune_memory(const void* onnx, size_t bytes,
                                   const reprise_compile_options* options,
                                   const reprise_tune_options* tuning, reprise_package** out,
                                   reprise_error* error) {
  CompileModel model;
  if (onnx) {
    model = [onnx, bytes](const CompileOptions& o, CompileReport* report) {
      return compile_bytes({static_cast<const std::byte*>(onnx), bytes}, o, report);
    };
  }
  return tune_model(model, options, tuning, out, error);
}

const reprise_compiler_functions* reprise_get_compiler_functions(uint32_t abi_version) {
  return abi_version == REPRISE_ABI_VERSION ? &kTable : nullptr;
}
