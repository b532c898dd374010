// The choice of layouts is a pure function of prices: a table, and all small cases by trial.
#include "codegen/passes/layout_choice.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace reprise::passes {
namespace {

struct Case {
  const char* what;
  std::vector<LayoutRegion> regions;
  std::vector<LayoutBorder> borders;
  std::string last;  // '1' for a region with channels last
};

std::string text(const std::vector<bool>& last) {
  std::string out;
  for (const bool l : last) out += l ? '1' : '0';
  return out;
}

double price(const std::vector<LayoutRegion>& regions, const std::vector<LayoutBorder>& borders,
             const std::vector<bool>& last) {
  double sum = 0;
  for (size_t i = 0; i < regions.size(); ++i) sum += last[i] ? regions[i].last : regions[i].first;
  for (const LayoutBorder& b : borders) sum += last[b.a] != last[b.b] ? b.price : 0;
  return sum;
}

TEST(LayoutChoice, Table) {
  const Case cases[] = {
      {"nothing", {}, {}, ""},
      {"no conversions", {{0, 0}, {0, 0}}, {{0, 1, 10}}, "00"},
      {"its own conversion vanishes", {{100, 0}}, {}, "1"},
      {"one vanishes, a dearer one appears", {{100, 101}}, {}, "0"},
      {"as dear either way", {{100, 100}}, {}, "0"},
      {"a conversion at the end, a cheap one before it", {{0, 5}, {100, 0}}, {{0, 1, 10}}, "11"},
      {"a conversion at the end, a dear one before it", {{0, 50}, {100, 0}}, {{0, 1, 10}}, "01"},
      {"a chain, cheapest in the middle",
       {{0, 90}, {0, 0}, {0, 0}, {100, 0}},
       {{0, 1, 30}, {1, 2, 10}, {2, 3, 30}},
       "0011"},
      {"too dear anywhere", {{0, 90}, {20, 0}}, {{0, 1, 30}}, "00"},
      {"a region that two others need", {{0, 15}, {10, 0}, {10, 0}}, {{0, 1, 9}, {0, 2, 9}}, "111"},
      {"a border within a region", {{5, 0}}, {{0, 0, 7}}, "1"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(text(choose_layouts(c.regions, c.borders)), c.last) << c.what;
}

TEST(LayoutChoice, IsTheCheapestAndSmallest) {
  std::mt19937 rng(3);
  std::uniform_int_distribution<int> number(0, 6);
  for (int round = 0; round < 300; ++round) {
    constexpr size_t kRegions = 6;
    std::vector<LayoutRegion> regions;
    std::vector<LayoutBorder> borders;
    for (size_t i = 0; i < kRegions; ++i)
      regions.push_back({static_cast<double>(number(rng)), static_cast<double>(number(rng))});
    for (int i = 0; i < 8; ++i) {
      borders.push_back({static_cast<size_t>(number(rng)) % kRegions,
                         static_cast<size_t>(number(rng)) % kRegions,
                         static_cast<double>(number(rng))});
    }
    double best = std::numeric_limits<double>::infinity();
    int fewest = 0;
    for (unsigned bits = 0; bits < 1U << kRegions; ++bits) {
      std::vector<bool> last;
      for (size_t i = 0; i < kRegions; ++i) last.push_back((bits >> i & 1U) != 0);
      const double sum = price(regions, borders, last);
      const auto count = static_cast<int>(std::count(last.begin(), last.end(), true));
      if (sum < best || (sum == best && count < fewest)) fewest = count;
      best = std::min(best, sum);
    }
    const std::vector<bool> chosen = choose_layouts(regions, borders);
    EXPECT_EQ(price(regions, borders, chosen), best) << round;
    EXPECT_EQ(std::count(chosen.begin(), chosen.end(), true), fewest) << round;
  }
}

TEST(LayoutChoice, Prices) {
  const struct {
    Reader reader;
    double bytes;
  } rows[] = {{Reader::Contraction, 64}, {Reader::Kernel, 1024}, {Reader::Output, 2048}};
  for (const auto& r : rows) EXPECT_EQ(conversion_price(1024, r.reader), r.bytes);
  // A depthwise convolution is worth more than the conversions before and after it, unless short.
  const double around =
      conversion_price(1024, Reader::Contraction) + conversion_price(1024, Reader::Output);
  EXPECT_GT(depthwise_price(1024, 9), around);
  EXPECT_LT(depthwise_price(1024, 3), around);
}

}  // namespace
}  // namespace reprise::passes
