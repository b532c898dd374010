// Reductions over axes. Floats accumulate in double, integers in 64 bits (wrapping).
#include <algorithm>
#include <numeric>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class Kind : uint8_t { Sum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare };

struct ReduceRow {
  std::string_view name;
  Kind kind;
};

constexpr ReduceRow kReductions[] = {
    {"ReduceSum", Kind::Sum},
    {"ReduceMean", Kind::Mean},
    {"ReduceMax", Kind::Max},
    {"ReduceMin", Kind::Min},
    {"ReduceProd", Kind::Prod},
    {"ReduceL1", Kind::L1},
    {"ReduceL2", Kind::L2},
    {"ReduceLogSum", Kind::LogSum},
    {"ReduceLogSumExp", Kind::LogSumExp},
    {"ReduceSumSquare", Kind::SumSquare},
};

template <typename T>
using Unsigned = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
template <typename T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <typename T>
T mul(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
}
template <typename T>
T magnitude(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(v);
  } else {
    return v < T{0} ? static_cast<T>(0 - static_cast<uint64_t>(v)) : v;
  }
}
template <typename T>
T step(Kind kind, T acc, T v) {
  switch (kind) {
    case Kind::Max:
      return acc != acc || acc > v ? acc : v;
    case Kind::Min:
      return acc != acc || acc < v ? acc : v;
    case Kind::Prod:
      return mul(acc, v);
    case Kind::L1:
      return add(acc, magnitude(v));
    case Kind::L2:
    case Kind::SumSquare:
      return add(acc, mul(v, v));
    case Kind::Sum:
    case Kind::Mean:
    case Kind::LogSum:
    case Kind::LogSumExp:
      break;
  }
  return add(acc, v);
}

/// The result for no elements. For integers the extremes are those of the dtype, not of 64 bits.
template <typename T>
T initial(Kind kind, DType t) {
  if (kind == Kind::Prod) return T{1};
  if (kind != Kind::Max && kind != Kind::Min) return T{0};
  const bool lowest = kind == Kind::Max;
  if constexpr (std::is_floating_point_v<T>) {
    return lowest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  } else {
    const int bits = static_cast<int>(8 * size_of(t));
    if (t == DType::Bool) return lowest ? T{0} : T{1};
    if constexpr (std::is_signed_v<T>) {
      const T top = static_cast<T>(std::numeric_limits<T>::max() >> (64 - bits));
      return lowest ? static_cast<T>(-top - 1) : top;
    } else {
      return lowest ? T{0} : static_cast<T>(std::numeric_limits<T>::max() >> (64 - bits));
    }
  }
}

/// The mapping from input elements to accumulators.
struct ReduceLayout {
  Dims kept;     // output dims, with size 1 for reduced axes
  Dims strides;  // of the accumulator, per input axis; 0 for reduced axes
  int64_t reduced = 1;
};

ReduceLayout layout_of(const Dims& dims, const Dims& axes) {
  ReduceLayout l{dims, {}, 1};
  for (int64_t a : axes) {
    l.reduced = product(std::array<int64_t, 2>{l.reduced, at(dims, a)});
    at(l.kept, a) = 1;
  }
  l.strides = broadcast_strides(l.kept, dims);
  return l;
}

/// Calls f(accumulator, stride, values, n) for consecutive pieces of the input, in order.
template <typename T, typename F>
void for_each_run(const HostTensor& x, const ReduceLayout& l, F f) {
  if (x.count() == 0) return;
  const bool scalar = x.rank() == 0;
  const int64_t row = scalar ? 1 : x.dims().back();
  const int64_t stride = scalar ? 0 : l.strides.back();
  Dims outer = x.dims();
  Dims outer_strides = l.strides;
  if (!scalar) {
    outer.pop_back();
    outer_strides.pop_back();
  }
  std::array<T, kChunk> buffer;
  int64_t start = 0;
  for_each_index<1>(outer, {&outer_strides}, {0}, [&](const std::array<int64_t, 1>& o) {
    for (int64_t i = 0; i < row; i += kChunk) {
      const int64_t n = std::min(kChunk, row - i);
      load(x, start + i, 1, n, buffer.data());
      f(o[0] + i * stride, stride, buffer.data(), n);
    }
    start += row;
  });
}

