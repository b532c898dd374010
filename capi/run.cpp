// The C interface over runs that do not block their caller.
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "capi/api.h"

namespace reprise::capi {
namespace {

/// A call's use of a run, which only one thread at a time may use. The call at the end of a run may
/// come before its submission has returned, and waits for that.
class Use {
 public:
  explicit Use(reprise_run& run, bool submits = false) : run_(run) {
    const auto wanted = submits ? reprise_run::User::Submission : reprise_run::User::Call;
    auto other = reprise_run::User::None;
    while (!(first_ = run.user.compare_exchange_strong(other, wanted)) &&
           other == reprise_run::User::Submission && in_call_at_end) {
      std::this_thread::yield();
      other = reprise_run::User::None;
    }
    if (first_) outer_ = std::exchange(innermost, this);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (!first_) return;
    innermost = outer_;
    run_.user = reprise_run::User::None;
  }
  Status check() const {
    if (first_) return {};
    for (const Use* use = innermost; use; use = use->outer_) {
      if (&use->run_ == &run_)
        return {Code::Usage,
                "a call on this run, in the same thread, waits for this one, which is made in the "
                "run's at_end; use the run in one of the two"};
    }
    return {Code::Usage, "another thread uses this run; give each thread a run of its own"};
  }
  /// Whether this thread makes a call at the end of a run.
  static thread_local bool in_call_at_end;

 private:
  static thread_local const Use* innermost;  // of this thread

  reprise_run& run_;
  bool first_ = false;
  const Use* outer_ = nullptr;
};
thread_local bool Use::in_call_at_end = false;
thread_local const Use* Use::innermost = nullptr;

void call_at_end(void* user) {
  const auto& run = *static_cast<reprise_run*>(user);
  const auto at_end = run.at_end;
  const bool nested = std::exchange(Use::in_call_at_end, true);
  at_end.function(at_end.user);
  Use::in_call_at_end = nested;
}

/// This thread's calls at the ends of runs that were not submitted to a device, in the order of
/// their submissions. If a call submits another such run, that run's call is made when the first
/// has returned, so that runs which submit themselves again need no more stack.
class CallsAtEnd {
 public:
  /// Makes room for one more call.
  void reserve() { pending_.reserve(pending_.size() + 1); }

  void make(const reprise_run* run, const EndCall& call) {
    pending_.push_back({run, call});
    if (std::exchange(making_, true)) return;
    while (!pending_.empty()) make_at(0);
    making_ = false;
  }

  /// Makes the call of a run that this thread waits for or frees.
  void make_of(const reprise_run* run) {
    for (size_t i = 0; i < pending_.size(); ++i)
      if (pending_[i].run == run) return make_at(i);
  }

 private:
  struct Pending {
    const reprise_run* run = nullptr;
    EndCall call;
  };

  void make_at(size_t i) {
    const EndCall call = pending_[i].call;
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    call.function(call.user);
  }

  std::vector<Pending> pending_;
  bool making_ = false;
};
thread_local CallsAtEnd calls_at_end;

/// Moves the run to the device of its session.
Status follow(reprise_run& run) {
  auto session = run.handle->session();
  if (run.session == session) return {};
  RP_ASSIGN(auto made, session->make_run());
  run.run = std::move(made);
  run.session = std::move(session);
  return {};
}

// A run keeps pointers into its bindings, so it has none while they are replaced.
Status bind(reprise_run& run, const Tensors& tensors) {
  if (run.run->in_flight()) return {Code::Usage, "the run is in flight; wait for it first"};
  run.run->unbind();
  run.call.buffers.clear();
  run.outputs = nullptr;
  run.n_outputs = 0;
  if ((!tensors.inputs && tensors.n_inputs > 0) || (!tensors.outputs && tensors.n_outputs > 0))
    return missing("inputs or outputs");
  RP_TRY(bind_all(tensors, run.call));
  RP_TRY(follow(run));
  RP_TRY(run.run->bind(run.call.inputs, run.call.outputs));
  run.outputs = tensors.outputs;
  run.n_outputs = tensors.n_outputs;
  return {};
}

/// A submission reads strings, as it reads all memory that is bound.
Status read_strings_again(reprise_run& run) {
  if (!run.run->is_bound() || run.run->in_flight()) return {};
  RP_ASSIGN(const bool any, read_strings_again(run.call));
  return any ? run.run->bind(run.call.inputs, run.call.outputs) : Status();
}

/// The points of a submission in the form that sessions take.
struct Points {
  std::array<SubmitSync::Point, SubmitSync::kMost> points;
  size_t count = 0;

