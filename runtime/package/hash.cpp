#include <xxhash.h>

#include <chrono>
#include <exception>
#include <random>

#include "runtime/package/package.h"

namespace reprise::package {
namespace {

uint64_t random_seed() {
  try {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  } catch (const std::exception&) {  // the system has no source of random numbers
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
}

}  // namespace

std::array<uint64_t, 2> keyed_hash(std::span<const std::byte> bytes) {
  static const uint64_t seed = random_seed();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace reprise::package
