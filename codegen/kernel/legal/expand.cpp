// Replaces expanded rows (scalar_ops.def) by native ones. This file has the integer rows and
// chooses the algorithm; expand_*.cpp have those of floats. F16 rows are computed in F32.
#include <algorithm>
#include <cmath>

#include "codegen/kernel/build/rebuild.h"
#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

// --- Floats: special values and conversions

Val FloatMath::is_nan(Val x) {
  return gt(abs_bits(x), u(inf_bits()));
}

Val FloatMath::is_inf(Val x) {
  return b_.eq(abs_bits(x), u(inf_bits()));
}

Val FloatMath::inf_or_nan(Val x) {
  return op(ScalarOp::GreaterOrEqual, ibits(x), i(static_cast<int64_t>(inf_bits())));
}

Val FloatMath::sign(Val x) {
  // Zero and NaN are their own results. Minus one, their magnitudes are the largest unsigned ones.
  const Val keep = op(ScalarOp::GreaterOrEqual, b_.sub(abs_bits(x), u(1)), u(inf_bits()));
  return b_.select(keep, x, with_sign(c(1), x));
}

/// workarounds::kRoundedDoubles. Adding the power of two from which on every number is an integer
/// rounds the magnitude; what goes in the other direction is corrected.
Val FloatMath::to_integer(ScalarOp o, Val x) {
  const Val least = c(std::ldexp(1.0, f_.mantissa));
  const Val magnitude = abs(x), one = c(1);
  const Val rounded = b_.sub(b_.add(magnitude, least), least);
  const Val truncated = b_.select(gt(rounded, magnitude), b_.sub(rounded, one), rounded);
  const Val next = b_.select(b_.lt(truncated, magnitude), b_.add(truncated, one), truncated);
  const Val negative = b_.lt(x, c(0));
  const Val result = o == ScalarOp::Round   ? rounded
                     : o == ScalarOp::Trunc ? truncated
                     : o == ScalarOp::Floor ? b_.select(negative, next, truncated)
                                            : b_.select(negative, truncated, next);
  return b_.select(b_.lt(magnitude, least), with_sign(result, x), x);
}

Val FloatMath::relu(Val x) {
  // Select -0 to -infinity by comparing bits as unsigned numbers; NaN is kept.
  const Val negative =
      op(ScalarOp::LessOrEqual, b_.sub(bits(x), u(minus_zero_bits())), u(inf_bits()));
  return b_.select(negative, c(0), x);
}

Val FloatMath::min_max(ScalarOp native, Val a, Val b) {
  Val r = op(native, a, b);
  for (Val v : {b, a}) {
    const auto known = b_.as_const_float(v);
    if (!known) r = b_.select(is_nan(v), v, r);
    if (known && *known != *known) r = nan();
  }
  return r;
}

Val FloatMath::div_rn(Val x, Val y) {
  // Significands in [1, 2), so that nothing overflows.
  const auto significand = [&](Val v) {
    return real(
        op(ScalarOp::BitOr, op(ScalarOp::BitAnd, bits(v), u(one_exponent() - 1)), u(one_bits())));
  };
  const Val a = significand(x), b = significand(y);
  // The native quotient is off by some units. The quotient of the remainder corrects it; products
  // of halves of significands are exact.
  const Val q = b_.div(a, b);
  const Val q_high = upper(q), q_low = b_.sub(q, q_high);
  const Val b_high = upper(b), b_low = b_.sub(b, b_high);
  Val rest = b_.sub(a, b_.mul(q_high, b_high));
  rest = b_.sub(rest, b_.mul(q_high, b_low));
  rest = b_.sub(rest, b_.mul(q_low, b_high));
  rest = b_.sub(rest, b_.mul(q_low, b_low));
  const Val nearest = b_.add(q, b_.div(rest, b));
  const auto exponent = [&](Val v) { return b_.bitcast(exponent_bits(abs_bits(v)), i_); };
  const Val magnitude = scaled(nearest, b_.sub(exponent(x), exponent(y)));
  const Val sign = real(op(ScalarOp::BitXor, bits(x), bits(y)));
  const auto normal = [&](Val v) {
    return b_.lt(b_.sub(abs_bits(v), u(one_exponent())), u(inf_bits() - one_exponent()));
  };
  return b_.select(b_.logical_and(normal(x), normal(y)), with_sign(magnitude, sign), b_.div(x, y));
}

