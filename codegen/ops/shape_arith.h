// Arithmetic on shape expressions that uses what is known of the symbols' ranges.
#pragma once

#include <optional>
#include <span>

#include "runtime/base/expr.h"

namespace reprise::ops {

/// Saturated at +-kFar, which no dimension reaches.
inline constexpr int64_t kFar = int64_t{1} << 60;

struct Bounds {
  int64_t lo = -kFar;
  int64_t hi = kFar;
};

/// Interval that holds every value of e.
Bounds bounds(const Expr& e, std::span<const Symbol> table);
bool proven_le(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// Both may hold for some symbol values: not proven different.
bool may_equal(const Expr& a, const Expr& b, std::span<const Symbol> table);

Expr min_of(const Expr& a, const Expr& b, std::span<const Symbol> table);
Expr max_of(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// min(max(e, lo), hi), simplified.
Expr clamp(const Expr& e, const Expr& lo, const Expr& hi, std::span<const Symbol> table);

/// Comparisons as 0 or 1: constants when provable, otherwise min/max expressions.
Expr less_than(const Expr& a, const Expr& b, std::span<const Symbol> table);
Expr equal_to(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// condition (0 or 1) ? a : b
Expr select(const Expr& condition, const Expr& a, const Expr& b);
/// a / b rounded towards zero; nothing when b may be zero.
std::optional<Expr> truncated_div(const Expr& a, const Expr& b, std::span<const Symbol> table);

/// Fewer operations in its text form: which of two equal dims to keep.
bool simpler(const Expr& a, const Expr& b);

/// Start and size of ONNX slicing of one dim; `step` is not 0. The given start and end may
/// be negative or far out of range.
struct SliceRange {
  Expr start, size;
};
SliceRange slice_range(const Expr& start, const Expr& end, int64_t step, const Expr& dim,
                       std::span<const Symbol> table);

}  // namespace reprise::ops
