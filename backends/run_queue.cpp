#include "backends/overdue.h"

#include <array>
#include <charconv>
#include <chrono>
#include <thread>

namespace reprise {

bool Overdue::any() {
  if (!some_) return false;
  const std::lock_guard lock(mutex_);
  for (OverdueRun** at = &first_; *at;) {
    OverdueRun& run = **at;
    if (run.ended_()) {
      *at = run.next_;
      run.listed_ = false;
    } else {
      at = &run.next_;
    }
  }
  some_ = first_ != nullptr;
  return some_;
}

uint64_t Overdue::grace_ns() {
  const std::lock_guard lock(mutex_);
  uint64_t grace = patience_ns;
  for (const OverdueRun* run = first_; run; run = run->next_)
    grace = std::max(grace, run->timeout_ns_);
  return grace;
}

Status Overdue::wait_before(const std::string& what, const DeviceInfo& device) {
  constexpr auto kNap = std::chrono::milliseconds(1);
  const auto start = std::chrono::steady_clock::now();
  while (any()) {
    if (std::chrono::steady_clock::now() - start >= std::chrono::nanoseconds(patience_ns))
      return timeout_error(device, patience_ns).with_context("before " + what);
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

void OverdueRun::set(Overdue& all, uint64_t timeout_ns, std::function<bool()> ended) {
  clear();
  all_ = &all;
  const std::lock_guard lock(all.mutex_);
  timeout_ns_ = timeout_ns;
  ended_ = std::move(ended);
  next_ = all.first_;
  all.first_ = this;
  listed_ = true;
  all.some_ = true;
}

void OverdueRun::clear() {
  if (!all_) return;
  const std::lock_guard lock(all_->mutex_);
  for (OverdueRun** at = &all_->first_; listed_ && *at; at = &(*at)->next_) {
    if (*at != this) continue;
    *at = next_;
    listed_ = false;
    break;
  }
  all_->some_ = all_->first_ != nullptr;
}

std::string seconds_text(uint64_t ns) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<double>(ns) / 1e9);
  return std::string(text.data(), end.ptr) + " s";
}

Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns) {
  return {Code::Device, "the run did not finish on " + device.id + " within " +
                            seconds_text(timeout_ns) + "; use a longer timeout or smaller inputs"};
}

std::string given_up_text(uint64_t waited_ns) {
  return "a run timed out, did not end in another " + seconds_text(waited_ns) + " and was given up";
}

}  // namespace reprise
