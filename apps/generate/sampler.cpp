#include "apps/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace reprise::app {

Status check_sampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature))
    return {Code::Usage, "the temperature must be a number of at least 0"};
  if (o.top_k < 0) return {Code::Usage, "top-k must not be negative"};
  if (!(o.top_p > 0 && o.top_p <= 1)) return {Code::Usage, "top-p must be above 0 and at most 1"};
  return {};
}

Result<int64_t> Sampler::choose(std::span<const float> logits) {
  if (logits.empty()) return Status(Code::InvalidInput, "the model has no logits");
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      return Status(Code::InvalidInput, "the logit of token " + std::to_string(i) + " is NaN");
    if (logits[i] > logits[best]) best = i;
  }
  if (o_.temperature == 0 || std::isinf(logits[best])) return static_cast<int64_t>(best);
  return draw(logits, logits[best]);
}

int64_t Sampler::draw(std::span<const float> logits, float most) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double less = static_cast<double>(logits[i]) - static_cast<double>(most);
    candidates_.push_back({static_cast<int64_t>(i), std::exp(less / o_.temperature)});
  }
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  size_t count = candidates_.size();
  if (o_.top_k > 0) count = std::min(count, static_cast<size_t>(o_.top_k));
  const bool sorts = count < candidates_.size() || o_.top_p < 1;
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  if (sorts) std::partial_sort(candidates_.begin(), end, candidates_.end(), before);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += candidates_[i].weight;
  if (o_.top_p < 1) {
    const double wanted = sum * o_.top_p;
    double kept = 0;
    size_t i = 0;
    while (i < count && kept < wanted) kept += candidates_[i++].weight;
    count = i;
    sum = kept;
  }
  const double unit = static_cast<double>(random_() >> 11U) * 0x1p-53;
  double left = unit * sum;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= candidates_[i].weight;
    if (left < 0) return candidates_[i].token;
  }
  return candidates_[count - 1].token;
}

}  // namespace reprise::app
