// A pool of objects that are reused together with the memory that they hold.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise {

/// Holds as many objects as were ever in use at the same time. Thread-safe. It must outlive its
/// leases.
template <typename T>
class Pool {
 public:
  class Lease {
   public:
    Lease(Pool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(object_));  // does not allocate: take() reserved the room
    }
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<T> object_;
  };

  Lease take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      auto made = std::make_unique<T>();
      free_.reserve(made_ + 1);
      ++made_;
      return Lease(*this, std::move(made));
    }
    std::unique_ptr<T> object = std::move(free_.back());
    free_.pop_back();
    return Lease(*this, std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
  size_t made_ = 0;
};

}  // namespace reprise
