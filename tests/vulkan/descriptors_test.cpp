// Devices without buffer addresses, as every device is that hides them: with descriptors that may
// change after they were recorded, and with those that may not.
#include <array>
#include <cstring>
#include <memory>

#include "backends/vulkan/driver.h"
#include "support.h"

namespace reprise::test {
namespace {

constexpr int64_t kCount = 64;
constexpr uint64_t kBytes = kCount * sizeof(float);

class Descriptors : public OnDevice {
 protected:
  void SetUp() override { descriptor_kernels() = true; }
  void TearDown() override {
    descriptor_kernels() = false;
    OnDevice::TearDown();
  }
  /// Opens the device without buffer addresses and what is newer than Vulkan 1.1. Not every driver
  /// has descriptors that may change (may_change_).
  std::shared_ptr<Device> open_way(bool update_after_bind) {
    driver_hook_ = [this, own = driver_hook_](vulkan::Driver& d) {
      may_change_ = d.physical.update_after_bind;
      if (own) own(d);
    };
    BackendOptions options;
    options.hidden = {true, !update_after_bind, true};
    auto device = open({}, options);
    EXPECT_TRUE(device && !device->info().facts.buffer_address);
    return device;
  }
  std::unique_ptr<DeviceBuffer> buffer(Device& device, uint64_t bytes) {
    auto made = device.allocate(bytes, MemoryUse::Device);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }
  /// Runs the session from `in` to `out`, and checks the result.
  void run(Session& s, Device& device, DeviceBuffer& in, uint64_t in_at, DeviceBuffer& out,
           uint64_t out_at, float scale) {
    const HostTensor x = floats({kCount}, ramp(kCount, scale));
    ASSERT_OK(device.upload(in, in_at, x.bytes()));
    ASSERT_OK(s.run({{{.name = "x", .device = &in, .device_offset = in_at, .dims = {kCount}}}},
                    {{{.name = "y", .device = &out, .device_offset = out_at}}})
                  .status());
    HostTensor y(DType::F32, {kCount});
    ASSERT_OK(device.download(out, out_at, y.mutable_bytes()));
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(y.data<float>()[i], x.data<float>()[i] + 3) << "element " << i;
  }
  bool may_change_ = false;
};

TEST_P(Descriptors, SizesWithinCapacityRecordNothing) {
  for (const bool update_after_bind : {true, false}) {
    auto device = open_way(update_after_bind);
    auto s = session(chain(3, 0, true), device);
    ASSERT_TRUE(s);
    for (const int64_t n : {5000, 7, 100, 5000, 1}) {
      const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
      auto y = s->run({{{.name = "x", .host = &x}}});
      ASSERT_OK(y.status());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*y)[0].data<float>()[i], x.data<float>()[i] + 3);
    }
    EXPECT_EQ(s->stats().recordings, 1U);
  }
}

TEST_P(Descriptors, OtherMemoryIsBoundToOneRecordingWhereItMay) {
  for (const bool update_after_bind : {true, false}) {
    auto device = open_way(update_after_bind);
    auto s = session(chain(3, kCount, false), device);
    ASSERT_TRUE(s);
    constexpr size_t kBuffers = 6;
    std::vector<std::unique_ptr<DeviceBuffer>> in, out;
    for (size_t i = 0; i < kBuffers; ++i) {
      in.push_back(buffer(*device, kBytes));
      out.push_back(buffer(*device, kBytes));
    }
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < kBuffers; ++i) {
        run(*s, *device, *in[i], 0, *out[i], 0, static_cast<float>(round));
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(s->stats().recordings, may_change_ ? 1U : kBuffers);
    // More combinations than are kept.
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < kBuffers; ++i) {
        run(*s, *device, *in[i], 0, *out[(i + 1) % kBuffers], 0, 1);
        run(*s, *device, *in[i], 0, *out[(i + 2) % kBuffers], 0, 2);
        if (HasFatalFailure()) return;
      }
    }
    if (may_change_) {
      EXPECT_EQ(s->stats().recordings, 1U);
    } else {
      EXPECT_GT(s->stats().recordings, kBuffers);
    }
    EXPECT_EQ(device->counters().recordings - (s->stats().recordings),
              device->counters().submits - s->stats().submits)
        << "only transfers record besides the session";
  }
}

