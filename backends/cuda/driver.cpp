#include "backends/cuda/driver.h"

#include <algorithm>
#include <new>
#include <thread>

namespace reprise::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kShort = std::chrono::microseconds(200);  // not worth sleeping
constexpr auto kPolled = std::chrono::milliseconds(2);   // about when a run should end
constexpr auto kFirstSleep = std::chrono::microseconds(50);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);

// Errors after which every call on the context fails.
bool is_sticky(CUresult r) {
  switch (r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

Driver::~Driver() {
  if (!context || overdue.given_up()) return;
  release_kept();
  if (transfers && transfers != borrowed_stream) {
    const ReleaseScope scope(*this);
    if (scope.entered()) fn().cuStreamDestroy_v2(transfers);
  }
  // The last release of a primary context destroys it, poisoned or not.
  if (owned) fn().cuDevicePrimaryCtxRelease_v2(device);
}

std::string Driver::remedy() const {
  if (overdue.given_up())
    return "what the device may still use is not freed; start the process again";
  if (!owned) return "the application that lent the context must destroy it";
  return "close all sessions and buffers of this device and open it again; if that fails, "
         "something "
         "else in this process still holds the context, and the process must be started again";
}

void Driver::poison(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
  poisoned_ = true;
}

// Most of a run like the last one passes asleep; its end is polled, as waking up takes longer.
CUresult Driver::wait_for(CUevent event, uint64_t limit_ns, Clock::duration expected) const {
  const auto start = Clock::now();
  const auto limit = std::chrono::nanoseconds(std::min<uint64_t>(limit_ns, INT64_MAX));
  Clock::duration nap = kFirstSleep;
  CUresult r = fn().cuEventQuery(event);
  const Clock::duration asleep = expected > kShort ? expected * 4 / 5 : Clock::duration();
  if (r == CUDA_ERROR_NOT_READY && asleep > Clock::duration())
    std::this_thread::sleep_for(std::min<Clock::duration>(asleep, limit));
  while (r == CUDA_ERROR_NOT_READY) {
    const auto waited = Clock::now() - start;
    if (waited >= limit) break;
    if (waited < asleep + kPolled) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(nap, limit - waited));
      nap = std::min<Clock::duration>(nap * 3 / 2, kLongestSleep);
    }
    r = fn().cuEventQuery(event);
  }
  return r;
}

void Driver::release(std::function<void(const Table&)> destroy) {
  if (overdue.given_up()) return;
  if (overdue.any()) {
    const std::lock_guard lock(mutex_);
    try {
      kept_.push_back(std::move(destroy));
    } catch (const std::bad_alloc&) {  // in a destructor: it stays until the context ends
    }
    return;
  }
  const ReleaseScope scope(*this);
  if (scope.entered()) destroy(fn());
}

void Driver::release_kept() {
  std::vector<std::function<void(const Table&)>> kept;
  {
    const std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }
  for (auto& destroy : kept) release(std::move(destroy));
}

void Driver::give_up(uint64_t waited_ns) {
  overdue.give_up();
  poison(given_up_text(waited_ns));
}

Status Driver::check(CUresult r, const char* call) {
  if (r == CUDA_SUCCESS) return {};
  RP_TRY(alive());
  const std::string what =
      std::string(call) + " failed on " + info.id + " (" + info.name + "): " + library->describe(r);
  if (!is_sticky(r)) return {Code::Device, what};
  poison(what);
  return {Code::Device, what + "; nothing works on this device's context any more: " + remedy()};
}

Status Driver::alive() const {
  if (!poisoned_) return {};
  const std::lock_guard lock(mutex_);
  return {Code::Device,
          info.id + " cannot be used since an earlier error (" + cause_ + "); " + remedy()};
}

}  // namespace reprise::cuda
