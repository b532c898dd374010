// An operation of matrix units, as kernels require it and devices offer it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The type of the elements of a matrix operand. Values are written into packages: never renumber.
enum class MmaType : uint8_t {
  F16 = 0,
  BF16 = 1,
  F32 = 2,
  TF32 = 3,  // F32 in memory, of which the operation reads 10 bits of the mantissa
  E4M3 = 4,  // 8-bit floats
  E5M2 = 5,
  I8 = 6,
  U8 = 7,
  I32 = 8,
};
bool is_mma_type(uint8_t number);
/// "fp16", "bf16", "fp32", "tf32", "fp8 e4m3", "fp8 e5m2", "int8", "uint8", "int32".
std::string_view name_of(MmaType t);

/// Whose invocations hold the matrices together. Values are written into packages.
enum class MmaScope : uint8_t {
  Subgroup = 0,
  Team = 1,  // four subgroups (a warpgroup)
  Workgroup = 2,
};

/// The types of the operands A and B, and of the sum.
struct MmaTypes {
  MmaType a = MmaType::F16, b = MmaType::F16, sum = MmaType::F32;
  friend bool operator==(const MmaTypes&, const MmaTypes&) = default;
};
inline constexpr MmaTypes kHalfMma{MmaType::F16, MmaType::F16, MmaType::F32};
inline constexpr MmaTypes kBfloatMma{MmaType::BF16, MmaType::BF16, MmaType::F32};
/// Kernels multiply operands of F32 as three products of these (kernel/semantics.md).
inline constexpr MmaTypes kSplitMma{MmaType::TF32, MmaType::TF32, MmaType::F32};

/// One operation adds the product of an m x k matrix A and a k x n matrix B to an m x n sum.
struct MmaConfig {
  uint32_t m = 0, n = 0, k = 0;
  MmaTypes types = {};
  MmaScope scope = MmaScope::Subgroup;
  uint32_t invocations = 0;  // of the workgroup that holds the matrices; 0 for other scopes

  explicit operator bool() const { return m != 0; }
  /// For people: "16x16x16 in fp16 with fp32 sums".
  std::string str() const;
  friend bool operator==(const MmaConfig&, const MmaConfig&) = default;
};

inline bool contains(std::span<const MmaConfig> all, const MmaConfig& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace reprise
