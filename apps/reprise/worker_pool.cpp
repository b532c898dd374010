// Worker processes for conformance. A worker reads case indices, one per line, and answers each
// with one line. If it ends without an answer, the case is lost and another worker takes its place.
// Workers are copies of this process, made before it uses any device.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "apps/common/status.h"
#include "apps/reprise/conformance.h"
#include "runtime/base/timing.h"
#include "runtime/platform/child/child.h"

namespace reprise::app {

namespace {

using platform::Worker;

constexpr size_t kIdle = static_cast<size_t>(-1);

class Pool {
 public:
  Pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
       const std::function<std::string(size_t)>& work,
       const std::function<void(size_t, const std::string&)>& done,
       const std::function<void(size_t, const std::string&)>& lost)
      : count_(count), options_(options), done_(done), lost_(lost) {
    duties_.ready = [&start] {
      const Status ready = start();
      return ready.ok() ? 0 : report(ready);
    };
    duties_.answer = [&work](const std::string& index) {
      return work(std::strtoull(index.c_str(), nullptr, 10));
    };
  }

  Status run() {
    const size_t workers = std::min(count_, static_cast<size_t>(std::max(options_.jobs, 1)));
    workers_.resize(workers);
    cases_.resize(workers);
    for (size_t i = 0; i < workers; ++i) RP_TRY(start(i));
    while (finished_ < count_) {
      for (size_t i = 0; i < workers; ++i) feed(i);
      RP_TRY(wait_for_answers());
    }
    return {};
  }

 private:
  struct Case {
    size_t index = kIdle;
    double deadline_ms = 0;
    bool timed_out = false;
    std::string answer;
  };

  Status start(size_t i) {
    std::cout << std::flush;
    RP_ASSIGN(workers_[i], Worker::start(duties_, workers_));
    cases_[i] = {};
    return {};
  }

  void feed(size_t i) {
    if (!workers_[i].running() || cases_[i].index != kIdle || next_ >= count_) return;
    cases_[i].index = next_++;
    cases_[i].deadline_ms = now_ms() + options_.timeout_s * 1000;
    workers_[i].send(std::to_string(cases_[i].index));
  }

  Status wait_for_answers() {
    std::vector<const Worker*> busy;
    std::vector<size_t> owners;
    double deadline = now_ms() + 1000;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (cases_[i].index == kIdle) continue;
      busy.push_back(&workers_[i]);
      owners.push_back(i);
      deadline = std::min(deadline, cases_[i].deadline_ms);
    }
    const int wait_ms = static_cast<int>(std::max(0.0, deadline - now_ms())) + 1;
    RP_ASSIGN(const std::vector<bool> ready, Worker::wait(busy, wait_ms));
    for (size_t k = 0; k < ready.size(); ++k) {
      Case& c = cases_[owners[k]];
      if (ready[k]) {
        RP_TRY(read_answer(owners[k]));
      } else if (now_ms() > c.deadline_ms && !c.timed_out) {
        c.timed_out = true;
        workers_[owners[k]].kill();
      }
    }
    return {};
  }

  Status read_answer(size_t i) {
    Case& c = cases_[i];
    RP_ASSIGN(const std::string part, workers_[i].receive());
    if (part.empty()) return replace(i);
    c.answer += part;
    const size_t end = c.answer.find('\n');
    if (end == std::string::npos) return {};
    done_(c.index, c.answer.substr(0, end));
    c.answer.erase(0, end + 1);
    c.index = kIdle;
    ++finished_;
    return {};
  }

  /// Replaces a worker that ended while it had a case.
  Status replace(size_t i) {
    std::string how = workers_[i].how_it_ended();
    if (cases_[i].timed_out)
      how = "took longer than " + std::to_string(static_cast<int>(options_.timeout_s)) + " s";
    lost_(cases_[i].index, how);
    ++finished_;
    cases_[i] = {};
    workers_[i] = Worker();
    return next_ < count_ ? start(i) : Status();
  }

  size_t count_;
  PoolOptions options_;
  Worker::Duties duties_;
  const std::function<void(size_t, const std::string&)>& done_;
  const std::function<void(size_t, const std::string&)>& lost_;
  std::vector<Worker> workers_;
  std::vector<Case> cases_;  // of each worker
  size_t next_ = 0, finished_ = 0;
};

}  // namespace

Status run_pool(size_t count, const PoolOptions& options, const std::function<Status()>& start,
                const std::function<std::string(size_t)>& work,
                const std::function<void(size_t, const std::string&)>& done,
                const std::function<void(size_t, const std::string&)>& lost) {
  if (count == 0) return {};
  if (!Worker::available()) {  // in this process then, where a crash ends everything
    RP_TRY(start());
    for (size_t i = 0; i < count; ++i) done(i, work(i));
    return {};
  }
  const platform::IgnorePipeSignal ignore;
  return Pool(count, options, start, work, done, lost).run();
}

}  // namespace reprise::app
