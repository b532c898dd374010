#include "bench/gpu/tune.h"

#include "runtime/facts/cuda_arch.h"

namespace reprise::bench::gpu {
namespace {

/// The schedules of the only kernel that has several. A case with more such kernels has none here:
/// the time of a run would not be that of one kernel.
Result<std::vector<std::string>> schedules_of(const Case& c, const Tensors& values,
                                              const DeviceInfo& device, const Form& form) {
  std::vector<ScheduleSite> sites;
  CompileOptions options = options_of(device, form);
  options.choose_schedule = [&](const ScheduleSite& site) -> size_t {
    sites.push_back(site);
    return 0;
  };
  RP_TRY(c.package(values, device, options).status());
  std::vector<std::string> names;
  if (sites.size() != 1) return names;
  for (const lower::ScheduleCandidate& candidate : sites[0].candidates)
    names.push_back(candidate.schedule);
  return names;
}

CompileOptions with_schedule(const DeviceInfo& device, const Form& form, size_t index) {
  CompileOptions options = options_of(device, form);
  options.choose_schedule = [index](const ScheduleSite&) { return index; };
  return options;
}

}  // namespace

std::vector<Form> forms_for(const DeviceFacts& facts, bool specific) {
  if (facts.api == Api::Vulkan) return {{"reprise vulkan", "vulkan"}};
  std::vector<Form> out{{"reprise cuda", "cuda"}};
  const CudaArch own{.number = facts.cuda_arch, .specific = true};
  const bool more =
      CudaArch::matrices_of(own.number, true) != CudaArch::matrices_of(own.number, false);
  if (specific && more) out.push_back({"reprise cuda " + own.str(), "cuda:" + own.str()});
  return out;
}

CompileOptions options_of(const DeviceInfo& device, const Form& form) {
  CompileOptions options = options_for(device);
  options.targets = {form.target};
  return options;
}

Result<std::vector<Entry>> candidates_of(const Case& c, const Tensors& values,
                                         const std::shared_ptr<Device>& device, const Form& form) {
  RP_ASSIGN(const std::vector<std::string> schedules,
            schedules_of(c, values, device->info(), form));
  std::vector<Entry> out;
  for (size_t i = 0; i < schedules.size(); ++i) {
    const auto make = [&c, &values, device, form, i] {
      return our_contender(c, values, device, with_schedule(device->info(), form, i));
    };
    out.push_back({form.who + ", " + schedules[i], c.dtype, make});
  }
  return out;
}

Status compile_case(const Case& c, const Tensors& values, const DeviceInfo& device,
                    bool candidates) {
  for (const Form& form : forms_for(device.facts, true)) {
    if (!candidates) {
      RP_TRY(c.package(values, device, options_of(device, form)).status());
      continue;
    }
    RP_ASSIGN(const std::vector<std::string> schedules, schedules_of(c, values, device, form));
    for (size_t i = 1; i < schedules.size(); ++i)
      RP_TRY(c.package(values, device, with_schedule(device, form, i)).status());
  }
  return {};
}

Result<DeviceInfo> described_device(const std::string& arch) {
  const std::optional<CudaArch> parsed = CudaArch::parse(arch);
  if (!parsed || parsed->ptx || parsed->specific || parsed->number < CudaArch::kLeast)
    return Status(Code::Usage, "'" + arch + "' is no architecture of a GPU, such as sm_90");
  DeviceInfo info;
  info.id = info.name = arch;
  DeviceFacts& f = info.facts;
  f.api = Api::Cuda;
  f.kind = DeviceKind::DiscreteGpu;
  f.int64 = f.float16 = f.float64 = f.storage8 = f.storage16 = f.buffer_address = true;
  f.subgroup_arithmetic = f.subgroup_shuffle = f.subgroup_extended_types = true;
  f.subgroup_size = 32;
  f.matrices = CudaArch::matrices_of(parsed->number, true);
  f.max_workgroup_invocations = 1024;
  f.max_shared_bytes = CudaArch::shared_bytes_of(parsed->number, true);
  f.max_grid[0] = 2147483647;
  f.max_buffer_bytes = uint64_t{64} << 30;
  f.max_push_constant_bytes = 0;
  f.cuda_arch = parsed->number;
  return info;
}

}  // namespace reprise::bench::gpu
