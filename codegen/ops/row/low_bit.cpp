#include "codegen/ops/row/low_bit.h"

#include <cmath>

namespace reprise::ops {

namespace {

using kernel::Builder;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;
using kernel::Val;

constexpr uint32_t kInfinity = 0x7f800000u, kNan = 0x7fc00000u;
constexpr uint32_t kPowerNan = 255;

/// Writes operations on words of as many lanes as a given value.
class Words {
 public:
  Words(Builder& b, int lanes) : b_(b), u32_(kernel::vec(kernel::kU32, lanes)) {}

  Val word(uint32_t v) { return b_.constant(u32_, v); }
  Val mask(Val v, uint32_t bits) { return b_.scalar_op(ScalarOp::BitAnd, {v, word(bits)}); }
  Val join(Val a, Val b) { return b_.scalar_op(ScalarOp::BitOr, {a, b}); }
  Val left(Val v, Val by) { return b_.scalar_op(ScalarOp::ShiftLeft, {v, by}); }
  Val right(Val v, Val by) { return b_.scalar_op(ScalarOp::ShiftRight, {v, by}); }
  Val left(Val v, int by) { return left(v, word(static_cast<uint32_t>(by))); }
  Val right(Val v, int by) { return right(v, word(static_cast<uint32_t>(by))); }
  Val above(Val v, uint32_t limit) { return b_.lt(word(limit), v); }
  Val below(Val v, uint32_t limit) { return b_.lt(v, word(limit)); }
  Val choose(Val condition, Val a, Val b) { return b_.select(condition, a, b); }
  Val choose(Val condition, uint32_t a, Val b) { return b_.select(condition, word(a), b); }
  Val as_float(Val bits) { return b_.bitcast(bits, kernel::vec(kernel::kF32, u32_.lanes)); }
  Val as_word(Val v) { return b_.bitcast(v, u32_); }

  Val decode(const LowBitFloat& f, Val code);
  Val decode_power(Val code);
  Val encode(const LowBitFloat& f, Val bits, bool saturate);
  Val encode_power(Val bits, LowBitRules rules);

 private:
  Val rounded(const LowBitFloat& f, Val magnitude);

  Builder& b_;
  Type u32_;
};

/// The bits of the float32 that the code stands for.
Val Words::decode(const LowBitFloat& f, Val code) {
  const int m = f.mantissa_bits, sign_at = f.exponent_bits + m;
  const Val magnitude = mask(code, (1u << sign_at) - 1);
  const Val sign = left(mask(right(code, sign_at), 1), 31);
  const Val normal =
      b_.add(left(magnitude, 23 - m), word(static_cast<uint32_t>(127 - f.bias) << 23));
  const Type f32 = kernel::vec(kernel::kF32, u32_.lanes);
  const Val unit = b_.constant(f32, std::ldexp(1.0, 1 - f.bias - m));
  const Val subnormal = as_word(b_.mul(b_.convert(magnitude, Ty::F32), unit));
  Val bits = choose(below(magnitude, 1u << m), subnormal, normal);
  if (f.least_nan < 1u << sign_at) {
    bits = choose(above(magnitude, f.largest), kInfinity, bits);
    bits = choose(above(magnitude, f.least_nan - 1u), kNan, bits);
  }
  bits = join(bits, sign);
  if (f.signed_zero) return bits;
  return choose(b_.eq(mask(code, (2u << sign_at) - 1), word(1u << sign_at)), kNan, bits);
}

Val Words::decode_power(Val code) {
  const Val exponent = mask(code, 0xff);
  const Val bits = choose(below(exponent, 1), 0x400000u, left(exponent, 23));  // 0: 2^-127
  return choose(above(exponent, kPowerNan - 1), kNan, bits);
}

/// The code of a positive number; it may be above the largest.
Val Words::rounded(const LowBitFloat& f, Val magnitude) {
  const auto m = static_cast<uint32_t>(f.mantissa_bits);
  const Val exponent = right(magnitude, 23);
  const Val least = word(static_cast<uint32_t>(128 - f.bias));  // exponent of a normal number
  const Val kept = b_.max(exponent, least);
  const Val shift = b_.min(b_.sub(b_.add(word(23 - m), kept), exponent), word(25));
  const Val full = join(mask(magnitude, 0x7fffffu), word(0x800000u));
  const Val odd = mask(right(full, shift), 1);
  const Val half = left(word(1), b_.sub(shift, word(1)));
  const Val up = b_.add(b_.sub(half, word(1)), odd);
  const Val mantissa = right(b_.add(full, up), shift);
  return b_.add(left(b_.sub(kept, least), f.mantissa_bits), mantissa);
}

Val Words::encode(const LowBitFloat& f, Val bits, bool saturate) {
  const Val magnitude = mask(bits, 0x7fffffffu);
  Val code = rounded(f, magnitude);
  code = choose(above(code, f.largest), saturate ? f.largest : f.beyond, code);
  code = choose(above(magnitude, kInfinity), f.nan, code);
  const Val sign = left(right(bits, 31), f.exponent_bits + f.mantissa_bits);
  const Val with_sign = join(code, sign);
  return f.signed_zero ? with_sign : choose(below(code, 1), 0, with_sign);
}

Val Words::encode_power(Val bits, LowBitRules rules) {
  const bool up = rules.power == PowerRounding::Up, down = rules.power == PowerRounding::Down;
  const Val magnitude = mask(bits, 0x7fffffffu);
  const Val normal = right(b_.add(magnitude, word(up ? 0x7fffffu : down ? 0 : 0x400000u)), 23);
  const Val small =
      down ? word(0) : choose(above(magnitude, up ? 0x400000u : 0x5fffffu), 1, word(0));
  Val code = choose(below(magnitude, 0x800000u), small, normal);
  code = choose(below(magnitude, 0x400000u), rules.saturate ? 0 : kPowerNan, code);
  code = choose(above(magnitude, 0x7f000000u), rules.saturate ? 254 : kPowerNan, code);
  // Below zero, and NaN of either sign.
  code = choose(above(bits, 0x80000000u), kPowerNan, code);
  return choose(above(magnitude, kInfinity), kPowerNan, code);
}

}  // namespace

DType low_bit_number_type(DType from) {
  if (!is_low_bit_int(from)) return DType::F32;
  return is_signed_low_bit_int(from) ? DType::I32 : DType::U32;
}

Val low_bit_number(Builder& b, DType from, Val code) {
  if (is_low_bit_int(from)) return b.wrap(code, bits_of(from));
  Words w(b, b.type(code).lanes);
  const auto format = low_bit_float(from);
  return w.as_float(format ? w.decode(*format, code) : w.decode_power(code));
}

Val low_bit_code(Builder& b, DType to, Val number, LowBitRules rules) {
  if (is_low_bit_int(to)) {
    const Ty type = is_signed_low_bit_int(to) ? Ty::I32 : Ty::U32;
    // A float is truncated to a signed word even for unsigned types, whose low bits are the same.
    const Ty given = b.type(number).ty;
    const bool real = given == Ty::F16 || given == Ty::F32 || given == Ty::F64;
    if (real) number = b.convert(number, Ty::I32);
    if (b.type(number).ty != type) number = b.convert(number, type);
    return b.wrap(number, bits_of(to));
  }
  Words w(b, b.type(number).lanes);
  const Val bits = w.as_word(number);
  const auto format = low_bit_float(to);
  return format ? w.encode(*format, bits, rules.saturate) : w.encode_power(bits, rules);
}

}  // namespace reprise::ops