Val FloatMath::to_integer(Val x, Ty to) {
  const Type t{to, t_.lanes};
  const bool is_signed = class_of(to) == kSigned;
  // The first power of two that does not fit, as float bits.
  const uint64_t limit = one_bits() + one_exponent() * (static_cast<uint64_t>(byte_size(to)) * 8 -
                                                        (is_signed ? 1 : 0));
  const uint64_t ones = ~uint64_t{0} >> (64 - byte_size(to) * 8);
  const Val magnitude = is_signed ? abs_bits(x) : bits(x);
  const Val fits = b_.lt(magnitude, u(limit));
  const Val value = b_.convert(b_.select(fits, x, c(0)), to, true);
  const Val too_large = op(ScalarOp::LessOrEqual, bits(x), u(inf_bits()));
  const Val zero = b_.constant_bits(t, 0);
  if (!is_signed) {
    return b_.select(fits, value, b_.select(too_large, b_.constant_bits(t, ones), zero));
  }
  const Val saturated =
      b_.select(too_large, b_.constant_bits(t, ones >> 1U), b_.constant_bits(t, (ones >> 1U) + 1));
  return b_.select(fits, value, b_.select(is_nan(x), zero, saturated));
}

Val FloatMath::to_f32_odd(Val x) {
  const Type narrow{Ty::U32, t_.lanes};
  const Val nearest = b_.convert(x, Ty::F32);
  const Val back = b_.convert(nearest, Ty::F64);
  const Val away = gt(abs_bits(back), abs_bits(x));
  const auto flag = [&](Val condition) { return b_.convert(condition, Ty::U32); };
  const Val toward_zero = b_.sub(b_.bitcast(nearest, narrow), flag(away));
  const Val inexact = flag(op(ScalarOp::NotEqual, bits(back), bits(x)));
  const Val odd = b_.bitcast(op(ScalarOp::BitOr, toward_zero, inexact), {Ty::F32, t_.lanes});
  return b_.select(is_nan(x), nearest, odd);
}

Val FloatMath::to_half(Val x) {
  return b_.convert(round_to_half(x), Ty::F16, true);
}

// A remainder of floats is a long division. The powers of integers take a step for each bit of the
// exponent.
bool expands_to_loop(ScalarOp op, bool floats) {
  return floats ? op == ScalarOp::Mod || op == ScalarOp::Fmod : op == ScalarOp::Pow;
}

Val FloatMath::expand(ScalarOp o, std::span<const Val> args) {
  const Val x = args[0];
  const Val y = args.size() > 1 ? args[1] : Val{};
  if (exact_ && row(o).exact) return b_.scalar_op(o, args);
  switch (o) {
    case ScalarOp::Mod:
      return floor_mod(x, y);
    case ScalarOp::Fmod:
      return fmod(x, y);
    case ScalarOp::Sign:
      return sign(x);
    case ScalarOp::Reciprocal:
      return b_.div(c(1), x);
    case ScalarOp::DivRn:
      return div_rn(x, y);
    case ScalarOp::Min:
      return min_max(ScalarOp::MinNum, x, y);
    case ScalarOp::Max:
      return min_max(ScalarOp::MaxNum, x, y);
    case ScalarOp::Pow:
      return pow(x, y);
    case ScalarOp::Sigmoid:
      return keep_nan_of_exp(x, b_.div(c(1), b_.add(c(1), exp(neg(x)))));
    case ScalarOp::Silu:
      return b_.div(x, b_.add(c(1), exp(neg(x))));
    case ScalarOp::Relu:
      return relu(x);
    case ScalarOp::Gelu:
      return gelu(x);
    case ScalarOp::GeluTanh:
      return gelu_tanh(x);
    case ScalarOp::Softplus:
      return softplus(x);
    case ScalarOp::Round:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
      return f_.wide() ? to_integer(o, x) : Val{};  // else native
    case ScalarOp::RoundBF16:
      if (!f_.wide()) return round_to_bfloat(x);
      return b_.convert(FloatMath(b_, {Ty::F32, t_.lanes}).round_to_bfloat(to_f32_odd(x)), Ty::F64);
    case ScalarOp::Softsign:
      return b_.div(x, b_.add(c(1), abs(x)));
    case ScalarOp::HardSwish:
      return hard_swish(x);
    case ScalarOp::Mish:
      return mish(x);
    case ScalarOp::IsNaN:
      return is_nan(x);
    case ScalarOp::IsInf:
      return is_inf(x);
    default:
      return elementary(o, x);
  }
}

