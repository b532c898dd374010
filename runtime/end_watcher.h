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

/// Watches the runs of one device in the order of their submission, which is that of their ends.
/// The first run that it watches starts its thread, which lives as long as the device. Thread-safe.
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
    bool watched_ = false;
  };

  EndWatcher();
  EndWatcher(const EndWatcher&) = delete;
  EndWatcher& operator=(const EndWatcher&) = delete;
  ~EndWatcher();
  /// Makes the call, in the thread of the watcher, when the last submission of the recording has
  /// ended. Both must stay valid until finish(). Fails if the thread cannot be made.
  Status add(Watch& watch, Recording& recording, const EndCall& call);
  /// Waits until the call was made and has returned. In the call itself, it returns at once.
  void finish(Watch& watch);

 private:
  struct State;
  static void work(State& state);

  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

}  // namespace reprise
