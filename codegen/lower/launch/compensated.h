// Long sums of floats, whose rounding errors are added up beside them (Neumaier, Zeitschrift für
// Angewandte Mathematik und Mechanik, 1974).
#pragma once

#include <limits>

#include "codegen/kernel/build/builder.h"

namespace reprise::lower {

/// Sums of more terms than this in one accumulator are compensated.
constexpr int64_t kShortSum = 16;

/// What rounding took from sum = a + b, exactly unless the sum overflows (Knuth, The Art of
/// Computer Programming, volume 2, section 4.2.2).
inline kernel::Val lost(const kernel::Value& a, const kernel::Value& b, const kernel::Value& sum) {
  const kernel::Value added = sum - a;
  return (a - (sum - added)) + (b - added);
}

/// The sum with the errors that were added up beside it. Of infinite sums, and of those with a NaN,
/// no errors are known.
inline kernel::Val compensated(kernel::Builder& b, kernel::Val sum, kernel::Val error) {
  const kernel::Val infinity = b.constant(b.type(error), std::numeric_limits<double>::infinity());
  const kernel::Val known = b.lt(b.scalar_op(kernel::ScalarOp::Abs, {error}), infinity);
  return b.select(known, b.add(sum, error), sum);
}

}  // namespace reprise::lower
