#include "tests/cuda_standin/driver/stream.h"

namespace reprise::standin {

Stream::Stream() : Object(kKind), thread_([this] { loop(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Stream::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++pushed_;
  }
  wake_.notify_all();
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t until = pushed_;
  idle_.wait(lock, [&] { return done_ >= until; });
}

void Stream::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return over_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before anyone hears that it is done
    lock.lock();
    ++done_;
    idle_.notify_all();
  }
}

void Event::queued() {
  const std::lock_guard lock(mutex_);
  ++queued_;
}

void Event::recorded() {
  const std::lock_guard lock(mutex_);
  at_ = Clock::now();
  ++recorded_;
  changed_.notify_all();
}

bool Event::complete() const {
  const std::lock_guard lock(mutex_);
  return recorded_ >= queued_;
}

void Event::wait() const {
  std::unique_lock lock(mutex_);
  const uint64_t until = queued_;
  changed_.wait(lock, [&] { return recorded_ >= until; });
}

bool Event::time(Clock::time_point& at) const {
  const std::lock_guard lock(mutex_);
  at = at_;
  return recorded_ != 0;
}

}  // namespace reprise::standin
