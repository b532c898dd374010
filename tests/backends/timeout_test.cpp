// Runs that time out on a device that is busy, not hung.
#include <atomic>
#include <thread>

#include "contract.h"
#include "runtime/run/shared_arena.h"

namespace reprise::test {
namespace {

constexpr uint64_t kTimedSecond = 1'000'000'000;
constexpr uint64_t kNoTime = 1;  // a nanosecond
constexpr size_t kTimedLaunches = 4;
constexpr int64_t kElements = 1 << 16;

class TimeoutContract : public Contract {
 protected:
  TimeoutContract() : x_(floats({kElements}, ramp(kElements))) {}

  Status run(Session& session) const {
    auto y = session.run({{{.name = "x", .host = &x_}}});
    RP_TRY(y.status());
    for (int64_t i = 0; i < kElements; i += 1000)
      if ((*y)[0].data<float>()[i] != x_.data<float>()[i] + kTimedLaunches)
        return internal_error("wrong value at " + std::to_string(i));
    return {};
  }
  /// Runs that are given no time.
  void run_late(Session& session, int runs) const {
    for (int i = 0; i < runs; ++i) {
      const Status s = run(session);
      if (s.ok()) continue;  // this one was quick
      ASSERT_EQ(s.code(), Code::Timeout) << s.message();
      ASSERT_NE(s.message().find("within 1e-09 s"), std::string::npos) << s.message();
    }
  }

 private:
  HostTensor x_;
};

TEST_P(TimeoutContract, WaitingBehindOtherWorkIsNoFault) {
  auto device = open();
  const auto package = chain(kTimedLaunches, kElements, false);
  auto late = session(package, device, {.timeout_ns = kNoTime});
  auto other = session(package, device, {.timeout_ns = 20 * kTimedSecond});
  ASSERT_TRUE(late && other);
  std::atomic<bool> done = false;
  std::thread busy([&] {
    run_late(*late, 30);
    done = true;
  });
  int runs = 0;
  for (; !done || runs == 0; ++runs) {
    const Status s = run(*other);
    EXPECT_TRUE(s.ok()) << s.message() << " in run " << runs;
    if (!s.ok()) break;
  }
  busy.join();
  late.reset();
  EXPECT_TRUE(device->allocate(64, MemoryUse::Device).ok());
  ASSERT_OK(run(*other));
}

// The device may still be executing a late run, so others get other memory.
TEST_P(TimeoutContract, ALateRunKeepsTheSharedArena) {
  auto device = open();
  const auto package = chain(kTimedLaunches, kElements, false);
  const auto arena = std::make_shared<SharedArena>(device);
  auto late = session(package, device, {.timeout_ns = kNoTime, .arena = arena});
  auto other = session(package, device, {.timeout_ns = 20 * kTimedSecond, .arena = arena});
  ASSERT_TRUE(late && other);
  for (int i = 0; i < 20; ++i) {
    run_late(*late, 1);
    ASSERT_OK(run(*other));
  }
}

TEST_P(TimeoutContract, LateRunsKeepTheirPlaceAndTheirMemoryIsUsedAgain) {
  auto device = open();
  auto s = session(chain(kTimedLaunches, kElements, false), device,
                   {.max_in_flight = 2, .timeout_ns = kNoTime});
  ASSERT_TRUE(s);
  run_late(*s, 2);
  const uint64_t bytes = s->stats().device_bytes;
  run_late(*s, 20);
  EXPECT_LE(s->stats().device_bytes, 2 * bytes);
  EXPECT_LE(s->stats().recordings, 2U);
}

REPRISE_ON_ALL_DEVICES(TimeoutContract);

}  // namespace
}  // namespace reprise::test
