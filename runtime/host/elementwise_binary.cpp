// Two or more inputs of one dtype, broadcast, element by element.
#include <algorithm>

#include "runtime/base/integer_math.h"
#include "runtime/host/elementwise.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

struct BinaryRow {
  std::string_view name;
  BinaryLoop<double> f64 = nullptr;
  BinaryLoop<int64_t> i64 = nullptr;
  BinaryLoop<uint64_t> u64 = nullptr;
  bool divides = false;   // for integers, a zero in the second input is an error
  bool variadic = false;  // one or more inputs, folded from the left
};

// Signed arithmetic wraps, because it is done on the unsigned bits.
int64_t wrap(uint64_t v) {
  return static_cast<int64_t>(v);
}
uint64_t bits(int64_t v) {
  return static_cast<uint64_t>(v);
}
int64_t trunc_div(int64_t a, int64_t b) {
  return b == -1 ? wrap(0 - bits(a)) : a / b;
}
int64_t trunc_rem(int64_t a, int64_t b) {
  return b == -1 ? 0 : a % b;
}
using reprise::floor_mod;
double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) return r + b;
  return r == 0 ? std::copysign(r, b) : r;
}
double max_nan(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double min_nan(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}
uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t r = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) r *= base;
    base *= base;
  }
  return r;
}
// Exact if the result is an integer. A negative exponent truncates, so only +-1 stay non-zero.
int64_t power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return wrap(power(bits(base), bits(exponent)));
  if (base == 1) return 1;
  return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
}

#define RP_BINARY(T, expr) \
  binary_loop<T>([]([[maybe_unused]] T a, [[maybe_unused]] T b) -> T { return expr; })
constexpr BinaryRow kRows[] = {
    {"Add", RP_BINARY(double, a + b), RP_BINARY(int64_t, wrap(bits(a) + bits(b))),
     RP_BINARY(uint64_t, a + b)},
    {"Sub", RP_BINARY(double, a - b), RP_BINARY(int64_t, wrap(bits(a) - bits(b))),
     RP_BINARY(uint64_t, a - b)},
    {"Mul", RP_BINARY(double, a* b), RP_BINARY(int64_t, wrap(bits(a) * bits(b))),
     RP_BINARY(uint64_t, a* b)},
    {"Div", RP_BINARY(double, a / b), RP_BINARY(int64_t, trunc_div(a, b)),
     RP_BINARY(uint64_t, a / b), true},
    {"DivRn", RP_BINARY(double, a / b), nullptr, nullptr},
    {"IDiv", nullptr, RP_BINARY(int64_t, trunc_div(a, b)), RP_BINARY(uint64_t, a / b), true},
    {"Fmod", RP_BINARY(double, std::fmod(a, b)), RP_BINARY(int64_t, trunc_rem(a, b)),
     RP_BINARY(uint64_t, a % b), true},
    {"Rem", nullptr, RP_BINARY(int64_t, trunc_rem(a, b)), RP_BINARY(uint64_t, a % b), true},
    {"IRem", nullptr, RP_BINARY(int64_t, trunc_rem(a, b)), RP_BINARY(uint64_t, a % b), true},
    {"Mod", RP_BINARY(double, floor_mod(a, b)), RP_BINARY(int64_t, floor_mod(a, b)),
     RP_BINARY(uint64_t, a % b), true},
    {"Max", RP_BINARY(double, max_nan(a, b)), RP_BINARY(int64_t, std::max(a, b)),
     RP_BINARY(uint64_t, std::max(a, b)), false, true},
    {"Min", RP_BINARY(double, min_nan(a, b)), RP_BINARY(int64_t, std::min(a, b)),
     RP_BINARY(uint64_t, std::min(a, b)), false, true},
    {"MaxNum", RP_BINARY(double, std::fmax(a, b)), RP_BINARY(int64_t, std::max(a, b)),
     RP_BINARY(uint64_t, std::max(a, b))},
    {"MinNum", RP_BINARY(double, std::fmin(a, b)), RP_BINARY(int64_t, std::min(a, b)),
     RP_BINARY(uint64_t, std::min(a, b))},
    {"PRelu", RP_BINARY(double, a < 0 ? a * b : a),
     RP_BINARY(int64_t, a < 0 ? wrap(bits(a) * bits(b)) : a), RP_BINARY(uint64_t, a)},
    {"BitwiseAnd", nullptr, RP_BINARY(int64_t, a& b), RP_BINARY(uint64_t, a& b)},
    {"BitwiseOr", nullptr, RP_BINARY(int64_t, a | b), RP_BINARY(uint64_t, a | b)},
    {"BitwiseXor", nullptr, RP_BINARY(int64_t, a ^ b), RP_BINARY(uint64_t, a ^ b)},
    {"BitAnd", nullptr, RP_BINARY(int64_t, a& b), RP_BINARY(uint64_t, a& b)},
    {"BitOr", nullptr, RP_BINARY(int64_t, a | b), RP_BINARY(uint64_t, a | b)},
    {"BitXor", nullptr, RP_BINARY(int64_t, a ^ b), RP_BINARY(uint64_t, a ^ b)},
};

