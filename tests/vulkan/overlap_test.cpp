// Devices with queues that only transfer: uploads, kernels and downloads of different runs overlap.
#include <algorithm>
#include <array>
#include <thread>

#include "backends/vulkan/facts.h"
#include "backends/vulkan/memory.h"
#include "intercept.h"
#include "second_family.h"
#include "support.h"
#include "tests/support/async_life.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

using Queue = SecondFamily::Queue;
using Event = SecondFamily::Event;

constexpr int64_t kElements = 100'000;
constexpr double kCopy = 4 * kElements;  // the time of a copy

bool overlap(const Event& a, const Event& b) {
  return a.begin < b.end && b.begin < a.end;
}

class Overlap : public OnDevice {
 protected:
  /// A device whose memory the host cannot see, with so many queues for transfers.
  std::shared_ptr<Device> open_with(uint32_t queues, uint64_t seed = 1, bool one_family = false) {
    SecondFamily::reset(queues, seed, one_family);
    calls().reset();
    if (!driver_hook_) driver_hook_ = hide_device_memory;
    instance_hook_ = SecondFamily::hook_instance;
    return open(
        [](VolkDeviceTable& t) {
          SecondFamily::hook_device(t);
          intercept(t);
        },
        {});
  }
  /// Has two runs of a chain of one launch in flight at the same time.
  static void run_two(Session& s) {
    HostRun a(s, kElements, 1), b(s, kElements, 2);
    SecondFamily::forget_events();
    for (HostRun* r : {&a, &b}) ASSERT_OK(r->submit());
    for (HostRun* r : {&a, &b}) {
      ASSERT_OK(r->wait());
      EXPECT_TRUE(r->is_right(1));
    }
  }
  /// What an application lends that opened its device as `owner`.
};

VkQueueFamilyProperties family(VkQueueFlags flags, uint32_t count) {
  VkQueueFamilyProperties f{};
  f.queueFlags = flags;
  f.queueCount = count;
  return f;
}

TEST(QueueFamilies, QueuesForTransfersAreFound) {
  using vulkan::QueueFamilies;
  constexpr VkQueueFlags kAll =
      VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  constexpr VkQueueFlags kVideo = 0x20;  // VK_QUEUE_VIDEO_DECODE_BIT_KHR
  const VkQueueFamilyProperties nvidia[] = {
      family(kAll | VK_QUEUE_SPARSE_BINDING_BIT, 16), family(VK_QUEUE_TRANSFER_BIT | kVideo, 1),
      family(VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT, 2),
      family(VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 8)};
  QueueFamilies found = QueueFamilies::choose(nvidia);
  EXPECT_EQ(found.compute, 0U);
  EXPECT_EQ(found.transfer, 2U);
  EXPECT_EQ(found.transfer_queues, 2U);
  EXPECT_TRUE(found.only_transfers);
  const VkQueueFamilyProperties intel[] = {family(kAll, 1), family(VK_QUEUE_TRANSFER_BIT, 1)};
  found = QueueFamilies::choose(intel);
  EXPECT_EQ(found.transfer, 1U);
  EXPECT_EQ(found.transfer_queues, 1U);
  const VkQueueFamilyProperties amd[] = {family(kAll, 1),
                                         family(VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 4)};
  found = QueueFamilies::choose(amd);
  EXPECT_EQ(found.transfer, 1U);
  EXPECT_EQ(found.transfer_queues, 2U);
  EXPECT_FALSE(found.only_transfers);
  const VkQueueFamilyProperties qualcomm[] = {family(kAll, 3)};
  found = QueueFamilies::choose(qualcomm);
  EXPECT_EQ(found.transfer, 0U);
  EXPECT_EQ(found.transfer_queues, 2U);
  EXPECT_FALSE(found.only_transfers);
  const VkQueueFamilyProperties software[] = {family(kAll, 1)};
  found = QueueFamilies::choose(software);
  EXPECT_EQ(found.transfer, QueueFamilies::kNone);
  EXPECT_EQ(found.transfer_queues, 0U);
}

