// cvt and cvta.
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

bool is_float(Type t) {
  return t == Type::F16 || t == Type::BF16 || t == Type::F32 || t == Type::F64;
}
bool is_signed(Type t) {
  return t == Type::S8 || t == Type::S16 || t == Type::S32 || t == Type::S64;
}

double float_of(Type t, uint64_t bits) {
  switch (t) {
    case Type::F16:
      return double(value<Half>(bits));
    case Type::BF16:
      return double(value<Brain>(bits));
    case Type::F32:
      return static_cast<double>(value<float>(bits));
    default:
      return value<double>(bits);
  }
}

/// The nearest fp32 in the direction.
float single(double v, Rounding r) {
  const auto nearest = static_cast<float>(v);
  const auto back = static_cast<double>(nearest);
  if (r == Rounding::Nearest || back == v || std::isnan(v)) return nearest;
  const bool over = back > v, down = r == Rounding::Down || (r == Rounding::Zero && v > 0);
  if (over == down) return std::nextafter(nearest, down ? -HUGE_VALF : HUGE_VALF);
  return nearest;
}

uint64_t bits_of_float(Type t, double v, Rounding r) {
  switch (t) {
    case Type::F16:
      return Half(v).bits;
    case Type::BF16:
      return Brain(v).bits;
    case Type::F32:
      return std::isnan(v) ? 0x7FFFFFFF : bits(single(v, r));
    default:
      return bits(v);
  }
}

double integral(double v, Rounding r) {
  switch (r) {
    case Rounding::Nearest:
      return std::nearbyint(v);
    case Rounding::Zero:
      return std::trunc(v);
    case Rounding::Down:
      return std::floor(v);
    default:
      return std::ceil(v);
  }
}

uint64_t mask_of(Type t) {
  return ~uint64_t{0} >> (64 - 8 * size_of(t));
}

/// Floats beyond an integer's range become its nearest end; NaN becomes 0.
uint64_t integer_of(Type t, double v, Rounding r) {
  const int width = static_cast<int>(8 * size_of(t));
  v = integral(v, r);
  if (std::isnan(v)) return is_signed(t) || width < 64 ? 0 : uint64_t{1} << 63;
  const double limit = std::ldexp(1.0, is_signed(t) ? width - 1 : width);
  if (v >= limit) return is_signed(t) ? mask_of(t) >> 1 : mask_of(t);
  if (is_signed(t)) {
    if (v <= -limit) return uint64_t{1} << (width - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(v)) & mask_of(t);
  }
  return v <= 0 ? 0 : static_cast<uint64_t>(v);
}

uint64_t clamped(Type to, Type from, uint64_t v) {
  if (is_signed(to)) {
    const auto most = static_cast<int64_t>(mask_of(to) >> 1);
    if (!is_signed(from)) return std::min(v, static_cast<uint64_t>(most));
    return static_cast<uint64_t>(std::clamp(static_cast<int64_t>(v), -most - 1, most));
  }
  if (is_signed(from) && static_cast<int64_t>(v) < 0) return 0;
  return std::min(v, mask_of(to));
}

float rounded_single(uint64_t v, bool is_negative_type) {
  return is_negative_type ? static_cast<float>(static_cast<int64_t>(v)) : static_cast<float>(v);
}

uint64_t converted(const Instruction& i, uint64_t v) {
  const Type to = i.type, from = i.source_type;
  if (!is_float(from)) {
    v = fitted(from, v, 8);
    if (!is_float(to)) return (i.saturate ? clamped(to, from, v) : v) & mask_of(to);
    if (to == Type::F32 && i.rounding == Rounding::Nearest)
      return bits(rounded_single(v, is_signed(from)));
    return bits_of_float(
        to, is_signed(from) ? static_cast<double>(static_cast<int64_t>(v)) : static_cast<double>(v),
        i.rounding);
  }
  double x = float_of(from, v);
  const auto flush = [&](double f) {
    return i.flush && std::fabs(f) < 0x1p-126 ? std::copysign(0.0, f) : f;
  };
  if (from == Type::F32) x = flush(x);
  if (!is_float(to)) return integer_of(to, x, i.rounding);
  if (i.number != 0) x = integral(x, i.rounding);
  if (i.saturate) x = std::isnan(x) ? 0 : std::clamp(x, 0.0, 1.0);
  // Between equal types nothing is rounded; NaN keeps its bits.
  if (to == from && std::isnan(x)) return v;
  return bits_of_float(to, x, to == from ? Rounding::Nearest : i.rounding);
}

