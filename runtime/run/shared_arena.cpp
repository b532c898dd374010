#include "runtime/run/shared_arena.h"

#include <algorithm>
#include <atomic>

namespace reprise {
namespace {

Status busy() {
  return {Code::Busy,
          "a run of another session with the same arena is in flight; wait for it, or give the "
          "sessions arenas of their own"};
}

uint64_t next_generation() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

SharedArena::SharedArena(std::shared_ptr<Device> device)
    : device_(std::move(device)), generation_(next_generation()) {
  device_->idle_memory().add(*this);
}

SharedArena::~SharedArena() {
  device_->idle_memory().remove(*this);
}

uint64_t SharedArena::bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& b : buffers_) sum += b ? b->size() : 0;
  return sum;
}

Status SharedArena::acquire() {
  std::unique_lock lock(mutex_);
  if (user_ == User::RunObject) return busy();
  const uint64_t ticket = next_ticket_++;
  free_.wait(lock, [&] { return now_serving_ == ticket && user_ == User::None; });
  ++now_serving_;
  user_ = User::Call;
  return {};
}

Status SharedArena::try_acquire() {
  const std::lock_guard lock(mutex_);
  if (user_ != User::None || now_serving_ != next_ticket_) return busy();
  user_ = User::RunObject;
  return {};
}

void SharedArena::release(bool keeps) noexcept {
  const std::lock_guard lock(mutex_);
  user_ = User::None;
  if (keeps) {
    buffers_.clear();
    generation_ = next_generation();
  }
  free_.notify_all();
}

Result<std::shared_ptr<DeviceBuffer>> SharedArena::get(size_t index, uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (index < buffers_.size() && buffers_[index] && buffers_[index]->size() >= bytes)
      return buffers_[index];
    buffers_.resize(std::max(buffers_.size(), index + 1));
    buffers_[index].reset();
    generation_ = next_generation();
  }
  RP_ASSIGN(auto made, device_->allocate_or_free_idle(bytes, MemoryUse::Device));
  const std::lock_guard lock(mutex_);
  buffers_[index] = std::move(made);
  return buffers_[index];
}

bool SharedArena::free_idle() {
  const std::lock_guard lock(mutex_);
  if (user_ != User::None || buffers_.empty()) return false;
  buffers_.clear();
  generation_ = next_generation();
  return true;
}

}  // namespace reprise
