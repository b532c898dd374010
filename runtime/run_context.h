// Everything that one run in flight needs of a device: parameter blocks, arena, input and output
// memory, recordings. Used by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/package/package.h"
#include "runtime/plan/order.h"
#include "runtime/session.h"
#include "runtime/session_io.h"
#include "runtime/weights.h"

namespace reprise {

/// What all runs of a session share; constant after create, but for the totals.
struct SessionShared {
  std::shared_ptr<const package::Package> package;
  std::shared_ptr<Device> device;
  const plan::Plan* plan = nullptr;
  SessionOptions options;
  plan::Limits limits;
  plan::BlockTable table;
  std::vector<plan::Segment> segments;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  DeviceWeights weights;
  /// How the plan uses a buffer.
  struct BufferUse {
    bool on_device = false;     // a launch reads or writes it
    bool late = false;          // its size depends on what a host call tells
    int32_t last_segment = -1;  // whose launches write it last; -1: none
  };
  IdVector<plan::BufferId, BufferUse> uses;
  // Per model input: buffers that are it. Per output: its buffer and the buffer it is a copy of.
  std::vector<std::vector<plan::BufferId>> of_input;
  struct OutputSource {
    plan::BufferId buffer, alias_of;
    /// Where its value is.
    plan::BufferId origin() const { return alias_of.is_none() ? buffer : alias_of; }
  };
  std::vector<OutputSource> of_output;
  size_t first_recorded = 0;  // segment that copies staged inputs; segments.size(): none
  std::vector<std::array<uint32_t, 3>>
      fixed_grids;                 // per step: of launches without an indirect one
  bool keeps_host_values = false;  // the plan has host calls or aliases
  bool fixed_placement = true;     // the arena's sizes depend on nothing
  // Totals.
  std::atomic<uint64_t> device_bytes = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0,
                        copies = 0;

  const plan::Interface& io() const { return package->io; }
  const BufferUse& use(plan::BufferId id) const { return uses[id]; }
  uint64_t timeout_ns() const;  // of one wait
};

/// A buffer counted in SessionShared::device_bytes.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  static Result<CountedBuffer> allocate(SessionShared& shared, uint64_t bytes, MemoryUse use);
  CountedBuffer(CountedBuffer&& o) noexcept { swap(o); }
  CountedBuffer& operator=(CountedBuffer&& o) noexcept {
    swap(o);
    return *this;
  }
  ~CountedBuffer();
  DeviceBuffer* get() const { return buffer_.get(); }
  DeviceBuffer* operator->() const { return buffer_.get(); }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  void swap(CountedBuffer& o) {
    std::swap(shared_, o.shared_);
    std::swap(buffer_, o.buffer_);
  }
  SessionShared* shared_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
};

class RunContext {
 public:
  static Result<std::unique_ptr<RunContext>> create(SessionShared& shared);
  /// `start`: when the caller entered the session. `results` keep the memory they have.
  Status run(const BoundIo& io, std::chrono::steady_clock::time_point start,
             std::vector<HostTensor>& results, RunStats* stats);
  /// Symbols of the last run, to find a context that needs no rewriting.
  const std::vector<int64_t>& symbols() const { return sized_for_; }
  /// What the last run leaves of the context.
  enum class State : uint8_t {
    Free,
    Late,  // it timed out, and the device still works on it
    Dead,  // it failed so that nothing tells whether the device still uses this memory
  };
  State state() const { return state_; }
  /// Whether an allocation failed: what the context has is of no use without what it lacks.
  bool starved() const { return starved_; }
  /// Asks the device whether a late run has ended.
  State poll();

