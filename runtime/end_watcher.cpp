#include "runtime/end_watcher.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>

#include "runtime/backend.h"

namespace reprise {
namespace {

// The watcher asks again after this time, so that it notices when a run exceeds its limit.
constexpr uint64_t kAskNs = 100'000'000;

}  // namespace

struct EndWatcher::State {
  std::mutex mutex;
  std::condition_variable changed;
  Watch *first = nullptr, *last = nullptr;
  Watch* in_call = nullptr;  // the first one, while the application is called for it
  bool stop = false;

  void remove_first() {
    first->watched_ = false;
    first = first->next_;
    if (!first) last = nullptr;
    in_call = nullptr;
    changed.notify_all();
  }
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

Status EndWatcher::add(Watch& watch, Recording& recording, const EndCall& call) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([state = state_] { work(*state); });
    } catch (const std::system_error& e) {
      return {
          Code::OutOfMemory,
          std::string("the system refuses a thread that reports the ends of runs: ") + e.what()};
    }
  }
  watch.recording_ = &recording;
  watch.call_ = call;
  watch.next_ = nullptr;
  watch.watched_ = true;
  (s.last ? s.last->next_ : s.first) = &watch;
  s.last = &watch;
  s.changed.notify_all();
  return {};
}

void EndWatcher::finish(Watch& watch) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.in_call == &watch && thread_.get_id() == std::this_thread::get_id()) {
    s.remove_first();
    return;
  }
  s.changed.wait(lock, [&] { return !watch.watched_; });
}

void EndWatcher::work(State& s) {
  std::unique_lock lock(s.mutex);
  while (true) {
    s.changed.wait(lock, [&] { return s.stop || s.first; });
    if (!s.first) return;
    Watch* const watch = s.first;
    lock.unlock();
    while (!watch->recording_->watch(kAskNs)) {
    }
    const EndCall call = watch->call_;
    lock.lock();
    s.in_call = watch;
    lock.unlock();
    call.function(call.user);
    lock.lock();
    // The application may have ended the run in the call, and submitted it again.
    if (s.in_call == watch) s.remove_first();
  }
}

}  // namespace reprise
