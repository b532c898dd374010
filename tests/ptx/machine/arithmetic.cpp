// add, sub, mul, mad, fma, div, rem, min, max, abs, neg, setp, selp, and functions of floats.
#include <cfenv>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

template <typename T>
constexpr bool kIsSmall = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;
template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmall<T>;

template <typename T>
T from_double(double v) {
  return T(v);
}

template <typename T>
T sum(T a, T b) {
  if constexpr (kIsSmall<T>)
    return T(sum_to_odd(double(a), double(b)));
  else if constexpr (kIsFloat<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
}
template <typename T>
T minus(T a, T b) {
  if constexpr (kIsSmall<T>)
    return T(sum_to_odd(double(a), -double(b)));
  else if constexpr (kIsFloat<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) -
                          static_cast<std::make_unsigned_t<T>>(b));
}
template <typename T>
T product(T a, T b) {
  if constexpr (kIsSmall<T>)
    return T(double(a) * double(b));
  else if constexpr (kIsFloat<T>)
    return a * b;
  else
    return static_cast<T>(uint64_t(a) * uint64_t(b));
}
template <typename T>
T fused(T a, T b, T c) {
  if constexpr (kIsSmall<T>)
    return T(sum_to_odd(double(a) * double(b), double(c)));
  else if constexpr (kIsFloat<T>)
    return std::fma(a, b, c);
  else
    return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
}
template <typename T>
T quotient(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a / b;
  } else {
    // The ISA leaves these open.
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return minus<T>(0, a);
    return static_cast<T>(a / b);
  }
}
template <typename T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
bool is_nan(T v) {
  if constexpr (kIsSmall<T>)
    return std::isnan(double(v));
  else if constexpr (kIsFloat<T>)
    return std::isnan(v);
  else
    return false;
}
template <typename T>
bool is_less(T a, T b) {
  if constexpr (kIsSmall<T>)
    return double(a) < double(b);
  else
    return a < b;
}
template <typename T>
bool is_negative(T v) {
  if constexpr (kIsSmall<T>)
    return (v.bits & 0x8000) != 0;
  else if constexpr (kIsFloat<T>)
    return std::signbit(v);
  else
    return false;
}
template <typename T>
T nan_of() {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(0x7FFFFFFFU);
  else
    return from_double<T>(std::numeric_limits<double>::quiet_NaN());
}
/// -0 is less than +0.
template <typename T, bool kNan, bool kLess>
T extreme(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (is_nan(a) || is_nan(b)) {
      if (kNan || (is_nan(a) && is_nan(b))) return nan_of<T>();
      return is_nan(a) ? b : a;
    }
    if (!is_less(a, b) && !is_less(b, a)) return is_negative(a) == kLess ? a : b;
  }
  return is_less(a, b) == kLess ? a : b;
}
template <typename T, bool kNan>
T smaller(T a, T b) {
  return extreme<T, kNan, true>(a, b);
}
template <typename T, bool kNan>
T larger(T a, T b) {
  return extreme<T, kNan, false>(a, b);
}
template <typename T>
T negated(T a) {
  if constexpr (kIsSmall<T>)
    a.bits ^= 0x8000;
  else if constexpr (kIsFloat<T>)
    a = -a;
  else
    a = minus<T>(0, a);
  return a;
}
template <typename T>
T magnitude(T a) {
  if constexpr (kIsSmall<T>)
    a.bits &= 0x7FFF;
  else if constexpr (kIsFloat<T>)
    a = std::fabs(a);
  else
    a = a < 0 ? minus<T>(0, a) : a;
  return a;
}

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

/// The upper half of a product.
template <typename T>
T upper(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
    return static_cast<T>(Wide(a) * Wide(b) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>(Wide(a) * Wide(b) >> (8 * sizeof(T)));
  }
}
template <typename T>
T upper_plus(T a, T b, T c) {
  return sum<T>(upper(a, b), c);
}

template <typename T>
struct Twice;
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};

template <typename T>
void multiply_wide(Warp& w, const Instruction& i, uint32_t mask) {
  using Wide = typename Twice<T>::type;
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  const uint64_t* c = i.from.size() > 2 ? w.from(i.from[2]) : nullptr;
  for_lanes(mask, [&](uint32_t l) {
    const Wide v = static_cast<Wide>(Wide(value<T>(a[l])) * Wide(value<T>(b[l])));
    d[l] = bits(sum<Wide>(v, c == nullptr ? Wide{0} : value<Wide>(c[l])));
  });
}

