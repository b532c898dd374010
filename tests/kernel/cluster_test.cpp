// Clusters of workgroups: boxes that several of them get, signals and arrays of other workgroups,
// and barriers of the cluster. Whatever is left out is reported, in whatever order roles run.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "codegen/interpreter/interpreter.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel::clusters {
namespace {

constexpr int kTeamSize = 128;
constexpr int kColumns = 32, kRows = 16, kStage = kColumns * kRows;

/// What is wrong with a kernel.
enum class Fault {
  None,
  NoAwaitFull,
  NoAwaitEmpty,
  OwnFull,         // arrives only at its own signal
  OwnEmpty,        // likewise
  UncountedEmpty,  // likewise, and nobody expects more
  FewerRanks,      // the box reaches one workgroup less
  ShortRing,
  NoEndBarrier,
  OneMeets,  // only the first workgroup waits at the barrier at the end
  // Of exchanges:
  NoArrive,
  NoAwait,
  WrongRank,
  OutsideRank,
};

InterpretOptions seeded(uint64_t seed) {
  InterpretOptions o;
  o.schedule_seed = seed;
  return o;
}

/// y = the sums over the blocks of x, which a cluster reads together: each workgroup copies a part
/// of every block to all of them.
class Spread {
 public:
  Spread(uint32_t cluster, Fault fault) : cluster_(cluster), fault_(fault) {
    b.set_workgroup(2 * kTeamSize);
    b.set_cluster(cluster);
    b.require_subgroup_size(32);
    const auto x = static_cast<uint32_t>(b.buffer("x", Ty::F32, Access::Read));
    y_ = b.buffer("y", Ty::F32, Access::Write);
    for (const char* name : {"zero", "columns", "rows"}) b.scalar(name);
    view_ = b.view("v", {x, 4, Swizzle::None, {kColumns, kRows / cluster}, 0, {1, 2}, {1}});
    stages_ = b.shared("stages", Ty::F32, kStages * kStage);
    full_ = b.signal("full", kStages, is(Fault::OwnFull) ? 1 : cluster);
    empty_ = b.signal("empty", kStages,
                      is(Fault::UncountedEmpty) ? kTeamSubgroups : cluster * kTeamSubgroups);
    b.role({"sum", 1, kTeamSubgroups, 0});
    b.role({"copy", 1, 1, 0});
    rank_ = b.convert(b.builtin(Builtin::ClusterRank), Ty::I32);
    steps_ = Value(b, b.param(2)) / kRows;
  }

  Result<Kernel> kernel() {
    const std::function<void()> bodies[] = {[this] { sum(); }, [this] { copy(); }};
    b.run_roles(bodies);
    return verified(b);
  }

 private:
  static constexpr uint32_t kStages = 2;
  bool is(Fault f) const { return fault_ == f; }
  Value stage(Value i) const { return is(Fault::ShortRing) ? i % 1 : i % int64_t{kStages}; }
  Value phase(Value i) const { return i / int64_t{kStages} % 2; }
  void arrive_at_all(int signal, Value at, bool own) {
    if (own) return b.arrive(signal, at);
    for (uint32_t r = 0; r < cluster_; ++r) b.arrive(signal, at, b.i32(static_cast<int>(r)));
  }
  void meet() {
    if (is(Fault::NoEndBarrier)) return;
    if (!is(Fault::OneMeets)) return b.barrier(BarrierScope::Cluster);
    b.if_then(b.eq(rank_, b.i32(0)), [&] { b.barrier(BarrierScope::Cluster); });
  }

  void copy() {
    const int part = kRows / static_cast<int>(cluster_);
    const uint32_t all = (1U << cluster_) - 1;
    b.for_loop(b.i32(0), steps_, b.i32(1), [&](Value i) {
      if (!is(Fault::NoAwaitEmpty)) b.await(empty_, stage(i), 1 - phase(i));
      const Value own = rank_ * part;
      b.box_copy(box_access(view_, stages_, full_, is(Fault::FewerRanks) ? all >> 1U : all),
                 b.compose({b.i32(0), i * kRows + own}), stage(i) * kStage + own * kColumns,
                 stage(i), 32);
      arrive_at_all(full_, stage(i), is(Fault::OwnFull));
    });
    meet();
  }

