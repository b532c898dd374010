// How runs share the memory of a device: the budget, and the line of those that lack memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fake_device.h"
#include "runtime/session/session.h"
#include "tests/support/buffer_ids.h"

namespace reprise::test {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kElements = 1 << 16;

// x -> large -> y, so that a run needs 256 KiB of intermediate memory.
std::shared_ptr<const package::Package> large_model() {
  const Shape small{Expr(4)}, large{Expr(kElements)};
  package::Package p;
  p.model_name = "large";
  p.io.inputs = {{"x", DType::F32, small}};
  p.io.outputs = {{"y", DType::F32, small}};
  p.variants.resize(1);
  p.variants[0].name = "only";
  plan::Plan& plan = p.variants[0].plan;
  plan.buffers = {{"x", plan::BufferKind::Input, 0, DType::F32, small},
                  {"large", plan::BufferKind::Arena, 0, DType::F32, large},
                  {"y", plan::BufferKind::Output, 0, DType::F32, small}};
  plan.kernels.resize(2);
  plan.kernels[0].name = "spread";
  plan.kernels[1].name = "gather";
  plan.steps.resize(2);
  for (int k = 0; k < 2; ++k) {
    const auto step = static_cast<size_t>(k);
    plan.kernels[step].n_buffers = 2;
    plan::Launch launch;
    launch.kernel = static_cast<uint32_t>(k);
    launch.grid = {Expr(1), Expr(1), Expr(1)};
    launch.buffers = buffers(k, k + 1);
    launch.writes = {false, true};
    launch.nodes = {plan.kernels[step].name};
    plan.steps[step].what = launch;
  }
  plan::compute_hazards(plan);
  plan::HostCall call;
  call.op = "Identity";
  call.node = "identity";
  call.inputs = buffers(0);
  call.outputs = buffers(1);
  p.host_plan.buffers = {{"x", plan::BufferKind::Input, 0, DType::F32, small},
                         {"y", plan::BufferKind::Output, 0, DType::F32, small}};
  p.host_plan.steps.resize(1);
  p.host_plan.steps[0].what = call;
  plan::compute_hazards(p.host_plan);
  return std::make_shared<package::Package>(std::move(p));
}

std::shared_ptr<FakeDevice> slow_device(std::chrono::microseconds takes) {
  const auto spread = [takes](const FakeLaunch& l) {
    for (int64_t i = 0; i < kElements; ++i) l.buffer(1)[i] = l.buffer(0)[i % 4];
    std::this_thread::sleep_for(takes);
  };
  const auto gather = [](const FakeLaunch& l) {
    for (int64_t i = 0; i < 4; ++i) l.buffer(1)[i] = l.buffer(0)[kElements - 4 + i];
  };
  return std::make_shared<FakeDevice>(
      true, std::map<std::string, FakeKernelFunction>{{"spread", spread}, {"gather", gather}});
}

Status run_once(Session& session, float value) {
  const HostTensor x = HostTensor::from<float>(DType::F32, {4}, std::vector<float>(4, value));
  RP_ASSIGN(const auto y, session.run({{{.name = "x", .host = &x}}}));
  const float* got = y[0].data<float>();
  if (got[0] == value && got[3] == value) return {};
  return internal_error("wrong result");
}

TEST(MemoryBudget, IsGivenBackWithTheMemory) {
  auto device = slow_device(0us);
  device->memory_budget().set_most(1000);
  {
    const auto a = device->allocate_or_free_idle(600, MemoryUse::Device);
    ASSERT_TRUE(a.ok());
    const auto b = device->allocate_or_free_idle(600, MemoryUse::Device);
    ASSERT_EQ(b.status().code(), Code::OutOfMemory);
    for (const char* part : {"600 bytes", "fake:0", "600 of 1000", "raise the budget"})
      EXPECT_NE(b.status().message().find(part), std::string::npos) << b.status().message();
    EXPECT_EQ(device->memory_budget().used(), 600U);
  }
  EXPECT_EQ(device->memory_budget().used(), 0U);
  EXPECT_TRUE(device->allocate_or_free_idle(1000, MemoryUse::Device).ok());
  device->memory_budget().set_most(0);
  EXPECT_TRUE(device->allocate_or_free_idle(5000, MemoryUse::Device).ok());
}

TEST(MemoryBudget, RunsOfOneThreadFreeWhatIdleSessionsKeep) {
  auto device = slow_device(0us);
  auto a = Session::create(large_model(), device), b = Session::create(large_model(), device);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(run_once(**a, 1).ok());
  const uint64_t one_run = device->memory_budget().used();
  device->memory_budget().set_most(one_run + 4096);
  for (int i = 0; i < 4; ++i) {
    const Status done = run_once(i % 2 == 0 ? **b : **a, static_cast<float>(i));
    EXPECT_TRUE(done.ok()) << done.message();
    EXPECT_LE(device->memory_budget().used(), one_run + 4096);
  }
  // Nothing to wait for: the error comes at once.
  device->idle_memory().free_all();
  device->memory_budget().set_most(4096 + 100'000);
  const Status starved = run_once(**a, 1);
  EXPECT_EQ(starved.code(), Code::OutOfMemory) << starved.message();
  device->memory_budget().set_most(0);
  EXPECT_TRUE(run_once(**a, 1).ok());
}

TEST(MemoryQueue, ThreadsWaitForEachOthersMemory) {
  auto device = slow_device(300us);
  constexpr size_t kSessions = 3, kThreads = 6;
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t t = 0; t < kSessions; ++t) {
    auto made = Session::create(large_model(), device, {.max_in_flight = 1});
    ASSERT_TRUE(made.ok()) << made.status().message();
    sessions.push_back(*std::move(made));
  }
  ASSERT_TRUE(run_once(*sessions[0], 1).ok());
  device->memory_budget().set_most(device->memory_budget().used() + 4096);
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const Status done = run_once(*sessions[t % kSessions], static_cast<float>(t));
        if (done.ok()) continue;
        ++failed;
        ADD_FAILURE() << done.message();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 0);
}

