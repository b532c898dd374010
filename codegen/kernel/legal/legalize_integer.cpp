// Computes 64-bit integers as checked 32-bit ones.
#include <limits>

#include "codegen/kernel/legal/legalize.h"

namespace reprise::kernel {

Val CheckedIntegers::c(Val like, int64_t v) {
  return b_.constant_bits(b_.type(like), static_cast<uint64_t>(v));
}

void CheckedIntegers::lost_if(Val condition) {
  lost_.where = lost_.where ? b_.logical_or(lost_.where, condition) : condition;
  lost_.nearest = nullptr;
}

void CheckedIntegers::lost_if(Val condition, Val r, Val negative) {
  const bool first = !lost_.where;
  lost_if(condition);
  if (!first) return;
  lost_.nearest = [this, condition, r, negative] {
    const Val most = b_.select(negative, c(r, std::numeric_limits<int32_t>::min()),
                               c(r, std::numeric_limits<int32_t>::max()));
    return b_.select(condition, most, r);
  };
}

void CheckedIntegers::require_inner(Val v) {
  if (!extremes_) return;
  if (b_.type(v).ty == Ty::U32) {
    lost_if(b_.eq(v, c(v, -1)));
    return;
  }
  lost_if(b_.logical_or(b_.eq(v, c(v, std::numeric_limits<int32_t>::max())),
                        b_.eq(v, c(v, std::numeric_limits<int32_t>::min()))));
}

Val CheckedIntegers::from_words(Val words, bool is_signed) {
  const Val low = b_.extract(words, 0);
  const Val high = b_.extract(words, 1);
  if (!is_signed) {
    lost_if(op(ScalarOp::NotEqual, high, b_.u32(0)));
    require_inner(low);
    return low;
  }
  const Val v = b_.bitcast(low, kI32);
  const Val sign = b_.bitcast(high, kI32);
  const Val extension = op(ScalarOp::ShiftRight, v, b_.i32(31));
  lost_if(op(ScalarOp::NotEqual, sign, extension), v, negative(sign));
  if (extremes_) {
    // The nearest 32-bit integer of an extreme is the extreme itself.
    std::function<Val()> nearest = std::move(lost_.nearest);
    require_inner(v);
    lost_.nearest = std::move(nearest);
  }
  return v;
}

Val CheckedIntegers::to_words(Val v, bool is_signed) {
  require_inner(v);
  const Val low = bits(v);
  const Val high = is_signed ? bits(op(ScalarOp::ShiftRight, v, b_.i32(31))) : b_.u32(0);
  const Val words[2] = {low, high};
  return b_.compose(words);
}

/// Whether the exact product of two values does not fit 32 bits. Computed from 16-bit halves of
/// their magnitudes.
Val CheckedIntegers::product_overflows(Val a, Val b, bool is_signed) {
  const auto half = [&](Val v) { return b_.constant_bits(b_.type(v), 16); };
  const auto low = [&](Val v) {
    return op(ScalarOp::BitAnd, v, b_.constant_bits(b_.type(v), 0xffff));
  };
  const Val x = is_signed ? bits(b_.scalar_op(ScalarOp::Abs, {a})) : a;
  const Val y = is_signed ? bits(b_.scalar_op(ScalarOp::Abs, {b})) : b;
  const Val x_high = op(ScalarOp::ShiftRight, x, half(x));
  const Val y_high = op(ScalarOp::ShiftRight, y, half(y));
  const Val none = b_.constant_bits(b_.type(x), 0);
  const Val both =
      b_.logical_and(op(ScalarOp::NotEqual, x_high, none), op(ScalarOp::NotEqual, y_high, none));
  const Val cross = b_.add(b_.mul(x_high, low(y)), b_.mul(low(x), y_high));
  const Val cross_too_wide = op(ScalarOp::NotEqual, op(ScalarOp::ShiftRight, cross, half(x)), none);
  const Val base = b_.mul(low(x), low(y));
  const Val total = b_.add(op(ScalarOp::ShiftLeft, cross, half(x)), base);
  Val over = b_.logical_or(b_.logical_or(both, cross_too_wide), b_.lt(total, base));
  if (!is_signed) return over;
  // A negative product may be one larger in magnitude.
  const Val sign =
      op(ScalarOp::ShiftRight, bits(op(ScalarOp::BitXor, a, b)), b_.constant_bits(b_.type(x), 31));
  const Val limit = b_.add(b_.constant_bits(b_.type(x), 0x7fffffff), sign);
  return b_.logical_or(over, op(ScalarOp::Greater, total, limit));
}

/// Whether a left shift lost bits. A shift by 64 or more is right: the result is 0 in 64 bits, too.
Val CheckedIntegers::shift_overflows(Val a, Val amount, Val r) {
  const Val by = bits(amount);
  const Val within = b_.lt(by, b_.constant_bits(b_.type(by), 64));
  const Val lost = op(ScalarOp::NotEqual, op(ScalarOp::ShiftRight, r, amount), a);
  return b_.logical_and(within, lost);
}

void CheckedIntegers::check(ScalarOp o, Val a, Val b, Val r) {
  const auto lowest = std::numeric_limits<int32_t>::min();
  const auto exclusive = [&](Val x, Val y) { return op(ScalarOp::BitXor, x, y); };
  const Val above = b_.constant_bits(vec(kBool, b_.type(r).lanes), 0);
  switch (o) {
    case ScalarOp::Add:
      return lost_if(negative(op(ScalarOp::BitAnd, exclusive(a, r), exclusive(b, r))), r,
                     negative(a));
    case ScalarOp::Sub:
      return lost_if(negative(op(ScalarOp::BitAnd, exclusive(a, b), exclusive(a, r))), r,
                     negative(a));
    case ScalarOp::Mul:
      return lost_if(product_overflows(a, b, true), r, negative(exclusive(a, b)));
    case ScalarOp::Neg:
    case ScalarOp::Abs:
      return lost_if(b_.eq(a, c(a, lowest)), r, above);
    case ScalarOp::Div:
    case ScalarOp::IDiv:
      return lost_if(b_.logical_and(b_.eq(a, c(a, lowest)), b_.eq(b, c(b, -1))), r, above);
    case ScalarOp::ShiftLeft:
      return lost_if(shift_overflows(a, b, r));
    default:
      return;
  }
}

void CheckedIntegers::check_unsigned(ScalarOp o, Val a, Val b, Val r) {
  switch (o) {
    case ScalarOp::Add:
      return lost_if(b_.lt(r, a));
    case ScalarOp::Sub:
      return lost_if(b_.lt(a, b));
    case ScalarOp::Mul:
      return lost_if(product_overflows(a, b, false));
    case ScalarOp::Neg:
      return lost_if(op(ScalarOp::NotEqual, a, c(a, 0)));
    case ScalarOp::ShiftLeft:
      return lost_if(shift_overflows(a, b, r));
    default:
      return;
  }
}

Val CheckedIntegers::scalar(ScalarOp o, bool is_signed, std::span<const Val> args) {
  switch (o) {
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::Div:
    case ScalarOp::Rem:
    case ScalarOp::Mod:
    case ScalarOp::IDiv:
    case ScalarOp::IRem:
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
      break;
    case ScalarOp::BitNot:
      if (!is_signed) return {};  // its upper bits would be ones
      break;
    default:  // comparisons and choices are the same in 32 bits
      return b_.scalar_op(o, args);
  }
  for (Val v : args) require_inner(v);
  const Val r = b_.scalar_op(o, args);
  const Val second = args.size() > 1 ? args[1] : Val{};
  if (is_signed) {
    check(o, args[0], second, r);
  } else {
    check_unsigned(o, args[0], second, r);
  }
  return r;
}

Val CheckedIntegers::convert_float(Val v, Ty to, bool in_range) {
  const Type t = b_.type(v);
  if (t.ty != Ty::F32) v = b_.convert(v, Ty::F32);
  const Type u{Ty::U32, t.lanes};
  const auto constant = [&](uint32_t bits) { return b_.constant_bits(u, bits); };
  const Val raw = b_.bitcast(v, u);
  const Val magnitude = op(ScalarOp::BitAnd, raw, constant(0x7fffffffU));
  const Val number = op(ScalarOp::LessOrEqual, magnitude, constant(0x7f800000U));
  const Val r = b_.convert(v, to == Ty::I64 ? Ty::I32 : Ty::U32, in_range);
  if (to == Ty::I64) {
    const Val large = op(ScalarOp::GreaterOrEqual, magnitude, constant(0x4f000000U));
    const Val lowest = op(ScalarOp::NotEqual, raw, constant(0xcf000000U));
    lost_if(b_.logical_and(b_.logical_and(large, lowest), number), r, negative(raw));
  } else {
    const Val large = op(ScalarOp::GreaterOrEqual, raw, constant(0x4f800000U));
    lost_if(b_.logical_and(large, op(ScalarOp::LessOrEqual, raw, constant(0x7f800000U))));
  }
  require_inner(r);
  return r;
}

Val CheckedIntegers::convert(Val v, Ty from, Ty to, bool in_range) {
  const bool from_wide = from == Ty::I64 || from == Ty::U64;
  const bool to_wide = to == Ty::I64 || to == Ty::U64;
  if (to_wide && class_of(from) == kFloat) return convert_float(v, to, in_range);
  const Ty narrow = to == Ty::I64 ? Ty::I32 : to == Ty::U64 ? Ty::U32 : to;
  if (from_wide && to != Ty::Bool && !to_wide) require_inner(v);
  const Val r = b_.convert(v, narrow, in_range);
  if (!to_wide || from == Ty::Bool) return r;
  // Converting between signed and unsigned keeps the bits, which then mean another number.
  if (class_of(from) != class_of(to)) lost_if(negative(v));
  if (!from_wide) require_inner(r);
  return r;
}

}  // namespace reprise::kernel
