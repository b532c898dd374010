// Everything that one run in flight needs on a device: parameter blocks, arena, memory of inputs
// and outputs, and recordings. Only one thread may use a context at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/device/parted_recording.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/host_plan/prepared_calls.h"
#include "runtime/package/package.h"
#include "runtime/plan/order.h"
#include "runtime/run/binding.h"
#include "runtime/run/session_io.h"
#include "runtime/run/session_options.h"
#include "runtime/run/state_memory.h"
#include "runtime/weights/weights.h"

namespace reprise {

/// What a session counts over all of its plans.
struct SessionTotals {
  std::atomic<uint64_t> device_bytes = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0,
                        copies = 0;
};

struct SessionShared;

/// What the plans of a session have in common: that of the variant, and those of the bodies that
/// the device runs.
struct SessionBase {
  std::shared_ptr<const package::Package> package;
  std::shared_ptr<Device> device;
  SessionOptions options;
  plan::Limits limits;
  HostBodies host_bodies;
  std::vector<std::unique_ptr<SessionShared>> bodies;  // parallel to Variant::bodies
  std::atomic<uint64_t> started = 0;                   // runs, which numbers them
  SessionTotals totals;
  StateMemory states;  // only one run at a time may use it

  uint64_t timeout_ns() const;  // of one run
};

/// The state of one plan of a session, which all runs share. It does not change after creation.
struct SessionShared {
  SessionShared(SessionBase& session, const package::CompiledPlan& p, const plan::Interface& own)
      : base(session), compiled(p), plan(&p.plan), interface(own) {}

  SessionBase& base;
  const package::CompiledPlan& compiled;
  const plan::Plan* plan;
  const plan::Interface& interface;
  const package::DeviceBody* body = nullptr;  // null for the plan of the variant
  plan::BlockTable table;
  std::vector<plan::Segment> segments;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  DeviceWeights weights;
  HostWeights host_weights;
  PreparedCalls prepared;
  /// How the plan uses a buffer.
  struct BufferUse {
    bool on_device = false;     // a launch, or a body on the device, reads or writes it
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
  struct StateBuffers {
    plan::BufferId current, next;  // `next` is none if launches update the state in place
  };
  std::vector<StateBuffers> of_state;           // per state; of the plan of the variant only
  std::vector<plan::Plan::Alias> state_copies;  // next values that the session copies
  size_t first_recorded = 0;  // segment that copies staged inputs; segments.size(): none
  std::vector<std::array<uint32_t, 3>> fixed_grids;  // per step, for launches with a constant grid
  bool keeps_host_values = false;                    // the plan has host calls or aliases
  std::vector<bool> updates_states;                  // per segment
  bool updates_commit = true;                        // all launches that update states commit
  bool asks_for_errors = false;                      // kernels read the error word
  bool fixed_placement = true;                       // no size in the arena depends on a symbol
  /// Of a body: the only segment with a recording, if there are no host calls.
  std::optional<size_t> only_recorded;

  const plan::Interface& io() const { return interface; }
  const BufferUse& use(plan::BufferId id) const { return uses[id]; }
  /// The value of a weight on the host.
  Result<HostTensor> host_weight(plan::BufferId id) const {
    return host_weights.get(*base.package, *plan, id);
  }
  /// Computes what follows from the plan.
  Status index();
  /// Prepares host calls and uploads the weights.
  Status load_weights();
  /// Launches every kernel with an empty grid, in the order of first use.
  Status warm_up() const;

 private:
  void index_segments();
  void find_only_recorded();
  void index_body_call(const plan::HostCall& call);
  Status index_buffers();
  Status check_buffers() const;
  Status fix_grids();
};

/// A buffer whose bytes count in SessionTotals::device_bytes.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  static Result<CountedBuffer> allocate(SessionBase& session, uint64_t bytes, MemoryUse use);
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
    std::swap(totals_, o.totals_);
    std::swap(buffer_, o.buffer_);
  }
  SessionTotals* totals_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
};

