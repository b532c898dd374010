// The C interface of the compiler.
#include "codegen/compiler.h"

#include "codegen/autotune/autotune.h"
#include "codegen/compile_model.h"
#include "reprise/compiler.h"
#include "runtime/api_handles.h"

using namespace reprise;
using namespace reprise::capi;

namespace {

Result<reprise_compile_options> read_options(const reprise_compile_options* options) {
  return read_struct(options, reprise_compile_options REPRISE_COMPILE_OPTIONS_INIT,
                     "reprise_compile_options");
}

Result<CompileOptions> to_options(const reprise_compile_options& given) {
  CompileOptions o;
  o.fullgraph = given.fullgraph != 0;
  o.probes = given.probes != 0;
  if (given.disabled_pass_count > 0 && !given.disabled_passes)
    return Status(Code::Usage, "disabled_passes is null");
  for (size_t i = 0; i < given.disabled_pass_count; ++i)
    o.disabled_passes.emplace_back(given.disabled_passes[i]);
  if (given.precision) {
    RP_ASSIGN(o.precision, parse_precision(given.precision));
  }
  if (given.targets) o.targets.assign(given.targets, given.targets + given.target_count);
  if (given.nvrtc) o.nvrtc = given.nvrtc;
  if (given.cuda_cache_dir) o.cuda_cache_dir = given.cuda_cache_dir;
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
Result<std::vector<HostTensor>> inputs_of(const reprise_tune_options& tuning,
                                          const plan::Interface& io) {
  std::vector<HostTensor> out;
  for (const plan::Slot& slot : io.inputs) {
    const reprise_tensor* const end = tuning.inputs + tuning.input_count;
    const reprise_tensor* const t = std::find_if(
        tuning.inputs, end, [&](const auto& i) { return i.name && i.name == slot.name; });
    if (t == end) return invalid_input("input '" + slot.name + "' is not given");
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

Result<std::shared_ptr<const package::Package>> tune(const char* onnx_path,
                                                     const CompileOptions& options,
                                                     const reprise_tune_options& tuning) {
  RP_ASSIGN(const std::shared_ptr<reprise_device> device, find_handle(tuning.device));
  if (!device->device) return Status(Code::Usage, "the host has no schedules to choose from");
  if (tuning.input_count > 0 && !tuning.inputs) return Status(Code::Usage, "inputs is null");
  for (size_t i = 0; i < tuning.input_count; ++i) {
    if (tuning.inputs[i].struct_size != sizeof(reprise_tensor))
      return Status(Code::Usage, "reprise_tensor: the struct_size is that of another version");
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
  o.inputs = [&tuning](const package::Package& p) { return inputs_of(tuning, p.io); };
  std::shared_ptr<Device> measured = device->device;
  RP_ASSIGN(TunedPackage tuned, autotune(onnx_path, options, measured, o));
  return std::move(tuned.package);
}

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

reprise_status reprise_tune_file(const char* onnx_path, const reprise_compile_options* options,
                                 const reprise_tune_options* tuning, reprise_package** out,
                                 reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(Handles::check());
    if (!onnx_path || !out || !tuning) return {Code::Usage, "onnx_path, tuning or out is null"};
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(const CompileOptions o, to_options(read));
    RP_ASSIGN(const auto given, read_struct(tuning, reprise_tune_options REPRISE_TUNE_OPTIONS_INIT,
                                            "reprise_tune_options"));
    RP_ASSIGN(auto package, tune(onnx_path, o, given));
    *out = handle_of(std::move(package));
    return {};
  });
}
