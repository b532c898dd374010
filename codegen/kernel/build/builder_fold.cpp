// Builder: folds constants and applies identities while instructions are written.
#include <cmath>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

bool is_division(ScalarOp op) {
  return op == ScalarOp::Div || op == ScalarOp::Rem || op == ScalarOp::Mod ||
         op == ScalarOp::IDiv || op == ScalarOp::IRem;
}

/// Whether the integer type `to` holds every value of the integer type `from`.
bool holds_all(Ty to, Ty from) {
  const bool is_signed = class_of(to) == kSigned, was_signed = class_of(from) == kSigned;
  if ((class_of(from) & kInt) == 0 || (was_signed && !is_signed)) return false;
  const int bits = 8 * byte_size(to) - (is_signed && !was_signed ? 1 : 0);
  return bits >= 8 * byte_size(from);
}

bool is_remainder(ScalarOp op) {
  return op == ScalarOp::Rem || op == ScalarOp::Mod || op == ScalarOp::IRem;
}

/// The result of comparing a value with itself; nothing for rows that are not comparisons.
std::optional<bool> compare_with_itself(ScalarOp op) {
  switch (op) {
    case ScalarOp::Equal:
    case ScalarOp::LessOrEqual:
    case ScalarOp::GreaterOrEqual:
      return true;
    case ScalarOp::NotEqual:
    case ScalarOp::Less:
    case ScalarOp::Greater:
      return false;
    default:
      return std::nullopt;
  }
}

bool is_comparison(ScalarOp op) {
  return compare_with_itself(op).has_value();
}

/// Whether a op c holds for every a below (or above) c.
bool holds_beside(ScalarOp op, bool below) {
  if (op == ScalarOp::Equal) return false;
  if (op == ScalarOp::NotEqual) return true;
  return below == (op == ScalarOp::Less || op == ScalarOp::LessOrEqual);
}

}  // namespace

std::optional<Val> Builder::simplify(const Inst& i) {
  if (const auto v = fold_constants(i)) return v;
  if (i.op == Op::Scalar) return simplify_scalar(i);
  if (i.op == Op::Convert || i.op == Op::Bitcast) return simplify_cast(i);
  if (i.op == Op::Compose) return simplify_compose(i);
  if (i.op == Op::Extract) {
    const Inst& from = inst(i.args[0]);
    if (from.op == Op::Compose) return from.args[i.imm / i.type.lanes];
  }
  return std::nullopt;
}

/// A Compose of all lanes of one vector, in order, is that vector.
std::optional<Val> Builder::simplify_compose(const Inst& i) {
  const Inst& first = inst(i.args[0]);
  if (first.op != Op::Extract || type(first.args[0]) != i.type) return std::nullopt;
  for (size_t n = 0; n < i.args.size(); ++n) {
    const Inst& lane = inst(i.args[n]);
    const bool same = lane.op == Op::Extract && lane.imm == n * lane.type.lanes;
    if (!same || lane.args != first.args) return std::nullopt;
  }
  return first.args[0];
}

std::optional<Val> Builder::fold_constants(const Inst& i) {
  uint64_t bits[4] = {};
  if (i.args.empty() || is_long(i.type)) return std::nullopt;
  for (size_t n = 0; n < i.args.size(); ++n) {
    const auto b = const_bits(i.args[n]);
    if (!b) return std::nullopt;
    bits[n] = *b;
  }
  const Type from = type(i.args.back());
  if (i.op == Op::Scalar) {
    const auto op = static_cast<ScalarOp>(i.imm);
    const bool undefined = (op == ScalarOp::IDiv || op == ScalarOp::IRem) && bits[1] == 0;
    if (undefined) return std::nullopt;
    return constant_bits(i.type, scalar_function(op, from.ty)(bits));
  }
  if (i.op == Op::Convert) return constant_bits(i.type, convert_bits(bits[0], from.ty, i.type.ty));
  if (i.op == Op::Bitcast && from.lanes != i.type.lanes) return std::nullopt;
  for (size_t n = 1; n < i.args.size(); ++n) {  // Compose of unequal lanes
    if (bits[n] != bits[0]) return std::nullopt;
  }
  return constant_bits(i.type, bits[0]);
}