/// The device state of one run, reused by later runs.
class RunContext {
 public:
  /// `shared` must outlive the context.
  static Result<std::unique_ptr<RunContext>> create(SessionShared& shared);
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;
  /// Begins a run: does everything until the device works on the first segment. `start` is when the
  /// caller entered the session. `io` must live until end().
  Status begin(const BoundIo& io, std::chrono::steady_clock::time_point start,
               const SubmitOptions& options = {});
  /// Begins a run that is one submission, and writes its commands to a command buffer of the
  /// application instead of submitting them. The application says by calling end() that they were
  /// executed.
  Status begin_in(void* command_buffer, const BoundIo& io,
                  std::chrono::steady_clock::time_point start);
  /// What begin() has submitted; null if that is nothing.
  Recording* first_submission() const;
  /// Whether end() need not wait for the first segment. An error ends the run.
  Result<bool> poll_first();
  /// Waits, does the rest of the run and delivers the results. Reuses the memory of `results`.
  Status end(std::vector<HostTensor>& results, RunStats* stats);
  /// Whether a run is one submission, without host calls.
  static bool is_one_submission(const SessionShared& shared);
  /// Whether begin() submits something.
  static bool begins_with_a_submission(const SessionShared& shared);
  /// The symbols of the last run. A context with the same symbols needs no rewriting.
  const std::vector<int64_t>& symbols() const { return sized_for_; }
  /// The state of the context after its last run.
  enum class State : uint8_t {
    Free,
    Late,  // the run timed out, and the device is still executing it
    Dead,  // the run failed, and the device may still be using the memory
  };
  State state() const { return state_; }
  /// Whether the device may have executed a part of the last run.
  bool submitted() const { return submitted_; }
  /// Whether the last run, which failed, certainly left the states as they were.
  bool kept_states() const { return !updating_ || (failed_check_ && s_.updates_commit); }
  /// Whether an allocation failed. Such a context cannot run, so its memory can be freed.
  bool starved() const { return starved_; }
  /// Asks the device whether a late run has ended, and returns the new state.
  State poll();
  /// After a run: drops the memory of the shared arena, which the next run gets again.
  void leave_arena() { shared_arenas_.clear(); }

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
    PartedRecording* parted = nullptr;  // `recording`, if runs are cut in slices
    Staged staged;
    bool copies_pixels = false;
    uint64_t pixels_of = 0;  // the binding whose images it copies
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

  struct Ongoing;

  explicit RunContext(SessionShared& shared);
  std::span<std::byte> blocks() const;
  void set_location(plan::BufferId id, Location where);
  Status resize(const std::vector<int64_t>& symbols);
  Status place_arena();
  SharedArena* shared_arena() const;
  Status get_shared_arenas();
  bool holds_arena();
  Status grow(CountedBuffer& buffer, uint64_t bytes, MemoryUse use);
  Status place_late(Run& run);
  Status place_own(plan::BufferId id);
  Status bind_input(size_t i, Run& run);
  Status bind_output(size_t i, Run& run);
  Status ensure_memory(HostBound& tensor, uint64_t bytes, MemoryUse staging);
  Status ensure_device_memory(HostBound& tensor, uint64_t bytes);
  Status bind_pixels_in(size_t i, const Binding& b, const Rows& rows);
  Status bind_pixels_out(size_t o, const Binding& b);
  PixelCopy pixel_copy(const Binding& b, const plan::Slot& slot, const Rows& rows,
                       const HostBound& tensor) const;
  Status set_pixels(size_t index, Recorded& r, uint64_t binding);

  Status begin_segment(size_t index, Run& run);
  Status end_segment(size_t index, Run& run);
  void count_parts(const PartedRecording& parted);
  Status end_launches(size_t index, Run& run);
  Status execute(Run& run, std::vector<HostTensor>& results);
  Status finish_run(std::vector<HostTensor>& results, RunStats* stats);
  void add_body_times(Run& run) const;
  Run& start_run(const BoundIo& io, std::chrono::steady_clock::time_point start);
  Status finish(Run& run, std::vector<HostTensor>& results);
  Status check_time(const Run& run) const;
  Status submit(Recording& recording, Run& run);
  Status wait(Recording& recording, Run& run);
  Status prepare(Run& run);
  Status write_segment(size_t index, const std::vector<int64_t>& symbols);
  Status record_segment(size_t index);
  Status record_parts(size_t index, RecordingDesc desc);
  const RecordingDesc& foreign_recording();
  Result<std::vector<double>> measure_parts(size_t index, Run& run);
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
  /// How a segment is cut in slices.
  struct Parts {
    std::vector<double> launch_ns;  // measured, by which it is cut; empty: not measured
    uint64_t runs = 0;
    bool cut_again = false;  // before the next run
  };
  /// The state that a segment was prepared in.
  struct SegmentState {
    Parts parts;
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
  void wait_failed(Recording& recording);

