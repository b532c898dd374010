// Chooses the next token on the host.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::app {

struct SamplingOptions {
  double temperature = 0;  // 0: the token with the largest logit, the first one of equals
  int64_t top_k = 0;       // only so many of the most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens that together have this probability
  uint64_t seed = 0;
};

Status check_sampling(const SamplingOptions& options);

/// One thread at a time may use it. The same seed and logits give the same tokens.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : o_(options), random_(options.seed) {}
  /// Fails if a logit is NaN, or if there are none.
  Result<int64_t> choose(std::span<const float> logits);

 private:
  struct Candidate {
    int64_t token;
    double weight;
  };
  int64_t draw(std::span<const float> logits, float most);

  SamplingOptions o_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace reprise::app
