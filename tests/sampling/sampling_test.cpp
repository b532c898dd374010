// The choice of tokens (SampleTokens), on the host and on every Vulkan device, against a statement
// of each rule in double precision: which tokens may be chosen exactly, and how often by
// chi-square.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/sampling/on_devices.h"

namespace reprise {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr const char* kNumbers = R"(graph sample
input logits: float32[rows,tokens]
input temperature: float32[rows]
input top_k: int32[rows]
input top_p: float32[rows]
input min_p: float32[rows]
input seed: int32[rows]
input step: int32[rows]
ids: int64[rows] = "reprise"::SampleTokens(logits, temperature, top_k, top_p, min_p, seed, step) @1
output ids
)";

/// The same for rows of this size.
std::string numbers_of(size_t tokens) {
  std::string text = kNumbers;
  constexpr std::string_view kSize = "tokens]";
  return text.replace(text.find(kSize), kSize.size(), std::to_string(tokens) + "]");
}

/// What a row is sampled with.
struct Rule {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1, min_p = 0;
  int32_t seed = 0, step = 0;
};

using Logits = std::vector<float>;
using Ids = std::vector<int64_t>;

std::shared_ptr<const package::Package> text_package(std::unique_ptr<graph::Graph> g,
                                                     const CompileOptions& options = {}) {
  auto p = compile(std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}
std::shared_ptr<const package::Package> text_package(const std::string& text,
                                                     const CompileOptions& options = {}) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? text_package(*std::move(g), options) : nullptr;
}

Result<std::vector<HostTensor>> run_named(Session& session,
                                          const std::map<std::string, HostTensor>& inputs) {
  std::vector<Binding> bindings;
  for (const auto& [name, value] : inputs) bindings.push_back({.name = name, .host = &value});
  return session.run(bindings);
}

Ids ids_of(const HostTensor& t) {
  const auto* from = t.data<int64_t>();
  return {from, from + t.count()};
}

template <typename T>
HostTensor column(const std::vector<Rule>& rules, T Rule::*member) {
  std::vector<T> values;
  values.reserve(rules.size());
  for (const Rule& r : rules) values.push_back(r.*member);
  const DType t = std::is_same_v<T, float> ? DType::F32 : DType::I32;
  return HostTensor::from(t, {std::ssize(rules)}, values);
}

HostTensor rows_of(const std::vector<Logits>& rows) {
  Logits all;
  for (const Logits& row : rows) all.insert(all.end(), row.begin(), row.end());
  return HostTensor::from(DType::F32, {std::ssize(rows), std::ssize(rows.front())}, all);
}

std::map<std::string, HostTensor> inputs_of(const std::vector<Logits>& rows,
                                            const std::vector<Rule>& rules) {
  return {{"logits", rows_of(rows)},
          {"temperature", column(rules, &Rule::temperature)},
          {"top_k", column(rules, &Rule::top_k)},
          {"top_p", column(rules, &Rule::top_p)},
          {"min_p", column(rules, &Rule::min_p)},
          {"seed", column(rules, &Rule::seed)},
          {"step", column(rules, &Rule::step)}};
}

Ids sampled(Session& session, const std::vector<Logits>& rows, const std::vector<Rule>& rules) {
  auto out = run_named(session, inputs_of(rows, rules));
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? ids_of(out->front()) : Ids();
}

