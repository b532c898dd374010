// Quantisation, and matrix multiplications and convolutions of quantised tensors.
#include <algorithm>

#include "runtime/host/matmul.h"
#include "runtime/host/nn/conv.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

std::pair<double, double> range_of(DType t) {
  const double span = std::ldexp(1.0, bits_of(t));
  return is_signed_int(t) || is_signed_low_bit_int(t) ? std::pair{-span / 2, span / 2 - 1}
                                                      : std::pair{0.0, span - 1};
}

double saturate(double v, DType t) {
  const auto [lo, hi] = range_of(t);
  return std::isnan(v) ? 0 : std::clamp(v, lo, hi);
}

/// Rounds to float32, the precision in which quotients are defined.
double as_float(double v) {
  return static_cast<double>(static_cast<float>(v));
}

/// Which scale and zero point an element has: per tensor, per axis, or per block along the axis.
struct Layout {
  Dims strides;  // into the scales, over x's dims; the index of a blocked axis is divided first
  int64_t axis = 0, block = 1;
};

Result<Layout> layout_of(const Call& c, const Dims& x, const HostTensor& scale) {
  Layout l{Dims(x.size(), 0), 0, 1};
  const int64_t block = c.attrs.get_int("block_size", 0);
  if (block == 0 && scale.count() == 1 && scale.rank() <= 1) return l;
  RP_ASSIGN(l.axis, normalize_axis(c.attrs.get_int("axis", 1), static_cast<int64_t>(x.size())));
  const std::string what = "scale " + dims_str(scale.dims()) + " does not fit " + dims_str(x);
  if (block == 0) {
    if (scale.dims() != Dims{at(x, l.axis)}) return invalid_input(what);
    at(l.strides, l.axis) = 1;
    return l;
  }
  if (block < 0 || scale.dims().size() != x.size()) return invalid_input(what);
  for (size_t d = 0; d < x.size(); ++d) {
    const bool blocked = static_cast<int64_t>(d) == l.axis;
    const int64_t want = blocked ? x[d] / block + (x[d] % block != 0 ? 1 : 0) : x[d];
    if (scale.dims()[d] != want) return invalid_input(what);
  }
  l.block = block;
  l.strides = strides_of(scale.dims());
  return l;
}

/// Calls f(element, position of its scale).
template <typename F>
void for_each_scaled(const Dims& dims, const Layout& l, F f) {
  const AxisSplit s = dims.empty() ? AxisSplit{} : split_at(dims, l.axis);
  Dims others = l.strides;
  const int64_t step = dims.empty() ? 0 : at(others, l.axis);
  if (!dims.empty()) at(others, l.axis) = 0;
  int64_t i = 0;
  for_each_index<1>(dims, {&others}, {0}, [&](const std::array<int64_t, 1>& o) {
    const int64_t along = i / s.inner % s.size;
    f(i, o[0] + along / l.block * step);
    ++i;
  });
}

Status check_zero_point(const Call& c, size_t scale, size_t zero) {
  if (!has_input(c, zero) || input(c, zero).dims() == input(c, scale).dims() ||
      (input(c, zero).count() == 1 && input(c, scale).count() == 1)) {
    return {};
  }
  return invalid_input("zero point " + dims_str(input(c, zero).dims()) + " and scale " +
                       dims_str(input(c, scale).dims()) + " have different shapes");
}

bool quantized(DType t) {
  return is_int(t) && size_of(t) <= 2;
}

/// What QuantizeLinear makes and DequantizeLinear takes.
bool linearly_quantized(DType t) {
  return quantized(t) || (is_low_bit(t) && t != DType::F8E8M0);
}

/// The scales and zero points of a call, with their layout.
struct Scaling {
  Layout layout;
  std::vector<double> scales, zeros;
};

Result<Scaling> read_scaling(const Call& c) {
  Scaling out;
  RP_ASSIGN(out.layout, layout_of(c, input(c, 0).dims(), input(c, 1)));
  RP_ASSIGN(out.scales, load_all(input(c, 1)));
  out.zeros.resize(out.scales.size(), 0.0);
  if (has_input(c, 2)) {
    RP_ASSIGN(out.zeros, load_all(input(c, 2)));
  }
  return out;
}

/// The float type to which quotients are rounded: the attribute `precision`, or the type of the
/// scale.
Result<DType> quotient_dtype(const Call& c) {
  if (c.attrs.get_int("precision", 0) == 0) return input(c, 1).dtype();
  return dtype_from_onnx(c.attrs.get_int("precision", 0));
}

