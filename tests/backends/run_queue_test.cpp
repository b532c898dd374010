// Whose time counts, and what hangs, among the runs that a device was given.
#include "backends/common/run_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace reprise::test {
namespace {

using Outcome = RunQueue::Outcome;
constexpr uint64_t kMs = 1'000'000;

/// A run that ends when the test says so.
struct FakeRun {
  explicit FakeRun(RunQueue& q, uint64_t limit_ns = UINT64_MAX)
      : queue(q), entry(q, [this] { return ended.load(); }) {
    entry.submitted(limit_ns);
  }
  bool ask(uint64_t ns) const {
    const auto until = RunQueue::Clock::now() +
                       std::chrono::nanoseconds(std::min<uint64_t>(ns, uint64_t{1} << 62));
    while (!ended && RunQueue::Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return ended;
  }
  Outcome wait(uint64_t timeout_ns) {
    const Outcome o = queue.wait(entry, timeout_ns, [this](uint64_t ns) { return ask(ns); });
    if (o == Outcome::Over) entry.over();
    return o;
  }
  Outcome wait_for_end() {
    return queue.wait_for_end(entry, [this](uint64_t ns) { return ask(ns); });
  }
  RunQueue& queue;
  std::atomic<bool> ended = false;
  SubmittedRun entry;
};

TEST(RunQueue, ARunThatHasBegunTimesOut) {
  RunQueue queue;
  FakeRun run(queue);
  EXPECT_FALSE(queue.any_late());
  EXPECT_EQ(run.wait(kMs), Outcome::TimedOut);
  EXPECT_TRUE(queue.any_late());
  EXPECT_FALSE(queue.hung(run.entry));
  run.ended = true;
  EXPECT_FALSE(queue.any_late());
  EXPECT_EQ(run.wait_for_end(), Outcome::Over);
}

// Each takes less than the patience, all of them take more.
TEST(RunQueue, WaitingBehindOthersIsNeitherLateNorAHang) {
  RunQueue queue;
  queue.patience_ns = 1000 * kMs;
  FakeRun a(queue), b(queue), c(queue), d(queue);
  EXPECT_EQ(a.wait(kMs), Outcome::TimedOut);
  std::thread device([&] {
    for (FakeRun* run : {&a, &b, &c, &d}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      run->ended = true;
    }
  });
  EXPECT_EQ(b.wait(kMs), Outcome::TimedOut);  // once `a` has ended
  EXPECT_TRUE(a.ended);
  EXPECT_EQ(c.wait(900 * kMs), Outcome::Over);  // although it ends after 1200
  EXPECT_TRUE(b.ended);
  EXPECT_EQ(d.wait_for_end(), Outcome::Over);
  device.join();
}

TEST(RunQueue, ARunThatNobodyWaitsForHangsAfterItsLimit) {
  RunQueue queue;
  queue.patience_ns = 10 * kMs;
  FakeRun stuck(queue, 20 * kMs), behind(queue, 20 * kMs);
  EXPECT_EQ(behind.wait(UINT64_MAX), Outcome::Hung);
  EXPECT_TRUE(queue.hung(stuck.entry));
}

TEST(RunQueue, ARunIsNotGivenUpBeforeItsLimit) {
  RunQueue queue;
  queue.patience_ns = kMs;
  FakeRun slow(queue, 60'000 * kMs);
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    slow.ended = true;
  });
  EXPECT_EQ(slow.wait_for_end(), Outcome::Over);
  device.join();
}

TEST(RunQueue, PollingAsksOnce) {
  RunQueue queue;
  FakeRun run(queue), behind(queue);
  const auto poll = [&](FakeRun& of, uint64_t limit_ns) {
    return queue.poll(of.entry, limit_ns, [&](uint64_t ns) { return of.ask(ns); });
  };
  EXPECT_EQ(poll(run, 60'000 * kMs), std::nullopt);
  EXPECT_EQ(poll(behind, kMs), std::nullopt);  // it has not begun
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(poll(run, kMs), Outcome::TimedOut);
  EXPECT_TRUE(queue.any_late());
  run.ended = true;
  EXPECT_EQ(poll(run, kMs), Outcome::Over);
  behind.ended = true;
  EXPECT_EQ(poll(behind, kMs), Outcome::Over);
}

TEST(RunQueue, WhoeverWaitsBehindAHangLearnsIt) {
  RunQueue queue;
  queue.patience_ns = 10 * kMs;
  FakeRun stuck(queue), behind(queue);
  EXPECT_EQ(stuck.wait(kMs), Outcome::TimedOut);
  EXPECT_EQ(behind.wait(UINT64_MAX), Outcome::Hung);
  EXPECT_TRUE(queue.hung(stuck.entry));
  EXPECT_EQ(queue.grace_ns(behind.entry), queue.patience_ns);  // what both have waited for
  EXPECT_EQ(queue.wait_before("a transfer", {}).code(), Code::Timeout);
  EXPECT_FALSE(queue.given_up());  // that is for those to do who free
  EXPECT_EQ(stuck.wait_for_end(), Outcome::Hung);
}

// With a longer limit of its own, the first run still has time when another asks.
TEST(RunQueue, ALongLimitIsRespectedByThoseBehind) {
  RunQueue queue;
  queue.patience_ns = kMs;
  FakeRun slow(queue), behind(queue);
  std::thread owner([&] { EXPECT_EQ(slow.wait(UINT64_MAX), Outcome::Over); });
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    slow.ended = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    behind.ended = true;
  });
  EXPECT_EQ(behind.wait(60'000 * kMs), Outcome::Over);
  device.join();
  owner.join();
}

TEST(RunQueue, AfterGivingUpNobodyWaits) {
  RunQueue queue;
  FakeRun a(queue), b(queue);
  queue.give_up();
  EXPECT_EQ(a.wait_for_end(), Outcome::Hung);
  EXPECT_EQ(b.wait(UINT64_MAX), Outcome::Hung);
}

}  // namespace
}  // namespace reprise::test
