// The choice of a token from scores: temperature, top-k, top-p, min-p and a random number. The host
// kernel and the kernel template (shaders/sample_tokens.h) compute the same numbers, so that all
// devices choose the same tokens: apart from exactly rounded sums and products of floats,
// everything is done in integers, whose sums do not depend on their order.
//
// Of a row of V scores (a NaN counts as -infinity):
//
// 1. m is the largest score. If it is -infinity, the result is -1. If the temperature is not at
//    least 2^-126 (0, negative, NaN), or V is 1, the result is the first index of m.
// 2. The weight of a score x is 2^30 if x is m, else 2^30 * 2^-t, rounded down, where
//    t = (m - x) * log2(e) / temperature; 0 if t is not below 31. The quotient has 22 bits, rounded
//    down (inverse_temperature()); temperatures from 2^126 on are infinite. 2^-t is 2^-floor(t)
//    times a polynomial of the fraction, whose error is below 2^-23. So a token with less than
//    2^-30 of the probability of the likeliest is never chosen.
// 3. top-k: with 0 < k < V, scores below the k-th largest have no weight. Scores that equal the
//    k-th largest keep theirs, so more than k may be left.
// 4. top-p: with p < 1, let W be the sum of the weights that are left. Scores are left without
//    weight if those above them have together W * p or more, which is rounded down, but at
//    least 1. Equal scores are kept or dropped together.
// 5. min-p: with p > 0, weights below 2^30 * min(p, 1) become 0.
// 6. r is the first number of Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as
//    1, 2, 3, SC 2011) for the key (seed, 0) and the counter (step, row, 0, 0), times the sum of
//    the weights that are left, divided by 2^32 and rounded down. The result is the first index at
//    which the sum of the weights up to it exceeds r.
#pragma once

#include <array>
#include <cstdint>

namespace reprise {

/// 2^-f = 1 + f * (c[0] + f * (c[1] + ...)) for f in [0, 1], in float, each operation rounded.
inline constexpr std::array<float, 6> kExp2Coefficients{-0x1.62e43p-1F,   0x1.ebfba8p-3F,
                                                        -0x1.c6a652p-5F,  0x1.3a79c4p-7F,
                                                        -0x1.529848p-10F, 0x1.e2025cp-14F};
inline constexpr int32_t kWholeWeight = 1 << 30;
inline constexpr float kLeastWeightExponent = 31;  // from this t on, weights are 0
/// log2(e) * 2^30.
inline constexpr uint32_t kLog2E = 1549082005;
/// Bits behind the whole part of kLog2E / mantissa.
inline constexpr int kQuotientBits = 16;

/// Philox 4x32.
struct Philox {
  static constexpr uint32_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57;
  static constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  static constexpr int kRounds = 10;
};

}  // namespace reprise
