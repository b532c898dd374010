// A number of F32 as the sum of two of TF32, as MatrixMulAdd multiplies it (semantics.md).
#pragma once

#include <bit>
#include <cstdint>

namespace reprise::kernel {

struct SplitFloat {
  float high = 0, low = 0;
};

inline SplitFloat split_float(float v) {
  constexpr uint32_t kKept = 0xffffe000U, kHalf = 0x1000U;
  SplitFloat out;
  out.high = std::bit_cast<float>((std::bit_cast<uint32_t>(v) + kHalf) & kKept);
  out.low = std::bit_cast<float>(std::bit_cast<uint32_t>(v - out.high) & kKept);
  return out;
}

}  // namespace reprise::kernel
