#include "runtime/run/run_context.h"

#include <algorithm>

namespace reprise {

RunContext::RunContext(SharedPlan& shared)
    : shared_(shared),
      memory_(shared),
      io_(shared, memory_),
      recorder_(shared, memory_, io_),
      values_(shared, memory_, io_),
      executor_(shared, memory_, recorder_, values_) {}

Result<std::unique_ptr<RunContext>> RunContext::create(SharedPlan& shared) {
  std::unique_ptr<RunContext> c(new RunContext(shared));
  RP_TRY(c->memory_.create());
  if (shared.calls_bodies) {
    c->bodies_ = shared.session.make_body_calls(*c);
    c->executor_.set_body_calls(*c->bodies_);
  }
  return c;
}

CurrentRun& RunContext::start_run(const BoundIo& io, Clock::time_point start) {
  SessionResources& session = shared_.session;
  executor_.begin_run();
  recorded_ = false;
  symbols_ = io.symbols;
  left_ = {.device_ns = session.timeout_ns(), .host_ns = session.timeout_ns()};
  return run_.emplace(
      CurrentRun{.io = io,
                 .symbols = symbols_,
                 .stats = {},
                 .start = start,
                 .left = left_,
                 .random = HostRun::create({}, session.options.seed, session.started++).random});
}

Status RunContext::prepare(CurrentRun& run) {
  RP_TRY(memory_.resize(run.io.symbols));
  if (!shared_.body && shared_.session.states->grows()) {
    const Status ready = shared_.session.states->begin(shared_.io(), run.io.symbols);
    shared_.session.count_states();
    RP_TRY(ready);
  }
  memory_.bind_states();
  values_.begin_run();
  return io_.bind(run);
}

Status RunContext::begin(const BoundIo& io, Clock::time_point start, const SubmitOptions& options) {
  CurrentRun& run = start_run(io, start);
  run.left.cancelled = options.cancelled;
  RP_TRY(prepare(run));
  if (!shared_.begins_with_a_submission()) return {};
  run.sync = &options.sync;
  Status begun = executor_.begin_segment(0, run);
  run.sync = nullptr;
  return begun;
}

Status RunContext::begin_in(void* command_buffer, const BoundIo& io, Clock::time_point start) {
  CurrentRun& run = start_run(io, start);
  RP_TRY(prepare(run));
  RP_TRY(executor_.record_into(command_buffer, run));
  recorded_ = true;
  return {};
}

Recording* RunContext::first_submission() const {
  if (recorded_ || !shared_.begins_with_a_submission()) return nullptr;
  return recorder_.recorded(0).recording.get();
}

Result<bool> RunContext::poll_first() {
  if (!first_submission()) return true;
  return executor_.poll_segment(0, left_);
}

/// Bodies that the run has not called have no times.
void RunContext::add_body_times(CurrentRun& run) const {
  const SessionResources& session = shared_.session;
  run.body_us.resize(session.options.timestamps ? session.bodies.size() : 0);
  for (size_t b = 0; b < run.body_us.size(); ++b) {
    const auto is_launch = [](const auto& s) {
      return std::holds_alternative<plan::Launch>(s.what);
    };
    const auto& steps = session.bodies[b]->plan->steps;
    run.body_us[b].resize(static_cast<size_t>(std::ranges::count_if(steps, is_launch)));
    run.stats.kernel_us.insert(run.stats.kernel_us.end(), run.body_us[b].begin(),
                               run.body_us[b].end());
  }
}

Status RunContext::end(std::vector<HostTensor>& results, RunStats* stats) {
  Status done = end_current(stats, results);
  run_.reset();
  values_.clear();
  return done;
}

Status RunContext::end_current(RunStats* stats, std::vector<HostTensor>& results) {
  CurrentRun& run = *run_;
  if (recorded_) RP_TRY(executor_.check_error_word());
  for (size_t s = 0; s < shared_.segments.size() && !recorded_; ++s) {
    if (s > 0) RP_TRY(executor_.check_time(run));
    if (s > 0 && !shared_.segments[s].levels.empty()) RP_TRY(executor_.begin_segment(s, run));
    RP_TRY(executor_.end_segment(s, run));
  }
  RP_TRY(values_.deliver(run, results));
  add_body_times(run);
  run.stats.total_us = us_since(run.entered);
  run.stats.plan = shared_.number;
  if (stats) *stats = std::move(run.stats);
  return {};
}

void RunContext::start_body(const BoundIo& io, TimeLeft& left, const host::RandomState& random) {
  symbols_ = io.symbols;
  run_.emplace(
      CurrentRun{.io = io, .symbols = symbols_, .stats = {}, .left = left, .random = random});
}

Status RunContext::begin_body() {
  RP_TRY(prepare(*run_));
  return executor_.begin_segment(*shared_.only_recorded, *run_);
}

Status RunContext::end_body(std::vector<HostTensor>& results) {
  RP_TRY(executor_.end_launches(*shared_.only_recorded, *run_));
  return values_.deliver(*run_, results);
}

Status RunContext::execute_body(std::vector<HostTensor>& results) {
  RP_TRY(prepare(*run_));
  for (size_t s = 0; s < shared_.segments.size(); ++s) {
    if (!shared_.segments[s].levels.empty()) RP_TRY(executor_.begin_segment(s, *run_));
    RP_TRY(executor_.end_segment(s, *run_));
  }
  return values_.deliver(*run_, results);
}

void RunContext::leave_body() {
  run_.reset();
  values_.clear();
}

}  // namespace reprise
