// What applications that embed the library give it and ask of it: calls at the ends of runs,
// cancellation, threads, a memory budget, and another device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api_support.h"
#include "reprise/reprise.hpp"

namespace reprise::test {
namespace {

using namespace std::chrono_literals;

class Embedding : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto device = Device::open(GetParam());
    ASSERT_TRUE(device) << device.error().message;
    device_.emplace(std::move(*device));
    auto session = Session::create(package_, *device_);
    ASSERT_TRUE(session) << session.error().message;
    session_.emplace(std::move(*session));
  }
  static float expected(const std::string& device, float x) {
    return device == "host" ? 2 * x : x + 2;
  }
  std::optional<Device> device_;
  const Package package_{sample_package()};
  std::optional<Session> session_;
};

/// A flag that a call of the library sets.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  static void set(void* user) {
    auto& event = *static_cast<Event*>(user);
    const std::lock_guard lock(event.mutex);
    ++event.calls;
    event.changed.notify_all();
  }
  bool wait_for(int n) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 60s, [&] { return calls >= n; });
  }
};

TEST_P(Embedding, SubmissionsCallTheApplication) {
  auto run = reprise::Run::create(*session_);
  ASSERT_TRUE(run) << run.error().message;
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  EXPECT_EQ(run->bind({{"x", x.data(), {3}}}, {{"y", y.data(), {3}}}).status, REPRISE_OK);
  Event event;
  reprise_submit_options options = REPRISE_SUBMIT_OPTIONS_INIT;
  options.at_end = Event::set;
  options.at_end_user = &event;
  for (int i = 1; i <= 3; ++i) {
    y.assign(3, -1);
    const Error submitted = run->submit(&options);
    ASSERT_EQ(submitted.status, REPRISE_OK) << submitted.message;
    ASSERT_TRUE(event.wait_for(i));
    const auto ended = run->ended();
    EXPECT_TRUE(ended && *ended);
    EXPECT_EQ(run->wait_only().status, REPRISE_OK);
    EXPECT_EQ(event.calls, i);
    for (size_t e = 0; e < 3; ++e) EXPECT_EQ(y[e], expected(GetParam(), x[e]));
  }
  // There is nothing to cancel, and what was asked for then does not concern the next run.
  EXPECT_EQ(run->cancel().status, REPRISE_OK);
  EXPECT_EQ(run->submit().status, REPRISE_OK);
  EXPECT_EQ(run->wait_only().status, REPRISE_OK);
}

TEST_P(Embedding, TheApplicationMayEndARunInTheCall) {
  struct Chain {
    reprise::Run* run = nullptr;
    Event event;
    std::atomic<int> failures = 0;
    static void end(void* user) {
      auto& chain = *static_cast<Chain*>(user);
      if (chain.run->wait_only().status != REPRISE_OK) ++chain.failures;
      Event::set(&chain.event);
    }
  } chain;
  auto run = reprise::Run::create(*session_);
  ASSERT_TRUE(run);
  chain.run = &*run;
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  EXPECT_EQ(run->bind({{"x", x.data(), {3}}}, {{"y", y.data(), {3}}}).status, REPRISE_OK);
  reprise_submit_options options = REPRISE_SUBMIT_OPTIONS_INIT;
  options.at_end = Chain::end;
  options.at_end_user = &chain;
  ASSERT_EQ(run->submit(&options).status, REPRISE_OK);
  ASSERT_TRUE(chain.event.wait_for(1));
  EXPECT_EQ(chain.failures, 0);
  EXPECT_EQ(y[2], expected(GetParam(), 3));
  const Error again = run->wait_only();
  EXPECT_EQ(again.status, REPRISE_USAGE) << again.message;
}

/// A run that its own call at the end submits again, and how deep calls were nested.
struct Loop {
  reprise::Run* run = nullptr;
  int rounds = 0;  // that are left
  Event event = {};
  int depth = 0, deepest = 0, failures = 0;

