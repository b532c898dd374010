// Commands that are recorded once into a primary command buffer.
#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/driver.h"
#include "backends/vulkan/images.h"
#include "runtime/backend.h"

namespace reprise::vulkan {

class VulkanKernel final : public DeviceKernel {
 public:
  explicit VulkanKernel(OwnedPipeline pipeline) : pipeline_(std::move(pipeline)) {}
  VkPipeline pipeline() const { return pipeline_.get(); }

 private:
  OwnedPipeline pipeline_;
};

class VulkanRecording final : public Recording {
 public:
  static Result<std::unique_ptr<VulkanRecording>> create(std::shared_ptr<Driver> driver,
                                                         const RecordingDesc& desc);
  /// Waits for a run that is still in flight, because its memory must stay valid until it ends. A
  /// run that does not end in time is given up (BackendOptions::patience_ns).
  ~VulkanRecording() override;
  using Recording::submit;
  Status submit(const SubmitSync& sync, uint64_t timeout_ns) override;
  Status wait(uint64_t timeout_ns) override;
  Result<bool> poll(uint64_t timeout_ns) override;
  Result<std::vector<double>> dispatch_ns() override;
  uint64_t ran_ns() const override { return ran_ns_; }
  bool watch(uint64_t ns) override;
  Result<bool> ended() override;
  Status set_pixels(std::span<const PixelCopy> before, std::span<const PixelCopy> after) override;
  /// Waits without a time limit. If a run before it hangs, that run is given up.
  Status wait_for_transfer();

 private:
  explicit VulkanRecording(std::shared_ptr<Driver> driver)
      : driver_(std::move(driver)),
        pixels_(driver_),
        run_(driver_->runs, [this] { return wait_for_fence(0) != VK_TIMEOUT; }) {}
  Status make_objects(const RecordingDesc& desc);
  VkResult wait_for_fence(uint64_t timeout_ns) const;
  Status over(VkResult r);
  Status hung();

  std::shared_ptr<Driver> driver_;
  OwnedCommandPool pool_;
  OwnedFence fence_;
  OwnedQueryPool queries_;
  PixelCommands pixels_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  uint32_t dispatches_ = 0, stamps_ = 0;
  uint64_t ran_ns_ = 0;
  bool pending_ = false, dead_ = false;
  SubmittedRun run_;  // last, so that it is destroyed before the fence that it queries
};

/// Writes the commands to a command buffer of the application, between a barrier that makes all
/// earlier writes visible to them and one that makes their writes visible to everything later.
Status write_to(Driver& driver, VkCommandBuffer commands, const RecordingDesc& desc);

}  // namespace reprise::vulkan
