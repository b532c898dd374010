// Runs that do not block their caller.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <thread>

#include "contract.h"
#include "lend.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class AsyncContract : public Contract {};

TEST_P(AsyncContract, ARunIsSubmittedAgainAndAgain) {
  auto s = session(chain(3, 1000, false), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  for (int i = 0; i < 3; ++i) {
    r.y.assign(r.y.size(), -1);
    ASSERT_OK(r.run->submit().status());
    EXPECT_EQ(r.run->submit().status().code(), Code::Usage);
    EXPECT_EQ(r.run->bind(r.inputs, r.outputs).code(), Code::Usage);
    RunStats stats;
    ASSERT_OK(r.run->wait(r.results, &stats));
    EXPECT_TRUE(r.is_right(3));
    EXPECT_GT(stats.total_us, 0);
    ASSERT_EQ(r.results.size(), 1U);
    EXPECT_EQ(r.results[0].dims(), std::vector<int64_t>{1000});
    EXPECT_EQ(r.run->wait(r.results, nullptr).code(), Code::Usage);
  }
  EXPECT_EQ(s->stats().runs, 3U);
  if (!on_host()) {
    EXPECT_EQ(s->stats().recordings, 1U);
    EXPECT_EQ(s->stats().submits, 3U);
  }
  auto unbound = s->make_run();
  ASSERT_OK(unbound.status());
  EXPECT_EQ((*unbound)->submit().status().code(), Code::Usage);
}

TEST_P(AsyncContract, PollingEndsARun) {
  auto s = session(chain(4, 1 << 18, false), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 1 << 18, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(r.run->submit().status());
    for (bool ended = false; !ended; std::this_thread::yield()) {
      const auto answer = r.run->ended();
      ASSERT_OK(answer.status());
      ended = *answer;
    }
    ASSERT_OK(r.run->wait(r.results, nullptr));
    EXPECT_TRUE(r.is_right(4));
  }
}

TEST_P(AsyncContract, SeveralRunsAreInFlight) {
  auto s = session(chain(2, 0, true), open(), {.max_in_flight = 3});
  ASSERT_TRUE(s);
  std::vector<std::unique_ptr<HostRun>> runs;
  for (const int64_t n : {100, 5000, 1})
    runs.push_back(std::make_unique<HostRun>(*s, n, static_cast<float>(n)));
  HostRun more(*s, 10, 1);
  for (int round = 0; round < 4; ++round) {
    for (auto& r : runs) {
      r->y.assign(r->y.size(), -1);
      ASSERT_OK(r->run->submit().status());
    }
    if (!on_host()) {
      const Status full = more.run->submit().status();
      EXPECT_EQ(full.code(), Code::Busy);
      EXPECT_NE(full.message().find("3 runs"), std::string::npos) << full.message();
      // A blocking run would wait for this very thread.
      EXPECT_EQ(s->run(more.inputs).status().code(), Code::Busy);
    }
    std::rotate(runs.begin(), runs.begin() + 1, runs.end());  // another order
    for (auto& r : runs) {
      ASSERT_OK(r->run->wait(r->results, nullptr));
      EXPECT_TRUE(r->is_right(2)) << r->y.size();
    }
    ASSERT_OK(more.run->submit().status());
    ASSERT_OK(more.run->wait(more.results, nullptr));
    EXPECT_TRUE(more.is_right(2));
  }
  EXPECT_EQ(s->stats().runs, 16U);
}

TEST_P(AsyncContract, ARunMayBeDestroyedInFlight) {
  auto device = open();
  auto s = session(chain(3, 1 << 16, false), device, {.max_in_flight = 1});
  ASSERT_TRUE(s);
  for (int i = 0; i < 3; ++i) {
    HostRun r(*s, 1 << 16, 1);
    ASSERT_OK(r.run->submit().status());
  }
  HostRun r(*s, 1 << 16, 2);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(3));
}

TEST_P(AsyncContract, HostCallsFollowTheDevice) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)}), b = w.arena("b", DType::F32, {Expr(10)});
  w.launch(w.kernel(affine_kernel("minus", 1.0F, -5.0F)), {x, a}, {Expr(10)});
  w.host("Relu", {a}, {b});
  w.launch(w.kernel(affine_kernel("twice", 2.0F, 0.0F)), {b, y}, {Expr(10)});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 10, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, nullptr));
    EXPECT_EQ(r.y, (std::vector<float>{0, 0, 0, 0, 0, 0, 2, 4, 6, 8}));
  }
  const SubmitSync::Point point{1, 1};
  EXPECT_EQ(r.run->submit({.sync = {{}, {&point, 1}}}).status().code(), Code::Unsupported);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
}