  Status run_host_calls(const plan::Segment& segment, Run& run);
  Status run_host_call(uint32_t step, Run& run);
  Status accept(plan::BufferId id, HostTensor value, Run& run);

  // run_bodies.cpp and run_loops.cpp
  struct BodyCall;
  struct BodyRun;
  class LoopRun;
  Status run_bodies(uint32_t step, Run& run);
  Status run_branch(const plan::HostCall& call, const HostRun& host, Run& run);
  Status run_iterations(uint32_t step, const HostRun& host, Run& run);
  Result<Binding> passed(plan::BufferId id, Run& run, std::optional<HostTensor>& kept);
  Result<std::optional<Binding>> place_of(plan::BufferId id, const plan::Slot& slot, Run& run);
  Status bind_body(BodyCall& c, Run& run);
  Result<RunContext*> context_of(uint32_t body, size_t turn);
  Status prepare_body(BodyCall& c, size_t turn, Run& run, BodyRun& body);
  Status begin_body(BodyCall& c, size_t turn, Run& run, BodyRun& body);
  Result<std::vector<HostTensor>> end_body(BodyRun& body, Run& run);
  Result<std::vector<HostTensor>> execute_body(BodyCall& c, Run& run);
  Status leave_body(const BodyRun& body, const Status& done, Run& run);
  uint64_t memory() const;
  Status copy_on_device(std::vector<Command> copies, Run& run);
  Status upload_result(plan::BufferId id, const HostTensor& value, Run& run);
  Result<HostTensor> fetch(plan::BufferId id, Run& run);
  Status read(plan::BufferId id, std::span<std::byte> out, Run& run);
  void bind_states();
  Status copy_states(Run& run);
  Status keep_passed_through(Run& run);
  Status deliver(size_t output, Run& run, HostTensor& result);
  Status deliver_to_device(plan::BufferId id, const SessionShared::OutputSource& source,
                           const Binding& b, Run& run);

  SessionShared& s_;
  std::unique_ptr<Ongoing> ongoing_;
  CountedBuffer blocks_, error_;
  std::vector<CountedBuffer> arenas_;
  std::vector<std::shared_ptr<DeviceBuffer>> shared_arenas_;  // instead of them, during a run
  uint64_t arena_generation_ = 0;                             // of the shared arena
  std::vector<HostBound> inputs_;
  std::vector<OutputState> outputs_;
  IdVector<plan::BufferId, Placed> buffers_;
  IdVector<plan::BufferId, uint64_t> bytes_;
  plan::ArenaPlacement placement_;  // the current placement in the arenas
  std::vector<int64_t> sized_for_;  // the symbols for which bytes_ and the arenas were computed
  std::vector<int64_t> symbols_;    // of this run
  Staged staged_;                   // of the current segment
  // Copies of this run between its memory and images, or rows with a pitch, of the caller.
  std::vector<PixelCopy> pixels_in_;
  std::vector<std::pair<size_t, PixelCopy>> pixels_out_;  // with the segment that they follow
  std::vector<PixelCopy> pixels_after_;                   // of the current segment
  std::vector<SegmentState> segments_;
  bool sized_ = false, starved_ = false, submitted_ = false;
  bool updating_ = false;      // a segment that updates states was submitted
  bool failed_check_ = false;  // a kernel recorded an error
  State state_ = State::Free;
  uint64_t bindings_version_ = 0;        // RecordingDesc::bindings_version
  std::shared_ptr<void> recorded_uses_;  // Device::record_into, for the last run that did it
  struct Foreign {
    RecordingDesc desc;
    std::vector<Command> copies;  // that its commands have
  };
  Foreign foreign_;                       // what that run recorded
  Recording* late_recording_ = nullptr;   // the device is still executing it ...
  std::vector<RunContext*> late_bodies_;  // ... or one of each of these bodies
  /// Per step that is a loop, and value that its iterations pass on: memory for two of its values.
  std::map<uint32_t, std::vector<std::array<CountedBuffer, 2>>> loops_;
  /// Parallel to SessionBase::bodies; empty for bodies that no run has used. Iterations of a loop
  /// that begin before earlier ones have ended take turns in the contexts of a body.
  std::vector<std::vector<std::unique_ptr<RunContext>>> bodies_;
  std::unique_ptr<Recording> copies_;  // the last one of copy_on_device()
};

}  // namespace reprise