  reprise_submit_options options() {
    reprise_submit_options o = REPRISE_SUBMIT_OPTIONS_INIT;
    o.at_end = next;
    o.at_end_user = this;
    return o;
  }
  static void next(void* user) {
    auto& loop = *static_cast<Loop*>(user);
    loop.deepest = std::max(loop.deepest, ++loop.depth);
    if (loop.run->wait_only().status != REPRISE_OK) ++loop.failures;
    if (--loop.rounds > 0) {
      const reprise_submit_options o = loop.options();
      if (loop.run->submit(&o).status != REPRISE_OK) ++loop.failures;
    }
    const bool last = loop.rounds == 0;
    --loop.depth;
    if (last) Event::set(&loop.event);
  }
};

TEST_P(Embedding, ARunThatSubmitsItselfAgainNeedsNoMoreStack) {
  auto run = reprise::Run::create(*session_);
  ASSERT_TRUE(run);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  EXPECT_EQ(run->bind({{"x", x.data(), {3}}}, {{"y", y.data(), {3}}}).status, REPRISE_OK);
  Loop loop{.run = &*run, .rounds = 200};
  const reprise_submit_options options = loop.options();
  ASSERT_EQ(run->submit(&options).status, REPRISE_OK);
  ASSERT_TRUE(loop.event.wait_for(1));
  EXPECT_EQ(loop.failures, 0);
  EXPECT_EQ(loop.deepest, 1);
}

// The call of a run comes before a call that waits for that run, or frees it, has returned.
TEST_P(Embedding, ACallThatWaitsForAnotherRunSeesTheCallOfThat) {
  auto outer = reprise::Run::create(*session_), inner = reprise::Run::create(*session_);
  ASSERT_TRUE(outer && inner);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3), z(3);
  EXPECT_EQ(outer->bind({{"x", x.data(), {3}}}, {{"y", y.data(), {3}}}).status, REPRISE_OK);
  EXPECT_EQ(inner->bind({{"x", x.data(), {3}}}, {{"y", z.data(), {3}}}).status, REPRISE_OK);
  struct Nest {
    std::optional<reprise::Run> inner;
    Event of_inner = {}, done = {};
    std::vector<int> calls = {};
    static void end(void* user) {
      auto& nest = *static_cast<Nest*>(user);
      for (int i = 0; i < 2; ++i) {
        reprise_submit_options o = REPRISE_SUBMIT_OPTIONS_INIT;
        o.at_end = Event::set;
        o.at_end_user = &nest.of_inner;
        EXPECT_EQ(nest.inner->submit(&o).status, REPRISE_OK);
        if (i == 0) {
          EXPECT_EQ(nest.inner->wait_only().status, REPRISE_OK);
        } else {
          nest.inner.reset();
        }
        nest.calls.push_back(nest.of_inner.calls);
      }
      Event::set(&nest.done);
    }
  } nest{.inner = std::move(*inner)};
  reprise_submit_options options = REPRISE_SUBMIT_OPTIONS_INIT;
  options.at_end = Nest::end;
  options.at_end_user = &nest;
  ASSERT_EQ(outer->submit(&options).status, REPRISE_OK);
  ASSERT_TRUE(nest.done.wait_for(1));
  EXPECT_EQ(nest.calls, (std::vector<int>{1, 2}));
  EXPECT_EQ(outer->wait_only().status, REPRISE_OK);
}

