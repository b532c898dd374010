#include "backends/cuda/driver.h"

#include <algorithm>
#include <map>
#include <new>
#include <thread>

namespace reprise::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kShort = std::chrono::microseconds(200);  // too short for sleeping
constexpr auto kPolled = std::chrono::milliseconds(2);   // polling time around the expected end
constexpr auto kFirstSleep = std::chrono::microseconds(50);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);

/// The primary contexts with a run that was given up, and why. A primary context belongs to the
/// process: it outlives the device that hung, and opening the device again returns the same
/// context.
struct Hung {
  std::mutex mutex;
  std::map<CUcontext, std::string> contexts;
};

Hung& hung() {
  static auto* const all = new Hung;  // never freed: devices may be closed while the process ends
  return *all;
}

}  // namespace

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

Driver::~Driver() {
  if (!context || runs.given_up()) return;
  {
    const ReleaseScope scope(*this);
    if (scope.entered()) release_kept();
    if (scope.entered() && transfers && transfers != borrowed_stream)
      fn().cuStreamDestroy_v2(transfers);
  }
  // The last release of a primary context destroys it, even if it is poisoned.
  if (owned) fn().cuDevicePrimaryCtxRelease_v2(device);
}

std::string Driver::remedy() const {
  if (runs.given_up()) return kGivenUpRemedy;
  if (!owned) return "the application that lent the context must destroy it";
  return "close all sessions and buffers of this device and open it again; if that fails, "
         "something "
         "else in this process still holds the context, and the process must be restarted";
}

void Driver::poison(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
  poisoned_ = true;
}

// Sleeps for most of the time that the last run took, then polls for the end, because waking up
// takes longer. If the run has already ended by then, it may have been much shorter, so the next
// wait has no expectation.
CUresult Driver::wait_for(CUevent event, uint64_t limit_ns, Clock::duration* expected) const {
  const auto start = Clock::now();
  const auto limit = std::chrono::nanoseconds(std::min<uint64_t>(limit_ns, INT64_MAX));
  Clock::duration nap = kFirstSleep;
  CUresult r = fn().cuEventQuery(event);
  const Clock::duration last = expected ? *expected : Clock::duration();
  const Clock::duration asleep = last > kShort ? last * 4 / 5 : Clock::duration();
  bool seen_running = false;
  if (r == CUDA_ERROR_NOT_READY && asleep > Clock::duration()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(asleep, limit));
    r = fn().cuEventQuery(event);
  }
  while (r == CUDA_ERROR_NOT_READY) {
    seen_running = true;
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
  if (expected && r == CUDA_SUCCESS)
    *expected = seen_running ? Clock::now() - start : Clock::duration();
  return r;
}

bool Driver::keep_if_late(std::function<void(const Table&)>& destroy) {
  if (!runs.any_late()) return false;
  const std::lock_guard lock(mutex_);
  try {
    kept_.push_back(std::move(destroy));
  } catch (const std::bad_alloc&) {  // called by destructors: it stays until the context ends
  }
  return true;
}

void Driver::release(std::function<void(const Table&)> destroy) {
  if (runs.given_up()) return;
  const ReleaseScope scope(*this);
  if (!scope.entered() || keep_if_late(destroy)) return;
  release_kept();
  destroy(fn());
}

void Driver::release(const LentMemory& memory) {
  if (runs.given_up()) return;
  std::function<void(const Table&)> give_back = [this, memory](const Table&) {
    lender.release(memory);
  };
  if (!keep_if_late(give_back)) give_back(fn());
}

void Driver::release_kept() {
  std::vector<std::function<void(const Table&)>> kept;
  {
    const std::lock_guard lock(mutex_);
    if (kept_.empty() || runs.given_up() || runs.any_late()) return;
    kept.swap(kept_);
  }
  for (const auto& destroy : kept) destroy(fn());
}

void Driver::give_up(uint64_t waited_ns) {
  runs.give_up();
  poisoned_ = true;
  try {
    const std::string why = given_up_text(waited_ns);
    poison(why);
    if (!owned) return;
    const std::lock_guard lock(hung().mutex);
    hung().contexts.emplace(context, why);
  } catch (const std::bad_alloc&) {  // called by destructors: the reason is lost
  }
}

Status Driver::check_context() const {
  const std::lock_guard lock(hung().mutex);
  const auto found = hung().contexts.find(context);
  if (!owned || found == hung().contexts.end()) return {};
  return {Code::DeviceLost, info.id + " (" + info.name +
                                ") cannot be opened again after an earlier error (" +
                                found->second + "); " + kGivenUpRemedy};
}

Status Driver::check(CUresult r, const char* call) {
  if (r == CUDA_SUCCESS) return {};
  RP_TRY(alive());
  const std::string what =
      std::string(call) + " failed on " + info.id + " (" + info.name + "): " + library->describe(r);
  if (!is_sticky(r))
    return {r == CUDA_ERROR_OUT_OF_MEMORY ? Code::OutOfMemory : Code::Device, what};
  poison(what);
  return {Code::DeviceLost,
          what + "; nothing works on this device's context any more: " + remedy()};
}

Status Driver::alive() const {
  if (!poisoned_) return {};
  const std::lock_guard lock(mutex_);
  return {Code::DeviceLost,
          info.id + " cannot be used since an earlier error (" + cause_ + "); " + remedy()};
}

}  // namespace reprise::cuda