std::optional<Val> Builder::simplify_cast(const Inst& i) {
  const Val v = i.args[0];
  if (i.op == Op::Bitcast && type(v) == i.type) return v;
  const Inst& from = inst(v);
  if (i.op == Op::Bitcast && from.op == Op::Bitcast) return bitcast(from.args[0], i.type);
  // i32 -> u32 -> i32 keeps the bits.
  const bool round_trip = i.op == Op::Convert && from.op == Op::Convert &&
                          type(from.args[0]) == i.type && (class_of(i.type.ty) & kInt) != 0 &&
                          (class_of(from.type.ty) & kInt) != 0 &&
                          byte_size(from.type.ty) >= byte_size(i.type.ty);
  if (round_trip) return from.args[0];
  // f16 -> f32 -> f16 keeps the value; one element of a vector may be taken in between.
  if (i.op == Op::Convert && i.type.ty == Ty::F16 && from.type.ty == Ty::F32) {
    const Inst& widening = from.op == Op::Extract ? inst(from.args[0]) : from;
    if (widening.op == Op::Convert && type(widening.args[0]).ty == Ty::F16) {
      const Val half = widening.args[0];
      return from.op == Op::Extract ? extract(half, static_cast<int>(from.imm)) : half;
    }
  }
  // i32 -> i64 -> f32 rounds once, as i32 -> f32 does.
  const bool widened = i.op == Op::Convert && from.op == Op::Convert &&
                       class_of(i.type.ty) == kFloat && (class_of(from.type.ty) & kInt) != 0 &&
                       holds_all(from.type.ty, type(from.args[0]).ty);
  if (widened) return convert(from.args[0], i.type.ty);
  return std::nullopt;
}

std::optional<Val> Builder::simplify_scalar(const Inst& i) {
  const auto op = static_cast<ScalarOp>(i.imm);
  const Val a = i.args[0];
  if (op == ScalarOp::Where) {
    if (i.args[1] == i.args[2]) return i.args[1];
    if (const auto known = const_bits(a)) return *known != 0 ? i.args[1] : i.args[2];
    if (type(i.args[1]).ty != Ty::Bool) return std::nullopt;
    return const_bits(i.args[1]) == 1U && const_bits(i.args[2]) == 0U ? std::optional(a)
                                                                      : std::nullopt;
  }
  if (op == ScalarOp::Not || op == ScalarOp::Neg || op == ScalarOp::BitNot) {
    const Inst& from = inst(a);
    if (from.op == Op::Scalar && from.imm == i.imm) return from.args[0];
    return std::nullopt;
  }
  if (op == ScalarOp::RoundBF16 && is_rounded_bf16(a)) return a;
  if (i.args.size() != 2) return std::nullopt;
  const Val b = i.args[1];
  const Type t = type(a);
  if (t.ty == Ty::I64 && is_comparison(op)) {
    if (const auto v = narrow_comparison(op, a, b)) return v;
  }
  if ((class_of(t.ty) & kInt) != 0) return simplify_int(op, t, a, b);
  if (t.ty == Ty::Bool) return simplify_logic(op, a, b);
  const bool by_one = const_bits(b) == bits_of(1, t.ty);
  if (by_one && (op == ScalarOp::Mul || op == ScalarOp::Div)) return a;
  if (op != ScalarOp::Mul && op != ScalarOp::Div) return std::nullopt;
  const auto left = as_const_float(a), right = as_const_float(b);
  if (right == 0.0)
    return op == ScalarOp::Mul ? times_zero(a, *right)
                               : by_sign(a, std::copysign(INFINITY, *right));
  if (left == 0.0) return op == ScalarOp::Mul ? times_zero(b, *left) : by_sign(b, *left);
  return std::nullopt;
}

/// Computes `v / 0` and `0 / v` by the sign of v: r if positive, -r if negative, else NaN
/// (workarounds::kQuotientsWithZero).
Val Builder::by_sign(Val v, double r) {
  const Type t = type(v);
  const Val zero = constant(t, 0);
  return select(lt(zero, v), constant(t, r),
                select(lt(v, zero), constant(t, -r), constant(t, NAN)));
}

/// Computes `v * 0` (workarounds::kProductsWithZero). The result has the sign of the product; NaN
/// and infinities give NaN.
Val Builder::times_zero(Val v, double zero) {
  const Type t = type(v);
  const Val finite = lt(scalar_op(ScalarOp::Abs, {v}), constant(t, INFINITY));
  const Val result = select(lt(v, constant(t, 0)), constant(t, -zero), constant(t, zero));
  return select(finite, result, constant(t, NAN));
}

