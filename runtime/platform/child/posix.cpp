#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/platform/child/child.h"
#include "runtime/platform/child/environment.h"
#include "runtime/platform/file.h"

extern char** environ;

namespace reprise::platform {
namespace {

Status failure(const std::string& what) {
  return {Code::Io, what + ": " + error_text(errno)};
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool write_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(fd, line.data() + at, line.size() - at);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, output.c_str(), O_WRONLY | O_CREAT,
                                     0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Status(Code::Io, error_text(failed));
  const int status = wait_for(child);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return Status(Code::Io, std::string("it crashed: ") + ::strsignal(WTERMSIG(status)));
}

struct Worker::Impl {
  pid_t pid = -1;
  int to = -1, from = -1;
  bool ended = false;

  /// The loop of the copy. It exits without running destructors of the parent's objects.
  [[noreturn]] static void serve(const Duties& duties, int from, int to) {
    const int status = duties.ready();
    FILE* in = ::fdopen(from, "r");
    std::array<char, 64> line{};
    while (in && std::fgets(line.data(), line.size(), in)) {
      if (status != 0) ::_exit(status);
      line[std::strcspn(line.data(), "\n")] = 0;
      if (!write_line(to, duties.answer(line.data()))) break;
    }
    ::_exit(0);
  }
};

bool Worker::available() {
  return true;
}

Worker::Worker() = default;
Worker::Worker(Worker&&) noexcept = default;

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Worker::~Worker() {
  if (!impl_) return;
  ::close(impl_->to);
  ::close(impl_->from);
  if (!impl_->ended) wait_for(impl_->pid);
}

Result<Worker> Worker::start(const Duties& duties, const std::vector<Worker>& others) {
  std::array<int, 2> request{}, answer{};
  if (::pipe(request.data()) != 0) return failure("cannot make a pipe");
  if (::pipe(answer.data()) != 0) return failure("cannot make a pipe");
  std::fflush(nullptr);
  Worker out;
  out.impl_ = std::make_unique<Impl>();
  out.impl_->pid = ::fork();
  if (out.impl_->pid < 0) {
    out.impl_ = nullptr;
    return failure("cannot start a worker process");
  }
  if (out.impl_->pid == 0) {
    ::close(request[1]);
    ::close(answer[0]);
    for (const Worker& other : others) {
      if (!other.impl_) continue;
      ::close(other.impl_->to);
      ::close(other.impl_->from);
    }
    Impl::serve(duties, request[0], answer[1]);
  }
  ::close(request[0]);
  ::close(answer[1]);
  out.impl_->to = request[1];
  out.impl_->from = answer[0];
  return out;
}

void Worker::send(const std::string& line) {
  write_line(impl_->to, line);
}

void Worker::kill() {
  ::kill(impl_->pid, SIGKILL);
}

Result<std::string> Worker::receive() {
  std::array<char, 4096> chunk{};
  ssize_t n = 0;
  do {
    n = ::read(impl_->from, chunk.data(), chunk.size());
  } while (n < 0 && errno == EINTR);
  return std::string(chunk.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
}

std::string Worker::how_it_ended() {
  const int status = wait_for(impl_->pid);
  impl_->ended = true;
  if (WIFSIGNALED(status)) return std::string("crashed: ") + ::strsignal(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

Result<std::vector<bool>> Worker::wait(const std::vector<const Worker*>& workers, int ms) {
  std::vector<pollfd> fds;
  fds.reserve(workers.size());
  for (const Worker* w : workers) fds.push_back({w->impl_->from, POLLIN, 0});
  if (::poll(fds.data(), static_cast<nfds_t>(fds.size()), ms) < 0 && errno != EINTR)
    return failure("cannot wait for worker processes");
  std::vector<bool> out;
  out.reserve(fds.size());
  for (const pollfd& f : fds) out.push_back(f.revents != 0);
  return out;
}

struct IgnorePipeSignal::Impl {
  struct sigaction before = {};
};

IgnorePipeSignal::IgnorePipeSignal() : impl_(std::make_unique<Impl>()) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &impl_->before);
}

IgnorePipeSignal::~IgnorePipeSignal() {
  ::sigaction(SIGPIPE, &impl_->before, nullptr);
}

std::vector<std::string> utf8_arguments(int argc, char** argv) {
  return {argv, argv + argc};
}

// The XDG Base Directory Specification says to ignore relative paths: they would depend on the
// folder in which a program is started.
std::string user_cache_folder() {
  const auto absolute = [](const char* name) {
    const char* const path = std::getenv(name);
    return path && *path == '/' ? std::string(path) : std::string();
  };
  std::string xdg = absolute("XDG_CACHE_HOME");
  std::string home = absolute("HOME");
  if (!xdg.empty()) return xdg;
  return home.empty() ? home : home + "/.cache";
}

}  // namespace reprise::platform
