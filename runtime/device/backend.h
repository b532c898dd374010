// The interface that a backend implements. Everything above it (values of symbols, arena placement,
// parameter blocks, host calls, checks) is independent of the backend and part of the session.
// Thread safety: several threads may use a Device at the same time; only one may use a DeviceBuffer
// or a Recording at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/threads.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/end_watcher.h"
#include "runtime/device/external_memory.h"
#include "runtime/device/pixels.h"
#include "runtime/facts/device_facts.h"
#include "runtime/plan/block_layout.h"
#include "runtime/plan/bound_view.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Device memory. Destroying the buffer frees it, unless it is borrowed.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  /// In bytes.
  uint64_t size() const { return size_; }
  /// The address that kernels use, or a number for it on devices without buffer addresses. Sums
  /// with offsets in the buffer are addresses too.
  uint64_t address() const { return address_; }
  /// The host pointer if the memory is host-visible and coherent, or else null.
  void* mapped() const { return mapped_; }

 protected:
  uint64_t size_ = 0;
  uint64_t address_ = 0;
  void* mapped_ = nullptr;

 private:
  friend class Device;
  MemoryShare share_;
};

enum class MemoryUse : uint8_t {
  Device,   // used by kernels; mapped() only if the device's memory is host-visible anyway
  Upload,   // mapped; the host writes it and the device reads it (parameter blocks, staging)
  Readback  // mapped and cached; the device writes it and the host reads it
};

/// A kernel that was created on a device.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
};

/// One command of a recording.
struct Command {
  enum class Kind : uint8_t {
    Dispatch,          // kernel, block_offset, grid
    DispatchIndirect,  // kernel, block_offset, indirect_offset
    Barrier,      // a global memory barrier: makes compute and transfer writes visible to later
                  // compute and transfer accesses
    Copy,         // src, dst, bytes
    Join,         // does nothing; later commands can wait for it instead of for all of `after`
    HostBarrier,  // makes device writes visible to the host; last command of a recording
  } kind = Kind::Dispatch;
  const DeviceKernel* kernel = nullptr;
  uint64_t block_offset = 0;       // of the parameter block in RecordingDesc::blocks
  std::array<uint32_t, 3> grid{};  // workgroups
  /// For Dispatch: the first of them. It is not 0 only if Device::cuts_launches() and the kernel
  /// was created with KernelCode::in_pieces.
  std::array<uint32_t, 3> first{};
  uint64_t indirect_offset = 0;  // of three u32, the grid, in RecordingDesc::blocks
  const DeviceBuffer* src = nullptr;
  const DeviceBuffer* dst = nullptr;
  uint64_t src_offset = 0, dst_offset = 0, bytes = 0;
  /// For dispatches, copies and joins: the indices of earlier commands that must finish first,
  /// without those that another of them waits for (plan::segment_order). A recording has either
  /// these edges or barriers (Device::takes_edges). Both order all commands that share memory.
  std::vector<uint32_t> after = {};
  /// Of a dispatch: its kernel awaits the commands of `after` itself, which are dispatches, so that
  /// it may begin before (plan::OrderNode::early).
  bool early = false;

  bool is_dispatch() const { return kind == Kind::Dispatch || kind == Kind::DispatchIndirect; }
};

struct RecordingDesc {
  std::vector<Command> commands;
  const DeviceBuffer* blocks = nullptr;  // Upload buffer with parameter blocks and indirect grids
  /// A number that changes whenever an address in `blocks` changes. If it is null, a device without
  /// buffer addresses compares all addresses before each submission.
  const uint64_t* bindings_version = nullptr;
  bool timestamps = false;  // measure each dispatch, which makes runs a little slower
  bool once = false;        // submitted only once, so preparing it for replay would not pay
  /// Copies before and after the commands; only for Device::record_into.
  std::vector<PixelCopy> to_tensors = {}, from_tensors = {};
};