TEST(MemoryQueue, ServesInTheOrderOfArrival) {
  MemoryQueue queue;
  MemoryQueue::Use holder(queue);
  holder.begin();
  holder.has_enough();
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      MemoryQueue::Use use(queue);
      use.begin();  // those that come later wait here
      if (t == 0) {
        use.end();
        EXPECT_TRUE(use.wait());
        use.begin();
      }
      {
        const std::lock_guard lock(mutex);
        order.push_back(t);
      }
      use.has_enough();
    });
    while (queue.in_line() <= static_cast<uint64_t>(t)) std::this_thread::yield();
  }
  EXPECT_TRUE(order.empty());
  holder.end();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

// Whatever ends a run that was in line, the next one gets its turn.
TEST(MemoryQueue, ALineGoesOnWithoutItsFirst) {
  MemoryQueue queue;
  MemoryQueue::Use holder(queue);
  holder.begin();
  {
    MemoryQueue::Use first(queue);
    first.begin();
    first.end();
    holder.end();
    ASSERT_TRUE(first.wait());
    EXPECT_EQ(queue.in_line(), 1U);
    first.begin();  // and an error that has nothing to do with memory
  }
  EXPECT_EQ(queue.in_line(), 0U);
  MemoryQueue::Use next(queue);
  next.begin();
  next.has_enough();
}

TEST(MemoryQueue, ARunAloneDoesNotWait) {
  MemoryQueue queue;
  MemoryQueue::Use use(queue);
  use.begin();
  use.end();
  EXPECT_FALSE(use.wait());
  // What another attempt has freed meanwhile may be enough.
  use.begin();
  MemoryQueue::Use other(queue);
  other.begin();
  other.end();
  use.end();
  EXPECT_TRUE(use.wait());
  use.begin();
  use.end();
  EXPECT_FALSE(use.wait());
}

}  // namespace
}  // namespace reprise::test
