// The runs that a device was given and that have not ended. The device works on them in the order
// of submission: a run begins when all before it have ended. Only then does its time limit count,
// and only a run that has begun can hang: waiting behind other work is neither late nor a fault.
//
// The device may still use the memory of a run that timed out, so that it cannot be freed; but a
// run that hangs never ends, and nobody may wait for it for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>

#include "runtime/backend.h"

namespace reprise {

class SubmittedRun;

/// Of one device. Thread-safe.
class RunQueue {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Outcome : unsigned char { Over, TimedOut, Hung };

  /// Set before the device is used.
  uint64_t patience_ns = BackendOptions().patience_ns;

  /// Waits until `run` is over, or until it has had `timeout_ns` since it began and is late, or
  /// until it is behind a run that hangs. `wait_for(ns)` asks the driver for so long whether it is
  /// over, in success or failure.
  template <typename F>
  Outcome wait(SubmittedRun& run, uint64_t timeout_ns, const F& wait_for) {
    set_limit(run, timeout_ns);
    return wait_until(run, false, wait_for);
  }
  /// Likewise for a run that has had its time, or whose objects go: until it is over or hangs.
  template <typename F>
  Outcome wait_for_end(SubmittedRun& run, const F& wait_for) {
    return wait_until(run, true, wait_for);
  }
  /// Whether a run is late and has not ended since.
  bool any_late();
  /// Whether the run cannot be waited for any longer.
  bool hung(SubmittedRun& run) { return next_wait(run, true).hung; }
  /// An error if a late run hangs: `what` would come after it.
  Status wait_before(const std::string& what, const DeviceInfo& device);
  /// Whether a run was given up: nothing of the device may be freed any more.
  bool given_up() const { return given_up_; }
  void give_up() { given_up_ = true; }
  /// How long a run may take to end after it timed out: that long again, or longer.
  uint64_t grace_ns(const SubmittedRun& run);

 private:
  friend class SubmittedRun;
  struct Next {
    uint64_t wait_ns = 0;
    bool hung = false;
    bool last = false;  // of the time that the run has
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
  // Under the lock:
  void append(SubmittedRun& run);
  void unlink(SubmittedRun& run);
  void drop_ended(const SubmittedRun* but);
  uint64_t left_to_hang(const SubmittedRun& run, Clock::time_point now) const;

  std::mutex mutex_;
  SubmittedRun *first_ = nullptr, *last_ = nullptr;
  std::atomic<bool> late_ = false;  // the first run is, or was before it ended
  std::atomic<bool> given_up_ = false;
};

/// One of them, from submitted() until it has ended or its objects go.
class SubmittedRun {
 public:
  /// `ended` asks the driver. It is called under a lock, by any thread, while the run is submitted.
  SubmittedRun(RunQueue& queue, std::function<bool()> ended)
      : queue_(queue), ended_(std::move(ended)) {}
  SubmittedRun(const SubmittedRun&) = delete;
  SubmittedRun& operator=(const SubmittedRun&) = delete;
  ~SubmittedRun() { over(); }
  /// The device has it. Calls are in the order in which the device has them.
  void submitted();
  void over();

 private:
  friend class RunQueue;
  RunQueue& queue_;
  std::function<bool()> ended_;
  // Guarded by the lock of the queue:
  bool listed_ = false, late_ = false;
  SubmittedRun *before_ = nullptr, *after_ = nullptr;
  uint64_t limit_ns_ = UINT64_MAX;     // until someone waits, none is known
  RunQueue::Clock::time_point begun_;  // of the first in the queue
};

/// What to do about a device on which a run was given up.
inline constexpr const char* kGivenUpRemedy =
    "what the device may still use is not freed; start the process again";

/// "0.02 s"
std::string seconds_text(uint64_t ns);
/// That a run timed out.
Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns);
/// Why a device cannot be used on which a run was given up.
std::string given_up_text(uint64_t waited_ns);

}  // namespace reprise
