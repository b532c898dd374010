// Work on threads: what f throws ends the work and is an error, never the end of the process.
#include "runtime/platform/parallel.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace reprise {
namespace {

TEST(InParallel, EveryIndexOnce) {
  for (const unsigned threads : {0U, 1U, 7U}) {
    std::vector<std::atomic<int>> seen(100);
    ASSERT_TRUE(in_parallel(seen.size(), threads, "counting", [&](size_t i) { ++seen[i]; }).ok());
    for (const auto& n : seen) EXPECT_EQ(n, 1);
  }
  EXPECT_TRUE(in_parallel(0, 4, "nothing", [](size_t) { FAIL(); }).ok());
}

TEST(InParallel, ExceptionsAreErrors) {
  const struct {
    void (*fail)();
    Code code;
    const char* said;
  } cases[] = {
      {[] { throw std::bad_alloc(); }, Code::OutOfMemory,
       "out of host memory while kernels were built"},
      {[] { throw std::length_error("too long"); }, Code::Internal, "too long"},
      {[] { throw 1; }, Code::Internal, "an exception while kernels were built"},
  };
  for (const auto& c : cases) {
    for (const unsigned threads : {1U, 4U}) {
      std::atomic<size_t> calls = 0;
      const Status s = in_parallel(1000, threads, "kernels were built", [&](size_t) {
        ++calls;
        c.fail();
      });
      EXPECT_EQ(s.code(), c.code);
      EXPECT_NE(s.message().find(c.said), std::string::npos) << s.message();
      EXPECT_LE(calls, threads);  // nothing is begun after it
    }
  }
}

#if defined(__linux__)
TEST(InParallel, AsManyThreadsAsProcessorsThatItMayRunOn) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(platform::processors(), static_cast<unsigned>(CPU_COUNT(&all)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(platform::processors(), 1U);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const Status s = in_parallel(100, 0, "counting", [&](size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_TRUE(s.ok());
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}
#endif

}  // namespace
}  // namespace reprise