/// Rounds as the instruction says, while it lives.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding r) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[static_cast<size_t>(r)]);
  }
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

float flushed(float v) {
  return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0F, v) : v;
}

/// Floats with what modifiers do to operands and result.
template <typename T, auto op, int kArity>
void modified(Warp& w, const Instruction& i, uint32_t mask) {
  const RoundingScope scope(i.rounding);
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* s[3] = {};
  for (int n = 0; n < kArity; ++n) s[n] = w.from(i.from[static_cast<size_t>(n)]);
  for_lanes(mask, [&](uint32_t l) {
    T x[3] = {};
    for (int n = 0; n < kArity; ++n) {
      x[n] = value<T>(s[n][l]);
      if constexpr (std::is_same_v<T, float>)
        if (i.flush) x[n] = flushed(x[n]);
    }
    T r;
    if constexpr (kArity == 1)
      r = op(x[0]);
    else if constexpr (kArity == 2)
      r = op(x[0], x[1]);
    else
      r = op(x[0], x[1], x[2]);
    if constexpr (std::is_same_v<T, float>) {
      if (i.flush) r = flushed(r);
      if (i.saturate) r = r > 0 ? std::fmin(r, 1.0F) : 0.0F;  // NaN becomes 0
    }
    d[l] = bits(r);
  });
}

template <typename T, auto op, int kArity>
Handler handler_of(const Instruction& i) {
  if (i.flush || i.saturate || i.rounding != Rounding::Nearest) return modified<T, op, kArity>;
  if constexpr (kArity == 1)
    return unary<T, op>;
  else if constexpr (kArity == 2)
    return binary<T, op>;
  else
    return ternary<T, op>;
}

/// Calls fn with a value of the C++ type; false if it has none here.
template <typename F>
bool with_float(Type t, F&& fn) {
  switch (t) {
    case Type::F16:
      fn(Half());
      return true;
    case Type::BF16:
      fn(Brain());
      return true;
    case Type::F32:
      fn(0.0F);
      return true;
    case Type::F64:
      fn(0.0);
      return true;
    default:
      return false;
  }
}
template <typename F>
bool with_integer(Type t, F&& fn) {
  switch (t) {
    case Type::U16:
      fn(uint16_t{});
      return true;
    case Type::U32:
      fn(uint32_t{});
      return true;
    case Type::U64:
      fn(uint64_t{});
      return true;
    case Type::S16:
      fn(int16_t{});
      return true;
    case Type::S32:
      fn(int32_t{});
      return true;
    case Type::S64:
      fn(int64_t{});
      return true;
    default:
      return false;
  }
}

void take_rounding(Words& w, Instruction& i) {
  const int r = w.take_one({"rn", "rz", "rm", "rp"});
  if (r > 0) i.rounding = static_cast<Rounding>(r);
  i.flush = w.take("ftz");
  i.saturate = w.take("sat");
}

bool decode_float_sums(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  const bool three = op == "fma";
  if (op != "add" && op != "sub" && op != "mul" && !three) return false;
  Type t{};
  Words copy = w;
  take_rounding(copy, i);
  if (!copy.take_type(t)) return false;
  const bool known = with_float(t, [&](auto zero) {
    using T = decltype(zero);
    i.run = op == "add"   ? handler_of<T, sum<T>, 2>(i)
            : op == "sub" ? handler_of<T, minus<T>, 2>(i)
            : op == "mul" ? handler_of<T, product<T>, 2>(i)
                          : handler_of<T, fused<T>, 3>(i);
  });
  if (!known) return false;
  if ((t == Type::F16 || t == Type::BF16) && (i.flush || i.saturate)) return false;
  w = copy;
  i.type = t;
  s = {{1}, three ? std::vector<uint32_t>{1, 1, 1} : std::vector<uint32_t>{1, 1}, false, false};
  return true;
}

template <typename T>
Handler integer_handler(const std::string& op, int half) {
  if (op == "add") return binary<T, sum<T>>;
  if (op == "sub") return binary<T, minus<T>>;
  if (op == "div") return binary<T, quotient<T>>;
  if (op == "rem") return binary<T, remainder_of<T>>;
  if (op == "mul" && half == 0) return binary<T, product<T>>;
  if (op == "mul" && half == 1) return binary<T, upper<T>>;
  if (op == "mad" && half == 0) return ternary<T, fused<T>>;
  if (op == "mad" && half == 1) return ternary<T, upper_plus<T>>;
  if constexpr (sizeof(T) < 8)
    if (half == 2) return multiply_wide<T>;
  return nullptr;
}

