// Random plans against an independent quadratic checker: the edges between the commands of a
// recording cover every hazard, of tensors and of the memory that tensors share, and none of them
// is useless.
#include "runtime/plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>
#include <set>

#include "tests/support/buffer_ids.h"

namespace reprise::plan {
namespace {

using Reuse = ArenaReuse::Kind;

/// A plan that writes before it reads: some levels of launches, wide or narrow, and host calls.
class RandomOrder {
 public:
  explicit RandomOrder(uint64_t seed) : rng_(seed) {
    for (int i = pick(1, 3); i > 0; --i) add_buffer(BufferKind::Input, inputs_++);
    for (int o = pick(1, 2); o > 0; --o) outputs_.push_back(add_buffer(BufferKind::Output, o));
    const bool wide = pick(0, 2) == 0;
    const int steps = pick(1, wide ? 18 : 14);
    const size_t width = wide ? static_cast<size_t>(pick(2, 5)) : 64;
    for (int s = 0; s < steps; ++s) add_step(width);
    renumber();
    compute_hazards(plan);
    plan.kernels.resize(2);
    plan.kernels[1].early = true;
    for (Step& step : plan.steps)
      if (auto* l = std::get_if<Launch>(&step.what))
        l->kernel = static_cast<uint32_t>(pick(0, 3) / 3 == 0);
    for (size_t b = 0; b < plan.buffers.size(); ++b)
      bytes.push_back(static_cast<uint64_t>(pick(0, 6)) * 100);
  }
  int pick(int lo, int hi) {
    return lo + static_cast<int>(rng_() % static_cast<uint64_t>(hi - lo + 1));
  }
  uint32_t inputs() const { return static_cast<uint32_t>(inputs_); }

  Plan plan;
  IdVector<BufferId, uint64_t> bytes;

 private:
  BufferId add_buffer(BufferKind kind, int index) {
    const BufferId id =
        plan.buffers.push_back({std::to_string(plan.buffers.size()), kind, index, DType::F32, {}});
    if (kind == BufferKind::Input) readable_.push_back(id);
    return id;
  }
  /// One of the last `width` that can be read: few of them make levels of many launches.
  BufferId any(size_t width) {
    const size_t n = readable_.size();
    const size_t from = n > width ? n - width : 0;
    return readable_[from + rng_() % (n - from)];
  }
  void renumber() {
    IdVector<BufferId, BufferId> map(plan.buffers.size());
    std::vector<BufferId> arenas;
    for (const BufferId b : map.ids()) {
      map[b] = b;
      if (plan.buffers[b].kind == BufferKind::Arena) arenas.push_back(b);
    }
    auto mixed = arenas;
    std::shuffle(mixed.begin(), mixed.end(), rng_);
    for (size_t i = 0; i < arenas.size(); ++i) map[arenas[i]] = mixed[i];
    for (Step& step : plan.steps) {
      if (auto* l = std::get_if<Launch>(&step.what)) {
        for (auto& b : l->buffers) b = map[b];
      } else {
        auto& call = std::get<HostCall>(step.what);
        for (auto& b : call.inputs) b = map[b];
        for (auto& b : call.outputs) b = map[b];
      }
    }
  }
  void add_step(size_t width) {
    std::set<BufferId> reads;
    for (int i = pick(1, 2); i > 0; --i) reads.insert(any(width));
    BufferId to = add_buffer(BufferKind::Arena, -1);
    const int what = pick(0, 9);
    if (what == 0) to = outputs_[rng_() % outputs_.size()];
    const BufferId old = any(width);
    if (what == 1 && plan.buffers[old].kind == BufferKind::Arena) to = old;
    if (what == 2) {
      HostCall call;
      call.inputs.assign(reads.begin(), reads.end());
      call.outputs = {to};
      plan.steps.push_back({call, {}, 0});
    } else {
      Launch l;
      for (const BufferId b : reads) {
        if (b == to) continue;
        l.buffers.push_back(b);
        l.writes.push_back(false);
      }
      l.buffers.push_back(to);
      l.writes.push_back(true);
      plan.steps.push_back({l, {}, 0});
    }
    readable_.push_back(to);
  }

