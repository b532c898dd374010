// What a backend implements. Everything above (symbol values, arena placement, parameter blocks,
// host calls, checks) is backend-neutral and lives in runtime/session.cpp. Thread safety: a Device
// may be used from several threads; a DeviceBuffer or Recording from one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device_facts.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Device memory with a 64-bit address that kernels use.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  uint64_t size() const { return size_; }
  uint64_t address() const { return address_; }
  /// Host pointer when the memory is host-visible and coherent; null otherwise.
  void* mapped() const { return mapped_; }

 protected:
  uint64_t size_ = 0;
  uint64_t address_ = 0;
  void* mapped_ = nullptr;
};

enum class MemoryUse : uint8_t {
  Device,   // kernels; mapped() if the device's memory is host-visible anyway
  Upload,   // mapped, written by the host, read by the device (parameter blocks, staging)
  Readback  // mapped, cached, written by the device
};

class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
};

/// One command of a recording.
struct Command {
  enum class Kind : uint8_t {
    Dispatch,          // kernel, block, grid
    DispatchIndirect,  // kernel, block, indirect: three u32 at that offset of the block buffer
    Barrier,           // one global memory barrier: compute/transfer writes -> compute/transfer
                       // reads and writes
    Copy,              // src, dst, bytes: fixed size
    Join,              // does nothing itself: a point that others wait for; only has `after`
    HostBarrier,       // makes device writes visible to the host; last command of a recording
  } kind = Kind::Dispatch;
  const DeviceKernel* kernel = nullptr;
  uint64_t block_offset = 0;  // of the parameter block in RecordingDesc::blocks
  std::array<uint32_t, 3> grid{};
  uint64_t indirect_offset = 0;  // in RecordingDesc::blocks
  const DeviceBuffer* src = nullptr;
  const DeviceBuffer* dst = nullptr;
  uint64_t src_offset = 0, dst_offset = 0, bytes = 0;
  /// Dispatches, copies and joins: earlier ones of the recording, by index, that must finish
  /// before, without those that others of them wait for (plan::segment_order). Says no less than
  /// the barriers do for the memory that commands really share: a device gets one or the other.
  std::vector<uint32_t> after = {};
};

struct RecordingDesc {
  std::vector<Command> commands;
  const DeviceBuffer* blocks =
      nullptr;              // Upload buffer holding parameter blocks and indirect grids
  bool timestamps = false;  // one interval per Dispatch; costs a little, so on request
  bool once = false;        // for one submission: not worth preparing for more
};

/// Commands recorded once, submitted many times, one run in flight at a time per Recording.
class Recording {
 public:
  virtual ~Recording() = default;
  /// One queue submission. Returns without waiting. What a failed one left behind may still be in
  /// flight: wait() waits for that, too.
  virtual Status submit() = 0;
  /// Waits for the last submit. Code::Device when the run has had `timeout_ns` since the device
  /// began it: when all that was submitted to the device before had ended. The run goes on then,
  /// and ended() asks for it. Device loss poisons the Device.
  virtual Status wait(uint64_t timeout_ns) = 0;
  /// After a wait that failed: whether the run has ended since, so that the recording may be
  /// submitted again. An error if that will never be known: after device loss, or when the run
  /// hangs, which gives it up.
  virtual Result<bool> ended() = 0;
  /// From the next submission on, the recording's Copy number `copy` moves only the first `bytes`
  /// of those recorded. A device that cannot change a recording moves all.
  virtual void limit_copy(size_t /*copy*/, uint64_t /*bytes*/) {}
  /// Nanoseconds per Dispatch of the last finished run; empty without timestamps.
  virtual Result<std::vector<double>> dispatch_ns() = 0;
};

/// What tests and explain compare: counted where the driver is called, not estimated.
struct Counters {
  uint64_t submits = 0, dispatches_recorded = 0, barriers_recorded = 0, copies_recorded = 0;
  uint64_t recordings = 0, pipelines_created = 0, allocations = 0;
};

/// Those subject keep device memory for later use and can do without, such as sessions between
/// runs.
class IdleMemory {
 public:
  class Holder {
   public:
    /// Whether there was any.
    virtual bool free_idle() = 0;

