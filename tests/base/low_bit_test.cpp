// Low-bit types against definitions that are slow and independent: tables of numbers, from which
// the nearest is searched.
#include "runtime/base/low_bit.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace reprise {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A type with the numbers of its codes without sign, in order.
struct Format {
  DType dtype;
  int sign;                     // the code of the sign's bit
  std::vector<double> numbers;  // finite
  uint8_t nan, beyond;  // what NaN becomes, and a number beyond the range without saturation
  bool signed_zero;
};

/// 2^first * {0, 1/2^m, 2/2^m, ...}, then numbers with a leading one, as in IEEE 754.
std::vector<double> numbers(int first, int mantissa, int count) {
  std::vector<double> out;
  const int per_binade = 1 << mantissa;
  for (int i = 0; i < count; ++i) {
    const int binade = i / per_binade;
    const double fraction = static_cast<double>(i % per_binade) / per_binade;
    out.push_back(binade == 0 ? std::pow(2.0, first) * fraction
                              : std::pow(2.0, first + binade - 1) * (1 + fraction));
  }
  return out;
}

std::vector<Format> formats() {
  return {{DType::F8E4M3FN, 0x80, numbers(-6, 3, 0x7f), 0x7f, 0x7f, true},
          {DType::F8E4M3FNUZ, 0x80, numbers(-7, 3, 0x80), 0x80, 0x80, false},
          {DType::F8E5M2, 0x80, numbers(-14, 2, 0x7c), 0x7e, 0x7c, true},
          {DType::F8E5M2FNUZ, 0x80, numbers(-15, 2, 0x80), 0x80, 0x80, false},
          {DType::F4E2M1, 0x8, numbers(0, 1, 0x8), 0x8, 0x7, true}};
}

constexpr DType kIntegers[] = {DType::I4, DType::U4, DType::I2, DType::U2};

TEST(LowBit, LargestNumbers) {
  const double largest[] = {448, 240, 57344, 57344, 6};
  for (size_t i = 0; i < formats().size(); ++i)
    EXPECT_EQ(formats()[i].numbers.back(), largest[i]) << name_of(formats()[i].dtype);
}

TEST(LowBit, EveryCode) {
  for (const Format& f : formats()) {
    for (int code = 0; code < 2 * f.sign; ++code) {
      const auto magnitude = static_cast<size_t>(code % f.sign);
      const bool negative = code >= f.sign;
      const float v = low_bit_to_float(f.dtype, static_cast<uint8_t>(code));
      SCOPED_TRACE(std::string(name_of(f.dtype)) + " " + std::to_string(code));
      if (!f.signed_zero && code == f.sign) {
        EXPECT_TRUE(std::isnan(v));
      } else if (magnitude < f.numbers.size()) {
        EXPECT_EQ(v, negative ? -f.numbers[magnitude] : f.numbers[magnitude]);
        EXPECT_EQ(std::signbit(v), negative);
      } else if (magnitude == 0x7c) {
        EXPECT_EQ(v, negative ? -kInf : kInf);
      } else {
        EXPECT_TRUE(std::isnan(v));
      }
    }
  }
}

/// The code of a positive number by search: the nearest, ties to the even code, and beyond the
/// midpoint between the largest and what would follow it, out of range.
uint8_t searched(const Format& f, double v, bool saturate) {
  const size_t n = f.numbers.size();
  const double largest = f.numbers[n - 1], step = largest - f.numbers[n - 2];
  const bool even = (n - 1) % 2 == 0;
  if (v > largest + step / 2 || (v == largest + step / 2 && !even))
    return saturate ? static_cast<uint8_t>(n - 1) : f.beyond;
  size_t best = 0;
  for (size_t i = 0; i < n; ++i) {
    const double is = std::fabs(f.numbers[i] - v), was = std::fabs(f.numbers[best] - v);
    if (is < was || (is == was && i % 2 == 0)) best = i;
  }
  return static_cast<uint8_t>(best);
}

/// Each number, each midpoint and their neighbours in float32, and what is far outside.
std::vector<float> interesting(const Format& f) {
  std::vector<float> out{0, 1e-30F, 1e-45F, 1e30F, 3e38F, kInf};
  for (size_t i = 0; i < f.numbers.size(); ++i) {
    const double next =
        i + 1 < f.numbers.size() ? f.numbers[i + 1] : 2 * f.numbers[i] - f.numbers[i - 1];
    for (const double v : {f.numbers[i], (f.numbers[i] + next) / 2, next}) {
      const auto exact = static_cast<float>(v);
      out.insert(out.end(), {exact, std::nextafter(exact, 0.0F), std::nextafter(exact, kInf)});
    }
  }
  return out;
}

TEST(LowBit, RoundsToNearestEven) {
  for (const Format& f : formats()) {
    for (const float v : interesting(f)) {
      for (const bool saturate : {true, false}) {
        const uint8_t want = searched(f, v, saturate);
        const bool zero = want == 0 && !f.signed_zero;
        const uint8_t minus = zero ? uint8_t{0} : static_cast<uint8_t>(want | f.sign);
        ASSERT_EQ(low_bit_from_float(f.dtype, v, {.saturate = saturate}), want)
            << name_of(f.dtype) << " " << v << " saturate " << saturate;
        ASSERT_EQ(low_bit_from_float(f.dtype, -v, {.saturate = saturate}), minus)
            << name_of(f.dtype) << " " << -v << " saturate " << saturate;
      }
    }
    EXPECT_EQ(low_bit_from_float(f.dtype, kNan), f.nan) << name_of(f.dtype);
    EXPECT_EQ(low_bit_from_float(f.dtype, kNan, {.saturate = false}), f.nan) << name_of(f.dtype);
  }
}

