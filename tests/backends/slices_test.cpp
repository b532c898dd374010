// Runs that are cut in several submissions.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "contract.h"
#include "runtime/device/slices.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

constexpr uint64_t kSlicedSecond = 1'000'000'000;
constexpr size_t kSlicedLaunches = 12;

class SlicedRuns : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (on_host()) GTEST_SKIP() << "the host has no submissions";
  }
  /// Whether the device can measure its launches.
  bool has_timestamps(const std::shared_ptr<Device>& device) {
    auto s = Session::create(chain(1, 4, false), device, {.timestamps = true});
    if (!s.ok()) return false;
    const HostTensor x = floats({4}, ramp(4));
    return (*s)->run({{{.name = "x", .host = &x}}}).ok();
  }
};

TEST_P(SlicedRuns, ShortOnesHaveALaunchEach) {
  auto s = session(chain(kSlicedLaunches, 0, true), open(), {.slice_ns = 1});
  ASSERT_TRUE(s);
  int run = 0;
  for (const int64_t n : {1000, 10, 5000, 5000}) {
    HostRun r(*s, n, 1);
    ASSERT_OK(r.run->submit().status());
    size_t asked = 0;
    for (bool ended = false; !ended; std::this_thread::yield()) {
      const auto answer = r.run->ended();
      ASSERT_OK(answer.status());
      ended = *answer;
      ++asked;
    }
    EXPECT_GE(asked, kSlicedLaunches);  // each of these answers submits at most one part
    RunStats stats;
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(kSlicedLaunches));
    EXPECT_EQ(s->stats().submits, kSlicedLaunches * static_cast<size_t>(++run));
  }
  const HostTensor x = floats({100}, ramp(100));
  const auto y = s->run({{{.name = "x", .host = &x}}});
  ASSERT_OK(y.status());
  EXPECT_EQ((*y)[0].data<float>()[99], x.data<float>()[99] + kSlicedLaunches);
}

TEST_P(SlicedRuns, LongOnesHaveAllThatFit) {
  auto device = open();
  const bool measured = has_timestamps(device);
  auto s = session(chain(kSlicedLaunches, 1000, false), device, {.slice_ns = 1000 * kSlicedSecond});
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  std::vector<uint64_t> submits;
  for (int run = 0; run < 4; ++run) {
    const uint64_t before = s->stats().submits;
    RunStats stats;
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(kSlicedLaunches));
    EXPECT_EQ(stats.longest_slice_us > 0, measured);
    submits.push_back(s->stats().submits - before);
  }
  // The first run does not count, and the second one is measured.
  const uint64_t later = measured ? 1 : kSlicedLaunches;
  EXPECT_EQ(submits, (std::vector<uint64_t>{kSlicedLaunches, kSlicedLaunches, later, later}));
}

TEST_P(SlicedRuns, ACancelledRunLeavesOutTheRest) {
  auto s = session(chain(kSlicedLaunches, 1000, false), open(), {.slice_ns = 1});
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  for (const bool poll : {false, true}) {
    CancelFlag cancelled = false;
    ASSERT_OK(r.run->submit({.cancelled = &cancelled}).status());
    cancelled = true;
    Status done;
    if (poll) {
      Result<bool> ended = false;
      while (ended.ok() && !*ended) ended = r.run->ended();
      done = ended.status();
    } else {
      done = r.run->wait(r.results, nullptr);
    }
    EXPECT_EQ(done.code(), Code::Cancelled) << done.message();
    EXPECT_EQ(r.y, std::vector<float>(1000, r.y[0]));
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, nullptr));
    EXPECT_TRUE(r.is_right(kSlicedLaunches));
    r.y.assign(1000, -1);
  }
  const EndCall nobody{[](void*) {}, nullptr};
  const Status refused = r.run->submit({.at_end = nobody}).status();
  EXPECT_EQ(refused.code(), Code::Unsupported);
  EXPECT_NE(refused.message().find("slices"), std::string::npos) << refused.message();
}

TEST_P(SlicedRuns, TimeOfTheCallerIsNotThatOfTheRun) {
  constexpr uint64_t kLimit = kSlicedSecond / 2;
  auto s =
      session(chain(kSlicedLaunches, 1000, false), open(), {.timeout_ns = kLimit, .slice_ns = 1});
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  ASSERT_OK(r.run->submit().status());
  for (int frame = 0; frame < 3; ++frame) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLimit + kLimit / 5));
    ASSERT_OK(r.run->ended().status());
  }
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(kSlicedLaunches));
}