/// What a submission waits for and signals on the device: values of timeline semaphores of the
/// application (VkSemaphore), or events (CUevent), which have no values.
struct SubmitSync {
  static constexpr size_t kMost = 8;  // waits, and signals
  struct Point {
    uint64_t handle = 0;
    uint64_t value = 0;
  };
  std::span<const Point> waits, signals;
  bool empty() const { return waits.empty() && signals.empty(); }
};

/// Commands that are recorded once and submitted many times. Only one run of a recording may be in
/// flight at a time.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Submits the commands once to the queue and returns without waiting. After a failed submission
  /// a part of the commands may be in flight; wait() waits for that part.
  Status submit() { return submit(SubmitSync(), UINT64_MAX); }
  /// The commands begin when the waits are over, and the signals follow their end. `timeout_ns` is
  /// the time limit of the run, which tells when a run that nobody waits for hangs.
  virtual Status submit(const SubmitSync& sync, uint64_t timeout_ns) = 0;
  /// Waits for the last submission. Code::Timeout if the run has not ended `timeout_ns` after the
  /// device began it, that is, after everything that was submitted to the device before had ended.
  /// The run then continues, and ended() tells whether it has ended. Device loss poisons the
  /// Device.
  virtual Status wait(uint64_t timeout_ns) = 0;
  /// Asks once: like wait(), but returns false instead of waiting. The caller must poll or wait
  /// until the run has ended.
  virtual Result<bool> poll(uint64_t timeout_ns) = 0;
  /// How long the device took for the last run that ended in a wait(), without the time for which
  /// it waited behind other runs.
  virtual uint64_t ran_ns() const { return 0; }
  /// For another thread than that which uses the recording: waits for at most `ns` until the last
  /// submission has ended, has exceeded its time limit, or hangs, and returns whether one of these
  /// is the case. The recording must not be submitted again meanwhile.
  virtual bool watch(uint64_t ns) = 0;
  /// After a failed wait(): whether the run has ended since. If so, the recording may be submitted
  /// again. An error if this will never be known: after device loss, or if the run hangs. In the
  /// latter case the run is given up.
  virtual Result<bool> ended() = 0;
  /// How many submissions to queues of the device one call of submit() makes.
  virtual uint64_t submissions() const { return 1; }
  /// How often the commands were recorded. More than once only if the device has neither buffer
  /// addresses nor descriptors that may change after they were recorded.
  virtual uint64_t times_recorded() const { return 1; }
  /// From the next submission on, the Copy with number `copy` moves only the first `bytes` of its
  /// bytes. A device that cannot change a recording moves all.
  virtual void limit_copy(size_t /*copy*/, uint64_t /*bytes*/) {}
  /// From the next submission on, these copies come before and after the commands. Only called with
  /// copies if Device::check_image or check_rows accepted them. Allocates nothing on the heap if
  /// they are those of the last call.
  virtual Status set_pixels(std::span<const PixelCopy> /*before*/,
                            std::span<const PixelCopy> /*after*/) {
    return {};
  }
  /// Nanoseconds of each dispatch in the last run that ended; empty without timestamps.
  virtual Result<std::vector<double>> dispatch_ns() = 0;
};

/// Calls of the driver, counted where they are made. Tests and explain compare them with the plan.
struct Counters {
  uint64_t submits = 0, dispatches_recorded = 0, barriers_recorded = 0, copies_recorded = 0;
  uint64_t recordings = 0, pipelines_created = 0, allocations = 0;
};

