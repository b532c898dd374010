// Element types of tensors. Elements are little endian and lie in memory as in ONNX
// TensorProto.raw_data, with one exception: types of 2 and 4 bits have a byte for each element
// here, so that no code but the readers and writers of TensorProto (codegen/onnx) needs to know of
// elements that share a byte.
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
  // Low-bit types, each in one byte: see is_low_bit().
  I4 = 15,
  U4 = 16,
  I2 = 17,
  U2 = 18,
  F8E4M3FN = 19,
  F8E4M3FNUZ = 20,
  F8E5M2 = 21,
  F8E5M2FNUZ = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
};

/// What a value holds that is no tensor but a container of tensors. Only the host has such values
/// (HostTensor::items()). The upper three bits of a DType are the container, the lower five the
/// type of the elements of its tensors.
enum class Container : uint8_t {
  None,
  Sequence,
  Optional,          // of a tensor
  OptionalSequence,  // of a sequence of tensors
  IntMap,            // from int64
  StringMap,         // from strings
  SequenceOfIntMaps,
  SequenceOfStringMaps,
};
constexpr Container container_of(DType t) {
  return static_cast<Container>(static_cast<uint8_t>(t) >> 5);
}
/// The type of the elements of the tensors in a container; of a map, that of its values.
constexpr DType element_of(DType t) {
  return static_cast<DType>(static_cast<uint8_t>(t) & 31);
}
constexpr bool is_container(DType t) {
  return container_of(t) != Container::None;
}
constexpr DType in_container(Container c, DType element) {
  return static_cast<DType>((static_cast<uint8_t>(c) << 5) | static_cast<uint8_t>(element));
}
/// The type of what a container holds: a tensor's, a sequence's or a map's. Invalid for a map,
/// which holds two tensors: its keys and its values.
DType item_type_of(DType t);
constexpr bool is_optional(DType t) {
  return container_of(t) == Container::Optional || container_of(t) == Container::OptionalSequence;
}
/// Strings and containers, which no device has.
constexpr bool is_host_only(DType t) {
  return t == DType::String || is_container(t);
}

/// Whether the number is that of a dtype that values can have.
bool is_dtype(uint8_t number);
/// Bytes of one element in memory; 0 for String, containers and Invalid.
size_t size_of(DType t);
/// Bits of one element, of which a byte in memory may have more; 0 where size_of() is.
int bits_of(DType t);
/// The name as NumPy spells it, such as "float32"; for dtypes that NumPy lacks, as its extension
/// ml_dtypes does, such as "bfloat16" and "float8_e5m2"; "string"; "seq(float32)",
/// "optional(seq(int64))", "map(string,float32)".
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);
/// The number of the dtype in ONNX's TensorProto.DataType; 0 for Invalid and containers.
int32_t onnx_number_of(DType t);
/// Invalid if ONNX gives the number to no dtype of ours.
DType dtype_with_onnx_number(int64_t number);
/// A float type or an integer type that operators compute with. Low-bit types are neither.
bool is_float(DType t);
/// Signed or unsigned integer; Bool is not one.
bool is_int(DType t);
bool is_signed_int(DType t);
/// Types that exist to make weights small. Operators move them, and convert them to types that they
/// compute with (runtime/base/low_bit.h), but do not compute with them. An integer's upper bits in
/// its byte repeat its sign or are zero. A reader ignores them, because files may lie.
bool is_low_bit(DType t);
/// The dtype with the same bytes in memory that operators compute with: I8 for I4 and I2, U8 for
/// the other low-bit types. Any other dtype is its own.
DType carrier_of(DType t);

// Conversions between the bits in memory and float. They round to nearest even and keep NaN.
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float v);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float v);
// These round once.
uint16_t double_to_f16(double v);
uint16_t double_to_bf16(double v);
/// Rounds to odd: truncates an inexact result and sets its last bit. A second rounding to fewer
/// bits then gives the same as rounding once.
float to_float_odd(double v);

}  // namespace reprise
