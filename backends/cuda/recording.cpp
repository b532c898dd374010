// Submits, waits and measures; graph.cpp makes the graph.
#include "backends/cuda/recording.h"

#include <cstring>

namespace reprise::cuda {

// A run whose event reports an error counts as ended.
CudaRecording::~CudaRecording() {
  if (!pending_ || driver_->runs.given_up()) return;
  const ReleaseScope scope(*driver_);
  if (!scope.entered()) return;
  const auto ask = [&](uint64_t ns) {
    return driver_->wait_for(done_.get(), ns) != CUDA_ERROR_NOT_READY;
  };
  if (driver_->runs.wait_for_end(run_, ask) != RunQueue::Outcome::Over)
    driver_->give_up(driver_->runs.grace_ns(run_));
}

CudaRecording::Grid CudaRecording::grid_of(const Launch& launch) const {
  if (launch.fixed) return launch.grid;
  Grid grid;
  std::memcpy(grid.data(), blocks_ + launch.indirect, sizeof(grid));
  return grid;
}

void* CudaRecording::block_of(const Launch& launch) const {
  return const_cast<std::byte*>(blocks_) + launch.block;  // the driver only reads it
}

// A failed submission may have left work in flight, whose memory must stay valid. wait() waits for
// this event and fails without one.
Status CudaRecording::mark_end(const Status& failure) {
  for (int attempt = 0; attempt < 2 && !pending_; ++attempt)
    pending_ = driver_->fn().cuEventRecord(done_.get(), stream_) == CUDA_SUCCESS;
  dead_ = !pending_;
  if (pending_) run_.submitted();
  return failure;
}

Status CudaRecording::launch_once(const Launch& launch, size_t index) {
  const Table& fn = driver_->fn();
  const auto stamp = [&](size_t which) -> Status {
    if (!timestamps_) return {};
    return driver_->check(fn.cuEventRecord(stamps_[2 * index + which].get(), stream_),
                          "cuEventRecord");
  };
  RP_TRY(stamp(0));
  const Grid grid = grid_of(launch);
  if (!is_empty(grid)) {
    const auto& group = launch.kernel->workgroup();
    void* block = block_of(launch);
    RP_TRY(
        driver_->check(fn.cuLaunchKernel(launch.kernel->function(), grid[0], grid[1], grid[2],
                                         group[0], group[1], group[2], 0, stream_, &block, nullptr),
                       "cuLaunchKernel"));
  }
  return stamp(1);
}

// Submits the commands in the order of the list; a stream keeps that order.
Status CudaRecording::submit_once() {
  size_t launch = 0;
  for (const Command& c : commands_) {
    switch (c.kind) {
      case Command::Kind::Dispatch:
      case Command::Kind::DispatchIndirect:
        RP_TRY(launch_once(launches_[launch], launch));
        ++launch;
        break;
      case Command::Kind::Copy:
        if (c.bytes == 0) break;
        RP_TRY(driver_->check(
            driver_->fn().cuMemcpyAsync(c.dst->address() + c.dst_offset,
                                        c.src->address() + c.src_offset, c.bytes, stream_),
            "cuMemcpyAsync"));
        break;
      case Command::Kind::Barrier:
      case Command::Kind::HostBarrier:
      case Command::Kind::Join:
        break;
    }
  }
  return {};
}

Status CudaRecording::submit(const SubmitSync& sync, uint64_t timeout_ns) {
  if (!sync.empty())
    return unsupported("a CUDA device has no semaphores: runs follow the stream that it was lent");
  RP_TRY(driver_->alive());  // first, because its error says more than that this recording failed
  if (dead_ || pending_) {
    return {Code::Device, dead_ ? "this recording failed earlier; create another session"
                                : "this recording is still in flight"};
  }
  RP_CUDA_SCOPE(*driver_);
  finished_ = false;
  if (once_) {
    const Status launched = submit_once();
    if (!launched.ok()) return mark_end(launched);
  } else {
    RP_TRY(update());
    RP_TRY(driver_->check(driver_->fn().cuGraphLaunch(exec_.get(), stream_), "cuGraphLaunch"));
  }
  ++driver_->counters.submits;
  const Status recorded =
      driver_->check(driver_->fn().cuEventRecord(done_.get(), stream_), "cuEventRecord");
  if (!recorded.ok()) return mark_end(recorded);
  pending_ = true;
  run_.submitted(timeout_ns);
  return {};
}

Status CudaRecording::over(CUresult r) {
  run_.over();
  if (r == CUDA_SUCCESS) {
    pending_ = false;
    finished_ = true;
    return {};
  }
  dead_ = true;
  return driver_->check(r, "the run (cuEventQuery)");
}

// Gives up the run, because it or one before it hangs.
Status CudaRecording::hung() {
  dead_ = true;
  driver_->give_up(driver_->runs.grace_ns(run_));
  return driver_->alive();
}

Status CudaRecording::wait(uint64_t timeout_ns) {
  if (!pending_ && dead_)
    return {Code::Device, "it is unknown when the run of this recording ends"};
  if (!pending_) return {};
  RP_CUDA_SCOPE(*driver_);
  CUresult r = CUDA_ERROR_NOT_READY;
  const auto ask = [&](uint64_t ns) {
    r = driver_->wait_for(done_.get(), ns, &last_run_);
    return r != CUDA_ERROR_NOT_READY;
  };
  switch (driver_->runs.wait(run_, timeout_ns, ask)) {
    case RunQueue::Outcome::Over:
      ran_ns_ = driver_->runs.ran_ns(run_);
      return over(r);
    case RunQueue::Outcome::Hung:
      return hung();
    case RunQueue::Outcome::TimedOut:
      break;
  }
  return timeout_error(driver_->info, timeout_ns);
}

Result<bool> CudaRecording::poll(uint64_t timeout_ns) {
  if (!pending_ && dead_)
    return Status(Code::Device, "it is unknown when the run of this recording ends");
  if (!pending_) return true;
  RP_CUDA_SCOPE(*driver_);
  CUresult r = CUDA_ERROR_NOT_READY;
  const auto ask = [&](uint64_t ns) {
    r = driver_->wait_for(done_.get(), ns, &last_run_);
    return r != CUDA_ERROR_NOT_READY;
  };
  const auto outcome = driver_->runs.poll(run_, timeout_ns, ask);
  if (!outcome) return false;
  if (*outcome == RunQueue::Outcome::Hung) return hung();
  if (*outcome == RunQueue::Outcome::TimedOut) return timeout_error(driver_->info, timeout_ns);
  ran_ns_ = driver_->runs.ran_ns(run_);
  RP_TRY(over(r));
  return true;
}

bool CudaRecording::watch(uint64_t ns) {
  const ReleaseScope scope(*driver_);
  if (!scope.entered()) return !driver_->alive().ok();
  return driver_->runs.watch(run_, ns, [this](uint64_t most) {
    return driver_->wait_for(done_.get(), most) != CUDA_ERROR_NOT_READY;
  });
}

Result<bool> CudaRecording::ended() {
  RP_TRY(driver_->alive());
  if (dead_) return Status(Code::Device, "this recording failed earlier; create another session");
  if (!pending_) return true;
  RP_CUDA_SCOPE(*driver_);
  const CUresult r = driver_->fn().cuEventQuery(done_.get());
  if (r == CUDA_ERROR_NOT_READY && driver_->runs.hung(run_)) return hung();
  if (r == CUDA_ERROR_NOT_READY) return false;
  RP_TRY(over(r));
  return true;
}

Result<std::vector<double>> CudaRecording::dispatch_ns() {
  std::vector<double> ns;
  if (!timestamps_ || !finished_) return ns;
  RP_CUDA_SCOPE(*driver_);
  for (size_t i = 0; i + 1 < stamps_.size(); i += 2) {
    float ms = 0;
    RP_TRY(driver_->check(
        driver_->fn().cuEventElapsedTime(&ms, stamps_[i].get(), stamps_[i + 1].get()),
        "cuEventElapsedTime"));
    ns.push_back(static_cast<double>(ms) * 1e6);
  }
  return ns;
}

}  // namespace reprise::cuda