  void sum() {
    const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    const int total = b.local("total", kF32);
    b.local_store(total, b.f32(0));
    b.for_loop(b.i32(0), steps_, b.i32(1), [&](Value i) {
      if (!is(Fault::NoAwaitFull)) b.await(full_, stage(i), phase(i));
      for (int n = 0; n < kStage; n += kTeamSize)
        b.local_store(total, Value(b, b.local_load(total)) +
                                 b.shared_load(stages_, stage(i) * kStage + (local + n)));
      arrive_at_all(empty_, stage(i), is(Fault::OwnEmpty) || is(Fault::UncountedEmpty));
    });
    const Value group = b.convert(b.builtin(Builtin::WorkgroupId), Ty::I32);
    b.store(y_, group * kTeamSize + local, b.local_load(total));
    meet();
  }

  const uint32_t cluster_;
  const Fault fault_;
  Builder b{"spread"};
  int y_ = 0, view_ = 0, stages_ = 0, full_ = 0, empty_ = 0;
  Value rank_, steps_;
};

/// Runs the kernel for two clusters and compares with exact sums.
std::string wrong(uint32_t cluster, Fault fault, int blocks, uint64_t seed) {
  const auto k = Spread(cluster, fault).kernel();
  if (!k.ok()) return k.status().message();
  std::vector<float> x(static_cast<size_t>(blocks * kStage));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 31);
  std::vector<float> y(size_t{2} * cluster * kTeamSize);
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  Launch launch;
  launch.grid = {2 * cluster, 1, 1};
  launch.buffers = {bytes(x), bytes(y)};
  for (const int v : {0, kColumns, blocks * kRows})
    launch.scalars.push_back(static_cast<uint32_t>(v));
  const auto out = interpret(*k, launch, seeded(seed));
  if (!out.ok()) return out.status().message();
  for (size_t i = 0; i < y.size(); ++i) {
    float want = 0;
    for (size_t n = i % kTeamSize; n < x.size(); n += kTeamSize) want += x[n];
    if (y[i] != want) return "y[" + std::to_string(i) + "] is wrong";
  }
  return "";
}

TEST(Cluster, BoxesReachAllWorkgroups) {
  for (const uint32_t cluster : {2U, 4U}) {
    for (const uint64_t seed : {0, 1, 2, 3, 4}) {
      EXPECT_EQ(wrong(cluster, Fault::None, 5, seed), "") << cluster << ", seed " << seed;
      EXPECT_EQ(wrong(cluster, Fault::None, 1, seed), "") << cluster << ", seed " << seed;
    }
  }
}

TEST(Cluster, EachPartOfASharedRingIsNeeded) {
  for (const Fault fault : {Fault::NoAwaitFull, Fault::NoAwaitEmpty, Fault::OwnFull,
                            Fault::OwnEmpty, Fault::UncountedEmpty, Fault::FewerRanks,
                            Fault::ShortRing, Fault::NoEndBarrier, Fault::OneMeets}) {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const std::string found = wrong(2, fault, 7, seed);
      EXPECT_NE(found, "") << "fault " << static_cast<int>(fault) << ", seed " << seed;
      EXPECT_EQ(found.find(" is wrong"), std::string::npos)
          << "fault " << static_cast<int>(fault) << " shows only in results";
    }
  }
}

TEST(Cluster, MessagesNameWhatIsWrong) {
  const std::pair<Fault, const char*> cases[] = {
      {Fault::OwnFull, "for a phase that may complete before the copy begins"},
      {Fault::UncountedEmpty, "of workgroup 1, which others may still access"},
      {Fault::OwnEmpty, "role copy waits for parity 0 of empty[0]"},
      {Fault::NoEndBarrier, "of its cluster, which may have ended"},
      {Fault::NoAwaitFull, "reads stages[0] before it is written"},
  };
  for (const auto& [fault, message] : cases) {
    const std::string found = wrong(2, fault, 7, 0);
    EXPECT_NE(found.find(message), std::string::npos) << message << ", found: " << found;
  }
}

