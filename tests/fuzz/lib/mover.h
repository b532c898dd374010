// The errors that a device may make, put into the elements of tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/host/support.h"
#include "tests/fuzz/lib/evaluation.h"
#include "tests/support/random_source.h"

namespace reprise::fuzz {

/// Moves the elements of a tensor of floats.
class Mover {
 public:
  /// Large numbers stay as they are in half of the runs, as where all is in registers.
  Mover(uint64_t seed, DType memory)
      : rng_(seed),
        half_(memory == DType::F16),
        clamps_(half_ && rng_.chance(0.5)),
        flushes_(rng_.chance(1.0 / 3) ? 0
                 : rng_.chance(0.5)   ? 0.5
                                      : 1) {}
  /// What comes of infinities.
  double anything() { return rng_.chance(0.4) ? NAN : rng_.chance(0.5) ? INFINITY : -INFINITY; }

  double between(double low, double high) { return rng_.real(low, high); }
  /// Some of the numbers below the smallest normal one become 0; false where there are none.
  bool flush(const HostTensor& t, HostTensor& out) {
    if (!is_float(t.dtype())) return false;
    const double tiny = smallest_normal(t.dtype());
    const auto small = [&](double v) { return v != 0 && std::fabs(v) < tiny; };
    auto values = host::load_all(t);
    if (!values.ok() || std::none_of(values->begin(), values->end(), small)) return false;
    for (double& v : *values) {
      if (small(v) && rng_.chance(flushes_)) v = 0;
    }
    auto stored = host::store_all(t.dtype(), t.dims(), *values);
    if (stored.ok()) out = std::move(*stored);
    return stored.ok();
  }

  /// NaN may have either sign.
  void sign_of_nan(HostTensor& t) {
    auto values = host::load_all(t);
    if (!values.ok()) return;
    for (double& v : *values) {
      if (std::isnan(v) && rng_.chance(0.5)) v = std::copysign(v, std::signbit(v) ? 1.0 : -1.0);
    }
    if (auto stored = host::store_all(t.dtype(), t.dims(), *values); stored.ok())
      t = std::move(*stored);
  }

  HostTensor moved(const HostTensor& t, double relative, double absolute) {
    auto values = host::load_all(t);
    if (!values.ok()) return t;
    const double tiny = smallest_normal(t.dtype());
    for (double& v : *values) {
      if (v == 0) {
        v = rng_.chance(0.5) ? 0.0 : -0.0;
      } else if (std::fabs(v) < tiny) {
        if (rng_.chance(flushes_)) v = 0;
      }
      if (!std::isfinite(v)) continue;
      // Often to the edge of what is allowed: that is where decisions change.
      const double by = rng_.chance(0.5) ? rng_.real(-1, 1) : rng_.chance(0.5) ? 1 : -1;
      // Below its smallest normal number, fp16 rounds to multiples of 2^-24.
      v += by * (relative * std::fabs(v) + absolute + (half_ && v != 0 ? 0x1p-25 : 0));
      // The largest number stands for what fp16 does not hold, where it is stored.
      if (clamps_ && rng_.chance(0.5)) v = std::clamp(v, -65504.0, 65504.0);
    }
    auto out = host::store_all(t.dtype(), t.dims(), *values);
    return out.ok() ? *out : t;
  }

  /// Adds up to `most` to elements other than 0.
  HostTensor shifted(const HostTensor& t, double most) {
    auto values = host::load_all(t);
    if (!values.ok() || !is_float(t.dtype())) return t;
    for (double& v : *values) {
      if (v != 0 && std::isfinite(v)) v += rng_.real(-most, most);
    }
    auto out = host::store_all(t.dtype(), t.dims(), *values);
    return out.ok() ? *out : t;
  }

  /// Adds up to `part` of the elements within a distance of three along the axes that `along`
  /// names: a weight of interpolation is off by that much, however small it is.
  HostTensor blurred(const HostTensor& t, double part, const std::vector<bool>& along) {
    const auto values = host::load_all(t);
    if (!values.ok()) return t;
    std::vector<double> sums = *values;
    int64_t stride = 1;
    for (size_t axis = t.dims().size(); axis-- > 0;) {
      const int64_t size = t.dims()[axis];
      for (int64_t i = 0; along[axis] && i < t.count(); ++i) {
        const int64_t at = i / stride % size;
        for (int64_t k = std::max<int64_t>(-3, -at); k <= std::min<int64_t>(3, size - 1 - at);
             ++k) {
          const double v = (*values)[static_cast<size_t>(i + k * stride)];
          if (std::isfinite(v)) sums[static_cast<size_t>(i)] += rng_.real(-part, part) * v;
        }
      }
      stride *= size;
    }
    auto out = host::store_all(t.dtype(), t.dims(), sums);
    return out.ok() ? *out : t;
  }

 private:
  test::RandomSource rng_;
  bool half_, clamps_;
  double flushes_;  // how likely a number below the normal ones becomes 0: devices are consistent
};

}  // namespace reprise::fuzz
