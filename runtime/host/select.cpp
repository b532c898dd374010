// Operators whose output depends on the order or the truth of the data, and running sums.
#include <algorithm>
#include <numeric>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// Whether a comes before b in descending order. NaN counts as the largest value.
template <typename T>
bool greater(T a, T b) {
  return a != a ? b == b : a > b;
}

/// Fills lines of k values and positions along an axis.
template <typename T>
void top_k_lines(const HostTensor& x, const AxisSplit& s, int64_t k, bool largest,
                 HostTensor& values, HostTensor& indices) {
  std::vector<T> line(static_cast<size_t>(s.size));
  Dims order(line.size());
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t start = i / s.inner * s.size * s.inner + i % s.inner;
    load(x, start, s.inner, s.size, line.data());
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](int64_t a, int64_t b) {
      const T va = line[static_cast<size_t>(a)];
      const T vb = line[static_cast<size_t>(b)];
      if (largest ? greater(va, vb) : greater(vb, va)) return true;
      if (largest ? greater(vb, va) : greater(va, vb)) return false;
      return a < b;
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    const int64_t out = i / s.inner * k * s.inner + i % s.inner;
    for (int64_t j = 0; j < k; ++j) {
      copy_block(values, out + j * s.inner, x, start + at(order, j) * s.inner, 1);
      set_element<int64_t>(indices, out + j * s.inner, at(order, j));
    }
  }
}

KernelResult top_k(const Call& c) {
  RP_TRY(check_arity(c, 1, 2, 2));
  RP_TRY(require_number(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  Dims wanted = c.attrs.get_ints("count");  // of the core form
  if (wanted.empty()) {
    RP_ASSIGN(wanted, read_ints(c, "k", 1));
  }
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", -1), x.rank()));
  const AxisSplit s = split_at(x.dims(), axis);
  if (wanted.size() != 1 || wanted[0] < 0 || wanted[0] > s.size) {
    return invalid_input("k " + dims_str(wanted) + " is out of range for axis " +
                         std::to_string(axis) + " of " + dims_str(x.dims()));
  }
  Dims dims = x.dims();
  at(dims, axis) = wanted[0];
  RP_ASSIGN(auto values, allocate(x.dtype(), dims));
  RP_ASSIGN(auto indices, allocate(DType::I64, dims));
  const bool largest = c.attrs.get_int("largest", 1) != 0;
  if (values.count() > 0) {
    switch (domain_of(x.dtype())) {
      case Domain::Float:
        top_k_lines<double>(x, s, wanted[0], largest, values, indices);
        break;
      case Domain::Signed:
        top_k_lines<int64_t>(x, s, wanted[0], largest, values, indices);
        break;
      default:
        top_k_lines<uint64_t>(x, s, wanted[0], largest, values, indices);
    }
  }
  Tensors out;
  out.push_back(std::move(values));
  out.push_back(std::move(indices));
  out.resize(std::max<size_t>(1, c.output_count));
  return out;
}

KernelResult non_zero(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  if (x.dtype() == DType::String) return wrong_dtype(c, 0, "X", "numbers and bool");
  Dims found;
  for (int64_t i = 0; i < x.count(); ++i) {
    double v = 0;  // the conversion never turns a non-zero integer into zero
    load(x, i, 1, 1, &v);
    if (v != 0) found.push_back(i);
  }
  const auto n = static_cast<int64_t>(found.size());
  RP_ASSIGN(auto y, allocate(DType::I64, {x.rank(), n}));
  const Dims strides = strides_of(x.dims());
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t d = 0; d < x.rank(); ++d) {
      set_element<int64_t>(y, d * n + k, at(found, k) / at(strides, d) % at(x.dims(), d));
    }
  }
  return one(std::move(y));
}