bool decode_integer(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  const bool product = op == "mul" || op == "mad";
  if (op != "add" && op != "sub" && op != "div" && op != "rem" && !product) return false;
  const int half = w.take_one({"lo", "hi", "wide"});
  if (product != (half >= 0) || !w.take_type(i.type)) return false;
  const bool known =
      with_integer(i.type, [&](auto zero) { i.run = integer_handler<decltype(zero)>(op, half); });
  s.to = {1};
  s.from.assign(op == "mad" ? 3 : 2, 1);
  return known && i.run != nullptr;
}

bool decode_extremes(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op != "min" && op != "max") return false;
  i.flush = w.take("ftz");
  const bool nan = w.take("NaN"), least = op == "min";
  if (!w.take_type(i.type)) return false;
  s = {{1}, {1, 1}, false, false};
  const auto of_integer = [&](auto zero) {
    using T = decltype(zero);
    i.run = least ? binary<T, smaller<T, false>> : binary<T, larger<T, false>>;
  };
  const auto of_float = [&](auto zero) {
    using T = decltype(zero);
    i.run =
        least
            ? (nan ? handler_of<T, smaller<T, true>, 2>(i) : handler_of<T, smaller<T, false>, 2>(i))
            : (nan ? handler_of<T, larger<T, true>, 2>(i) : handler_of<T, larger<T, false>, 2>(i));
  };
  return with_float(i.type, of_float) || (!nan && with_integer(i.type, of_integer));
}

bool decode_signs(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op != "neg" && op != "abs") return false;
  i.flush = w.take("ftz");
  if (!w.take_type(i.type)) return false;
  s = {{1}, {1}, false, false};
  const auto of = [&](auto zero) {
    using T = decltype(zero);
    i.run = op == "neg" ? handler_of<T, negated<T>, 1>(i) : handler_of<T, magnitude<T>, 1>(i);
  };
  if (with_float(i.type, of)) return true;
  if (i.flush || (i.type != Type::S16 && i.type != Type::S32 && i.type != Type::S64)) return false;
  return with_integer(i.type, of);
}

// --- functions ---

template <typename T>
T root(T v) {
  return std::sqrt(v);
}
template <typename T>
T reciprocal(T v) {
  return 1 / v;
}
float reciprocal_root(float v) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(v)));
}
double reciprocal_root(double v) {
  return 1 / std::sqrt(v);
}
float power_of_two(float v) {
  return static_cast<float>(std::exp2(static_cast<double>(v)));
}
float logarithm(float v) {
  return static_cast<float>(std::log2(static_cast<double>(v)));
}
float sine(float v) {
  return static_cast<float>(std::sin(static_cast<double>(v)));
}
float cosine(float v) {
  return static_cast<float>(std::cos(static_cast<double>(v)));
}
float tangent(float v) {
  return static_cast<float>(std::tanh(static_cast<double>(v)));
}
/// The ISA: beyond 2^126, the result of div.approx is 0, or NaN for an infinite dividend.
float rough_quotient(float a, float b) {
  const float size = std::fabs(b);
  if (size > 0x1p126F && !std::isinf(size)) return a * 0.0F;
  return a / b;
}

/// Approximations are as close as they can be: a kernel must not depend on more than their bounds
/// promise, and gets no less.
bool decode_functions(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  const bool division = op == "div";
  Words copy = w;
  const int kind = copy.take_one({"approx", "full", "rn", "rz", "rm", "rp"});
  i.flush = copy.take("ftz");
  if (kind < 0 || !copy.take_type(i.type)) return false;
  i.rounding = kind > 2 ? static_cast<Rounding>(kind - 2) : Rounding::Nearest;
  const bool exact = kind >= 2, wide = i.type == Type::F64, f32 = i.type == Type::F32;
  if (!wide && !f32) return false;
  if (division && wide && exact) i.run = handler_of<double, quotient<double>, 2>(i);
  if (division && f32)
    i.run = kind == 0 ? handler_of<float, rough_quotient, 2>(i)
                      : handler_of<float, quotient<float>, 2>(i);
  if (op == "sqrt" && (exact || f32))
    i.run = wide ? handler_of<double, root<double>, 1>(i) : handler_of<float, root<float>, 1>(i);
  if (op == "rcp" && kind != 1)
    i.run = wide ? handler_of<double, reciprocal<double>, 1>(i)
                 : handler_of<float, reciprocal<float>, 1>(i);
  if (kind == 0 && op == "rsqrt") {
    constexpr double (*of_double)(double) = reciprocal_root;
    constexpr float (*of_float)(float) = reciprocal_root;
    i.run = wide ? handler_of<double, of_double, 1>(i) : handler_of<float, of_float, 1>(i);
  }
  if (kind == 0 && f32) {
    if (op == "ex2") i.run = handler_of<float, power_of_two, 1>(i);
    if (op == "lg2") i.run = handler_of<float, logarithm, 1>(i);
    if (op == "sin") i.run = handler_of<float, sine, 1>(i);
    if (op == "cos") i.run = handler_of<float, cosine, 1>(i);
    if (op == "tanh") i.run = handler_of<float, tangent, 1>(i);
  }
  if (i.run == nullptr) return false;
  w = copy;
  s.to = {1};
  s.from.assign(division ? 2 : 1, 1);
  return true;
}

