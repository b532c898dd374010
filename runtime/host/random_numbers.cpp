// Operators with random results: RandomNormal, RandomUniform and their forms with a shape of
// another tensor, Bernoulli, Multinomial, and Dropout in training mode.
#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>
#include <numeric>

#include "runtime/base/random.h"
#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// The numbers of one call. An attribute `seed` replaces the seed of the session and of the run, so
/// that every run has the same numbers.
class Source {
 public:
  explicit Source(const Call& c) : state_(c.random.seed) {
    if (const auto* f = c.attrs.get<float>("seed")) state_ = std::bit_cast<uint32_t>(*f);
    if (const auto* i = c.attrs.get<int64_t>("seed")) state_ = static_cast<uint64_t>(*i);
    uint64_t position = c.random.position;
    state_ ^= splitmix64(position);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(splitmix64(state_) >> 11U) * 0x1p-53; }
  /// With mean 0 and variance 1 (Box and Muller, 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint64_t state_;
};

template <typename F>
void generate(HostTensor& t, F&& next) {
  std::array<double, kChunk> values;
  for (int64_t i = 0; i < t.count(); i += kChunk) {
    const int64_t n = std::min(kChunk, t.count() - i);
    std::generate_n(values.begin(), n, next);
    store(t, i, n, values.data());
  }
}

/// The dtype of the attribute, or else `fallback`.
Result<DType> result_dtype(const Call& c, DType fallback) {
  const auto* code = c.attrs.get<int64_t>("dtype");
  return code == nullptr ? Result<DType>(fallback) : dtype_from_onnx(*code);
}

/// The next value of a float dtype, above or below the element of `scalar`.
double neighbour(const HostTensor& scalar, bool above) {
  HostTensor next = scalar;
  with_width(scalar.dtype(), [&]<typename Bits>(Bits) {
    if constexpr (std::is_unsigned_v<Bits>) {
      constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
      auto bits = element<Bits>(scalar, 0);
      if (static_cast<Bits>(bits & ~kSign) == 0) {
        bits = above ? Bits{1} : static_cast<Bits>(kSign | 1U);
      } else {
        bits = static_cast<Bits>(((bits & kSign) != 0) == above ? bits - 1 : bits + 1);
      }
      set_element(next, 0, bits);
    }
  });
  double v = 0;
  load(next, 0, 1, 1, &v);
  return v;
}

/// The least and the greatest value of a float dtype in [low, high).
struct Bounds {
  double least, greatest;
};
Result<Bounds> bounds_of(DType t, double low, double high) {
  HostTensor scalar(t, {});
  const auto rounded = [&](double v) {
    store(scalar, 0, 1, &v);
    load(scalar, 0, 1, 1, &v);
    return v;
  };
  Bounds b{};
  b.least = rounded(low);
  if (b.least < low) b.least = neighbour(scalar, true);
  b.greatest = rounded(high);
  if (b.greatest >= high) b.greatest = neighbour(scalar, false);
  if (b.least <= b.greatest) return b;
  return invalid_model("no " + std::string(name_of(t)) + " is at least 'low' (" +
                       std::to_string(low) + ") and below 'high' (" + std::to_string(high) + ")");
}

KernelResult random_tensor(const Call& c) {
  const bool like = c.op == "RandomNormalLike" || c.op == "RandomUniformLike";
  RP_TRY(check_arity(c, like ? 1 : 0, like ? 1 : 0));
  RP_ASSIGN(const DType t, result_dtype(c, like ? input(c, 0).dtype() : DType::F32));
  if (domain_of(t) != Domain::Float)
    return invalid_model("attribute 'dtype' must be a float type, is " + std::string(name_of(t)));
  RP_ASSIGN(HostTensor y, allocate(t, like ? input(c, 0).dims() : c.attrs.get_ints("shape")));
  Source source(c);
  if (c.op == "RandomNormal" || c.op == "RandomNormalLike") {
    const double mean = c.attrs.get_float("mean", 0);
    const double scale = c.attrs.get_float("scale", 1);
    generate(y, [&] { return mean + scale * source.normal(); });
  } else {
    const double low = c.attrs.get_float("low", 0);
    const double high = c.attrs.get_float("high", 1);
    Bounds b{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    if (low < high) {
      RP_ASSIGN(b, bounds_of(t, low, high));
    }
    // The sum and its conversion to the dtype may round to `high`.
    generate(
        y, [&] { return std::clamp(low + (high - low) * source.uniform(), b.least, b.greatest); });
  }
  return one(std::move(y));
}

KernelResult bernoulli(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "input"));
  RP_ASSIGN(const DType t, result_dtype(c, input(c, 0).dtype()));
  if (domain_of(t) == Domain::None) {
    return invalid_model("attribute 'dtype' must be a float type, an integer type or bool, is " +
                         std::string(name_of(t)));
  }
  RP_ASSIGN(std::vector<double> values, load_all(input(c, 0)));
  Source source(c);
  for (double& v : values) {
    if (!(v >= 0 && v <= 1))
      return invalid_input("the probability " + std::to_string(v) + " is not in [0, 1]");
    v = source.uniform() < v ? 1 : 0;
  }
  RP_ASSIGN(HostTensor y, store_all(t, input(c, 0).dims(), values));
  return one(std::move(y));
}