template <typename T>
void accumulate(Kind kind, const HostTensor& x, const ReduceLayout& l, std::vector<T>& acc) {
  std::fill(acc.begin(), acc.end(), initial<T>(kind, x.dtype()));
  for_each_run<T>(x, l, [&](int64_t to, int64_t stride, const T* v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T& a = acc[static_cast<size_t>(to + i * stride)];
      a = step(kind, a, v[i]);
    }
  });
}

/// Subtracts the maximum first, so that large inputs do not overflow.
void log_sum_exp(const HostTensor& x, const ReduceLayout& l, std::vector<double>& acc) {
  std::vector<double> top(acc.size());
  accumulate(Kind::Max, x, l, top);
  std::fill(acc.begin(), acc.end(), 0.0);
  for_each_run<double>(x, l, [&](int64_t to, int64_t stride, const double* v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<size_t>(to + i * stride);
      acc[k] += std::isinf(top[k]) ? std::exp(v[i]) : std::exp(v[i] - top[k]);
    }
  });
  for (size_t k = 0; k < acc.size(); ++k) {
    acc[k] = std::log(acc[k]) + (std::isinf(top[k]) ? 0.0 : top[k]);
  }
}

/// The square root, rounded down; 0 for a number that is negative because its sum wrapped.
template <typename T>
T whole_root(T a) {
  if (a <= 0) return 0;
  T root = static_cast<T>(std::sqrt(static_cast<double>(a)));
  while (root > a / root) --root;
  while (root + 1 <= a / (root + 1)) ++root;
  return root;
}

template <typename T>
void finish(Kind kind, int64_t reduced, std::vector<T>& acc) {
  for (T& a : acc) {
    if (kind == Kind::Mean) {
      // The mean of no elements is NaN for floats, and 0 for integers.
      if (std::is_floating_point_v<T> || reduced != 0) a /= static_cast<T>(reduced);
    } else if (kind == Kind::L2) {
      if constexpr (std::is_floating_point_v<T>) {
        a = std::sqrt(a);
      } else {
        a = whole_root(a);
      }
    } else if (kind == Kind::LogSum) {
      a = static_cast<T>(std::log(static_cast<double>(a)));
    }
  }
}

/// Integer sums wrap in their dtype before they are used further. For means of 8-bit and 16-bit
/// integers they wrap in 32 bits.
template <typename T>
void wrap_sums(Kind kind, std::vector<T>& acc, HostTensor& y) {
  if (kind == Kind::Mean && size_of(y.dtype()) < 4) {
    const bool is_signed = is_signed_int(y.dtype());
    for (T& a : acc)
      a = is_signed ? static_cast<T>(static_cast<int32_t>(a)) : static_cast<uint32_t>(a);
    return;
  }
  store(y, 0, y.count(), acc.data());
  load(y, 0, 1, y.count(), acc.data());
}

template <typename T>
void run(Kind kind, const HostTensor& x, const ReduceLayout& l, HostTensor& y) {
  std::vector<T> acc(static_cast<size_t>(y.count()));
  if (kind == Kind::LogSumExp || (kind == Kind::LogSum && !std::is_floating_point_v<T>)) {
    std::vector<double> wide(acc.size());
    if (kind == Kind::LogSumExp) {
      log_sum_exp(x, l, wide);
    } else {
      accumulate(kind, x, l, wide);
      finish(kind, l.reduced, wide);
    }
    store(y, 0, y.count(), wide.data());
    return;
  }
  accumulate(kind, x, l, acc);
  if constexpr (!std::is_floating_point_v<T>) {
    wrap_sums(kind, acc, y);
  }
  finish(kind, l.reduced, acc);
  store(y, 0, y.count(), acc.data());
}

/// The axes from the attribute or the input. No axes means all, or none if noop_with_empty_axes is
/// set.
Result<Dims> reduce_axes(const Call& c, int64_t rank) {
  Dims axes;
  if (has_ints(c, "axes", 1)) {
    RP_ASSIGN(const Dims raw, read_ints(c, "axes", 1));
    RP_ASSIGN(axes, normalize_axes(raw, rank));
  }
  if (axes.empty() && c.attrs.get_int("noop_with_empty_axes", 0) == 0) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

Dims drop_axes(const Dims& dims, const Dims& axes) {
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d))) {
      out.push_back(dims[d]);
    }
  }
  return out;
}