// --- comparisons ---

enum class Relation : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };

template <typename T>
bool holds(Relation r, T a, T b) {
  const bool nan = is_nan(a) || is_nan(b);
  if (r == Relation::Num || r == Relation::Nan) return nan == (r == Relation::Nan);
  if (nan) return r >= Relation::Equ;
  const bool less = is_less(a, b), more = is_less(b, a);
  switch (static_cast<int>(r) % 6) {
    case 0:
      return !less && !more;
    case 1:
      return less || more;
    case 2:
      return less;
    case 3:
      return !more;
    case 4:
      return more;
    default:
      return !less;
  }
}

/// setp: i.number is the relation; with 3 sources it is combined with a predicate, as i.source_type
/// says: B8 and, B16 or, B32 xor.
template <typename T>
void compare(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* p = w.to(i.to[0]);
  uint64_t* q = i.to[1] == Instruction::kNone ? nullptr : w.to(i.to[1]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  const uint64_t* c = i.from.size() > 2 ? w.from(i.from[2]) : nullptr;
  const auto join = [&](bool x, bool y) {
    return i.source_type == Type::B8 ? x && y : i.source_type == Type::B16 ? x || y : x != y;
  };
  for_lanes(mask, [&](uint32_t l) {
    T x = value<T>(a[l]), y = value<T>(b[l]);
    if constexpr (std::is_same_v<T, float>) {
      if (i.flush) x = flushed(x), y = flushed(y);
    }
    const bool r = holds(static_cast<Relation>(i.number), x, y);
    const bool other = c != nullptr && c[l] != 0;
    p[l] = c == nullptr ? r : join(r, other);
    if (q != nullptr) q[l] = c == nullptr ? !r : join(!r, other);
  });
}

bool decode_comparison(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "setp") return false;
  // The last four are lt, le, gt, ge of unsigned numbers.
  int relation = w.take_one({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                             "geu", "num", "nan", "lo", "ls", "hi", "hs"});
  if (relation < 0) return false;
  if (relation >= 14) relation -= 12;
  i.number = static_cast<uint32_t>(relation);
  const int join = w.take_one({"and", "or", "xor"});
  i.flush = w.take("ftz");
  if (!w.take_type(i.type)) return false;
  i.source_type = join == 0 ? Type::B8 : join == 1 ? Type::B16 : Type::B32;
  s.to = {1};
  s.second_to = true;
  s.from.assign(join < 0 ? 2 : 3, 1);
  const auto of = [&](auto zero) { i.run = compare<decltype(zero)>; };
  if (with_float(i.type, of)) return true;
  const bool by_bits = i.type == Type::B16 || i.type == Type::B32 || i.type == Type::B64;
  if (by_bits && i.number < 2) i.run = compare<uint64_t>;
  return i.run != nullptr || (relation < 6 && with_integer(i.type, of));
}

void select(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *p = w.from(i.from[2]);
  const uint32_t shift = 64 - 8 * size_of(i.type);
  for_lanes(mask, [&](uint32_t l) { d[l] = (p[l] != 0 ? a[l] : b[l]) << shift >> shift; });
}

bool decode_selection(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "selp" || !w.take_type(i.type)) return false;
  i.run = select;
  s = {{1}, {1, 1, 1}, false, false};
  return true;
}

}  // namespace

bool decode_arithmetic(Words& w, Instruction& i, Shape& s) {
  const Instruction plain = i;
  for (auto* family : {decode_float_sums, decode_functions, decode_integer, decode_extremes,
                       decode_signs, decode_comparison, decode_selection}) {
    Words copy = w;
    i = plain;
    s = {};
    if (!family(copy, i, s)) continue;
    w = copy;
    return true;
  }
  i = plain;
  return false;
}

}  // namespace reprise::test::ptx
