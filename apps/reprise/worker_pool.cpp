// Worker processes for conformance. A worker reads case indices from a pipe, one per line, and
// answers each with one line. If it ends without an answer, the case is lost and another worker
// takes its place. Workers are forked before this process uses any device.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "apps/reprise/conformance.h"
#include "runtime/base/timing.h"

namespace reprise::app {

namespace {

constexpr size_t kIdle = static_cast<size_t>(-1);

bool write_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = write(fd, line.data() + at, line.size() - at);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

struct Worker {
  pid_t pid = -1;
  int to = -1, from = -1;
  size_t current = kIdle;
  double deadline_ms = 0;
  bool timed_out = false;
  std::string buffer;
};

class Pool {
 public:
  Pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
       const std::function<std::string(size_t)>& work,
       const std::function<void(size_t, const std::string&)>& done,
       const std::function<void(size_t, const std::string&)>& lost)
      : count_(count), options_(options), start_(start), work_(work), done_(done), lost_(lost) {}

  Status run() {
    const size_t workers = std::min(count_, static_cast<size_t>(std::max(options_.jobs, 1)));
    workers_.resize(workers);
    for (Worker& w : workers_) RP_TRY(spawn(w));
    while (finished_ < count_) {
      for (Worker& w : workers_) feed(w);
      RP_TRY(wait_for_answers());
    }
    for (Worker& w : workers_) retire(w);
    return {};
  }

 private:
  Status spawn(Worker& w) {
    int request[2], answer[2];
    if (pipe(request) != 0) return file_error("cannot make", "a pipe");
    if (pipe(answer) != 0) return file_error("cannot make", "a pipe");
    std::cout << std::flush;
    std::fflush(nullptr);
    w = Worker();
    w.pid = fork();
    if (w.pid < 0) return file_error("cannot start", "a worker process");
    if (w.pid == 0) {
      close(request[1]);
      close(answer[0]);
      serve(request[0], answer[1]);
    }
    close(request[0]);
    close(answer[1]);
    w.to = request[1];
    w.from = answer[0];
    return {};
  }

  /// The loop of a worker. It exits without running destructors of the parent's objects.
  [[noreturn]] void serve(int from, int to) {
    for (const Worker& other : workers_) {
      if (other.to >= 0) close(other.to);
      if (other.from >= 0) close(other.from);
    }
    const Status ready = start_();
    FILE* in = fdopen(from, "r");
    char line[64];
    while (in && std::fgets(line, sizeof line, in)) {
      const size_t index = std::strtoull(line, nullptr, 10);
      if (!ready.ok()) {
        report(ready);
        _exit(exit_status(ready.code()));
      }
      if (!write_line(to, work_(index))) break;
    }
    _exit(0);
  }

  void feed(Worker& w) {
    if (w.pid < 0 || w.current != kIdle || next_ >= count_) return;
    w.current = next_++;
    w.deadline_ms = now_ms() + options_.timeout_s * 1000;
    // A failed write can be ignored: if the worker died, reading its answers reaches the end of
    // file.
    write_line(w.to, std::to_string(w.current));
  }

  Status wait_for_answers() {
    std::vector<pollfd> fds;
    std::vector<Worker*> owners;
    double deadline = now_ms() + 1000;
    for (Worker& w : workers_) {
      if (w.current == kIdle) continue;
      fds.push_back({w.from, POLLIN, 0});
      owners.push_back(&w);
      deadline = std::min(deadline, w.deadline_ms);
    }
    const int wait_ms = static_cast<int>(std::max(0.0, deadline - now_ms())) + 1;
    if (poll(fds.data(), fds.size(), wait_ms) < 0 && errno != EINTR) {
      return file_error("cannot wait for", "worker processes");
    }
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents) {
        RP_TRY(read_answer(*owners[i]));
      } else if (now_ms() > owners[i]->deadline_ms && !owners[i]->timed_out) {
        owners[i]->timed_out = true;
        kill(owners[i]->pid, SIGKILL);
      }
    }
    return {};
  }

  Status read_answer(Worker& w) {
    char chunk[4096];
    const ssize_t n = read(w.from, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return {};
    if (n <= 0) return replace(w);
    w.buffer.append(chunk, static_cast<size_t>(n));
    const size_t end = w.buffer.find('\n');
    if (end == std::string::npos) return {};
    done_(w.current, w.buffer.substr(0, end));
    w.buffer.erase(0, end + 1);
    w.current = kIdle;
    ++finished_;
    return {};
  }

  /// Replaces a worker that ended while it had a case.
  Status replace(Worker& w) {
    int status = 0;
    waitpid(w.pid, &status, 0);
    std::string how = "ended with status " + std::to_string(WEXITSTATUS(status));
    if (w.timed_out) {
      how = "took longer than " + std::to_string(static_cast<int>(options_.timeout_s)) + " s";
    } else if (WIFSIGNALED(status)) {
      how = std::string("crashed: ") + strsignal(WTERMSIG(status));
    }
    lost_(w.current, how);
    ++finished_;
    close(w.to);
    close(w.from);
    w = Worker();
    return next_ < count_ ? spawn(w) : Status();
  }

  void retire(Worker& w) {
    if (w.pid < 0) return;
    close(w.to);
    close(w.from);
    waitpid(w.pid, nullptr, 0);
    w = Worker();
  }

  size_t count_;
  PoolOptions options_;
  const std::function<Status()>& start_;
  const std::function<std::string(size_t)>& work_;
  const std::function<void(size_t, const std::string&)>& done_;
  const std::function<void(size_t, const std::string&)>& lost_;
  std::vector<Worker> workers_;
  size_t next_ = 0, finished_ = 0;
};

}  // namespace

Status run_pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
                const std::function<std::string(size_t)>& work,
                const std::function<void(size_t, const std::string&)>& done,
                const std::function<void(size_t, const std::string&)>& lost) {
  if (count == 0) return {};
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  Status s = Pool(count, options, start, work, done, lost).run();
  sigaction(SIGPIPE, &before, nullptr);
  return s;
}

}  // namespace reprise::app