KernelResult reduce(const Call& c) {
  const auto* row = std::find_if(std::begin(kReductions), std::end(kReductions),
                                 [&](const ReduceRow& r) { return r.name == c.op; });
  if (row == std::end(kReductions)) return internal_error("no reduction of that name");
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  const bool extreme = row->kind == Kind::Max || row->kind == Kind::Min;
  if (!extreme || x.dtype() != DType::Bool) RP_TRY(require_number(c, 0, "data"));
  RP_ASSIGN(const Dims axes, reduce_axes(c, x.rank()));
  const ReduceLayout l = layout_of(x.dims(), axes);
  RP_ASSIGN(auto y, allocate(x.dtype(), l.kept));
  switch (domain_of(x.dtype())) {
    case Domain::Float:
      run<double>(row->kind, x, l, y);
      break;
    case Domain::Signed:
      run<int64_t>(row->kind, x, l, y);
      break;
    default:
      run<uint64_t>(row->kind, x, l, y);
  }
  if (c.attrs.get_int("keepdims", 1) != 0) return one(std::move(y));
  return one(y.reshaped(drop_axes(l.kept, axes)));
}

/// The position of the extreme along one axis: the first or the last of equal ones. A NaN counts as
/// the extreme.
template <typename T>
void arg_extreme(const HostTensor& x, const AxisSplit& s, bool max, bool last, HostTensor& y) {
  std::vector<T> values(static_cast<size_t>(s.size));
  for (int64_t i = 0; i < y.count(); ++i) {
    load(x, (i / s.inner) * s.size * s.inner + i % s.inner, s.inner, s.size, values.data());
    int64_t best = 0;
    for (int64_t k = 1; k < s.size; ++k) {
      const T v = values[static_cast<size_t>(k)];
      const T b = values[static_cast<size_t>(best)];
      const bool nan = v != v;
      const bool best_nan = b != b;
      const bool better = best_nan ? false : nan || (max ? v > b : v < b);
      const bool equal = nan ? best_nan : v == b;
      if (better || (last && equal)) best = k;
    }
    set_element<int64_t>(y, i, best);
  }
}

KernelResult arg(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_number(c, 0, "data"));
  const HostTensor& x = input(c, 0);
  if (x.rank() == 0) {
    RP_ASSIGN(auto zero, allocate(DType::I64, {}));
    return one(std::move(zero));
  }
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  const AxisSplit s = split_at(x.dims(), axis);
  Dims dims = x.dims();
  at(dims, axis) = 1;
  RP_ASSIGN(auto y, allocate(DType::I64, dims));
  // An empty axis has no largest element. In core form the position is 0, because decompositions of
  // other operators rely on that.
  if (s.size == 0 && c.opset == 0) return one(std::move(y));
  if (s.size == 0 && y.count() > 0)
    return invalid_input("axis " + std::to_string(axis) + " is empty");
  const bool max = c.op == "ArgMax";
  const bool last = c.attrs.get_int("select_last_index", 0) != 0;
  switch (domain_of(x.dtype())) {
    case Domain::Float:
      arg_extreme<double>(x, s, max, last, y);
      break;
    case Domain::Signed:
      arg_extreme<int64_t>(x, s, max, last, y);
      break;
    default:
      arg_extreme<uint64_t>(x, s, max, last, y);
  }
  if (c.attrs.get_int("keepdims", 1) != 0) return one(std::move(y));
  return one(y.reshaped(drop_axes(dims, {axis})));
}

}  // namespace

Table reduce_table() {
  static constexpr Entry kTable[] = {
      {"ReduceSum", reduce},       {"ReduceMean", reduce},   {"ReduceMax", reduce},
      {"ReduceMin", reduce},       {"ReduceProd", reduce},   {"ReduceL1", reduce},
      {"ReduceL2", reduce},        {"ReduceLogSum", reduce}, {"ReduceLogSumExp", reduce},
      {"ReduceSumSquare", reduce}, {"ArgMax", arg},          {"ArgMin", arg},
  };
  return kTable;
}

}  // namespace reprise::host
