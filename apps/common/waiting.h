// What a program waits for, if that takes long.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace reprise::app {

/// While an object of this class lives, the program waits for something that may take long, such as
/// a driver that compiles kernels. After three seconds, a note on standard error says what it is.
class Waiting {
 public:
  explicit Waiting(std::string what);
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