/// The probabilities by the textbook: softmax at the temperature, then the filters one by one, over
/// a sorted list.
std::vector<double> probabilities(const Logits& logits, const Rule& rule) {
  const size_t n = logits.size();
  std::vector<double> p(n);
  const double largest = static_cast<double>(*std::ranges::max_element(logits));
  for (size_t i = 0; i < n; ++i)
    p[i] = std::exp((static_cast<double>(logits[i]) - largest) /
                    static_cast<double>(rule.temperature));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < n) {
    const float last = logits[order[static_cast<size_t>(rule.top_k) - 1]];
    for (size_t i = 0; i < n; ++i)
      if (logits[i] < last) p[i] = 0;
  }
  const double all = std::accumulate(p.begin(), p.end(), 0.0);
  if (rule.top_p < 1) {
    double before = 0;
    float kept = kInfinity;
    for (const size_t i : order) {
      if (before >= static_cast<double>(rule.top_p) * all && logits[i] != kept) p[i] = 0;
      if (p[i] > 0) kept = logits[i];
      if (p[i] == 0) continue;
      before += p[i];
    }
  }
  for (double& v : p)
    if (v < static_cast<double>(rule.min_p)) v = 0;  // the largest is 1
  const double rest = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= rest;
  return p;
}

Logits normal_logits(size_t n, uint32_t seed, float spread = 2) {
  std::mt19937 rng(seed);
  Logits out(n);
  for (float& v : out) {
    float sum = 0;  // of uniform numbers, which are the same in every library
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(rng()) * 0x1p-32F;
    v = spread * (sum - 6);
  }
  return out;
}

/// Samples many times from equal rows, and checks which tokens come and how often.
void expect_distribution(Session& session, const Logits& logits, Rule rule) {
  constexpr size_t kRows = 128;
  constexpr int kRuns = 4;
  const std::vector<double> p = probabilities(logits, rule);
  std::vector<double> counts(p.size());
  for (int r = 0; r < kRuns; ++r) {
    std::vector<Rule> rules(kRows, rule);
    for (size_t i = 0; i < kRows; ++i) {
      rules[i].seed = static_cast<int32_t>(7919 * i);
      rules[i].step = r;
    }
    for (const int64_t id : sampled(session, std::vector(kRows, logits), rules)) {
      ASSERT_GE(id, 0);
      ASSERT_GT(p[static_cast<size_t>(id)], 0) << "token " << id << " is not among those kept";
      counts[static_cast<size_t>(id)] += 1;
    }
  }
  // Tokens that are expected fewer than 8 times count together.
  constexpr double kDraws = double{kRows} * kRuns;
  double statistic = 0, rare = 0, rare_count = 0;
  int classes = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected < 8) {
      rare += expected;
      rare_count += counts[i];
      continue;
    }
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++classes;
  }
  if (rare > 8) {
    statistic += (rare_count - rare) * (rare_count - rare) / rare;
    ++classes;
  }
  // Five deviations above the mean of chi-square.
  const double freedom = std::max(1, classes - 1);
  EXPECT_LT(statistic, freedom + 5 * std::sqrt(2 * freedom)) << classes << " classes";
}

TEST(Sampling, FrequenciesAndSupport) {
  const Logits logits = normal_logits(90, 3);
  on_each_device(text_package(numbers_of(90)), [&](Session& session) {
    const std::vector<Rule> rules{{},
                                  {.temperature = 0.5F},
                                  {.temperature = 3},
                                  {.top_k = 5},
                                  {.temperature = 2, .top_k = 20, .top_p = 0.8F},
                                  {.top_p = 0.6F},
                                  {.temperature = 1.5F, .min_p = 0.1F},
                                  {.top_k = 30, .top_p = 0.95F, .min_p = 0.02F}};
    for (size_t i = 0; i < rules.size(); ++i) {
      SCOPED_TRACE(i);
      expect_distribution(session, logits, rules[i]);
    }
  });
}