/// An open device. Objects that were made from it may outlive it.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  IdleMemory& idle_memory() { return idle_; }
  MemoryBudget& memory_budget() { return *budget_; }
  MemoryQueue& memory_queue() { return queue_; }
  SharedMemory& shared_memory() { return shared_; }
  EndWatcher& end_watcher() { return watcher_; }
  /// Allocates a part of the memory budget. If that fails, idle memory is freed, by this thread or
  /// meanwhile by another, and the allocation is tried once more. A second failure returns the
  /// first error, because the second may be a consequence of it.
  Result<std::unique_ptr<DeviceBuffer>> allocate_or_free_idle(uint64_t bytes, MemoryUse use);
  /// Whether recordings are ordered by Command::after instead of by barriers.
  virtual bool takes_edges() const { return false; }
  /// Whether dispatches may begin at any workgroup. Such a device does not take edges.
  virtual bool cuts_launches() const { return false; }
  /// Whether runs end in the order of their submission.
  virtual bool ends_in_order() const { return !takes_edges(); }
  /// Code::OutOfMemory if there is no memory.
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes, MemoryUse use) = 0;
  /// Borrows a buffer of the application on this device; it is used in place and never freed. On
  /// Vulkan it is a VkBuffer with transfer and device-address usage. On CUDA it is a CUdeviceptr
  /// whose allocation belongs to the device or is managed, and has `bytes` bytes from there on.
  virtual Result<std::unique_ptr<DeviceBuffer>> borrow(void* handle, uint64_t bytes) = 0;
  /// A buffer in memory that another API or process exported. The caller keeps the handle, and may
  /// close it. Code::Unsupported if the device cannot import such memory.
  virtual Result<std::unique_ptr<DeviceBuffer>> import(const ExternalMemory& /*memory*/) {
    return unsupported(info().id + " imports no memory");
  }
  /// Creates all kernels, in parallel if the driver profits from it. The threads end before the
  /// call returns.
  virtual Result<std::vector<std::unique_ptr<DeviceKernel>>> create_kernels(
      std::span<const plan::KernelCode> code) = 0;
  virtual Result<std::unique_ptr<Recording>> record(RecordingDesc desc) = 0;
  /// Writes the commands to a command buffer of the application on this device (VkCommandBuffer),
  /// between two barriers: one makes all earlier writes visible to them, and one makes their writes
  /// visible to everything later. What it returns must live until the device has executed them.
  virtual Result<std::shared_ptr<void>> record_into(void* command_buffer,
                                                    const RecordingDesc& desc) = 0;
  /// Writes the device's form of a view, which kernels read, to a parameter block.
  /// Code::Unsupported if its kernels have no views.
  virtual Status write_view(const plan::BoundView& /*view*/,
                            std::span<std::byte, plan::BlockLayout::kViewBytes> /*to*/) const {
    return unsupported(info().id + " has no views of tensors");
  }
  /// Whether recordings can copy the image; `written` by the run, or else read.
  virtual Status check_image(const DeviceImage& /*image*/, ImageFormat /*format*/,
                             bool /*written*/) const {
    return unsupported(info().id +
                       " has no VkImages; copy the pixels to a buffer or to host memory");
  }
  /// Whether recordings can copy rows with a pitch.
  virtual Status check_rows() const {
    return unsupported(
        info().id +
        " copies no rows with a pitch between buffers; pass dense rows, or pixels in "
        "host memory");
  }
  /// Blocking transfers; `offset` is in bytes. Memory that is not mapped is copied through staging
  /// memory.
  virtual Status upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Whether this device allocated or borrowed the buffer. Its address is meaningless elsewhere.
  virtual bool owns(const DeviceBuffer& buffer) const = 0;
  virtual Counters counters() const = 0;

 private:
  Result<std::unique_ptr<DeviceBuffer>> allocate_in_budget(uint64_t bytes, MemoryUse use);

  IdleMemory idle_;
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>();
  MemoryQueue queue_;
  SharedMemory shared_;
  EndWatcher watcher_;
};

/// Writes the device's forms of a kernel's views to its parameter block, after everything else in
/// it. Views without elements have none.
Status write_views(const Device& device, const plan::KernelCode& kernel,
                   std::span<std::byte> block);

/// Memory of a device that the application allocates (reprise_memory).
struct LentMemory {
  uint64_t bytes = 0, alignment = 0;
  MemoryUse use = MemoryUse::Device;
  uint32_t type = 0;  // Vulkan: the index of the memory type
  // What the application sets:
  uint64_t handle = 0, offset = 0;  // VkDeviceMemory and the place in it, or the address
  void* mapped = nullptr;
  void* data = nullptr;
};

