#include "codegen/kernel/scalar_eval.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace reprise::kernel {
namespace {

// Floats are computed in double and rounded once: for + - * / and sqrt of F32 and F16 that is the
// correctly rounded result.
template <Ty t>
double load_float(uint64_t bits) {
  if constexpr (t == Ty::F32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  } else if constexpr (t == Ty::F16) {
    return static_cast<double>(f16_to_float(static_cast<uint16_t>(bits)));
  } else {
    return std::bit_cast<double>(bits);
  }
}

template <Ty t>
uint64_t store_float(double v) {
  if constexpr (t == Ty::F32) {
    return std::bit_cast<uint32_t>(static_cast<float>(v));
  } else if constexpr (t == Ty::F16) {
    return float_to_f16(static_cast<float>(v));
  } else {
    return std::bit_cast<uint64_t>(v);
  }
}

template <Ty t>
constexpr int kWidth = (t == Ty::I64 || t == Ty::U64) ? 64 : 32;

// Integers are held sign or zero extended; arithmetic wraps.
template <Ty t>
auto load_int(uint64_t bits) {
  if constexpr (t == Ty::I32) {
    return static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(bits)));
  } else if constexpr (t == Ty::I64) {
    return static_cast<int64_t>(bits);
  } else {
    return bits;
  }
}