KernelResult compress(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  const HostTensor& condition = input(c, 1);
  if (condition.dtype() != DType::Bool || condition.rank() != 1) {
    return invalid_input(describe_input(c, 1, "condition") + ": must be a list of bool");
  }
  const bool flat = !c.attrs.has("axis");
  const HostTensor x = flat ? input(c, 0).reshaped({input(c, 0).count()}) : input(c, 0);
  int64_t axis = 0;
  if (!flat) {
    RP_ASSIGN(axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  }
  const AxisSplit s = split_at(x.dims(), axis);
  if (condition.count() > s.size) {
    return invalid_input("condition has " + std::to_string(condition.count()) +
                         " elements for an axis of " + std::to_string(s.size));
  }
  Dims kept;
  for (int64_t i = 0; i < condition.count(); ++i) {
    if (element<uint8_t>(condition, i) != 0) kept.push_back(i);
  }
  Dims dims = x.dims();
  at(dims, axis) = static_cast<int64_t>(kept.size());
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  int64_t next = 0;
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t k : kept) {
      copy_block(y, next, x, (o * s.size + k) * s.inner, s.inner);
      next += s.inner;
    }
  }
  return one(std::move(y));
}

/// The groups of equal slices along an axis.
struct Distinct {
  Dims first, inverse, counts;  // as in Unique's outputs; first and counts are per group
};

/// The same groups in the order of their first occurrence.
Distinct by_first_position(const Distinct& d) {
  Dims groups(d.first.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::sort(groups.begin(), groups.end(),
            [&](int64_t a, int64_t b) { return at(d.first, a) < at(d.first, b); });
  Distinct r{{}, d.inverse, {}};
  Dims rank_of(groups.size());
  for (int64_t g : groups) {
    at(rank_of, g) = static_cast<int64_t>(r.first.size());
    r.first.push_back(at(d.first, g));
    r.counts.push_back(at(d.counts, g));
  }
  for (int64_t& g : r.inverse) g = at(rank_of, g);
  return r;
}

template <typename T>
Distinct find_distinct(const HostTensor& x, const AxisSplit& s, bool sorted) {
  std::vector<std::vector<T>> keys(static_cast<size_t>(s.size));
  for (int64_t a = 0; a < s.size; ++a) {
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t i = 0; i < s.inner; ++i) {
        const int64_t offset = (o * s.size + a) * s.inner + i;
        if constexpr (std::is_same_v<T, std::string>) {
          keys[static_cast<size_t>(a)].push_back(element<T>(x, offset));
        } else {
          T v{};
          load(x, offset, 1, 1, &v);
          keys[static_cast<size_t>(a)].push_back(v);
        }
      }
    }
  }
  // NaN sorts last, and all NaN are distinct values.
  const auto less = [&](int64_t a, int64_t b) {
    const auto& ka = keys[static_cast<size_t>(a)];
    const auto& kb = keys[static_cast<size_t>(b)];
    for (size_t i = 0; i < ka.size(); ++i) {
      const bool na = ka[i] != ka[i];
      const bool nb = kb[i] != kb[i];
      if (na != nb) return nb;
      if (na) continue;
      if (ka[i] < kb[i]) return true;
      if (kb[i] < ka[i]) return false;
    }
    return a < b;
  };
  Dims order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), less);
  Distinct d;
  d.inverse.resize(keys.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto key = static_cast<size_t>(order[i]);
    if (i == 0 || keys[static_cast<size_t>(order[i - 1])] != keys[key]) {
      d.first.push_back(order[i]);
      d.counts.push_back(0);
    }
    ++d.counts.back();
    d.inverse[key] = static_cast<int64_t>(d.first.size()) - 1;
  }
  return sorted ? d : by_first_position(d);
}

