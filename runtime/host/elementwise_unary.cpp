// One input, one output of the same dtype and shape, element by element.
#include <algorithm>

#include "runtime/host/elementwise.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

struct Param {
  const char* name = nullptr;
  float fallback = 0;
};

struct UnaryRow {
  std::string_view name;
  UnaryLoop<double> f64 = nullptr;
  UnaryLoop<int64_t> i64 = nullptr;
  UnaryLoop<uint64_t> u64 = nullptr;
  std::array<Param, 2> params{};
};

int64_t wrapping_neg(int64_t x) {
  return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
}
double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}
double softplus(double x) {
  return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double sign(double x) {
  return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
}
double hard_sigmoid(double x, double alpha, double beta) {
  return std::isnan(x) ? x : std::clamp(alpha * x + beta, 0.0, 1.0);
}

double shrink(double x, const Params& p) {
  if (x < -p[1]) return x + p[0];
  return x > p[1] ? x - p[0] : 0.0;
}

// Formulas of the form x * gate(x) give NaN for minus infinity, because 0 * infinity is NaN.
double gelu_exact(double x) {
  return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}
double gelu_tanh(double x) {
  const double inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * inner));  // x / 2 * (1 + tanh), without the cancellation
}

constexpr UnaryRow kUnaryRows[] = {
    {"Abs", unary_loop<double>([](double x) { return std::fabs(x); }),
     unary_loop<int64_t>([](int64_t x) { return x < 0 ? wrapping_neg(x) : x; }),
     unary_loop<uint64_t>([](uint64_t x) { return x; })},
    {"Neg", unary_loop<double>([](double x) { return -x; }),
     unary_loop<int64_t>([](int64_t x) { return wrapping_neg(x); })},
    {"Sign", unary_loop<double>([](double x) { return sign(x); }),
     unary_loop<int64_t>([](int64_t x) { return static_cast<int64_t>((x > 0) - (x < 0)); }),
     unary_loop<uint64_t>([](uint64_t x) { return static_cast<uint64_t>(x > 0); })},
    {"Relu", unary_loop<double>([](double x) { return x < 0 ? 0.0 : x; }),
     unary_loop<int64_t>([](int64_t x) { return x < 0 ? 0 : x; }),
     unary_loop<uint64_t>([](uint64_t x) { return x; })},
    {"BitNot", nullptr, unary_loop<int64_t>([](int64_t x) { return ~x; }),
     unary_loop<uint64_t>([](uint64_t x) { return ~x; })},
    {"BitwiseNot", nullptr, unary_loop<int64_t>([](int64_t x) { return ~x; }),
     unary_loop<uint64_t>([](uint64_t x) { return ~x; })},
    {"Ceil", unary_loop<double>([](double x) { return std::ceil(x); })},
    {"Floor", unary_loop<double>([](double x) { return std::floor(x); })},
    {"Trunc", unary_loop<double>([](double x) { return std::trunc(x); })},
    {"Round", unary_loop<double>([](double x) { return round_half_even(x); })},
    {"Sqrt", unary_loop<double>([](double x) { return std::sqrt(x); })},
    {"Rsqrt", unary_loop<double>([](double x) { return 1 / std::sqrt(x); })},
    {"Reciprocal", unary_loop<double>([](double x) { return 1 / x; })},
    {"Exp", unary_loop<double>([](double x) { return std::exp(x); })},
    {"Exp2", unary_loop<double>([](double x) { return std::exp2(x); })},
    {"Log", unary_loop<double>([](double x) { return std::log(x); })},
    {"Log2", unary_loop<double>([](double x) { return std::log2(x); })},
    {"Sin", unary_loop<double>([](double x) { return std::sin(x); })},
    {"Cos", unary_loop<double>([](double x) { return std::cos(x); })},
    {"Tan", unary_loop<double>([](double x) { return std::tan(x); })},
    {"Asin", unary_loop<double>([](double x) { return std::asin(x); })},
    {"Acos", unary_loop<double>([](double x) { return std::acos(x); })},
    {"Atan", unary_loop<double>([](double x) { return std::atan(x); })},
    {"Sinh", unary_loop<double>([](double x) { return std::sinh(x); })},
    {"Cosh", unary_loop<double>([](double x) { return std::cosh(x); })},
    {"Tanh", unary_loop<double>([](double x) { return std::tanh(x); })},
    {"Asinh", unary_loop<double>([](double x) { return std::asinh(x); })},
    {"Acosh", unary_loop<double>([](double x) { return std::acosh(x); })},
    {"Atanh", unary_loop<double>([](double x) { return std::atanh(x); })},
    {"Log1p", unary_loop<double>([](double x) { return std::log1p(x); })},
    {"Expm1", unary_loop<double>([](double x) { return std::expm1(x); })},
    {"Erf", unary_loop<double>([](double x) { return std::erf(x); })},
    {"Sigmoid", unary_loop<double>([](double x) { return sigmoid(x); })},
    {"Softplus", unary_loop<double>([](double x) { return softplus(x); })},
    {"Softsign", unary_loop<double>([](double x) { return x / (1 + std::fabs(x)); })},
    {"Silu", unary_loop<double>([](double x) { return x * sigmoid(x); })},
    {"GeluTanh", unary_loop<double>([](double x) { return gelu_tanh(x); })},
    {"Mish", unary_loop<double>([](double x) { return x * std::tanh(softplus(x)); })},
    {"HardSwish", unary_loop<double>([](double x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); })},
    {"HardSigmoid",
     unary_loop<double>([](double x, const Params& p) { return hard_sigmoid(x, p[0], p[1]); }),
     nullptr,
     nullptr,
     {{{"alpha", 0.2F}, {"beta", 0.5F}}}},
    {"Swish",
     unary_loop<double>([](double x, const Params& p) { return x * sigmoid(p[0] * x); }),
     nullptr,
     nullptr,
     {{{"alpha", 1.0F}}}},
    {"LeakyRelu",
     unary_loop<double>([](double x, const Params& p) { return x < 0 ? p[0] * x : x; }),
     nullptr,
     nullptr,
     {{{"alpha", 0.01F}}}},
    {"ThresholdedRelu",
     unary_loop<double>([](double x, const Params& p) { return x > p[0] ? x : 0.0; }),
     nullptr,
     nullptr,
     {{{"alpha", 1.0F}}}},
    {"Elu",
     unary_loop<double>([](double x, const Params& p) { return x < 0 ? p[0] * std::expm1(x) : x; }),
     nullptr,
     nullptr,
     {{{"alpha", 1.0F}}}},
    {"Selu",
     unary_loop<double>(
         [](double x, const Params& p) { return p[1] * (x <= 0 ? p[0] * std::expm1(x) : x); }),
     nullptr,
     nullptr,
     {{{"alpha", 1.67326319217681884765625F}, {"gamma", 1.05070102214813232421875F}}}},
    {"Celu",
     unary_loop<double>(
         [](double x, const Params& p) { return x < 0 ? p[0] * std::expm1(x / p[0]) : x; }),
     nullptr,
     nullptr,
     {{{"alpha", 1.0F}}}},
    {"Shrink",
     unary_loop<double>([](double x, const Params& p) { return shrink(x, p); }),
     unary_loop<int64_t>([](int64_t x, const Params& p) {
       return saturate_i64(shrink(static_cast<double>(x), p));
     }),
     unary_loop<uint64_t>([](uint64_t x, const Params& p) {
       return static_cast<uint64_t>(saturate_i64(shrink(static_cast<double>(x), p)));
     }),
     {{{"bias", 0.0F}, {"lambd", 0.5F}}}},
};