/// Other types than those of 16 bits stand for float32.
double rounded_to(DType t, double v) {
  if (t == DType::F16) return f16_to_float(double_to_f16(v));
  return t == DType::BF16 ? bf16_to_float(double_to_bf16(v)) : as_float(v);
}

Result<DType> quantized_type(const Call& c) {
  DType to = DType::U8;
  if (has_input(c, 2)) {
    to = input(c, 2).dtype();
  } else if (c.attrs.get_int("output_dtype", 0) != 0) {
    RP_ASSIGN(to, dtype_from_onnx(c.attrs.get_int("output_dtype", 0)));
  }
  if (linearly_quantized(to)) return to;
  return unsupported("no quantisation to " + std::string(name_of(to)));
}

KernelResult quantize_linear(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_TRY(require_number(c, 0, "x"));
  if (input(c, 1).dtype() != DType::F8E8M0) RP_TRY(require_number(c, 1, "y_scale"));
  RP_TRY(check_zero_point(c, 1, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const DType to, quantized_type(c));
  RP_ASSIGN(const DType precision, quotient_dtype(c));
  RP_ASSIGN(const Scaling q, read_scaling(c));
  RP_ASSIGN(auto y, allocate(to, x.dims()));
  const bool whole = is_int(to) || is_low_bit_int(to);
  const LowBitRules rules{c.attrs.get_int("saturate", 1) != 0, PowerRounding::Up};
  for_each_scaled(x.dims(), q.layout, [&](int64_t i, int64_t k) {
    double v = 0;
    load(x, i, 1, 1, &v);
    const auto s = static_cast<size_t>(k);
    const double quotient =
        rounded_to(precision, rounded_to(precision, v) / rounded_to(precision, q.scales[s]));
    if (!whole) {
      const double shifted = as_float(quotient + q.zeros[s]);
      y.mutable_data<uint8_t>()[i] = double_to_low_bit(to, shifted, rules);
      return;
    }
    const double r = saturate(round_half_even(quotient) + q.zeros[s], to);
    store(y, i, 1, &r);
  });
  return one(std::move(y));
}

KernelResult dequantize_linear(const Call& c) {
  RP_TRY(check_arity(c, 2, 4));
  if (input(c, 1).dtype() != DType::F8E8M0) RP_TRY(require_float(c, 1, "x_scale"));
  RP_TRY(check_zero_point(c, 1, 2));
  const HostTensor& x = input(c, 0);
  if (!linearly_quantized(x.dtype()) && x.dtype() != DType::I32) {
    return wrong_dtype(c, 0, "x", "integers of 2 to 16 bits, int32 and floats of 4 and 8 bits");
  }
  if (has_input(c, 2)) RP_TRY(require_same_dtype(c, 0, 2));
  DType to = input(c, 1).dtype();
  if (c.attrs.get_int("output_dtype", 0) != 0) {
    RP_ASSIGN(to, dtype_from_onnx(c.attrs.get_int("output_dtype", 0)));
  }
  if (!is_float(to)) return unsupported("no dequantisation to " + std::string(name_of(to)));
  RP_ASSIGN(const Scaling q, read_scaling(c));
  std::vector<double> minimums;  // in core form
  if (has_input(c, 3)) {
    RP_TRY(check_zero_point(c, 1, 3));
    RP_ASSIGN(minimums, load_all(input(c, 3)));
  }
  RP_ASSIGN(auto y, allocate(to, x.dims()));
  for_each_scaled(x.dims(), q.layout, [&](int64_t i, int64_t k) {
    double v = 0;
    load(x, i, 1, 1, &v);
    const auto s = static_cast<size_t>(k);
    double r = (v - q.zeros[s]) * q.scales[s];
    if (!minimums.empty()) r = as_float(r) + minimums[s];
    store(y, i, 1, &r);
  });
  return one(std::move(y));
}

KernelResult dynamic_quantize_linear(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 3));
  if (input(c, 0).dtype() != DType::F32) return wrong_dtype(c, 0, "x", "float32");
  RP_ASSIGN(const auto v, load_all(input(c, 0)));
  double lo = 0;
  double hi = 0;
  for (double e : v) {
    lo = std::min(lo, e);
    hi = std::max(hi, e);
  }
  // Computed in float32 throughout, as the operator's definition does.
  const double step = as_float(as_float(hi - lo) / 255);
  const double scale = step == 0 ? 1 : step;
  const double zero = round_half_even(std::clamp(as_float((0 - lo) / scale), 0.0, 255.0));
  RP_ASSIGN(auto y, allocate(DType::U8, input(c, 0).dims()));
  for (size_t i = 0; i < v.size(); ++i) {
    const double q = saturate(round_half_even(as_float(v[i] / scale)) + zero, DType::U8);
    store(y, static_cast<int64_t>(i), 1, &q);
  }
  RP_ASSIGN(auto scale_out, store_all(DType::F32, {}, {scale}));
  RP_ASSIGN(auto zero_out, store_all(DType::U8, {}, {zero}));
  Tensors out;
  out.push_back(std::move(y));
  out.push_back(std::move(scale_out));
  out.push_back(std::move(zero_out));
  out.resize(std::max<size_t>(1, c.output_count));
  return out;
}

