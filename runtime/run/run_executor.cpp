#include "runtime/run/run_executor.h"

#include <algorithm>

#include "runtime/host_plan/host_step.h"

namespace reprise {
namespace {

// The names of the launch's int64 tensors, for messages.
std::string wide_tensors(const plan::Plan& plan, const plan::Launch& launch) {
  std::string out;
  for (const plan::BufferId id : launch.buffers) {
    const plan::Buffer& b = plan.buffers[id];
    if (b.dtype != DType::I64 || b.name.empty()) continue;
    out += (out.empty() ? " (among tensors '" : "', '") + b.name;
  }
  return out.empty() ? out : out + "')";
}

// The error for a code that a kernel reported; the codes are those of kernel::ErrorCode.
Status kernel_error(uint32_t code, const std::string& subject, const std::string& wide) {
  switch (code) {
    case 1:
      return invalid_input(subject + ": an index is outside its dimension");
    case 2:
      return unsupported(subject +
                         ": an int64 value does not fit the 32 bits that this device computes "
                         "with" +
                         wide + "; use smaller values or the host device");
    case 3:
      return invalid_input(subject + ": integer division by zero");
    default:
      return {Code::Device, subject + " reported the unknown error " + std::to_string(code)};
  }
}

}  // namespace

Status RunExecutor::check_error_word() {
  const uint32_t word = memory_.take_error_word();
  if (word == 0) return {};
  failed_check_ = true;
  const uint32_t step = word >> 8;
  const auto* launch = step < shared_.plan->steps.size()
                           ? std::get_if<plan::Launch>(&shared_.plan->steps[step].what)
                           : nullptr;
  if (launch == nullptr) return kernel_error(word & 0xff, "launch " + std::to_string(step), {});
  return kernel_error(word & 0xff, plan::describe_launch(*shared_.plan, *launch),
                      wide_tensors(*shared_.plan, *launch))
      .about(launch->nodes);
}

void RunExecutor::wait_failed(Recording& recording) {
  late_recording_ = &recording;
  availability_ = Availability::Late;
  poll();
}

void RunExecutor::wait_for_bodies() {
  bodies_are_late_ = true;
  availability_ = Availability::Late;
  poll();
}

// Clears the error word, so that the error of a run that nobody waited for is not taken for that of
// the next run.
Availability RunExecutor::poll() {
  if (availability_ != Availability::Late) return availability_;
  if (bodies_are_late_) {
    availability_ = bodies_->poll();
    bodies_are_late_ = availability_ != Availability::Free;
    return availability_;
  }
  const Result<bool> ended = late_recording_->ended();
  if (!ended.ok()) {
    availability_ = Availability::Dead;
  } else if (*ended) {
    memory_.clear_error_word();
    availability_ = Availability::Free;
  }
  return availability_;
}

Status RunExecutor::check_time(const CurrentRun& run) const {
  RP_TRY(check_cancelled(run.left.cancelled));
  if (run.left.device_ns > 0 && run.left.host_ns > 0) return {};
  return {Code::Timeout,
          "the run did not finish on " + shared_.session.device->info().id +
              " within its time limit, which all iterations share; if its loops end, "
              "use a longer timeout"};
}

Status RunExecutor::submit(Recording& recording, CurrentRun& run) {
  if (run.left.device_ns == 0) return check_time(run);
  const auto start = Clock::now();
  submitted_ = true;
  const uint64_t recorded = recording.times_recorded();
  Status submitted = recording.submit(run.sync ? *run.sync : SubmitSync(), run.left.device_ns);
  run.stats.host_submit_us += us_since(run.start) - run.copy_us;
  shared_.session.totals.recordings += recording.times_recorded() - recorded;
  if (!submitted.ok() && !recording.wait(run.left.device_ns).ok()) wait_failed(recording);
  run.left.waited_ns += ns_since(start);
  return submitted;
}

Status RunExecutor::wait(Recording& recording, CurrentRun& run) {
  const auto start = Clock::now();
  const Status waited = recording.wait(run.left.device_ns);
  if (!waited.ok()) wait_failed(recording);
  RP_TRY(waited);
  const uint64_t waited_ns = ns_since(start);
  run.left.waited_ns += waited_ns;
  // A run may have ended long before the caller waits for it.
  run.left.device_ns -= std::min({run.left.device_ns, recording.ran_ns(), waited_ns});
  return {};
}

Status RunExecutor::begin_segment(size_t index, CurrentRun& run) {
  SessionTotals& totals = shared_.session.totals;
  run.segment = index;
  RP_TRY(recorder_.prepare(index, run));
  const Recorder::Recorded& r = recorder_.recorded(index);
  if (r.parted) r.parted->set_cancelled(run.left.cancelled);
  updating_ = updating_ || shared_.updates_states[index];
  RP_TRY(submit(*r.recording, run));
  totals.submits += r.recording->submissions();
  if (!r.parted) {
    totals.dispatches += r.dispatches;
    totals.barriers += r.barriers;
  }
  totals.copies += r.staged.copies.size();
  return {};
}

Status RunExecutor::record_into(void* command_buffer, const CurrentRun& run) {
  RP_TRY(recorder_.record_into(command_buffer, run));
  submitted_ = true;
  updating_ = shared_.updates_states[0];
  return {};
}

Result<bool> RunExecutor::poll_segment(size_t segment, const TimeLeft& left) {
  Recording* const recording = recorder_.recorded(segment).recording.get();
  if (!recording) return true;
  Result<bool> ended = recording->poll(left.device_ns);
  if (!ended.ok()) wait_failed(*recording);
  return ended;
}

Status RunExecutor::end_segment(size_t index, CurrentRun& run) {
  const plan::Segment& segment = shared_.segments[index];
  run.segment = index;
  if (!segment.levels.empty()) RP_TRY(end_launches(index, run));
  RP_TRY(run_host_calls(segment, run));
  run.start = Clock::now();
  run.copy_us = 0;
  return {};
}

/// The submissions of the first part were counted.
void RunExecutor::count_parts(const PartedRecording& parted) {
  const PartedRecording::Counts done = parted.submitted();
  shared_.session.totals.submits += parted.more_submissions();
  shared_.session.totals.dispatches += done.dispatches;
  shared_.session.totals.barriers += done.barriers;
}

Status RunExecutor::end_launches(size_t index, CurrentRun& run) {
  const Recorder::Recorded& r = recorder_.recorded(index);
  Recording& recording = *r.recording;
  const Status waited = wait(recording, run);
  if (r.parted) count_parts(*r.parted);
  RP_TRY(waited);
  RP_TRY(check_error_word());
  std::vector<double> ns;
  if (r.parted) {
    RP_ASSIGN(ns, recorder_.measure_parts(index, run));
  } else if (shared_.session.options.timestamps) {
    RP_ASSIGN(ns, recording.dispatch_ns());
  }
  if (!shared_.session.options.timestamps) return {};
  for (const double t : ns) run.stats.kernel_us.push_back(t / 1e3);
  return {};
}

Status RunExecutor::run_host_calls(const plan::Segment& segment, CurrentRun& run) {
  for (const uint32_t step : segment.host_calls) {
    RP_TRY(check_time(run));
    const auto& call = std::get<plan::HostCall>(shared_.plan->steps[step].what);
    RP_TRY(call.device_bodies.empty() ? run_host_call(step, run) : bodies_->call(step, run));
  }
  return {};
}

Status RunExecutor::run_host_call(uint32_t step, CurrentRun& run) {
  const auto start = Clock::now();
  const auto& call = std::get<plan::HostCall>(shared_.plan->steps[step].what);
  std::vector<HostTensor> values(call.inputs.size());
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    RP_ASSIGN(values[i], values_.fetch(call.inputs[i], run));
    inputs[i] = &values[i];
  }
  const HostRun host_run{deadline_in(run.left.host_ns), run.left.cancelled, run.random};
  RP_ASSIGN(auto results,
            reprise::run_host_call({*shared_.plan, shared_.io(), shared_.session.host_bodies,
                                    host_run, shared_.prepared.of(step)},
                                   call, inputs, run.symbols));
  RP_TRY(values_.place_late(run));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].is_none())
      RP_TRY(values_.accept(call.outputs[i], std::move(results[i]), run));
  run.left.spend_host(ns_since(start));
  return {};
}

}  // namespace reprise