// Devices make the call of the inner run within the wait for it, the host before that.
TEST_P(Embedding, ARunIsEndedByItsCallOrByTheWaitThatMakesTheCall) {
  auto outer = reprise::Run::create(*session_), inner = reprise::Run::create(*session_);
  ASSERT_TRUE(outer && inner);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3), z(3);
  EXPECT_EQ(outer->bind({{"x", x.data(), {3}}}, {{"y", y.data(), {3}}}).status, REPRISE_OK);
  EXPECT_EQ(inner->bind({{"x", x.data(), {3}}}, {{"y", z.data(), {3}}}).status, REPRISE_OK);
  struct Nest {
    reprise::Run* inner = nullptr;
    Error in_call = {}, by_wait = {};
    Event done = {};
    static void end_inner(void* user) {
      auto& nest = *static_cast<Nest*>(user);
      nest.in_call = nest.inner->wait_only();
    }
    static void end_outer(void* user) {
      auto& nest = *static_cast<Nest*>(user);
      reprise_submit_options o = REPRISE_SUBMIT_OPTIONS_INIT;
      o.at_end = end_inner;
      o.at_end_user = user;
      EXPECT_EQ(nest.inner->submit(&o).status, REPRISE_OK);
      nest.by_wait = nest.inner->wait_only();
      Event::set(&nest.done);
    }
  } nest{.inner = &*inner};
  reprise_submit_options options = REPRISE_SUBMIT_OPTIONS_INIT;
  options.at_end = Nest::end_outer;
  options.at_end_user = &nest;
  ASSERT_EQ(outer->submit(&options).status, REPRISE_OK);
  ASSERT_TRUE(nest.done.wait_for(1));
  EXPECT_EQ(outer->wait_only().status, REPRISE_OK);
  for (size_t e = 0; e < 3; ++e) EXPECT_EQ(z[e], expected(GetParam(), x[e]));
  if (nest.by_wait.status == REPRISE_OK) {
    EXPECT_EQ(nest.in_call.status, REPRISE_USAGE);
    EXPECT_NE(nest.in_call.message.find("use the run in one of the two"), std::string::npos)
        << nest.in_call.message;
  } else {
    EXPECT_EQ(nest.by_wait.status, REPRISE_USAGE) << nest.by_wait.message;
    EXPECT_EQ(nest.in_call.status, REPRISE_OK) << nest.in_call.message;
  }
}

TEST_P(Embedding, SessionsMoveToAnotherDevice) {
  auto run = reprise::Run::create(*session_);
  ASSERT_TRUE(run);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  const std::vector<Tensor> in{{"x", x.data(), {3}}}, out{{"y", y.data(), {3}}};
  EXPECT_EQ(run->bind(in, out).status, REPRISE_OK);
  reprise_session_info before = REPRISE_SESSION_INFO_INIT;
  ASSERT_EQ(reprise_session_get_info(session_->get(), &before, nullptr), REPRISE_OK);
  const std::string variant = before.variant;
  for (const std::string& id : session_devices()) {
    auto next = Device::open(id);
    ASSERT_TRUE(next) << next.error().message;
    const Error moved = session_->reopen(*next);
    ASSERT_EQ(moved.status, REPRISE_OK) << moved.message;
    // A run object stays where it was bound until it is bound again.
    EXPECT_EQ(run->submit().status, REPRISE_OK);
    EXPECT_EQ(run->wait_only().status, REPRISE_OK);
    EXPECT_EQ(run->bind(in, out).status, REPRISE_OK);
    y.assign(3, -1);
    EXPECT_EQ(run->submit().status, REPRISE_OK);
    EXPECT_EQ(run->wait_only().status, REPRISE_OK);
    EXPECT_EQ(y[1], expected(id, 2)) << id;
    auto blocking = session_->run(in);
    ASSERT_TRUE(blocking) << blocking.error().message;
    EXPECT_EQ(blocking->front().as<float>()[1], expected(id, 2)) << id;
    reprise_session_info info = REPRISE_SESSION_INFO_INIT;
    ASSERT_EQ(reprise_session_get_info(session_->get(), &info, nullptr), REPRISE_OK);
    EXPECT_EQ(std::string(info.variant) == "host", id == "host");
  }
  EXPECT_EQ(before.variant, variant);  // texts live as long as the session
  reprise_error error{};
  EXPECT_EQ(reprise_session_reopen(session_->get(), nullptr, &error), REPRISE_USAGE);
  EXPECT_TRUE(session_->run(in));
}