constexpr BinaryRow kPow{"Pow", RP_BINARY(double, std::pow(a, b)), RP_BINARY(int64_t, power(a, b)),
                         RP_BINARY(uint64_t, power(a, b))};
constexpr BinaryRow kSum{"Sum", RP_BINARY(double, a + b)};
// Shifts by the width or more give 0, or -1 if a negative value is shifted right. The loops see the
// widened value, so only shifts by 64 or more need special treatment.
constexpr BinaryRow kShiftLeft{"ShiftLeft", nullptr,
                               RP_BINARY(int64_t, bits(b) > 63 ? 0 : wrap(bits(a) << bits(b))),
                               RP_BINARY(uint64_t, b > 63 ? 0 : a << b)};
constexpr BinaryRow kShiftRight{"ShiftRight", nullptr,
                                RP_BINARY(int64_t, a >> std::min<uint64_t>(bits(b), 63)),
                                RP_BINARY(uint64_t, b > 63 ? 0 : a >> b)};
#undef RP_BINARY

template <typename T>
void run_loop(const HostTensor& a, const HostTensor& b, HostTensor& y, const Broadcast& bc,
              BinaryLoop<T> loop) {
  std::array<T, kChunk> left;
  std::array<T, kChunk> right;
  for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    load(a, offsets[0], bc.strides[0].back(), n, left.data());
    load(b, offsets[1], bc.strides[1].back(), n, right.data());
    loop(left.data(), right.data(), left.data(), n);
    store(y, start, n, left.data());
  });
}

Status check_divisor(const HostTensor& b) {
  std::array<uint64_t, kChunk> buffer;
  for (int64_t i = 0; i < b.count(); i += kChunk) {
    const int64_t n = std::min(kChunk, b.count() - i);
    load(b, i, 1, n, buffer.data());
    const auto* end = buffer.data() + n;
    const auto* zero = std::find(static_cast<const uint64_t*>(buffer.data()), end, 0U);
    if (zero != end) {
      return invalid_input("integer division by zero: element " +
                           std::to_string(i + (zero - buffer.data())) + " of input 1 is 0");
    }
  }
  return {};
}

/// Applies a row to two tensors of any dtypes. The computation and the result have the dtype of
/// `a`.
Result<HostTensor> apply(const HostTensor& a, const HostTensor& b, const BinaryRow& row) {
  const std::array<const HostTensor*, 2> operands = {&a, &b};
  RP_ASSIGN(const Broadcast bc, broadcast(operands));
  const Domain domain = a.dtype() == DType::Bool ? Domain::None : domain_of(a.dtype());
  RP_ASSIGN(auto y, allocate(a.dtype(), bc.dims));
  if (domain == Domain::Float && row.f64 != nullptr) {
    run_loop<double>(a, b, y, bc, row.f64);
    return y;
  }
  if (row.divides && y.count() > 0 && (domain == Domain::Signed || domain == Domain::Unsigned)) {
    RP_TRY(check_divisor(b));
  }
  if (domain == Domain::Signed && row.i64 != nullptr) {
    run_loop<int64_t>(a, b, y, bc, row.i64);
    return y;
  }
  if (domain == Domain::Unsigned && row.u64 != nullptr) {
    run_loop<uint64_t>(a, b, y, bc, row.u64);
    return y;
  }
  return unsupported("no host kernel for dtype " + std::string(name_of(a.dtype())));
}

KernelResult binary(const Call& c) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const BinaryRow& r) { return r.name == c.op; });
  if (row == std::end(kRows)) return internal_error("no binary row of that name");
  const size_t max_inputs = row->variadic ? std::numeric_limits<size_t>::max() : 2;
  RP_TRY(check_arity(c, row->variadic ? 1 : 2, max_inputs));
  HostTensor y = input(c, 0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
    RP_TRY(require_same_dtype(c, 0, i));
    RP_ASSIGN(y, apply(y, input(c, i), *row));
    if (c.op == "PRelu" && y.dims() != input(c, 0).dims()) {
      return invalid_input("slope " + dims_str(input(c, 1).dims()) + " does not broadcast to X " +
                           dims_str(input(c, 0).dims()));
    }
  }
  return one(std::move(y));
}

/// fmod = 0 follows the divisor's sign (Python), 1 the dividend's (C).
KernelResult mod(const Call& c) {
  const bool fmod = c.attrs.get_int("fmod", 0) != 0;
  Call named = c;
  named.op = fmod ? "Fmod" : "Mod";
  return binary(named);
}

