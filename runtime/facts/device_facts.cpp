#include "runtime/facts/device_facts.h"

#include <algorithm>
#include <string_view>

#include "runtime/facts/cuda_arch.h"

namespace reprise {
namespace {

std::string_view name_of(Api api) {
  switch (api) {
    case Api::Host:
      return "the host";
    case Api::Vulkan:
      return "Vulkan";
    case Api::Cuda:
      return "CUDA";
  }
  return "an unknown API";
}

std::string too_small(const std::string& what, uint64_t needed, uint64_t found) {
  return "needs " + what + " of at least " + std::to_string(needed) + ", the device has " +
         std::to_string(found);
}

struct Feature {
  bool Predicate::*needed;
  bool DeviceFacts::*present;
  std::string name;
  const char* lent;  // the member of reprise_vulkan_device, and what it is for; null: there is none
};
const Feature kFeatures[] = {
    {&Predicate::needs_int64, &DeviceFacts::int64, "64-bit integers",
     "shader_int64 (loads of 64 bits)"},
    {&Predicate::needs_float16, &DeviceFacts::float16, "fp16 arithmetic",
     "shader_float16 (arithmetic in fp16)"},
    {&Predicate::needs_exact_halves, &DeviceFacts::exact_halves,
     "fp16 conversions that round to nearest", nullptr},
    {&Predicate::needs_float64, &DeviceFacts::float64, "fp64 arithmetic",
     "shader_float64 (operators on doubles, which the host computes otherwise)"},
    {&Predicate::needs_storage8, &DeviceFacts::storage8, "8-bit storage",
     "storage8 (bytes that are not taken out of words)"},
    {&Predicate::needs_storage16, &DeviceFacts::storage16, "16-bit storage",
     "storage16 (halves that are not taken out of words)"},
    {&Predicate::needs_subgroup_arithmetic, &DeviceFacts::subgroup_arithmetic,
     "subgroup arithmetic", nullptr},
    {&Predicate::needs_subgroup_shuffle, &DeviceFacts::subgroup_shuffle, "subgroup shuffles",
     nullptr},
    {&Predicate::needs_subgroup_extended_types, &DeviceFacts::subgroup_extended_types,
     "subgroup operations on 64-bit integers and fp16", nullptr},
};

}  // namespace

bool DeviceFacts::multiplies(const MmaConfig& matrix) const {
  const auto has_multiple = [&](const MmaConfig& least) {
    MmaConfig sized = least;
    sized.m = matrix.m, sized.n = matrix.n, sized.k = matrix.k;
    return sized == matrix && matrix.m % least.m == 0 && matrix.n % least.n == 0 &&
           matrix.k % least.k == 0;
  };
  return contains(matrices, matrix) || std::ranges::any_of(flexible_matrices, has_multiple);
}

std::string Predicate::missing_of_lent(const DeviceFacts& facts) const {
  std::string missing;
  for (const Feature& f : kFeatures)
    if (f.lent && this->*f.needed && !(facts.*f.present))
      missing += (missing.empty() ? "" : ", ") + std::string(f.lent);
  if (api == Api::Vulkan && storage_buffers == 0 && !facts.buffer_address)
    missing +=
        (missing.empty() ? "" : ", ") +
        std::string("no_buffer_addresses = 0 (bufferDeviceAddress: kernels without descriptors)");
  return missing;
}

std::string Predicate::mismatch(const DeviceFacts& facts) const {
  if (api != facts.api) {
    return "is for " + std::string(name_of(api)) + ", but the device uses " +
           std::string(name_of(facts.api));
  }
  if (!cuda_arch.empty()) {
    const auto arch = CudaArch::parse(cuda_arch);
    if (!arch) return "is compiled for the unknown architecture '" + cuda_arch + "'";
    std::string other = arch->mismatch(facts.cuda_arch);
    if (!other.empty()) return other;
  }
  if (cpu_type && facts.kind != DeviceKind::Cpu) return "is tuned for CPU-type devices";
  if (slow_loads && !facts.driver.slow_loads) return "is tuned for drivers whose loads are slow";
  if (api == Api::Vulkan && storage_buffers == 0 && !facts.buffer_address)
    return "needs buffer addresses; for devices without them, compile for vulkan-descriptors too";
  if (storage_buffers != 0 && facts.buffer_address)
    return "is for devices without buffer addresses";
  if (storage_buffers > facts.max_storage_buffers) {
    return "needs " + std::to_string(storage_buffers) +
           " storage buffers in a kernel, the device allows " +
           std::to_string(facts.max_storage_buffers);
  }
  std::string missing;
  for (const Feature& f : kFeatures)
    if (this->*f.needed && !(facts.*f.present)) missing += (missing.empty() ? "" : ", ") + f.name;
  if (!missing.empty()) return "needs " + missing;
  if (subgroup_size != 0 && !facts.has_subgroups_of(subgroup_size)) {
    return "needs subgroups of " + std::to_string(subgroup_size) + ", the device has " +
           std::to_string(facts.subgroup_size);
  }
  uint32_t reserved = 0;
  for (const MmaConfig& matrix : matrices) {
    if (!facts.multiplies(matrix)) return "needs cooperative matrices of " + matrix.str();
    if (matrix.scope == MmaScope::Workgroup) reserved = facts.reserved_shared_bytes;
  }
  if (workgroup_invocations > facts.max_workgroup_invocations) {
    return too_small("workgroups", workgroup_invocations, facts.max_workgroup_invocations);
  }
  if (shared_bytes + reserved > facts.max_shared_bytes) {
    return too_small("shared memory (bytes)", shared_bytes + reserved, facts.max_shared_bytes);
  }
  return {};
}

}  // namespace reprise