TEST_P(AsyncContract, LateRunsAreErrorsOfTheirOwn) {
  auto device = open();
  constexpr size_t kLaunches = 500;  // long enough for any GPU to be late
  const auto package = chain(kLaunches, 1 << 12, false);
  auto late = session(package, device, {.timeout_ns = 1});
  auto other = session(package, device);
  ASSERT_TRUE(late && other);
  HostRun r(*late, 1 << 12, 1), good(*other, 1 << 12, 1);
  int late_runs = 0;
  for (int i = 0; i < 6; ++i) {
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(good.run->submit().status());
    Status done;
    if (i % 2 == 0) {
      Result<bool> ended = false;
      while (ended.ok() && !*ended) ended = r.run->ended();
      done = ended.ok() ? r.run->wait(r.results, nullptr) : ended.status();
    } else {
      done = r.run->wait(r.results, nullptr);
    }
    if (!done.ok()) {
      EXPECT_EQ(done.code(), Code::Timeout) << done.message();
      ++late_runs;
    }
    ASSERT_OK(good.run->wait(good.results, nullptr));
    EXPECT_TRUE(good.is_right(kLaunches));
    // The context of a late run is in flight until it ends.
    Status again = Status(Code::Busy, "");
    while (again.code() == Code::Busy) again = r.run->submit().status();
    ASSERT_OK(again);
    done = r.run->wait(r.results, nullptr);
    EXPECT_TRUE(done.ok() || done.code() == Code::Timeout) << done.message();
  }
  EXPECT_GT(late_runs, 0);
}

TEST_P(AsyncContract, TimeOfTheCallerIsNotThatOfTheRun) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)}), b = w.arena("b", DType::F32, {Expr(10)});
  w.launch(w.kernel(affine_kernel("minus", 1.0F, -5.0F)), {x, a}, {Expr(10)});
  w.host("Relu", {a}, {b});
  w.launch(w.kernel(affine_kernel("twice", 2.0F, 0.0F)), {b, y}, {Expr(10)});
  constexpr uint64_t kLimit = kSecond;
  auto s = session(w.package(), open(), {.timeout_ns = kLimit});
  ASSERT_TRUE(s);
  HostRun r(*s, 10, 1);
  ASSERT_OK(r.run->submit().status());
  std::this_thread::sleep_for(std::chrono::nanoseconds(kLimit + kLimit / 5));
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_EQ(r.y, (std::vector<float>{0, 0, 0, 0, 0, 0, 2, 4, 6, 8}));
}

TEST_P(AsyncContract, WaitsNeedALaunchToHoldBack) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)});
  w.host("Relu", {x}, {a});
  w.launch(w.kernel(affine_kernel("twice", 2.0F, 0.0F)), {a, y}, {Expr(10)});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 10, 1);
  const SubmitSync::Point point{1, 1};
  EXPECT_EQ(r.run->submit({.sync = {{&point, 1}, {}}}).status().code(), Code::Unsupported);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_EQ(r.y[9], 18.0F);
}

TEST_P(AsyncContract, SemaphoresOfTheApplicationOrderRuns) {
  const std::string id = GetParam();
  const size_t index = std::stoul(id.substr(id.find(':') + 1));
  const bool vulkan = id.starts_with("vulkan");
  const Lender lender = vulkan ? lend_vulkan(index) : lend_cuda(index);
  {
    auto device = open(lender.options);
    auto s = session(chain(2, 100, false), device);
    ASSERT_TRUE(s);
    HostRun r(*s, 100, 1);
    if (!vulkan) {
      const SubmitSync::Point point{1, 1};
      EXPECT_EQ(r.run->submit({.sync = {{&point, 1}, {}}}).status().code(), Code::Unsupported);
      return;
    }
    const uint64_t before = lender.make_semaphore(), after = lender.make_semaphore();
    for (uint64_t i = 1; i < 4; ++i) {
      const SubmitSync::Point wait{before, i}, signal{after, 10 * i};
      ASSERT_OK(r.run->submit({.sync = {{&wait, 1}, {&signal, 1}}}).status());
      EXPECT_FALSE(lender.wait_for(after, 10 * i, kSecond / 50));
      const auto ended = r.run->ended();
      ASSERT_OK(ended.status());
      EXPECT_FALSE(*ended);
      lender.signal(before, i);
      EXPECT_TRUE(lender.wait_for(after, 10 * i, 60 * kSecond));
      ASSERT_OK(r.run->wait(r.results, nullptr));
      EXPECT_TRUE(r.is_right(2));
    }
    const SubmitSync::Point none{0, 1};
    EXPECT_EQ(r.run->submit({.sync = {{&none, 1}, {}}}).status().code(), Code::Usage);
    const std::vector<SubmitSync::Point> many(SubmitSync::kMost + 1, {before, 1});
    EXPECT_EQ(r.run->submit({.sync = {many, {}}}).status().code(), Code::Usage);
    ASSERT_OK(r.run->submit().status());
    ASSERT_OK(r.run->wait(r.results, nullptr));
  }
  EXPECT_TRUE(lender.unharmed());
}