Val FloatMath::elementary(ScalarOp o, Val x) {
  switch (o) {
    case ScalarOp::Sqrt:
      return sqrt(x);
    case ScalarOp::Rsqrt:
      return rsqrt(x);
    case ScalarOp::Log:
      return log(x, false);
    case ScalarOp::Log2:
      return log(x, true);
    case ScalarOp::Exp:
      return keep_nan(x, exp(x));
    case ScalarOp::Exp2:
      return keep_nan(x, exp2(x));
    case ScalarOp::Log1p:
      return log1p(x);
    case ScalarOp::Expm1:
      return expm1(x);
    case ScalarOp::Sin:
      return sin_cos(x, false);
    case ScalarOp::Cos:
      return sin_cos(x, true);
    case ScalarOp::Tan:
      return tan(x);
    case ScalarOp::Asin:
      return asin(x);
    case ScalarOp::Acos:
      return acos(x);
    case ScalarOp::Atan:
      return atan(x);
    case ScalarOp::Sinh:
      return sinh(x);
    case ScalarOp::Cosh:
      return cosh(x);
    case ScalarOp::Tanh:
      return tanh(x);
    case ScalarOp::Asinh:
      return asinh(x);
    case ScalarOp::Acosh:
      return acosh(x);
    case ScalarOp::Atanh:
      return atanh(x);
    case ScalarOp::Erf:
      return erf(x);
    default:
      return {};  // native
  }
}

// --- Integers

namespace {

class IntegerMath {
 public:
  IntegerMath(Builder& b, Type t) : b_(b), t_(t), signed_(class_of(t.ty) == kSigned) {}

  Val expand(ScalarOp o, std::span<const Val> args) {
    const Val a = args[0];
    const Val b = args.size() > 1 ? args[1] : Val{};
    switch (o) {
      case ScalarOp::Div:
        return div(a, b);
      case ScalarOp::Rem:
        return rem(a, b);
      case ScalarOp::Mod:
        return mod(a, b);
      case ScalarOp::Pow:
        return pow(a, b);
      case ScalarOp::IRem:
        return signed_ ? b_.sub(a, b_.mul(b_.scalar_op(ScalarOp::IDiv, {a, b}), b)) : Val{};
      case ScalarOp::Relu:
        return signed_ ? b_.max(a, c(0)) : a;
      case ScalarOp::Abs:
        return signed_ ? Val{} : a;
      case ScalarOp::Sign:
        return signed_ ? Val{} : b_.min(a, c(1));
      default:
        return {};  // native
    }
  }

  /// A shift by an amount that may exceed the width.
  Val shift(ScalarOp o, Val a, Val amount) {
    const int64_t width = byte_size(t_.ty) * 8;
    const Type unsigned_type{byte_size(t_.ty) == 8 ? Ty::U64 : Ty::U32, t_.lanes};
    const Val within = b_.lt(b_.bitcast(amount, unsigned_type),
                             b_.constant(unsigned_type, static_cast<double>(width)));
    const Val masked = b_.scalar_op(ScalarOp::BitAnd, {amount, c(width - 1)});
    const Val shifted = b_.scalar_op(o, {a, masked});
    const bool arithmetic = signed_ && o == ScalarOp::ShiftRight;
    const Val beyond = arithmetic ? b_.scalar_op(o, {a, c(width - 1)}) : c(0);
    return b_.select(within, shifted, beyond);
  }

