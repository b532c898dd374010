// Random plans against an independent quadratic checker: dependencies are sufficient, and none of
// them is useless.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "runtime/plan/plan.h"
#include "tests/support/buffer_ids.h"

namespace reprise::plan {
namespace {

struct Access {
  std::set<int> reads, writes;
};

/// A plan whose step i is named "i", with what each step touches kept beside it. Symbols that a
/// host call gives are touched as -1 - id.
struct RandomPlan {
  Plan plan;
  std::vector<Access> accesses;

  explicit RandomPlan(uint64_t seed) : rng_(seed) {
    const int buffers = pick(1, 10);
    for (int b = 0; b < buffers; ++b)
      plan.buffers.push_back({std::to_string(b), BufferKind::Arena, -1, DType::F32, {}});
    const int steps = pick(0, 14);
    for (int s = 0; s < steps; ++s) {
      if (pick(0, 5) == 0) {
        add_host_call(s);
      } else {
        add_launch(s);
      }
    }
  }

 private:
  int pick(int lo, int hi) {
    return lo + static_cast<int>(rng_() % static_cast<uint64_t>(hi - lo + 1));
  }
  int any_buffer() { return pick(0, static_cast<int>(plan.buffers.size()) - 1); }

  void use_symbols(const Shape& shape, Access& access) const {
    std::vector<SymbolId> ids;
    for (const Expr& e : shape) e.collect_symbols(ids);
    for (const SymbolId id : ids) access.reads.insert(-1 - id);
  }

  void touch(int b, bool write, Access& access) const {
    (write ? access.writes : access.reads).insert(b);
    use_symbols(plan.buffers[BufferId(b)].shape, access);
  }

  void add_launch(int s) {
    Launch l;
    Access access;
    l.group = std::to_string(s);
    const int n = pick(1, 4);
    for (int i = 0; i < n; ++i) {
      const int b = any_buffer();
      const bool write = i == 0 || pick(0, 3) == 0;
      l.buffers.emplace_back(b);
      l.writes.push_back(write);
      touch(b, write, access);
    }
    if (symbols_ > 0 && pick(0, 2) == 0) {
      const int id = pick(0, symbols_ - 1);
      l.grid[0] = Expr::floordiv(Expr::symbol(id) + 63, 64);
      access.reads.insert(-1 - id);
    }
    plan.steps.push_back({l, {}, 0});
    accesses.push_back(std::move(access));
  }

  /// Writes a new buffer with a data-dependent dim, or an old one.
  void add_host_call(int s) {
    HostCall c;
    Access access;
    c.node = std::to_string(s);
    const int in = any_buffer();
    c.inputs = test::buffers(in, -1);
    touch(in, false, access);
    if (pick(0, 1) == 0) {
      const int id = symbols_++;
      plan.buffers.push_back({"grown", BufferKind::Growable, -1, DType::F32, {Expr::symbol(id)}});
      const int b = static_cast<int>(plan.buffers.size()) - 1;
      c.outputs = test::buffers(b);
      access.writes.insert(b);
      access.writes.insert(-1 - id);
    } else {
      const int b = any_buffer();
      c.outputs = test::buffers(b);
      touch(b, true, access);
    }
    plan.steps.push_back({c, {}, 0});
    accesses.push_back(std::move(access));
  }

  std::mt19937_64 rng_;
  int symbols_ = 0;
};

bool conflict(const Access& a, const Access& b) {
  const auto meets = [](const std::set<int>& x, const std::set<int>& y) {
    return std::any_of(x.begin(), x.end(), [&y](int v) { return y.count(v) != 0; });
  };
  return meets(a.writes, b.writes) || meets(a.writes, b.reads) || meets(a.reads, b.writes);
}

size_t original(const Step& step) {
  const auto* launch = std::get_if<Launch>(&step.what);
  return std::stoul(launch ? launch->group : std::get<HostCall>(step.what).node);
}

using Matrix = std::vector<std::vector<bool>>;

/// reach[a][b]: b waits for a, directly or not. One edge can be left out.
Matrix reachability(const Plan& p, size_t skip_step, size_t skip_edge) {
  const size_t n = p.steps.size();
  Matrix reach(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    for (size_t e = 0; e < p.steps[b].after.size(); ++e) {
      if (b != skip_step || e != skip_edge) reach[p.steps[b].after[e]][b] = true;
    }
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) {
        if (reach[a][k] && reach[k][b]) reach[a][b] = true;
      }
    }
  }
  return reach;
}

