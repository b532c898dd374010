// MatMul, Gemm, the quantised matrix multiplications, and determinants.
#include "runtime/host/matmul.h"

#include <algorithm>

#include "runtime/host/gemm.h"
#include "runtime/host/tables.h"

namespace reprise::host {

Result<MatMulShape> matmul_shape(const Dims& a_dims, const Dims& b_dims) {
  const std::string what = dims_str(a_dims) + " x " + dims_str(b_dims);
  if (a_dims.empty() || b_dims.empty()) return invalid_input("rank 0 in " + what);
  Dims a = a_dims;
  Dims b = b_dims;
  if (a_dims.size() == 1) a.insert(a.begin(), 1);
  if (b_dims.size() == 1) b.push_back(1);
  MatMulShape s;
  s.m = a[a.size() - 2];
  s.k = a.back();
  s.n = b.back();
  if (b[b.size() - 2] != s.k) {
    return invalid_input("the inner dimensions of " + what + " differ: " + std::to_string(s.k) +
                         " and " + std::to_string(b[b.size() - 2]));
  }
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  s.batch = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& d = s.batch[s.batch.size() - shorter.size() + i];
    if (d == 1) d = shorter[i];
    if (shorter[i] != 1 && shorter[i] != d) {
      return invalid_input("the batch dimensions of " + what + " do not broadcast");
    }
  }
  s.a_strides = broadcast_strides(a, s.batch);
  s.b_strides = broadcast_strides(b, s.batch);
  for (int64_t& v : s.a_strides) v = product(Dims{v, s.m, s.k});
  for (int64_t& v : s.b_strides) v = product(Dims{v, s.k, s.n});
  s.out = s.batch;
  if (a_dims.size() > 1) s.out.push_back(s.m);
  if (b_dims.size() > 1) s.out.push_back(s.n);
  return s;
}

void batched_gemm(const HostTensor& a, const HostTensor& b, const MatMulShape& s,
                  const ZeroPoints& zero, const StoreRow& store) {
  int64_t row = 0;
  for_each_index<2>(s.batch, {&s.a_strides, &s.b_strides}, {0, 0},
                    [&](const std::array<int64_t, 2>& o) {
                      gemm(s.m, s.n, s.k, pack_strided(a, o[0], s.k, 1, zero.a),
                           pack_strided(b, o[1], 1, s.n, zero.b),
                           [&](int64_t m, int64_t n, int64_t count, const double* v) {
                             store(row + m, n, count, v);
                           });
                      row += s.m;
                    });
}

namespace {

/// The matrix multiplication of 32-bit and 64-bit integers, which wraps. Double could not hold the
/// sums.
HostTensor wrapping_matmul(const HostTensor& a, const HostTensor& b, const MatMulShape& s,
                           HostTensor y) {
  std::vector<uint64_t> line(static_cast<size_t>(s.n));
  std::vector<uint64_t> sum(static_cast<size_t>(s.n));
  const bool is_signed = domain_of(a.dtype()) == Domain::Signed;
  const auto read = [&](const HostTensor& t, int64_t start, int64_t n, uint64_t* out) {
    if (!is_signed) return load(t, start, 1, n, out);
    for (int64_t i = 0; i < n; ++i) {
      int64_t v = 0;
      load(t, start + i, 1, 1, &v);
      out[i] = static_cast<uint64_t>(v);
    }
  };
  int64_t row = 0;
  for_each_index<2>(s.batch, {&s.a_strides, &s.b_strides}, {0, 0},
                    [&](const std::array<int64_t, 2>& o) {
                      for (int64_t m = 0; m < s.m; ++m, ++row) {
                        std::fill(sum.begin(), sum.end(), 0U);
                        for (int64_t k = 0; k < s.k; ++k) {
                          uint64_t factor = 0;
                          read(a, o[0] + m * s.k + k, 1, &factor);
                          read(b, o[1] + k * s.n, s.n, line.data());
                          for (size_t n = 0; n < sum.size(); ++n) sum[n] += factor * line[n];
                        }
                        store(y, row * s.n, s.n, sum.data());
                      }
                    });
  return y;
}

KernelResult matmul(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_number(c, 0, "A"));
  RP_TRY(require_same_dtype(c, 0, 1));
  const HostTensor& a = input(c, 0);
  const HostTensor& b = input(c, 1);
  RP_ASSIGN(const MatMulShape s, matmul_shape(a.dims(), b.dims()));
  RP_ASSIGN(auto y, allocate(a.dtype(), s.out));
  if (y.count() == 0) return one(std::move(y));
  if (!is_float(a.dtype())) return one(wrapping_matmul(a, b, s, std::move(y)));
  batched_gemm(a, b, s, {}, [&](int64_t row, int64_t n, int64_t count, const double* v) {
    store(y, row * s.n + n, count, v);
  });
  return one(std::move(y));
}

Result<HostTensor> turned(const HostTensor& matrix) {
  const int64_t rows = matrix.dims()[0], columns = matrix.dims()[1];
  RP_ASSIGN(HostTensor out, allocate(matrix.dtype(), {columns, rows}));
  copy_strided(matrix.dims(), out, {{1, rows}}, matrix, {{columns, 1}});
  return out;
}