TEST_P(Overlap, RunsInFlightUploadComputeAndDownloadAtTheSameTime) {
  for (const bool two_sessions : {false, true}) {
    auto device = open_with(2);
    SecondFamily::set_launch_time(kCopy / 2);
    const auto package = chain(2, kElements, false);
    auto s = session(package, device), other = session(package, device);
    ASSERT_TRUE(s && other);
    HostRun a(*s, kElements, 1), b(two_sessions ? *other : *s, kElements, 2);
    std::array<HostRun*, 2> runs{&a, &b};
    for (int round = 0; round < 2; ++round) {
      SecondFamily::forget_events();
      const uint64_t submits = calls().submits;
      for (HostRun* r : runs) ASSERT_OK(r->submit());
      EXPECT_EQ(calls().submits, submits + 6);
      for (HostRun* r : runs) {
        ASSERT_OK(r->wait());
        EXPECT_TRUE(r->is_right(2));
      }
    }
    const auto up = SecondFamily::events(Queue::First), down = SecondFamily::events(Queue::Second),
               kernels = SecondFamily::events(Queue::Kernels);
    ASSERT_EQ(up.size(), 2U);
    ASSERT_EQ(down.size(), 2U);
    ASSERT_EQ(kernels.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(up[i].end - up[i].begin, kCopy);
      EXPECT_EQ(down[i].end - down[i].begin, kCopy);
      EXPECT_LE(up[i].end, kernels[i].begin);
      EXPECT_LE(kernels[i].end, down[i].begin);
    }
    EXPECT_TRUE(overlap(up[1], kernels[0]));
    EXPECT_TRUE(overlap(kernels[1], down[0]));
    EXPECT_EQ(down[1].end - up[0].begin, 4 * kCopy);  // instead of 6
    EXPECT_EQ(s->stats().submits + other->stats().submits, 12U);
    EXPECT_EQ(s->stats().recordings + other->stats().recordings, 2U);
  }
}

TEST_P(Overlap, ASingleQueueForTransfersUploads) {
  auto device = open_with(1);
  SecondFamily::set_launch_time(kCopy);
  auto s = session(chain(1, kElements, false), device);
  ASSERT_TRUE(s);
  ASSERT_NO_FATAL_FAILURE(run_two(*s));
  const auto up = SecondFamily::events(Queue::First),
             kernels = SecondFamily::events(Queue::Kernels);
  EXPECT_EQ(s->stats().submits, 4U);
  ASSERT_EQ(up.size(), 2U);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_TRUE(overlap(up[1], kernels[0]));
  EXPECT_EQ(kernels[1].end - up[0].begin, 5 * kCopy);
}

TEST_P(Overlap, RunsNeverHarmEachOther) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    auto device = open_with(1 + seed % 2, seed);
    auto s = session(chain(2, 0, true), device, {.max_in_flight = 3}),
         other = session(chain(3, 0, true), device);
    ASSERT_TRUE(s && other);
    HostRun a(*s, kElements, 1), b(*s, 90'000, 2), c(*s, 10, 3), d(*other, kElements, 4);
    std::array<HostRun*, 4> runs{&a, &b, &c, &d};
    for (int round = 0; round < 4; ++round) {
      for (HostRun* r : runs) ASSERT_OK(r->submit());
      std::rotate(runs.begin(), runs.begin() + 1, runs.end());  // another order
      for (HostRun* r : runs) {
        ASSERT_OK(r->wait());
        EXPECT_TRUE(r->is_right(r == &d ? 3 : 2)) << "seed " << seed << ", round " << round;
      }
    }
  }
}

// That the test above passes means something only if a missing semaphore is seen.
TEST_P(Overlap, AMissingSemaphoreGivesWrongResults) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    auto device = open_with(2, seed);
    auto s = session(chain(2, kElements, false), device);
    ASSERT_TRUE(s);
    HostRun a(*s, kElements, 1);
    SecondFamily::ignore_semaphores(true);
    ASSERT_OK(a.submit());
    ASSERT_OK(a.wait());
    wrong += a.is_right(2) ? 0 : 1;
    SecondFamily::ignore_semaphores(false);
  }
  EXPECT_GT(wrong, 0);
}

TEST_P(Overlap, SmallTensorsAreCopiedInTheOneSubmission) {
  auto device = open_with(2);
  auto s = session(chain(2, 1000, false), device);
  ASSERT_TRUE(s);
  HostRun r(*s, 1000, 1);
  const uint64_t submits = calls().submits;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(r.submit());
    ASSERT_OK(r.wait());
    EXPECT_TRUE(r.is_right(2));
  }
  EXPECT_EQ(calls().submits, submits + 3);
  EXPECT_EQ(s->stats().submits, 3U);
}