TEST_P(Descriptors, AnotherPlaceInTheSameMemoryBindsNothing) {
  for (const bool update_after_bind : {true, false}) {
    auto device = open_way(update_after_bind);
    auto s = session(chain(3, kCount, false), device);
    ASSERT_TRUE(s);
    auto in = buffer(*device, 4 * kBytes), out = buffer(*device, 4 * kBytes);
    for (const uint64_t at : {uint64_t{0}, uint64_t{16}, uint64_t{48}, kBytes, 3 * kBytes}) {
      run(*s, *device, *in, at, *out, 3 * kBytes - at, static_cast<float>(at));
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(s->stats().recordings, 1U);
  }
}

TEST_P(Descriptors, MemoryMayBeLargerThanADescriptor) {
  constexpr uint32_t kRange = 1024;
  for (const bool update_after_bind : {true, false}) {
    driver_hook_ = [](vulkan::Driver& d) {
      d.physical.properties.limits.maxStorageBufferRange = kRange;
    };
    auto device = open_way(update_after_bind);
    auto s = session(chain(3, kCount, false), device);
    ASSERT_TRUE(s);
    auto large = buffer(*device, 16 * kRange), small = buffer(*device, kRange);
    for (const uint64_t at : {uint64_t{0}, uint64_t{48}, uint64_t{5 * kRange + 256 + 16},
                              uint64_t{16 * kRange - kBytes}}) {
      run(*s, *device, *large, at, *small, 64, 1);
      run(*s, *device, *small, 16, *large, at, 2);
      run(*s, *device, *small, 16, *small, 512, 3);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Descriptors, SeveralRunsInFlightHaveDescriptorsOfTheirOwn) {
  auto device = open_way(true);
  SessionOptions options;
  options.max_in_flight = 3;
  auto s = session(chain(3, kCount, false), device, options);
  ASSERT_TRUE(s);
  struct One {
    HostTensor x;
    std::vector<float> y = std::vector<float>(kCount);
    std::array<Binding, 1> in, out;
    std::unique_ptr<AsyncRun> run;
  };
  std::vector<One> runs(3);
  for (size_t i = 0; i < runs.size(); ++i) {
    One& r = runs[i];
    r.x = floats({kCount}, ramp(kCount, static_cast<float>(i + 1)));
    r.in[0].name = "x";
    r.in[0].host = &r.x;
    r.out[0].name = "y";
    r.out[0].host_output = std::as_writable_bytes(std::span(r.y));
    auto made = s->make_run();
    ASSERT_OK(made.status());
    r.run = std::move(*made);
    ASSERT_OK(r.run->bind(r.in, r.out));
  }
  for (int round = 0; round < 3; ++round) {
    for (One& r : runs) ASSERT_OK(r.run->submit().status());
    for (One& r : runs) {
      std::vector<HostTensor> results;
      ASSERT_OK(r.run->wait(results, nullptr));
      for (size_t i = 0; i < r.y.size(); ++i) ASSERT_EQ(r.y[i], r.x.data<float>()[i] + 3);
    }
  }
}

TEST_P(Descriptors, TheWrongFormOfAKernelIsRefusedByName) {
  auto device = open_way(true);
  descriptor_kernels() = false;
  const TestKernel with_addresses = affine_kernel("with_addresses", 1, 1);
  descriptor_kernels() = true;
  const TestKernel with_descriptors = affine_kernel("with_descriptors", 1, 1);
  const auto expect = [](Device& on, const plan::KernelCode& code, const std::string& part) {
    const auto made = on.create_kernels({&code, 1});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::Unsupported);
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  };
  expect(*device, with_addresses, "'with_addresses' uses buffer addresses");
  expect(*OnDevice::open(), with_descriptors, "'with_descriptors' is for devices without buffer");
}

TEST_P(Descriptors, AddressesOfNoMemoryAreRefused) {
  auto device = open_way(true);
  const plan::KernelCode code = affine_kernel("affine", 1, 1);
  auto kernels = device->create_kernels({&code, 1});
  ASSERT_OK(kernels.status());
  auto blocks = device->allocate(256, MemoryUse::Upload);
  ASSERT_OK(blocks.status());
  std::memset((*blocks)->mapped(), 0, 256);
  const uint64_t nowhere = uint64_t{1} << 60U;
  std::memcpy(static_cast<std::byte*>((*blocks)->mapped()) + plan::BlockLayout::buffer_offset(0),
              &nowhere, sizeof(nowhere));
  RecordingDesc desc;
  desc.blocks = blocks->get();
  desc.commands.resize(1);
  desc.commands[0].kernel = (*kernels)[0].get();
  const auto recording = device->record(desc);
  ASSERT_FALSE(recording.ok());
  EXPECT_NE(recording.status().message().find("memory that is not on"), std::string::npos);
  desc.commands[0].block_offset = 256;
  EXPECT_EQ(device->record(desc).status().code(), Code::Usage);
}

REPRISE_ON_DEVICES(Descriptors);

}  // namespace
}  // namespace reprise::test
