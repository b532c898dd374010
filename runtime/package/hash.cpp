#include <xxhash.h>

#include <chrono>
#include <exception>
#include <new>
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

uint64_t process_seed() {
  static const uint64_t seed = random_seed();
  return seed;
}

}  // namespace

std::array<uint64_t, 2> keyed_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), process_seed());
  return {hash.low64, hash.high64};
}

struct PieceHash::State {
  XXH3_state_t* plain = XXH3_createState();
  XXH3_state_t* keyed = XXH3_createState();
};

PieceHash::PieceHash() : state_(std::make_unique<State>()) {
  if (!state_->plain || !state_->keyed) throw std::bad_alloc();
  XXH3_64bits_reset(state_->plain);
  XXH3_128bits_reset_withSeed(state_->keyed, process_seed());
}

PieceHash::~PieceHash() {
  XXH3_freeState(state_->plain);
  XXH3_freeState(state_->keyed);
}

void PieceHash::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->plain, bytes.data(), bytes.size());
  XXH3_128bits_update(state_->keyed, bytes.data(), bytes.size());
}

uint64_t PieceHash::plain() const {
  return XXH3_64bits_digest(state_->plain);
}

std::array<uint64_t, 2> PieceHash::keyed() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->keyed);
  return {hash.low64, hash.high64};
}

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace reprise::package