/// Pairs (a, b) of positions that must keep their original order.
std::vector<std::pair<size_t, size_t>> hazards_of(const RandomPlan& r) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t a = 0; a < r.plan.steps.size(); ++a) {
    for (size_t b = 0; b < r.plan.steps.size(); ++b) {
      const size_t x = original(r.plan.steps[a]);
      const size_t y = original(r.plan.steps[b]);
      if (x < y && conflict(r.accesses[x], r.accesses[y])) pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

bool covered(const Matrix& reach, const std::vector<std::pair<size_t, size_t>>& hazards) {
  return std::all_of(hazards.begin(), hazards.end(),
                     [&](const auto& h) { return reach[h.first][h.second]; });
}

TEST(Hazards, RandomPlansAreCoveredAndNoEdgeIsUseless) {
  size_t edges = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    RandomPlan r(seed);
    compute_hazards(r.plan);
    ASSERT_EQ(r.plan.steps.size(), r.accesses.size());
    const auto hazards = hazards_of(r);
    ASSERT_TRUE(covered(reachability(r.plan, SIZE_MAX, SIZE_MAX), hazards)) << seed;
    for (size_t s = 0; s < r.plan.steps.size(); ++s) {
      for (size_t e = 0; e < r.plan.steps[s].after.size(); ++e) {
        ++edges;
        ASSERT_FALSE(covered(reachability(r.plan, s, e), hazards))
            << seed << ": edge to step " << s;
      }
    }
  }
  EXPECT_GT(edges, 20000u);
}

TEST(Hazards, LevelsAreLongestPathsAndTheirBarriersAreNeeded) {
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    RandomPlan r(seed);
    compute_hazards(r.plan);
    const auto hazards = hazards_of(r);
    // A barrier between levels L - 1 and L: without it some hazard from one to the other is open.
    std::set<uint32_t> crossed;
    std::vector<uint32_t> longest(r.plan.steps.size(), 0);
    for (const auto& [a, b] : hazards) {  // positions are in topological order
      ASSERT_LT(a, b) << seed;
      ASSERT_LT(r.plan.steps[a].level, r.plan.steps[b].level) << seed;
      if (r.plan.steps[a].level + 1 == r.plan.steps[b].level) {
        crossed.insert(r.plan.steps[b].level);
      }
    }
    for (size_t b = 0; b < r.plan.steps.size(); ++b) {
      for (const auto& [x, y] : hazards) {
        if (y == b) longest[b] = std::max(longest[b], longest[x] + 1);
      }
      ASSERT_EQ(r.plan.steps[b].level, longest[b]) << seed;
      if (b == 0) continue;
      ASSERT_LE(r.plan.steps[b - 1].level, r.plan.steps[b].level) << seed;
      if (r.plan.steps[b - 1].level == r.plan.steps[b].level) {
        ASSERT_LT(original(r.plan.steps[b - 1]), original(r.plan.steps[b])) << "not stable";
      }
    }
    const uint32_t last = r.plan.steps.empty() ? 0 : r.plan.steps.back().level;
    ASSERT_EQ(crossed.size(), last) << seed;
  }
}

TEST(Hazards, ManyStepsAreFast) {
  Plan p;
  for (int b = 0; b < 2001; ++b)
    p.buffers.push_back({std::to_string(b), BufferKind::Arena, -1, DType::F32, {}});
  for (int s = 0; s < 2000; ++s) {
    Launch l;
    l.buffers = test::buffers(s / 2, s, s + 1);
    l.writes = {false, false, true};
    p.steps.push_back({l, {}, 0});
  }
  compute_hazards(p);
  EXPECT_EQ(p.steps.back().level, 1999u);
  for (const Step& s : p.steps) EXPECT_LE(s.after.size(), 1u);
}

}  // namespace
}  // namespace reprise::plan