/// All devices choose what the host does, at sizes around those of vectors and workgroups.
TEST(Sampling, DevicesAgreeWithTheHost) {
  std::map<size_t, Ids> expected;
  on_each_device(text_package(kNumbers), [&](Session& session) {
    std::mt19937 rng(5);
    for (const size_t size : {1, 2, 3, 31, 64, 255, 256, 257, 1000, 1021, 4099, 50257}) {
      std::vector<Logits> rows;
      std::vector<Rule> rules;
      for (uint32_t r = 0; r < 6; ++r) {
        rows.push_back(normal_logits(size, r + 1, 1.5F * static_cast<float>(r)));
        const auto part = [&] { return static_cast<float>(rng() % 1000) * 0.001F; };
        rules.push_back({.temperature = 0.1F + 2 * part(),
                         .top_k = static_cast<int32_t>(rng() % 100),
                         .top_p = 0.2F + part(),
                         .min_p = r % 2 == 0 ? 0 : 0.1F * part(),
                         .seed = static_cast<int32_t>(rng()),
                         .step = static_cast<int32_t>(rng() % 100)});
      }
      const Ids ids = sampled(session, rows, rules);
      const auto [at, first] = expected.emplace(size, ids);
      EXPECT_EQ(ids, at->second) << size;
    }
  });
}

TEST(Sampling, LargeVocabulary) {
  constexpr size_t kLarge = 262144;
  const Logits logits = normal_logits(kLarge, 9);
  Ids expected;
  on_each_device(text_package(numbers_of(kLarge)), [&](Session& session) {
    const std::vector<Rule> rules{{.temperature = 0}, {.top_k = 50, .top_p = 0.9F, .seed = 1}};
    const Ids ids = sampled(session, {logits, logits}, rules);
    ASSERT_EQ(ids.size(), 2U);
    EXPECT_EQ(ids[0], std::ranges::max_element(logits) - logits.begin());
    EXPECT_GT(probabilities(logits, rules[1])[static_cast<size_t>(ids[1])], 0);
    if (expected.empty()) expected = ids;
    EXPECT_EQ(ids, expected);
  });
}

/// The result of a row depends on nothing but the row.
TEST(Sampling, RowsAreIndependent) {
  const Logits logits = normal_logits(300, 4);
  on_each_device(text_package(numbers_of(300)), [&](Session& session) {
    const Rule rule{.top_p = 0.9F, .seed = 42, .step = 3};
    const Ids alone = sampled(session, {logits}, {rule});
    ASSERT_EQ(alone.size(), 1U);
    EXPECT_EQ(sampled(session, {logits}, {rule}), alone) << "again";
    std::vector<Logits> rows;
    std::vector<Rule> rules;
    for (uint32_t i = 0; i < 5; ++i) {
      rows.push_back(i == 3 ? logits : normal_logits(300, 50 + i));
      rules.push_back(i == 3 ? rule : Rule{.top_k = static_cast<int32_t>(i)});
    }
    EXPECT_EQ(sampled(session, rows, rules)[3], alone[0]);
  });
}

struct Edge {
  const char* name;
  Logits logits;
  Rule rule;
  std::set<int64_t> allowed;
};

