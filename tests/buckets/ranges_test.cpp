#include "apps/buckets/ranges.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>

namespace reprise::app {
namespace {

Trace random_trace(std::mt19937& random, int sizes, int64_t largest) {
  std::map<int64_t, int64_t> runs;
  for (int i = 0; i < sizes; ++i) {
    runs[1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest))] +=
        1 + static_cast<int64_t>(random() % 50);
  }
  Trace out;
  for (const auto& [size, count] : runs) out.push_back({size, count});
  return out;
}

CostCurve random_curve(std::mt19937& random, int64_t largest) {
  std::vector<SizeCost> points;
  double ms = 1, bytes = 100;
  for (int64_t size = 1; size <= largest; size += 1 + static_cast<int64_t>(random() % 5)) {
    points.push_back({size, ms, bytes});
    ms += static_cast<double>(random() % 100) / 10;
    bytes += static_cast<double>(random() % 1000);
  }
  return CostCurve(points);
}

/// The least expected time of all ways to choose at most `count` sizes, within `bytes`.
double best_of_all(const Trace& trace, int64_t count, double bytes, const CostCurve& costs) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> ends;
  const std::function<void(size_t)> extend = [&](size_t from) {
    if (!ends.empty() && ends.back() == trace.back().size) {
      const Ranges r = price(trace, ends, costs);
      if (r.bytes <= bytes) best = std::min(best, r.expected_ms);
      return;
    }
    if (static_cast<int64_t>(ends.size()) == count) return;
    for (size_t i = from; i < trace.size(); ++i) {
      ends.push_back(trace[i].size);
      extend(i + 1);
      ends.pop_back();
    }
  };
  extend(0);
  return best;
}

constexpr double kAnyBytes = std::numeric_limits<double>::infinity();

TEST(Ranges, AreTheBestOfAllChoices) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const Trace trace = random_trace(random, 1 + static_cast<int>(random() % 12), 40);
    const CostCurve costs = random_curve(random, 40);
    const auto count = static_cast<int64_t>(1 + random() % 5);
    const Result<Ranges> chosen = choose_ranges(trace, count, std::nullopt, costs);
    ASSERT_TRUE(chosen.ok()) << chosen.status().message();
    EXPECT_LE(chosen->ranges.size(), static_cast<size_t>(count));
    EXPECT_NEAR(chosen->expected_ms, best_of_all(trace, count, kAnyBytes, costs), 1e-9);
  }
}

TEST(Ranges, CoverEverySizeOnce) {
  std::mt19937 random(8);
  for (int i = 0; i < 50; ++i) {
    const Trace trace = random_trace(random, 300, 5000);
    const Result<Ranges> chosen =
        choose_ranges(trace, 1 + i, std::nullopt, random_curve(random, 5000));
    ASSERT_TRUE(chosen.ok());
    int64_t next = 1, runs = 0;
    for (const SizeRange& r : chosen->ranges) {
      EXPECT_EQ(r.first, next);
      EXPECT_GE(r.last, r.first);
      next = r.last + 1;
      runs += r.runs;
    }
    EXPECT_EQ(next, trace.back().size + 1);
    int64_t all = 0;
    for (const SizeCount& s : trace) all += s.runs;
    EXPECT_EQ(runs, all);
  }
}

TEST(Ranges, RespectTheMemory) {
  std::mt19937 random(9);
  int tighter = 0;
  for (int i = 0; i < 200; ++i) {
    const Trace trace = random_trace(random, 10, 40);
    const CostCurve costs = random_curve(random, 40);
    const double one = costs.bytes(trace.back().size);
    const double limit = one * (1 + static_cast<double>(random() % 100) / 50);
    const Result<Ranges> chosen = choose_ranges(trace, 5, limit, costs);
    ASSERT_TRUE(chosen.ok()) << chosen.status().message();
    EXPECT_LE(chosen->bytes, limit);
    // A price for memory finds the best choices on the convex hull of time and memory, so others
    // may be a little better. One range always is a choice.
    EXPECT_LE(chosen->expected_ms, costs.ms(trace.back().size) + 1e-9);
    EXPECT_GE(chosen->expected_ms, best_of_all(trace, 5, limit, costs) - 1e-9);
    const Result<Ranges> free = choose_ranges(trace, 5, std::nullopt, costs);
    tighter += free->bytes > limit;
  }
  EXPECT_GT(tighter, 50);
}

TEST(Ranges, RefuseTooLittleMemory) {
  const Result<Ranges> r =
      choose_ranges({{8, 1}, {100, 2}}, 2, 10.0, CostCurve({{1, 1, 5}, {100, 2, 50}}));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::InvalidInput);
  EXPECT_NE(r.status().message().find("sizes up to 100 needs 50 bytes"), std::string::npos)
      << r.status().message();
}

TEST(Ranges, AreNeverWorseThanAFixedListOfTheirNumber) {
  std::mt19937 random(10);
  for (int i = 0; i < 50; ++i) {
    const Trace trace = random_trace(random, 200, 600);
    const CostCurve costs = random_curve(random, 600);
    for (const FixedList& list : fixed_lists(trace.back().size)) {
      const Ranges theirs = price(trace, list.sizes, costs);
      const Result<Ranges> ours =
          choose_ranges(trace, static_cast<int64_t>(list.sizes.size()), std::nullopt, costs);
      ASSERT_TRUE(ours.ok());
      EXPECT_LE(ours->expected_ms, theirs.expected_ms + 1e-9) << list.name;
      EXPECT_LE(ours->waste, theirs.waste + 1e-9) << list.name;
    }
  }
}

TEST(Ranges, FixedListsEndWhereTheyCoverTheTrace) {
  for (const FixedList& list : fixed_lists(100)) {
    EXPECT_GE(list.sizes.back(), 100) << list.name;
    EXPECT_LT(list.sizes[list.sizes.size() - 2], 100) << list.name;
  }
  for (const FixedList& list : fixed_lists(3000)) EXPECT_GE(list.sizes.back(), 3000) << list.name;
  for (const FixedList& list : fixed_lists(1)) EXPECT_EQ(list.sizes, std::vector<int64_t>{1});
}

TEST(CostCurve, IsLinearBetweenMeasuredSizesAndNeverFalls) {
  const CostCurve c({{10, 2, 100}, {20, 4, 100}, {40, 3, 200}});
  EXPECT_DOUBLE_EQ(c.ms(1), 2);
  EXPECT_DOUBLE_EQ(c.ms(15), 3);
  EXPECT_DOUBLE_EQ(c.ms(30), 4);
  EXPECT_DOUBLE_EQ(c.bytes(30), 150);
  EXPECT_DOUBLE_EQ(c.bytes(60), 300);
  EXPECT_DOUBLE_EQ(CostCurve({{5, 1, 1}}).ms(500), 1);
}

TEST(Ranges, AHundredThousandSizesTakeSeconds) {
  Trace trace;
  for (int64_t size = 1; size <= 100'000; ++size) trace.push_back({size, 1 + size % 7});
  const Result<Ranges> r =
      choose_ranges(trace, 50, std::nullopt, CostCurve({{1, 1, 1}, {100'000, 1000, 1000}}));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->ranges.size(), 50);
}

}  // namespace
}  // namespace reprise::app
