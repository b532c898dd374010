#include "tests/cuda_shim/group_runner.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/cuda_shim/workgroup.h"

namespace reprise::test {
namespace {

/// A launch of fewer invocations is over before another thread would wake up.
constexpr uint64_t kWorthSharing = 2048;

thread_local FiberGroup* current_group = nullptr;

/// What a thread needs to run workgroups.
struct Worker {
  Shim shim{};
  FiberGroup fibers{shim};

  Status run(const GroupLaunch& l, uint64_t group) {
    shim.group_size = {l.workgroup[0], l.workgroup[1], l.workgroup[2]};
    shim.grid_size = {l.grid[0], l.grid[1], l.grid[2]};
    shim.group = {static_cast<uint32_t>(group % l.grid[0]),
                  static_cast<uint32_t>(group / l.grid[0] % l.grid[1]),
                  static_cast<uint32_t>(group / l.grid[0] / l.grid[1])};
    shim.unaware = 0;
    RP_TRY(run(l));
    if (!l.early || shim.unaware == 0) return {};
    return {Code::Device, "it may begin before earlier launches end, and " +
                              std::to_string(shim.unaware) +
                              " invocations of a workgroup do not await them"};
  }

  Status run(const GroupLaunch& l) {
    if (l.waits) return fibers.run(l.function, l.block);
    if (l.whole) return fibers.run_whole(l.function, l.block);
    l.function(l.block, &shim);
    return {};
  }
};

}  // namespace

struct GroupRunner::Pool {
  std::vector<std::unique_ptr<Worker>> workers;  // the first is the calling thread's
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, idle;
  const GroupLaunch* launch = nullptr;
  uint64_t round = 0;  // of launches that threads share
  size_t busy = 0;
  bool over = false;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  Status problem;

  /// Takes workgroups until there are no more.
  void work(Worker& worker, const GroupLaunch& l) {
    const uint64_t groups = uint64_t{l.grid[0]} * l.grid[1] * l.grid[2];
    const uint64_t chunk = std::max<uint64_t>(1, groups / (16 * workers.size()));
    worker.shim.block = reinterpret_cast<uint64_t>(l.block);
    worker.shim.block_bytes = l.block_bytes;
    worker.shim.access = l.access;
    worker.shim.checker = l.checker;
    current_group = &worker.fibers;
    while (!failed.load(std::memory_order_relaxed)) {
      const uint64_t first = next.fetch_add(chunk, std::memory_order_relaxed);
      if (first >= groups) break;
      for (uint64_t g = first; g < std::min(groups, first + chunk); ++g) {
        Status s = worker.run(l, g);
        if (s.ok()) continue;
        const std::lock_guard lock(mutex);
        if (!failed.exchange(true)) problem = std::move(s);
        break;
      }
    }
    current_group = nullptr;
  }

  void loop(Worker& worker) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return over || round != seen; });
      if (over) return;
      seen = round;
      const GroupLaunch& l = *launch;
      lock.unlock();
      work(worker, l);
      lock.lock();
      if (--busy == 0) idle.notify_all();
    }
  }
};

GroupRunner::GroupRunner(unsigned threads) : pool_(std::make_unique<Pool>()) {
  const unsigned n = std::max(1U, threads);
  for (unsigned i = 0; i < n; ++i) pool_->workers.push_back(std::make_unique<Worker>());
  pool_->threads.reserve(n);
  try {
    for (unsigned i = 1; i < n; ++i) {
      pool_->threads.emplace_back([this, i] { pool_->loop(*pool_->workers[i]); });
    }
  } catch (const std::system_error&) {
    // Those that the system gave share the work.
  }
}

GroupRunner::~GroupRunner() {
  {
    const std::lock_guard lock(pool_->mutex);
    pool_->over = true;
  }
  pool_->wake.notify_all();
  for (std::thread& t : pool_->threads) t.join();
}

Status GroupRunner::run(const GroupLaunch& l) {
  Pool& p = *pool_;
  const uint64_t groups = uint64_t{l.grid[0]} * l.grid[1] * l.grid[2];
  const uint64_t invocations = groups * l.workgroup[0] * l.workgroup[1] * l.workgroup[2];
  const bool share = !p.threads.empty() && groups > 1 && invocations >= kWorthSharing;
  p.next = 0;
  p.failed = false;
  p.problem = {};
  if (share) {
    const std::lock_guard lock(p.mutex);
    p.launch = &l;
    p.busy = p.threads.size();
    ++p.round;
  }
  if (share) p.wake.notify_all();
  p.work(*p.workers[0], l);
  if (share) {
    std::unique_lock lock(p.mutex);
    p.idle.wait(lock, [&] { return p.busy == 0; });
  }
  return p.problem;
}

bool abandon_workgroup(const Status& problem) {
  if (current_group == nullptr) return false;
  current_group->abandon(problem);
}

}  // namespace reprise::test