  std::mt19937_64 rng_;
  int inputs_ = 0;
  std::vector<BufferId> outputs_, readable_;
};

struct Touch {
  std::set<BufferId> reads, writes;
};

struct Case {
  const Plan& plan;
  const ArenaPlacement& placement;
  const IdVector<BufferId, uint64_t>& bytes;
  Reuse reuse;
  IdVector<BufferId, uint32_t> first, last;  // levels that use each buffer

  Case(const RandomOrder& r, const ArenaPlacement& p, Reuse kind)
      : plan(r.plan), placement(p), bytes(r.bytes), reuse(kind) {
    first.assign(plan.buffers.size(), 1000);
    last.assign(plan.buffers.size(), 0);
    for (const Step& step : plan.steps) {
      const Touch t = touched(step);
      for (const auto& set : {t.reads, t.writes}) {
        for (const BufferId b : set) {
          first[b] = std::min(first[b], step.level);
          last[b] = std::max(last[b], step.level);
        }
      }
    }
  }

  static Touch touched(const Step& step) {
    Touch t;
    if (const auto* l = std::get_if<Launch>(&step.what)) {
      for (size_t i = 0; i < l->buffers.size(); ++i)
        (l->writes[i] ? t.writes : t.reads).insert(l->buffers[i]);
      return t;
    }
    const auto& call = std::get<HostCall>(step.what);
    for (const BufferId b : call.inputs) t.reads.insert(b);
    for (const BufferId b : call.outputs) t.writes.insert(b);
    return t;
  }
  Touch touched(const OrderNode& node) const {
    Touch t;
    if (node.kind == OrderNode::Kind::Launch) return touched(plan.steps[node.index]);
    const bool in = node.kind == OrderNode::Kind::CopyIn;
    for (const BufferId b : plan.buffers.ids()) {
      const auto kind = in ? BufferKind::Input : BufferKind::Output;
      if (plan.buffers[b].kind != kind || plan.buffers[b].index != static_cast<int>(node.index))
        continue;
      (in ? t.writes : t.reads).insert(b);
    }
    return t;
  }
  /// Whether an access of x and a later one of y may be of the same bytes.
  bool shares(BufferId x, BufferId y) const {
    if (x == y) return true;
    if (reuse == Reuse::None || plan.buffers[x].kind != BufferKind::Arena ||
        plan.buffers[y].kind != BufferKind::Arena || last[x] >= first[y])
      return false;
    if (reuse == Reuse::AnyPlacement) return true;
    const uint64_t xs = placement.offsets[x], ys = placement.offsets[y];
    return placement.arena[x] == placement.arena[y] && xs < ys + std::max<uint64_t>(bytes[y], 4) &&
           ys < xs + std::max<uint64_t>(bytes[x], 4);
  }
  bool conflict(const Touch& a, const Touch& b) const {
    const auto meet = [&](const std::set<BufferId>& x, const std::set<BufferId>& y) {
      return std::any_of(x.begin(), x.end(), [&](BufferId i) {
        return std::any_of(y.begin(), y.end(), [&](BufferId j) { return shares(i, j); });
      });
    };
    return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
  }
};

using Pairs = std::vector<std::pair<size_t, size_t>>;

/// What happens to a node, in this order: it begins; it accesses memory, before which an early
/// kernel awaits the nodes before it; it ends.
enum Event : size_t { kBegin, kAccess, kEnd, kEvents };
constexpr size_t kMostEvents = 256;

const KernelCode& kernel_of(const Plan& plan, const OrderNode& launch) {
  return plan.kernels[std::get<Launch>(plan.steps[launch.index].what).kernel];
}

/// Whether the accesses of each hazard's second node follow the end of its first, by what edges
/// mean to events. The end of a node comes before the next one begins. If the next one is early, it
/// only follows the beginning of a launch, and nothing of other nodes; if its kernel waits, the end
/// of all of that launch comes before its accesses. Without `waits`, kernels forget to.
bool covers_events(const Plan& plan, const std::vector<OrderNode>& nodes, const Pairs& hazards,
                   bool waits = true) {
  const size_t n = nodes.size() * kEvents;
  std::vector<std::bitset<kMostEvents>> after(n);
  if (n > kMostEvents) return false;
  const auto edge = [&](size_t from, Event a, size_t to, Event b) {
    after[from * kEvents + a].set(to * kEvents + b);
  };
  for (size_t b = 0; b < nodes.size(); ++b) {
    edge(b, kBegin, b, kAccess);
    edge(b, kAccess, b, kEnd);
    for (const uint32_t a : nodes[b].after) {
      if (!nodes[b].early) edge(a, kEnd, b, kBegin);
      if (!nodes[b].early || nodes[a].kind != OrderNode::Kind::Launch) continue;
      edge(a, kBegin, b, kBegin);
      if (waits && kernel_of(plan, nodes[b]).early) edge(a, kEnd, b, kAccess);
    }
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < n; ++a)
      if (after[a].test(k)) after[a] |= after[k];
  }
  return std::all_of(hazards.begin(), hazards.end(), [&](const auto& h) {
    return after[h.first * kEvents + kEnd].test(h.second * kEvents + kAccess);
  });
}

bool covered(const std::vector<OrderNode>& nodes, const Pairs& hazards, size_t skip_node = SIZE_MAX,
             size_t skip_edge = 0) {
  const size_t n = nodes.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    for (size_t e = 0; e < nodes[b].after.size(); ++e) {
      if (b == skip_node && e == skip_edge) continue;
      const size_t a = nodes[b].after[e];
      before[b][a] = true;
      for (size_t c = 0; c < n; ++c)
        if (before[a][c]) before[b][c] = true;
    }
  }
  return std::all_of(hazards.begin(), hazards.end(),
                     [&](const auto& h) { return before[h.second][h.first]; });
}

