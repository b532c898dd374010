// The exit statuses of our programs, and messages on standard error.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace reprise::app {

enum Exit : int {
  kDone = 0,
  kDiffers = 1,  // a result differs from the expected one
  kUsage = 2,    // wrong usage
  kInvalid = 3,  // the model, package or input is invalid or not supported
  kFailed = 4,   // a device or file failed
};

int exit_status(Code code);
/// Writes "error: message" to standard error and returns the exit status.
int report(const Status& status);
/// Runs the body of main(). An exception becomes a message and an exit status.
int guarded_main(int (*body)(int argc, char** argv), int argc, char** argv) noexcept;
/// Writes a note to standard error, about a decision that was made for the user. A note that was
/// written before is only counted; guarded_main() writes the counts at the end.
void note(const std::string& text);

/// The progress of a long command: one line on standard error, which the next one replaces. Writes
/// nothing if standard error is not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void show(const std::string& text);
  /// Removes the line; call it before other output.
  void clear();

 private:
  bool terminal_, shown_ = false;
};

/// "cannot read 'x.npy': No such file or directory", from errno.
Status file_error(const std::string& what, const std::string& path);

}  // namespace reprise::app
