#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "apps/reprise/conformance.h"

namespace reprise::app {
namespace {

struct Outcome {
  std::map<size_t, std::string> done, lost;
  Status status;
};

Outcome run(
    size_t count, int jobs, const std::function<std::string(size_t)>& work, double timeout_s = 60,
    const std::function<Status()>& start = [] { return Status(); }) {
  Outcome o;
  o.status = run_pool(
      count, {jobs, timeout_s}, start, work,
      [&o](size_t i, const std::string& line) { o.done[i] = line; },
      [&o](size_t i, const std::string& how) { o.lost[i] = how; });
  return o;
}

TEST(WorkerPool, EveryCaseIsAnswered) {
  for (const int jobs : {1, 2, 7}) {
    const Outcome o = run(20, jobs, [](size_t i) { return std::to_string(i * i); });
    ASSERT_TRUE(o.status.ok()) << o.status.message();
    ASSERT_EQ(o.done.size(), 20u);
    EXPECT_EQ(o.done.at(19), "361");
    EXPECT_TRUE(o.lost.empty());
  }
}

TEST(WorkerPool, ACrashLosesOneCaseOnly) {
  const Outcome o = run(10, 2, [](size_t i) {
    if (i == 3) raise(SIGKILL);
    if (i == 9) _exit(7);
    return std::string("ok");
  });
  EXPECT_EQ(o.done.size(), 8u);
  ASSERT_EQ(o.lost.size(), 2u);
  EXPECT_NE(o.lost.at(3).find("crashed"), std::string::npos) << o.lost.at(3);
  EXPECT_NE(o.lost.at(9).find("7"), std::string::npos) << o.lost.at(9);
}

TEST(WorkerPool, AHangEndsAtItsTimeLimit) {
  const Outcome o = run(
      3, 1,
      [](size_t i) {
        if (i == 1) sleep(60);
        return std::string("ok");
      },
      0.5);
  EXPECT_EQ(o.done.size(), 2u);
  ASSERT_EQ(o.lost.size(), 1u);
  EXPECT_NE(o.lost.at(1).find("longer than"), std::string::npos) << o.lost.at(1);
}

TEST(WorkerPool, LongAnswersArriveWhole) {
  const Outcome o = run(3, 2, [](size_t i) { return std::string(300000 + i, 'x'); });
  ASSERT_EQ(o.done.size(), 3u);
  EXPECT_EQ(o.done.at(2).size(), 300002u);
}

TEST(WorkerPool, AFailedStartLosesTheCases) {
  const Outcome o = run(
      2, 1, [](size_t) { return std::string("never"); }, 60,
      [] { return Status(Code::Device, "no device"); });
  EXPECT_TRUE(o.done.empty());
  EXPECT_EQ(o.lost.size(), 2u);
}

}  // namespace
}  // namespace reprise::app
