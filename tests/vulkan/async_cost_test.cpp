// What a bound run costs the host: one submission, and no lock that is held while it waits, however
// many launches it has. tests/soak counts what it takes from the heap.
#include <array>
#include <mutex>

#include "intercept.h"
#include "locks.h"
#include "second_family.h"
#include "support.h"

namespace reprise::test {
namespace {

struct Waits {
  std::atomic<uint64_t> all = 0, with_locks = 0;
  PFN_vkWaitForFences fences = nullptr;
  PFN_vkWaitSemaphores semaphores = nullptr;
  void note(uint64_t timeout_ns) {
    if (timeout_ns == 0) return;  // it only asks
    ++all;
    if (locks_held() != 0) ++with_locks;
  }
};
Waits& waits() {
  static Waits w;
  return w;
}

void watch_waits(VolkDeviceTable& t) {
  waits().all = waits().with_locks = 0;
  waits().fences = t.vkWaitForFences;
  waits().semaphores = t.vkWaitSemaphores;
  t.vkWaitForFences = [](VkDevice device, uint32_t count, const VkFence* fences, VkBool32 all,
                         uint64_t ns) {
    waits().note(ns);
    return waits().fences(device, count, fences, all, ns);
  };
  t.vkWaitSemaphores = [](VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t ns) {
    waits().note(ns);
    return waits().semaphores(device, info, ns);
  };
}

class AsyncCost : public OnDevice {
 protected:
  void run_often(size_t launches, const vulkan::TableHook& hook, uint64_t submits) {
    constexpr int64_t kElements = 100;
    constexpr uint64_t kPatience = 600'000'000'000;  // software takes its time
    auto device = open(hook);
    auto s = session(chain(launches, kElements, false), device, {.timeout_ns = kPatience});
    ASSERT_TRUE(s);
    const HostTensor x = floats({kElements}, ramp(kElements));
    std::vector<float> y(kElements);
    const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
    const std::array<Binding, 1> outputs{
        {{.name = "y", .host_output = std::as_writable_bytes(std::span(y))}}};
    auto run = *s->make_run();
    ASSERT_OK(run->bind(inputs, outputs));
    std::vector<HostTensor> results;
    std::atomic<int> called = 0;
    const EndCall at_end{[](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &called};
    for (int i = 0; i < 4; ++i) {
      const uint64_t before = calls().submits;
      ASSERT_OK(run->submit({.at_end = i % 2 == 0 ? EndCall() : at_end}).status());
      EXPECT_EQ(calls().submits, before + submits);
      EXPECT_EQ(locks_held(), 0);
      ASSERT_OK(run->wait(results, nullptr));
      EXPECT_EQ(calls().submits, before + submits);
      ASSERT_EQ(y[99], x.data<float>()[99] + static_cast<float>(launches));
    }
    EXPECT_EQ(called, 2);
    EXPECT_GT(waits().all, 0U);
    if (locks_are_counted()) {
      EXPECT_EQ(waits().with_locks, 0U);
    }
  }
};

// That nothing is counted means something only if a lock is.
TEST(Locks, AreCounted) {
  if (!locks_are_counted()) GTEST_SKIP() << "a sanitizer counts them";
  std::mutex mutex;
  const std::lock_guard lock(mutex);
  EXPECT_EQ(locks_held(), 1);
}

TEST_P(AsyncCost, TransfersWaitWithoutALock) {
  for (const bool queues : {false, true}) {
    calls().reset();
    SecondFamily::reset(2);
    instance_hook_ = queues ? SecondFamily::hook_instance : nullptr;
    driver_hook_ = hide_device_memory;
    auto device = open([queues](VolkDeviceTable& t) {
      if (queues) SecondFamily::hook_device(t);
      watch_waits(t);
    });
    auto buffer = device->allocate(1 << 16, MemoryUse::Device);
    ASSERT_OK(buffer.status());
    std::vector<std::byte> bytes(1 << 16);
    ASSERT_OK(device->upload(**buffer, 0, bytes));
    ASSERT_OK(device->download(**buffer, 0, bytes));
    EXPECT_GE(waits().all, 2U);
    if (locks_are_counted()) {
      EXPECT_EQ(waits().with_locks, 0U);
    }
  }
}

TEST_P(AsyncCost, ARunIsOneSubmissionAndWaitsWithoutALock) {
  for (const size_t launches : {10, 1000}) {
    SCOPED_TRACE(launches);
    calls().reset();
    run_often(
        launches,
        [](VolkDeviceTable& t) {
          intercept(t);
          watch_waits(t);
        },
        1);
  }
}

TEST_P(AsyncCost, WithQueuesForTransfersItIsThree) {
  for (const size_t launches : {10, 1000}) {
    SCOPED_TRACE(launches);
    calls().reset();
    SecondFamily::reset(2);
    instance_hook_ = SecondFamily::hook_instance;
    driver_hook_ = [](vulkan::Driver& d) {
      hide_device_memory(d);
      d.least_overlapped_bytes = 0;
    };
    run_often(
        launches,
        [](VolkDeviceTable& t) {
          SecondFamily::hook_device(t);
          intercept(t);
          watch_waits(t);
        },
        3);
  }
}

REPRISE_ON_DEVICES(AsyncCost);

}  // namespace
}  // namespace reprise::test
