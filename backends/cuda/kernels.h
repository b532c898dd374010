// A kernel: its module and function.
#pragma once

#include <array>
#include <memory>

#include "backends/cuda/driver.h"
#include "runtime/device/backend.h"

namespace reprise::cuda {

class CudaKernel final : public DeviceKernel {
 public:
  static Result<std::unique_ptr<CudaKernel>> create(const std::shared_ptr<Driver>& driver,
                                                    const plan::KernelCode& code);
  CUfunction function() const { return function_; }
  const std::array<uint32_t, 3>& workgroup() const { return workgroup_; }
  /// The shared memory that a launch gives it.
  uint32_t dynamic_shared_bytes() const { return dynamic_shared_bytes_; }
  /// The size of the parameter block, which is the function's only parameter.
  uint64_t block_bytes() const { return block_bytes_; }

 private:
  OwnedModule module_;
  CUfunction function_ = nullptr;
  std::array<uint32_t, 3> workgroup_{};
  uint32_t dynamic_shared_bytes_ = 0;
  uint64_t block_bytes_ = 0;
};

}  // namespace reprise::cuda
