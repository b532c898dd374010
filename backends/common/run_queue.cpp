#include "backends/common/run_queue.h"

#include <array>
#include <charconv>
#include <thread>

namespace reprise {
namespace {

// The interval at which a thread that waits behind another run checks whether that run has ended.
constexpr uint64_t kSliceNs = 5'000'000;

uint64_t since(RunQueue::Clock::time_point t, RunQueue::Clock::time_point now) {
  return now <= t ? 0 : static_cast<uint64_t>(std::chrono::nanoseconds(now - t).count());
}

uint64_t minus(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

}  // namespace

void RunQueue::append(SubmittedRun& run) {
  run.before_ = last_;
  run.after_ = nullptr;
  (last_ ? last_->after_ : first_) = &run;
  last_ = &run;
  run.listed_ = true;
  run.begun_ = Clock::now();
}

// When the first run is removed, the next one begins.
void RunQueue::unlink(SubmittedRun& run) {
  if (!run.listed_) return;
  run.listed_ = false;
  (run.before_ ? run.before_->after_ : first_) = run.after_;
  (run.after_ ? run.after_->before_ : last_) = run.before_;
  if (run.before_) return;
  late_ = false;
  if (first_) first_->begun_ = Clock::now();
}

// No thread waits for a run that timed out, so its end is noticed here.
void RunQueue::drop_ended(const SubmittedRun* but) {
  while (first_ && first_ != but && first_->ended_()) unlink(*first_);
}

uint64_t RunQueue::grace_ns(const SubmittedRun& run) {
  const std::lock_guard lock(mutex_);
  const uint64_t limit = run.listed_ ? first_->limit_ns_ : run.limit_ns_;
  return std::max(patience_ns, limit == UINT64_MAX ? 0 : limit);
}

uint64_t RunQueue::left_to_hang(const SubmittedRun& run, Clock::time_point now) const {
  if (run.limit_ns_ == UINT64_MAX) return UINT64_MAX;
  const uint64_t grace = std::max(patience_ns, run.limit_ns_);
  const uint64_t allowed = grace > UINT64_MAX - run.limit_ns_ ? UINT64_MAX : run.limit_ns_ + grace;
  return minus(allowed, since(run.begun_, now));
}

RunQueue::Next RunQueue::next_wait(SubmittedRun& run, bool to_end) {
  const std::lock_guard lock(mutex_);
  if (to_end && run.limit_ns_ == UINT64_MAX) run.limit_ns_ = 0;  // no caller set a limit
  if (!run.listed_) return {0, given_up_, !to_end};              // it has ended
  drop_ended(&run);
  const auto now = Clock::now();
  const bool begun = first_ == &run;
  if (begun && !to_end) {
    if (given_up_) return {0, true, true};
    return {minus(run.limit_ns_, since(run.begun_, now)), false, true};
  }
  const uint64_t left = left_to_hang(*first_, now);
  return {std::min(left, kSliceNs), left == 0 || given_up_, false};
}

void RunQueue::set_limit(SubmittedRun& run, uint64_t timeout_ns) {
  const std::lock_guard lock(mutex_);
  run.limit_ns_ = timeout_ns;
}

void RunQueue::set_late(SubmittedRun& run) {
  const std::lock_guard lock(mutex_);
  run.late_ = run.listed_;
  if (run.late_) late_ = true;
}

// The runs before this one have ended too, although no thread may have noticed yet.
uint64_t RunQueue::ran_ns(SubmittedRun& run) {
  const std::lock_guard lock(mutex_);
  if (!run.listed_) return 0;
  drop_ended(&run);
  return since(run.begun_, Clock::now());
}

bool RunQueue::any_late() {
  if (!late_) return false;
  const std::lock_guard lock(mutex_);
  drop_ended(nullptr);
  return late_;
}

Status RunQueue::wait_before(const std::string& what, const DeviceInfo& device) {
  constexpr auto kNap = std::chrono::milliseconds(1);
  while (any_late()) {
    {
      const std::lock_guard lock(mutex_);
      if (first_ && first_->late_ && left_to_hang(*first_, Clock::now()) == 0)
        return timeout_error(device, patience_ns).with_context("before " + what);
    }
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

void SubmittedRun::submitted(uint64_t limit_ns) {
  const std::lock_guard lock(queue_.mutex_);
  late_ = false;
  limit_ns_ = limit_ns;
  queue_.append(*this);
}

void SubmittedRun::over() {
  const std::lock_guard lock(queue_.mutex_);
  queue_.unlink(*this);
}

std::string seconds_text(uint64_t ns) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<double>(ns) / 1e9);
  return std::string(text.data(), end.ptr) + " s";
}

Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns) {
  return {Code::Timeout, "the run did not finish on " + device.id + " within " +
                             seconds_text(timeout_ns) + "; use a longer timeout or smaller inputs"};
}

std::string given_up_text(uint64_t waited_ns) {
  return "a run timed out, did not end in another " + seconds_text(waited_ns) + " and was given up";
}

}  // namespace reprise