Status require_quantized(const Call& c, size_t i, std::string_view role) {
  return quantized(input(c, i).dtype()) && size_of(input(c, i).dtype()) == 1
             ? Status()
             : wrong_dtype(c, i, role, "int8 and uint8");
}

/// A zero point or scale: one value, or `count` values, or none if the input is absent.
Result<std::vector<double>> per_channel(const Call& c, size_t i, std::string_view role,
                                        int64_t count) {
  if (!has_input(c, i)) return std::vector<double>{};
  RP_TRY(require_number(c, i, role));
  const HostTensor& t = input(c, i);
  if (t.count() != 1 && t.count() != count) {
    return invalid_input(describe_input(c, i, role) + ": must hold one number or " +
                         std::to_string(count));
  }
  return load_all(t);
}

KernelResult matmul_integer(const Call& c) {
  RP_TRY(check_arity(c, 2, 4));
  RP_TRY(require_quantized(c, 0, "A"));
  RP_TRY(require_quantized(c, 1, "B"));
  const HostTensor& a = input(c, 0);
  const HostTensor& b = input(c, 1);
  RP_ASSIGN(const MatMulShape s, matmul_shape(a.dims(), b.dims()));
  RP_ASSIGN(const auto a_zero, per_channel(c, 2, "a_zero_point", s.m));
  RP_ASSIGN(const auto b_zero, per_channel(c, 3, "b_zero_point", s.n));
  RP_ASSIGN(auto y, allocate(DType::I32, s.out));
  if (y.count() == 0) return one(std::move(y));
  batched_gemm(a, b, s, {a_zero, b_zero},
               [&](int64_t row, int64_t n, int64_t count, const double* v) {
                 store(y, row * s.n + n, count, v);
               });
  return one(std::move(y));
}

/// Rescales integer sums: round(v * a_scale * b_scale / y_scale) + y_zero, saturated.
struct Requantize {
  double factor = 1;
  std::vector<double> per_output;
  double zero = 0;
  DType dtype = DType::U8;

  double operator()(double v, int64_t i) const {
    const double s = per_output[per_output.size() == 1 ? 0 : static_cast<size_t>(i)];
    return saturate(round_half_even(as_float(v * as_float(factor * s))) + zero, dtype);
  }
};

KernelResult qlinear_matmul(const Call& c) {
  RP_TRY(check_arity(c, 8, 8));
  RP_TRY(require_quantized(c, 0, "a"));
  RP_TRY(require_quantized(c, 3, "b"));
  const HostTensor& a = input(c, 0);
  const HostTensor& b = input(c, 3);
  RP_ASSIGN(const MatMulShape s, matmul_shape(a.dims(), b.dims()));
  RP_ASSIGN(const double a_scale, scalar_value(c, 1, "a_scale"));
  RP_ASSIGN(const auto a_zero, per_channel(c, 2, "a_zero_point", s.m));
  RP_ASSIGN(auto b_scale, per_channel(c, 4, "b_scale", s.n));
  RP_ASSIGN(const auto b_zero, per_channel(c, 5, "b_zero_point", s.n));
  RP_ASSIGN(const double y_scale, scalar_value(c, 6, "y_scale"));
  RP_ASSIGN(const double y_zero, scalar_value(c, 7, "y_zero_point"));
  RP_TRY(require_quantized(c, 7, "y_zero_point"));
  const DType to = input(c, 7).dtype();
  const Requantize requantize{a_scale / y_scale, std::move(b_scale), y_zero, to};
  RP_ASSIGN(auto y, allocate(to, s.out));
  if (y.count() == 0) return one(std::move(y));
  std::vector<double> line(static_cast<size_t>(s.n));
  batched_gemm(a, b, s, {a_zero, b_zero},
               [&](int64_t row, int64_t n, int64_t count, const double* v) {
                 for (int64_t i = 0; i < count; ++i) {
                   line[static_cast<size_t>(i)] = requantize(v[i], n + i);
                 }
                 store(y, row * s.n + n, count, line.data());
               });
  return one(std::move(y));
}

