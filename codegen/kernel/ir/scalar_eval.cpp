#include "codegen/kernel/ir/scalar_eval.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "runtime/base/dtype.h"

namespace reprise::kernel {
namespace {

// Floats are computed in double and rounded once. For + - * / and sqrt of F32 and F16, this gives
// the correctly rounded result.
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
    return double_to_f16(v);
  } else {
    return std::bit_cast<uint64_t>(v);
  }
}

template <Ty t>
constexpr int kWidth = (t == Ty::I64 || t == Ty::U64) ? 64 : 32;

// Integers are sign- or zero-extended; arithmetic wraps.
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
/// By way of float32, as kernels compute with bfloat16 in it.
double round_bf16(double x) {
  return static_cast<double>(bf16_to_float(double_to_bf16(x)));
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
/// A device may fuse Fma or not; here the product is rounded.
template <Ty t>
double mul_add(double a, double b, double c) {
  return load_float<t>(store_float<t>(a * b)) + c;
}

template <Ty t>
double fused(double a, double b, double c) {
  if constexpr (t == Ty::F64) return std::fma(a, b, c);
  return std::fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
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

template <typename T>
uint64_t integer_power(T a, T b) {
  if (b < T{0}) {
    const bool odd = (static_cast<uint64_t>(b) & 1) != 0;
    return a == T{1} ? 1 : a != T(-1) ? 0 : odd ? ~uint64_t{0} : 1;
  }
  uint64_t r = 1, factor = static_cast<uint64_t>(a);
  for (uint64_t rest = static_cast<uint64_t>(b); rest != 0; rest >>= 1U) {
    if ((rest & 1U) != 0) r *= factor;
    factor *= factor;
  }
  return r;
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

uint64_t U(auto v) {
  return static_cast<uint64_t>(v);
}

/// Converts between bits and the C++ types of the table's EVAL columns.
template <Ty t>
struct Form {
  static constexpr bool kIsFloat = t == Ty::F16 || t == Ty::F32 || t == Ty::F64;
  static auto load(uint64_t bits) {
    if constexpr (kIsFloat) {
      return load_float<t>(bits);
    } else {
      return load_int<t>(bits);
    }
  }
  static uint64_t store(auto v) {
    if constexpr (kIsFloat) {
      return store_float<t>(v);
    } else {
      return store_int<t>(static_cast<uint64_t>(v));
    }
  }
};

template <Ty t, ResultKind result, int arity, typename Meaning>
uint64_t evaluate(const uint64_t* p) {
  using F = Form<t>;
  const auto a = F::load(p[0]);
  const auto b = arity > 1 ? F::load(p[1]) : a;
  const auto c = arity > 2 ? F::load(p[2]) : a;
  const auto v = Meaning()(a, b, c);
  if constexpr (result == ResultKind::Boolean) {
    return v ? 1 : 0;
  } else {
    return F::store(v);
  }
}

struct NotTaken {};

/// Null if the row does not take the type's class.
template <Ty t, ResultKind result, int arity, typename OfFloats, typename OfIntegers>
ScalarFn function_of(OfFloats, OfIntegers) {
  using Meaning = std::conditional_t<Form<t>::kIsFloat, OfFloats, OfIntegers>;
  if constexpr (std::is_same_v<Meaning, NotTaken>) {
    return nullptr;
  } else {
    return evaluate<t, result, arity, Meaning>;
  }
}

template <Ty t>
ScalarFn table_function(ScalarOp op) {
  // The first operand of Where is always a Bool.
  if (op == ScalarOp::Where) return [](const uint64_t* p) { return p[0] != 0 ? p[1] : p[2]; };
  if ((row(op).operands & class_of(t)) == 0) return nullptr;
  switch (op) {
#define EVAL(...)                                                                 \
  []([[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) { \
    return __VA_ARGS__;                                                           \
  }
#define NOEVAL NotTaken()
#define SCALAR_OP(name, arity, operands, result, leaves, cost, sensitivity, expanded, ulp, abs, f, \
                  s, u, b, cuda_float, cuda_int, eval_float, eval_int)                             \
  case ScalarOp::name:                                                                             \
    return function_of<t, ResultKind::result, arity>(eval_float, eval_int);
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
#undef NOEVAL
#undef EVAL
  }
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
      return table_function<Ty::F16>(op);
    case Ty::F32:
      return table_function<Ty::F32>(op);
    case Ty::F64:
      return table_function<Ty::F64>(op);
    case Ty::I32:
      return table_function<Ty::I32>(op);
    case Ty::U32:
      return table_function<Ty::U32>(op);
    case Ty::I64:
      return table_function<Ty::I64>(op);
    case Ty::U64:
      return table_function<Ty::U64>(op);
    case Ty::Bool:
      return table_function<Ty::Bool>(op);
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
  // A conversion through double would round a 64-bit integer twice.
  if (to != Ty::F64) return bits_of(static_cast<double>(round_integer_to_float(bits, from)), to);
  return bits_of(number_of(bits, from), to);
}

}  // namespace reprise::kernel
