// What a run that does not block does at its end: it calls the application, or was cancelled.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "contract.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

using namespace std::chrono_literals;

/// Counts calls at the ends of runs, and remembers by which run they were made.
class Calls {
 public:
  EndCall for_run(int run) {
    std::lock_guard lock(mutex_);
    tickets_.push_back(std::make_unique<Ticket>(Ticket{this, run}));
    return {[](void* user) {
              const auto& ticket = *static_cast<Ticket*>(user);
              ticket.calls->add(ticket.run);
            },
            tickets_.back().get()};
  }
  /// Waits until there were `n` calls, but not forever.
  bool wait_for(size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return order_.size() >= n; });
  }
  std::vector<int> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  struct Ticket {
    Calls* calls;
    int run;
  };
  void add(int run) {
    const std::lock_guard lock(mutex_);
    order_.push_back(run);
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Ticket>> tickets_;
  std::vector<int> order_;
};

class AsyncEndContract : public Contract {};

TEST_P(AsyncEndContract, EachSubmissionCallsOnceInTheirOrder) {
  if (on_host()) GTEST_SKIP() << "the host has ended a run before submit() returns";
  auto device = open();
  const bool takes_edges = device->takes_edges();
  auto s = session(chain(3, 0, true), device, {.max_in_flight = 3});
  ASSERT_TRUE(s);
  std::vector<std::unique_ptr<HostRun>> runs;
  for (const int64_t n : {1 << 18, 1, 100}) runs.push_back(std::make_unique<HostRun>(*s, n, 1.0F));
  Calls calls;
  std::vector<int> expected;
  for (size_t round = 0; round < 4; ++round) {
    for (int r = 0; r < 3; ++r) {
      const auto in_flight =
          runs[static_cast<size_t>(r)]->run->submit({.at_end = calls.for_run(r)});
      ASSERT_OK(in_flight.status());
      EXPECT_TRUE(*in_flight);
      expected.push_back(r);
    }
    // In one round the application waits first, in the next one the call comes first.
    if (round % 2 == 0) {
      ASSERT_TRUE(calls.wait_for(expected.size()));
    }
    for (auto& r : runs) {
      const auto ended = r->run->ended();
      ASSERT_OK(ended.status());
      if (round % 2 == 0) {
        EXPECT_TRUE(*ended);
      }
      ASSERT_OK(r->run->wait(r->results, nullptr));
      EXPECT_TRUE(r->is_right(3));
    }
    // wait() returns after the call.
    std::vector<int> order = calls.order();
    ASSERT_EQ(order.size(), expected.size());
    // CUDA runs them side by side, so that shorter ones may end first.
    if (takes_edges) std::sort(order.end() - 3, order.end());
    EXPECT_TRUE(std::equal(order.end() - 3, order.end(), expected.end() - 3));
  }
}

TEST_P(AsyncEndContract, TheCallMayEndTheRunAndSubmitItAgain) {
  if (on_host()) GTEST_SKIP() << "the host has ended a run before submit() returns";
  auto s = session(chain(2, 100, false), open(), {.max_in_flight = 1});
  ASSERT_TRUE(s);
  HostRun r(*s, 100, 1);
  struct Loop {
    HostRun& r;
    std::mutex mutex = {};
    std::condition_variable done = {};
    int rounds = 0, wrong = 0;
    static void next(void* user) {
      auto& loop = *static_cast<Loop*>(user);
      const std::lock_guard lock(loop.mutex);
      const bool good = loop.r.run->wait(loop.r.results, nullptr).ok() && loop.r.is_right(2);
      loop.wrong += good ? 0 : 1;
      loop.r.y.assign(loop.r.y.size(), -1);
      if (++loop.rounds < 20) {
        loop.wrong += loop.r.run->submit({.at_end = {next, user}}).ok() ? 0 : 1;
      } else {
        loop.done.notify_all();
      }
    }
  } loop{r};
  ASSERT_OK(r.run->submit({.at_end = {Loop::next, &loop}}).status());
  std::unique_lock lock(loop.mutex);
  ASSERT_TRUE(loop.done.wait_for(lock, 60s, [&] { return loop.rounds == 20; }));
  EXPECT_EQ(loop.wrong, 0);
}