/// Each workgroup adds what the workgroup before it has in shared memory to its own. `by_barrier`:
/// a barrier of the cluster lies between, else an arrival at a signal of the next workgroup.
Result<Kernel> exchange(uint32_t cluster, Fault fault, bool by_barrier) {
  Builder b("exchange");
  b.set_workgroup(kTeamSize);
  b.set_cluster(cluster);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int own = b.shared("own", Ty::F32, 4 * kTeamSize);
  const int ready = by_barrier ? -1 : b.signal("ready", 1, kTeamSubgroups);
  b.role({"all", 1, kTeamSubgroups, 0});
  const std::function<void()> bodies[] = {[&] {
    const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    const Value rank = b.convert(b.builtin(Builtin::ClusterRank), Ty::I32);
    const Value group = b.convert(b.builtin(Builtin::WorkgroupId), Ty::I32);
    const auto size = static_cast<int64_t>(cluster);
    b.shared_store(own, local * 4, b.load(x, group * 4 * kTeamSize + local * 4, 4, 4));
    const Value next = fault == Fault::OutsideRank ? rank + 1 : (rank + 1) % size;
    if (by_barrier) {
      if (fault != Fault::NoAwait) b.barrier(BarrierScope::Cluster);
    } else {
      if (fault != Fault::NoArrive) b.arrive(ready, b.i32(0), next);
      if (fault != Fault::NoAwait) b.await(ready, b.i32(0), b.i32(0));
    }
    const Value before = (rank + (fault == Fault::WrongRank ? 1 : size - 1)) % size;
    // Elements that another invocation has stored.
    const Value at = (kTeamSize - 1 - local) * 4;
    const Value sum =
        Value(b, b.shared_load(own, local * 4, 4)) + b.shared_load(own, at, 4, before);
    b.store(y, group * 4 * kTeamSize + local * 4, sum, 4);
    if (fault != Fault::NoEndBarrier) b.barrier(BarrierScope::Cluster);
  }};
  b.run_roles(bodies);
  return verified(b);
}

std::string wrong_exchange(uint32_t cluster, Fault fault, bool by_barrier, uint64_t seed) {
  const auto k = exchange(cluster, fault, by_barrier);
  if (!k.ok()) return k.status().message();
  constexpr size_t kEach = 4 * kTeamSize;
  std::vector<float> x(2 * cluster * kEach), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  Launch launch;
  launch.grid = {2 * cluster, 1, 1};
  launch.buffers = {bytes(x), bytes(y)};
  const auto out = interpret(*k, launch, seeded(seed));
  if (!out.ok()) return out.status().message();
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t group = i / kEach, rank = group % cluster;
    const size_t before = group - rank + (rank + cluster - 1) % cluster, at = i % kEach;
    if (y[i] != x[i] + x[before * kEach + (kTeamSize - 1 - at / 4) * 4 + at % 4])
      return "y[" + std::to_string(i) + "] is wrong";
  }
  return "";
}

TEST(Cluster, WorkgroupsReadEachOthersArrays) {
  for (const uint32_t cluster : {2U, 4U, 8U}) {
    for (const bool by_barrier : {false, true}) {
      for (const uint64_t seed : {0, 1, 2})
        EXPECT_EQ(wrong_exchange(cluster, Fault::None, by_barrier, seed), "") << cluster;
    }
  }
}

TEST(Cluster, EachPartOfAnExchangeIsNeeded) {
  const struct {
    Fault fault;
    bool by_barrier;
    const char* message;
  } cases[] = {
      {Fault::NoArrive, false, "role all waits for parity 0 of ready[0]"},
      {Fault::NoAwait, false, ""},  // race, or not written: by the order of roles
      {Fault::NoAwait, true, ""},
      {Fault::WrongRank, false, ""},
      {Fault::OutsideRank, false, "accesses workgroup 4 of a cluster of 4"},
      {Fault::NoEndBarrier, false, "of its cluster, which may have ended"},
      {Fault::NoEndBarrier, true, "of its cluster, which may have ended"},
  };
  for (const auto& c : cases) {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
      const std::string found = wrong_exchange(4, c.fault, c.by_barrier, seed);
      EXPECT_NE(found, "") << static_cast<int>(c.fault) << ", seed " << seed;
      EXPECT_EQ(found.find(" is wrong"), std::string::npos) << found;
      EXPECT_NE(found.find(c.message), std::string::npos) << c.message << ", found: " << found;
    }
  }
}

TEST(Cluster, LaunchesHaveWholeClusters) {
  const auto k = exchange(2, Fault::None, false);
  ASSERT_TRUE(k.ok()) << k.status().message();
  std::vector<float> x(3 * 4 * kTeamSize), y(x.size());
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  Launch launch;
  launch.grid = {3, 1, 1};
  launch.buffers = {bytes(x), bytes(y)};
  const auto out = interpret(*k, launch);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.status().message().find("no whole clusters of 2"), std::string::npos);
}

