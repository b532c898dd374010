// Memory that knows its bounds: every allocation lies between zones of a pattern, and is filled
// with 0xFF, so that what was never written shows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace reprise::standin {

enum class Place : unsigned char { Device, Host };

struct Allocation {
  Allocation() = default;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  uint64_t id = 0;
  uint64_t context = 0;
  Place place = Place::Device;
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::byte* raw = nullptr;      // from the lower zone on; null if the memory is mapped
  std::byte* mapping = nullptr;  // memory that others exported, which has no zones
  size_t mapped_bytes = 0;
  uint64_t mapped_from = 0;  // the handle of that memory

  // For poisoning: who has written it.
  std::atomic<bool> written_outside{false};  // by a copy or launch that is not a graph's
  std::atomic<bool> read_outside{false};     // since the last graph launch
  std::atomic<uint64_t> graph{0};            // the one graph that touched it; kSeveral

  static constexpr uint64_t kSeveral = ~uint64_t{0};
  uint64_t address() const { return reinterpret_cast<uint64_t>(data); }
  /// "allocation 7 (1024 bytes)"
  std::string name() const;
  /// Which zone is damaged and where; empty when none is.
  std::string damage() const;
  void poison();
};

/// All live allocations. Safe from any thread.
class Allocations {
 public:
  /// Null when the device has no room.
  std::shared_ptr<Allocation> make(Place place, size_t bytes, uint64_t context, uint64_t limit);
  /// Maps a part of shared memory of `whole` bytes. Null when that is impossible.
  std::shared_ptr<Allocation> map(int descriptor, size_t whole, size_t offset, size_t bytes,
                                  uint64_t context);
  bool is_mapped(uint64_t from) const;
  /// Forgets the allocation that begins at `address`; null when there is none.
  std::shared_ptr<Allocation> take(uint64_t address, Place place);
  /// The allocation with `address` in it, or at its end.
  std::shared_ptr<Allocation> find(uint64_t address) const;
  /// Whether [address, address + bytes) lies in one allocation.
  std::shared_ptr<Allocation> range(uint64_t address, size_t bytes) const;
  std::vector<std::shared_ptr<Allocation>> all() const;
  /// Changes whenever an allocation is made or goes.
  uint64_t generation() const { return generation_.load(); }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> by_address_;
  std::atomic<uint64_t> generation_{0};
  std::map<uint64_t, uint64_t> device_bytes_;  // by context
  uint64_t ids_ = 0;
};

}  // namespace reprise::standin
