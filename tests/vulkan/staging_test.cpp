// Devices whose memory the host cannot see: staging, transfers and the barriers around them.
#include <cstdlib>
#include <memory>

#include "intercept.h"
#include "support.h"

namespace reprise::test {
namespace {

class Staging : public OnDevice {
 protected:
  void SetUp() override {
    calls().reset();
    driver_hook_ = hide_device_memory;
  }
};

TEST_P(Staging, CopiesArePartOfTheOneSubmission) {
  auto device = open(intercept);
  auto s = session(chain(3, 0, true), device);
  ASSERT_TRUE(s);
  calls().reset();
  uint64_t runs = 0;
  for (const int64_t n : {100, 7, 100, 5000, 1, 5000}) {
    const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
    RunStats stats;
    auto y = s->run({{{.name = "x", .host = &x}}}, {}, &stats);
    ASSERT_OK(y.status());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*y)[0].data<float>()[i], x.data<float>()[i] + 3);
    EXPECT_EQ(stats.bytes_copied, static_cast<uint64_t>(n) * 8);
    EXPECT_EQ(calls().submits, ++runs);
  }
  // Recorded for the first size and for the larger one, each with a copy in and a copy out.
  EXPECT_EQ(device->counters().recordings, 2U);
  EXPECT_EQ(calls().copies, 4U);
  EXPECT_EQ(s->stats().copies, 2 * runs);
}

TEST_P(Staging, DeviceBuffersAreNotCopied) {
  auto device = open(intercept);
  auto s = session(chain(2, 64, false), device);
  ASSERT_TRUE(s);
  auto in = device->allocate(256, MemoryUse::Device),
       out = device->allocate(256, MemoryUse::Device);
  ASSERT_TRUE(in.ok() && out.ok());
  EXPECT_EQ((*in)->mapped(), nullptr);
  const HostTensor x = floats({64}, ramp(64));
  ASSERT_OK(device->upload(**in, 0, x.bytes()));
  calls().reset();
  RunStats stats;
  for (int run = 0; run < 3; ++run) {
    ASSERT_OK(s->run({{{.name = "x", .device = in->get(), .dims = {64}}}},
                     {{{.name = "y", .device = out->get()}}}, &stats)
                  .status());
  }
  EXPECT_EQ(stats.bytes_copied, 0U);
  EXPECT_EQ(calls().copies, 0U);
  EXPECT_EQ(calls().submits, 3U);
  HostTensor y(DType::F32, {64});
  ASSERT_OK(device->download(**out, 0, y.mutable_bytes()));
  EXPECT_EQ(values(y)[63], 65.0F);
  // From staged to device memory and back: recorded anew, and right.
  auto r = s->run({{{.name = "x", .host = &x}}});
  ASSERT_OK(r.status());
  EXPECT_EQ(values((*r)[0])[63], 65.0F);
}

// That the tests above are silent means something only if a missing barrier is not.
TEST_P(Staging, AMissingBarrierIsFoundByValidation) {
  if (!std::getenv("VK_LAYER_ENABLES") || !std::getenv("REPRISE_TEST_VALIDATION"))
    GTEST_SKIP() << "synchronization validation is off";
  expect_messages_ = true;
  auto device = open();
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int i = 0; i < 3; ++i) {
    auto b = device->allocate(64, MemoryUse::Device);
    ASSERT_OK(b.status());
    buffers.push_back(std::move(*b));
  }
  const auto copy = [&](size_t from) {
    Command c;
    c.kind = Command::Kind::Copy;
    c.src = buffers[from].get();
    c.dst = buffers[from + 1].get();
    c.bytes = 64;
    return c;
  };
  Command barrier;
  barrier.kind = Command::Kind::Barrier;
  RecordingDesc desc;
  desc.commands = {copy(0), barrier, copy(1)};
  ASSERT_OK(device->record(desc).status());
  EXPECT_TRUE(messages().empty());
  desc.commands = {copy(0), copy(1)};
  ASSERT_OK(device->record(desc).status());
  ASSERT_FALSE(messages().empty());
  EXPECT_NE(messages()[0].find("SYNC-HAZARD-READ-AFTER-WRITE"), std::string::npos) << messages()[0];
}

TEST_P(Staging, SlicesCopyInTheFirstAndTheLast) {
  driver_hook_ = hide_device_memory;
  auto s = session(chain(5, 0, true), open(), {.slice_ns = 1});
  ASSERT_TRUE(s);
  for (const int64_t size : {10, 1000, 10}) {
    const HostTensor x = floats({size}, ramp(static_cast<size_t>(size)));
    const auto y = s->run({{{.name = "x", .host = &x}}});
    ASSERT_OK(y.status());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ((*y)[0].data<float>()[i], x.data<float>()[i] + 5);
  }
  EXPECT_EQ(s->stats().submits, 15U);
  EXPECT_EQ(s->stats().copies, 6U);
}

TEST_P(Staging, EveryDriverFailureIsAnErrorWithoutALeak) {
  expect_messages_ = true;  // the layer comments on some injected failures
  const size_t index = std::stoul(GetParam().substr(7));
  for (int64_t n = 0;; ++n) {
    calls().reset();
    calls().error = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    calls().fail_after = n;
    Status failure;
    {
      auto device = vulkan::open(index, {}, intercept, hide_device_memory);
      failure = device.status();
      if (device.ok()) {
        const std::shared_ptr<Device> shared = std::move(*device);
        auto s = Session::create(chain(2, 0, true), shared);
        failure = s.status();
        for (const int64_t size : {10, 1000, 10}) {
          if (!s.ok()) break;
          const HostTensor x = floats({size}, ramp(static_cast<size_t>(size)));
          auto y = (*s)->run({{{.name = "x", .host = &x}}});
          if (!y.ok()) failure = y.status();
          if (y.ok()) {
            EXPECT_EQ((*y)[0].data<float>()[size - 1], x.data<float>()[size - 1] + 2);
          }
        }
      }
    }
    EXPECT_EQ(calls().created, calls().destroyed) << "after failing call " << n;
    if (!calls().failed) {
      ASSERT_OK(failure);
      EXPECT_GT(n, 50);
      break;
    }
    if (!failure.ok()) {
      EXPECT_EQ(failure.code(), Code::OutOfMemory) << failure.message();
    }
  }
}

REPRISE_ON_DEVICES(Staging);

}  // namespace
}  // namespace reprise::test