struct Totals {
  size_t edges = 0, joins = 0, early = 0, need_waits = 0;
};

void check(const Case& c, const Segment& segment, const std::vector<OrderNode>& nodes,
           Totals& totals) {
  std::vector<uint32_t> launches, expected;
  for (const auto& level : segment.levels)
    expected.insert(expected.end(), level.begin(), level.end());
  Pairs hazards;
  for (size_t b = 0; b < nodes.size(); ++b) {
    for (const uint32_t a : nodes[b].after) ASSERT_LT(a, b);
    if (nodes[b].kind == OrderNode::Kind::Join) {
      ++totals.joins;
      continue;
    }
    if (nodes[b].kind == OrderNode::Kind::Launch) launches.push_back(nodes[b].index);
    for (size_t a = 0; a < b; ++a) {
      if (nodes[a].kind == OrderNode::Kind::Join) continue;
      if (c.conflict(c.touched(nodes[a]), c.touched(nodes[b]))) hazards.emplace_back(a, b);
    }
  }
  ASSERT_EQ(launches, expected);
  ASSERT_TRUE(covered(nodes, hazards));
  ASSERT_TRUE(covers_events(c.plan, nodes, hazards));
  totals.need_waits += covers_events(c.plan, nodes, hazards, false) ? 0 : 1;
  for (const OrderNode& node : nodes) totals.early += node.early ? 1 : 0;
  for (size_t b = 0; b < nodes.size(); ++b) {
    for (size_t e = 0; e < nodes[b].after.size(); ++e) {
      ++totals.edges;
      ASSERT_FALSE(covered(nodes, hazards, b, e)) << nodes[b].after[e] << " -> " << b;
    }
  }
}