 private:
  Val c(int64_t v) { return b_.constant_bits(t_, static_cast<uint64_t>(v)); }
  Val idiv(Val a, Val b) { return b_.scalar_op(ScalarOp::IDiv, {a, b}); }

  /// x / 0 = 0, and INT_MIN / -1 wraps.
  Val div(Val a, Val b) {
    if (const auto known = b_.as_const(b)) {
      if (*known == 0) return c(0);
      return signed_ && *known == -1 ? b_.scalar_op(ScalarOp::Neg, {a}) : idiv(a, b);
    }
    if (!signed_) return b_.select(b_.eq(b, c(0)), c(0), idiv(a, b_.max(b, c(1))));
    const Val zero = b_.eq(b, c(0));
    const Val minus = b_.eq(b, c(-1));
    const Val q = idiv(a, b_.select(b_.logical_or(zero, minus), c(1), b));
    return b_.select(zero, c(0), b_.select(minus, b_.scalar_op(ScalarOp::Neg, {a}), q));
  }

  /// The remainder with the sign of the dividend; x rem 0 = 0.
  Val rem(Val a, Val b) {
    if (const auto known = b_.as_const(b)) {
      if (*known == 0 || (signed_ && *known == -1)) return c(0);
    }
    if (!signed_) return b_.scalar_op(ScalarOp::IRem, {a, b_.max(b, c(1))});
    const Val r = b_.sub(a, b_.mul(div(a, b), b));
    return b_.as_const(b) ? r : b_.select(b_.eq(b, c(0)), c(0), r);
  }

  /// The remainder with the sign of the divisor.
  Val mod(Val a, Val b) {
    const Val r = rem(a, b);
    if (!signed_) return r;
    const Val differ = b_.lt(b_.scalar_op(ScalarOp::BitXor, {r, b}), c(0));
    const Val nonzero = b_.scalar_op(ScalarOp::NotEqual, {r, c(0)});
    return b_.select(b_.logical_and(differ, nonzero), b_.add(r, b), r);
  }

  Val is_odd(Val v) {
    return b_.scalar_op(ScalarOp::NotEqual, {b_.scalar_op(ScalarOp::BitAnd, {v, c(1)}), c(0)});
  }

  Val pow(Val base, Val exponent) {
    const auto known = b_.as_const(exponent);
    if (known && (*known >= 0 || !signed_)) {
      const uint64_t bits = ~uint64_t{0} >> (64 - byte_size(t_.ty) * 8);
      return constant_power(base, static_cast<uint64_t>(*known) & bits);
    }
    const Val r = known ? Val{} : looped_power(base, exponent);
    if (!signed_) return r;
    const Val sign = b_.select(is_odd(exponent), c(-1), c(1));
    const Val inverse =
        b_.select(b_.eq(base, c(1)), c(1), b_.select(b_.eq(base, c(-1)), sign, c(0)));
    return known ? inverse : b_.select(b_.lt(exponent, c(0)), inverse, r);
  }

  Val constant_power(Val base, uint64_t exponent) {
    Val r = c(1);
    for (; exponent != 0; exponent >>= 1U) {
      if ((exponent & 1U) != 0) r = b_.mul(r, base);
      if (exponent > 1) base = b_.mul(base, base);
    }
    return r;
  }

