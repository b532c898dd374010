// What a program waits for, if that takes long.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "apps/common/status.h"
#include "runtime/session/session.h"

namespace reprise::app {

/// What the making of a session waits for.
std::string builds_kernels(const DeviceInfo& device, const std::string& model);
/// What a run of the session waits for.
std::string runs_session(Session& session);

/// While an object of this class lives, the program waits for something that may take long, such as
/// a driver that compiles kernels. After three seconds, `tell` gets a line that says what it is, in
/// a thread of its own.
class Waiting {
 public:
  using Tell = std::function<void(const std::string& line)>;
  explicit Waiting(std::string what, Tell tell = note);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace reprise::app