TEST_P(AsyncContract, ARunIsPartOfACommandBuffer) {
  const std::string id = GetParam();
  const size_t index = std::stoul(id.substr(id.find(':') + 1));
  const bool vulkan = id.starts_with("vulkan");
  const Lender lender = vulkan ? lend_vulkan(index) : lend_cuda(index);
  {
    auto device = open(lender.options);
    auto s = session(chain(3, 0, true), device);
    ASSERT_TRUE(s);
    auto memory = device->borrow(lender.memory, 384);
    ASSERT_OK(memory.status());
    const std::array<Binding, 1> inputs{{{.name = "x", .device = memory->get(), .dims = {48}}}};
    const std::array<Binding, 1> outputs{
        {{.name = "y", .device = memory->get(), .device_offset = 192}}};
    auto run = s->make_run();
    ASSERT_OK(run.status());
    ASSERT_OK((*run)->bind(inputs, outputs));
    int nothing = 0;
    if (!vulkan) {
      EXPECT_EQ((*run)->record(&nothing).code(), Code::Unsupported);
      return;
    }
    std::vector<HostTensor> results;
    for (const float value : {2.5F, -1.0F}) {
      Status recorded;
      const std::vector<float> out = lender.execute(
          std::bit_cast<uint32_t>(value),
          [&](void* commands) { recorded = (*run)->record(commands); }, 2);
      ASSERT_OK(recorded);
      const auto ended = (*run)->ended();
      ASSERT_OK(ended.status());
      EXPECT_TRUE(*ended);
      EXPECT_EQ((*run)->record(&nothing).code(), Code::Usage);
      ASSERT_OK((*run)->wait(results, nullptr));
      for (size_t i = 0; i < 48; ++i) {
        ASSERT_EQ(out[i], value);
        ASSERT_EQ(out[48 + i], value + 3) << i;
      }
    }
    EXPECT_EQ((*run)->record(nullptr).code(), Code::Usage);
    // Host memory: copied when it is recorded, and read when the run is waited for.
    HostRun host(*s, 100, 3);
    Status recorded;
    lender.execute(
        0, [&](void* commands) { recorded = host.run->record(commands); }, 2);
    ASSERT_OK(recorded);
    ASSERT_OK(host.run->wait(host.results, nullptr));
    EXPECT_TRUE(host.is_right(3));
    EXPECT_EQ(s->stats().submits, 0U);
    ASSERT_OK((*run)->submit().status());
    ASSERT_OK((*run)->wait(results, nullptr));
  }
  EXPECT_TRUE(lender.unharmed());
}

TEST_P(AsyncContract, CommandBuffersAndSemaphoresAreOfTheApplicationsDevice) {
  auto s = session(chain(3, 48, false), open());
  ASSERT_TRUE(s);
  HostRun r(*s, 48, 1);
  int nothing = 0;
  EXPECT_FALSE(r.run->record(&nothing).ok());
  const SubmitSync::Point point{1, 1};
  EXPECT_FALSE(r.run->submit({.sync = {{&point, 1}, {}}}).ok());
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(3));
}

/// Each run reads what the one before it wrote, and overwrites what that one read. They belong to
/// two sessions; some have inputs in host memory, whose copies may be submitted elsewhere.
TEST_P(AsyncContract, RunsThatNobodyWaitedForAreInOrder) {
  constexpr int64_t kCount = 1 << 17;
  constexpr size_t kRuns = 12;
  auto device = open();
  const SessionOptions options{.max_in_flight = kRuns + 1};
  const auto a = session(chain(2, kCount, false), device, options),
             b = session(chain(3, kCount, false), device, options);
  ASSERT_TRUE(a && b);
  std::array<std::unique_ptr<DeviceBuffer>, 2> memory;
  for (auto& m : memory) {
    auto made = device->allocate(kCount * sizeof(float), MemoryUse::Device);
    ASSERT_OK(made.status());
    m = *std::move(made);
  }
  const HostTensor x = floats({kCount}, ramp(kCount, 1));
  std::vector<std::unique_ptr<AsyncRun>> runs;
  std::vector<std::unique_ptr<HostRun>> others;
  std::array<std::array<Binding, 1>, kRuns> in, out;  // which runs refer to
  float added = 0;
  for (size_t i = 0; i < kRuns; ++i) {
    Session& s = i % 3 == 0 ? *b : *a;
    added += i % 3 == 0 ? 3 : 2;
    auto run = s.make_run();
    ASSERT_OK(run.status());
    in[i][0] = {.name = "x", .device = memory[i % 2].get(), .dims = {kCount}};
    if (i == 0) in[i][0] = {.name = "x", .host = &x};
    out[i][0] = {.name = "y", .device = memory[(i + 1) % 2].get()};
    ASSERT_OK((*run)->bind(in[i], out[i]));
    runs.push_back(*std::move(run));
    if (i % 4 == 2) others.push_back(std::make_unique<HostRun>(s, kCount, 2));
  }
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kRuns; ++i) {
      ASSERT_OK(runs[i]->submit().status());
      if (i % 4 == 2) ASSERT_OK(others[i / 4]->submit());
    }
    std::vector<HostTensor> results;
    for (const auto& run : runs) ASSERT_OK(run->wait(results, nullptr));
    for (const auto& other : others) ASSERT_OK(other->wait());
    std::vector<float> y(kCount);
    ASSERT_OK(device->download(*memory[kRuns % 2], 0, std::as_writable_bytes(std::span(y))));
    EXPECT_TRUE(is_sum(y, x, added)) << "round " << round;
  }
}

REPRISE_ON_ALL_DEVICES(AsyncContract);

}  // namespace
}  // namespace reprise::test