TEST(LowBit, PowersOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const auto v = static_cast<float>(std::pow(2.0, code - 127));
    EXPECT_EQ(low_bit_to_float(DType::F8E8M0, static_cast<uint8_t>(code)), v);
    for (const auto power : {PowerRounding::Up, PowerRounding::Down, PowerRounding::Nearest})
      EXPECT_EQ(low_bit_from_float(DType::F8E8M0, v, {.power = power}), code);
    if (code == 254) continue;
    const auto from = [&](float x, PowerRounding power) {
      return int{low_bit_from_float(DType::F8E8M0, x, {.power = power})};
    };
    for (const float x : {std::nextafter(v, kInf), 1.25F * v, std::nextafter(1.5F * v, 0.0F),
                          1.5F * v, std::nextafter(2 * v, 0.0F)}) {
      EXPECT_EQ(from(x, PowerRounding::Up), code + 1) << x;
      EXPECT_EQ(from(x, PowerRounding::Down), code) << x;
      EXPECT_EQ(from(x, PowerRounding::Nearest), code + (x >= 1.5F * v ? 1 : 0)) << x;
    }
  }
}

TEST(LowBit, PowersOfTwoOutOfRange) {
  struct Row {
    float v;
    int saturated, other;
  };
  const Row rows[] = {{0, 0, 255},      {-0.0F, 0, 255},        {0x1p-128F, 0, 255},
                      {1e-45F, 0, 255}, {0x1.1p127F, 254, 255}, {kInf, 254, 255},
                      {kNan, 255, 255}, {-1, 255, 255},         {-kInf, 255, 255}};
  for (const Row& r : rows) {
    for (const auto power : {PowerRounding::Up, PowerRounding::Down, PowerRounding::Nearest}) {
      EXPECT_EQ(low_bit_from_float(DType::F8E8M0, r.v, {true, power}), r.saturated) << r.v;
      EXPECT_EQ(low_bit_from_float(DType::F8E8M0, r.v, {false, power}), r.other) << r.v;
    }
  }
  EXPECT_TRUE(std::isnan(low_bit_to_float(DType::F8E8M0, 255)));
}

TEST(LowBit, IntegersKeepTheirLowBits) {
  for (const DType t : kIntegers) {
    const int count = 1 << bits_of(t);
    const int least = t == DType::I4 || t == DType::I2 ? -count / 2 : 0;
    for (int v = -300; v < 300; ++v) {
      int want = v;
      while (want < least) want += count;
      while (want >= least + count) want -= count;
      const uint8_t code = low_bit_from_int(t, v);
      EXPECT_EQ(code, static_cast<uint8_t>(want)) << name_of(t) << " " << v;
      EXPECT_EQ(low_bit_from_float(t, static_cast<float>(v)), code);
      EXPECT_EQ(low_bit_to_int(t, code), want);
      EXPECT_EQ(low_bit_to_float(t, code), static_cast<float>(want));
    }
    EXPECT_EQ(low_bit_from_float(t, 1.9F), 1);
    EXPECT_EQ(low_bit_from_float(t, -0.9F), 0);
    EXPECT_EQ(low_bit_from_float(t, kNan), 0);
    EXPECT_EQ(low_bit_from_float(t, -kInf), 0);
  }
}

TEST(LowBit, UpperBitsOfAByteAreIgnored) {
  EXPECT_EQ(low_bit_to_int(DType::U4, 0xf3), 3);
  EXPECT_EQ(low_bit_to_int(DType::I4, 0x2f), -1);
  EXPECT_EQ(low_bit_to_int(DType::I2, 0x01), 1);
  EXPECT_EQ(low_bit_to_float(DType::F4E2M1, 0x71), 0.5F);
}

TEST(LowBit, Packing) {
  // In bytes, the first element in the lowest bits.
  const std::array<std::byte, 3> packed{std::byte{0x1f}, std::byte{0x87}, std::byte{0x03}};
  struct Row {
    DType dtype;
    std::vector<int> elements;
  };
  const Row rows[] = {{DType::I4, {-1, 1, 7, -8, 3}},
                      {DType::U4, {15, 1, 7, 8, 3}},
                      {DType::F4E2M1, {15, 1, 7, 8, 3}},
                      {DType::U2, {3, 3, 1, 0, 3, 1, 0, 2, 3}},
                      {DType::I2, {-1, -1, 1, 0, -1, 1, 0, -2, -1}}};
  for (const Row& r : rows) {
    ASSERT_EQ(packed_size(r.dtype, r.elements.size()), 3u);
    std::vector<std::byte> elements(r.elements.size());
    unpack_elements(r.dtype, packed, elements);
    for (size_t i = 0; i < elements.size(); ++i)
      EXPECT_EQ(elements[i], static_cast<std::byte>(r.elements[i])) << name_of(r.dtype) << i;
    std::array<std::byte, 3> again{};
    pack_elements(r.dtype, elements, again);
    EXPECT_EQ(again, packed) << name_of(r.dtype);
  }
  EXPECT_EQ(packed_size(DType::I4, 0), 0u);
  EXPECT_EQ(packed_size(DType::F8E5M2, 3), 3u);
  EXPECT_EQ(packed_size(DType::F32, 3), 12u);
}

}  // namespace
}  // namespace reprise