KernelResult unique(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 4));
  const bool flat = !c.attrs.has("axis");
  const HostTensor x = flat ? input(c, 0).reshaped({input(c, 0).count()}) : input(c, 0);
  int64_t axis = 0;
  if (!flat) {
    RP_ASSIGN(axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  }
  const AxisSplit s = split_at(x.dims(), axis);
  const bool sorted = c.attrs.get_int("sorted", 1) != 0;
  Distinct d;
  switch (domain_of(x.dtype())) {
    case Domain::Float:
      d = find_distinct<double>(x, s, sorted);
      break;
    case Domain::Signed:
      d = find_distinct<int64_t>(x, s, sorted);
      break;
    case Domain::Unsigned:
      d = find_distinct<uint64_t>(x, s, sorted);
      break;
    case Domain::None:
      d = find_distinct<std::string>(x, s, sorted);
  }
  const auto n = static_cast<int64_t>(d.first.size());
  Dims dims = x.dims();
  at(dims, axis) = n;
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  for (int64_t o = 0; y.count() > 0 && o < s.outer; ++o) {
    for (int64_t k = 0; k < n; ++k) {
      copy_block(y, (o * n + k) * s.inner, x, (o * s.size + at(d.first, k)) * s.inner, s.inner);
    }
  }
  Tensors out;
  out.push_back(std::move(y));
  out.push_back(HostTensor::from(DType::I64, {n}, d.first));
  out.push_back(HostTensor::from(DType::I64, {static_cast<int64_t>(d.inverse.size())}, d.inverse));
  out.push_back(HostTensor::from(DType::I64, {n}, d.counts));
  out.resize(std::max<size_t>(1, c.output_count));
  return out;
}

/// For each number from `first` on, how many elements of an ascending list are less.
KernelResult search_counts(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& counts = input(c, 0);
  const Dims wanted = c.attrs.get_ints("count");
  if (counts.rank() != 1 || counts.dtype() != DType::I32 || wanted.size() != 1 || wanted[0] < 0)
    return invalid_input(describe_input(c, 0, "counts") + ": must be a list of int32");
  RP_ASSIGN(auto y, allocate(DType::I32, wanted));
  const int64_t first = c.attrs.get_int("first", 1);
  const int32_t* data = counts.data<int32_t>();
  for (int64_t i = 0; i < wanted[0]; ++i) {
    const int32_t* at = std::lower_bound(data, data + counts.count(), first + i);
    set_element<int32_t>(y, i, static_cast<int32_t>(at - data));
  }
  return one(std::move(y));
}

struct Scan {
  bool product = false;  // else a sum
  bool exclusive = false;
  bool reverse = false;
};

template <typename T>
void cumulate(const HostTensor& x, const AxisSplit& s, const Scan& scan, HostTensor& y) {
  // Integers wrap around, which is undefined for signed ones.
  using Bits = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  std::vector<T> v(static_cast<size_t>(s.size));
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t start = i / s.inner * s.size * s.inner + i % s.inner;
    load(x, start, s.inner, s.size, v.data());
    T so_far = scan.product ? 1 : 0;
    for (int64_t k = 0; k < s.size; ++k) {
      const int64_t p = scan.reverse ? s.size - 1 - k : k;
      const auto left = static_cast<Bits>(so_far);
      const auto right = static_cast<Bits>(v[static_cast<size_t>(p)]);
      const T next = static_cast<T>(scan.product ? left * right : left + right);
      const T result = scan.exclusive ? so_far : next;
      store(y, start + p * s.inner, 1, &result);
      so_far = next;
    }
  }
}

KernelResult cumulative(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  RP_TRY(require_number(c, 0, "x"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims axes, read_ints(c, "axis", 1));
  if (axes.size() != 1) return invalid_input("axis must hold one integer");
  RP_ASSIGN(const int64_t axis, normalize_axis(axes[0], x.rank()));
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  if (y.count() == 0) return one(std::move(y));
  const AxisSplit s = split_at(x.dims(), axis);
  Scan scan;
  scan.product = c.op == "CumProd";
  scan.exclusive = c.attrs.get_int("exclusive", 0) != 0;
  scan.reverse = c.attrs.get_int("reverse", 0) != 0;
  switch (domain_of(x.dtype())) {
    case Domain::Float:
      cumulate<double>(x, s, scan, y);
      break;
    case Domain::Signed:
      cumulate<int64_t>(x, s, scan, y);
      break;
    default:
      cumulate<uint64_t>(x, s, scan, y);
  }
  return one(std::move(y));
}

}  // namespace

Table select_table() {
  static constexpr Entry kTable[] = {
      {"TopK", top_k},
      {"NonZero", non_zero},
      {"Compress", compress},
      {"Unique", unique},
      {"CumSum", cumulative},
      {"CumProd", cumulative},
      {"SearchCounts", search_counts},
  };
  return kTable;
}

}  // namespace reprise::host
