// How the next token is chosen: the likeliest one that keeps to the rules of timestamps.
#pragma once

#include <span>
#include <vector>

#include "apps/transcribe/vocabulary.h"

namespace transcribe {

/// A token and the logarithm of its probability among those that are allowed.
struct Choice {
  int64_t token = 0;
  double log_probability = 0;
};

/// Chooses what follows `chosen`. Times come in pairs, the end of one part and the beginning of the
/// next, and do not go back; if a time is likelier than every word, it is a time. Changes `logits`:
/// those of tokens that are not allowed become -infinity.
Choice choose(std::span<float> logits, const std::vector<int64_t>& chosen,
              const Vocabulary& vocabulary, bool with_times);

/// The probability of a token among all.
double probability_of(std::span<const float> logits, int64_t token);

/// What is said in a part of a chunk; times are seconds from its beginning.
struct Segment {
  double begin = 0, end = 0;
  std::vector<int64_t> tokens;
};

/// Cuts tokens at their times. Sets `next`, the time at which the next chunk begins.
std::vector<Segment> segments_of(const std::vector<int64_t>& tokens, const Vocabulary& vocabulary,
                                 double duration, double& next);

}  // namespace transcribe
