// Accesses elements of 8 and 16 bits in buffers of 32-bit words.
#include "codegen/kernel/legal/legalize.h"

namespace reprise::kernel {

namespace {

/// A vector of these scalars, which may be a long one.
Val vector_of(Builder& b, std::span<const Val> lanes) {
  if (lanes.size() <= size_t{kPartLanes}) return b.compose(lanes);
  std::vector<Val> parts;
  for (size_t n = 0; n < lanes.size(); n += kPartLanes)
    parts.push_back(b.compose(lanes.subspan(n, kPartLanes)));
  return b.compose(parts);
}

}  // namespace

Val PackedElements::decode(Val bits) {
  const auto u = [&](uint32_t v) { return b_.u32(v); };
  const auto signed_lane = [&](uint32_t shift) {
    const Val top = b_.bitcast(b_.scalar_op(ScalarOp::ShiftLeft, {bits, u(shift)}), kI32);
    return b_.scalar_op(ScalarOp::ShiftRight, {top, b_.i32(shift)});
  };
  switch (storage_) {
    case Ty::I8:
      return signed_lane(24);
    case Ty::I16:
      return signed_lane(16);
    case Ty::U8:
      return b_.scalar_op(ScalarOp::BitAnd, {bits, u(0xff)});
    case Ty::BF16:
      return b_.bitcast(b_.scalar_op(ScalarOp::ShiftLeft, {bits, u(16)}), kF32);
    case Ty::F16:
      return FloatMath(b_, kF32).from_half_bits(b_.scalar_op(ScalarOp::BitAnd, {bits, u(0xffff)}));
    default:  // U16
      return b_.scalar_op(ScalarOp::BitAnd, {bits, u(0xffff)});
  }
}

Val PackedElements::encode(Val value) {
  switch (storage_) {
    case Ty::BF16:
      return FloatMath(b_, kF32).bfloat_bits(value);
    case Ty::F16:
      return FloatMath(b_, kF32).half_bits(value);
    default: {
      const uint32_t mask = bits_per_element() == 8 ? 0xff : 0xffff;
      return b_.scalar_op(ScalarOp::BitAnd, {b_.bitcast(value, kU32), b_.u32(mask)});
    }
  }
}

Val PackedElements::load(int buffer, Val index, int lanes, uint32_t align) {
  const auto count = static_cast<uint32_t>(per_word());
  const Val at = b_.convert(index, Ty::U32);
  const Val word = b_.scalar_op(ScalarOp::ShiftRight, {at, b_.u32(count == 4 ? 2 : 1)});
  const auto bits = static_cast<uint32_t>(bits_per_element());
  std::vector<Val> out;
  if (align % count == 0) {
    // The access starts at a word, so the shifts of the lanes are constants.
    const auto n = static_cast<uint32_t>(lanes);
    const uint32_t words = (n + count - 1) / count;
    const Val all = b_.load(buffer, word, static_cast<int>(words), align / count);
    for (uint32_t l = 0; l < n; ++l) {
      const Val w = b_.extract(all, static_cast<int>(l / count));
      out.push_back(decode(b_.scalar_op(ScalarOp::ShiftRight, {w, b_.u32(l % count * bits)})));
    }
    return vector_of(b_, out);
  }
  // The access is aligned to its number of lanes, so these lie in one word.
  const Val w = b_.load(buffer, word);
  const Val first = b_.mul(b_.scalar_op(ScalarOp::BitAnd, {at, b_.u32(count - 1)}), b_.u32(bits));
  for (int l = 0; l < lanes; ++l) {
    const Val shift = b_.add(first, b_.u32(static_cast<uint32_t>(l) * bits));
    const Val masked = b_.scalar_op(ScalarOp::BitAnd, {shift, b_.u32(31)});
    out.push_back(decode(b_.scalar_op(ScalarOp::ShiftRight, {w, masked})));
  }
  return b_.compose(out);
}

void PackedElements::store(int buffer, Val index, Val value, uint32_t align) {
  const auto count = static_cast<uint32_t>(per_word());
  const uint32_t lanes = b_.type(value).lanes;
  const auto bits = static_cast<uint32_t>(bits_per_element());
  if (lanes % count != 0 || align % count != 0) {
    for (uint32_t l = 0; l < lanes; ++l) {
      const Val at = b_.add(b_.convert(index, Ty::U32), b_.u32(l));
      const Val place = b_.scalar_op(ScalarOp::BitAnd, {at, b_.u32(count - 1)});
      store_part(buffer, at, b_.mul(place, b_.u32(bits)), b_.extract(value, static_cast<int>(l)));
    }
    return;
  }
  std::vector<Val> words;
  for (uint32_t l = 0; l < lanes; ++l) {
    const Val lane = encode(b_.extract(value, static_cast<int>(l)));
    const Val placed = b_.scalar_op(ScalarOp::ShiftLeft, {lane, b_.u32(l % count * bits)});
    if (l % count == 0) {
      words.push_back(placed);
    } else {
      words.back() = b_.scalar_op(ScalarOp::BitOr, {words.back(), placed});
    }
  }
  const Val at = b_.convert(index, Ty::U32);
  const Val word = b_.scalar_op(ScalarOp::ShiftRight, {at, b_.u32(count == 4 ? 2 : 1)});
  b_.store(buffer, word, b_.compose(words), align / count);
}

Val PackedElements::load_halves(int buffer, Val index, int lanes, uint32_t align) {
  const Val word = b_.scalar_op(ScalarOp::ShiftRight, {b_.convert(index, Ty::U32), b_.u32(1)});
  const Val words = b_.load(buffer, word, lanes / 2, align / 2);
  if (lanes <= kPartLanes) return b_.bitcast(words, {Ty::F16, static_cast<uint8_t>(lanes)});
  std::vector<Val> parts;
  for (int n = 0; n < lanes / 2; n += 2) {
    const Val two = b_.compose({b_.extract(words, n), b_.extract(words, n + 1)});
    parts.push_back(b_.bitcast(two, {Ty::F16, kPartLanes}));
  }
  return b_.compose(parts);
}

void PackedElements::store_halves(int buffer, Val index, Val value, uint32_t align) {
  const Val word = b_.scalar_op(ScalarOp::ShiftRight, {b_.convert(index, Ty::U32), b_.u32(1)});
  const int lanes = b_.type(value).lanes;
  if (lanes <= kPartLanes) {
    const Val words = b_.bitcast(value, {Ty::U32, static_cast<uint8_t>(lanes / 2)});
    return b_.store(buffer, word, words, align / 2);
  }
  std::vector<Val> words;
  for (int n = 0; n < lanes / kPartLanes; ++n) {
    const Val two = b_.bitcast(b_.part(value, n), {Ty::U32, 2});
    words.push_back(b_.extract(two, 0));
    words.push_back(b_.extract(two, 1));
  }
  b_.store(buffer, word, b_.compose(words), align / 2);
}

void PackedElements::store_part(int buffer, Val at, Val shift, Val value) {
  const auto shifted = [&](Val v) { return b_.scalar_op(ScalarOp::ShiftLeft, {v, shift}); };
  const uint32_t ones = bits_per_element() == 8 ? 0xff : 0xffff;
  const Val word = b_.scalar_op(ScalarOp::ShiftRight, {at, b_.u32(per_word() == 4 ? 2 : 1)});
  b_.store_bits(buffer, word, shifted(encode(value)), shifted(b_.u32(ones)));
}

// --- Half-precision bits without half-precision arithmetic

Val FloatMath::rounded_half_magnitude(Val magnitude) {
  const Val last = op(ScalarOp::BitAnd, op(ScalarOp::ShiftRight, magnitude, u(13)), u(1));
  return b_.add(b_.add(magnitude, u(0xfff)), last);
}

Val FloatMath::half_bits(Val x) {
  const Val a = abs_bits(x);
  const Val normal = b_.min(
      b_.sub(op(ScalarOp::ShiftRight, rounded_half_magnitude(a), u(13)), u(0x1c000)), u(0x7c00));
  // Below 2^-14, halves are multiples of 2^-24, the spacing of floats at 1/2.
  const Val subnormal = b_.sub(bits(b_.add(real(a), c(0.5))), u(0x3f000000U));
  Val r = b_.select(b_.lt(a, u(0x38800000U)), subnormal, normal);
  r = b_.select(gt(a, u(0x7f800000U)), u(0x7e00), r);
  return op(ScalarOp::BitOr, r, op(ScalarOp::ShiftRight, sign_bit(x), u(16)));
}

Val FloatMath::from_half_bits(Val h) {
  const Val magnitude = op(ScalarOp::BitAnd, h, u(0x7fff));
  const Val sign = op(ScalarOp::ShiftLeft, op(ScalarOp::BitAnd, h, u(0x8000)), u(16));
  const Val shifted = op(ScalarOp::ShiftLeft, magnitude, u(13));
  const Val normal = b_.add(shifted, u(0x38000000U));
  const Val special = op(ScalarOp::BitOr, shifted, u(0x7f800000U));
  const Val subnormal = bits(b_.mul(b_.convert(magnitude, Ty::F32), c(0x1p-24)));
  Val r = b_.select(op(ScalarOp::GreaterOrEqual, magnitude, u(0x7c00)), special, normal);
  r = b_.select(b_.lt(magnitude, u(0x400)), subnormal, r);
  return real(op(ScalarOp::BitOr, r, sign));
}

Val FloatMath::round_to_half(Val x) {
  const Val a = abs_bits(x);
  const Val normal = op(ScalarOp::BitAnd, rounded_half_magnitude(a), u(0xffffe000U));
  const Val subnormal = bits(b_.sub(b_.add(real(a), c(0.5)), c(0.5)));
  Val r = b_.select(b_.lt(a, u(0x38800000U)), subnormal, normal);
  r = b_.select(op(ScalarOp::GreaterOrEqual, r, u(0x47800000U)), u(0x7f800000U), r);
  r = b_.select(gt(a, u(0x7f800000U)), a, r);
  return real(op(ScalarOp::BitOr, r, sign_bit(x)));
}

Val FloatMath::bfloat_bits(Val x) {
  const Val raw = bits(x);
  const Val last = op(ScalarOp::BitAnd, op(ScalarOp::ShiftRight, raw, u(16)), u(1));
  const Val rounded = op(ScalarOp::ShiftRight, b_.add(b_.add(raw, u(0x7fff)), last), u(16));
  const Val quiet = op(ScalarOp::BitOr, op(ScalarOp::ShiftRight, raw, u(16)), u(0x40));
  return b_.select(is_nan(x), quiet, rounded);
}

Val FloatMath::round_to_bfloat(Val x) {
  return real(op(ScalarOp::ShiftLeft, bfloat_bits(x), u(16)));
}

}  // namespace reprise::kernel