/// Draws from classes whose probabilities are given as logarithms, up to a common factor.
KernelResult multinomial(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "input"));
  RP_TRY(require_rank(c, 0, "input", 2, 2));
  RP_ASSIGN(const DType t, result_dtype(c, DType::I32));
  if (t != DType::I32 && t != DType::I64)
    return invalid_model("attribute 'dtype' must be int32 or int64");
  const int64_t samples = c.attrs.get_int("sample_size", 1);
  if (samples < 0) return invalid_model("attribute 'sample_size' is negative");
  const int64_t rows = input(c, 0).dims()[0];
  const int64_t classes = input(c, 0).dims()[1];
  if (classes == 0 && rows * samples != 0)
    return invalid_input("there are no classes to draw from");
  RP_ASSIGN(HostTensor y, allocate(t, Dims{rows, samples}));
  std::vector<double> sums(static_cast<size_t>(classes));  // cumulative
  Source source(c);
  for (int64_t r = 0; r < rows && y.count() > 0; ++r) {
    load(input(c, 0), r * classes, 1, classes, sums.data());
    const double largest = *std::ranges::max_element(sums);
    if (!std::isfinite(largest) ||
        std::ranges::any_of(sums, [](double v) { return std::isnan(v); })) {
      return invalid_input("row " + std::to_string(r) +
                           " must have a finite logarithm of a probability, and no NaN or +inf");
    }
    for (double& v : sums) v = std::exp(v - largest);
    std::partial_sum(sums.begin(), sums.end(), sums.begin());
    for (int64_t k = 0; k < samples; ++k) {
      const auto at = std::ranges::upper_bound(sums, source.uniform() * sums.back());
      const int64_t drawn = std::min<int64_t>(at - sums.begin(), classes - 1);
      store(y, r * samples + k, 1, &drawn);
    }
  }
  return one(std::move(y));
}

/// Whether elements are dropped, with which probability.
Result<double> dropped_part(const Call& c) {
  if (!has_input(c, 2)) return 0.0;  // before opset 12 there is no training mode
  RP_ASSIGN(const double training, scalar_value(c, 2, "training_mode"));
  if (training == 0) return 0.0;
  double ratio = 0.5;
  if (has_input(c, 1)) {
    RP_ASSIGN(ratio, scalar_value(c, 1, "ratio"));
  }
  if (ratio >= 0 && ratio < 1) return ratio;
  return invalid_input("the ratio " + std::to_string(ratio) + " is not in [0, 1)");
}

KernelResult dropout(const Call& c) {
  RP_TRY(check_arity(c, 1, 3, 2));
  RP_TRY(require_float(c, 0, "data"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const double ratio, dropped_part(c));
  const DType mask_type = c.opset > 0 && c.opset < 10 ? x.dtype() : DType::Bool;
  std::vector<double> kept(static_cast<size_t>(x.count()), 1.0);
  Tensors out;
  if (ratio == 0) {
    out.push_back(x);
  } else {
    RP_ASSIGN(std::vector<double> values, load_all(x));
    Source source(c);
    for (size_t i = 0; i < values.size(); ++i) {
      kept[i] = source.uniform() < ratio ? 0 : 1;
      values[i] = kept[i] != 0 ? values[i] / (1 - ratio) : 0;
    }
    RP_ASSIGN(HostTensor y, store_all(x.dtype(), x.dims(), values));
    out.push_back(std::move(y));
  }
  if (c.output_count > 1) {
    RP_ASSIGN(HostTensor mask, store_all(mask_type, x.dims(), kept));
    out.push_back(std::move(mask));
  }
  return out;
}

}  // namespace

Table random_table() {
  static constexpr Entry kTable[] = {{"Bernoulli", bernoulli},
                                     {"Dropout", dropout},
                                     {"Multinomial", multinomial},
                                     {"RandomNormal", random_tensor},
                                     {"RandomNormalLike", random_tensor},
                                     {"RandomUniform", random_tensor},
                                     {"RandomUniformLike", random_tensor}};
  return kTable;
}

}  // namespace reprise::host
