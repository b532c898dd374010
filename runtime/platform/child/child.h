// Child processes of the command line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::platform {

/// Runs a program, which is looked for as a shell does, and waits for its end. What it prints goes
/// to the file `output`. Returns its exit status; a failure says why it could not be run or what
/// ended it.
Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output);

/// A copy of this process that answers requests, one line each.
class Worker {
 public:
  /// Whether this system can copy a process. Where it cannot, start() fails.
  static bool available();
  /// Copies this process. The copy calls `ready` once, then `answer` for each request; a failure of
  /// `ready` ends it at the first one with this exit status. It never returns.
  struct Duties {
    std::function<int()> ready;  // 0: it can work
    std::function<std::string(const std::string&)> answer;
  };
  static Result<Worker> start(const Duties& duties, const std::vector<Worker>& others);
  Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  /// Ends its input, and waits for its end.
  ~Worker();

  bool running() const { return impl_ != nullptr; }
  /// A failure can be ignored: if the worker died, receive() says so.
  void send(const std::string& line);
  void kill();
  /// What the worker has written, whole lines or not. Empty if it has ended.
  Result<std::string> receive();
  /// Waits for the end of a worker that has ended or closed its output, and says how it ended:
  /// "crashed: Segmentation fault".
  std::string how_it_ended();
  /// Waits until some of the workers have written or ended, or the time is over. Returns which.
  static Result<std::vector<bool>> wait(const std::vector<const Worker*>& workers, int ms);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A pipe without a reader is an error instead of a signal while this lives.
class IgnorePipeSignal {
 public:
  IgnorePipeSignal();
  ~IgnorePipeSignal();
  IgnorePipeSignal(const IgnorePipeSignal&) = delete;
  IgnorePipeSignal& operator=(const IgnorePipeSignal&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::platform
