#include "tests/fuzz/lib/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

namespace reprise::fuzz {

namespace {

/// The processor time that a process has had; 0 if it is unknown.
double processor_seconds(pid_t process) {
  clockid_t clock = 0;
  timespec t{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

bool write_all(int fd, const void* data, size_t size) {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd, p, size);
    if (n <= 0) return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

bool write_message(int fd, const std::string& text) {
  const auto size = static_cast<uint64_t>(text.size());
  return write_all(fd, &size, sizeof size) && write_all(fd, text.data(), text.size());
}

std::optional<std::string> read_message(int fd) {
  const auto fill = [fd](void* data, size_t size) {
    auto* p = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t n = read(fd, p, size);
      if (n <= 0) return false;
      p += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  };
  uint64_t size = 0;
  if (!fill(&size, sizeof size)) return std::nullopt;
  std::string text(size, '\0');
  if (!fill(text.data(), size)) return std::nullopt;
  return text;
}

bool Process::start() {
  int request[2], reply[2];
  if (pipe2(request, O_CLOEXEC) != 0) return false;
  if (pipe2(reply, O_CLOEXEC) != 0) {
    close(request[0]);
    close(request[1]);
    return false;
  }
  std::vector<char*> argv;
  for (std::string& w : command_) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, request[0], 0);
  posix_spawn_file_actions_adddup2(&actions, reply[1], 3);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const bool started = posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(request[0]);
  close(reply[1]);
  to_ = request[1];
  from_ = reply[0];
  if (!started) {
    child_ = -1;
    close_pipes();
  }
  return started;
}

void Process::close_pipes() {
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
}

void Process::stop() {
  if (running()) kill(child_, SIGKILL);
  wait();
}

int Process::wait() {
  int status = 0;
  if (running()) waitpid(child_, &status, 0);
  child_ = -1;
  close_pipes();
  return status;
}

std::optional<std::string> Process::receive(bool& hung) const {
  // A busy machine gives the process little of its processors. It hangs only if it does nothing,
  // or has had the processors for all of the time.
  constexpr double kLeast = 0.005;  // of the time
  pollfd waiting{from_, POLLIN, 0};
  const double begin = processor_seconds(child_);
  int ready = 0;
  for (double before = begin; ready == 0;) {
    ready = poll(&waiting, 1, static_cast<int>(seconds_ * 1000));
    const double now = processor_seconds(child_);
    if (now - before < kLeast * seconds_ || now - begin >= seconds_) break;
    before = now;
  }
  hung = ready == 0;
  if (ready <= 0) return std::nullopt;
  return read_message(from_);
}

}  // namespace reprise::fuzz