std::vector<Edge> edges() {
  const Logits plain{1, 3, 2, 0};
  const Logits infinite{-kInfinity, 1, -kInfinity, 1};
  return {
      {"greedy", plain, {.temperature = 0}, {1}},
      {"greedy takes the first of equal ones", {2, 5, 5, 5}, {.temperature = 0}, {1}},
      {"zeros of both signs are equal", {-0.0F, 0.0F, -1, -1}, {.temperature = 0}, {0}},
      {"a negative temperature", plain, {.temperature = -1}, {1}},
      {"a temperature that is NaN", plain, {.temperature = kNan}, {1}},
      {"a tiny temperature", plain, {.temperature = 1e-30F}, {1}},
      {"a subnormal temperature", plain, {.temperature = 1e-40F}, {1}},
      {"an infinite temperature", plain, {.temperature = kInfinity}, {0, 1, 2, 3}},
      {"an infinite temperature keeps what is masked",
       infinite,
       {.temperature = kInfinity},
       {1, 3}},
      {"a huge temperature", plain, {.temperature = 1e38F, .top_k = 2}, {1, 2}},
      {"top_k of 1", plain, {.top_k = 1}, {1}},
      {"top_k beyond the row", plain, {.temperature = 50, .top_k = 9}, {0, 1, 2, 3}},
      {"a negative top_k", plain, {.temperature = 50, .top_k = -3}, {0, 1, 2, 3}},
      {"top_k keeps equal scores", {1, 2, 2, 2}, {.top_k = 2}, {1, 2, 3}},
      {"top_p of 0", plain, {.temperature = 50, .top_p = 0}, {1}},
      {"a negative top_p", plain, {.temperature = 50, .top_p = -1}, {1}},
      {"top_p that is NaN", plain, {.temperature = 50, .top_p = kNan}, {0, 1, 2, 3}},
      {"top_p above 1", plain, {.temperature = 50, .top_p = 2}, {0, 1, 2, 3}},
      {"top_p of half", {0, 0, 0, 0}, {.top_p = 0.5F}, {0, 1, 2, 3}},
      {"min_p of 1", plain, {.temperature = 50, .min_p = 1}, {1}},
      {"min_p above 1", plain, {.temperature = 50, .min_p = 7}, {1}},
      {"min_p that is NaN", plain, {.temperature = 50, .min_p = kNan}, {0, 1, 2, 3}},
      {"what is -infinity is never chosen", infinite, {.temperature = 50}, {1, 3}},
      {"NaN is never chosen", {kNan, 1, kNan, 1}, {.temperature = 50}, {1, 3}},
      {"NaN is not the largest", {kNan, 1, kNan, 2}, {.temperature = 0}, {3}},
      {"infinity is the largest", {1, kInfinity, 3, kInfinity}, {.temperature = 9}, {1, 3}},
      {"nothing is left", {-kInfinity, kNan, -kInfinity, -kInfinity}, {}, {-1}},
      {"nothing is left for the likeliest", {kNan, kNan, kNan, kNan}, {.temperature = 0}, {-1}},
      {"distances that overflow", {-3e38F, 3e38F, -3e38F, 3e38F}, {.temperature = 2}, {1, 3}},
  };
}

TEST(Sampling, Edges) {
  on_each_device(text_package(numbers_of(4)), [&](Session& session) {
    for (const Edge& edge : edges()) {
      std::set<int64_t> seen;
      std::vector<Rule> rules(64, edge.rule);
      for (size_t i = 0; i < rules.size(); ++i) rules[i].seed = static_cast<int32_t>(i);
      for (const int64_t id : sampled(session, std::vector(rules.size(), edge.logits), rules))
        seen.insert(id);
      EXPECT_EQ(seen, edge.allowed) << edge.name;
    }
  });
}

TEST(Sampling, OneToken) {
  on_each_device(text_package(numbers_of(1)), [&](Session& session) {
    EXPECT_EQ(sampled(session, {{-3}, {7}}, {{}, {.temperature = 0}}), (Ids{0, 0}));
  });
}

TEST(Sampling, NoRows) {
  on_each_device(text_package(numbers_of(2)), [&](Session& session) {
    std::map<std::string, HostTensor> inputs = inputs_of({{1, 2}}, {{}});
    for (auto& [name, value] : inputs) {
      std::vector<int64_t> dims = value.dims();
      dims[0] = 0;
      value = HostTensor(value.dtype(), dims);
    }
    auto out = run_named(session, inputs);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ(out->front().count(), 0);
  });
}

/// The seed of all rows gives each row other numbers.
TEST(Sampling, OneSeedForAllRows) {
  const auto package = text_package(R"(graph shared
input logits: float32[rows,100]
input seed: int32[]
ids: int64[rows] = "reprise"::SampleTokens(logits, _, _, _, _, seed) @1
output ids
)");
  on_each_device(package, [&](Session& session) {
    const HostTensor logits(DType::F32, {16, 100});
    const std::vector<int32_t> seed{5};
    auto out =
        run_named(session, {{"logits", logits}, {"seed", HostTensor::from(DType::I32, {}, seed)}});
    ASSERT_TRUE(out.ok()) << out.status().message();
    const Ids ids = ids_of(out->front());
    EXPECT_GT(std::set<int64_t>(ids.begin(), ids.end()).size(), 8U);
  });
}

