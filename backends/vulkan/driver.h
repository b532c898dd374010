// An open VkDevice: its function table, queue and counters. Everything that is made from a device
// holds its Driver, so objects may be destroyed in any order.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "backends/common/counters.h"
#include "backends/common/owned.h"
#include "backends/common/run_queue.h"
#include "backends/vulkan/address_space.h"
#include "backends/vulkan/facts.h"
#include "backends/vulkan/instance.h"

namespace reprise::vulkan {

/// A submission to one queue. It begins when the timeline semaphore has the value `wait`, and
/// gives it the value `signal` at its end; 0: neither.
struct Batch {
  VkQueue queue = VK_NULL_HANDLE;
  std::span<const VkCommandBuffer> commands;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t wait = 0, signal = 0;
};

struct Driver {
  std::shared_ptr<Instance> instance;
  PhysicalDevice physical;
  VkPhysicalDeviceMemoryProperties memory{};
  VkDevice device = VK_NULL_HANDLE;
  bool owned = false;  // false: the application's device, which is never destroyed here
  VolkDeviceTable vk{};
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t queue_family = 0;
  // Copies of less than this take a few microseconds, which is what another submission costs.
  uint64_t least_overlapped_bytes = uint64_t{256} << 10;
  // Queues for transfers, besides `queue`: null if there is none, or only one.
  VkQueue upload_queue = VK_NULL_HANDLE, download_queue = VK_NULL_HANDLE;
  std::mutex queue_mutex;                          // vkQueueSubmit needs external synchronisation
  std::function<void()> lock_queue, unlock_queue;  // lock the application's queue; may be empty
  VkPipelineLayout pipeline_layout = VK_NULL_HANDLE;  // of kernels that use addresses
  AddressSpace addresses;                             // without buffer addresses
  std::atomic<bool> lost = false;
  std::atomic<uint64_t> heap_bytes[VK_MAX_MEMORY_HEAPS] = {};  // allocated by this library
  AtomicCounters counters;
  RunQueue runs;
  MemoryCallbacks lender;  // of the application; may be empty
  Log log;

  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  /// Whether kernels take descriptors instead of buffer addresses.
  bool uses_descriptors() const { return !physical.info.facts.buffer_address; }
  /// Whether runs copy their inputs and outputs in the queues for transfers. Where these share an
  /// engine with kernels, more submissions would only cost time.
  bool overlaps_copies() const {
    return upload_queue != VK_NULL_HANDLE && physical.queues.only_transfers;
  }
  /// Code::Device, naming the call, unless `r` is a success. Device loss poisons the device.
  Status check(VkResult r, const char* call);
  /// An error if the device was lost.
  Status alive() const;
  /// Submits the batches of one run in this order, and the fence, which may be null, with the last
  /// one. `sync` is that of the batch for `queue`. `submitted`: how many were, also in a failure;
  /// the run is listed as soon as one was.
  Status submit(std::span<const Batch> batches, VkFence fence, SubmittedRun& run,
                const SubmitSync& sync, uint64_t timeout_ns, size_t& submitted);
  /// Submits a transfer to the queue for downloads, if there is one, or that for uploads, and waits
  /// for it. It neither waits for runs nor holds them up. What it writes is visible to all later
  /// runs.
  Status transfer(bool down, VkCommandBuffer commands);
  /// Waits until the timeline semaphore has the value.
  VkResult wait_for(VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) const;
  /// Destroys the handle of an Owned, unless a run was given up.
  template <auto Destroy, typename T>
  void destroy(T handle) {
    if (!runs.given_up()) (vk.*Destroy)(device, handle, nullptr);
  }
  /// For a run that did not end within `waited_ns` after its timeout: the device counts as lost,
  /// and from then on nothing that belongs to it is destroyed.
  void give_up(uint64_t waited_ns);
  Result<VkSemaphore> make_timeline();
  /// Makes the semaphores of transfers, if there are queues for them.
  Status make_transfer_semaphores();

 private:
  VkResult submit_one(const Batch& batch, VkFence fence, const SubmitSync& sync);
  /// Counts the transfers of one queue. `queue_mutex` guards the numbers.
  struct TransferCount {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    uint64_t submitted = 0, complete = 0;
    uint64_t seen = 0;  // visible to `queue`
  };
  VkResult wait_for_transfer(VkSemaphore semaphore, uint64_t number) const;

  std::array<TransferCount, 2> transfers_;  // of upload_queue and of download_queue
  mutable std::mutex mutex_;
  std::string given_up_;  // why
};

template <typename T, auto Destroy>
using Owned = reprise::Owned<Driver, T, Destroy>;
using OwnedBuffer = Owned<VkBuffer, &VolkDeviceTable::vkDestroyBuffer>;
using OwnedMemory = Owned<VkDeviceMemory, &VolkDeviceTable::vkFreeMemory>;
using OwnedPipeline = Owned<VkPipeline, &VolkDeviceTable::vkDestroyPipeline>;
using OwnedShader = Owned<VkShaderModule, &VolkDeviceTable::vkDestroyShaderModule>;
using OwnedPipelineCache = Owned<VkPipelineCache, &VolkDeviceTable::vkDestroyPipelineCache>;
using OwnedCommandPool = Owned<VkCommandPool, &VolkDeviceTable::vkDestroyCommandPool>;
using OwnedFence = Owned<VkFence, &VolkDeviceTable::vkDestroyFence>;
using OwnedSetLayout = Owned<VkDescriptorSetLayout, &VolkDeviceTable::vkDestroyDescriptorSetLayout>;
using OwnedPipelineLayout = Owned<VkPipelineLayout, &VolkDeviceTable::vkDestroyPipelineLayout>;
using OwnedDescriptorPool = Owned<VkDescriptorPool, &VolkDeviceTable::vkDestroyDescriptorPool>;
using OwnedSemaphore = Owned<VkSemaphore, &VolkDeviceTable::vkDestroySemaphore>;
using OwnedQueryPool = Owned<VkQueryPool, &VolkDeviceTable::vkDestroyQueryPool>;

}  // namespace reprise::vulkan