/// The exponent may have another dtype. The computation is in double if either is a float.
KernelResult pow(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_number(c, 0, "X"));
  RP_TRY(require_number(c, 1, "Y"));
  const HostTensor& x = input(c, 0);
  const HostTensor& y = input(c, 1);
  const std::array<const HostTensor*, 2> operands = {&x, &y};
  RP_ASSIGN(const Broadcast bc, broadcast(operands));
  RP_ASSIGN(auto z, allocate(x.dtype(), bc.dims));
  if (is_float(x.dtype()) || is_float(y.dtype())) {
    run_loop<double>(x, y, z, bc, kPow.f64);
  } else if (is_signed_int(y.dtype())) {  // an exponent of any base may be negative
    run_loop<int64_t>(x, y, z, bc, kPow.i64);
  } else {
    run_loop<uint64_t>(x, y, z, bc, kPow.u64);
  }
  return one(std::move(z));
}

/// Sum and Mean round only once, at the end.
KernelResult sum_mean(const Call& c) {
  RP_TRY(check_arity(c, 1, std::numeric_limits<size_t>::max()));
  RP_TRY(require_float(c, 0, "data_0"));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
    RP_TRY(require_same_dtype(c, 0, i));
  }
  RP_ASSIGN(const Broadcast bc, broadcast(c.inputs));
  RP_ASSIGN(auto y, allocate(input(c, 0).dtype(), bc.dims));
  const double divisor = c.op == "Mean" ? static_cast<double>(c.inputs.size()) : 1.0;
  std::array<double, kChunk> sum;
  std::array<double, kChunk> term;
  for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    sum.fill(0);
    for (size_t k = 0; k < c.inputs.size(); ++k) {
      load(*c.inputs[k], offsets[k], bc.strides[k].back(), n, term.data());
      kSum.f64(sum.data(), term.data(), sum.data(), n);
    }
    for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i)] /= divisor;
    store(y, start, n, sum.data());
  });
  return one(std::move(y));
}

KernelResult shift(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_same_dtype(c, 0, 1));
  std::string direction = c.op == "ShiftLeft" ? "LEFT" : "RIGHT";
  if (c.op == "BitShift") direction = c.attrs.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return invalid_model("attribute 'direction' must be LEFT or RIGHT, is '" + direction + "'");
  }
  RP_ASSIGN(auto y,
            apply(input(c, 0), input(c, 1), direction == "LEFT" ? kShiftLeft : kShiftRight));
  return one(std::move(y));
}

/// a * b + c, rounded once.
KernelResult fma(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_float(c, 0, "A"));
  RP_TRY(require_same_dtype(c, 0, 1));
  RP_TRY(require_same_dtype(c, 0, 2));
  RP_ASSIGN(const Broadcast bc, broadcast(c.inputs));
  RP_ASSIGN(auto y, allocate(input(c, 0).dtype(), bc.dims));
  std::array<std::array<double, kChunk>, 3> v;
  for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    for (size_t k = 0; k < 3; ++k) {
      load(input(c, k), offsets[k], bc.strides[k].back(), n, v[k].data());
    }
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      v[0][i] = std::fma(v[0][i], v[1][i], v[2][i]);
    store(y, start, n, v[0].data());
  });
  return one(std::move(y));
}

/// Bounds as attributes (before version 11) or as scalar inputs. min > max gives max.
KernelResult clip(const Call& c) {
  RP_TRY(check_arity(c, 1, 3));
  RP_TRY(require_number(c, 0, "input"));
  const auto row_of = [](std::string_view name) {
    return std::find_if(std::begin(kRows), std::end(kRows),
                        [&](const BinaryRow& r) { return r.name == name; });
  };
  HostTensor y = input(c, 0);
  for (size_t i = 1; i <= 2; ++i) {
    const char* name = i == 1 ? "min" : "max";
    HostTensor bound;
    if (has_input(c, i)) {
      RP_TRY(require_same_dtype(c, 0, i));
      bound = input(c, i);
      if (bound.count() != 1) {
        return invalid_input(describe_input(c, i, name) + ": must hold one number");
      }
      bound = bound.reshaped({});
    } else if (c.attrs.has(name)) {
      const double v = static_cast<double>(c.attrs.get_float(name, 0));
      RP_ASSIGN(bound, store_all(y.dtype(), {}, {v}));
    } else {
      continue;
    }
    RP_ASSIGN(y, apply(y, bound, *row_of(i == 1 ? "Max" : "Min")));
  }
  return one(std::move(y));
}

}  // namespace

Table binary_table() {
  static constexpr Entry kTable[] = {
      {"Add", binary},        {"Sub", binary},      {"Mul", binary},        {"Div", binary},
      {"IDiv", binary},       {"Fmod", binary},     {"Rem", binary},        {"IRem", binary},
      {"Mod", mod},           {"Max", binary},      {"Min", binary},        {"MaxNum", binary},
      {"MinNum", binary},     {"PRelu", binary},    {"BitwiseAnd", binary}, {"BitwiseOr", binary},
      {"BitwiseXor", binary}, {"BitAnd", binary},   {"BitOr", binary},      {"BitXor", binary},
      {"DivRn", binary},      {"Pow", pow},         {"Sum", sum_mean},      {"Mean", sum_mean},
      {"BitShift", shift},    {"ShiftLeft", shift}, {"ShiftRight", shift},  {"Fma", fma},
      {"Clip", clip},
  };
  return kTable;
}

}  // namespace reprise::host
