#include "runtime/base/low_bit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace reprise {

namespace {

constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint8_t kPowerNan = 255;

/// Rounds the bits of a positive float, which is no NaN, to the format. The code may be above the
/// largest.
uint32_t rounded(const LowBitFloat& f, uint32_t magnitude) {
  const auto exponent = static_cast<int>(magnitude >> 23);
  const int least = 128 - f.bias;  // of a normal number
  const int kept = std::max(exponent, least);
  // A shift of 25 makes anything 0. Subnormal floats lack the bit that is set here, but are shifted
  // out as well.
  const int shift = std::min(23 - f.mantissa_bits + kept - exponent, 25);
  const uint32_t full = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t odd = (full >> shift) & 1u;
  const uint32_t mantissa = (full + (1u << (shift - 1)) - 1 + odd) >> shift;
  // A normal mantissa contains the leading one, which counts the exponent up.
  return (static_cast<uint32_t>(kept - least) << f.mantissa_bits) + mantissa;
}

uint8_t float_code(const LowBitFloat& f, float v, bool saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code = magnitude > kInfinity ? f.nan : rounded(f, magnitude);
  if (magnitude <= kInfinity && code > f.largest) code = saturate ? f.largest : f.beyond;
  if (code == 0 && !f.signed_zero) return 0;
  return static_cast<uint8_t>(code | (bits >> 31) << (f.exponent_bits + f.mantissa_bits));
}

uint8_t power_code(float v, LowBitRules rules) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(v) & 0x7fffffffu;
  if (std::isnan(v) || v < 0) return kPowerNan;
  constexpr uint32_t kLeast = 0x400000u;  // 2^-127, a subnormal
  constexpr uint32_t kMost = 0x7f000000u;
  if (magnitude < kLeast) return rules.saturate ? 0 : kPowerNan;
  if (magnitude > kMost) return rules.saturate ? 254 : kPowerNan;
  switch (rules.power) {
    case PowerRounding::Up:
      if (magnitude <= kLeast) return 0;
      return static_cast<uint8_t>(magnitude < 0x800000u ? 1 : (magnitude + 0x7fffffu) >> 23);
    case PowerRounding::Down:
      return static_cast<uint8_t>(magnitude >> 23);
    case PowerRounding::Nearest:
      if (magnitude < 0x800000u) return magnitude >= 0x600000u ? 1 : 0;
      return static_cast<uint8_t>((magnitude + 0x400000u) >> 23);
  }
  return kPowerNan;
}

}  // namespace

std::optional<LowBitFloat> low_bit_float(DType t) {
  switch (t) {
    case DType::F8E4M3FN:
      return LowBitFloat{4, 3, 7, 0x7e, 0x7f, 0x7f, 0x7f, true};
    case DType::F8E4M3FNUZ:
      return LowBitFloat{4, 3, 8, 0x7f, 0x80, 0x80, 0x80, false};
    case DType::F8E5M2:
      return LowBitFloat{5, 2, 15, 0x7b, 0x7e, 0x7c, 0x7d, true};
    case DType::F8E5M2FNUZ:
      return LowBitFloat{5, 2, 16, 0x7f, 0x80, 0x80, 0x80, false};
    case DType::F4E2M1:  // has neither NaN nor infinity: ONNX converts NaN to -0
      return LowBitFloat{2, 1, 1, 0x7, 0x8, 0x7, 0x80, true};
    default:
      return std::nullopt;
  }
}

bool is_low_bit_int(DType t) {
  return t >= DType::I4 && t <= DType::U2;
}

bool is_signed_low_bit_int(DType t) {
  return t == DType::I4 || t == DType::I2;
}

std::optional<PowerRounding> power_rounding(std::string_view round_mode) {
  if (round_mode == "up") return PowerRounding::Up;
  if (round_mode == "down") return PowerRounding::Down;
  if (round_mode == "nearest") return PowerRounding::Nearest;
  return std::nullopt;
}

