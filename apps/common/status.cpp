#include "apps/common/status.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>

#include "runtime/platform/process.h"

namespace reprise::app {

namespace {

struct Notes {
  std::mutex mutex;
  std::map<std::string, int> counts;
};

Notes& notes() {
  static Notes all;
  return all;
}

void write_note_counts() {
  constexpr size_t kShown = 60;
  for (const auto& [text, count] : notes().counts) {
    if (count < 2) continue;
    std::fprintf(stderr, "note: %d times: %s%s\n", count, text.substr(0, kShown).c_str(),
                 text.size() > kShown ? "..." : "");
  }
}

}  // namespace

int exit_status(Code code) {
  switch (code) {
    case Code::Ok:
      return kDone;
    case Code::Usage:
      return kUsage;
    case Code::InvalidModel:
    case Code::InvalidInput:
    case Code::Unsupported:
    case Code::CorruptPackage:
    case Code::IncompatiblePackage:
      return kInvalid;
    case Code::Io:
    case Code::Device:
    case Code::Internal:
    case Code::OutOfMemory:
    case Code::Timeout:
    case Code::DeviceLost:
    case Code::Cancelled:
    case Code::Busy:
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
    const int status = body(argc, argv);
    write_note_counts();
    return status;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory: the model or its inputs are too large for this machine\n",
               stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\nThis is a bug in Reprise: please report it.\n", e.what());
  }
  return kFailed;
}

void note(const std::string& text) {
  {
    const std::lock_guard lock(notes().mutex);
    if (++notes().counts[text] > 1) return;
  }
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

ProgressLine::ProgressLine() : terminal_(platform::is_terminal(stderr)) {}

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
