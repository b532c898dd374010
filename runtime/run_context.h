// Everything that one run in flight needs on a device: parameter blocks, arena, memory of inputs
// and outputs, and recordings. Only one thread may use a context at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/host_program.h"
#include "runtime/package/package.h"
#include "runtime/plan/order.h"
#include "runtime/session.h"
#include "runtime/session_io.h"
#include "runtime/weights.h"

namespace reprise {

/// The state that all runs of a session share. After creation only the totals change.
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
  HostBodies bodies;
  PreparedCalls prepared;
  std::atomic<uint64_t> started = 0;  // runs, which numbers them
  /// How the plan uses a buffer.
  struct BufferUse {
    bool on_device = false;     // a launch reads or writes it
    bool late = false;          // its size depends on the result of a host call
    int32_t last_segment = -1;  // the last segment with a launch that writes it; -1: none
  };
  IdVector<plan::BufferId, BufferUse> uses;
  std::vector<std::vector<plan::BufferId>>
      of_input;  // per model input: the buffers that are bound to it
  struct OutputSource {
    plan::BufferId buffer, alias_of;  // its buffer, and the buffer that it is a copy of
    /// Where its value is.
    plan::BufferId origin() const { return alias_of.is_none() ? buffer : alias_of; }
  };
  std::vector<OutputSource> of_output;  // per model output
  size_t first_recorded = 0;            // segment that copies staged inputs; segments.size(): none
  std::vector<std::array<uint32_t, 3>> fixed_grids;  // per step, for launches with a constant grid
  bool keeps_host_values = false;                    // the plan has host calls or aliases
  bool fixed_placement = true;                       // no size in the arena depends on a symbol
  // Totals.
  std::atomic<uint64_t> device_bytes = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0,
                        copies = 0;

  const plan::Interface& io() const { return package->io; }
  const BufferUse& use(plan::BufferId id) const { return uses[id]; }
  uint64_t timeout_ns() const;  // of one run
};

/// A buffer whose bytes count in SessionShared::device_bytes.
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

/// The device state of one run, reused by later runs.
class RunContext {
 public:
  /// `shared` must outlive the context.
  static Result<std::unique_ptr<RunContext>> create(SessionShared& shared);
  /// `start` is when the caller entered the session. Reuses the memory of `results`.
  Status run(const BoundIo& io, std::chrono::steady_clock::time_point start,
             std::vector<HostTensor>& results, RunStats* stats);
  /// The symbols of the last run. A context with the same symbols needs no rewriting.
  const std::vector<int64_t>& symbols() const { return sized_for_; }
  /// The state of the context after its last run.
  enum class State : uint8_t {
    Free,
    Late,  // the run timed out, and the device is still executing it
    Dead,  // the run failed, and the device may still be using the memory
  };
  State state() const { return state_; }
  /// Whether an allocation failed. Such a context cannot run, so its memory can be freed.
  bool starved() const { return starved_; }
  /// Asks the device whether a late run has ended, and returns the new state.
  State poll();

 private:
  /// Device memory of a model input or output that the caller binds to host memory.
  struct HostBound {
    CountedBuffer device;
    CountedBuffer staging;  // only if `device` is not mapped
    bool staged = false;    // this run copies between the two
  };
  struct OutputState : HostBound {
    std::optional<std::vector<int64_t>> dims;  // if they follow from sized_for_
  };
  /// The copies of a segment between the model's inputs or outputs and their staging memory.
  struct Staged {
    std::vector<uint32_t> in, out;  // indices of inputs and outputs
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
  /// The place of a plan buffer.
  struct Placed {
    CountedBuffer own;     // its own memory, if it is not in the arena
    Location location;     // in `own`, in the arena, or in memory of a weight or of the caller
    uint64_t address = 0;  // the address that the parameter blocks hold
  };
  /// The values of one run that are on the host, and its clock (run_state.h).
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
  /// The commands of a segment for these staged inputs and outputs, kept for sessions that record
  /// again on each run.
  struct Order {
    std::vector<uint32_t> in, out;
    std::vector<plan::OrderNode> nodes;
  };
  /// The state that a segment was prepared in.
  struct SegmentState {
    bool written = false;              // its parameter blocks are written ...
    std::vector<int64_t> written_for;  // ... for these symbols
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
  plan::ArenaPlacement placement_;  // the current placement in the arenas
  std::vector<int64_t> sized_for_;  // the symbols for which bytes_ and the arenas were computed
  std::vector<int64_t> symbols_;    // of this run
  Staged staged_;                   // of the current segment
  std::vector<SegmentState> segments_;
  bool sized_ = false, starved_ = false;
  State state_ = State::Free;
  size_t late_segment_ = 0;
};

}  // namespace reprise
