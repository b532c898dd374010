// XXH64, seed 0, after its public specification.
#include <bit>
#include <cstring>

#include "runtime/package/package.h"

namespace reprise::package {
namespace {

constexpr uint64_t kPrime1 = 11400714785074694791u;
constexpr uint64_t kPrime2 = 14029467366897019727u;
constexpr uint64_t kPrime3 = 1609587929392839161u;
constexpr uint64_t kPrime4 = 9650029242287828579u;
constexpr uint64_t kPrime5 = 2870177450012600261u;

template <typename T>
T load(const std::byte* p) {
  static_assert(std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

uint64_t round(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = kPrime5;
  if (left >= 32) {
    uint64_t lanes[4] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
    for (; left >= 32; left -= 32) {
      for (uint64_t& lane : lanes) {
        lane = round(lane, load<uint64_t>(p));
        p += 8;
      }
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const uint64_t lane : lanes) hash = merge(hash, lane);
  }
  hash += bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    hash = std::rotl(hash ^ round(0, load<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(p) * kPrime1, 23) * kPrime2 + kPrime3;
    left -= 4;
    p += 4;
  }
  for (; left > 0; --left, ++p) {
    hash = std::rotl(hash ^ load<uint8_t>(p) * kPrime5, 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace reprise::package
