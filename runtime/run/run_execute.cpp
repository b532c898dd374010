// Executes a run: submissions, host calls and results. run_context.cpp manages its memory, and
// run_record.cpp its recordings.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/check/check.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/run/run_state.h"

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

Status RunContext::check_error_word() {
  uint32_t word = 0;
  std::memcpy(&word, error_->mapped(), sizeof(word));
  if (word == 0) return {};
  failed_check_ = true;
  std::memset(error_->mapped(), 0, sizeof(word));
  const uint32_t step = word >> 8;
  const auto* launch = step < s_.plan->steps.size()
                           ? std::get_if<plan::Launch>(&s_.plan->steps[step].what)
                           : nullptr;
  if (launch == nullptr) return kernel_error(word & 0xff, "launch " + std::to_string(step), {});
  return kernel_error(word & 0xff, plan::describe_launch(*s_.plan, *launch),
                      wide_tensors(*s_.plan, *launch));
}

uint64_t SessionBase::timeout_ns() const {
  return options.timeout_ns != 0 ? options.timeout_ns
                                 : default_timeout_ns(device->info().facts.kind);
}

void RunContext::wait_failed(Recording& recording) {
  late_recording_ = &recording;
  state_ = State::Late;
  poll();
}

// Clears the error word, so that the error of a run that nobody waited for is not taken for that of
// the next run.
RunContext::State RunContext::poll() {
  if (state_ != State::Late) return state_;
  if (!late_bodies_.empty()) {
    bool dead = false;
    std::erase_if(late_bodies_, [&](RunContext* body) {
      dead = body->poll() == State::Dead || dead;
      return body->state() == State::Free;
    });
    state_ = dead ? State::Dead : late_bodies_.empty() ? State::Free : State::Late;
    return state_;
  }
  const Result<bool> ended = late_recording_->ended();
  if (!ended.ok()) {
    state_ = State::Dead;
  } else if (*ended) {
    std::memset(error_->mapped(), 0, error_->size());
    state_ = State::Free;
  }
  return state_;
}

Status RunContext::check_time(const Run& run) const {
  RP_TRY(check_cancelled(run.left.cancelled));
  if (run.left.device_ns > 0 && run.left.host_ns > 0) return {};
  return {Code::Timeout,
          "the run did not finish on " + s_.base.device->info().id +
              " within its time limit, which all iterations share; if its loops end, "
              "use a longer timeout"};
}

// After a failure nothing is in flight, or the state says so.
Status RunContext::submit(Recording& recording, Run& run) {
  if (run.left.device_ns == 0) return check_time(run);
  const auto start = Clock::now();
  submitted_ = true;
  const uint64_t recorded = recording.times_recorded();
  Status submitted = recording.submit(run.sync ? *run.sync : SubmitSync(), run.left.device_ns);
  run.stats.host_submit_us += us_since(run.start) - run.copy_us;
  s_.base.totals.recordings += recording.times_recorded() - recorded;
  if (!submitted.ok() && !recording.wait(run.left.device_ns).ok()) wait_failed(recording);
  run.left.waited_ns += ns_since(start);
  return submitted;
}

