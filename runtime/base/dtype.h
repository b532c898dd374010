// Element types of tensors. Elements are stored as in ONNX TensorProto.raw_data: little endian and
// packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// Values are written into packages: never renumber.
enum class DType : uint8_t {
  Invalid = 0,
  F32 = 1,
  F16 = 2,
  BF16 = 3,
  F64 = 4,
  I8 = 5,
  U8 = 6,
  I16 = 7,
  U16 = 8,
  I32 = 9,
  U32 = 10,
  I64 = 11,
  U64 = 12,
  Bool = 13,    // one byte, 0 or 1
  String = 14,  // host only
};

/// Bytes of one element in memory; 0 for String and Invalid.
size_t size_of(DType t);
/// The name as NumPy spells it, such as "float32"; "bfloat16" and "string" for dtypes that NumPy
/// lacks.
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);
bool is_float(DType t);
/// Signed or unsigned integer; Bool is not one.
bool is_int(DType t);
bool is_signed_int(DType t);

// Conversions between the bits in memory and float. They round to nearest even and keep NaN.
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float v);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float v);

}  // namespace reprise