TEST_P(SlicedRuns, ARunMayBeDestroyedBetweenThem) {
  auto s =
      session(chain(kSlicedLaunches, 1000, false), open(), {.max_in_flight = 1, .slice_ns = 1});
  ASSERT_TRUE(s);
  for (int i = 0; i < 3; ++i) {
    HostRun r(*s, 1000, 1);
    ASSERT_OK(r.run->submit().status());
    for (int ask = 0; ask < i; ++ask) ASSERT_OK(r.run->ended().status());
  }
  HostRun r(*s, 1000, 1);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(kSlicedLaunches));
}

TEST_P(SlicedRuns, SeveralRunsTakeTurns) {
  auto s = session(chain(kSlicedLaunches, 0, true), open(), {.max_in_flight = 3, .slice_ns = 1});
  ASSERT_TRUE(s);
  std::vector<std::unique_ptr<HostRun>> runs;
  for (const int64_t n : {100, 5000, 1}) runs.push_back(std::make_unique<HostRun>(*s, n, 1.0F));
  for (auto& r : runs) ASSERT_OK(r->run->submit().status());
  for (size_t done = 0; done < runs.size();) {
    done = 0;
    for (auto& r : runs) {
      const auto ended = r->run->ended();
      ASSERT_OK(ended.status());
      done += *ended ? 1 : 0;
    }
  }
  for (auto& r : runs) {
    ASSERT_OK(r->run->wait(r->results, nullptr));
    EXPECT_TRUE(r->is_right(kSlicedLaunches));
  }
}

TEST_P(SlicedRuns, LongLaunchesAreCut) {
  constexpr int64_t kSlices = 100'000;
  auto device = open();
  const bool cut = has_timestamps(device) && device->cuts_launches();
  auto s = session(chain(2, kSlices, false), device, {.timestamps = cut, .slice_ns = 1});
  ASSERT_TRUE(s);
  HostRun r(*s, kSlices, 1);
  std::vector<uint64_t> submits;
  for (int run = 0; run < 4; ++run) {
    const SessionStats before = s->stats();
    std::fill(r.y.begin(), r.y.end(), -1.0F);
    RunStats stats;
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(2));
    submits.push_back(s->stats().submits - before.submits);
    EXPECT_EQ(s->stats().dispatches - before.dispatches, submits.back());
    // Each with all its pieces.
    EXPECT_EQ(stats.kernel_us.size(), cut ? 2U : 0U);
  }
  // Before they were measured, large launches have up to 16 pieces.
  const bool is_large = device->cuts_launches();
  EXPECT_EQ(submits[0] > 2, is_large);
  EXPECT_LE(submits[0], 32U);
  EXPECT_EQ(submits[1], submits[0]);
  if (!cut) {
    EXPECT_EQ(submits[3], submits[0]);
    return;
  }
  EXPECT_GT(submits[2], 10U);
  EXPECT_GT(submits[3], 10U);
}

REPRISE_ON_ALL_DEVICES(SlicedRuns);

/// A copy, dispatches of these workgroups in x and y with barriers between them, a barrier.
std::vector<Command> commands_of(const std::vector<std::array<uint32_t, 2>>& grids) {
  std::vector<Command> commands;
  const auto add = [&](Command::Kind kind) -> Command& {
    Command& c = commands.emplace_back();
    c.kind = kind;
    return c;
  };
  add(Command::Kind::Copy);
  for (const auto& [x, y] : grids) {
    add(Command::Kind::Dispatch).grid = {x, y, 1};
    add(Command::Kind::Barrier);
  }
  add(Command::Kind::HostBarrier);
  return commands;
}

using Cuts = std::vector<size_t>;
using Pieces = std::vector<uint32_t>;
using Times = std::vector<double>;