  /// One step for each bit of the exponent. No product is larger than the power: devices without
  /// 64-bit integers would report that it overflows.
  Val looped_power(Val base, Val exponent) {
    const int power = b_.local("power", t_), factor = b_.local("power_factor", t_),
              rest = b_.local("power_rest", t_);
    b_.local_store(power, c(1));
    b_.local_store(factor, base);
    b_.local_store(rest, exponent);
    const int64_t steps = static_cast<int64_t>(byte_size(t_.ty)) * 8 - (signed_ ? 1 : 0);
    b_.for_loop(b_.i32(0), b_.i32(steps), b_.i32(1), [&](Val) {
      const Val left = b_.local_load(rest), f = b_.local_load(factor), p = b_.local_load(power);
      b_.local_store(power, b_.mul(p, b_.select(is_odd(left), f, c(1))));
      const Val next = b_.select(b_.lt(c(1), left), f, c(1));
      b_.local_store(factor, b_.mul(next, next));
      b_.local_store(rest, b_.scalar_op(ScalarOp::ShiftRight, {left, c(1)}));
    });
    return b_.local_load(power);
  }

  Builder& b_;
  Type t_;
  bool signed_;
};

/// Whether a row that is expanded for other classes is native for halves.
bool native_for_halves(ScalarOp o) {
  switch (o) {
    case ScalarOp::Div:
    case ScalarOp::Abs:
    case ScalarOp::Round:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
      return true;
    default:
      return false;
  }
}

/// By instruction: whether its value, a half, is only stored, alone or in a vector.
std::vector<bool> only_stored(const Kernel& k) {
  std::vector<bool> out(k.insts.size(), true);
  for (size_t id = k.insts.size(); id-- > 0;) {
    const Inst& i = k.insts[id];
    const bool joins = i.op == Op::Compose || i.op == Op::Extract;
    for (size_t n = 0; n < i.args.size(); ++n) {
      // Words of halves are stored as well.
      const bool stored = (i.op == Op::Store && n == 1) || i.op == Op::Bitcast;
      if (!stored && !(joins && out[id])) out[static_cast<size_t>(i.args[n].id)] = false;
    }
  }
  return out;
}

class Expander : public Rebuilder {
 public:
  Expander(const Kernel& k, const LegalizeFor& target)
      : Rebuilder(k, Builder::like(k)),
        exact_(target.exact),
        native_halves_(target.exact_halves && !target.exact ? only_stored(k)
                                                            : std::vector<bool>(k.insts.size())) {}

 protected:
  Val rewrite(const Inst& i, std::span<const Val> args) override {
    Val r;
    if (i.op == Op::Scalar) r = scalar(i, args);
    if (i.op == Op::Convert && i.imm == 0) r = convert(i, args[0]);
    return r ? r : copy(i, args);
  }

 private:
  const Inst& source(Val v) const { return from_.insts[static_cast<size_t>(v.id)]; }

  Val scalar(const Inst& i, std::span<const Val> args) {
    const auto o = static_cast<ScalarOp>(i.imm);
    const Type t = to_.type(args.back());
    if (o == ScalarOp::ShiftLeft || o == ScalarOp::ShiftRight) return shift(i, args, t);
    if (!row(o).expanded) return {};
    if ((class_of(t.ty) & kInt) != 0) return IntegerMath(to_, t).expand(o, args);
    if (t.ty == Ty::F32 || t.ty == Ty::F64) return FloatMath(to_, t, exact_).expand(o, args);
    if (native_for_halves(o)) return {};
    return half(i, args, t);
  }

  Val half(const Inst& i, std::span<const Val> args, Type t) {
    const auto o = static_cast<ScalarOp>(i.imm);
    std::vector<Val> wide;
    for (Val v : args) wide.push_back(to_.convert(v, Ty::F32));
    FloatMath math(to_, {Ty::F32, t.lanes}, exact_);
    const Val r = math.expand(o, wide);
    return row(o).result == ResultKind::Boolean ? r : to_half(math, r, i);
  }

  /// The result of an instruction, rounded. workarounds::kWidenedHalves: a device rounds only what
  /// is stored at once.
  Val to_half(FloatMath& math, Val x, const Inst& i) {
    const bool native = exact_ || native_halves_[static_cast<size_t>(&i - from_.insts.data())];
    return native ? to_.convert(x, Ty::F16) : math.to_half(x);
  }

