// Registers as values of types, and loops over lanes.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/ptx/machine/warp.h"

namespace reprise::test::ptx {

struct FloatFormat {
  int digits, least, most;  // of the significand; exponents of the smallest and largest binade
};
constexpr FloatFormat kHalf{11, -14, 15}, kBrain{8, -126, 127};

/// The nearest number of the format, ties to even, as 16 bits; NaN is 0x7FFF.
uint16_t narrow(double v, const FloatFormat& f);
double widen(uint16_t bits, const FloatFormat& f);
/// a + b, where an inexact sum has an odd last bit, so that it can be rounded once more.
double sum_to_odd(double a, double b);

/// An integer of a type, extended to a register of `width` bytes as its sign demands.
uint64_t fitted(Type t, uint64_t bits, uint32_t width);

template <int kWhich>
struct Small {
  uint16_t bits;
  static constexpr FloatFormat kFormat = kWhich == 0 ? kHalf : kBrain;
  Small() = default;
  explicit Small(double v) : bits(narrow(v, kFormat)) {}
  explicit operator double() const { return widen(bits, kFormat); }
};
using Half = Small<0>;
using Brain = Small<1>;

template <typename T>
T value(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    T out;
    out.bits = static_cast<uint16_t>(bits);
    return out;
  }
}

template <typename T>
uint64_t bits(T v) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(v);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(v);
  } else if constexpr (std::is_same_v<T, bool>) {
    return v ? 1 : 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(v);
  } else {
    return v.bits;
  }
}

/// Applies `op` to the sources, lane by lane.
template <typename T, auto op>
void unary(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = bits(op(value<T>(a[l]))); });
}
template <typename T, auto op>
void binary(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  for_lanes(mask, [&](uint32_t l) { d[l] = bits(op(value<T>(a[l]), value<T>(b[l]))); });
}
template <typename T, auto op>
void ternary(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *c = w.from(i.from[2]);
  for_lanes(mask,
            [&](uint32_t l) { d[l] = bits(op(value<T>(a[l]), value<T>(b[l]), value<T>(c[l]))); });
}

}  // namespace reprise::test::ptx
