// Runs that are cut in several submissions.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "async_support.h"
#include "runtime/parted_recording.h"

namespace reprise::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kLaunches = 12;

class Slices : public Contract {
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

TEST_P(Slices, ShortOnesHaveALaunchEach) {
  auto s = session(chain(kLaunches, 0, true), open(), {.slice_ns = 1});
  ASSERT_TRUE(s);
  int run = 0;
  for (const int64_t n : {1000, 10, 5000, 5000}) {
    HostRunOf r(*s, n, 1);
    ASSERT_OK(r.run->submit().status());
    size_t asked = 0;
    for (bool ended = false; !ended; std::this_thread::yield()) {
      const auto answer = r.run->ended();
      ASSERT_OK(answer.status());
      ended = *answer;
      ++asked;
    }
    EXPECT_GE(asked, kLaunches);  // each of these answers submits at most one part
    RunStats stats;
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(kLaunches));
    EXPECT_EQ(s->stats().submits, kLaunches * static_cast<size_t>(++run));
  }
  const HostTensor x = floats({100}, ramp(100));
  const auto y = s->run({{{.name = "x", .host = &x}}});
  ASSERT_OK(y.status());
  EXPECT_EQ((*y)[0].data<float>()[99], x.data<float>()[99] + kLaunches);
}

TEST_P(Slices, LongOnesHaveAllThatFit) {
  auto device = open();
  const bool measured = has_timestamps(device);
  auto s = session(chain(kLaunches, 1000, false), device, {.slice_ns = 1000 * kSecond});
  ASSERT_TRUE(s);
  HostRunOf r(*s, 1000, 1);
  std::vector<uint64_t> submits;
  for (int run = 0; run < 4; ++run) {
    const uint64_t before = s->stats().submits;
    RunStats stats;
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(kLaunches));
    EXPECT_EQ(stats.longest_slice_us > 0, measured);
    submits.push_back(s->stats().submits - before);
  }
  // The first run does not count, and the second one is measured.
  const uint64_t later = measured ? 1 : kLaunches;
  EXPECT_EQ(submits, (std::vector<uint64_t>{kLaunches, kLaunches, later, later}));
}

TEST_P(Slices, ACancelledRunLeavesOutTheRest) {
  auto s = session(chain(kLaunches, 1000, false), open(), {.slice_ns = 1});
  ASSERT_TRUE(s);
  HostRunOf r(*s, 1000, 1);
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
    EXPECT_TRUE(r.is_right(kLaunches));
    r.y.assign(1000, -1);
  }
  const EndCall nobody{[](void*) {}, nullptr};
  const Status refused = r.run->submit({.at_end = nobody}).status();
  EXPECT_EQ(refused.code(), Code::Unsupported);
  EXPECT_NE(refused.message().find("slices"), std::string::npos) << refused.message();
}

TEST_P(Slices, TimeOfTheCallerIsNotThatOfTheRun) {
  constexpr uint64_t kLimit = kSecond / 2;
  auto s = session(chain(kLaunches, 1000, false), open(), {.timeout_ns = kLimit, .slice_ns = 1});
  ASSERT_TRUE(s);
  HostRunOf r(*s, 1000, 1);
  ASSERT_OK(r.run->submit().status());
  for (int frame = 0; frame < 3; ++frame) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLimit + kLimit / 5));
    ASSERT_OK(r.run->ended().status());
  }
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(kLaunches));
}

TEST_P(Slices, ARunMayBeDestroyedBetweenThem) {
  auto s = session(chain(kLaunches, 1000, false), open(), {.max_in_flight = 1, .slice_ns = 1});
  ASSERT_TRUE(s);
  for (int i = 0; i < 3; ++i) {
    HostRunOf r(*s, 1000, 1);
    ASSERT_OK(r.run->submit().status());
    for (int ask = 0; ask < i; ++ask) ASSERT_OK(r.run->ended().status());
  }
  HostRunOf r(*s, 1000, 1);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(kLaunches));
}

TEST_P(Slices, SeveralRunsTakeTurns) {
  auto s = session(chain(kLaunches, 0, true), open(), {.max_in_flight = 3, .slice_ns = 1});
  ASSERT_TRUE(s);
  std::vector<std::unique_ptr<HostRunOf>> runs;
  for (const int64_t n : {100, 5000, 1}) runs.push_back(std::make_unique<HostRunOf>(*s, n, 1.0F));
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
    EXPECT_TRUE(r->is_right(kLaunches));
  }
}

REPRISE_ON_ALL_DEVICES(Slices);

TEST(CutsFor, MakesPartsThatAreShortEnough) {
  std::vector<Command> commands;
  const auto add = [&](Command::Kind kind) { commands.emplace_back().kind = kind; };
  add(Command::Kind::Copy);
  for (int i = 0; i < 4; ++i) {
    add(Command::Kind::Dispatch);
    add(Command::Kind::Barrier);
  }
  add(Command::Kind::HostBarrier);
  using Cuts = std::vector<size_t>;
  EXPECT_EQ(cuts_for(commands, {}, 10), (Cuts{3, 5, 7}));
  EXPECT_EQ(cuts_for(commands, std::vector<double>{5, 5, 5, 5}, 10), (Cuts{5}));
  EXPECT_EQ(cuts_for(commands, std::vector<double>{1, 50, 2, 3}, 10), (Cuts{3, 5}));
  EXPECT_EQ(cuts_for(commands, std::vector<double>{1, 1, 1, 1}, 10), (Cuts{}));
  EXPECT_EQ(cuts_for({}, {}, 10), (Cuts{}));
}

}  // namespace
}  // namespace reprise::test
