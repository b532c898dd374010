// SampleRows: the choice of a token from the scores of each row.
#include "runtime/operators/sampling.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Orders as scores do: zeros of either sign are equal, NaN is -infinity.
uint32_t key_of(float score) {
  const auto bits = std::bit_cast<int32_t>(std::isnan(score) ? -kInfinity : score);
  const int32_t magnitude = bits & std::numeric_limits<int32_t>::max();
  return static_cast<uint32_t>(bits < 0 ? -magnitude : magnitude) ^ 0x80000000U;
}

/// What a row is sampled with.
struct SampleRule {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1, min_p = 0;
  uint32_t seed = 0, step = 0, row = 0;
};

/// log2(e) / temperature = quotient * scale, where the quotient is in [0.5, 4).
struct InverseTemperature {
  float quotient, scale;
};
InverseTemperature inverse_temperature(float temperature) {
  const auto bits = std::bit_cast<uint32_t>(temperature);
  const uint32_t exponent = bits >> 23U, mantissa = (bits & 0x7fffffU) | 0x800000U;
  const auto quotient = static_cast<uint32_t>((uint64_t{kLog2E} << kQuotientBits) / mantissa);
  const uint32_t scale = exponent < 254 ? (254 - exponent) << 23U : 0;
  return {static_cast<float>(quotient) * 0x1p-23F, std::bit_cast<float>(scale)};
}

uint32_t weight_of(float score, float largest, const InverseTemperature& inverse) {
  if (score == largest) return kWholeWeight;
  const float t = (largest - score) * inverse.quotient * inverse.scale;
  if (!(t < kLeastWeightExponent)) return 0;
  const auto whole = static_cast<uint32_t>(t);
  const float f = t - static_cast<float>(whole);
  float sum = kExp2Coefficients.back();
  for (size_t i = kExp2Coefficients.size() - 1; i-- > 0;) sum = sum * f + kExp2Coefficients[i];
  return static_cast<uint32_t>((sum * f + 1) * float{kWholeWeight}) >> whole;
}

uint32_t random_number(const SampleRule& rule) {
  std::array<uint32_t, 4> c{rule.step, rule.row, 0, 0};
  uint32_t key0 = rule.seed, key1 = 0;
  for (int i = 0; i < Philox::kRounds; ++i) {
    const uint64_t a = uint64_t{c[0]} * Philox::kFactor0, b = uint64_t{c[2]} * Philox::kFactor1;
    c = {static_cast<uint32_t>(b >> 32U) ^ c[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32U) ^ c[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += Philox::kStep0;
    key1 += Philox::kStep1;
  }
  return c[0];
}

/// sum * factor / 2^32, where the sum is below 2^62.
uint64_t scaled(uint64_t sum, uint32_t factor) {
  return (sum >> 32U) * factor + ((sum & 0xffffffffU) * factor >> 32U);
}

class Row {
 public:
  Row(std::span<const float> scores, std::span<uint32_t> weights)
      : scores_(scores), weights_(weights) {}

  /// The largest key of which those from it on have together at least `wanted`: weight, or with
  /// `counts`, elements.
  uint32_t threshold(uint64_t wanted, bool counts) const {
    uint32_t found = 0;
    for (uint32_t bit = 0x80000000U; bit != 0; bit >>= 1U) {
      uint64_t sum = 0;
      for (size_t i = 0; i < scores_.size(); ++i)
        if (key_of(scores_[i]) >= (found | bit)) sum += counts ? 1 : weights_[i];
      if (sum >= wanted) found |= bit;
    }
    return found;
  }
  void drop_below(uint32_t key) {
    for (size_t i = 0; i < scores_.size(); ++i)
      if (key_of(scores_[i]) < key) weights_[i] = 0;
  }
  uint64_t sum() const {
    uint64_t all = 0;
    for (const uint32_t w : weights_) all += w;
    return all;
  }

 private:
  std::span<const float> scores_;
  std::span<uint32_t> weights_;
};

/// The index that is chosen, or -1. `weights` has room for the row.
int64_t sample_row(std::span<const float> scores, const SampleRule& rule,
                   std::span<uint32_t> weights) {
  float largest = -kInfinity;
  int64_t first = -1;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] > largest)) continue;
    largest = scores[i];
    first = static_cast<int64_t>(i);
  }
  if (first < 0 || scores.size() == 1 || !(rule.temperature >= 0x1p-126F)) return first;
  const InverseTemperature inverse = inverse_temperature(rule.temperature);
  std::ranges::transform(scores, weights.begin(),
                         [&](float x) { return weight_of(x, largest, inverse); });
  Row row(scores, weights);
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < scores.size())
    row.drop_below(row.threshold(static_cast<uint64_t>(rule.top_k), true));
  if (rule.top_p < 1) {
    const auto p = static_cast<uint32_t>(std::max(rule.top_p, 0.0F) * 0x1p32F);
    row.drop_below(row.threshold(std::max<uint64_t>(scaled(row.sum(), p), 1), false));
  }
  const float part = rule.min_p > 0 ? std::min(rule.min_p, 1.0F) : 0;
  const auto least = static_cast<uint32_t>(part * float{kWholeWeight});
  for (uint32_t& w : weights)
    if (w < least) w = 0;
  const uint64_t at = scaled(row.sum(), random_number(rule));
  uint64_t sum = 0;
  size_t i = 0;
  while (sum <= at) sum += weights[i++];
  return static_cast<int64_t>(i) - 1;
}

