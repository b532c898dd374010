#include "runtime/base/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/base/low_bit.h"
#include "runtime/base/number_text.h"

namespace reprise {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
void widen(const HostTensor& t, std::vector<double>& out) {
  const T* data = t.data<T>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(data[i]);
}

/// An element as text that differs for any two different elements.
std::string exact_text(const HostTensor& t, int64_t i) {
  const size_t width = size_of(t.dtype());
  uint64_t bits = 0;
  std::memcpy(&bits, t.bytes().data() + static_cast<size_t>(i) * width, width);
  if (is_float(t.dtype())) {
    HostTensor one(t.dtype(), {1});
    std::memcpy(one.mutable_bytes().data(), &bits, width);
    std::array<char, 32> hex{};
    std::snprintf(hex.data(), hex.size(), " (0x%0*llx)", static_cast<int>(2 * width),
                  static_cast<unsigned long long>(bits));
    return number_text(to_double(one)[0]) + hex.data();
  }
  if (!is_signed_int(t.dtype())) return std::to_string(bits);
  const unsigned shift = 64 - 8 * static_cast<unsigned>(width);
  return std::to_string(static_cast<int64_t>(bits << shift) >> shift);
}

Comparison exact(const HostTensor& a, const HostTensor& b, std::span<const double> slack) {
  Comparison c;
  if (a.dtype() == DType::String) {
    const auto at = std::mismatch(a.strings().begin(), a.strings().end(), b.strings().begin());
    if (at.first == a.strings().end()) return c;
    c.ok = false;
    c.differing = 1;
    c.max_error = kInf;
    c.reason = "element " + std::to_string(at.first - a.strings().begin()) + " is \"" + *at.first +
               "\", expected \"" + *at.second + "\"";
    return c;
  }
  const size_t width = size_of(a.dtype());
  const std::vector<double> x = to_double(a);
  const std::vector<double> y = to_double(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::memcmp(a.bytes().data() + i * width, b.bytes().data() + i * width, width) == 0) {
      continue;
    }
    if (!slack.empty() && slack[i] > 0) continue;
    ++c.differing;
    if (c.ok) {
      const auto at = static_cast<int64_t>(i);
      c.reason = "element " + std::to_string(i) + " is " + exact_text(a, at) + ", expected " +
                 exact_text(b, at) + " exactly";
    }
    c.ok = false;
    c.max_error = std::max(c.max_error, std::abs(x[i] - y[i]));
  }
  return c;
}

/// The worst of the comparisons of all items.
Comparison compare_items(const HostTensor& a, const HostTensor& b, const Tolerance& t) {
  Comparison c;
  const size_t n = a.items().size();
  if (n != b.items().size()) {
    c = {false, kInf, kInf, 1, {}};
    c.reason = "has " + std::to_string(n) + " items, expected " + std::to_string(b.items().size());
    return c;
  }
  for (size_t i = 0; i < n; ++i) {
    const Comparison item = compare(a.items()[i], b.items()[i], t);
    if (c.ok && !item.ok) c.reason = "item " + std::to_string(i) + ": " + item.reason;
    c.ok = c.ok && item.ok;
    c.max_error = std::max(c.max_error, item.max_error);
    c.max_relative = std::max(c.max_relative, item.max_relative);
    c.differing += item.differing;
  }
  return c;
}

double largest_finite(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) {
    if (std::isfinite(x)) m = std::max(m, std::abs(x));
  }
  return m;
}

}  // namespace

std::string bit_difference(const HostTensor& first, const HostTensor& later) {
  if (first.dtype() != later.dtype() || first.dims() != later.dims()) {
    return "is " + describe(first.dtype(), first.dims()) + " and " +
           describe(later.dtype(), later.dims());
  }
  if (is_container(first.dtype())) {
    const auto &a = first.items(), &b = later.items();
    if (a.size() != b.size())
      return "has " + std::to_string(a.size()) + " and " + std::to_string(b.size()) + " items";
    for (size_t i = 0; i < a.size(); ++i) {
      const std::string difference = bit_difference(a[i], b[i]);
      if (!difference.empty()) return "item " + std::to_string(i) + ": " + difference;
    }
    return {};
  }
  const auto differs = [](int64_t i, const std::string& a, const std::string& b) {
    return "element " + std::to_string(i) + " is " + a + " and " + b;
  };
  if (first.dtype() == DType::String) {
    for (int64_t i = 0; i < first.count(); ++i) {
      const std::string &a = first.strings()[i], &b = later.strings()[i];
      if (a != b) return differs(i, "\"" + a + "\"", "\"" + b + "\"");
    }
    return {};
  }
  const auto a = first.bytes(), b = later.bytes();
  const auto at = std::mismatch(a.begin(), a.end(), b.begin());
  if (at.first == a.end()) return {};
  const auto width = static_cast<int64_t>(size_of(first.dtype()));
  const int64_t i = (at.first - a.begin()) / width;
  return differs(i, exact_text(first, i), exact_text(later, i));
}

