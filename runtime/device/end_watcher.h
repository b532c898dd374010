// Calls functions of the application when the device has ended runs.
#pragma once

#include <memory>
#include <thread>

#include "runtime/base/status.h"

namespace reprise {

class Recording;

/// What to call when a run has ended.
struct EndCall {
  void (*function)(void* user) = nullptr;
  void* user = nullptr;
  explicit operator bool() const { return function != nullptr; }
};

/// Watches the runs of one device. The first one starts its thread, which lives as long as the
/// device. Thread-safe.
class EndWatcher {
 public:
  /// A run that is watched, in memory of the caller.
  class Watch {
   public:
    Watch() = default;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class EndWatcher;
    Recording* recording_ = nullptr;
    EndCall call_;
    Watch* next_ = nullptr;
    bool in_order_ = false, watched_ = false;
  };

  EndWatcher();
  EndWatcher(const EndWatcher&) = delete;
  EndWatcher& operator=(const EndWatcher&) = delete;
  ~EndWatcher();
  /// Makes the thread, if there is none. Fails if the system refuses one.
  Status start();
  /// After start(): makes the call, in the thread of the watcher, when the last submission of the
  /// recording has ended. Both must stay valid until finish(). `in_order`: the device ends runs in
  /// the order of their submission.
  void add(Watch& watch, Recording& recording, const EndCall& call, bool in_order);
  /// Waits until the call was made and has returned. In the call itself, it returns at once; in the
  /// call of another run, it waits for this run and makes its call.
  void finish(Watch& watch);

 private:
  struct State;
  static void work(State& state);

  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

}  // namespace reprise
