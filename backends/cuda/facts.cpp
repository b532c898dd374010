#include "backends/cuda/facts.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "runtime/facts/cuda_arch.h"

namespace reprise::cuda {
namespace {

struct Query {
  const Library& library;
  CUdevice device = 0;
  CUresult first_error = CUDA_SUCCESS;
  const char* failed = nullptr;

  void check(CUresult r, const char* call) {
    if (r == CUDA_SUCCESS || failed) return;
    first_error = r;
    failed = call;
  }
  int attribute(CUdevice_attribute a) {
    int value = 0;
    check(library.fn().cuDeviceGetAttribute(&value, a, device), "cuDeviceGetAttribute");
    return value;
  }
};

void fill_facts(Query& q, DeviceInfo& info) {
  DeviceFacts& f = info.facts;
  const int arch = 10 * q.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                   q.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  f.cuda_arch = static_cast<uint32_t>(std::max(arch, 0));
  f.kind = q.attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0 ? DeviceKind::IntegratedGpu
                                                            : DeviceKind::DiscreteGpu;
  info.kind = f.kind == DeviceKind::IntegratedGpu ? "integrated-gpu" : "discrete-gpu";
  f.int64 = f.float16 = f.exact_halves = f.float64 = f.storage8 = f.storage16 = f.buffer_address =
      true;
  f.subgroup_arithmetic = f.subgroup_shuffle = f.subgroup_extended_types = true;
  f.subgroup_size = static_cast<uint32_t>(q.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  f.matrices = CudaArch::matrices_of(f.cuda_arch, true);
  f.max_workgroup_invocations =
      static_cast<uint32_t>(q.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  f.max_shared_bytes =
      static_cast<uint32_t>(q.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  const CUdevice_attribute grid[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  for (size_t i = 0; i < 3; ++i) f.max_grid[i] = static_cast<uint32_t>(q.attribute(grid[i]));
  f.max_push_constant_bytes = 0;
  info.api = "CUDA " + version_text(q.library.version()) + ", sm_" + std::to_string(arch);
}

std::string why_unusable(Query& q, const DeviceInfo& info) {
  const bool prohibited =
      q.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED;
  const bool hosts = q.attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) != 0 &&
                     q.attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) != 0;
  if (q.failed) return std::string(q.failed) + " failed: " + q.library.describe(q.first_error);
  if (info.facts.cuda_arch < CudaArch::kLeast) {
    return "compute capability " + std::to_string(info.facts.cuda_arch / 10) + "." +
           std::to_string(info.facts.cuda_arch % 10) +
           " is below 7.5, the lowest that is supported; use the GPU through Vulkan";
  }
  if (prohibited)
    return "its compute mode is 'prohibited'; allow compute with nvidia-smi --compute-mode=0";
  if (!hosts) return "it cannot map host memory with unified addresses; use it through Vulkan";
  return {};
}

}  // namespace

DeviceInfo query(const Library& library, int ordinal) {
  DeviceInfo info;
  info.id = "cuda:" + std::to_string(ordinal);
  info.driver = "CUDA driver " + version_text(library.version());
  info.driver_version = static_cast<uint32_t>(library.version());
  info.facts.api = Api::Cuda;
  info.kind = "other";
  Query q{library};
  const CUresult found = library.fn().cuDeviceGet(&q.device, ordinal);
  if (found != CUDA_SUCCESS) {
    info.reason = "cuDeviceGet failed: " + library.describe(found);
    return info;
  }
  std::array<char, 256> name{};
  q.check(library.fn().cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), q.device),
          "cuDeviceGetName");
  info.name = name.data();
  CUuuid uuid{};
  q.check(library.fn().cuDeviceGetUuid_v2(&uuid, q.device), "cuDeviceGetUuid");
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), std::begin(info.uuid));
  size_t bytes = 0;
  q.check(library.fn().cuDeviceTotalMem_v2(&bytes, q.device), "cuDeviceTotalMem");
  info.facts.max_buffer_bytes = bytes;
  fill_facts(q, info);
  info.reason = why_unusable(q, info);
  info.usable = info.reason.empty();
  return info;
}

}  // namespace reprise::cuda
