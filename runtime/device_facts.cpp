#include "runtime/device_facts.h"

#include <algorithm>
#include <string_view>

#include "runtime/cuda_arch.h"

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

}  // namespace

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
  const struct {
    bool needed, present;
    const char* name;
  } features[] = {
      {needs_int64, facts.int64, "64-bit integers"},
      {needs_float16, facts.float16, "fp16 arithmetic"},
      {needs_float64, facts.float64, "fp64 arithmetic"},
      {needs_storage8, facts.storage8, "8-bit storage"},
      {needs_storage16, facts.storage16, "16-bit storage"},
      {needs_subgroup_arithmetic, facts.subgroup_arithmetic, "subgroup arithmetic"},
      {needs_subgroup_shuffle, facts.subgroup_shuffle, "subgroup shuffles"},
      {needs_subgroup_extended_types, facts.subgroup_extended_types,
       "subgroup operations on 64-bit integers and fp16"},
  };
  for (const auto& f : features) {
    if (f.needed && !f.present) return std::string("needs ") + f.name;
  }
  if (subgroup_size != 0 && subgroup_size != facts.subgroup_size) {
    return "needs subgroups of " + std::to_string(subgroup_size) + ", the device has " +
           std::to_string(facts.subgroup_size);
  }
  if (matrix &&
      std::find(facts.matrices.begin(), facts.matrices.end(), matrix) == facts.matrices.end()) {
    return "needs cooperative matrices of " + matrix.str() + " in fp16 with fp32 sums";
  }
  if (workgroup_invocations > facts.max_workgroup_invocations) {
    return too_small("workgroups", workgroup_invocations, facts.max_workgroup_invocations);
  }
  if (shared_bytes > facts.max_shared_bytes) {
    return too_small("shared memory (bytes)", shared_bytes, facts.max_shared_bytes);
  }
  return {};
}

}  // namespace reprise
