// Every call of the driver fails once, in each state of runs that do not block.
#include "intercept.h"
#include "support.h"
#include "tests/support/async_life.h"

namespace reprise::test {
namespace {

class AsyncFaults : public OnDevice {
 protected:
  /// Call `n` from here on fails; false if there are fewer.
  bool inject(int64_t n, VkResult error) {
    calls().reset();
    const std::string where = "call " + std::to_string(n) + " fails: ";
    {
      auto device = open(intercept);
      auto life = AsyncLife::create(device);
      EXPECT_TRUE(life.ok()) << life.status().message();
      if (!life.ok()) return false;
      calls().error = error;
      calls().fail_after = n;
      const Status failure = (*life)->live();
      const bool failed = calls().failed;
      calls().fail_after = -1;
      if (!failed) {
        EXPECT_TRUE(failure.ok()) << failure.message();
        return false;
      }
      const bool lost = error == VK_ERROR_DEVICE_LOST;
      if (!failure.ok()) {
        EXPECT_EQ(failure.code(), lost ? Code::DeviceLost : Code::OutOfMemory)
            << where << failure.message();
        EXPECT_NE(failure.message().find("vk"), std::string::npos) << where << failure.message();
      }
      const Status after = live_once(lost ? open(intercept) : device);
      EXPECT_TRUE(after.ok()) << where << after.message();
    }
    EXPECT_EQ(calls().created, calls().destroyed) << where;
    return true;
  }
};

TEST_P(AsyncFaults, SomeCallFails) {
  expect_messages_ = true;  // the layer comments on some injected failures
  int64_t injected = 0;
  const auto error = [&] {
    return injected % 2 == 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_ERROR_DEVICE_LOST;
  };
  while (inject(7 * injected, error())) ++injected;
  EXPECT_GT(injected, 5);
}

TEST_P(AsyncFaults, FullEveryCallFailsInTurn) {
  expect_messages_ = true;
  for (const VkResult error :
       {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_DEVICE_LOST}) {
    int64_t n = 0;
    while (inject(n, error)) ++n;
    EXPECT_GT(n, 40);
  }
}

REPRISE_ON_DEVICES(AsyncFaults);

}  // namespace
}  // namespace reprise::test
