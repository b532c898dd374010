#include "tests/fuzz/lib/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace reprise::fuzz {

namespace {

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
  pollfd waiting{from_, POLLIN, 0};
  const int ready = poll(&waiting, 1, static_cast<int>(seconds_ * 1000));
  hung = ready == 0;
  if (ready <= 0) return std::nullopt;
  return read_message(from_);
}

}  // namespace reprise::fuzz
