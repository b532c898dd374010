// Creates pipelines in parallel, with the driver's pipeline cache.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/bindings.h"
#include "backends/vulkan/driver.h"
#include "backends/vulkan/pipeline_cache.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

class VulkanKernel;

/// What a device needs to create kernels. create() is thread-safe.
class Kernels {
 public:
  Kernels(std::shared_ptr<Driver> driver, const BackendOptions& options);
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  /// Must succeed before create().
  Status prepare();
  Result<std::vector<std::unique_ptr<DeviceKernel>>> create(std::span<const plan::KernelCode> code);

 private:
  Status make_pipeline_layout();
  Status make_cache();
  void save_cache_of_driver();
  void write_cache(const Log& log);
  CacheKey cache_key() const;
  Status check_code(const plan::KernelCode& code) const;
  Result<std::unique_ptr<VulkanKernel>> create_one(const plan::KernelCode& code);
  Result<std::shared_ptr<const BindingLayout>> layout_of(const plan::KernelCode& code);
  Result<OwnedPipeline> create_pipeline(const plan::KernelCode& code, VkPipelineLayout layout);

  std::shared_ptr<Driver> driver_;
  std::string cache_dir_;
  Threads threads_;
  BindingLayouts layouts_;
  OwnedPipelineCache cache_;
  std::mutex cache_mutex_;
  uint64_t saved_hash_ = 0;  // of the cache on disk
};

}  // namespace reprise::vulkan