double element_error(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInf;
  if (std::isinf(a) || std::isinf(b)) return a == b ? 0 : kInf;
  return std::abs(a - b);
}

std::vector<double> to_double(const HostTensor& t) {
  std::vector<double> out(static_cast<size_t>(t.count()));
  if (is_low_bit(t.dtype())) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = low_bit_to_float(t.dtype(), t.data<uint8_t>()[i]);
    return out;
  }
  switch (t.dtype()) {
    case DType::F32:
      widen<float>(t, out);
      break;
    case DType::F64:
      widen<double>(t, out);
      break;
    case DType::F16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = f16_to_float(t.data<uint16_t>()[i]);
      break;
    case DType::BF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(t.data<uint16_t>()[i]);
      break;
    case DType::I8:
      widen<int8_t>(t, out);
      break;
    case DType::U8:
    case DType::Bool:
      widen<uint8_t>(t, out);
      break;
    case DType::I16:
      widen<int16_t>(t, out);
      break;
    case DType::U16:
      widen<uint16_t>(t, out);
      break;
    case DType::I32:
      widen<int32_t>(t, out);
      break;
    case DType::U32:
      widen<uint32_t>(t, out);
      break;
    case DType::I64:
      widen<int64_t>(t, out);
      break;
    case DType::U64:
      widen<uint64_t>(t, out);
      break;
    default:  // String and Invalid
      out.clear();
      break;
  }
  return out;
}

Tolerance tolerance(Rule rule, DType dtype) {
  dtype = element_of(dtype);
  if (!is_float(dtype)) return {};
  if (rule == Rule::Operator) return {1e-3, 1e-7, 0};
  if (dtype == DType::F16) return {0, 0, 1e-2};
  if (dtype == DType::BF16) return {0, 0, 2e-2};
  return {0, 0, 1e-4};
}

Tolerance widened(Tolerance t, DType precision, DType dtype) {
  if (is_float(element_of(dtype)) && precision != DType::F32)
    t.of_max = std::max(t.of_max, tolerance(Rule::Model, precision).of_max);
  return t;
}

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& t,
                   std::span<const double> slack) {
  Comparison c;
  if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims()) {
    c.ok = false;
    c.differing = expected.count();
    c.max_error = kInf;
    c.max_relative = kInf;
    c.reason = "is " + describe(actual.dtype(), actual.dims()) + ", expected " +
               describe(expected.dtype(), expected.dims());
    return c;
  }
  if (is_container(actual.dtype())) return compare_items(actual, expected, t);
  if (!is_float(actual.dtype())) return exact(actual, expected, slack);
  const std::vector<double> a = to_double(actual);
  const std::vector<double> b = to_double(expected);
  const double largest = largest_finite(b);
  const double atol = t.atol + t.of_max * largest;
  auto others = static_cast<size_t>(t.others * static_cast<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = element_error(a[i], b[i]);
    c.max_error = std::max(c.max_error, error);
    const double more = slack.empty() ? 0 : slack[i];
    const bool close = std::isfinite(error) && error <= atol + t.rtol * std::abs(b[i]) + more;
    if (error == 0 || close || std::isinf(more)) continue;
    if (std::isfinite(error) && others > 0) {
      --others;
      continue;
    }
    ++c.differing;
    if (c.ok) {
      c.reason = "element " + std::to_string(i) + " is " + number_text(a[i]) + ", expected " +
                 number_text(b[i]) + " within " +
                 number_text(atol + t.rtol * std::abs(b[i]) + more);
    }
    c.ok = false;
  }
  if (c.max_error > 0) c.max_relative = largest > 0 ? c.max_error / largest : kInf;
  return c;
}

}  // namespace reprise