/// Functions of the application that allocate a device's memory in place of the backend. Any thread
/// may call them.
struct MemoryCallbacks {
  std::function<bool(LentMemory&)> allocate;  // false: there is no memory; null: not lent
  std::function<void(const LentMemory&)> release;
};

/// Handles of an application that already has a Vulkan device, so that it can share memory with
/// runs. They are borrowed and never freed.
struct BorrowedVulkan {
  void* get_instance_proc_addr = nullptr;  // PFN_vkGetInstanceProcAddr
  void* instance = nullptr;
  void* physical_device = nullptr;
  void* device = nullptr;
  void* queue = nullptr;
  uint32_t queue_family = 0;
  // Features that the application enabled when it created the device, besides bufferDeviceAddress,
  // which is required unless `no_buffer_address` is set or the device lacks it. Features that are
  // not set here are not used.
  bool int64 = false;      // shaderInt64
  bool float16 = false;    // shaderFloat16
  bool storage8 = false;   // storageBuffer8BitAccess and shaderInt8
  bool storage16 = false;  // storageBuffer16BitAccess and shaderInt16
  bool float64 = false;    // shaderFloat64
  bool no_buffer_address = false;
  bool update_after_bind = false;  // descriptorBindingStorageBufferUpdateAfterBind
  // Queues of another family that only the library submits to; null: none. The application enabled
  // timelineSemaphore then.
  void* upload_queue = nullptr;
  void* download_queue = nullptr;
  uint32_t transfer_queue_family = 0;
  // Called around each queue submission, so that the application can use the queue as well.
  std::function<void()> lock_queue, unlock_queue;
};

/// Handles of an application that already has a CUDA context. They are borrowed and never freed.
struct BorrowedCuda {
  void* context = nullptr;  // CUcontext
  // A CUstream of that context, or else of the device's primary context; or CU_STREAM_LEGACY or
  // CU_STREAM_PER_THREAD for its default stream. Null: the backend creates streams.
  void* stream = nullptr;
};

/// Features that a backend takes to be missing on its devices, so that an application sees what
/// devices do that lack them.
struct HiddenFeatures {
  bool buffer_address = false;         // Vulkan: bufferDeviceAddress
  bool update_after_bind = false;      // Vulkan: of the descriptors of storage buffers
  bool newer_than_vulkan_1_1 = false;  // what is not an extension
  bool transfer_queues = false;        // Vulkan: queues that only transfer
};

struct BackendOptions {
  std::string cache_dir;    // folder of the pipeline cache; empty: no cache on disk
  bool validation = false;  // use Vulkan validation layers; their messages go to `log`
  Log log;
  BorrowedVulkan vulkan;  // used if vulkan.device is set
  BorrowedCuda cuda;      // used if cuda.context is set
  HiddenFeatures hidden;
  MemoryCallbacks memory;
  Threads threads;  // for creating kernels
  /// The most device memory that is allocated for sessions and buffers, in bytes; 0: no limit.
  uint64_t memory_budget = 0;
  // A run that timed out counts as hung if it has not ended after this time, or after its time
  // limit once more if that is longer. A thread that waits for it, or for a run behind it, then
  // gives it up: nothing that was made from the device is freed any more, every call on the device
  // fails and says why, and memory that was lent to the device must stay valid. A run behind other
  // runs does not hang, because it has not begun. A transfer behind a hung run fails, but gives up
  // nothing.
  uint64_t patience_ns = 10'000'000'000;
};

/// A kind of devices. Its functions may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "vulkan", "cuda"
  /// Every device with its facts, or one entry that says why there is none. Never fails.
  virtual std::vector<DeviceInfo> devices(const HiddenFeatures& hidden) = 0;
  /// `index` counts the entries of devices(). Ignored if the options lend a device.
  virtual Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options) = 0;
};

}  // namespace reprise
