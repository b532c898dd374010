// Everything that one run in flight needs on a device. It owns the objects that do the work: the
// memory of the run, its recordings, its values on the host, and their execution.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/run/run_executor.h"

namespace reprise {

/// The device state of one run, reused by later runs. Only one thread may use a context at a time.
class RunContext {
 public:
  /// `shared` must outlive the context.
  static Result<std::unique_ptr<RunContext>> create(SharedPlan& shared);
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;
  /// Begins a run: does everything until the device works on the first segment. `start` is when the
  /// caller entered the session. `io` must live until end().
  Status begin(const BoundIo& io, Clock::time_point start, const SubmitOptions& options = {});
  /// Begins a run that is one submission, and writes its commands to a command buffer of the
  /// application instead of submitting them. The application says by calling end() that they were
  /// executed.
  Status begin_in(void* command_buffer, const BoundIo& io, Clock::time_point start);
  /// What begin() has submitted; null if that is nothing.
  Recording* first_submission() const;
  /// Whether end() need not wait for the first segment. An error ends the run.
  Result<bool> poll_first();
  /// Waits, does the rest of the run and delivers the results. Reuses the memory of `results`.
  Status end(std::vector<HostTensor>& results, RunStats* stats);

  // A run of a body: its caller's run has the time limit and learns the statistics. Functions that
  // end it leave current() as it is until leave_body().
  void start_body(const BoundIo& io, TimeLeft& left, const host::RandomState& random);
  /// Only with SharedPlan::only_recorded. end_body() follows if it succeeds.
  Status begin_body();
  Status end_body(std::vector<HostTensor>& results);
  /// Instead of both.
  Status execute_body(std::vector<HostTensor>& results);
  void leave_body();

  /// The run that was begun and has not ended.
  const CurrentRun& current() const { return *run_; }
  /// The memory that it keeps for runs of other sizes and values.
  uint64_t held_bytes() const { return memory_.held_bytes() + io_.held_bytes(); }

  SharedPlan& shared() const { return shared_; }
  RunMemory& memory() { return memory_; }
  IoMemory& io() { return io_; }
  HostValues& values() { return values_; }
  RunExecutor& executor() { return executor_; }
  const RunMemory& memory() const { return memory_; }
  const RunExecutor& executor() const { return executor_; }

 private:
  explicit RunContext(SharedPlan& shared);
  CurrentRun& start_run(const BoundIo& io, Clock::time_point start);
  Status prepare(CurrentRun& run);
  Status end_current(RunStats* stats, std::vector<HostTensor>& results);
  void add_body_times(CurrentRun& run) const;

  SharedPlan& shared_;
  TimeLeft left_;
  std::vector<int64_t> symbols_;  // of this run
  std::optional<CurrentRun> run_;
  bool recorded_ = false;  // in a command buffer of the application
  // Each is destroyed before those that it uses.
  RunMemory memory_;
  IoMemory io_;
  Recorder recorder_;
  HostValues values_;
  RunExecutor executor_;
  std::unique_ptr<BodyCalls> bodies_;  // null if the plan calls none
};

}  // namespace reprise
