// Random numbers that are the same on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/random.h"

namespace reprise::test {

/// splitmix64.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(seed) {}
  /// A stream of its own for a name.
  RandomSource(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }

  uint64_t next() { return splitmix64(state_); }
  /// From low to high, both included.
  int64_t in(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double real(double low, double high) { return low + (high - low) * unit(); }
  bool chance(double probability) { return unit() < probability; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(next() % from.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace reprise::test