/// Computes y = f(y, C) elementwise in the type T. C is 0 if it is not given.
template <typename T, typename F>
void add_bias(const Call& c, int64_t rows, int64_t columns, const Dims& bias_strides, HostTensor& y,
              const F& f) {
  std::vector<T> sums(static_cast<size_t>(columns)), bias(sums.size());
  for (int64_t row = 0; row < rows; ++row) {
    load(y, row * columns, 1, columns, sums.data());
    if (has_input(c, 2)) {
      load(input(c, 2), row * bias_strides[0], bias_strides[1], columns, bias.data());
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = f(sums[i], bias[i]);
    store(y, row * columns, columns, sums.data());
  }
}

/// The multiplication and the sum wrap, as in MatMul and Add. Factors other than 1 need not be
/// integers: the result and C are then scaled in double, truncated and saturated.
KernelResult gemm_of_integers(const Call& c, const Dims& bias_strides, HostTensor y) {
  const double alpha = static_cast<double>(c.attrs.get_float("alpha", 1));
  const double beta = static_cast<double>(c.attrs.get_float("beta", 1));
  HostTensor a = input(c, 0), b = input(c, 1);
  if (c.attrs.get_int("transA", 0) != 0) {
    RP_ASSIGN(a, turned(a));
  }
  if (c.attrs.get_int("transB", 0) != 0) {
    RP_ASSIGN(b, turned(b));
  }
  RP_ASSIGN(const MatMulShape s, matmul_shape(a.dims(), b.dims()));
  y = wrapping_matmul(a, b, s, std::move(y));
  if (alpha == 1 && (beta == 1 || !has_input(c, 2))) {
    add_bias<uint64_t>(c, s.m, s.n, bias_strides, y,
                       [](uint64_t sum, uint64_t bias) { return sum + bias; });
  } else {
    add_bias<double>(c, s.m, s.n, bias_strides, y,
                     [alpha, beta](double sum, double bias) { return alpha * sum + beta * bias; });
  }
  return one(std::move(y));
}

KernelResult gemm_op(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_TRY(require_number(c, 0, "A"));
  RP_TRY(require_same_dtype(c, 0, 1));
  RP_TRY(require_rank(c, 0, "A", 2, 2));
  RP_TRY(require_rank(c, 1, "B", 2, 2));
  const HostTensor& a = input(c, 0);
  const HostTensor& b = input(c, 1);
  const bool ta = c.attrs.get_int("transA", 0) != 0;
  const bool tb = c.attrs.get_int("transB", 0) != 0;
  const double alpha = static_cast<double>(c.attrs.get_float("alpha", 1));
  const double beta = static_cast<double>(c.attrs.get_float("beta", 1));
  const int64_t m = a.dims()[ta ? 1 : 0], k = a.dims()[ta ? 0 : 1], n = b.dims()[tb ? 0 : 1];
  if (b.dims()[tb ? 1 : 0] != k) {
    return invalid_input("the inner dimensions of A " + dims_str(a.dims()) + " and B " +
                         dims_str(b.dims()) + " differ");
  }
  const Dims dims{m, n};
  Dims bias_strides{0, 0};
  const bool biased = has_input(c, 2) && beta != 0;  // beta 0 ignores C, even infinities and NaN
  if (has_input(c, 2)) {
    RP_TRY(require_same_dtype(c, 0, 2));
    const Dims& bias = input(c, 2).dims();
    bool fits = bias.size() <= 2;
    for (size_t i = 0; fits && i < bias.size(); ++i) {
      fits = bias[i] == 1 || bias[i] == dims[2 - bias.size() + i];
    }
    if (!fits) {
      return invalid_input("C " + dims_str(bias) + " does not broadcast to " + dims_str(dims));
    }
    bias_strides = broadcast_strides(bias, dims);
  }
  RP_ASSIGN(auto y, allocate(a.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  if (!is_float(a.dtype())) return gemm_of_integers(c, bias_strides, std::move(y));
  std::vector<double> line(static_cast<size_t>(n));
  std::vector<double> bias(static_cast<size_t>(n), 0.0);
  gemm(m, n, k, pack_strided(a, 0, ta ? 1 : k, ta ? m : 1),
       pack_strided(b, 0, tb ? k : 1, tb ? 1 : n),
       [&](int64_t row, int64_t n0, int64_t count, const double* v) {
         if (biased) {
           load(input(c, 2), row * bias_strides[0] + n0 * bias_strides[1], bias_strides[1], count,
                bias.data());
         }
         for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
           line[i] = alpha * v[i] + (biased ? beta * bias[i] : 0.0);
         }
         store(y, row * n + n0, count, line.data());
       });
  return one(std::move(y));
}

/// The determinant of n x n elements, which elimination with the largest pivots destroys.
double determinant(double* a, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      det = -det;
    }
    det *= a[k * n + k];
    if (a[k * n + k] == 0) return det;
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return det;
}

KernelResult det(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 2, 64));
  const HostTensor& x = input(c, 0);
  const int64_t n = x.dims().back();
  if (at(x.dims(), x.rank() - 2) != n) {
    return invalid_input(describe_input(c, 0, "X") + ": the matrices must be square");
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2)));
  RP_ASSIGN(auto v, load_all(x));
  for (int64_t i = 0; i < y.count(); ++i) {
    const double d = determinant(v.data() + i * n * n, n);
    store(y, i, 1, &d);
  }
  return one(std::move(y));
}

}  // namespace

Table matmul_table() {
  static constexpr Entry kTable[] = {{"MatMul", matmul}, {"Gemm", gemm_op}, {"Det", det}};
  return kTable;
}

}  // namespace reprise::host
