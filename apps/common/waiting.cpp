#include "apps/common/waiting.h"

#include <chrono>

namespace reprise::app {

std::string builds_kernels(const DeviceInfo& device, const std::string& model) {
  return "the driver of " + device.id + ", " + device.name + ", which builds the kernels of '" +
         model + "'";
}

std::string runs_session(Session& session) {
  if (!session.device()) return "the host, which runs the model with its reference kernels";
  const DeviceInfo& device = session.device()->info();
  return "a run on " + device.id + ", " + device.name +
         ": many drivers compile kernels at their first launch, here up to " +
         std::to_string(session.plan().kernels.size()) +
         " of them; later runs, and starts if the driver keeps what it compiled, take less";
}

Waiting::Waiting(std::string what, Tell tell)
    : thread_([this, what = std::move(what), tell = std::move(tell)] {
        std::unique_lock lock(mutex_);
        const auto is_over = [this] { return over_; };
        if (!changed_.wait_for(lock, std::chrono::seconds(3), is_over))
          tell("this takes longer than 3 s: waiting for " + what);
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
