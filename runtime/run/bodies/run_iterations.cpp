// The iterations of loops whose bodies run on the device. The body is recorded once and replayed
// for each iteration; only parameter blocks change. Where the number of iterations is known and the
// body has no host calls, the host submits iterations before earlier ones have ended: they take
// turns in several contexts of the body.
#include <algorithm>

#include "runtime/host/control_flow_kind.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/run/bodies/run_loops.h"

namespace reprise {

Status RunContext::LoopRun::run() {
  RP_TRY(host::control_flow_of(call_.op) == host::ControlFlow::Loop ? read_loop() : read_scan());
  RP_TRY(bind_inputs());
  if (host::control_flow_of(call_.op) != host::ControlFlow::Loop) RP_TRY(find_length());
  RP_TRY(context_.bind_body(c_, run_));
  RP_TRY(place_stacked());
  RP_TRY(place_carried());
  runs_ahead_ = may_run_ahead();
  Status done;
  for (int64_t i = 0; i < form_.trips && going_ && done.ok(); ++i) {
    done = context_.check_time(run_);
    if (done.ok()) done = timed_iteration(i);
    if (!done.ok()) done = done.with_context("iteration " + std::to_string(i));
  }
  for (size_t n = 0; n < kTurns; ++n) {  // in the order in which they began
    const Status ended = end_turn(turns_[next_turn_]);
    if (done.ok()) done = ended;
    next_turn_ = (next_turn_ + 1) % kTurns;
  }
  RP_TRY(done);
  return finish();
}

// Results that kernels do not write themselves are copied by the host when an iteration has ended,
// which is too late for one that has begun.
bool RunContext::LoopRun::may_run_ahead() const {
  // Devices that take edges execute recordings in streams of their own, in no order.
  // The parts of an iteration that is cut in slices follow only when the host asks for its end.
  if (!form_.fixed || !state_.only_recorded || s_.base.device->takes_edges() ||
      s_.base.options.slice_ns != 0)
    return false;
  return std::all_of(state_.of_output.begin() + static_cast<std::ptrdiff_t>(form_.conditions),
                     state_.of_output.end(), [&](const SessionShared::OutputSource& source) {
                       return source.alias_of.is_none() && !source.buffer.is_none() &&
                              state_.use(source.buffer).on_device;
                     });
}

// The place that iteration `i` writes. If the number of iterations is known, the last one writes
// the output of the call.
Result<Binding> RunContext::LoopRun::target(size_t j, int64_t i) {
  Carried& v = carried_[j];
  const int64_t later = form_.fixed ? form_.trips - 1 - i : i;
  const auto place = static_cast<size_t>(later % 2);
  v.place = place;
  if (place == 0 && v.home) return *v.home;
  std::vector<std::array<CountedBuffer, 2>>& spare = context_.loops_[step_];
  spare.resize(std::max(spare.size(), form_.carried));
  RP_TRY(context_.grow(spare[j][place], v.bytes, MemoryUse::Device)
             .with_context("memory for '" + returned(j).name + "'"));
  Binding b;
  b.name = returned(j).name;
  b.device = spare[j][place].get();
  const Binding& initial = c_.inputs[form_.numbers + j];
  b.dims = initial.host ? initial.host->dims() : initial.dims;
  return b;
}

Status RunContext::LoopRun::pass_slices(int64_t i) {
  slices_.clear();
  for (size_t k = 0; k < form_.scanned; ++k) {
    Scanned& s = scanned_[k];
    Binding& b = c_.inputs[form_.numbers + form_.carried + k];
    const int64_t at = form_.in_reversed[k] ? s.length - 1 - i : i;
    if (!s.on_host) {
      b.device = s.whole.device;
      b.device_offset = s.whole.device_offset + static_cast<uint64_t>(at) * s.bytes;
      continue;
    }
    RP_ASSIGN(HostTensor slice, slice_at(*s.on_host, form_.in_axes[k], static_cast<size_t>(at)));
    b.host = &slices_.emplace_back(std::move(slice));
  }
  return {};
}

// Work of the host between submissions counts as work of host kernels.
Status RunContext::LoopRun::timed_iteration(int64_t i) {
  const auto start = Clock::now();
  const TimeLeft before = run_.left;
  RP_TRY(iterate(i));
  TimeLeft& left = run_.left;
  const uint64_t counted = (left.waited_ns - before.waited_ns) + (before.host_ns - left.host_ns);
  const uint64_t passed = ns_since(start);
  left.spend_host(passed > counted ? passed - counted : 0);
  return {};
}

Status RunContext::LoopRun::iterate(int64_t i) {
  number_ = HostTensor::from<int64_t>(DType::I64, {}, {i});
  RP_TRY(pass_slices(i));
  c_.random = host_.iteration(static_cast<uint64_t>(i)).random;
  c_.outputs.assign(form_.conditions, std::nullopt);
  for (size_t j = 0; j < form_.carried; ++j) {
    RP_ASSIGN(c_.outputs.emplace_back(), target(j, i));
  }
  for (size_t k = 0; k < form_.stacked; ++k) {
    const Stacked& out = stacked_[k];
    std::optional<Binding>& b = c_.outputs.emplace_back(out.whole);
    if (!b) continue;
    const int64_t at = form_.out_reversed[k] ? form_.trips - 1 - i : i;
    b->device_offset += static_cast<uint64_t>(at) * out.bytes;
    b->dims = *out.dims;
  }
  if (runs_ahead_) {
    RP_TRY(begin_turn(i));
  } else {
    RP_ASSIGN(const std::vector<HostTensor> results, context_.execute_body(c_, run_));
    if (form_.conditions > 0 && !form_.fixed) {
      RP_ASSIGN(const int64_t going,
                scalar_of(results[0], DType::Bool, "the condition that the body returns"));
      going_ = going != 0;
    }
    take_results(results);
  }
  for (size_t j = 0; j < form_.carried; ++j)
    c_.inputs[form_.numbers + j] = *c_.outputs[form_.conditions + j];
  return {};
}

// Begins an iteration. What it reads may still be computed by earlier ones: submissions to a device
// are executed in order, and the recording of a body begins with a barrier.
Status RunContext::LoopRun::begin_turn(int64_t i) {
  Turn& turn = turns_[next_turn_];
  RP_TRY(end_turn(turn));
  RP_TRY(context_.begin_body(c_, next_turn_, run_, turn.body));
  turn.iteration = i;
  const bool small = turn.body.context->memory() <= kMostMemory;
  next_turn_ = small ? (next_turn_ + 1) % kTurns : next_turn_;
  return {};
}

Status RunContext::LoopRun::end_turn(Turn& turn) {
  if (!turn.iteration) return {};
  const std::string what = "iteration " + std::to_string(*turn.iteration);
  turn.iteration.reset();
  const auto results = context_.end_body(turn.body, run_);
  if (!results.ok()) return results.status().with_context(what);
  take_results(*results);
  return {};
}

void RunContext::LoopRun::take_results(const std::vector<HostTensor>& results) {
  for (size_t k = 0; k < form_.stacked; ++k) {
    const size_t at = form_.carried + k;
    if (!stacked_[k].whole && !output(at).is_none())
      stacked_[k].parts.push_back(results[form_.conditions + at].detached());
  }
}

}  // namespace reprise
