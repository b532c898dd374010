// The application gives its queue a lock. The library holds the lock for each submission to the
// queue, and for nothing else.
#include <array>
#include <thread>

#include "intercept.h"
#include "support.h"

namespace reprise::test {
namespace {

/// An application's lock, and what happened with and without it.
struct QueueLock {
  std::mutex mutex;
  std::atomic<uint64_t> taken = 0, submits = 0;
  std::atomic<uint64_t> submits_without = 0, other_calls_with = 0;
  inline static thread_local bool held = false;
  PFN_vkQueueSubmit submit = nullptr;
  PFN_vkWaitForFences wait_for_fences = nullptr;
  PFN_vkWaitSemaphores wait_semaphores = nullptr;
  PFN_vkAllocateMemory allocate = nullptr;

  void note_other() {
    if (held) ++other_calls_with;
  }
  /// Takes the lock for the application itself, or for the library.
  void lock() {
    mutex.lock();
    held = true;
    ++taken;
  }
  void unlock() {
    held = false;
    mutex.unlock();
  }
};
QueueLock& queue_lock() {
  static QueueLock l;
  return l;
}

void watch(VolkDeviceTable& t) {
  QueueLock& l = queue_lock();
  l.submit = t.vkQueueSubmit;
  l.wait_for_fences = t.vkWaitForFences;
  l.wait_semaphores = t.vkWaitSemaphores;
  l.allocate = t.vkAllocateMemory;
  t.vkQueueSubmit = [](VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
    ++queue_lock().submits;
    if (!QueueLock::held) ++queue_lock().submits_without;
    return queue_lock().submit(queue, count, infos, fence);
  };
  t.vkWaitForFences = [](VkDevice device, uint32_t count, const VkFence* fences, VkBool32 all,
                         uint64_t ns) {
    queue_lock().note_other();
    return queue_lock().wait_for_fences(device, count, fences, all, ns);
  };
  t.vkWaitSemaphores = [](VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t ns) {
    queue_lock().note_other();
    return queue_lock().wait_semaphores(device, info, ns);
  };
  t.vkAllocateMemory = [](VkDevice device, const VkMemoryAllocateInfo* info,
                          const VkAllocationCallbacks* callbacks, VkDeviceMemory* out) {
    queue_lock().note_other();
    return queue_lock().allocate(device, info, callbacks, out);
  };
}

class QueueLockTest : public OnDevice {
 protected:
  /// A device whose queue the application owns and locks.
  std::shared_ptr<Device> open_lent() {
    driver_hook_ = [this](vulkan::Driver& d) {
      if (owner_ == nullptr) owner_ = &d;
      hide_device_memory(d);
    };
    application_ = open();
    if (owner_ == nullptr) return nullptr;
    BackendOptions options;
    options.vulkan = lend(*owner_);
    options.vulkan.lock_queue = [] { queue_lock().lock(); };
    options.vulkan.unlock_queue = [] { queue_lock().unlock(); };
    return open(watch, options);
  }
  /// Runs at once and asynchronously, and copies to a buffer and back.
  void use(Device& device, Session& s, int times) {
    const HostTensor x = floats({kElements}, ramp(kElements));
    auto buffer = device.allocate(4 * kElements, MemoryUse::Device);
    ASSERT_OK(buffer.status());
    auto run = s.make_run();
    ASSERT_OK(run.status());
    const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
    ASSERT_OK((*run)->bind(inputs, {}));
    for (int i = 0; i < times; ++i) {
      auto y = s.run(inputs);
      ASSERT_OK(y.status());
      EXPECT_EQ((*y)[0].data<float>()[9], x.data<float>()[9] + kLaunches);
      ASSERT_OK((*run)->submit({}).status());
      std::vector<HostTensor> results;
      ASSERT_OK((*run)->wait(results, nullptr));
      EXPECT_EQ(results[0].data<float>()[9], x.data<float>()[9] + kLaunches);
      ASSERT_OK(device.upload(**buffer, 0, x.bytes()));
      HostTensor back(DType::F32, {kElements});
      ASSERT_OK(device.download(**buffer, 0, back.mutable_bytes()));
      EXPECT_EQ(values(back), values(x));
    }
  }

  static constexpr int64_t kElements = 1000;
  static constexpr int kLaunches = 3;
  std::shared_ptr<Device> application_;
  vulkan::Driver* owner_ = nullptr;
};

TEST_P(QueueLockTest, IsHeldForEachSubmissionAndForNothingElse) {
  QueueLock& l = queue_lock();
  l.taken = l.submits = l.submits_without = l.other_calls_with = 0;
  {
    auto device = open_lent();
    ASSERT_TRUE(device);
    auto s = session(chain(kLaunches, kElements, false), device);
    ASSERT_TRUE(s);
    ASSERT_NO_FATAL_FAILURE(use(*device, *s, 3));
  }
  EXPECT_GE(l.submits, 12U);  // two runs and two copies in each round
  EXPECT_EQ(l.taken, l.submits);
  EXPECT_EQ(l.submits_without, 0U);
  EXPECT_EQ(l.other_calls_with, 0U);
  EXPECT_TRUE(l.mutex.try_lock());
  l.mutex.unlock();
}

TEST_P(QueueLockTest, ThreadsOfTheApplicationSubmitMeanwhile) {
  auto device = open_lent();
  ASSERT_TRUE(device);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> own = 0;
  std::atomic<int> worst = VK_SUCCESS;
  std::thread renderer([&] {
    while (!done || own == 0) {
      queue_lock().lock();
      const VkResult r = owner_->vk.vkQueueSubmit(owner_->queue, 0, nullptr, VK_NULL_HANDLE);
      queue_lock().unlock();
      if (r != VK_SUCCESS) worst = r;
      ++own;
      std::this_thread::yield();
    }
  });
  std::array<std::thread, 3> users;
  for (std::thread& t : users) {
    t = std::thread([&] {
      auto s = session(chain(kLaunches, kElements, false), device);
      ASSERT_TRUE(s);
      use(*device, *s, 10);
    });
  }
  for (std::thread& t : users) t.join();
  done = true;
  renderer.join();
  EXPECT_EQ(worst, VK_SUCCESS);
  EXPECT_GT(own, 0U);
  EXPECT_EQ(queue_lock().submits_without, 0U);
}

REPRISE_ON_DEVICES(QueueLockTest);

}  // namespace
}  // namespace reprise::test