TEST(Cluster, PrintedForm) {
  const auto spread = Spread(2, Fault::None).kernel();
  ASSERT_TRUE(spread.ok()) << spread.status().message();
  EXPECT_EQ(requirements(*spread).cluster, 2U);
  const auto other = exchange(4, Fault::None, false);
  ASSERT_TRUE(other.ok()) << other.status().message();
  for (const Kernel* k : {&*spread, &*other}) {
    Kernel copied = *k;
    ASSERT_TRUE(legalize(copied, {}).ok());
    EXPECT_EQ(copied.cluster, k->cluster);
    EXPECT_EQ(print(copied).find("invalid"), std::string::npos);
    for (const char* part : {"barrier of cluster", "of workgroup ", " cluster("})
      EXPECT_NE(print(copied).find(part), std::string::npos) << part << "\n" << print(copied);
  }
  for (const char* part : {" of workgroups 0 1\n", "arrive empty["})
    EXPECT_NE(print(*spread).find(part), std::string::npos) << part << "\n" << print(*spread);
}

/// What the verifier says of a kernel in a cluster, whose role `write` writes.
std::string problem(uint32_t cluster, const std::function<void(Builder&)>& write,
                    bool in_role = true) {
  Builder b("refused");
  b.set_workgroup(kTeamSize);
  b.set_cluster(cluster);
  b.require_subgroup_size(32);
  b.buffer("x", Ty::F32, Access::Read);
  for (const char* name : {"zero", "columns", "rows"}) b.scalar(name);
  b.view("v", {0, 4, Swizzle::None, {kColumns, kRows}, 0, {1, 2}, {1}});
  b.shared("stages", Ty::F32, kStage);
  b.shared("halves", Ty::F16, kStage);
  b.signal("full", 1, 1);
  if (in_role) b.role({"all", 1, kTeamSubgroups, 0});
  const std::function<void()> bodies[] = {[&] { write(b); }};
  if (in_role) b.run_roles(bodies);
  if (!in_role) write(b);
  const auto k = verified(b);
  return k.ok() ? "" : k.status().message();
}

TEST(Cluster, VerifierNamesWhatIsWrong) {
  const auto origin = [](Builder& b) { return b.compose({b.i32(0), b.i32(0)}); };
  const auto spread = [&](Builder& b, uint32_t ranks) {
    b.box_copy(box_access(0, 0, 0, ranks), origin(b), b.i32(0), b.i32(0), 32);
  };
  const struct {
    uint32_t cluster;
    const char* message;
    std::function<void(Builder&)> write;
  } cases[] = {
      {2, "", [&](Builder& b) { spread(b, 3); }},
      {2, "beyond the cluster of 2", [&](Builder& b) { spread(b, 4); }},
      {1, "beyond the cluster of 1", [&](Builder& b) { spread(b, 3); }},
      {1, "needs a cluster", [&](Builder& b) { spread(b, 1); }},
      {1, "needs a cluster", [](Builder& b) { b.barrier(BarrierScope::Cluster); }},
      {1, "needs a cluster", [](Builder& b) { b.arrive(0, b.i32(0), b.i32(0)); }},
      {1, "needs a cluster", [](Builder& b) { b.shared_load(0, b.i32(0), 1, b.i32(0)); }},
      {2, "beyond the cluster of 2", [](Builder& b) { b.arrive(0, b.i32(0), b.i32(2)); }},
      {2, "beyond the cluster of 2", [](Builder& b) { b.shared_load(0, b.i32(0), 1, b.i32(-1)); }},
      {2, "whose elements are not of 32 bits",
       [](Builder& b) { b.shared_load(1, b.i32(0), 1, b.i32(0)); }},
      {2, "the rank of a workgroup is u32",
       [](Builder& b) { b.arrive(0, b.i32(0), b.builtin(Builtin::ClusterRank)); }},
      {2, "may differ within a subgroup",
       [](Builder& b) {
         const Value lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
         b.arrive(0, b.i32(0), lane % 2);
       }},
      {2, "may differ within a role",
       [](Builder& b) {
         const Value lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
         b.if_then(lane < 2, [&] { b.barrier(BarrierScope::Cluster); });
       }},
      {3, "no power of 2 up to 8", [](Builder&) {}},
      {16, "no power of 2 up to 8", [](Builder&) {}},
      {0, "no power of 2 up to 8", [](Builder&) {}},
  };
  for (const auto& c : cases) {
    const std::string found = problem(c.cluster, c.write);
    EXPECT_NE(found.find(c.message), std::string::npos) << c.message << ", found: " << found;
    EXPECT_EQ(found.empty(), *c.message == '\0') << found;
  }
  EXPECT_NE(problem(
                2, [](Builder&) {}, false)
                .find("a cluster of 2 without roles"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::kernel::clusters
