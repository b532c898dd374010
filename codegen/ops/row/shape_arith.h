// Arithmetic on shape expressions that uses the ranges of symbols.
#pragma once

#include <optional>
#include <span>

#include "runtime/expr/expr.h"

namespace reprise::ops {

/// Saturates at +-kFar, which no dim reaches.
inline constexpr int64_t kFar = int64_t{1} << 60;

struct Bounds {
  int64_t lo = -kFar;
  int64_t hi = kFar;
};

/// An interval that contains every value of e.
Bounds bounds(const Expr& e, std::span<const Symbol> table);
bool proven_le(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// Whether a and b may be equal for some values of the symbols.
bool may_equal(const Expr& a, const Expr& b, std::span<const Symbol> table);

Expr min_of(const Expr& a, const Expr& b, std::span<const Symbol> table);
Expr max_of(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// min(max(e, lo), hi), simplified.
Expr clamp(const Expr& e, const Expr& lo, const Expr& hi, std::span<const Symbol> table);

/// Comparisons with the result 0 or 1: a constant if provable, else an expression of min and max.
Expr less_than(const Expr& a, const Expr& b, std::span<const Symbol> table);
Expr equal_to(const Expr& a, const Expr& b, std::span<const Symbol> table);
/// condition (0 or 1) ? a : b
Expr select(const Expr& condition, const Expr& a, const Expr& b);
/// a / b, rounded towards zero. Nothing if b may be zero.
std::optional<Expr> truncated_div(const Expr& a, const Expr& b, std::span<const Symbol> table);

/// Whether a's text form has fewer operations than b's. Decides which of two equal dims to keep.
bool simpler(const Expr& a, const Expr& b);

/// The start and size of an ONNX slice of one dim, and a step that takes the same elements and
/// whose product with an index fits 32 bits. `step` must not be 0. Start, end and step may be
/// negative or far out of range.
struct SliceRange {
  Expr start, size;
  int64_t step = 1;
};
SliceRange slice_range(const Expr& start, const Expr& end, int64_t step, const Expr& dim,
                       std::span<const Symbol> table);

}  // namespace reprise::ops