TEST(Order, RandomPlansAreCoveredAndNoEdgeIsUseless) {
  for (const Reuse kind : {Reuse::None, Reuse::Placed, Reuse::AnyPlacement}) {
    Totals totals;
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      RandomOrder r(seed);
      SCOPED_TRACE("seed " + std::to_string(seed) + ", reuse " +
                   std::to_string(static_cast<int>(kind)));
      // A limit that some plans exceed: several arenas.
      const ArenaPlacement placement = place_arenas(r.plan, r.bytes, seed % 3 == 0 ? 1000 : 100000);
      const Case c(r, placement, kind);
      std::vector<uint32_t> inputs, outputs{1};
      for (uint32_t i = 0; i < r.inputs(); ++i)
        if (r.pick(0, 1) == 0) inputs.push_back(i);
      for (const Segment& segment : cut_segments(r.plan)) {
        if (segment.levels.empty()) continue;
        check(c, segment,
              segment_order(r.plan, segment, inputs, outputs, {kind, &placement, &r.bytes}),
              totals);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_GT(totals.edges, 10000U);
    EXPECT_GT(totals.early, 1000U);
    EXPECT_GT(totals.need_waits, 500U);
    EXPECT_EQ(totals.joins > 100, kind == Reuse::AnyPlacement) << totals.joins;
  }
}

// `wide` chains beside each other, all of whose memory may be reused by all.
TEST(Order, EdgesDoNotGrowWithTheProductOfLaunches) {
  constexpr int kWide = 100, kDeep = 20;
  Plan p;
  p.buffers.push_back({"x", BufferKind::Input, 0, DType::F32, {}});
  std::vector<BufferId> ends(kWide, BufferId(0));
  for (int d = 0; d < kDeep; ++d) {
    for (BufferId& end : ends) {
      Launch l;
      l.buffers = {end, p.buffers.push_back({"t", BufferKind::Arena, -1, DType::F32, {}})};
      l.writes = {false, true};
      end = l.buffers[1];
      p.steps.push_back({l, {}, 0});
    }
  }
  compute_hazards(p);
  const IdVector<BufferId, uint64_t> bytes(p.buffers.size(), 64);
  const ArenaPlacement placement = place_arenas(p, bytes, uint64_t{1} << 30);
  const std::vector<Segment> segments = cut_segments(p);
  ASSERT_EQ(segments.size(), 1U);
  for (const Reuse kind : {Reuse::Placed, Reuse::AnyPlacement}) {
    size_t edges = 0;
    for (const OrderNode& node : segment_order(p, segments[0], {}, {}, {kind, &placement, &bytes}))
      edges += node.after.size();
    EXPECT_LE(edges, 3U * kWide * kDeep);
    EXPECT_GE(edges, static_cast<size_t>(kWide) * (kDeep - 1));
  }
}

TEST(Order, CopiesWaitForWhatTheyTouchAlone) {
  Plan p;
  p.buffers = {{"x", BufferKind::Input, 0, DType::F32, {}},
               {"u", BufferKind::Input, 1, DType::F32, {}},
               {"y", BufferKind::Output, 0, DType::F32, {}},
               {"z", BufferKind::Output, 1, DType::F32, {}}};
  for (const auto& [from, to] : {std::pair{0, 2}, std::pair{1, 3}}) {
    Launch l;
    l.buffers = test::buffers(from, to);
    l.writes = {false, true};
    p.steps.push_back({l, {}, 0});
  }
  compute_hazards(p);
  const auto nodes = segment_order(p, cut_segments(p)[0], std::vector<uint32_t>{0, 1},
                                   std::vector<uint32_t>{1}, {Reuse::None, nullptr, {}});
  ASSERT_EQ(nodes.size(), 5U);  // two copies in, two launches, one copy out
  EXPECT_EQ(nodes[2].after, std::vector<uint32_t>{0});
  EXPECT_EQ(nodes[3].after, std::vector<uint32_t>{1});
  EXPECT_EQ(nodes[4].after, std::vector<uint32_t>{3});
  const auto plain =
      segment_nodes(cut_segments(p)[0], std::vector<uint32_t>{0, 1}, std::vector<uint32_t>{1});
  ASSERT_EQ(plain.size(), nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    EXPECT_EQ(plain[n].kind, nodes[n].kind);
    EXPECT_EQ(plain[n].index, nodes[n].index);
    EXPECT_TRUE(plain[n].after.empty());
  }
}

}  // namespace
}  // namespace reprise::plan