const UnaryRow* find_row(std::string_view name) {
  for (const UnaryRow& r : kUnaryRows) {
    if (r.name == name) return &r;
  }
  return nullptr;
}

template <typename T>
void run_loop(const HostTensor& x, HostTensor& y, UnaryLoop<T> loop, const Params& p) {
  std::array<T, kChunk> buffer;
  for (int64_t i = 0; i < x.count(); i += kChunk) {
    const int64_t n = std::min(kChunk, x.count() - i);
    load(x, i, 1, n, buffer.data());
    loop(buffer.data(), n, p);
    store(y, i, n, buffer.data());
  }
}

KernelResult run_row(const Call& c, const UnaryRow& row) {
  RP_TRY(check_arity(c, 1, 1));
  Params p{};
  for (size_t i = 0; i < p.size(); ++i) {
    const Param& param = row.params[i];
    if (param.name != nullptr) {
      p[i] = static_cast<double>(c.attrs.get_float(param.name, param.fallback));
    }
  }
  const HostTensor& x = input(c, 0);
  const Domain domain = x.dtype() == DType::Bool ? Domain::None : domain_of(x.dtype());
  if (domain == Domain::Float && row.f64 != nullptr) {
    RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
    run_loop<double>(x, y, row.f64, p);
    return one(std::move(y));
  }
  if (domain == Domain::Signed && row.i64 != nullptr) {
    RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
    run_loop<int64_t>(x, y, row.i64, p);
    return one(std::move(y));
  }
  if (domain == Domain::Unsigned && row.u64 != nullptr) {
    RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
    run_loop<uint64_t>(x, y, row.u64, p);
    return one(std::move(y));
  }
  return wrong_dtype(c, 0, "X",
                     row.f64 == nullptr   ? "integers"
                     : row.i64 == nullptr ? "floats"
                                          : "numbers");
}

KernelResult unary(const Call& c) {
  const UnaryRow* row = find_row(c.op);
  if (row == nullptr) return internal_error("no unary row of that name");
  return run_row(c, *row);
}

KernelResult gelu(const Call& c) {
  static constexpr UnaryRow kExact{"Gelu",
                                   unary_loop<double>([](double x) { return gelu_exact(x); })};
  static constexpr UnaryRow kTanh{"Gelu",
                                  unary_loop<double>([](double x) { return gelu_tanh(x); })};
  const std::string approximate = c.attrs.get_string("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return invalid_model("attribute 'approximate' is '" + approximate +
                         "', must be 'none' or 'tanh'");
  }
  return run_row(c, approximate == "tanh" ? kTanh : kExact);
}

}  // namespace

Table unary_table() {
  static const std::vector<Entry> table = [] {
    std::vector<Entry> t;
    for (const UnaryRow& r : kUnaryRows) t.push_back({r.name, unary});
    t.push_back({"Gelu", gelu});
    return t;
  }();
  return table;
}

}  // namespace reprise::host
