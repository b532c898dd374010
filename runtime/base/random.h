// A pseudorandom number generator whose numbers are the same on every platform.
#pragma once

#include <cstdint>

namespace reprise {

/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). Advances
/// `state` and returns the next number.
inline uint64_t splitmix64(uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace reprise
