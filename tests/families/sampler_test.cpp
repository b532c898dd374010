// The choice of the next token on the host.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "apps/generate/sampler.h"

namespace reprise::app {
namespace {

constexpr std::array<float, 5> kLogits{0.5F, 2.0F, 2.0F, -1.0F, 1.0F};

std::vector<int> counts(const SamplingOptions& options, int draws) {
  Sampler sampler(options);
  std::vector<int> out(kLogits.size());
  for (int i = 0; i < draws; ++i) {
    const auto token = sampler.choose(kLogits);
    EXPECT_TRUE(token.ok());
    ++out[static_cast<size_t>(*token)];
  }
  return out;
}

TEST(HostSampler, TemperatureZeroTakesTheFirstOfTheLargest) {
  EXPECT_EQ(counts({}, 3), (std::vector<int>{0, 3, 0, 0, 0}));
}

TEST(HostSampler, FrequenciesAreTheProbabilities) {
  constexpr int kDraws = 20000;
  const std::vector<int> got = counts({.temperature = 1.5, .seed = 9}, kDraws);
  double sum = 0;
  for (const float l : kLogits) sum += std::exp(static_cast<double>(l) / 1.5);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(static_cast<double>(kLogits[i]) / 1.5) / sum;
    const double deviation = std::sqrt(kDraws * p * (1 - p));
    EXPECT_NEAR(got[i], kDraws * p, 5 * deviation) << i;
  }
}

TEST(HostSampler, TopKAndTopPLeaveOutTheUnlikely) {
  const std::vector<int> two = counts({.temperature = 5, .top_k = 2}, 500);
  EXPECT_EQ(two[0] + two[3] + two[4], 0);
  EXPECT_GT(two[1], 150);
  EXPECT_GT(two[2], 150);
  // The first has 0.38 of the probability, the second as much.
  const std::vector<int> one = counts({.temperature = 1, .top_p = 0.3}, 200);
  EXPECT_EQ(one[1], 200);
  const std::vector<int> three = counts({.temperature = 1, .top_p = 0.8}, 2000);
  EXPECT_GT(three[4], 0);
  EXPECT_EQ(three[0] + three[3], 0);
}

TEST(HostSampler, SeedsRepeatChoices) {
  EXPECT_EQ(counts({.temperature = 1, .seed = 4}, 100), counts({.temperature = 1, .seed = 4}, 100));
  EXPECT_NE(counts({.temperature = 1, .seed = 4}, 100), counts({.temperature = 1, .seed = 5}, 100));
}

TEST(HostSampler, WrongNumbersAreErrors) {
  Sampler sampler({});
  EXPECT_FALSE(sampler.choose({}).ok());
  const std::array<float, 2> nan{0.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_NE(sampler.choose(nan).status().message().find("token 1 is NaN"), std::string::npos);
  EXPECT_EQ(check_sampling({.temperature = -1}).code(), Code::Usage);
  EXPECT_EQ(check_sampling({.top_k = -1}).code(), Code::Usage);
  EXPECT_EQ(check_sampling({.top_p = 0}).code(), Code::Usage);
  EXPECT_TRUE(check_sampling({}).ok());
}

}  // namespace
}  // namespace reprise::app
