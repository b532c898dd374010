// The device memory of one state that grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise {

/// How many rows a state has that grows.
struct StateRows {
  int64_t length = 0, capacity = 0, limit = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> dims;  // of the value; 0 for a size that no run has decided
};

/// The right to use states, which ends with it.
struct EndUse {
  void operator()(std::atomic<bool>* used) const { *used = false; }
};
using InUse = std::unique_ptr<std::atomic<bool>, EndUse>;

enum class RowChange : uint8_t { None, Truncate, Reserve, Limit };

/// Memory of rows, which several states have if one is a fork of another.
struct SharedRows {
  std::unique_ptr<DeviceBuffer> buffer;
  std::mutex mutex;
  int64_t kept = 0;            // the first rows, which forks read, so that nobody replaces them
  const void* last = nullptr;  // the only one that may have rows behind these; null: nobody has
};

/// The rows lie one after another, so that more memory behind them changes the place of none. The
/// functions that fail change nothing, except write().
class RowMemory {
 public:
  RowMemory(Device& device, const plan::StateSlot& slot);
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;
  ~RowMemory() { leave(); }

  const StateRows& rows() const { return rows_; }
  const DeviceBuffer* buffer() const { return memory_ ? memory_->buffer.get() : nullptr; }
  DeviceBuffer* buffer() { return memory_ ? memory_->buffer.get() : nullptr; }
  /// Where the next rows are.
  uint64_t end() const { return static_cast<uint64_t>(rows_.length) * row_bytes_; }
  uint64_t bytes() const { return memory_ ? memory_->buffer->size() : 0; }
  /// Whether forks use the same memory.
  bool is_shared() const { return memory_.use_count() > 1; }
  /// A state with the first rows of this one, in the same memory. The first of the two that appends
  /// behind the other's rows goes on there, and the other one copies its rows when it appends.
  std::unique_ptr<RowMemory> fork(int64_t length) const;

  /// Before a run that finds a value with these dims and leaves `length` rows.
  Status begin(std::span<const int64_t> dims, int64_t length);
  /// The run has succeeded.
  void advance() { set_length(next_); }
  Status change(RowChange change, int64_t rows);

  Result<HostTensor> read() const;
  /// A value that is ready to be written, with the memory that it needs beyond the present one.
  struct Rewrite {
    HostTensor dense;
    std::unique_ptr<DeviceBuffer> larger;
  };
  Result<Rewrite> prepare(const HostTensor& value) const;
  /// Without `larger`, a failure of the device leaves no rows.
  Status write(Rewrite rewrite);

 private:
  Result<std::unique_ptr<DeviceBuffer>> larger(uint64_t row_bytes, int64_t rows, int64_t at_least,
                                               bool stays) const;
  Status grow(int64_t rows, int64_t at_least, bool stays);
  bool claim(int64_t from) const;
  void replace(std::unique_ptr<DeviceBuffer> buffer);
  void leave();
  Status move_to(DeviceBuffer& buffer) const;
  void set_dims(std::span<const int64_t> dims);
  void set_length(int64_t length);

  Device* device_ = nullptr;
  const plan::StateSlot* slot_ = nullptr;
  std::shared_ptr<SharedRows> memory_;
  StateRows rows_;
  uint64_t row_bytes_ = 0;  // 0: not known yet
  int64_t next_ = 0, reserved_ = 0;
};

/// The checks of these functions, which the host shares.
Status check_change(const std::string& name, const StateRows& rows, RowChange change,
                    int64_t wanted);
Status check_reserve(const std::string& name, const StateRows& rows, int64_t wanted);
/// Whether a run may find a value with these dims, and leave `length` rows.
Status check_rows(const plan::StateSlot& slot, const StateRows& rows, std::span<const int64_t> dims,
                  int64_t length);
/// The first `length` rows along an axis.
HostTensor first_rows(const HostTensor& value, int32_t axis, int64_t length);

}  // namespace reprise