uint8_t low_bit_from_float(DType t, float v, LowBitRules rules) {
  if (const auto f = low_bit_float(t)) return float_code(*f, v, rules.saturate);
  if (t == DType::F8E8M0) return power_code(v, rules);
  if (std::isnan(v)) return 0;
  // As in the kernels of devices, which convert to 32 bits.
  if (v >= 0x1p31F) return low_bit_from_int(t, std::numeric_limits<int32_t>::max());
  if (v < -0x1p31F) return low_bit_from_int(t, std::numeric_limits<int32_t>::min());
  return low_bit_from_int(t, static_cast<int64_t>(v));
}

uint8_t low_bit_from_int(DType t, int64_t v) {
  return static_cast<uint8_t>(low_bit_to_int(t, static_cast<uint8_t>(v)));
}

float low_bit_to_float(DType t, uint8_t code) {
  if (t == DType::F8E8M0) {
    if (code == kPowerNan) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(1.0F, int{code} - 127);
  }
  const auto format = low_bit_float(t);
  if (!format) return static_cast<float>(low_bit_to_int(t, code));
  const LowBitFloat& f = *format;
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const bool negative = ((code >> sign_at) & 1) != 0;
  const int magnitude = code & ((1 << sign_at) - 1);
  if (magnitude >= f.least_nan || (negative && magnitude == 0 && !f.signed_zero))
    return std::copysign(std::numeric_limits<float>::quiet_NaN(),
                         negative && f.signed_zero ? -1.0F : 1.0F);
  const int exponent = magnitude >> f.mantissa_bits;
  const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  float v = std::numeric_limits<float>::infinity();
  if (magnitude <= f.largest) {
    const int significand = exponent == 0 ? fraction : fraction + (1 << f.mantissa_bits);
    v = std::ldexp(static_cast<float>(significand),
                   std::max(exponent, 1) - f.bias - f.mantissa_bits);
  }
  return negative ? -v : v;
}

int low_bit_to_int(DType t, uint8_t code) {
  const int bits = bits_of(t);
  const int low = code & ((1 << bits) - 1);
  return is_signed_low_bit_int(t) && (low >> (bits - 1)) != 0 ? low - (1 << bits) : low;
}

bool shares_bytes(DType t) {
  return is_low_bit(t) && bits_of(t) < 8;
}

uint64_t packed_size(DType t, uint64_t count) {
  const auto bits = static_cast<uint64_t>(bits_of(t));
  return bits >= 8 ? count * size_of(t) : (count * bits + 7) / 8;
}

// Each byte stands for the same elements wherever it occurs.
void unpack_elements(DType t, std::span<const std::byte> packed, std::span<std::byte> elements) {
  const auto bits = static_cast<size_t>(bits_of(t));
  const size_t per_byte = 8 / bits;
  const auto element = [&](unsigned byte, size_t i) {
    const auto code = static_cast<uint8_t>((byte >> (i * bits)) & ((1U << bits) - 1));
    return static_cast<std::byte>(is_low_bit_int(t) ? low_bit_from_int(t, int64_t{code}) : code);
  };
  constexpr size_t kFew = 1024;  // elements, for which the table would take longer
  if (elements.size() < kFew) {
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = element(std::to_integer<unsigned>(packed[i / per_byte]), i % per_byte);
    return;
  }
  std::array<std::array<std::byte, 4>, 256> known{};
  for (unsigned byte = 0; byte < known.size(); ++byte)
    for (size_t i = 0; i < per_byte; ++i) known[byte][i] = element(byte, i);
  for (size_t i = 0; i < elements.size(); i += per_byte) {
    const auto& from = known[std::to_integer<uint8_t>(packed[i / per_byte])];
    std::copy_n(from.begin(), std::min(per_byte, elements.size() - i), elements.data() + i);
  }
}

void pack_elements(DType t, std::span<const std::byte> elements, std::span<std::byte> packed) {
  const auto bits = static_cast<size_t>(bits_of(t));
  const size_t per_byte = 8 / bits;
  std::fill(packed.begin(), packed.end(), std::byte{0});
  for (size_t i = 0; i < elements.size(); ++i) {
    const unsigned code = std::to_integer<unsigned>(elements[i]) & ((1U << bits) - 1);
    packed[i / per_byte] |= static_cast<std::byte>(code << (i % per_byte * bits));
  }
}

}  // namespace reprise