TEST_P(Overlap, MemoryThatTheHostCanWriteIsNotCopied) {
  driver_hook_ = [](vulkan::Driver&) {};
  auto device = open_with(2);
  auto s = session(chain(2, kElements, false), device);
  ASSERT_TRUE(s);
  HostRun r(*s, kElements, 1);
  const uint64_t submits = calls().submits;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(r.submit());
    ASSERT_OK(r.wait());
    EXPECT_TRUE(r.is_right(2));
  }
  EXPECT_EQ(calls().copies, 0U);
  EXPECT_EQ(calls().submits, submits + 3);
}

TEST_P(Overlap, TransfersPassRunsOfOthers) {
  for (const uint32_t queues : {1U, 2U, 3U, 4U}) {
    auto device = open_with(queues > 2 ? queues - 2 : queues, 1, queues > 2);
    auto s = session(chain(2, 1000, false), device), other = session(chain(3, 64, false), device);
    ASSERT_TRUE(s && other);
    auto in = device->allocate(256, MemoryUse::Device),
         out = device->allocate(256, MemoryUse::Device);
    ASSERT_TRUE(in.ok() && out.ok());
    HostRun r(*s, 1000, 1);
    ASSERT_OK(r.submit());
    SecondFamily::hold_kernels(true);
    const HostTensor x = floats({64}, ramp(64));
    HostTensor y(DType::F32, {64});
    ASSERT_OK(device->upload(**in, 0, x.bytes()));
    ASSERT_OK(device->download(**in, 0, y.mutable_bytes()));
    EXPECT_EQ(values(y), values(x));
    SecondFamily::hold_kernels(false);
    ASSERT_OK(r.wait());
    EXPECT_TRUE(r.is_right(2));
    // A later run sees what was written, and its results are read.
    const std::array<Binding, 1> inputs{{{.name = "x", .device = in->get(), .dims = {64}}}};
    const std::array<Binding, 1> outputs{{{.name = "y", .device = out->get()}}};
    ASSERT_OK(other->run(inputs, outputs).status());
    ASSERT_OK(device->download(**out, 0, y.mutable_bytes()));
    EXPECT_EQ(values(y)[63], 66.0F);
  }
}

TEST_P(Overlap, FurtherQueuesOfOneFamilyOnlyServeTransfers) {
  auto device = open_with(2, 1, true);
  auto s = session(chain(1, kElements, false), device);
  ASSERT_TRUE(s);
  EXPECT_TRUE(device->ends_in_order());
  ASSERT_NO_FATAL_FAILURE(run_two(*s));
  EXPECT_EQ(s->stats().submits, 2U);
}