void convert(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = fitted(i.type, converted(i, a[l]), i.width); });
}

/// Two numbers of fp32 in one register; the first is its upper half.
template <typename T>
void convert_pair(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  for_lanes(mask, [&](uint32_t l) {
    const auto half = [&](uint64_t v) {
      const double x = float_of(Type::F32, v);
      return uint64_t{T(i.saturate && !(x > 0) ? 0.0 : x).bits};
    };
    d[l] = half(a[l]) << 16 | half(b[l]);
  });
}

/// f32 to tf32: 10 bits after the point, ties away from zero.
void convert_tf32(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) {
    const auto v = static_cast<uint32_t>(a[l]);
    d[l] = (v & 0x7F800000) == 0x7F800000 ? v : (v + 0x1000) & ~0x1FFFU;
  });
}

bool decode_cvt(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "cvt") return false;
  const int whole = w.take_one({"rni", "rzi", "rmi", "rpi"});
  const int places = whole >= 0 ? -1 : w.take_one({"rn", "rz", "rm", "rp", "rna"});
  const bool relu = w.take("relu");
  i.flush = w.take("ftz");
  i.saturate = w.take("sat") || relu;
  i.number = whole >= 0 ? 1 : 0;
  if (whole >= 0 || (places >= 0 && places < 4))
    i.rounding = static_cast<Rounding>(std::max(whole, places));
  s = {{1}, {1}, false, false};
  if (places == 4) {
    i.run = convert_tf32;
    return w.take("tf32") && w.take("f32");
  }
  const int pair = w.take_one({"f16x2", "bf16x2"});
  if (pair >= 0) {
    s.from = {1, 1};
    i.run = pair == 0 ? convert_pair<Half> : convert_pair<Brain>;
    return places == 0 && i.saturate == relu && w.take("f32");
  }
  if (relu || !w.take_type(i.type) || !w.take_type(i.source_type)) return false;
  // The ISA demands to be told how to round wherever rounding is possible.
  const bool to = is_float(i.type), from = is_float(i.source_type);
  if (from && !to && whole < 0) return false;
  if (!from && to && places < 0) return false;
  if (!from && !to && (whole >= 0 || places >= 0)) return false;
  if (from && to && size_of(i.type) < size_of(i.source_type) && places < 0) return false;
  const bool small = i.type == Type::F16 || i.type == Type::BF16;
  if (small && places > 0) return false;
  i.run = convert;
  return true;
}

/// cvta: between addresses of a space and generic ones. i.transposed: to the space.
void convert_address(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) {
    d[l] = a[l];
    if (i.space != Space::Shared) return;
    if (i.transposed && (a[l] < kSharedWindow || a[l] >= kLocalWindow))
      w.fail(i, "an address that is not of shared memory");
    d[l] = i.transposed ? a[l] - kSharedWindow : a[l] + kSharedWindow;
  });
}

bool decode_cvta(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "cvta") return false;
  i.transposed = w.take("to");
  const int space =
      w.take_one({"shared", "shared::cta", "shared::cluster", "global", "local", "const", "param"});
  if (space < 0 || !w.take("u64")) return false;
  i.space = space < 3 ? Space::Shared : Space::Global;  // the others have generic addresses here
  i.run = convert_address;
  s = {{1}, {1}, false, false};
  return true;
}

}  // namespace

bool decode_conversion(Words& w, Instruction& i, Shape& s) {
  return decode_cvt(w, i, s) || decode_cvta(w, i, s);
}

}  // namespace reprise::test::ptx