Status RunContext::wait(Recording& recording, Run& run) {
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

Status RunContext::begin_segment(size_t index, Run& run) {
  run.segment = index;
  RP_TRY(write_segment(index, run.symbols));
  RP_TRY(record_segment(index));
  Recorded& r = segments_[index].recorded;
  RP_TRY(set_pixels(index, r, run.io.binding));
  if (r.parted) r.parted->set_cancelled(run.left.cancelled);
  updating_ = updating_ || s_.updates_states[index];
  RP_TRY(submit(*r.recording, run));
  s_.base.totals.submits += r.recording->submissions();
  if (!r.parted) {
    s_.base.totals.dispatches += r.dispatches;
    s_.base.totals.barriers += r.barriers;
  }
  s_.base.totals.copies += r.staged.copies.size();
  return {};
}

/// Waits for the launches of a segment, and makes its host calls.
Status RunContext::end_segment(size_t index, Run& run) {
  const plan::Segment& segment = s_.segments[index];
  run.segment = index;
  if (!segment.levels.empty()) RP_TRY(end_launches(index, run));
  RP_TRY(run_host_calls(segment, run));
  run.start = Clock::now();
  run.copy_us = 0;
  return {};
}

/// The submissions of the first part were counted.
void RunContext::count_parts(const PartedRecording& parted) {
  const PartedRecording::Counts done = parted.submitted();
  s_.base.totals.submits += parted.more_submissions();
  s_.base.totals.dispatches += done.dispatches;
  s_.base.totals.barriers += done.barriers;
}

Status RunContext::end_launches(size_t index, Run& run) {
  Recorded& r = segments_[index].recorded;
  Recording& recording = *r.recording;
  const Status waited = wait(recording, run);
  if (r.parted) count_parts(*r.parted);
  RP_TRY(waited);
  RP_TRY(check_error_word());
  std::vector<double> ns;
  if (r.parted) {
    RP_ASSIGN(ns, measure_parts(index, run));
  } else if (s_.base.options.timestamps) {
    RP_ASSIGN(ns, recording.dispatch_ns());
  }
  if (!s_.base.options.timestamps) return {};
  for (const double t : ns) run.stats.kernel_us.push_back(t / 1e3);
  return {};
}

Status RunContext::upload_result(plan::BufferId id, const HostTensor& value, Run& run) {
  if (!s_.use(id).on_device) return {};
  if (s_.use(id).late && !run.buffers[id].placed) {
    return internal_error("tensor '" + s_.plan->buffers[id].name +
                          "': no host call determines its size, so kernels cannot use it");
  }
  run.stats.bytes_copied += value.bytes().size();
  return s_.base.device->upload(*buffers_[id].location.buffer, buffers_[id].location.offset,
                                value.bytes());
}

Status RunContext::run_host_calls(const plan::Segment& segment, Run& run) {
  for (const uint32_t step : segment.host_calls) {
    RP_TRY(check_time(run));
    const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
    RP_TRY(call.device_bodies.empty() ? run_host_call(step, run) : run_bodies(step, run));
  }
  return {};
}

Status RunContext::run_host_call(uint32_t step, Run& run) {
  const auto start = Clock::now();
  const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
  std::vector<HostTensor> values(call.inputs.size());
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    RP_ASSIGN(values[i], fetch(call.inputs[i], run));
    inputs[i] = &values[i];
  }
  const HostRun host_run{deadline_in(run.left.host_ns), run.left.cancelled, run.random};
  RP_ASSIGN(auto results, reprise::run_host_call({*s_.plan, s_.io(), s_.base.host_bodies, host_run,
                                                  s_.prepared.of(step)},
                                                 call, inputs, run.symbols));
  RP_TRY(place_late(run));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].is_none()) RP_TRY(accept(call.outputs[i], std::move(results[i]), run));
  run.left.spend_host(ns_since(start));
  return {};
}

// Keeps a result that is on the host, and uploads it if kernels read it.
Status RunContext::accept(plan::BufferId id, HostTensor value, Run& run) {
  RP_TRY(upload_result(id, value, run));
  run.buffers[id].host = std::move(value);
  return {};
}

Status RunContext::prepare(Run& run) {
  RP_TRY(resize(run.io.symbols));
  bind_states();
  pixels_in_.clear();
  pixels_out_.clear();
  if (s_.keeps_host_values) {
    run.buffers.resize(s_.plan->buffers.size());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) RP_TRY(bind_input(i, run));
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const plan::BufferId id = s_.of_output[o].buffer;
    if (!s_.use(id).late) RP_TRY(bind_output(o, run));
  }
  return {};
}

Status RunContext::finish(Run& run, std::vector<HostTensor>& results) {
  RP_TRY(copy_states(run));
  RP_TRY(keep_passed_through(run));
  results.resize(outputs_.size());
  for (size_t o = 0; o < outputs_.size(); ++o) RP_TRY(deliver(o, run, results[o]));
  return {};
}

bool RunContext::is_one_submission(const SessionShared& shared) {
  return shared.segments.size() == 1 && !shared.segments[0].levels.empty() &&
         shared.segments[0].host_calls.empty() && !shared.keeps_host_values &&
         shared.state_copies.empty();
}

