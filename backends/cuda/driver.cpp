#include "backends/cuda/driver.h"

namespace reprise::cuda {
namespace {

// Errors after which every call on the context fails.
bool is_sticky(CUresult r) {
  switch (r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

Driver::~Driver() {
  if (!context) return;
  if (transfers && transfers != borrowed_stream) {
    const ReleaseScope scope(*this);
    if (scope.entered()) fn().cuStreamDestroy_v2(transfers);
  }
  // The last release of a primary context destroys it, poisoned or not.
  if (owned) fn().cuDevicePrimaryCtxRelease_v2(device);
}

void Driver::poison(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
  poisoned_ = true;
}

Status Driver::check(CUresult r, const char* call) {
  if (r == CUDA_SUCCESS) return {};
  RP_TRY(alive());
  const std::string what =
      std::string(call) + " failed on " + info.id + " (" + info.name + "): " + library->describe(r);
  if (!is_sticky(r)) return {Code::Device, what};
  poison(what);
  return {Code::Device, what +
                            "; nothing works on this device's context any more: close all "
                            "sessions and buffers of this device and open it again"};
}

Status Driver::alive() const {
  if (!poisoned_) return {};
  const std::lock_guard lock(mutex_);
  return {Code::Device, info.id + " cannot be used since an earlier error (" + cause_ +
                            "); close all sessions and buffers of this device and open it again"};
}

}  // namespace reprise::cuda
