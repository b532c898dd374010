#include "tests/fuzz/lib/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/graph/text/text.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

// With so many runs, a result that one run in ten gives is missed about once in a million times.
constexpr size_t kMostSamples = 128;

bool same_bytes_at(const HostTensor& a, const HostTensor& b, int64_t i) {
  const size_t size = size_of(a.dtype());
  return std::memcmp(a.bytes().data() + static_cast<size_t>(i) * size,
                     b.bytes().data() + static_cast<size_t>(i) * size, size) == 0;
}

/// Within the last places, so that no analysis is needed.
bool near(const HostTensor& a, const HostTensor& b, int64_t i) {
  if (same_bytes_at(a, b, i)) return true;
  if (!is_float(a.dtype())) return false;
  const double x = test::number(a, i), y = test::number(b, i);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return std::fabs(x - y) <= 2 * unit_roundoff(a.dtype()) * std::max(std::fabs(x), std::fabs(y)) ||
         std::max(std::fabs(x), std::fabs(y)) < smallest_normal(a.dtype());
}

}  // namespace

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.bytes().size() == 0 ||
      std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0) {
    return true;
  }
  if (!is_float(a.dtype())) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (!same_bytes_at(a, b, i) &&
        !(std::isnan(test::number(a, i)) && std::isnan(test::number(b, i))))
      return false;
  }
  return true;
}

Status Reference::more_samples(size_t count) {
  if (trace_.of == nullptr) {
    has_infinities_ = core_.has_infinities() || !std::ranges::all_of(inputs_, all_finite);
    RP_ASSIGN(trace_, core_.trace(symbols_, inputs_));
    exact_ = core_.outputs_of(trace_.values);
    overflows_ = Evaluation::overflows(trace_);
  }
  while (samples_.size() < count) {
    RP_ASSIGN(const Trace sample,
              core_.trace(symbols_, inputs_, {samples_.size() + 1, memory_, &trace_}));
    samples_.push_back(core_.outputs_of(sample.values));
  }
  return {};
}

bool Reference::agrees(size_t output, int64_t i, const HostTensor& got, bool& skipped) const {
  const HostTensor& expected = expected_[output];
  const HostTensor& exact = exact_[output];
  bool unstable = false;
  double spread = 0;
  for (const Tensors& sample : samples_) {
    const HostTensor& t = sample[output];
    if (t.dims() != expected.dims()) return skipped = true;  // sizes depend on what is rounded
    if (!is_float(expected.dtype())) {
      unstable |= !same_bytes_at(t, exact, i);
      continue;
    }
    const double a = test::number(exact, i), b = test::number(t, i);
    if (std::isfinite(a) && std::isfinite(b)) {
      spread = std::max(spread, std::fabs(a - b));
    } else if (a != b && !(std::isnan(a) && std::isnan(b))) {
      unstable = true;
    }
  }
  if (unstable) return skipped = true;
  if (!is_float(expected.dtype())) return false;
  const double e = test::number(expected, i), g = test::number(got, i);
  // The host sums and divides in double: what overflows on the way, in the core form too, does not
  // overflow there.
  if (!std::isfinite(test::number(exact, i)) && std::isfinite(e) && std::fabs(e) > 1e12)
    return skipped = true;
  // Of infinities a formula may make NaN, which later nodes turn into numbers.
  if (std::isnan(test::number(exact, i)) && std::isfinite(e) && has_infinities_)
    return skipped = true;
  // What becomes 0 on the way does not there either.
  if (std::fabs(test::number(exact, i)) < smallest_normal(expected.dtype()) &&
      std::max(std::fabs(e), std::fabs(g)) < 1e-12)
    return skipped = true;
  if (!std::isfinite(e) || !std::isfinite(g)) {
    if (e == g || (std::isnan(e) && std::isnan(g))) return true;
    // Formulas differ in what they make of an infinity: the core form's result is as good.
    const double core = test::number(exact, i);
    const bool all = !std::isfinite(e) && !std::isfinite(g) && !std::isfinite(core);
    return all && (skipped = true);
  }
  if (spread > 0.05 * std::fabs(e) && spread > 0.05) skipped = true;
  // Where errors are as large as the result, it does not grow with them evenly any more.
  const double times = spread >= std::fabs(e) ? 64 : 4;
  // An operator that the host computes in double may overflow where it is made of others.
  const double core = test::number(exact, i);
  if (overflows_ && std::fabs(core - g) <= times * spread + smallest_normal(expected.dtype()))
    return skipped = true;
  return std::fabs(e - g) <= times * spread + smallest_normal(expected.dtype());
}

/// Whether sizes depend on what is rounded.
bool Reference::sizes_vary(size_t output) {
  const auto differs = [&](const Tensors& t) {
    return t[output].dims() != expected_[output].dims();
  };
  return more_samples(kMostSamples).ok() &&
         (differs(exact_) || std::ranges::any_of(samples_, differs));
}

Comparison Reference::compare(const Tensors& results) {
  Comparison c;
  for (size_t o = 0; o < expected_.size(); ++o) {
    const HostTensor& e = expected_[o];
    const HostTensor& got = results[o];
    const std::string name = "output " + std::to_string(o);
    if (got.dtype() != e.dtype() || got.dims() != e.dims()) {
      if (got.dtype() == e.dtype() && sizes_vary(o)) continue;
      c.wrong = name + " is " + describe(got.dtype(), got.dims()) + ", expected " +
                describe(e.dtype(), e.dims());
      return c;
    }
    c.elements += e.count();
    for (int64_t i = 0; i < e.count(); ++i) {
      if (near(e, got, i)) continue;
      ++c.analysed;
      for (const size_t samples : {size_t{6}, size_t{32}, kMostSamples}) {
        bool skipped = false;
        const Status s = more_samples(samples);
        if (s.code() == Code::InvalidInput) {  // numbers that are moved may be refused
          ++c.skipped;
          break;
        }
        if (!s.ok()) {
          c.wrong = "the core form on the host: " + s.message();
          return c;
        }
        const bool fine = agrees(o, i, got, skipped);
        if (fine && skipped) ++c.skipped;
        if (fine) break;
        if (samples == kMostSamples) {
          c.wrong = name + " [" + std::to_string(i) + "] is " +
                    graph::text::real(test::number(got, i)) + ", expected " +
                    graph::text::real(test::number(e, i));
          return c;
        }
      }
    }
  }
  return c;
}

}  // namespace reprise::fuzz
