// Memory for the intermediate tensors of several sessions, whose runs take turns.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise {

/// As large as the largest need of a session that uses it. Thread-safe.
class SharedArena final : private IdleMemory::Holder {
 public:
  explicit SharedArena(std::shared_ptr<Device> device);
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  ~SharedArena();
  const std::shared_ptr<Device>& device() const { return device_; }
  /// The memory that it holds now.
  uint64_t bytes() const;

  /// Waits for the runs of others. Code::Busy if one of them is that of a run object, which the
  /// caller may have to end itself.
  Status acquire();
  /// For a run object: Code::Busy instead of waiting.
  Status try_acquire();
  /// Ends the turn. `keeps`: the device may still use the memory, so later runs get other memory.
  void release(bool keeps) noexcept;

  // Only for the run whose turn it is.
  /// A number that changes whenever a buffer is replaced. No two arenas have the same.
  uint64_t generation() const { return generation_; }
  /// Makes buffer number `index` at least this large. Its owners keep it alive.
  Result<std::shared_ptr<DeviceBuffer>> get(size_t index, uint64_t bytes);

 private:
  bool free_idle() override;

  enum class User : uint8_t { None, Call, RunObject };
  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  User user_ = User::None;
  uint64_t next_ticket_ = 0, now_serving_ = 0;  // of callers that wait
  uint64_t generation_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
};

}  // namespace reprise
