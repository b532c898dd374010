// The C++ types in which tensors store their elements.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"

namespace reprise {

// Distinct types for element types that C++20 lacks, so that overloads and templates can tell them
// apart.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct Bool8 {
  uint8_t bits;
};

/// Calls f with a value of the type in which elements of `t` are stored. Does not call f for String
/// and Invalid, which have no such type, and for low-bit types: see runtime/base/low_bit.h.
template <typename F>
void with_storage(DType t, F&& f) {
  switch (t) {
    case DType::F32:
      return f(float{});
    case DType::F16:
      return f(F16{});
    case DType::BF16:
      return f(BF16{});
    case DType::F64:
      return f(double{});
    case DType::I8:
      return f(int8_t{});
    case DType::U8:
      return f(uint8_t{});
    case DType::I16:
      return f(int16_t{});
    case DType::U16:
      return f(uint16_t{});
    case DType::I32:
      return f(int32_t{});
    case DType::U32:
      return f(uint32_t{});
    case DType::I64:
      return f(int64_t{});
    case DType::U64:
      return f(uint64_t{});
    case DType::Bool:
      return f(Bool8{});
    default:
      return;
  }
}

}  // namespace reprise
