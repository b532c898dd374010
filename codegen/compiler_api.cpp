// The C interface of the compiler.
#include "codegen/compiler.h"

#include "codegen/autotune/autotune.h"
#include "reprise/compiler.h"
#include "runtime/api_handles.h"

template <>
inline constexpr std::array reprise::capi::kStructEnds<reprise_compile_options>{
    offsetof(reprise_compile_options, precision), offsetof(reprise_compile_options, targets),
    offsetof(reprise_compile_options, refused)};

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

/// Compiles, and passes everything that is refused to the caller.
Result<package::Package> compile_and_tell(const char* path, const CompileOptions& o,
                                          const reprise_compile_options& given) {
  CompileReport report;
  RP_ASSIGN(package::Package package, compile_supported(path, o, report));
  for (const onnx::Refusal& r : report.refusals) {
    const reprise_refusal refusal{sizeof(reprise_refusal), r.node.c_str(), r.op.c_str(),
                                  r.domain.c_str(),        r.version,      r.why.message().c_str()};
    given.refused(given.refused_user, &refusal);
  }
  if (report.refusals.empty()) return package;
  return report.refusals.front().error().with_context(path);
}

reprise_package* handle_of(std::shared_ptr<const package::Package> package) {
  return make_handle(std::make_shared<reprise_package>(reprise_package{std::move(package)}));
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
    o.progress = o.warning = [&tuning](const std::string& line) {
      tuning.log(tuning.log_user, line.c_str());
    };
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
    if (!onnx_path || !out) return {Code::Usage, "onnx_path or out is null"};
    RP_ASSIGN(const reprise_compile_options read, read_options(options));
    RP_ASSIGN(const CompileOptions o, to_options(read));
    RP_ASSIGN(auto package,
              read.refused ? compile_and_tell(onnx_path, o, read) : compile_file(onnx_path, o));
    *out = handle_of(std::make_shared<const package::Package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_tune_file(const char* onnx_path, const reprise_compile_options* options,
                                 const reprise_tune_options* tuning, reprise_package** out,
                                 reprise_error* error) {
  return guarded(error, [&]() -> Status {
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
