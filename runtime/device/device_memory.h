// How the users of one device share its memory: a budget, memory that can be freed, and runs that
// wait for memory of others.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// The objects that keep device memory for later use but can free it, such as sessions between
/// runs. Thread-safe.
class IdleMemory {
 public:
  class Holder {
   public:
    /// Returns whether it freed any memory.
    virtual bool free_idle() = 0;

   protected:
    ~Holder() = default;
  };
  void add(Holder& holder) {
    const std::lock_guard lock(mutex_);
    holders_.push_back(&holder);
  }
  void remove(const Holder& holder) {
    const std::lock_guard lock(mutex_);
    std::erase(holders_, &holder);
  }
  void free_all() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (Holder* h : holders_) any = h->free_idle() || any;
    if (any) ++times_freed_;
  }
  /// How often free_all() freed memory.
  uint64_t times_freed() const { return times_freed_; }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> times_freed_ = 0;
  std::vector<Holder*> holders_;
};

class DeviceBuffer;

/// Memory of a device whose contents never change, so that several sessions can use it, by keys of
/// the contents. Thread-safe.
class SharedMemory {
 public:
  /// Null if nobody has memory with these contents.
  std::shared_ptr<DeviceBuffer> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : found->second.lock();
  }
  bool has_any() {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(known_, [](const auto& entry) { return !entry.second.expired(); });
  }
  /// Offers memory to others for as long as someone has it. Returns the memory of another thread
  /// instead if that thread was faster.
  std::shared_ptr<DeviceBuffer> add(const std::string& key, std::shared_ptr<DeviceBuffer> made) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<DeviceBuffer>& entry = known_[key];
    if (auto other = entry.lock()) return other;
    entry = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<DeviceBuffer>> known_;
};

/// The most memory that may be allocated on a device, and how much is. Thread-safe.
class MemoryBudget {
 public:
  /// In bytes; 0: no limit. What is allocated already stays allocated.
  void set_most(uint64_t bytes) { most_ = bytes; }
  uint64_t most() const { return most_; }
  uint64_t used() const { return used_; }
  /// Takes a part of the budget, and returns false if there is too little left.
  bool take(uint64_t bytes) {
    const uint64_t most = most_;
    uint64_t used = used_;
    do {
      if (most != 0 && (used > most || bytes > most - used)) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(uint64_t bytes) { used_ -= bytes; }

 private:
  std::atomic<uint64_t> most_ = 0, used_ = 0;
};

/// The part of a budget that an allocation has taken, and gives back when it is destroyed.
class MemoryShare {
 public:
  MemoryShare() = default;
  MemoryShare(std::shared_ptr<MemoryBudget> of, uint64_t bytes)
      : budget_(std::move(of)), bytes_(bytes) {}
  MemoryShare(MemoryShare&& o) noexcept : budget_(std::move(o.budget_)), bytes_(o.bytes_) {}
  MemoryShare& operator=(MemoryShare&& o) noexcept {
    std::swap(budget_, o.budget_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~MemoryShare() {
    if (budget_) budget_->give_back(bytes_);
  }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  uint64_t bytes_ = 0;
};

/// Runs that block their callers and found too little memory wait here, in the order of their
/// arrival, until another such run has ended. Runs that the caller must end itself do not count,
/// because the thread that waits might be the one that should end them. Thread-safe.
class MemoryQueue {
 public:
  /// The use of memory by one run. Between begin() and end() it may have memory.
  class Use {
   public:
    explicit Use(MemoryQueue& queue) : queue_(queue) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();
    /// Waits for those that lack memory, whether this run needs more or not: it may have what they
    /// wait for. The run must not have anything yet that another run may wait for.
    void begin();
    /// begin() was followed by all allocations that the run needs.
    void has_enough();
    void end();
    /// After an attempt that lacked memory, and end(): waits until another run has ended and it is
    /// this one's turn. Returns false if there is nothing to wait for.
    bool wait();

   private:
    void leave_line();

    MemoryQueue& queue_;
    bool in_line_ = false, running_ = false;
    uint64_t ticket_ = 0;
    uint64_t ends_ = 0;  // MemoryQueue::ends_ when the attempt began, and its own end
  };

  /// How many runs wait.
  uint64_t in_line() {
    const std::lock_guard lock(mutex_);
    return next_ticket_ - now_serving_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned running_ = 0;
  uint64_t ends_ = 0;                           // of runs and of failed attempts
  uint64_t next_ticket_ = 0, now_serving_ = 0;  // equal if nobody waits
};

}  // namespace reprise
