#include "tests/cuda_shim/workgroup.h"

#include <ucontext.h>

#include <algorithm>
#include <array>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace reprise::test {
namespace {

constexpr size_t kWarp = 32;
constexpr size_t kStackBytes = size_t{256} << 10;

enum class State { Ready, AtBarrier, AtShuffle, AtBallot, Done };

thread_local FiberGroup* current_group = nullptr;

/// Tells AddressSanitizer which stack runs next. `keep` is where the leaving fiber's own record
/// stays; null when it never runs again.
void leave_stack([[maybe_unused]] void** keep, [[maybe_unused]] const void* bottom,
                 [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, bottom, size);
#endif
}

void enter_stack([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                 [[maybe_unused]] size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, from, size);
#endif
}

}  // namespace

struct FiberGroup::Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  State state = State::Done;
  uint32_t index = 0;
  uint32_t active = 0;   // shuffle, ballot: lanes that take part
  uint64_t value = 0;    // shuffle, ballot: given, then received
  uint32_t source = 0;   // shuffle: lane to take from
  void* kept = nullptr;  // AddressSanitizer's record
};

struct FiberGroup::Caller {
  ucontext_t context{};
  const void* bottom = nullptr;
  size_t size = 0;
};

void set_thread(Shim& shim, uint32_t index) {
  const uint32_t x = shim.group_size.x, y = shim.group_size.y;
  shim.thread = {index % x, index / x % y, index / (x * y)};
}

FiberGroup::FiberGroup(Shim& shim, uint32_t threads)
    : shim_(shim), caller_(std::make_unique<Caller>()) {
  for (uint32_t n = 0; n < threads; ++n) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->index = n;
  }
  shim_.barrier = on_barrier;
  shim_.shuffle = on_shuffle;
  shim_.ballot = on_ballot;
}

FiberGroup::~FiberGroup() = default;

void FiberGroup::entry() {
  FiberGroup& g = *current_group;
  enter_stack(nullptr, &g.caller_->bottom, &g.caller_->size);
  g.kernel_(g.block_);
  Fiber& f = *g.running_;
  f.state = State::Done;
  leave_stack(nullptr, g.caller_->bottom, g.caller_->size);
  setcontext(&g.caller_->context);
}

void FiberGroup::start(Fiber& f) {
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.get();
  f.context.uc_stack.ss_size = kStackBytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, &FiberGroup::entry, 0);
  f.state = State::Ready;
}

void FiberGroup::resume(Fiber& f) {
  running_ = &f;
  set_thread(shim_, f.index);
  void* kept = nullptr;
  leave_stack(&kept, f.stack.get(), kStackBytes);
  swapcontext(&caller_->context, &f.context);
  enter_stack(kept, nullptr, nullptr);
}

void FiberGroup::suspend(Fiber& f) {
  leave_stack(&f.kept, caller_->bottom, caller_->size);
  swapcontext(&f.context, &caller_->context);
  enter_stack(f.kept, &caller_->bottom, &caller_->size);
}

void FiberGroup::on_barrier() {
  Fiber& f = *current_group->running_;
  f.state = State::AtBarrier;
  current_group->suspend(f);
}

uint64_t FiberGroup::on_shuffle(uint32_t active, uint64_t in, uint32_t lane, bool is_xor) {
  Fiber& f = *current_group->running_;
  f.active = active;
  f.value = in;
  f.source = (is_xor ? f.index ^ lane : lane) % kWarp;
  f.state = State::AtShuffle;
  current_group->suspend(f);
  return f.value;
}

uint32_t FiberGroup::on_ballot(uint32_t active, bool in) {
  Fiber& f = *current_group->running_;
  f.active = active;
  f.value = in ? 1 : 0;
  f.state = State::AtBallot;
  current_group->suspend(f);
  return static_cast<uint32_t>(f.value);
}

bool FiberGroup::release_barrier() {
  const bool all = std::all_of(fibers_.begin(), fibers_.end(),
                               [](const auto& f) { return f->state == State::AtBarrier; });
  if (!all) return false;
  for (const auto& f : fibers_) f->state = State::Ready;
  return true;
}

/// Exchanges the values of lanes of a warp when all that take part wait for it.
bool FiberGroup::release_lanes(const Fiber& first) {
  const State state = first.state;
  if (state != State::AtShuffle && state != State::AtBallot) return false;
  const uint32_t active = first.active;
  const size_t base = first.index / kWarp * kWarp;
  std::array<uint64_t, kWarp> given{};
  uint64_t ballot = 0;
  for (size_t n = 0; n < kWarp; ++n) {
    if ((active >> n & 1U) == 0) continue;
    if (base + n >= fibers_.size()) return false;
    const Fiber& f = *fibers_[base + n];
    if (f.state != state || f.active != active) return false;
    given[n] = f.value;
    ballot |= (f.value & 1U) << n;
  }
  if ((active >> (first.index - base) & 1U) == 0) return false;
  for (size_t n = 0; n < kWarp; ++n) {
    if ((active >> n & 1U) == 0) continue;
    Fiber& f = *fibers_[base + n];
    if (state == State::AtShuffle && (active >> f.source & 1U) == 0) inactive_read_ = true;
    f.value = state == State::AtShuffle ? given[f.source] : ballot;
    f.state = State::Ready;
  }
  return true;
}

Status FiberGroup::run(KernelFn kernel, const void* block) {
  kernel_ = kernel;
  block_ = block;
  current_group = this;
  for (const auto& f : fibers_) start(*f);
  while (true) {
    for (const auto& f : fibers_) {
      if (f->state == State::Ready) resume(*f);
    }
    const bool done = std::all_of(fibers_.begin(), fibers_.end(),
                                  [](const auto& f) { return f->state == State::Done; });
    if (done) return {};
    bool released = release_barrier();
    for (const auto& f : fibers_) released = release_lanes(*f) || released;
    if (inactive_read_) return {Code::Device, "a shuffle reads a lane that does not take part"};
    if (!released) {
      return {Code::Device, "a barrier or shuffle that only some invocations of a workgroup reach"};
    }
  }
}

}  // namespace reprise::test
