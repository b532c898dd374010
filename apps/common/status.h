// Exit statuses of our programs, and how an error is shown.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace reprise::app {

enum Exit : int {
  kDone = 0,
  kDiffers = 1,  // a result differs from what it is compared with
  kUsage = 2,    // wrong usage
  kInvalid = 3,  // the model, package or input is invalid or needs something not supported
  kFailed = 4,   // a device or file failed
};

int exit_status(Code code);
/// Writes "error: message" to standard error; returns the exit status.
int report(const Status& status);
/// Runs the body of main(). An exception that leaves it becomes a message and an exit status.
int guarded_main(int (*body)(int argc, char** argv), int argc, char** argv) noexcept;
/// A note on standard error: what was decided on the user's behalf.
void note(const std::string& text);

/// What a long command does now: one line on standard error that the next one replaces. Writes
/// nothing where standard error is not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void show(const std::string& text);
  /// Before other output.
  void clear();

 private:
  bool terminal_, shown_ = false;
};

/// "cannot read 'x.npy': No such file or directory", from errno.
Status file_error(const std::string& what, const std::string& path);

}  // namespace reprise::app
