// Softmax, LogSoftmax and Hardmax. Before version 13, the input is flattened to a matrix at `axis`
// (default 1), and rows are normalised. From then on, one axis (default -1) is normalised.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

void soft(std::vector<double>& v, bool log) {
  double top = -std::numeric_limits<double>::infinity();
  for (double e : v) top = std::isnan(e) || e > top ? e : top;
  double sum = 0;
  for (double& e : v) {
    e -= top;
    sum += std::exp(e);
  }
  const double log_sum = std::log(sum);
  for (double& e : v) e = log ? e - log_sum : std::exp(e) / sum;
}

void hard(std::vector<double>& v) {
  // A NaN counts as the largest value, as in ArgMax.
  const auto is_nan = [](double e) { return std::isnan(e); };
  const auto nan = std::find_if(v.begin(), v.end(), is_nan);
  const auto best = nan != v.end() ? nan : std::max_element(v.begin(), v.end());
  std::fill(v.begin(), best, 0.0);
  std::fill(best + 1, v.end(), 0.0);
  *best = 1.0;
}

KernelResult softmax(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "input"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  const bool flatten = c.opset != 0 && c.opset < 13;
  int64_t axis = c.attrs.get_int("axis", flatten ? 1 : -1);
  if (!(flatten && axis == x.rank())) {
    RP_ASSIGN(axis, normalize_axis(axis, std::max<int64_t>(x.rank(), 1)));
  }
  AxisSplit s;
  if (flatten) {
    s = {product_range(x.dims(), 0, axis), product_range(x.dims(), axis, x.rank()), 1};
  } else if (x.rank() > 0) {
    s = split_at(x.dims(), axis);
  }
  if (y.count() == 0) return one(std::move(y));
  std::vector<double> v(static_cast<size_t>(s.size));
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t start = i / s.inner * s.size * s.inner + i % s.inner;
    load(x, start, s.inner, s.size, v.data());
    if (c.op == "Hardmax") {
      hard(v);
    } else {
      soft(v, c.op == "LogSoftmax");
    }
    if (s.inner == 1) {
      store(y, start, s.size, v.data());
      continue;
    }
    for (int64_t k = 0; k < s.size; ++k)
      store(y, start + k * s.inner, 1, &v[static_cast<size_t>(k)]);
  }
  return one(std::move(y));
}

}  // namespace

Table softmax_table() {
  static constexpr Entry kTable[] = {
      {"Softmax", softmax}, {"LogSoftmax", softmax}, {"Hardmax", softmax}};
  return kTable;
}

}  // namespace reprise::host