TEST(SlicesOf, PartsAreShortEnough) {
  const std::vector<Command> four = commands_of({{8, 1}, {8, 1}, {8, 1}, {8, 1}});
  const auto cuts = [&](const Times& ns) { return slices_of(four, ns, 11, false).cuts; };
  EXPECT_EQ(cuts({}), (Cuts{3, 5, 7}));
  EXPECT_EQ(cuts({5, 5, 5, 5}), (Cuts{5}));
  EXPECT_EQ(cuts({1, 50, 2, 3}), (Cuts{3, 5}));
  EXPECT_EQ(cuts({1, 1, 1, 1}), (Cuts{}));
  EXPECT_EQ(slices_of({}, {}, 10, true).cuts, (Cuts{}));
  EXPECT_EQ(slices_of(four, Times{1, 50, 2, 3}, 10, false).pieces, (Pieces{1, 1, 1, 1}));
}

TEST(SlicesOf, LongLaunchesAreCutAlongTheirLongestAxis) {
  const Times ns{1, 50, 300, 3};
  const Slices s = slices_of(commands_of({{8, 1}, {3, 20}, {4, 2}, {8, 1}}), ns, 10, true);
  EXPECT_EQ(s.pieces, (Pieces{1, 6, 4, 1}));
  EXPECT_EQ(s.max_pieces, (Pieces{8, 20, 4, 8}));
  // Every workgroup is in one piece.
  std::array<uint32_t, 4> workgroups{};
  size_t launch = 0, piece = 0;
  std::array<uint32_t, 3> next{};
  for (const Command& c : s.commands) {
    if (!c.is_dispatch()) continue;
    EXPECT_EQ(c.first, next);
    workgroups[launch] += c.grid[0] * c.grid[1] * c.grid[2];
    const size_t axis = launch == 1 ? 1 : 0;
    next[axis] += c.grid[axis];
    if (++piece < s.pieces[launch]) continue;
    piece = 0;
    next = {};
    ++launch;
  }
  EXPECT_EQ(workgroups, (std::array<uint32_t, 4>{8, 60, 8, 8}));
  EXPECT_EQ(s.by_launch(Times{1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4}), (Times{1, 12, 12, 4}));
  EXPECT_EQ(s.commands[0].kind, Command::Kind::Copy);
  EXPECT_EQ(s.commands.size(), 1 + 12 + 4 + 1U);  // a barrier after each launch, not each piece
  // Pieces of the second launch take 8.3 each; those of the third take more than a slice.
  EXPECT_EQ(s.cuts, (Cuts{3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 15}));
}

TEST(SlicesOf, LargeLaunchesAreCutBeforeTheyAreMeasured) {
  const Slices s = slices_of(commands_of({{8, 1}, {100, 2}, {4000, 4000}}), {}, 10, true);
  EXPECT_EQ(s.pieces, (Pieces{1, 3, 16}));
  EXPECT_EQ(s.cuts.size(), 19U);  // each piece is a part
  EXPECT_EQ(slices_of(commands_of({{4000, 4000}}), {}, 10, false).pieces, (Pieces{1}));
}

// Times that are 5% longer than those by which parts were made do not make them anew.
TEST(SlicesOf, PartsHaveRoomForTimesThatVary) {
  const std::vector<Command> commands = commands_of({{8, 1}, {8, 1}, {8, 1}, {8, 1}});
  for (const Times& ns : {Times{5, 5, 5, 5}, Times{1, 9, 2, 8}, Times{100, 3, 30, 4}}) {
    const Slices s = slices_of(commands, ns, 20, true);
    Times longer;
    for (const double t : ns) longer.push_back(1.05 * t);
    EXPECT_FALSE(are_too_long(s, longer, 20));
  }
}

TEST(SlicesOf, ASliceIsTooLongOnlyIfItCanBeShorter) {
  const std::vector<Command> commands = commands_of({{8, 1}, {4, 1}});
  const Slices together = slices_of(commands, Times{4, 5}, 10, true);
  EXPECT_FALSE(are_too_long(together, Times{4, 5}, 10));
  EXPECT_TRUE(are_too_long(together, Times{4, 7}, 10));
  const Slices cut = slices_of(commands, Times{4, 1000}, 10, true);
  EXPECT_EQ(cut.pieces, (Pieces{1, 4}));
  EXPECT_FALSE(are_too_long(cut, Times{4, 1000}, 10));
  EXPECT_TRUE(are_too_long(cut, Times{11, 1000}, 10));
  const Slices whole = slices_of(commands, Times{4, 1000}, 10, false);
  EXPECT_FALSE(are_too_long(whole, Times{11, 1000}, 10));
}

}  // namespace
}  // namespace reprise::test
