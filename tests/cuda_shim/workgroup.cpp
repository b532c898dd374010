#include "tests/cuda_shim/workgroup.h"

#include <algorithm>
#include <array>

#include "tests/cuda_shim/fiber.h"

namespace reprise::test {
namespace {

constexpr size_t kWarp = 32;

enum class State : unsigned char { Ready, AtBarrier, AtShuffle, AtBallot, AtMeeting, Done };

FiberGroup& group_of(Shim* shim) {
  return *static_cast<FiberGroup*>(shim->fibers);
}

}  // namespace

struct FiberGroup::Invocation {
  Fiber fiber;
  FiberGroup* group = nullptr;
  uint64_t stack = reinterpret_cast<uint64_t>(fiber.stack().data());
  ShimIndex thread{};
  State state = State::Done;
  uint32_t index = 0;
  uint32_t active = 0;   // shuffle, ballot: lanes that take part
  uint64_t value = 0;    // shuffle, ballot: given, then received
  uint32_t source = 0;   // shuffle: lane to take from
  uint32_t awaited = 0;  // Shim::awaited
};

FiberGroup::FiberGroup(Shim& shim) : shim_(shim) {
  shim_.fibers = this;
  shim_.barrier = on_barrier;
  shim_.shuffle = on_shuffle;
  shim_.ballot = on_ballot;
  shim_.meet = on_meet;
}

FiberGroup::~FiberGroup() = default;

void FiberGroup::entry(void* invocation) {
  Invocation& f = *static_cast<Invocation*>(invocation);
  f.fiber.started();
  FiberGroup& g = *f.group;
  g.kernel_(g.block_, &g.shim_);
  f.state = State::Done;
  ++g.done_;
  f.fiber.finish();
}

void FiberGroup::abandon(const Status& problem) {
  problem_ = problem;  // nothing on this stack is ever destroyed
  running_->state = State::Done;
  running_->fiber.finish();
}

void FiberGroup::prepare(size_t invocations, KernelFn kernel, const void* block) {
  kernel_ = kernel;
  block_ = block;
  count_ = invocations;
  done_ = at_barrier_ = 0;
  problem_ = {};
  while (fibers_.size() < count_) {
    fibers_.push_back(std::make_unique<Invocation>());
    fibers_.back()->group = this;
    shim_.stack_bytes = fibers_.back()->fiber.stack().size();
    fibers_.back()->index = static_cast<uint32_t>(fibers_.size() - 1);
  }
  const uint32_t x = shim_.group_size.x, y = shim_.group_size.y;
  for (size_t n = 0; n < count_; ++n) {
    Invocation& f = *fibers_[n];
    f.thread = {f.index % x, f.index / x % y, f.index / (x * y)};
    f.state = State::Ready;
    f.awaited = 0;
    f.fiber.start(&FiberGroup::entry, &f);
  }
}

void FiberGroup::resume(Invocation& f) {
  running_ = &f;
  shim_.thread = f.thread;
  shim_.stack = f.stack;
  shim_.awaited = f.awaited;
  f.fiber.enter();
  f.awaited = shim_.awaited;
}

void FiberGroup::on_barrier(Shim* shim) {
  FiberGroup& g = group_of(shim);
  Invocation& f = *g.running_;
  f.state = State::AtBarrier;
  ++g.at_barrier_;
  f.fiber.leave();
}

uint64_t FiberGroup::on_shuffle(Shim* shim, uint32_t active, uint64_t in, uint32_t lane,
                                bool is_xor) {
  Invocation& f = *group_of(shim).running_;
  f.active = active;
  f.value = in;
  f.source = (is_xor ? f.index ^ lane : lane) % kWarp;
  f.state = State::AtShuffle;
  f.fiber.leave();
  return f.value;
}

uint32_t FiberGroup::on_ballot(Shim* shim, uint32_t active, bool in) {
  Invocation& f = *group_of(shim).running_;
  f.active = active;
  f.value = in ? 1 : 0;
  f.state = State::AtBallot;
  f.fiber.leave();
  return static_cast<uint32_t>(f.value);
}

void** FiberGroup::on_meet(Shim* shim, void* in) {
  FiberGroup& g = group_of(shim);
  Invocation& f = *g.running_;
  f.value = reinterpret_cast<uint64_t>(in);
  f.state = State::AtMeeting;
  f.fiber.leave();
  return f.index % kWarp == 0 ? g.meetings_[f.index / kWarp].data() : nullptr;
}

/// Lets a warp go on when all of its lanes have met.
bool FiberGroup::release_meeting(const Invocation& first) {
  if (first.state != State::AtMeeting || first.index % kWarp != 0) return false;
  const size_t base = first.index;
  if (base + kWarp > count_) return false;
  for (size_t n = 0; n < kWarp; ++n) {
    if (fibers_[base + n]->state != State::AtMeeting) return false;
  }
  meetings_.resize(std::max(meetings_.size(), base / kWarp + 1));
  for (size_t n = 0; n < kWarp; ++n) {
    Invocation& f = *fibers_[base + n];
    meetings_[base / kWarp][n] = reinterpret_cast<void*>(f.value);
    f.state = State::Ready;
  }
  return true;
}

bool FiberGroup::release_barrier() {
  if (at_barrier_ != count_) return false;
  at_barrier_ = 0;
  for (size_t n = 0; n < count_; ++n) fibers_[n]->state = State::Ready;
  return true;
}

/// Exchanges the values of lanes of a warp when all that take part wait for it.
bool FiberGroup::release_lanes(const Invocation& first) {
  const State state = first.state;
  if (state != State::AtShuffle && state != State::AtBallot) return false;
  const uint32_t active = first.active;
  const size_t base = first.index / kWarp * kWarp;
  std::array<uint64_t, kWarp> given{};
  uint64_t ballot = 0;
  for (size_t n = 0; n < kWarp; ++n) {
    if ((active >> n & 1U) == 0) continue;
    if (base + n >= count_) return false;
    const Invocation& f = *fibers_[base + n];
    if (f.state != state || f.active != active) return false;
    given[n] = f.value;
    ballot |= (f.value & 1U) << n;
  }
  if ((active >> (first.index - base) & 1U) == 0) return false;
  for (size_t n = 0; n < kWarp; ++n) {
    if ((active >> n & 1U) == 0) continue;
    Invocation& f = *fibers_[base + n];
    if (state == State::AtShuffle && (active >> f.source & 1U) == 0) {
      problem_ = {Code::Device, "a shuffle reads a lane that does not take part"};
    }
    f.value = state == State::AtShuffle ? given[f.source] : ballot;
    f.state = State::Ready;
  }
  return true;
}

Status FiberGroup::run(KernelFn kernel, const void* block) {
  const ShimIndex size = shim_.group_size;
  prepare(size_t{size.x} * size.y * size.z, kernel, block);
  while (true) {
    for (size_t n = 0; n < count_; ++n) {
      if (fibers_[n]->state != State::Ready) continue;
      resume(*fibers_[n]);
      if (!problem_.ok()) return problem_;
    }
    if (done_ == count_) return {};
    if (release_barrier()) continue;
    bool released = false;
    for (size_t n = 0; n < count_; ++n) {
      released = release_lanes(*fibers_[n]) || release_meeting(*fibers_[n]) || released;
    }
    if (!problem_.ok()) return problem_;
    if (!released) {
      return {Code::Device, "a barrier or shuffle that only some invocations of a workgroup reach"};
    }
  }
}

Status FiberGroup::run_whole(KernelFn kernel, const void* block) {
  prepare(1, kernel, block);
  resume(*fibers_[0]);
  return problem_;
}

}  // namespace reprise::test