TEST_P(Embedding, TheBudgetLimitsSessionsAndBuffers) {
  if (GetParam() == "host") {
    EXPECT_EQ(device_->set_memory_budget(1).status, REPRISE_OK);
    EXPECT_FALSE(Buffer::create(*device_, 64));
    return;
  }
  auto kept = Buffer::create(*device_, 1 << 20);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(device_->set_memory_budget((1 << 20) + 100).status, REPRISE_OK);
  auto refused = Buffer::create(*device_, 4096);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, REPRISE_OUT_OF_MEMORY);
  EXPECT_NE(refused.error().message.find("budget"), std::string::npos) << refused.error().message;
  EXPECT_EQ(device_->set_memory_budget(0).status, REPRISE_OK);
  EXPECT_TRUE(Buffer::create(*device_, 4096));
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.memory_budget = 1000;
  auto small = Device::open(GetParam(), &options);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_FALSE(Buffer::create(*small, 1001));
  EXPECT_TRUE(Buffer::create(*small, 1000));
}

TEST_P(Embedding, AnExecutorReplacesThreads) {
  struct Pool {
    std::mutex mutex;
    int calls = 0;
    static void run(void* user, void (*task)(void*, size_t), void* context, size_t count) {
      auto& pool = *static_cast<Pool*>(user);
      {
        const std::lock_guard lock(pool.mutex);
        ++pool.calls;
      }
      std::vector<std::thread> workers;
      for (size_t i = count; i-- > 0;) workers.emplace_back([=] { task(context, i); });
      for (auto& w : workers) w.join();
    }
  } pool;
  reprise_executor executor = REPRISE_EXECUTOR_INIT;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.executor = &executor;
  auto refused = Device::open(GetParam(), &options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("`run` is null"), std::string::npos)
      << refused.error().message;
  executor.run = Pool::run;
  executor.user = &pool;
  auto device = Device::open(GetParam(), &options);
  ASSERT_TRUE(device) << device.error().message;
  const Package several(package_of_kernels(3));
  auto session = Session::create(several, *device);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(pool.calls, GetParam() == "host" ? 0 : 1);
  const std::vector<float> x{1, 2, 3};
  auto y = session->run({{"x", x.data(), {3}}});
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(y->front().as<float>()[0], 4.0F);
}

TEST_P(Embedding, AnExecutorMayLeaveOutTasks) {
  const Package several(package_of_kernels(4));
  for (const size_t done : {size_t{0}, size_t{1}}) {
    size_t tasks = done;
    reprise_executor executor = REPRISE_EXECUTOR_INIT;
    executor.run = [](void* user, void (*task)(void*, size_t), void* context, size_t) {
      for (size_t i = 0; i < *static_cast<size_t*>(user); ++i) task(context, i);
    };
    executor.user = &tasks;
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.executor = &executor;
    auto device = Device::open(GetParam(), &options);
    ASSERT_TRUE(device) << device.error().message;
    auto session = Session::create(several, *device);
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<float> x{1, 2, 3};
    auto y = session->run({{"x", x.data(), {3}}});
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(y->front().as<float>()[0], 5.0F);
  }
}

// Handles of another VkDevice mean nothing to one that the library opened itself.
TEST_P(Embedding, OnlyALentDeviceBorrows) {
  const auto borrowed = Buffer::borrow(*device_, 1, 64);
  ASSERT_FALSE(borrowed);
  EXPECT_EQ(borrowed.error().status, REPRISE_USAGE);
  EXPECT_NE(borrowed.error().message.find(GetParam() == "host" ? "no buffers" : "that lends"),
            std::string::npos)
      << borrowed.error().message;
}

INSTANTIATE_TEST_SUITE_P(Devices, Embedding, testing::ValuesIn(session_devices()),
                         [](const auto& which) { return as_test_name(which.param); });

}  // namespace
}  // namespace reprise::test
