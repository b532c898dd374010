// Recordings have streams of their own, so runs in flight and transfers overlap.
#include "on_standin.h"
#include "tests/support/host_run.h"

namespace reprise::test {
namespace {

class CudaOverlap : public OnStandin {};

TEST_F(CudaOverlap, AShortRunEndsBesideALongOne) {
  for (const bool two_sessions : {false, true}) {
    auto device = open();
    auto s = session(chain(2, 1000, false), device), other = session(chain(3, 1000, false), device);
    ASSERT_TRUE(s && other);
    HostRun slow(*s, 1000), quick(two_sessions ? *other : *s, 1000);
    set("SLOW_MS", "500");  // counts for what is submitted now
    ASSERT_OK(slow.run->submit().status());
    set("SLOW_MS", "");
    ASSERT_OK(quick.run->submit().status());
    ASSERT_OK(quick.run->wait(quick.results, nullptr));
    EXPECT_TRUE(quick.is_right(two_sessions ? 3 : 2));
    const auto ended = slow.run->ended();
    ASSERT_OK(ended.status());
    EXPECT_FALSE(*ended);
    ASSERT_OK(slow.run->wait(slow.results, nullptr));
    EXPECT_TRUE(slow.is_right(2));
  }
}

TEST_F(CudaOverlap, TransfersPassRuns) {
  auto device = open();
  auto s = session(chain(2, 1000, false), device);
  ASSERT_TRUE(s);
  HostRun r(*s, 1000);
  ASSERT_OK(r.run->submit().status());
  ASSERT_OK(r.run->wait(r.results, nullptr));
  auto buffer = device->allocate(256, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  set("HOLD", "1");
  ASSERT_OK(r.run->submit().status());
  const HostTensor x = floats({64}, ramp(64));
  HostTensor y(DType::F32, {64});
  ASSERT_OK(device->upload(**buffer, 0, x.bytes()));
  ASSERT_OK(device->download(**buffer, 0, y.mutable_bytes()));
  EXPECT_EQ(values(y), values(x));
  const auto ended = r.run->ended();
  ASSERT_OK(ended.status());
  EXPECT_FALSE(*ended);
  set("HOLD", "");
  ASSERT_OK(r.run->wait(r.results, nullptr));
  EXPECT_TRUE(r.is_right(2));
}

TEST_F(CudaOverlap, ARunIsOneLaunchOfAGraph) {
  for (const size_t launches : {10, 1000}) {
    auto s = session(chain(launches, 100, false), open());
    ASSERT_TRUE(s);
    HostRun r(*s, 100);
    for (int i = 0; i < 3; ++i) {
      const uint64_t graphs = calls("cuGraphLaunch"), kernels = calls("cuLaunchKernel");
      ASSERT_OK(r.run->submit().status());
      EXPECT_EQ(calls("cuGraphLaunch"), graphs + 1);
      EXPECT_EQ(calls("cuLaunchKernel"), kernels);
      ASSERT_OK(r.run->wait(r.results, nullptr));
      EXPECT_TRUE(r.is_right(static_cast<float>(launches)));
    }
  }
}

}  // namespace
}  // namespace reprise::test
