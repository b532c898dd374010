// The low-bit element types (is_low_bit()): what their codes mean, and conversions to and from
// them. The kernels of devices follow the same tables (codegen/ops/row/low_bit.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/dtype.h"

namespace reprise {

/// A float of up to 8 bits. From the highest bit down: a sign, the exponent and the mantissa. As in
/// IEEE 754, exponent 0 marks zero and subnormals.
struct LowBitFloat {
  int exponent_bits, mantissa_bits, bias;
  uint8_t largest;    // the code of the largest finite number
  uint8_t nan;        // what NaN becomes; the sign is added
  uint8_t beyond;     // what a number beyond the largest becomes without saturation
  uint8_t least_nan;  // codes without sign from here on are NaN; 0x80 if there are none
  bool signed_zero;   // otherwise the code of -0 is the one NaN
};

/// The format of the type; empty for integers and for F8E8M0, which has only an exponent.
std::optional<LowBitFloat> low_bit_float(DType t);
/// Whether the type has fewer than 8 bits, so that several elements can share a byte.
bool shares_bytes(DType t);
/// I4, U4, I2 or U2.
bool is_low_bit_int(DType t);
bool is_signed_low_bit_int(DType t);

/// How numbers between two powers of two are converted to F8E8M0; ties of Nearest go up.
enum class PowerRounding : uint8_t { Up, Down, Nearest };
/// The value of ONNX's attribute round_mode; empty if it is none.
std::optional<PowerRounding> power_rounding(std::string_view round_mode);

struct LowBitRules {
  bool saturate = true;  // numbers beyond the range become the nearest end of it
  PowerRounding power = PowerRounding::Up;
};

/// Rounds to nearest even as the tables of ONNX's Cast state. Integers are truncated towards zero,
/// and then keep their low bits. F8E8M0 has no negative numbers: they become NaN.
uint8_t low_bit_from_float(DType t, float v, LowBitRules rules = {});
/// For integers: keeps the low bits.
uint8_t low_bit_from_int(DType t, int64_t v);
/// Exact.
float low_bit_to_float(DType t, uint8_t code);
/// For integers.
int low_bit_to_int(DType t, uint8_t code);

// Elements as in ONNX TensorProto.raw_data: those of 2 and 4 bits share bytes, the first in the
// lowest bits.
uint64_t packed_size(DType t, uint64_t count);
/// `packed` has packed_size() bytes and `elements` one for each element.
void unpack_elements(DType t, std::span<const std::byte> packed, std::span<std::byte> elements);
void pack_elements(DType t, std::span<const std::byte> elements, std::span<std::byte> packed);

}  // namespace reprise