 private:
  /// Memory of one model input or output that the caller keeps on the host.
  struct HostBound {
    CountedBuffer device;
    CountedBuffer staging;  // only when `device` is not mapped
    bool staged = false;    // this run copies between the two
  };
  struct OutputState : HostBound {
    std::optional<std::vector<int64_t>> dims;  // where they follow from sized_for_
  };
  /// What a segment copies between the model's inputs or outputs and their staging memory.
  struct Staged {
    std::vector<uint32_t> in, out;
    std::vector<Command> copies;
  };
  struct Recorded {
    std::unique_ptr<Recording> recording;
    Staged staged;
    uint64_t barriers = 0, dispatches = 0;
  };
  struct Location {
    DeviceBuffer* buffer = nullptr;
    uint64_t offset = 0;
  };
  /// Where a buffer of the plan is.
  struct Placed {
    CountedBuffer own;     // its memory where it lies outside the arena
    Location location;     // in own, the arena, a weight's memory or the caller's
    uint64_t address = 0;  // as the blocks have it
  };
  /// One run's values that live on the host, and its clock.
  struct Run;

  explicit RunContext(SessionShared& shared) : s_(shared) {}
  std::span<std::byte> blocks() const;
  void set_location(plan::BufferId id, Location where);
  Status resize(const std::vector<int64_t>& symbols);
  Status place_arena();
  Status grow(CountedBuffer& buffer, uint64_t bytes, MemoryUse use);
  Status place_late(Run& run);
  Status place_own(plan::BufferId id);
  Status bind_input(size_t i, Run& run);
  Status bind_output(size_t i, Run& run);
  Status ensure_memory(HostBound& tensor, uint64_t bytes, MemoryUse staging);

  Status run_segment(size_t index, Run& run);
  Status prepare(Run& run);
  Status write_segment(size_t index, const std::vector<int64_t>& symbols);
  Status record_segment(size_t index);
  void find_staged(size_t index, Staged& staged) const;
  bool staged_by(size_t index, size_t i, bool input) const;
  Command staging_copy(uint32_t i, bool input) const;
  uint64_t staged_bytes(uint32_t i, bool input) const;
  void limit_copies(Recorded& r) const;
  /// A segment's commands for these staged inputs and outputs, kept for recordings that are not
  /// replayed.
  struct Order {
    std::vector<uint32_t> in, out;
    std::vector<plan::OrderNode> nodes;
  };
  /// What a segment has been prepared for.
  struct SegmentState {
    bool written = false;  // for these symbols:
    std::vector<int64_t> written_for;
    Recorded recorded;
    Order order;
  };
  const std::vector<plan::OrderNode>& order_of(size_t index, std::vector<uint32_t> in,
                                               std::vector<uint32_t> out);
  Command launch_command(uint32_t step) const;
  void append_commands(const std::vector<plan::OrderNode>& order, RecordingDesc& desc,
                       Recorded& counts) const;
  Status check_error_word();
  void wait_failed(size_t segment);

  Status run_host_calls(const plan::Segment& segment, Run& run);
  Status upload_result(plan::BufferId id, const HostTensor& value, Run& run);
  Result<HostTensor> fetch(plan::BufferId id, Run& run);
  Status read(plan::BufferId id, std::span<std::byte> out, Run& run);
  Status keep_passed_through(Run& run);
  Status deliver(size_t output, Run& run, HostTensor& result);
  Status deliver_to_device(plan::BufferId id, const SessionShared::OutputSource& source,
                           const Binding& b, Run& run);

  SessionShared& s_;
  CountedBuffer blocks_, error_;
  std::vector<CountedBuffer> arenas_;
  std::vector<HostBound> inputs_;
  std::vector<OutputState> outputs_;
  IdVector<plan::BufferId, Placed> buffers_;
  IdVector<plan::BufferId, uint64_t> bytes_;
  plan::ArenaPlacement placement_;  // of what lies in the arena now
  std::vector<int64_t> sized_for_;  // symbols that bytes_ and the arenas are for
  std::vector<int64_t> symbols_;    // of this run
  Staged staged_;                   // of the segment at hand
  std::vector<SegmentState> segments_;
  bool sized_ = false, starved_ = false;
  State state_ = State::Free;
  size_t late_segment_ = 0;
};

}  // namespace reprise