template <Ty t>
uint64_t store_int(uint64_t v) {
  return kWidth<t> == 32 ? v & 0xffffffffU : v;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double gelu(double x) {
  return x * (0.5 * std::erfc(-x / std::numbers::sqrt2));
}
double gelu_tanh(double x) {
  return x * sigmoid(2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}
double hard_swish(double x) {
  const double y = x / 6.0 + 0.5;
  return std::isnan(x) ? x : x * (y < 0 ? 0.0 : y > 1 ? 1.0 : y);
}
double sign(double x) {
  return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
}
double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double nan_min(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : (b < a || (a == b && std::signbit(b))) ? b : a;
}
double nan_max(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : (b > a || (a == b && std::signbit(a))) ? b : a;
}
/// Fma may or may not be fused on a device; here the product is rounded.
template <Ty t>
double mul_add(double a, double b, double c) {
  return load_float<t>(store_float<t>(a * b)) + c;
}

#define FLOAT1(name, expr)                  \
  case ScalarOp::name:                      \
    return [](const uint64_t* p) {          \
      const double a = load_float<t>(p[0]); \
      return store_float<t>(expr);          \
    }
#define FLOAT2(name, expr)                  \
  case ScalarOp::name:                      \
    return [](const uint64_t* p) {          \
      const double a = load_float<t>(p[0]); \
      const double b = load_float<t>(p[1]); \
      return store_float<t>(expr);          \
    }
#define FLOAT_TEST(name, expr)              \
  case ScalarOp::name:                      \
    return [](const uint64_t* p) {          \
      const double a = load_float<t>(p[0]); \
      const double b = load_float<t>(p[1]); \
      return uint64_t{(expr) ? 1U : 0U};    \
    }
#define FLOAT_TEST1(name, expr)             \
  case ScalarOp::name:                      \
    return [](const uint64_t* p) {          \
      const double a = load_float<t>(p[0]); \
      return uint64_t{(expr) ? 1U : 0U};    \
    }
#define WHERE()         \
  case ScalarOp::Where: \
    return [](const uint64_t* p) { return p[0] != 0 ? p[1] : p[2]; }

template <Ty t>
ScalarFn float_function(ScalarOp op) {
  switch (op) {
    FLOAT2(Add, a + b);
    FLOAT2(Sub, a - b);
    FLOAT2(Mul, a * b);
    FLOAT2(Div, a / b);
    FLOAT2(Mod, floor_mod(a, b));
    FLOAT2(Fmod, std::fmod(a, b));
    FLOAT1(Neg, -a);
    FLOAT1(Abs, std::fabs(a));
    FLOAT1(Sign, sign(a));
    FLOAT1(Reciprocal, 1.0 / a);
    FLOAT2(Min, nan_min(a, b));
    FLOAT2(Max, nan_max(a, b));
    FLOAT2(MinNum, std::fmin(a, b));
    FLOAT2(MaxNum, std::fmax(a, b));
    FLOAT1(Floor, std::floor(a));
    FLOAT1(Ceil, std::ceil(a));
    FLOAT1(Round, std::nearbyint(a));
    FLOAT1(Trunc, std::trunc(a));
    FLOAT1(SqrtNative, std::sqrt(a));
    FLOAT1(RsqrtNative, 1.0 / std::sqrt(a));
    FLOAT1(LogNative, std::log(a));
    FLOAT1(Log2Native, std::log2(a));
    FLOAT1(ExpNative, std::exp(a));
    FLOAT1(Exp2Native, std::exp2(a));
    FLOAT1(Exp, std::exp(a));
    FLOAT1(Exp2, std::exp2(a));
    FLOAT1(Sqrt, std::sqrt(a));
    FLOAT1(Rsqrt, 1.0 / std::sqrt(a));
    FLOAT1(Log, std::log(a));
    FLOAT1(Log2, std::log2(a));
    FLOAT1(Log1p, std::log1p(a));
    FLOAT1(Expm1, std::expm1(a));
    FLOAT2(Pow, std::pow(a, b));
    FLOAT1(Sin, std::sin(a));
    FLOAT1(Cos, std::cos(a));
    FLOAT1(Tan, std::tan(a));
    FLOAT1(Asin, std::asin(a));
    FLOAT1(Acos, std::acos(a));
    FLOAT1(Atan, std::atan(a));
    FLOAT1(Sinh, std::sinh(a));
    FLOAT1(Cosh, std::cosh(a));
    FLOAT1(Tanh, std::tanh(a));
    FLOAT1(Asinh, std::asinh(a));
    FLOAT1(Acosh, std::acosh(a));
    FLOAT1(Atanh, std::atanh(a));
    FLOAT1(Erf, std::erf(a));
    FLOAT1(Sigmoid, sigmoid(a));
    FLOAT1(Relu, nan_max(a, 0.0));
    FLOAT1(Gelu, gelu(a));
    FLOAT1(GeluTanh, gelu_tanh(a));
    FLOAT1(Softplus, softplus(a));
    FLOAT1(Softsign, a / (1.0 + std::fabs(a)));
    FLOAT1(HardSwish, hard_swish(a));
    FLOAT1(Mish, a * std::tanh(softplus(a)));
    FLOAT1(Silu, a * sigmoid(a));
    FLOAT_TEST(Equal, a == b);
    FLOAT_TEST(NotEqual, a != b);
    FLOAT_TEST(Less, a < b);
    FLOAT_TEST(LessOrEqual, a <= b);
    FLOAT_TEST(Greater, a > b);
    FLOAT_TEST(GreaterOrEqual, a >= b);
    FLOAT_TEST1(IsNaN, std::isnan(a));
    FLOAT_TEST1(IsInf, std::isinf(a));
    WHERE();
    case ScalarOp::Fma:
      return [](const uint64_t* p) {
        return store_float<t>(
            mul_add<t>(load_float<t>(p[0]), load_float<t>(p[1]), load_float<t>(p[2])));
      };
    case ScalarOp::Rem:
    case ScalarOp::IDiv:
    case ScalarOp::IRem:
    case ScalarOp::And:
    case ScalarOp::Or:
    case ScalarOp::Xor:
    case ScalarOp::Not:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
    case ScalarOp::BitNot:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
      return nullptr;
  }
  return nullptr;
}

template <typename T>
uint64_t divide(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::numeric_limits<T>::is_signed) {
    if (b == -1) return uint64_t{0} - static_cast<uint64_t>(a);
  }
  return static_cast<uint64_t>(a / b);
}

template <typename T>
uint64_t remainder(T a, T b) {
  return b == 0 ? 0 : static_cast<uint64_t>(a) - divide(a, b) * static_cast<uint64_t>(b);
}

template <typename T>
uint64_t floor_remainder(T a, T b) {
  const uint64_t r = remainder(a, b);
  const bool adjust = r != 0 && (static_cast<T>(r) < T{0}) != (b < T{0});
  return adjust ? r + static_cast<uint64_t>(b) : r;
}

template <Ty t, typename T>
uint64_t shift_left(T a, T b) {
  const uint64_t n = store_int<t>(static_cast<uint64_t>(b));
  return n >= kWidth<t> ? 0 : static_cast<uint64_t>(a) << n;
}

template <Ty t, typename T>
uint64_t shift_right(T a, T b) {
  const uint64_t n = store_int<t>(static_cast<uint64_t>(b));
  if (n >= kWidth<t>) return a < T{0} ? ~uint64_t{0} : 0;
  return static_cast<uint64_t>(a >> n);
}

#define INT1(name, expr)                                \
  case ScalarOp::name:                                  \
    return [](const uint64_t* p) {                      \
      const auto a = load_int<t>(p[0]);                 \
      return store_int<t>(static_cast<uint64_t>(expr)); \
    }
#define INT2(name, expr)                                \
  case ScalarOp::name:                                  \
    return [](const uint64_t* p) {                      \
      const auto a = load_int<t>(p[0]);                 \
      const auto b = load_int<t>(p[1]);                 \
      return store_int<t>(static_cast<uint64_t>(expr)); \
    }
#define INT_TEST(name, expr)             \
  case ScalarOp::name:                   \
    return [](const uint64_t* p) {       \
      const auto a = load_int<t>(p[0]);  \
      const auto b = load_int<t>(p[1]);  \
      return uint64_t{(expr) ? 1U : 0U}; \
    }
#define U(x) static_cast<uint64_t>(x)

template <Ty t>
ScalarFn int_function(ScalarOp op) {
  using T = decltype(load_int<t>(0));
  switch (op) {
    INT2(Add, U(a) + U(b));
    INT2(Sub, U(a) - U(b));
    INT2(Mul, U(a) * U(b));
    INT2(Div, divide(a, b));
    INT2(Rem, remainder(a, b));
    INT2(Mod, floor_remainder(a, b));
    INT2(IDiv, divide(a, b));
    INT2(IRem, remainder(a, b));
    INT1(Neg, U(0) - U(a));
    INT1(Abs, a < T{0} ? U(0) - U(a) : U(a));
    INT1(Sign, a > T{0} ? U(1) : a < T{0} ? ~U(0) : U(0));
    INT2(Min, a < b ? a : b);
    INT2(Max, a > b ? a : b);
    INT2(MinNum, a < b ? a : b);
    INT2(MaxNum, a > b ? a : b);
    INT1(Relu, a > T{0} ? a : T{0});
    INT2(BitAnd, a & b);
    INT2(BitOr, a | b);
    INT2(BitXor, a ^ b);
    INT1(BitNot, ~a);
    INT2(ShiftLeft, shift_left<t>(a, b));
    INT2(ShiftRight, shift_right<t>(a, b));
    INT_TEST(Equal, a == b);
    INT_TEST(NotEqual, a != b);
    INT_TEST(Less, a < b);
    INT_TEST(LessOrEqual, a <= b);
    INT_TEST(Greater, a > b);
    INT_TEST(GreaterOrEqual, a >= b);
    WHERE();
    case ScalarOp::Fmod:
    case ScalarOp::Fma:
    case ScalarOp::Reciprocal:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Round:
    case ScalarOp::Trunc:
    case ScalarOp::SqrtNative:
    case ScalarOp::RsqrtNative:
    case ScalarOp::LogNative:
    case ScalarOp::Log2Native:
    case ScalarOp::ExpNative:
    case ScalarOp::Exp2Native:
    case ScalarOp::Exp:
    case ScalarOp::Exp2:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
    case ScalarOp::Log:
    case ScalarOp::Log2:
    case ScalarOp::Log1p:
    case ScalarOp::Expm1:
    case ScalarOp::Pow:
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Tan:
    case ScalarOp::Asin:
    case ScalarOp::Acos:
    case ScalarOp::Atan:
    case ScalarOp::Sinh:
    case ScalarOp::Cosh:
    case ScalarOp::Tanh:
    case ScalarOp::Asinh:
    case ScalarOp::Acosh:
    case ScalarOp::Atanh:
    case ScalarOp::Erf:
    case ScalarOp::Sigmoid:
    case ScalarOp::Gelu:
    case ScalarOp::GeluTanh:
    case ScalarOp::Softplus:
    case ScalarOp::Softsign:
    case ScalarOp::HardSwish:
    case ScalarOp::Mish:
    case ScalarOp::Silu:
    case ScalarOp::And:
    case ScalarOp::Or:
    case ScalarOp::Xor:
    case ScalarOp::Not:
    case ScalarOp::IsNaN:
    case ScalarOp::IsInf:
      return nullptr;
  }
  return nullptr;
}

ScalarFn bool_function(ScalarOp op) {
  if (op == ScalarOp::And) return [](const uint64_t* p) { return p[0] & p[1]; };
  if (op == ScalarOp::Or) return [](const uint64_t* p) { return p[0] | p[1]; };
  if (op == ScalarOp::Xor) return [](const uint64_t* p) { return p[0] ^ p[1]; };
  if (op == ScalarOp::Not) return [](const uint64_t* p) { return p[0] ^ 1U; };
  if (op == ScalarOp::Equal) return [](const uint64_t* p) { return uint64_t{p[0] == p[1]}; };
  if (op == ScalarOp::NotEqual) return [](const uint64_t* p) { return p[0] ^ p[1]; };
  if (op == ScalarOp::Where) return [](const uint64_t* p) { return p[0] != 0 ? p[1] : p[2]; };
  return nullptr;
}

/// Truncates towards zero and saturates; NaN gives 0.
uint64_t float_to_int(double v, Ty to) {
  if (std::isnan(v)) return 0;
  const bool is_signed = class_of(to) == kSigned;
  const int bits = byte_size(to) * 8;
  const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const double low = is_signed ? -high : 0.0;
  if (v >= high)
    return is_signed ? mask_bits(~uint64_t{0} >> 1U >> (64 - bits), to)
                     : mask_bits(~uint64_t{0}, to);
  if (v <= low) return is_signed ? uint64_t{1} << (bits - 1) : 0;
  return is_signed ? mask_bits(static_cast<uint64_t>(static_cast<int64_t>(v)), to)
                   : static_cast<uint64_t>(v);
}

float round_integer_to_float(uint64_t bits, Ty from) {
  const int64_t v = integer_of(bits, from);
  return from == Ty::U64 ? static_cast<float>(bits) : static_cast<float>(v);
}

}  // namespace

