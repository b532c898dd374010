#include "runtime/device/end_watcher.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>

#include "runtime/device/backend.h"

namespace reprise {
namespace {

using namespace std::chrono_literals;

// How long the watcher waits for one run before it looks again at all of them, and whether one has
// exceeded its limit.
constexpr uint64_t kInOrderNs = 100'000'000, kInAnyOrderNs = 1'000'000;

void wait_for_end(Recording& recording) {
  // After an error of the driver, the wait may return at once.
  while (!recording.watch(kInOrderNs)) std::this_thread::sleep_for(1ms);
}

}  // namespace

struct EndWatcher::State {
  std::mutex mutex;
  std::condition_variable changed;
  Watch *first = nullptr, *last = nullptr;
  Watch* in_call = nullptr;  // for which the application is called
  bool stop = false;

  void remove(Watch& watch) {
    Watch* before = nullptr;
    for (Watch* w = first; w != &watch; w = w->next_) before = w;
    (before ? before->next_ : first) = watch.next_;
    if (last == &watch) last = before;
    watch.watched_ = false;
    if (in_call == &watch) in_call = nullptr;
    changed.notify_all();
  }
  Watch* find_ended(std::unique_lock<std::mutex>& lock);
};

EndWatcher::EndWatcher() : state_(std::make_shared<State>()) {}

EndWatcher::~EndWatcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  if (!thread_.joinable()) return;
  // A call of the application may have freed the last handle that uses the device.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Status EndWatcher::start() {
  const std::lock_guard lock(state_->mutex);
  if (thread_.joinable()) return {};
  try {
    thread_ = std::thread([state = state_] { work(*state); });
  } catch (const std::system_error& e) {
    return {Code::OutOfMemory,
            std::string("the system refuses a thread that reports the ends of runs: ") + e.what()};
  }
  return {};
}

void EndWatcher::add(Watch& watch, Recording& recording, const EndCall& call, bool in_order) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  watch.recording_ = &recording;
  watch.call_ = call;
  watch.next_ = nullptr;
  watch.in_order_ = in_order;
  watch.watched_ = true;
  (s.last ? s.last->next_ : s.first) = &watch;
  s.last = &watch;
  s.changed.notify_all();
}

void EndWatcher::finish(Watch& watch) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (watch.watched_ && thread_.get_id() == std::this_thread::get_id()) {
    const bool own = s.in_call == &watch;
    s.remove(watch);
    if (own) return;
    lock.unlock();
    wait_for_end(*watch.recording_);
    watch.call_.function(watch.call_.user);
    return;
  }
  s.changed.wait(lock, [&] { return !watch.watched_; });
}

/// Returns a run that has ended, or null if none has. While the lock is released, no watch leaves
/// the list, because only this thread removes them.
EndWatcher::Watch* EndWatcher::State::find_ended(std::unique_lock<std::mutex>& lock) {
  Watch* const watch = first;
  const bool alone = watch->in_order_;
  lock.unlock();
  const bool ended = watch->recording_->watch(alone ? kInOrderNs : kInAnyOrderNs);
  if (!ended) std::this_thread::sleep_for(100us);
  lock.lock();
  if (ended) return watch;
  for (Watch* w = alone ? nullptr : watch->next_; w; w = w->next_)
    if (w->recording_->watch(0)) return w;
  return nullptr;
}

void EndWatcher::work(State& s) {
  std::unique_lock lock(s.mutex);
  while (true) {
    s.changed.wait(lock, [&] { return s.stop || s.first; });
    if (!s.first) return;
    Watch* const watch = s.find_ended(lock);
    if (!watch) continue;
    const EndCall call = watch->call_;
    s.in_call = watch;
    lock.unlock();
    call.function(call.user);
    lock.lock();
    // The application may have ended the run in the call, and submitted it again.
    if (s.in_call == watch) s.remove(*watch);
  }
}

}  // namespace reprise
