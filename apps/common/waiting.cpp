#include "apps/common/waiting.h"

#include <chrono>

#include "apps/common/status.h"

namespace reprise::app {

Waiting::Waiting(std::string what)
    : thread_([this, what = std::move(what)] {
        std::unique_lock lock(mutex_);
        const auto is_over = [this] { return over_; };
        if (!changed_.wait_for(lock, std::chrono::seconds(3), is_over))
          note("this takes longer than 3 s: waiting for " + what);
      }) {}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace reprise::app