ScalarFn scalar_function(ScalarOp op, Ty t) {
  switch (t) {
    case Ty::F16:
      return float_function<Ty::F16>(op);
    case Ty::F32:
      return float_function<Ty::F32>(op);
    case Ty::F64:
      return float_function<Ty::F64>(op);
    case Ty::I32:
      return int_function<Ty::I32>(op);
    case Ty::U32:
      return int_function<Ty::U32>(op);
    case Ty::I64:
      return int_function<Ty::I64>(op);
    case Ty::U64:
      return int_function<Ty::U64>(op);
    case Ty::Bool:
      return bool_function(op);
    case Ty::Void:
    case Ty::I8:
    case Ty::U8:
    case Ty::I16:
    case Ty::U16:
    case Ty::BF16:
      return nullptr;
  }
  return nullptr;
}

uint64_t mask_bits(uint64_t bits, Ty t) {
  if (t == Ty::Bool) return bits & 1U;
  const int width = byte_size(t) * 8;
  return width >= 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

int64_t integer_of(uint64_t bits, Ty t) {
  return t == Ty::I32 ? static_cast<int32_t>(static_cast<uint32_t>(bits))
                      : static_cast<int64_t>(bits);
}

double number_of(uint64_t bits, Ty t) {
  switch (t) {
    case Ty::F16:
      return load_float<Ty::F16>(bits);
    case Ty::F32:
      return load_float<Ty::F32>(bits);
    case Ty::F64:
      return load_float<Ty::F64>(bits);
    case Ty::U64:
      return static_cast<double>(bits);
    case Ty::Bool:
    case Ty::I32:
    case Ty::U32:
    case Ty::I64:
    case Ty::Void:
    case Ty::I8:
    case Ty::U8:
    case Ty::I16:
    case Ty::U16:
    case Ty::BF16:
      return static_cast<double>(integer_of(bits, t));
  }
  return 0;
}

uint64_t bits_of(double v, Ty t) {
  switch (class_of(t)) {
    case kFloat:
      return t == Ty::F16   ? store_float<Ty::F16>(v)
             : t == Ty::F32 ? store_float<Ty::F32>(v)
                            : store_float<Ty::F64>(v);
    case kBoolean:
      return v != 0;
    default:
      return float_to_int(v, t);
  }
}

uint64_t convert_bits(uint64_t bits, Ty from, Ty to) {
  if (from == to) return bits;
  const bool from_float = class_of(from) == kFloat;
  const bool to_float = class_of(to) == kFloat;
  if (to == Ty::Bool) return from_float ? number_of(bits, from) != 0 : bits != 0;
  if (from_float) return bits_of(number_of(bits, from), to);
  if (!to_float) return mask_bits(static_cast<uint64_t>(integer_of(bits, from)), to);
  // Through double, a 64-bit integer would be rounded twice.
  if (to != Ty::F64) return bits_of(static_cast<double>(round_integer_to_float(bits, from)), to);
  return bits_of(number_of(bits, from), to);
}

}  // namespace reprise::kernel
