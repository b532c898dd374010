// Builder: ranges of 32-bit integers, by which wraps of narrower integers are dropped.
#include <algorithm>
#include <limits>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {

namespace {

constexpr int kMaxSteps = 6;  // instructions to follow back from a value

Interval all_of(Ty t) {
  if (t == Ty::U32) return {0, std::numeric_limits<uint32_t>::max()};
  return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
}

Interval both(const Interval& a, const Interval& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

Interval stored_range(Ty storage) {
  switch (storage) {
    case Ty::I8:
      return {-128, 127};
    case Ty::U8:
      return {0, 255};
    case Ty::I16:
      return {-32768, 32767};
    case Ty::U16:
      return {0, 65535};
    default:
      return {};
  }
}

Interval intersection(const Interval& a, const Interval& b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}

}  // namespace

Interval Builder::range_of(Val v, int steps) const {
  const Inst& i = inst(v);
  const Interval all = all_of(i.type.ty);
  if (steps == 0) return all;
  const auto of = [&](size_t arg) { return range_of(i.args[arg], steps - 1); };
  switch (i.op) {
    case Op::Const: {
      const int64_t c = integer_of(i.imm, i.type.ty);
      return {c, c};
    }
    case Op::Load:
      return intersection(all, stored_range(k_.buffers[i.imm].storage));
    case Op::Extract:
      return of(0);
    case Op::Compose: {
      Interval r = of(0);
      for (size_t lane = 1; lane < i.args.size(); ++lane) r = both(r, of(lane));
      return r;
    }
    case Op::Convert:
    case Op::Bitcast: {
      const Type from = type(i.args[0]);
      if (from.ty == Ty::Bool && i.op == Op::Convert) return {0, 1};
      if ((from.ty != Ty::I32 && from.ty != Ty::U32) || from.lanes != i.type.lanes) return all;
      const Interval r = of(0);
      return r.min >= all.min && r.max <= all.max ? r : all;
    }
    case Op::Scalar:
      return range_of_row(i, steps);
    default:
      return all;
  }
}

Interval Builder::range_of_row(const Inst& i, int steps) const {
  const Interval all = all_of(i.type.ty);
  const auto of = [&](size_t arg) { return range_of(i.args[arg], steps - 1); };
  constexpr uint64_t kNone = ~uint64_t{0};
  const uint64_t c = i.args.size() == 2 ? const_bits(i.args[1]).value_or(kNone) : kNone;
  switch (static_cast<ScalarOp>(i.imm)) {
    case ScalarOp::BitAnd:
      return c <= uint64_t{std::numeric_limits<int32_t>::max()}
                 ? Interval{0, static_cast<int64_t>(c)}
                 : all;
    case ScalarOp::ShiftRight: {
      const Interval r = of(0);
      return c < 32 ? Interval{r.min >> c, r.max >> c} : all;
    }
    case ScalarOp::Where:
      return both(of(1), of(2));
    case ScalarOp::Min:
    case ScalarOp::MinNum: {
      const Interval x = of(0), y = of(1);
      return {std::min(x.min, y.min), std::min(x.max, y.max)};
    }
    case ScalarOp::Max:
    case ScalarOp::MaxNum: {
      const Interval x = of(0), y = of(1);
      return {std::max(x.min, y.min), std::max(x.max, y.max)};
    }
    default:
      return all;
  }
}

bool Builder::is_below_half(Val v) const {
  const Interval r = range_of(v, kMaxSteps);
  return r.min >= 0 && r.max <= std::numeric_limits<int32_t>::max();
}

/// The operand of a wrap whose upper bits already are what the wrap would make them.
std::optional<Val> Builder::drop_wrap(ScalarOp op, Type t, Val a, Val b) const {
  const auto c = const_bits(b);
  if (!c || (t.ty != Ty::I32 && t.ty != Ty::U32)) return std::nullopt;
  const auto lies_in = [this](Val v, const Interval& range) {
    const Interval r = range_of(v, kMaxSteps);
    return r.min >= range.min && r.max <= range.max;
  };
  if (op == ScalarOp::BitAnd) {
    const bool low_bits = *c <= std::numeric_limits<int32_t>::max() && (*c & (*c + 1)) == 0;
    return low_bits && lies_in(a, {0, static_cast<int64_t>(*c)}) ? std::optional(a) : std::nullopt;
  }
  if (op != ScalarOp::ShiftRight || *c >= 32) return std::nullopt;
  const Inst& left = inst(a);
  if (left.op != Op::Scalar || left.imm != static_cast<uint64_t>(ScalarOp::ShiftLeft) ||
      left.args[1] != b) {
    return std::nullopt;
  }
  const Interval all = all_of(t.ty);
  return lies_in(left.args[0], {all.min >> *c, all.max >> *c}) ? std::optional(left.args[0])
                                                               : std::nullopt;
}

Value Builder::wrap(Val v, int bits) {
  if (!usable(v, "wrap")) return {};
  const Type t = type(v);
  if (bits >= 32) return bound(v);
  if (t.ty == Ty::U32) {
    return scalar_op(ScalarOp::BitAnd, {v, constant_bits(t, (uint64_t{1} << bits) - 1)});
  }
  const Val shift = constant_bits(t, static_cast<uint64_t>(32 - bits));
  return scalar_op(ScalarOp::ShiftRight, {scalar_op(ScalarOp::ShiftLeft, {v, shift}), shift});
}

}  // namespace reprise::kernel
