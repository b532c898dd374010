// Executes the segments of a run: submissions to the device, and host calls.
#pragma once

#include "runtime/run/body_calls.h"
#include "runtime/run/host_values.h"
#include "runtime/run/recorder.h"

namespace reprise {

class RunExecutor {
 public:
  /// The arguments must outlive the object.
  RunExecutor(SharedPlan& shared, RunMemory& memory, Recorder& recorder, HostValues& values)
      : shared_(shared), memory_(memory), recorder_(recorder), values_(values) {}
  /// Required before a run if the plan calls bodies on the device.
  void set_body_calls(BodyCalls& bodies) { bodies_ = &bodies; }

  void begin_run() { submitted_ = updating_ = failed_check_ = false; }
  /// Submits the launches of a segment.
  Status begin_segment(size_t segment, CurrentRun& run);
  /// Waits for them.
  Status end_launches(size_t segment, CurrentRun& run);
  /// Waits for them, if there are any, and makes the segment's host calls.
  Status end_segment(size_t segment, CurrentRun& run);
  /// Writes the first segment to a command buffer of the application instead of submitting it.
  Status record_into(void* command_buffer, const CurrentRun& run);
  /// Whether the device has ended the submission of a segment.
  Result<bool> poll_segment(size_t segment, const TimeLeft& left);
  /// The error that a kernel of this run recorded.
  Status check_error_word();
  /// An error if the run has used up its time, or was cancelled.
  Status check_time(const CurrentRun& run) const;

  /// After a failure nothing is in flight, or availability() says so.
  Status submit(Recording& recording, CurrentRun& run);
  Status wait(Recording& recording, CurrentRun& run);
  /// Contexts of bodies are late or dead.
  void wait_for_bodies();

  Availability availability() const { return availability_; }
  /// Asks the device whether a late run has ended, and returns the new value.
  Availability poll();
  /// Whether the device may have executed a part of the last run.
  bool submitted() const { return submitted_; }
  /// Whether the last run, which failed, certainly left the states as they were.
  bool kept_states() const { return !updating_ || (failed_check_ && shared_.updates_commit); }

 private:
  void wait_failed(Recording& recording);
  void count_parts(const PartedRecording& parted);
  Status run_host_calls(const plan::Segment& segment, CurrentRun& run);
  Status run_host_call(uint32_t step, CurrentRun& run);

  SharedPlan& shared_;
  RunMemory& memory_;
  Recorder& recorder_;
  HostValues& values_;
  BodyCalls* bodies_ = nullptr;
  bool submitted_ = false;
  bool updating_ = false;      // a segment that updates states was submitted
  bool failed_check_ = false;  // a kernel recorded an error
  Availability availability_ = Availability::Free;
  Recording* late_recording_ = nullptr;  // the device is still executing it ...
  bool bodies_are_late_ = false;         // ... or one of a body
};

}  // namespace reprise
