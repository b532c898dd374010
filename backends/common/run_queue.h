// A RunQueue lists the runs that were submitted to one device and have not ended. The device
// executes them in the order of submission: a run begins when all runs before it have ended. Its
// time limit starts then, so a run that waits behind others is never late, and only a run that has
// begun can hang.
//
// The device may still use the memory of a run that timed out, so the owner of that memory waits
// for the end of the run before it frees it. A run that hangs never ends: after a while the owner
// gives it up.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/device/backend.h"

namespace reprise {

class SubmittedRun;

/// The queue of one device. All members are thread-safe.
class RunQueue {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Outcome : unsigned char { Over, TimedOut, Hung };

  /// See BackendOptions. Must be set before the device is used.
  uint64_t patience_ns = BackendOptions().patience_ns;

  /// Waits until `run` has ended, has run for `timeout_ns`, or hangs itself or behind another run.
  /// `wait_for(ns)` waits in the driver for at most `ns` and returns whether the run has ended, in
  /// success or failure.
  template <typename F>
  Outcome wait(SubmittedRun& run, uint64_t timeout_ns, const F& wait_for) {
    set_limit(run, timeout_ns);
    return wait_until(run, false, wait_for);
  }
  /// Like wait(), but asks once, and returns nothing if the run is still in flight.
  template <typename F>
  std::optional<Outcome> poll(SubmittedRun& run, uint64_t timeout_ns, const F& wait_for) {
    set_limit(run, timeout_ns);
    const Next next = next_wait(run, false);
    if (wait_for(0)) return Outcome::Over;
    if (next.hung) return Outcome::Hung;
    if (!next.last || next.wait_ns > 0) return std::nullopt;
    set_late(run);
    return Outcome::TimedOut;
  }
  /// For a thread that does not use the run: waits for at most `most_ns` until the run has ended,
  /// has run for its time limit, or hangs, and returns whether one of these is the case.
  template <typename F>
  bool watch(SubmittedRun& run, uint64_t most_ns, const F& wait_for) {
    const Next next = next_wait(run, false);
    if (wait_for(next.hung ? 0 : std::min(next.wait_ns, most_ns)) || next.hung) return true;
    return next.last && next.wait_ns <= most_ns;
  }
  /// Waits without a time limit until `run` has ended or hangs.
  template <typename F>
  Outcome wait_for_end(SubmittedRun& run, const F& wait_for) {
    return wait_until(run, true, wait_for);
  }
  /// How long a run that has ended, and is still listed, was the first in the queue.
  uint64_t ran_ns(SubmittedRun& run);
  /// Whether a run timed out and has not ended since.
  bool any_late();
  /// Whether waiting for the run has become pointless.
  bool hung(SubmittedRun& run) { return next_wait(run, true).hung; }
  /// Waits until no late run is left. Fails if one hangs; the error says that `what` was to follow.
  Status wait_before(const std::string& what, const DeviceInfo& device);
  /// Whether a run was given up. Then nothing that the device may use is freed any more.
  bool given_up() const { return given_up_; }
  void give_up() { given_up_ = true; }
  /// How long the run that the device executes, which is `run` or one before it, may take to end
  /// after it timed out before it counts as hanging.
  uint64_t grace_ns(const SubmittedRun& run);

 private:
  friend class SubmittedRun;
  struct Next {
    uint64_t wait_ns = 0;
    bool hung = false;
    bool last = false;  // the run times out after this wait
  };
  template <typename F>
  Outcome wait_until(SubmittedRun& run, bool to_end, const F& wait_for) {
    while (true) {
      const Next next = next_wait(run, to_end);
      if (wait_for(next.hung ? 0 : next.wait_ns)) return Outcome::Over;
      if (next.hung) return Outcome::Hung;
      if (!next.last) continue;
      set_late(run);
      return Outcome::TimedOut;
    }
  }
  Next next_wait(SubmittedRun& run, bool to_end);
  void set_limit(SubmittedRun& run, uint64_t timeout_ns);
  void set_late(SubmittedRun& run);
  // The caller of these functions must hold the lock.
  void append(SubmittedRun& run);
  void unlink(SubmittedRun& run);
  void drop_ended(const SubmittedRun* but);
  uint64_t left_to_hang(const SubmittedRun& run, Clock::time_point now) const;

  std::mutex mutex_;
  SubmittedRun *first_ = nullptr, *last_ = nullptr;
  std::atomic<bool> late_ = false;  // the first run timed out; it may have ended since
  std::atomic<bool> given_up_ = false;
};

/// A run in the queue, from submitted() until over() or its destruction.
class SubmittedRun {
 public:
  /// `ended` asks the driver whether the run has ended. Any thread may call it, with the queue
  /// locked, while the run is in the queue.
  SubmittedRun(RunQueue& queue, std::function<bool()> ended)
      : queue_(queue), ended_(std::move(ended)) {}
  SubmittedRun(const SubmittedRun&) = delete;
  SubmittedRun& operator=(const SubmittedRun&) = delete;
  ~SubmittedRun() { over(); }
  /// Appends the run. Callers do so in the order in which they submit runs to the device.
  /// `limit_ns` is its time limit, until a caller that waits gives another.
  void submitted(uint64_t limit_ns = UINT64_MAX);
  /// Removes the run, which has ended.
  void over();

 private:
  friend class RunQueue;
  RunQueue& queue_;
  std::function<bool()> ended_;
  // The lock of the queue guards these.
  bool listed_ = false, late_ = false;
  SubmittedRun *before_ = nullptr, *after_ = nullptr;
  uint64_t limit_ns_ = UINT64_MAX;     // UINT64_MAX: not known
  RunQueue::Clock::time_point begun_;  // set while the run is the first
};

/// Ends messages about a device on which a run was given up.
inline constexpr const char* kGivenUpRemedy =
    "what the device may still use is not freed; start the process again";

/// Nanoseconds as text: "0.02 s".
std::string seconds_text(uint64_t ns);
/// The error for a run that timed out.
Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns);
/// The reason why a device on which a run was given up cannot be used.
std::string given_up_text(uint64_t waited_ns);

}  // namespace reprise