  Val shift(const Inst& i, std::span<const Val> args, Type t) {
    const int64_t width = byte_size(t.ty) * 8;
    const auto in_range = [&](std::optional<int64_t> v) { return v && *v >= 0 && *v < width; };
    if (in_range(to_.as_const(args[1]))) return {};
    const Inst& amount = source(i.args[1]);
    if (amount.op == Op::Scalar && static_cast<ScalarOp>(amount.imm) == ScalarOp::BitAnd) {
      const Inst& mask = source(amount.args[1]);
      if (mask.op == Op::Const && in_range(static_cast<int64_t>(mask.imm))) return {};
    }
    return IntegerMath(to_, t).shift(static_cast<ScalarOp>(i.imm), args[0], args[1]);
  }

  Val convert(const Inst& i, Val v) {
    const Type from = to_.type(v);
    if (from.ty == Ty::U32 && i.type.ty == Ty::F32 && !exact_ && !to_.is_below_half(v))
      return FloatMath(to_, {Ty::F32, from.lanes}).of_unsigned(v);
    const bool to_int = (class_of(i.type.ty) & kInt) != 0;
    if (class_of(from.ty) != kFloat || (!to_int && i.type.ty != Ty::F16)) return {};
    if (from.ty == Ty::F64) {
      FloatMath wide(to_, from);
      if (to_int) return wide.to_integer(v, i.type.ty);
      v = wide.to_f32_odd(v);
    }
    if (from.ty == Ty::F16) v = to_.convert(v, Ty::F32);
    FloatMath math(to_, {Ty::F32, from.lanes}, exact_);
    return to_int ? math.to_integer(v, i.type.ty) : to_half(math, v, i);
  }

  const bool exact_;
  const std::vector<bool> native_halves_;  // by instruction
};

bool is_wide_power(const Inst& i) {
  return i.op == Op::Scalar && static_cast<ScalarOp>(i.imm) == ScalarOp::Pow &&
         (i.type.ty == Ty::I64 || i.type.ty == Ty::U64);
}

class PowerExpander : public Rebuilder {
 public:
  explicit PowerExpander(const Kernel& k) : Rebuilder(k, Builder::like(k)) {}

 protected:
  Val rewrite(const Inst& i, std::span<const Val> args) override {
    return is_wide_power(i) ? IntegerMath(to_, i.type).expand(ScalarOp::Pow, args) : copy(i, args);
  }
};

/// Whether the expander may rewrite an instruction.
bool may_expand(const Kernel& k, const Inst& i) {
  const auto from = [&](size_t a) { return k.insts[static_cast<size_t>(i.args[a].id)].type.ty; };
  if (i.op == Op::Convert && from(0) == Ty::U32) return i.type.ty == Ty::F32;
  if (i.op == Op::Convert) return i.imm == 0 && class_of(from(0)) == kFloat;
  if (i.op != Op::Scalar) return false;
  const auto o = static_cast<ScalarOp>(i.imm);
  return o == ScalarOp::ShiftLeft || o == ScalarOp::ShiftRight || row(o).expanded;
}

}  // namespace

Status expand_wide_powers(Kernel& k) {
  if (std::none_of(k.insts.begin(), k.insts.end(), is_wide_power)) return {};
  RP_ASSIGN(Kernel out, PowerExpander(k).run());
  k = std::move(out);
  return {};
}

Status expand(Kernel& k) {
  return expand(k, {});
}

Status expand(Kernel& k, const LegalizeFor& target) {
  RP_TRY(verify_in_debug(k));
  const auto rewritten = [&](const Inst& i) { return may_expand(k, i); };
  if (std::none_of(k.insts.begin(), k.insts.end(), rewritten)) return {};
  RP_ASSIGN(Kernel out, Expander(k, target).run());
  k = std::move(out);
  return {};
}

}  // namespace reprise::kernel
