// Streams and events: a thread that executes what is queued, in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backends/cuda/api.h"
#include "tests/cuda_standin/driver/handles.h"

namespace reprise::standin {

struct Stream : Object {
  using Handle = cuda::CUstream;
  static constexpr Kind kKind = Kind::Stream;

  Stream();
  ~Stream() override;
  void push(std::function<void()> work);
  /// Until everything pushed before is done.
  void wait();

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> queue_;
  uint64_t pushed_ = 0, done_ = 0;
  bool over_ = false;
  std::thread thread_;
};

struct Event : Object {
  using Handle = cuda::CUevent;
  using Clock = std::chrono::steady_clock;
  static constexpr Kind kKind = Kind::Event;

  explicit Event(bool has_time) : Object(kKind), timed(has_time) {}
  /// A record was queued, and took place.
  void queued();
  void recorded();
  bool complete() const;
  void wait() const;
  /// The last record's time; false when there was none.
  bool time(Clock::time_point& at) const;

  const bool timed;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t queued_ = 0, recorded_ = 0;
  Clock::time_point at_;
};

}  // namespace reprise::standin
