// Device memory that a session counts.
#pragma once

#include <memory>
#include <utility>

#include "runtime/run/shared_plan.h"

namespace reprise {

/// A buffer whose bytes count in SessionTotals::device_bytes.
class CountedBuffer {
 public:
  CountedBuffer() = default;
  static Result<CountedBuffer> allocate(SessionResources& session, uint64_t bytes, MemoryUse use);
  CountedBuffer(CountedBuffer&& o) noexcept { swap(o); }
  CountedBuffer& operator=(CountedBuffer&& o) noexcept {
    swap(o);
    return *this;
  }
  ~CountedBuffer();
  DeviceBuffer* get() const { return buffer_.get(); }
  DeviceBuffer* operator->() const { return buffer_.get(); }
  explicit operator bool() const { return buffer_ != nullptr; }
  /// 0 if there is no buffer.
  uint64_t bytes() const { return buffer_ ? buffer_->size() : 0; }

 private:
  void swap(CountedBuffer& o) {
    std::swap(totals_, o.totals_);
    std::swap(buffer_, o.buffer_);
  }
  SessionTotals* totals_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
};

}  // namespace reprise
