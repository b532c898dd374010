// Sessions that never run at the same time share the memory of their intermediate tensors.
#include <array>
#include <atomic>
#include <thread>

#include "contract.h"
#include "runtime/run/shared_arena.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

constexpr int64_t kCount = 1 << 18;  // elements; 1 MB

class ArenaOfSessions : public DeviceContract {
 protected:
  void SetUp() override {
    DeviceContract::SetUp();
    if (!device_) return;
    options_.arena = std::make_shared<SharedArena>(device_);
  }
  std::unique_ptr<Session> make(size_t launches, int64_t n, bool dynamic = false) {
    return session(chain(launches, n, dynamic), device_, options_);
  }
  static void expect_right(Session& s, int64_t n, float launches) {
    HostRun r(s, n, 1);
    ASSERT_OK(r.submit());
    ASSERT_OK(r.wait());
    EXPECT_TRUE(r.is_right(launches));
  }

  SessionOptions options_;
};

TEST_P(ArenaOfSessions, ItIsAsLargeAsTheLargestNeed) {
  const auto small = make(3, kCount / 4), large = make(4, kCount);
  ASSERT_TRUE(small && large);
  expect_right(*small, kCount / 4, 3);
  const uint64_t first = options_.arena->bytes();
  EXPECT_GE(first, 4U * kCount / 4);
  expect_right(*large, kCount, 4);
  const uint64_t both = options_.arena->bytes();
  for (int i = 0; i < 3; ++i) {
    expect_right(*small, kCount / 4, 3);
    expect_right(*large, kCount, 4);
  }
  EXPECT_EQ(options_.arena->bytes(), both);
  // Alone, the large one has as much.
  options_.arena = std::make_shared<SharedArena>(device_);
  const auto alone = make(4, kCount);
  expect_right(*alone, kCount, 4);
  EXPECT_EQ(options_.arena->bytes(), both);
}

TEST_P(ArenaOfSessions, RunsTakeTurns) {
  const auto a = make(3, kCount), b = make(4, kCount);
  ASSERT_TRUE(a && b);
  HostRun first(*a, kCount, 1), second(*b, kCount, 2);
  ASSERT_OK(first.submit());
  const Status busy = second.submit();
  EXPECT_EQ(busy.code(), Code::Busy) << busy.message();
  const HostTensor x = floats({kCount}, ramp(kCount));
  const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
  EXPECT_EQ(b->run(inputs).status().code(), Code::Busy) << "the caller must end the first run";
  ASSERT_OK(first.wait());
  EXPECT_TRUE(first.is_right(3));
  ASSERT_OK(second.submit());
  ASSERT_OK(second.wait());
  EXPECT_TRUE(second.is_right(4));
}

TEST_P(ArenaOfSessions, CallsOfManyThreadsWait) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < 4; ++i) sessions.push_back(make(2 + i, 0, true));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        const auto n = static_cast<int64_t>(1000 * (1 + (t + static_cast<size_t>(i)) % 5));
        const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
        const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
        const auto out = sessions[t % 4]->run(inputs);
        const auto launches = static_cast<float>(2 + t % 4);
        if (!out.ok() || !is_sum(values((*out)[0]), x, launches)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ArenaOfSessions, IdleMemoryIsFreed) {
  const auto s = make(3, kCount);
  expect_right(*s, kCount, 3);
  EXPECT_GT(options_.arena->bytes(), 0U);
  device_->idle_memory().free_all();
  EXPECT_EQ(options_.arena->bytes(), 0U);
  expect_right(*s, kCount, 3);
}

TEST_P(ArenaOfSessions, AnArenaOfAnotherDeviceIsRefused) {
  const auto other = open();
  const auto refused = Session::create(chain(2, 10, false), other, options_);
  EXPECT_EQ(refused.status().code(), Code::Usage);
  EXPECT_NE(refused.status().message().find("arena"), std::string::npos);
}

REPRISE_ON_ALL_DEVICES(ArenaOfSessions);

}  // namespace
}  // namespace reprise::test
