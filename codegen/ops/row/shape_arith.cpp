#include "codegen/ops/row/shape_arith.h"

#include <algorithm>

namespace reprise::ops {

Bounds bounds(const Expr& e, std::span<const Symbol> table) {
  const SymbolRanges ranges = [table](SymbolId id) {
    SymbolRange r;
    const auto i = static_cast<size_t>(id);
    if (i < table.size()) {
      r.min = table[i].min;
      r.max = table[i].max;
    }
    return r;
  };
  const Interval b = e.bounds(ranges);
  return {std::max(b.min, -kFar), std::min(b.max, kFar)};
}

bool proven_le(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  return bounds(b - a, table).lo >= 0;
}

bool may_equal(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  const Bounds d = bounds(a - b, table);
  return d.lo <= 0 && d.hi >= 0;
}

Expr min_of(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  if (proven_le(a, b, table)) return a;
  if (proven_le(b, a, table)) return b;
  return Expr::min(a, b);
}

Expr max_of(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  if (proven_le(a, b, table)) return b;
  if (proven_le(b, a, table)) return a;
  return Expr::max(a, b);
}

Expr clamp(const Expr& e, const Expr& lo, const Expr& hi, std::span<const Symbol> table) {
  return min_of(max_of(e, lo, table), hi, table);
}

Expr less_than(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  return clamp(b - a, 0, 1, table);
}

Expr equal_to(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  const Expr distance = max_of(a - b, b - a, table);
  return Expr(1) - clamp(distance, 0, 1, table);
}

Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  if (a == b) return a;
  return condition * a + (Expr(1) - condition) * b;
}

std::optional<Expr> truncated_div(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  const Bounds divisor = bounds(b, table);
  if (divisor.lo <= 0 && divisor.hi >= 0) return std::nullopt;
  if (divisor.hi < 0) return truncated_div(Expr(0) - a, Expr(0) - b, table);
  if (bounds(a, table).lo >= 0) return Expr::floordiv(a, b);
  const Expr positive = max_of(a, 0, table);
  const Expr negative = max_of(Expr(0) - a, 0, table);
  return Expr::floordiv(positive, b) - Expr::floordiv(negative, b);
}

namespace {

size_t complexity(const Expr& e) {
  std::vector<int64_t> code;
  e.encode(code);
  return code.size();
}

/// Clamps constants, so that adding to them does not overflow. Larger ones have the same effect.
Expr clamp_constant(const Expr& e) {
  constexpr int64_t kNear = int64_t{1} << 40;
  return e.is_const() ? Expr(std::clamp(e.value(), -kNear, kNear)) : e;
}

/// No dim is larger than this.
constexpr int64_t kLongestAxis = (int64_t{1} << 31) - 1;

/// The number of elements in [start, end) of a dim, for constants, in a form in which no dim occurs
/// twice. Nothing in the one case that needs a dim twice.
std::optional<Expr> constant_size(int64_t a, int64_t b, const Expr& dim,
                                  std::span<const Symbol> table) {
  if ((a >= 0) == (b >= 0)) {
    if (b <= a) return Expr(0);
    return clamp(a >= 0 ? dim - Expr(a) : dim + Expr(b), 0, Expr(b - a), table);
  }
  if (a >= 0) return max_of(dim + Expr(b - a), 0, table);
  if (proven_le(dim, Expr(b), table)) return min_of(Expr(-a), dim, table);
  return std::nullopt;
}

}  // namespace

bool simpler(const Expr& a, const Expr& b) {
  return complexity(a) < complexity(b);
}

SliceRange slice_range(const Expr& start, const Expr& end, int64_t step, const Expr& dim,
                       std::span<const Symbol> table) {
  const auto wrap = [&](const Expr& raw) {
    const Expr e = clamp_constant(raw);
    return select(less_than(e, 0, table), e + dim, e);
  };
  const bool forward = step > 0;
  const Expr low = forward ? Expr(0) : Expr(-1);
  const Expr high = forward ? dim : dim - 1;
  // As in ONNX, a start is clamped to an element, even for negative steps that begin before it.
  const Expr first = clamp(wrap(start), 0, high, table);
  const Expr last = clamp(wrap(end), low, high, table);
  Expr size = max_of(forward ? last - first : first - last, 0, table);
  if (forward && start.is_const() && end.is_const()) {
    const auto simple =
        constant_size(clamp_constant(start).value(), clamp_constant(end).value(), dim, table);
    if (simple) size = *simple;
  }
  // A step that exceeds every dim takes one element, as any step does. Kernels multiply steps by
  // indices in 32 bits.
  const int64_t most = std::clamp<int64_t>(bounds(dim, table).hi, 2, kLongestAxis);
  if (step >= most || step <= -most) return {first, min_of(size, 1, table), forward ? 1 : -1};
  const int64_t stride = forward ? step : -step;
  return {first, stride == 1 ? size : Expr::ceildiv(size, Expr(stride)), step};
}

}  // namespace reprise::ops
