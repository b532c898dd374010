#include "tests/cuda_standin/driver/memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace reprise::standin {
namespace {

constexpr size_t kZone = 512;
constexpr size_t kAlign = 512;
constexpr auto kZoneByte = std::byte{0xC5};

/// Position of the first byte of [begin, end) that is not the pattern's; npos when all are.
constexpr size_t kIntact = ~size_t{0};
size_t first_damaged(const std::byte* begin, size_t bytes) {
  for (size_t n = 0; n < bytes; ++n) {
    if (begin[n] != kZoneByte) return n;
  }
  return kIntact;
}

bool intact(const std::byte* begin) {
  static const auto pattern = [] {
    std::array<std::byte, kZone> p{};
    p.fill(kZoneByte);
    return p;
  }();
  return std::memcmp(begin, pattern.data(), kZone) == 0;
}

}  // namespace

Allocation::~Allocation() {
  std::free(raw);
  if (mapping != nullptr) ::munmap(mapping, mapped_bytes);
}

std::string Allocation::name() const {
  return std::string(place == Place::Host ? "host " : "") + "allocation " + std::to_string(id) +
         " (" + std::to_string(bytes) + " bytes)";
}

std::string Allocation::damage() const {
  if (mapping != nullptr) return "";
  if (!intact(raw)) {
    return std::to_string(kZone - first_damaged(raw, kZone)) + " bytes before " + name();
  }
  if (!intact(data + bytes)) {
    return std::to_string(first_damaged(data + bytes, kZone)) + " bytes behind " + name();
  }
  return "";
}

void Allocation::poison() {
  if (mapping == nullptr) std::memset(data, 0xFF, bytes);
}

std::shared_ptr<Allocation> Allocations::make(Place place, size_t bytes, uint64_t context,
                                              uint64_t limit) {
  const std::lock_guard lock(mutex_);
  if (bytes > (uint64_t{1} << 46)) return nullptr;
  if (place == Place::Device && device_bytes_[context] + bytes > limit) return nullptr;
  const size_t whole = (2 * kZone + bytes + kAlign - 1) / kAlign * kAlign;
  auto* raw = static_cast<std::byte*>(std::aligned_alloc(kAlign, whole));
  if (raw == nullptr) return nullptr;
  auto a = std::make_shared<Allocation>();
  a->id = ++ids_;
  a->context = context;
  a->place = place;
  a->raw = raw;
  a->data = raw + kZone;
  a->bytes = bytes;
  std::memset(raw, static_cast<int>(kZoneByte), kZone);
  std::memset(a->data + bytes, static_cast<int>(kZoneByte), whole - kZone - bytes);
  a->poison();
  if (place == Place::Device) device_bytes_[context] += bytes;
  by_address_[a->address()] = a;
  ++generation_;
  return a;
}

std::shared_ptr<Allocation> Allocations::map(int descriptor, size_t whole, size_t offset,
                                             size_t bytes, uint64_t context) {
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto a = std::make_shared<Allocation>();
  a->context = context;
  a->mapping = static_cast<std::byte*>(memory);
  a->mapped_bytes = whole;
  a->data = a->mapping + offset;
  a->bytes = bytes;
  a->written_outside = true;
  const std::lock_guard lock(mutex_);
  a->id = ++ids_;
  by_address_[a->address()] = a;
  ++generation_;
  return a;
}

bool Allocations::is_mapped(uint64_t from) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, a] : by_address_)
    if (a->mapped_from == from) return true;
  return false;
}

std::shared_ptr<Allocation> Allocations::take(uint64_t address, Place place) {
  const std::lock_guard lock(mutex_);
  const auto it = by_address_.find(address);
  if (it == by_address_.end() || it->second->place != place) return nullptr;
  auto a = it->second;
  by_address_.erase(it);
  if (place == Place::Device && a->mapping == nullptr) device_bytes_[a->context] -= a->bytes;
  ++generation_;
  return a;
}

std::shared_ptr<Allocation> Allocations::find(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto it = by_address_.upper_bound(address);
  if (it == by_address_.begin()) return nullptr;
  --it;
  return address - it->first <= it->second->bytes ? it->second : nullptr;
}

std::shared_ptr<Allocation> Allocations::range(uint64_t address, size_t bytes) const {
  auto a = find(address);
  if (a == nullptr || address - a->address() > a->bytes) return nullptr;
  return a->bytes - (address - a->address()) >= bytes ? a : nullptr;
}

std::vector<std::shared_ptr<Allocation>> Allocations::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Allocation>> list;
  list.reserve(by_address_.size());
  for (const auto& [address, a] : by_address_) list.push_back(a);
  return list;
}

}  // namespace reprise::standin
