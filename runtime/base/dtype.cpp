#include "runtime/base/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

namespace reprise {
namespace {

struct TypeRow {
  std::string_view name;
  uint8_t size;  // bytes in memory
  uint8_t bits;
  int32_t onnx;  // TensorProto.DataType
};

constexpr std::array<TypeRow, 25> kTypes{{{"invalid", 0, 0, 0},
                                          {"float32", 4, 32, 1},
                                          {"float16", 2, 16, 10},
                                          {"bfloat16", 2, 16, 16},
                                          {"float64", 8, 64, 11},
                                          {"int8", 1, 8, 3},
                                          {"uint8", 1, 8, 2},
                                          {"int16", 2, 16, 5},
                                          {"uint16", 2, 16, 4},
                                          {"int32", 4, 32, 6},
                                          {"uint32", 4, 32, 12},
                                          {"int64", 8, 64, 7},
                                          {"uint64", 8, 64, 13},
                                          {"bool", 1, 8, 9},
                                          {"string", 0, 0, 8},
                                          {"int4", 1, 4, 22},
                                          {"uint4", 1, 4, 21},
                                          {"int2", 1, 2, 26},
                                          {"uint2", 1, 2, 25},
                                          {"float8_e4m3fn", 1, 8, 17},
                                          {"float8_e4m3fnuz", 1, 8, 18},
                                          {"float8_e5m2", 1, 8, 19},
                                          {"float8_e5m2fnuz", 1, 8, 20},
                                          {"float4_e2m1fn", 1, 4, 23},
                                          {"float8_e8m0fnu", 1, 8, 24}}};

const TypeRow& row(DType t) {
  const auto i = static_cast<size_t>(t);
  return i < kTypes.size() ? kTypes[i] : kTypes[0];
}

struct ContainerRow {
  std::string_view before, after;  // the name of the element type
  Container item;
};

constexpr std::array<ContainerRow, 8> kContainers{
    {{"", "", Container::None},
     {"seq(", ")", Container::None},
     {"optional(", ")", Container::None},
     {"optional(seq(", "))", Container::Sequence},
     {"map(int64,", ")", Container::None},
     {"map(string,", ")", Container::None},
     {"seq(map(int64,", "))", Container::IntMap},
     {"seq(map(string,", "))", Container::StringMap}}};

const ContainerRow& container_row(DType t) {
  return kContainers[static_cast<size_t>(container_of(t))];
}

/// The names of all containers, by number.
std::array<std::string, 256> container_names() {
  std::array<std::string, 256> names;
  for (size_t i = 32; i < names.size(); ++i) {
    const auto t = static_cast<DType>(i);
    const ContainerRow& c = container_row(t);
    names[i].append(c.before).append(row(element_of(t)).name).append(c.after);
  }
  return names;
}

}  // namespace

bool is_dtype(uint8_t number) {
  return (number & 31) > 0 && (number & 31) < kTypes.size();
}

DType item_type_of(DType t) {
  const Container c = container_of(t);
  if (c == Container::None || c == Container::IntMap || c == Container::StringMap)
    return DType::Invalid;
  return in_container(container_row(t).item, element_of(t));
}

size_t size_of(DType t) {
  return row(t).size;
}

int bits_of(DType t) {
  return row(t).bits;
}

std::string_view name_of(DType t) {
  if (!is_container(t)) return row(t).name;
  static const std::array<std::string, 256> names = container_names();
  return names[static_cast<size_t>(t)];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const size_t end = name.ends_with(')') ? 256 : kTypes.size();
  for (size_t i = 1; i < end; ++i) {
    const auto t = static_cast<DType>(i);
    if (is_dtype(static_cast<uint8_t>(i)) && name_of(t) == name) return t;
  }
  return std::nullopt;
}

int32_t onnx_number_of(DType t) {
  return row(t).onnx;
}

DType dtype_with_onnx_number(int64_t number) {
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].onnx == number) return static_cast<DType>(i);
  }
  return DType::Invalid;
}

bool is_float(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16 || t == DType::F64;
}

bool is_int(DType t) {
  return t >= DType::I8 && t <= DType::U64;
}

bool is_signed_int(DType t) {
  return t == DType::I8 || t == DType::I16 || t == DType::I32 || t == DType::I64;
}

bool is_low_bit(DType t) {
  return t >= DType::I4 && t <= DType::F8E8M0;
}

DType carrier_of(DType t) {
  if (t == DType::I4 || t == DType::I2) return DType::I8;
  return is_low_bit(t) ? DType::U8 : t;
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  // Zero and subnormals: mantissa * 2^-24 is exact.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    // Set the quiet bit, so that a NaN whose payload is in the dropped bits does not become
    // infinity.
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal half
    // Adding 0.5 aligns the unit of the sum's last place with 2^-24 and rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t rounded = magnitude - (112u << 23) + 0xfffu + odd;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float to_float_odd(double v) {
  const float f = static_cast<float>(v);
  if (std::isnan(v) || static_cast<double>(f) == v) return f;
  const float truncated =
      std::fabs(static_cast<double>(f)) > std::fabs(v) ? std::nextafter(f, 0.0F) : f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(truncated) | 1U);
}

uint16_t double_to_f16(double v) {
  return float_to_f16(to_float_odd(v));
}

uint16_t double_to_bf16(double v) {
  return float_to_bf16(to_float_odd(v));
}

}  // namespace reprise