// The run that is ended in the call stands behind the one that the call is for.
TEST_P(AsyncEndContract, TheCallMayEndAnotherRun) {
  if (on_host()) GTEST_SKIP() << "the host has ended a run before submit() returns";
  auto s = session(chain(2, 100, false), open(), {.max_in_flight = 2});
  ASSERT_TRUE(s);
  HostRun a(*s, 100, 1), b(*s, 100, 2);
  struct Chain {
    explicit Chain(HostRun& b) : other(b) {}
    HostRun& other;
    std::mutex submitted;
    Calls calls;
    EndCall of_other = calls.for_run(2), own = calls.for_run(1);
    bool right = false;
    static void end(void* user) {
      auto& chain = *static_cast<Chain*>(user);
      const std::lock_guard both(chain.submitted);
      chain.right = chain.other.run->wait(chain.other.results, nullptr).ok();
      chain.own.function(chain.own.user);
    }
  } chain(b);
  {
    const std::lock_guard both(chain.submitted);
    ASSERT_OK(a.run->submit({.at_end = {Chain::end, &chain}}).status());
    ASSERT_OK(b.run->submit({.at_end = chain.of_other}).status());
  }
  ASSERT_TRUE(chain.calls.wait_for(2));
  ASSERT_OK(a.run->wait(a.results, nullptr));
  EXPECT_TRUE(chain.right);
  EXPECT_EQ(chain.calls.order(), (std::vector<int>{2, 1}));
  EXPECT_TRUE(a.is_right(2) && b.is_right(2));
}

TEST_P(AsyncEndContract, ARunThatIsDestroyedWaitsForItsCall) {
  if (on_host()) GTEST_SKIP() << "the host has ended a run before submit() returns";
  auto s = session(chain(3, 1 << 16, false), open());
  ASSERT_TRUE(s);
  for (int i = 0; i < 5; ++i) {
    Calls calls;
    {
      HostRun r(*s, 1 << 16, 1);
      ASSERT_OK(r.run->submit({.at_end = calls.for_run(i)}).status());
    }
    EXPECT_EQ(calls.order(), std::vector<int>{i});
  }
}

TEST_P(AsyncEndContract, TheCallOfALateRunComes) {
  if (on_host()) GTEST_SKIP() << "the host has ended a run before submit() returns";
  auto s = session(chain(500, 1 << 12, false), open(), {.timeout_ns = 1});
  ASSERT_TRUE(s);
  HostRun r(*s, 1 << 12, 1);
  Calls calls;
  ASSERT_OK(r.run->submit({.at_end = calls.for_run(0)}).status());
  EXPECT_TRUE(calls.wait_for(1));
  const Status done = r.run->wait(r.results, nullptr);
  EXPECT_TRUE(done.ok() || done.code() == Code::Timeout) << done.message();
}

/// A launch, a host kernel, and a launch.
std::shared_ptr<const package::Package> with_a_host_kernel() {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)}), b = w.arena("b", DType::F32, {Expr(10)});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 1.0F)), {x, a}, {Expr(10)});
  w.host("Identity", {a}, {b});
  w.launch(w.kernel(affine_kernel("plus2", 1.0F, 2.0F)), {b, y}, {Expr(10)});
  return w.package();
}

TEST_P(AsyncEndContract, ACancelledRunLeavesOutWhatItHasNotBegun) {
  auto s = session(with_a_host_kernel(), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 10, 1);
  CancelFlag cancelled = true;
  for (int i = 0; i < 3; ++i) {
    r.y.assign(r.y.size(), -1);
    cancelled = true;
    const auto submitted = r.run->submit({.cancelled = &cancelled});
    const Status done = submitted.ok() ? r.run->wait(r.results, nullptr) : submitted.status();
    EXPECT_EQ(done.code(), Code::Cancelled) << done.message();
    EXPECT_EQ(r.y, std::vector<float>(10, -1));
    cancelled = false;  // nothing is left of it
    ASSERT_OK(r.run->submit({.cancelled = &cancelled}).status());
    ASSERT_OK(r.run->wait(r.results, nullptr));
    EXPECT_TRUE(r.is_right(3));
  }
  if (!on_host()) {
    EXPECT_EQ(s->stats().submits, 9U);  // one of each cancelled run, two of each other
  }
}

TEST_P(AsyncEndContract, HostKernelsThatFollowAreLeftOut) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 3.0F)), {x, a}, {Expr(10)});
  w.host("Identity", {a}, {y});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 10, 1);
  CancelFlag cancelled = true;
  const auto submitted = r.run->submit({.cancelled = &cancelled});
  const Status done = submitted.ok() ? r.run->wait(r.results, nullptr) : submitted.status();
  EXPECT_EQ(done.code(), Code::Cancelled) << done.message();
  EXPECT_EQ(r.y, std::vector<float>(10, 0));
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(3));
}

TEST_P(AsyncEndContract, ARunThatHasBegunEverythingIsNotCancelled) {
  if (on_host()) GTEST_SKIP() << "the host checks before each of its kernels";
  auto s = session(chain(3, 1000, false), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  const CancelFlag cancelled = true;
  ASSERT_OK(r.run->submit({.cancelled = &cancelled}).status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(3));
}

REPRISE_ON_ALL_DEVICES(AsyncEndContract);

}  // namespace
}  // namespace reprise::test
