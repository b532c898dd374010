#include "apps/common/status.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

namespace reprise::app {

int exit_status(Code code) {
  switch (code) {
    case Code::Ok:
      return kDone;
    case Code::Usage:
      return kUsage;
    case Code::InvalidModel:
    case Code::InvalidInput:
    case Code::Unsupported:
      return kInvalid;
    case Code::Io:
    case Code::Device:
    case Code::Internal:
      return kFailed;
  }
  return kFailed;
}

int report(const Status& status) {
  const bool ours = status.code() == Code::Internal;
  std::fprintf(stderr, "error: %s%s\n", status.message().c_str(),
               ours ? "\nThis is a bug in Reprise: please report it with the model." : "");
  return exit_status(status.code());
}

int guarded_main(int (*body)(int argc, char** argv), int argc, char** argv) noexcept {
  try {
    return body(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory: the model or its inputs are too large for this machine\n",
               stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\nThis is a bug in Reprise: please report it.\n", e.what());
  }
  return kFailed;
}

void note(const std::string& text) {
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(const std::string& text) {
  clear();
  if (!terminal_) return;
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

Status file_error(const std::string& what, const std::string& path) {
  return {Code::Io, what + " '" + path + "': " + std::strerror(errno)};
}

}  // namespace reprise::app