bool RunContext::begins_with_a_submission(const SessionShared& shared) {
  return !shared.segments.empty() && !shared.segments[0].levels.empty();
}

RunContext::Run& RunContext::start_run(const BoundIo& io, Clock::time_point start) {
  submitted_ = updating_ = failed_check_ = false;
  ongoing_->recorded = false;
  symbols_ = io.symbols;
  ongoing_->left = {.device_ns = s_.base.timeout_ns(), .host_ns = s_.base.timeout_ns()};
  const uint64_t seed = s_.base.options.seed;
  return ongoing_->run.emplace(Run{.io = io,
                                   .symbols = symbols_,
                                   .stats = {},
                                   .start = start,
                                   .left = ongoing_->left,
                                   .random = HostRun::create({}, seed, s_.base.started++).random,
                                   .buffers = {}});
}

Status RunContext::begin(const BoundIo& io, Clock::time_point start, const SubmitOptions& options) {
  Run& run = start_run(io, start);
  run.left.cancelled = options.cancelled;
  RP_TRY(prepare(run));
  if (!begins_with_a_submission(s_)) return {};
  run.sync = &options.sync;
  Status begun = begin_segment(0, run);
  run.sync = nullptr;
  return begun;
}

Status RunContext::begin_in(void* command_buffer, const BoundIo& io, Clock::time_point start) {
  Run& run = start_run(io, start);
  RP_TRY(prepare(run));
  RP_TRY(write_segment(0, run.symbols));
  RP_ASSIGN(recorded_uses_, s_.base.device->record_into(command_buffer, foreign_recording()));
  ++s_.base.totals.recordings;
  ongoing_->recorded = submitted_ = true;
  updating_ = s_.updates_states[0];
  return {};
}

Recording* RunContext::first_submission() const {
  if (ongoing_->recorded || !begins_with_a_submission(s_)) return nullptr;
  return segments_[0].recorded.recording.get();
}

Result<bool> RunContext::poll_first() {
  Recording* const recording = first_submission();
  if (!recording) return true;
  Result<bool> ended = recording->poll(ongoing_->left.device_ns);
  if (!ended.ok()) wait_failed(*recording);
  return ended;
}

Status RunContext::execute(Run& run, std::vector<HostTensor>& results) {
  RP_TRY(prepare(run));
  for (size_t s = 0; s < s_.segments.size(); ++s) {
    if (!s_.segments[s].levels.empty()) RP_TRY(begin_segment(s, run));
    RP_TRY(end_segment(s, run));
  }
  return finish(run, results);
}

/// Bodies that the run has not called have no times.
void RunContext::add_body_times(Run& run) const {
  run.body_us.resize(s_.base.options.timestamps ? s_.base.bodies.size() : 0);
  for (size_t b = 0; b < run.body_us.size(); ++b) {
    const auto is_launch = [](const auto& s) {
      return std::holds_alternative<plan::Launch>(s.what);
    };
    const auto& steps = s_.base.bodies[b]->plan->steps;
    run.body_us[b].resize(static_cast<size_t>(std::ranges::count_if(steps, is_launch)));
    run.stats.kernel_us.insert(run.stats.kernel_us.end(), run.body_us[b].begin(),
                               run.body_us[b].end());
  }
}

Status RunContext::end(std::vector<HostTensor>& results, RunStats* stats) {
  Status done = finish_run(results, stats);
  ongoing_->run.reset();  // values of host calls
  return done;
}

Status RunContext::finish_run(std::vector<HostTensor>& results, RunStats* stats) {
  Run& run = *ongoing_->run;
  if (ongoing_->recorded) RP_TRY(check_error_word());
  for (size_t s = 0; s < s_.segments.size() && !ongoing_->recorded; ++s) {
    if (s > 0) RP_TRY(check_time(run));
    if (s > 0 && !s_.segments[s].levels.empty()) RP_TRY(begin_segment(s, run));
    RP_TRY(end_segment(s, run));
  }
  RP_TRY(finish(run, results));
  add_body_times(run);
  run.stats.total_us = us_since(run.entered);
  if (stats) *stats = std::move(run.stats);
  return {};
}

}  // namespace reprise