   protected:
    ~Holder() = default;
  };
  void add(Holder& holder) {
    const std::lock_guard lock(mutex_);
    holders_.push_back(&holder);
  }
  void remove(const Holder& holder) {
    const std::lock_guard lock(mutex_);
    std::erase(holders_, &holder);
  }
  void free_all() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (Holder* h : holders_) any = h->free_idle() || any;
    if (any) ++times_freed_;
  }
  /// How often memory was given back.
  uint64_t times_freed() const { return times_freed_; }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> times_freed_ = 0;
  std::vector<Holder*> holders_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  IdleMemory& idle_memory() { return idle_; }
  /// When that fails, what others keep and do not use is given back, by this thread or by another
  /// one meanwhile, and it is tried once more. The error is the first one: the second may follow
  /// from it.
  Result<std::unique_ptr<DeviceBuffer>> allocate_or_free_idle(uint64_t bytes, MemoryUse use) {
    const uint64_t freed_before = idle_.times_freed();
    auto made = allocate(bytes, use);
    if (made.ok() || made.status().code() != Code::Device) return made;
    idle_.free_all();
    if (idle_.times_freed() == freed_before) return made;
    auto again = allocate(bytes, use);
    return again.ok() ? std::move(again) : std::move(made);
  }
  /// Whether its recordings are ordered by Command::after, or else by barriers.
  virtual bool takes_edges() const { return false; }
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes, MemoryUse use) = 0;
  /// A buffer of the application on this same device, used in place and never freed here: a
  /// VkBuffer with transfer and device-address usage; on CUDA, a CUdeviceptr, whose allocation must
  /// be of that device or managed, and have room for `bytes`.
  virtual Result<std::unique_ptr<DeviceBuffer>> borrow(void* handle, uint64_t bytes) = 0;
  /// Creates all kernels, in parallel where the driver profits (threads end before it returns).
  virtual Result<std::vector<std::unique_ptr<DeviceKernel>>> create_kernels(
      std::span<const plan::KernelCode> code) = 0;
  virtual Result<std::unique_ptr<Recording>> record(RecordingDesc desc) = 0;
  /// Blocking transfers through staging where memory is not mapped.
  virtual Status upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Whether the buffer was allocated or borrowed by this device: addresses mean nothing elsewhere.
  virtual bool owns(const DeviceBuffer& buffer) const = 0;
  virtual Counters counters() const = 0;

 private:
  IdleMemory idle_;
};

/// Handles of an application that already has a Vulkan device (decision 12); all borrowed, none
/// freed.
struct BorrowedVulkan {
  void* get_instance_proc_addr = nullptr;  // PFN_vkGetInstanceProcAddr
  void* instance = nullptr;
  void* physical_device = nullptr;
  void* device = nullptr;
  void* queue = nullptr;
  uint32_t queue_family = 0;
  // What the application enabled when it created the device, beyond bufferDeviceAddress, which is
  // always needed. A feature that is not stated is not used.
  bool int64 = false;      // shaderInt64
  bool float16 = false;    // shaderFloat16
  bool storage8 = false;   // storageBuffer8BitAccess and shaderInt8
  bool storage16 = false;  // storageBuffer16BitAccess and shaderInt16
  // Called around each queue submission, so that the application can submit to the queue as well.
  std::function<void()> lock_queue, unlock_queue;
};

/// Handles of an application that already has a CUDA context; borrowed, never freed.
struct BorrowedCuda {
  void* context = nullptr;  // CUcontext
  // CUstream of that context, or CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for its default stream;
  // null: streams of our own.
  void* stream = nullptr;
};

struct BackendOptions {
  std::string cache_dir;    // where the pipeline cache is kept; empty: no cache on disk
  bool validation = false;  // Vulkan validation layers; messages go to `log`
  std::function<void(const std::string&)> log;  // may be called from any thread
  BorrowedVulkan vulkan;                        // used when vulkan.device is set
  BorrowedCuda cuda;                            // used when cuda.context is set
  unsigned threads = 0;                         // for creating kernels; 0: hardware concurrency
  // A run that timed out hangs if it does not end in as long again as it was given, and at least in
  // so long. Whoever waits for it or behind it gives it up then: nothing made from its device is
  // freed any more, and every call on the device is an error that says so; memory that was lent to
  // it must stay, too. Work behind other work does not hang, as it has not begun. A transfer that
  // would come after a run that hangs is an error, which gives up nothing.
  uint64_t patience_ns = 10'000'000'000;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "vulkan", "cuda"
  /// Every device with its facts, or one entry that says why there is none. Never fails.
  virtual std::vector<DeviceInfo> devices() = 0;
  virtual Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options) = 0;
};

}  // namespace reprise