TEST_P(Overlap, ThreadsTransferAtTheSameTime) {
  constexpr int64_t kFloats = 10'000;
  for (const bool one_family : {false, true}) {
    auto device = open_with(2, 1, one_family);
    std::vector<std::thread> threads;
    std::array<std::string, 4> wrong;
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        auto buffer = device->allocate(4 * kFloats, MemoryUse::Device);
        const HostTensor x = floats({kFloats}, ramp(kFloats, static_cast<float>(t + 1)));
        HostTensor y(DType::F32, {kFloats});
        for (int i = 0; i < 20 && wrong[t].empty(); ++i) {
          Status s = buffer.ok() ? device->upload(**buffer, 0, x.bytes()) : buffer.status();
          if (s.ok()) s = device->download(**buffer, 0, y.mutable_bytes());
          if (!s.ok() || values(y) != values(x)) wrong[t] = "differs: " + s.message();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (const std::string& w : wrong) EXPECT_EQ(w, "");
  }
}

TEST_P(Overlap, TransferQueuesCanBeHidden) {
  SecondFamily::reset(2);
  instance_hook_ = [](vulkan::InstanceTable& t) {
    const auto create = t.create_device;
    SecondFamily::hook_instance(t);
    t.create_device = create;
  };
  driver_hook_ = hide_device_memory;
  BackendOptions options;
  options.hidden.transfer_queues = true;
  auto device = open(intercept, options);
  auto s = session(chain(2, kElements, false), device);
  ASSERT_TRUE(s);
  HostRun r(*s, kElements, 1);
  ASSERT_OK(r.submit());
  ASSERT_OK(r.wait());
  EXPECT_TRUE(r.is_right(2));
  EXPECT_EQ(s->stats().submits, 1U);
}

TEST_P(Overlap, AnApplicationLendsItsQueuesForTransfers) {
  vulkan::Driver* owner = nullptr;
  driver_hook_ = [&](vulkan::Driver& d) {
    hide_device_memory(d);
    if (d.owned) owner = &d;
  };
  const auto application = open_with(2);
  ASSERT_NE(owner, nullptr);
  BackendOptions options;
  options.vulkan = lend(*owner);
  auto device = open(SecondFamily::hook_device, options);
  ASSERT_TRUE(device);
  SecondFamily::set_launch_time(kCopy);
  auto s = session(chain(1, kElements, false), device);
  ASSERT_TRUE(s);
  ASSERT_NO_FATAL_FAILURE(run_two(*s));
  const auto up = SecondFamily::events(Queue::First), down = SecondFamily::events(Queue::Second),
             kernels = SecondFamily::events(Queue::Kernels);
  ASSERT_EQ(up.size(), 2U);
  ASSERT_EQ(down.size(), 2U);
  EXPECT_TRUE(overlap(up[1], kernels.at(0)));
  EXPECT_TRUE(overlap(kernels.at(1), down[0]));
  // A buffer of the application belongs to the family of its queue, which therefore copies it.
  auto made = application->allocate(256, MemoryUse::Device);
  ASSERT_OK(made.status());
  auto buffer = device->borrow(static_cast<const vulkan::VulkanBuffer&>(**made).handle(), 256);
  ASSERT_OK(buffer.status());
  SecondFamily::forget_events();
  const HostTensor x = floats({64}, ramp(64));
  HostTensor y(DType::F32, {64});
  ASSERT_OK(device->upload(**buffer, 0, x.bytes()));
  ASSERT_OK(device->download(**buffer, 0, y.mutable_bytes()));
  EXPECT_EQ(values(y), values(x));
  EXPECT_TRUE(SecondFamily::events(Queue::First).empty());
  EXPECT_TRUE(SecondFamily::events(Queue::Second).empty());
  options.hidden.transfer_queues = true;
  device = open(SecondFamily::hook_device, options);
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->ends_in_order());
}

TEST_P(Overlap, LentQueuesForTransfersAreChecked) {
  BackendOptions options;
  vulkan::Driver* owner = nullptr;
  driver_hook_ = [&](vulkan::Driver& d) { owner = &d; };
  const auto application = open_with(2);
  ASSERT_NE(owner, nullptr);
  options.vulkan = lend(*owner);
  options.vulkan.upload_queue = nullptr;
  const Status without_upload = vulkan::open(0, options).status();
  EXPECT_EQ(without_upload.code(), Code::Usage);
  options.vulkan.upload_queue = owner->queue;
  options.vulkan.transfer_queue_family = owner->queue_family;
  const Status the_same = vulkan::open(0, options).status();
  EXPECT_EQ(the_same.code(), Code::Usage);
  EXPECT_NE(the_same.message().find("different queues"), std::string::npos);
}

TEST_P(Overlap, SomeCallFailsInEveryState) {
  expect_messages_ = true;  // the layer comments on some injected failures
  driver_hook_ = [](vulkan::Driver& d) {
    hide_device_memory(d);
    d.least_overlapped_bytes = 0;
  };
  bool failed = true;
  for (int64_t n = 0; failed; n += 7) {
    const std::string where = "call " + std::to_string(n) + " fails: ";
    {
      auto device = open_with(2, static_cast<uint64_t>(n));
      auto life = AsyncLife::create(device);
      ASSERT_OK(life.status());
      calls().error = VK_ERROR_OUT_OF_DEVICE_MEMORY;
      calls().fail_after = n;
      const Status failure = (*life)->live();
      failed = calls().failed;
      calls().fail_after = -1;
      EXPECT_TRUE(failed || failure.ok()) << failure.message();
      if (!failure.ok()) {
        EXPECT_EQ(failure.code(), Code::OutOfMemory) << where << failure.message();
      }
      const Status after = live_once(device);
      EXPECT_TRUE(after.ok()) << where << after.message();
    }
    EXPECT_EQ(calls().created, calls().destroyed) << where;
  }
}

REPRISE_ON_DEVICES(Overlap);

}  // namespace
}  // namespace reprise::test