/// Compares widened 32-bit integers in 32 bits, which is cheaper and avoids
/// workarounds::kOrderedInt64.
std::optional<Val> Builder::narrow_comparison(ScalarOp op, Val a, Val b) {
  const auto widened = [this](Val v) -> std::optional<Val> {
    const Inst& from = inst(v);
    if (from.op != Op::Convert || type(from.args[0]).ty != Ty::I32) return std::nullopt;
    return from.args[0];
  };
  const auto left = widened(a);
  const auto right = widened(b);
  if (left && right) return scalar_op(op, {*left, *right});
  if (!left && !right) return std::nullopt;
  const auto bits = const_bits(left ? b : a);
  if (!bits) return std::nullopt;
  const auto c = static_cast<int64_t>(*bits);
  const Type narrow = type(left ? *left : *right);
  if (c == static_cast<int32_t>(c)) {
    const Val small = constant_bits(narrow, static_cast<uint32_t>(c));
    return left ? scalar_op(op, {*left, small}) : scalar_op(op, {small, *right});
  }
  const bool left_is_smaller = left ? c > 0 : c < 0;
  return constant(vec(kBool, narrow.lanes), holds_beside(op, left_is_smaller) ? 1 : 0);
}

std::optional<Val> Builder::simplify_logic(ScalarOp op, Val a, Val b) {
  const auto known = const_bits(b);
  if (op == ScalarOp::And && (known == 1U || a == b)) return a;
  if (op == ScalarOp::And && known == 0U) return b;
  if (op == ScalarOp::Or && (known == 0U || a == b)) return a;
  if (op == ScalarOp::Or && known == 1U) return b;
  return std::nullopt;
}

/// Folds comparisons with 0 of unsigned integers, none of which is below it.
std::optional<Val> Builder::compare_with_least(ScalarOp op, Type t, Val a, Val b) {
  const bool left = const_bits(a) == 0U, right = const_bits(b) == 0U;
  const Type boolean = vec(kBool, t.lanes);
  if ((op == ScalarOp::Less && right) || (op == ScalarOp::Greater && left))
    return constant(boolean, 0);
  if ((op == ScalarOp::GreaterOrEqual && right) || (op == ScalarOp::LessOrEqual && left))
    return constant(boolean, 1);
  if (op == ScalarOp::Min && (left || right)) return constant_bits(t, 0);
  if (op == ScalarOp::Max && left) return b;
  if (op == ScalarOp::Max && right) return a;
  return std::nullopt;
}

std::optional<Val> Builder::simplify_int(ScalarOp op, Type t, Val a, Val b) {
  const Type result = row(op).result == ResultKind::Boolean ? vec(kBool, t.lanes) : t;
  if (a == b) {
    if (const auto known = compare_with_itself(op)) return constant(result, *known ? 1 : 0);
    if (op == ScalarOp::Sub || op == ScalarOp::BitXor) return constant_bits(t, 0);
    if (op == ScalarOp::Min || op == ScalarOp::Max || op == ScalarOp::BitAnd ||
        op == ScalarOp::BitOr) {
      return a;
    }
  }
  if (t.ty == Ty::U32 || t.ty == Ty::U64) {
    if (const auto v = compare_with_least(op, t, a, b)) return v;
  }
  if (const auto v = drop_wrap(op, t, a, b)) return v;
  const auto bits = const_bits(b);
  if (!bits) return std::nullopt;
  if (*bits == 0) {
    if (op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::BitOr ||
        op == ScalarOp::BitXor || op == ScalarOp::ShiftLeft || op == ScalarOp::ShiftRight) {
      return a;
    }
    if (op == ScalarOp::Mul || op == ScalarOp::BitAnd) return b;
    return std::nullopt;
  }
  if (*bits == 1) {
    if (is_remainder(op)) return constant_bits(t, 0);
    if (op == ScalarOp::Mul || is_division(op)) return a;
  }
  if (op == ScalarOp::BitAnd && *bits == mask_bits(~uint64_t{0}, t.ty)) return a;
  // (x + c) + d = x + (c + d), and the same for products, as arithmetic wraps.
  if (op == ScalarOp::Sub && byte_size(t.ty) == 4) {
    return add(a, constant_bits(t, uint64_t{0} - *bits));
  }
  if (op != ScalarOp::Add && op != ScalarOp::Mul) return std::nullopt;
  const Inst from = inst(a);
  if (from.op != Op::Scalar || from.imm != static_cast<uint64_t>(op)) return std::nullopt;
  const auto inner = const_bits(from.args[1]);
  if (!inner) return std::nullopt;
  const Val both = constant_bits(t, op == ScalarOp::Add ? *inner + *bits : *inner * *bits);
  return scalar_op(op, {from.args[0], both});
}

}  // namespace reprise::kernel
