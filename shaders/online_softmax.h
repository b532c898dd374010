// Kernel templates for attention, the part that all of them share: the steps of an online softmax.
#pragma once

#include <limits>

#include "shaders/result_tile.h"

namespace reprise::shaders {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Value larger(kernel::Builder& b, Val x, Val y) {
  return b.scalar_op(kernel::ScalarOp::MaxNum, {x, y});
}

inline Value exponential(kernel::Builder& b, Val x) {
  return b.scalar_op(kernel::ScalarOp::Exp, {x});
}

/// What is subtracted from the scores of a row whose largest score is `largest`. While all of them
/// are -inf (masked), there is no finite score to subtract.
inline Value softmax_base(kernel::Builder& b, Val largest) {
  return b.select(b.eq(largest, b.f32(-kInfinity)), b.f32(0), largest);
}

}  // namespace reprise::shaders
