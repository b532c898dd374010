#include "runtime/device/device_memory.h"

namespace reprise {

MemoryQueue::Use::~Use() {
  end();
  has_enough();
}

void MemoryQueue::Use::begin() {
  std::unique_lock lock(queue_.mutex_);
  if (!in_line_ && queue_.now_serving_ != queue_.next_ticket_) {
    ticket_ = queue_.next_ticket_++;
    in_line_ = true;
    queue_.changed_.wait(lock, [&] { return queue_.now_serving_ == ticket_; });
  }
  running_ = true;
  ++queue_.running_;
  ends_ = queue_.ends_;
}

void MemoryQueue::Use::has_enough() {
  if (!in_line_) return;
  const std::lock_guard lock(queue_.mutex_);
  leave_line();
}

void MemoryQueue::Use::end() {
  if (!running_) return;
  const std::lock_guard lock(queue_.mutex_);
  running_ = false;
  --queue_.running_;
  ++queue_.ends_;
  ++ends_;
  queue_.changed_.notify_all();
}

bool MemoryQueue::Use::wait() {
  std::unique_lock lock(queue_.mutex_);
  if (!in_line_) {
    ticket_ = queue_.next_ticket_++;
    in_line_ = true;
  }
  queue_.changed_.wait(lock, [&] {
    return queue_.now_serving_ == ticket_ && (queue_.ends_ != ends_ || queue_.running_ == 0);
  });
  if (queue_.ends_ != ends_) return true;
  leave_line();
  return false;
}

void MemoryQueue::Use::leave_line() {
  in_line_ = false;
  ++queue_.now_serving_;
  queue_.changed_.notify_all();
}

}  // namespace reprise
