// Several runs in flight, several sessions, several threads, one device.
#include <array>
#include <thread>

#include "contract.h"

namespace reprise::test {
namespace {

class ThreadsContract : public Contract {};

TEST_P(ThreadsContract, RunsOfTwoSessionsInterleave) {
  auto device = open();
  const auto a = session(chain(3, 0, true), device, {.max_in_flight = 2});
  const auto b = session(chain(5, 0, true), device, {.max_in_flight = 3});
  ASSERT_TRUE(a && b);
  std::array<std::string, 6> errors;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      Session& s = t % 2 == 0 ? *a : *b;
      const float added = t % 2 == 0 ? 3.0F : 5.0F;
      for (size_t run = 0; run < 20 && errors[t].empty(); ++run) {
        const auto n = static_cast<int64_t>(1 + (t * 37 + run * 113) % 700);
        const HostTensor x =
            floats({n}, ramp(static_cast<size_t>(n), 1.0F + static_cast<float>(t)));
        const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
        auto y = s.run(inputs);
        if (!y.ok()) errors[t] = y.status().message();
        for (int64_t i = 0; i < n && errors[t].empty(); ++i)
          if ((*y)[0].data<float>()[i] != x.data<float>()[i] + added) errors[t] = "wrong value";
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors) EXPECT_EQ(e, "");
  EXPECT_EQ(a->stats().runs + b->stats().runs, 120U);
  if (device) {  // where the host cannot see device memory, new capacity records new copies
    auto b16 = device->allocate(16, MemoryUse::Device);
    ASSERT_OK(b16.status());
    // So may memory of another size, without buffer addresses.
    if (!(*b16)->mapped() || !device->info().facts.buffer_address) return;
  }
  EXPECT_LE(a->stats().recordings, 2U);
  EXPECT_LE(b->stats().recordings, 3U);
}

TEST_P(ThreadsContract, ObjectsMayOutliveTheirDevice) {
  auto device = open();
  auto buffer = device->allocate(1024, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  const plan::KernelCode code = affine_kernel("k", 1, 1);
  auto kernels = device->create_kernels({&code, 1});
  ASSERT_OK(kernels.status());
  device.reset();
  EXPECT_NE((*buffer)->address(), 0U);
}

REPRISE_ON_ALL_DEVICES(ThreadsContract);

}  // namespace
}  // namespace reprise::test