constexpr const char* kScores = R"(graph scores
input logits: float32[2,40]
input repetition: float32[1]
input presence: float32[1]
input frequency: float32[1]
input recent: int32[2,4]
input bias: float32[1,40]
input allowed: int32[2,2]
const zero: float32[]{0}
ids: int64[2] = "reprise"::SampleTokens(logits, zero, _, _, _, _, _, repetition, presence, frequency, recent, bias, allowed) @1
output ids
)";

struct Penalties {
  float repetition = 1, presence = 0, frequency = 0;
};

/// The likeliest token of each row by the definition of the penalties.
Ids likeliest(const std::vector<Logits>& rows, const Penalties& p,
              const std::vector<std::vector<int32_t>>& recent, const Logits& bias,
              const std::vector<std::vector<uint32_t>>& allowed) {
  Ids out;
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t best = -1;
    float largest = -kInfinity;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      float z = rows[r][i] + bias[i];
      const auto count = std::ranges::count(recent[r], static_cast<int32_t>(i));
      if (count > 0) z = z < 0 ? z * p.repetition : z / p.repetition;
      z -= static_cast<float>(count) * p.frequency;
      if (count > 0) z -= p.presence;
      if ((allowed[r][i / 32] >> (i % 32) & 1U) == 0) continue;
      if (z > largest) {
        largest = z;
        best = static_cast<int64_t>(i);
      }
    }
    out.push_back(best);
  }
  return out;
}

TEST(Sampling, PenaltiesBiasAndMask) {
  const auto package = text_package(kScores);
  on_each_device(package, [&](Session& session) {
    std::mt19937 engine(8);
    const auto rng = [&] { return static_cast<uint32_t>(engine()); };
    for (int round = 0; round < 40; ++round) {
      std::vector<Logits> rows{normal_logits(40, rng()), normal_logits(40, rng())};
      for (Logits& row : rows)  // quarters, so that all scores are exact
        for (float& v : row) v = std::round(4 * v) / 4;
      Logits bias(40);
      for (float& v : bias) v = static_cast<float>(rng() % 9) / 4 - 1;
      const Penalties p{std::array{1.0F, 2.0F, 0.5F}[rng() % 3], static_cast<float>(rng() % 4) / 2,
                        static_cast<float>(rng() % 4) / 4};
      std::vector<std::vector<int32_t>> recent(2);
      std::vector<std::vector<uint32_t>> allowed(2);
      std::vector<int32_t> all_recent, words;
      for (size_t r = 0; r < 2; ++r) {
        const Ids first = likeliest(rows, {}, {{}, {}}, bias, {{~0U, ~0U}, {~0U, ~0U}});
        recent[r] = {static_cast<int32_t>(first[r]), static_cast<int32_t>(first[r]), -1,
                     static_cast<int32_t>(rng() % 50)};
        allowed[r] = {round == 0 ? 0 : rng() | rng(), round == 0 ? 0xffffff00 : rng()};
        all_recent.insert(all_recent.end(), recent[r].begin(), recent[r].end());
        for (const uint32_t word : allowed[r]) words.push_back(static_cast<int32_t>(word));
      }
      const auto one = [](float v) { return HostTensor::from(DType::F32, {1}, std::vector{v}); };
      auto out = run_named(session, {{"logits", rows_of(rows)},
                                     {"repetition", one(p.repetition)},
                                     {"presence", one(p.presence)},
                                     {"frequency", one(p.frequency)},
                                     {"recent", HostTensor::from(DType::I32, {2, 4}, all_recent)},
                                     {"bias", HostTensor::from(DType::F32, {1, 40}, bias)},
                                     {"allowed", HostTensor::from(DType::I32, {2, 2}, words)}});
      ASSERT_TRUE(out.ok()) << out.status().message();
      EXPECT_EQ(ids_of(out->front()), likeliest(rows, p, recent, bias, allowed)) << round;
    }
  });
}

}  // namespace
}  // namespace reprise