KernelResult conv_integer(const Call& c) {
  RP_TRY(check_arity(c, 2, 4));
  RP_TRY(require_quantized(c, 0, "x"));
  RP_TRY(require_quantized(c, 1, "w"));
  RP_ASSIGN(const ConvProblem p, conv_problem(c, input(c, 0), input(c, 1)));
  double x_zero = 0;
  if (has_input(c, 2)) {
    RP_ASSIGN(x_zero, scalar_value(c, 2, "x_zero_point"));
  }
  RP_ASSIGN(const auto w_zero, per_channel(c, 3, "w_zero_point", p.outputs));
  RP_ASSIGN(auto y, allocate(DType::I32, p.out));
  if (y.count() == 0) return one(std::move(y));
  const int64_t pixels = p.window.out_count();
  convolve(p, input(c, 0), input(c, 1), x_zero, w_zero,
           [&](int64_t n, int64_t m, int64_t first, int64_t count, const double* v) {
             store(y, (n * p.outputs + m) * pixels + first, count, v);
           });
  return one(std::move(y));
}

KernelResult qlinear_conv(const Call& c) {
  RP_TRY(check_arity(c, 8, 9));
  RP_TRY(require_quantized(c, 0, "x"));
  RP_TRY(require_quantized(c, 3, "w"));
  RP_ASSIGN(const ConvProblem p, conv_problem(c, input(c, 0), input(c, 3)));
  RP_ASSIGN(const double x_scale, scalar_value(c, 1, "x_scale"));
  RP_ASSIGN(const double x_zero, scalar_value(c, 2, "x_zero_point"));
  RP_ASSIGN(auto w_scale, per_channel(c, 4, "w_scale", p.outputs));
  RP_ASSIGN(const auto w_zero, per_channel(c, 5, "w_zero_point", p.outputs));
  RP_ASSIGN(const double y_scale, scalar_value(c, 6, "y_scale"));
  RP_ASSIGN(const double y_zero, scalar_value(c, 7, "y_zero_point"));
  RP_TRY(require_quantized(c, 7, "y_zero_point"));
  RP_ASSIGN(auto bias, allocate_scratch(Dims{p.outputs}));
  if (has_input(c, 8)) {
    if (input(c, 8).dtype() != DType::I32 || input(c, 8).dims() != Dims{p.outputs}) {
      return invalid_input(describe_input(c, 8, "B") + ": must be int32[" +
                           std::to_string(p.outputs) + "]");
    }
    RP_ASSIGN(bias, load_all(input(c, 8)));
  }
  const DType to = input(c, 7).dtype();
  const Requantize requantize{x_scale / y_scale, std::move(w_scale), y_zero, to};
  RP_ASSIGN(auto y, allocate(to, p.out));
  if (y.count() == 0) return one(std::move(y));
  const int64_t pixels = p.window.out_count();
  std::vector<double> line(static_cast<size_t>(std::min<int64_t>(pixels, kChunk)));
  convolve(p, input(c, 0), input(c, 3), x_zero, w_zero,
           [&](int64_t n, int64_t m, int64_t first, int64_t count, const double* v) {
             for (int64_t i = 0; i < count; ++i) {
               line[static_cast<size_t>(i)] = requantize(v[i] + bias[static_cast<size_t>(m)], m);
             }
             store(y, (n * p.outputs + m) * pixels + first, count, line.data());
           });
  return one(std::move(y));
}

}  // namespace

Table quantize_table() {
  static constexpr Entry kTable[] = {
      {"QuantizeLinear", quantize_linear},
      {"DequantizeLinear", dequantize_linear},
      {"DynamicQuantizeLinear", dynamic_quantize_linear},
      {"MatMulInteger", matmul_integer},
      {"QLinearMatMul", qlinear_matmul},
      {"ConvInteger", conv_integer},
      {"QLinearConv", qlinear_conv},
  };
  return kTable;
}

}  // namespace reprise::host