  Status set(const reprise_timeline_point* given, size_t n) {
    if (n > points.size()) {
      return {Code::Usage, "a submission waits for and signals at most " +
                               std::to_string(points.size()) + " points each"};
    }
    if (n > 0 && !given) return missing("waits or signals");
    for (; count < n; ++count) {
      if (given[count].reserved[0] != 0 || given[count].reserved[1] != 0)
        return {Code::Usage, "the reserved members of a reprise_timeline_point must be zero"};
      points[count] = {given[count].semaphore, given[count].value};
    }
    return {};
  }
  std::span<const SubmitSync::Point> all() const { return std::span(points).first(count); }
};

Result<bool> submit(reprise_run& run, const reprise_submit_options& given) {
  const Use use(run, true);
  RP_TRY(use.check());
  Points waits, signals;
  RP_TRY(waits.set(given.waits, given.wait_count));
  RP_TRY(signals.set(given.signals, given.signal_count));
  RP_TRY(read_strings_again(run));
  if (!run.run->in_flight()) {  // if it is, submit() fails
    run.cancelled = false;
    run.at_end = {given.at_end, given.at_end_user};
  }
  return run.run->submit({.sync = {waits.all(), signals.all()},
                          .at_end = {given.at_end ? call_at_end : nullptr, &run},
                          .cancelled = &run.cancelled});
}

Status wait(reprise_run& run, reprise_results** results, reprise_run_stats* stats) {
  RP_TRY(check_out(stats, "reprise_run_stats"));
  RunStats measured;
  RP_TRY(run.run->wait(run.call.results, &measured));
  RP_TRY(describe_outputs(*run.session, run.call, run.outputs, run.n_outputs));
  RP_TRY(write_stats(measured, stats));
  take_results(*run.session, run.call, results);
  return {};
}

}  // namespace
}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_run_create(reprise_session* session, reprise_run** out,
                                  reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(auto held, find_handle(session));
    auto made = std::make_shared<reprise_run>(held);
    RP_TRY(follow(*made));
    *out = make_handle(std::move(made));
    return {};
  });
}

reprise_status reprise_run_bind(reprise_run* run, const reprise_tensor* inputs, size_t input_count,
                                reprise_tensor* outputs, size_t output_count,
                                reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    const Use use(*held);
    RP_TRY(use.check());
    return bind(*held, {inputs, input_count, outputs, output_count});
  });
}

reprise_status reprise_run_bind_states(reprise_run* run, reprise_states* states,
                                       reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    const Use use(*held);
    RP_TRY(use.check());
    RP_ASSIGN(auto given, states_of(states));
    return held->run->bind_states(given);
  });
}

reprise_status reprise_run_submit(reprise_run* run, const reprise_submit_options* options,
                                  reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    RP_ASSIGN(const auto given,
              read_struct(options, reprise_submit_options REPRISE_SUBMIT_OPTIONS_INIT,
                          "reprise_submit_options"));
    if (given.at_end) calls_at_end.reserve();
    RP_ASSIGN(const bool in_flight, submit(*held, given));
    // The run is not in use any more, so the application may end it in the call.
    if (!in_flight && given.at_end)
      calls_at_end.make(held.get(), {given.at_end, given.at_end_user});
    return {};
  });
}

reprise_status reprise_run_cancel(reprise_run* run, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    held->cancelled = true;
    return {};
  });
}

reprise_status reprise_run_record(reprise_run* run, const reprise_record_options* options,
                                  reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!options) return missing("options");
    RP_ASSIGN(const auto given,
              read_struct(options, reprise_record_options REPRISE_RECORD_OPTIONS_INIT,
                          "reprise_record_options"));
    RP_ASSIGN(const auto held, find_handle(run));
    const Use use(*held);
    RP_TRY(use.check());
    RP_TRY(read_strings_again(*held));
    return held->run->record(given.command_buffer);
  });
}

reprise_status reprise_run_poll(reprise_run* run, int32_t* ended, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!ended) return missing("ended");
    RP_ASSIGN(const auto held, find_handle(run));
    const Use use(*held);
    RP_TRY(use.check());
    RP_ASSIGN(const bool is, held->run->ended());
    *ended = is ? 1 : 0;
    return {};
  });
}

reprise_status reprise_run_wait(reprise_run* run, reprise_results** results,
                                reprise_run_stats* stats, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    calls_at_end.make_of(held.get());
    const Use use(*held);
    RP_TRY(use.check());
    return wait(*held, results, stats);
  });
}

void reprise_run_free(reprise_run* run) {
  if (!run) return;
  (void)guarded(nullptr, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(run));
    calls_at_end.make_of(held.get());
    return {};
  });
  free_handle(run);
}