enum SampleInput : uint8_t { kScores, kTemperature, kTopK, kTopP, kMinP, kSeed, kStep, kInputs };

/// Checks input i, which has a number for each row or one for all of them.
Status require_row_numbers(const Call& c, size_t i, int64_t rows) {
  const bool is_float = i == kTemperature || i == kTopP || i == kMinP;
  const HostTensor& t = input(c, i);
  if (t.dtype() == (is_float ? DType::F32 : DType::I32) && t.rank() == 1 &&
      (t.dims()[0] == 1 || t.dims()[0] == rows))
    return {};
  return invalid_input(describe_input(c, i, "a number for each row") + ": must be " +
                       (is_float ? "float32" : "int32") + " and have 1 or " + std::to_string(rows) +
                       " elements");
}

/// Input i of a row.
template <typename T>
T number_of(const Call& c, size_t i, int64_t row) {
  const HostTensor& t = input(c, i);
  return element<T>(t, t.dims()[0] == 1 ? 0 : row);
}

KernelResult sample_rows(const Call& c) {
  RP_TRY(check_arity(c, kInputs, kInputs));
  RP_TRY(require_float(c, kScores, "scores"));
  RP_TRY(require_rank(c, kScores, "scores", 2, 2));
  const int64_t rows = input(c, kScores).dims()[0], size = input(c, kScores).dims()[1];
  for (size_t i = kTemperature; i < kInputs; ++i) RP_TRY(require_row_numbers(c, i, rows));
  RP_ASSIGN(HostTensor y, allocate(DType::I32, {rows}));
  RP_ASSIGN(std::vector<double> wide, allocate_scratch(std::span(&size, 1)));
  std::vector<float> scores(wide.size());
  std::vector<uint32_t> weights(wide.size());
  for (int64_t r = 0; r < rows; ++r) {
    load(input(c, kScores), r * size, 1, size, wide.data());
    std::ranges::transform(wide, scores.begin(), [](double v) { return static_cast<float>(v); });
    const SampleRule rule{.temperature = number_of<float>(c, kTemperature, r),
                          .top_k = number_of<int32_t>(c, kTopK, r),
                          .top_p = number_of<float>(c, kTopP, r),
                          .min_p = number_of<float>(c, kMinP, r),
                          .seed = number_of<uint32_t>(c, kSeed, r),
                          .step = number_of<uint32_t>(c, kStep, r),
                          .row = input(c, kSeed).dims()[0] == 1 ? static_cast<uint32_t>(r) : 0};
    set_element(y, r, static_cast<int32_t>(sample_row(scores, rule, weights)));
  }
  return one(std::move(y));
}

}  // namespace

Table sampling_table() {
  static constexpr Entry kTable[] = {{"SampleRows", sample_rows}};
  return kTable;
}

}  // namespace reprise::host
