// The device memory of a run: parameter blocks, the arena, and the place of each tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/run/counted_buffer.h"
#include "runtime/run/row_memory.h"
#include "runtime/run/shared_arena.h"

namespace reprise {

class RunMemory {
 public:
  struct Location {
    DeviceBuffer* buffer = nullptr;
    uint64_t offset = 0;
  };

  /// `shared` must outlive the object.
  explicit RunMemory(const SharedPlan& shared) : shared_(shared) {}
  /// Allocates the parameter blocks, and places the weights.
  Status create();

  /// Begins a run with these symbols: sizes and places the tensors whose sizes follow from them.
  Status resize(const std::vector<int64_t>& symbols);
  /// The symbols of the last resize(). The same symbols again cost nothing.
  const std::vector<int64_t>& symbols() const { return sized_for_; }
  /// The dims of an output, if they follow from these symbols.
  const std::optional<std::vector<int64_t>>& output_dims(size_t output) const {
    return output_dims_[output];
  }
  /// The places of states change roles after each run.
  void bind_states();
  /// Gives a tensor of a size that host calls have determined its bytes(). It then needs a place.
  Status size_late(plan::BufferId id, const std::vector<int64_t>& symbols);
  /// Places a tensor in memory of its own.
  Status place_own(plan::BufferId id);
  void set_location(plan::BufferId id, Location where);
  /// In its own memory, in the arena, or in memory of a weight or of the caller.
  const Location& location(plan::BufferId id) const { return tensors_[id].location; }
  uint64_t bytes(plan::BufferId id) const { return bytes_[id]; }
  /// Of tensors in the arena, and their sizes, for plan::ArenaReuse.
  const plan::ArenaPlacement& placement() const { return placement_; }
  const IdVector<plan::BufferId, uint64_t>& sizes() const { return bytes_; }

  std::span<std::byte> blocks() const;
  DeviceBuffer* blocks_buffer() const { return blocks_.get(); }
  /// RecordingDesc::bindings_version
  const uint64_t* bindings_version() const { return &bindings_version_; }
  /// What kernels have stored to report an error; 0: nothing. Clears it.
  uint32_t take_error_word();
  void clear_error_word();

  /// Makes a buffer at least this large. Its contents are lost.
  Status grow(CountedBuffer& buffer, uint64_t bytes, MemoryUse use);
  /// Whether an allocation failed. Such a context cannot run, so its memory can be freed.
  bool starved() const { return starved_; }
  void set_starved(bool starved) { starved_ = starved; }
  /// Before a run: keeps the states that the run uses, as it may be late when the session has
  /// ended.
  void use_states(std::shared_ptr<void> states) { states_ = std::move(states); }
  /// After a run that the device has not ended: until leave_arena(), nobody else may use them.
  void keep_states(InUse in_use) { in_use_ = std::move(in_use); }
  /// The device has ended the run, or is lost.
  void give_states_back() { in_use_.reset(); }
  /// After a run: drops the memory of the shared arena, which the next run gets again, and states.
  void leave_arena() {
    shared_arenas_.clear();
    in_use_.reset();
    states_.reset();
  }
  /// Before a run: the arena in which it places its tensors; null: its own.
  void use_arena(SharedArena* arena) { shared_arena_ = arena; }
  /// The memory that it keeps for runs of other sizes and values.
  uint64_t held_bytes() const;

 private:
  struct Tensor {
    CountedBuffer own;  // its own memory, if it is not in the arena
    Location location;
    uint64_t address = 0;  // the address that the parameter blocks hold
  };
  bool keeps_places();
  Status place_arena();
  Status place_tensors();
  Status get_shared_arenas();
  bool holds_arena();

  const SharedPlan& shared_;
  CountedBuffer blocks_, error_;
  std::vector<CountedBuffer> arenas_;
  std::vector<std::shared_ptr<DeviceBuffer>> shared_arenas_;  // instead of them, during a run
  SharedArena* shared_arena_ = nullptr;
  std::shared_ptr<void> states_;
  InUse in_use_;
  uint64_t arena_generation_ = 0;  // of the shared arena
  IdVector<plan::BufferId, Tensor> tensors_;
  IdVector<plan::BufferId, uint64_t> bytes_;
  IdVector<plan::BufferId, uint64_t> placed_;  // for which placement_ has room
  plan::ArenaPlacement placement_;             // the current placement in the arenas
  std::vector<std::optional<std::vector<int64_t>>> output_dims_;
  std::vector<int64_t> sized_for_;  // the symbols for which bytes_ and the arenas were computed
  bool sized_ = false, starved_ = false;
  uint64_t bindings_version_ = 0;
};

}  // namespace reprise
