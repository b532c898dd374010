// Copies in the queues that only transfer.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "backends/vulkan/driver.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

/// A command buffer for queues that only transfer.
class TransferBuffer {
 public:
  Status begin(std::shared_ptr<Driver> driver);
  /// What other queues have written, and the host has waited for, is visible to what follows.
  void see_everything();
  void copy(std::span<const Command> copies);
  /// What was copied is visible to the host.
  void show_to_host();
  Status end();
  const VkCommandBuffer& handle() const { return commands_; }

 private:
  std::shared_ptr<Driver> driver_;
  OwnedCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

/// The copies at the beginning and at the end of a recording, in queues of their own, so that they
/// overlap kernels of other runs. A timeline semaphore orders them and the kernels of the run.
///
/// A queue executes its submissions in order, so the download of a run, which waits for kernels,
/// would hold up the upload of the next run in the same queue. Devices with a single queue for
/// transfers therefore use it for uploads only.
class OverlappedCopies {
 public:
  explicit OverlappedCopies(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  /// Takes the copies between host and device memory out of the commands, if the device has queues
  /// for them and they are large enough.
  Status take(std::vector<Command>& commands);
  /// Whether it took none.
  bool empty() const { return !semaphore_.get(); }
  /// How many submissions a run is.
  size_t submissions() const { return 1U + (up_.handle() ? 1U : 0U) + (down_.handle() ? 1U : 0U); }
  /// The batches of the next run, whose kernels are in `compute`. wait() waits for them from now
  /// on.
  std::span<const Batch> batches(std::span<const VkCommandBuffer> compute);
  /// Only so many of the batches were submitted.
  void submitted(size_t count) { last_ = first_ + count; }
  /// Waits for the end of what was submitted.
  VkResult wait(uint64_t timeout_ns) const {
    return driver_->wait_for(semaphore_.get(), last_, timeout_ns);
  }

 private:
  Status record_up(std::span<const Command> copies);
  Status record_down(std::span<const Command> copies);

  std::shared_ptr<Driver> driver_;
  TransferBuffer up_, down_;
  OwnedSemaphore semaphore_;
  std::array<Batch, 3> batches_;
  uint64_t first_ = 0;              // value of the semaphore before the last run
  std::atomic<uint64_t> last_ = 0;  // ... and after it; other threads may ask for its end
};

}  // namespace reprise::vulkan
