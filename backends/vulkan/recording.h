// Commands that are recorded once into a primary command buffer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/vulkan/bindings.h"
#include "backends/vulkan/driver.h"
#include "backends/vulkan/images.h"
#include "backends/vulkan/transfers.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

class VulkanKernel final : public DeviceKernel {
 public:
  /// `layout`: null if the kernel uses addresses.
  VulkanKernel(OwnedPipeline pipeline, std::shared_ptr<const BindingLayout> layout,
               uint32_t block_bytes)
      : pipeline_(std::move(pipeline)), layout_(std::move(layout)), block_bytes_(block_bytes) {}
  VkPipeline pipeline() const { return pipeline_.get(); }
  const std::shared_ptr<const BindingLayout>& layout() const { return layout_; }
  /// The size of a parameter block.
  uint32_t block_bytes() const { return block_bytes_; }

 private:
  OwnedPipeline pipeline_;
  std::shared_ptr<const BindingLayout> layout_;
  uint32_t block_bytes_;
};

class VulkanRecording final : public Recording {
 public:
  static Result<std::unique_ptr<VulkanRecording>> create(std::shared_ptr<Driver> driver,
                                                         RecordingDesc desc);
  /// Waits for a run that is still in flight, because its memory must stay valid until it ends. A
  /// run that does not end in time is given up (BackendOptions::patience_ns).
  ~VulkanRecording() override;
  using Recording::submit;
  Status submit(const SubmitSync& sync, uint64_t timeout_ns) override;
  Status wait(uint64_t timeout_ns) override;
  Result<bool> poll(uint64_t timeout_ns) override;
  Result<std::vector<double>> dispatch_ns() override;
  uint64_t times_recorded() const override { return times_recorded_; }
  uint64_t submissions() const override { return copies_.submissions(); }
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
        copies_(driver_),
        run_(driver_->runs, [this] { return has_ended(0); }) {}
  Status make_objects(const RecordingDesc& desc);
  /// The commands, with descriptors for the memory that they use. Without update-after-bind, sets
  /// must not change once they are recorded, so there is a take for each combination of memory.
  struct Take {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::optional<DescriptorSets> sets;
    std::vector<uint64_t> keys;  // BoundMemory::keys()
    uint64_t last_used = 0;      // the number of its last submission
  };
  Status write(Take& take);
  Status bind_memory();
  Status take_for_memory();

  VkResult wait_for_device(uint64_t timeout_ns) const;
  bool has_ended(uint64_t timeout_ns) const;
  Status over(VkResult r);
  Status hung();

  std::shared_ptr<Driver> driver_;
  OwnedCommandPool pool_;
  OwnedFence fence_;  // null if copies_ has a semaphore
  OwnedQueryPool queries_;
  PixelCommands pixels_;
  OverlappedCopies copies_;
  RecordingDesc desc_;  // kept only if the commands may be recorded again
  std::optional<BoundMemory> bound_;
  std::vector<Take> takes_;
  size_t take_ = 0;  // the one to submit
  uint32_t dispatches_ = 0, stamps_ = 0;
  uint64_t ran_ns_ = 0, submissions_ = 0, times_recorded_ = 0;
  bool pending_ = false, dead_ = false;
  SubmittedRun run_;  // last, so that it is destroyed before the fence that it queries
};

/// Writes the commands to a command buffer of the application, between a barrier that makes all
/// earlier writes visible to them and one that makes their writes visible to everything later.
/// Returns what the commands use.
Result<std::shared_ptr<void>> write_to(const std::shared_ptr<Driver>& driver,
                                       VkCommandBuffer commands, const RecordingDesc& desc);

}  // namespace reprise::vulkan
