// Devices themselves: memory, kernels, recordings, the application's own objects.
#include <pthread.h>

#include <array>

#include "contract.h"
#include "lend.h"

namespace reprise::test {
namespace {

class DeviceContract : public Contract {};

TEST_P(DeviceContract, TransfersStayInsideTheirBuffers) {
  auto device = open();
  for (const MemoryUse use : {MemoryUse::Device, MemoryUse::Upload, MemoryUse::Readback}) {
    auto b = device->allocate(100, use);
    ASSERT_OK(b.status());
    EXPECT_NE((*b)->address(), 0U);
    EXPECT_EQ((*b)->address() % 16, 0U);
    std::array<std::byte, 64> bytes{};
    ASSERT_OK(device->upload(**b, 36, bytes));
    EXPECT_EQ(device->upload(**b, 37, bytes).code(), Code::Usage);
    EXPECT_EQ(device->download(**b, ~uint64_t{0} - 8, bytes).code(), Code::Usage);
  }
  const auto huge = device->allocate(uint64_t{1} << 62, MemoryUse::Device);
  EXPECT_EQ(huge.status().code(), Code::Unsupported);
}

TEST_P(DeviceContract, TransfersOfManyMegabytes) {
  auto device = open();
  constexpr size_t kBytes = (size_t{20} << 20) + 3;  // more than two staging buffers
  auto b = device->allocate(kBytes + 5, MemoryUse::Device);
  ASSERT_OK(b.status());
  std::vector<std::byte> sent(kBytes), got(kBytes);
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  ASSERT_OK(device->upload(**b, 5, sent));
  ASSERT_OK(device->download(**b, 5, got));
  EXPECT_TRUE(sent == got);
}

TEST_P(DeviceContract, KernelsThatDoNotFitAreRefusedByName) {
  auto device = open();
  plan::KernelCode code = affine_kernel("too_wide", 1, 1);
  const auto refused = [&](Code expected) {
    const Status s = device->create_kernels({&code, 1}).status();
    EXPECT_EQ(s.code(), expected);
    EXPECT_NE(s.message().find("'too_wide'"), std::string::npos) << s.message();
  };
  code.workgroup = {1 << 20, 1, 1};
  refused(Code::Unsupported);
  code.workgroup = {64, 1, 1};
  code.shared_bytes = 1U << 30;
  refused(Code::Unsupported);
  code.shared_bytes = 0;
  code.subgroup_size = 3;
  refused(Code::Unsupported);
  code.subgroup_size = device->info().facts.subgroup_size;
  ASSERT_OK(device->create_kernels({&code, 1}).status());
}

TEST_P(DeviceContract, ManySizesUseTheMemoryOfTheLargest) {
  auto device = open();
  auto s = session(chain(3, 0, true), device, {.max_in_flight = 1});
  ASSERT_TRUE(s);
  const auto run = [&](int64_t n) {
    const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
    auto y = s->run({{{.name = "x", .host = &x}}});
    ASSERT_OK(y.status());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*y)[0].data<float>()[i], x.data<float>()[i] + 3);
  };
  run(5000);
  const uint64_t bytes = s->stats().device_bytes;
  const Counters before = device->counters();
  for (int64_t i = 0; i < 300; ++i) run(i * 7919 % 5000);
  EXPECT_EQ(s->stats().device_bytes, bytes);
  EXPECT_EQ(device->counters().allocations, before.allocations);
  EXPECT_EQ(device->counters().recordings, before.recordings);
}

/// Makes every new thread ask for a stack that no machine has.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&saved_);
    pthread_attr_t huge = saved_;
    EXPECT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
  }
  ~NoMoreThreads() { pthread_setattr_default_np(&saved_); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t saved_{};
};

TEST_P(DeviceContract, KernelsAreBuiltWithoutThreadsToo) {
  BackendOptions options;
  options.threads = 4;
  auto device = open(options);
  std::vector<plan::KernelCode> code;
  code.reserve(6);
  for (int i = 0; i < 6; ++i) code.push_back(affine_kernel("k" + std::to_string(i), 1, 1));
  const NoMoreThreads none;
  auto kernels = device->create_kernels(code);
  ASSERT_OK(kernels.status());
  for (const auto& k : *kernels) EXPECT_NE(k, nullptr);
}

TEST_P(DeviceContract, HostCallsSeeTheDevicesValues) {
  PlanWriter w;
  const Expr n = w.symbol("n", 0, 0);
  const auto x = w.input("x", DType::F32, {n});
  const auto y = w.output("y", DType::F32, {n});
  const auto a = w.arena("a", DType::F32, {n}), b = w.arena("b", DType::F32, {n});
  const auto c = w.weight("c", floats({1}, {2}));
  w.launch(w.kernel(affine_kernel("minus", 1.0F, -5.0F)), {x, a}, {n});
  w.host("Mul", {a, c}, {b});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 1.0F)), {b, y}, {n});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  for (const int64_t size : {3, 1000, 3}) {
    const HostTensor in = floats({size}, ramp(static_cast<size_t>(size)));
    auto r = s->run({{{.name = "x", .host = &in}}});
    ASSERT_OK(r.status());
    for (int64_t i = 0; i < size; ++i)
      ASSERT_EQ((*r)[0].data<float>()[i], (in.data<float>()[i] - 5) * 2 + 1);
  }
}

TEST_P(DeviceContract, TransfersOfAnySizeAndPlace) {
  auto device = open();
  for (const MemoryUse use : {MemoryUse::Device, MemoryUse::Upload, MemoryUse::Readback}) {
    for (const size_t size : {1U, 3U, 16U, 17U, 1000U, 65537U}) {
      auto b = device->allocate(size, use);
      ASSERT_OK(b.status());
      EXPECT_GE((*b)->size(), size);
      EXPECT_EQ((*b)->address() % plan::kBufferAlignment, 0U);
      std::vector<std::byte> all(size), part(size);
      for (size_t i = 0; i < size; ++i) all[i] = static_cast<std::byte>(i * 37 + size);
      ASSERT_OK(device->upload(**b, 0, all));
      const size_t at = size / 3;
      ASSERT_OK(device->upload(**b, at, std::span(all).first(size - at)));
      ASSERT_OK(device->upload(**b, size, {}));
      ASSERT_OK(device->download(**b, 0, {}));
      ASSERT_OK(device->download(**b, 0, part));
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(part[i], i < at ? all[i] : all[i - at]) << i;
    }
    ASSERT_OK(device->allocate(0, use).status());
  }
}

TEST_P(DeviceContract, BuffersOfAnotherDeviceAreRefused) {
  auto device = open(), other = open();
  auto b = other->allocate(1024, MemoryUse::Device);
  ASSERT_OK(b.status());
  EXPECT_FALSE(device->owns(**b));
  EXPECT_TRUE(other->owns(**b));
  auto s = session(chain(1, 256, false), device);
  ASSERT_TRUE(s);
  const auto r = s->run({{{.name = "x", .device = b->get(), .dims = {256}}}});
  EXPECT_EQ(r.status().code(), Code::InvalidInput);
}

Command copy_of(const DeviceBuffer& from, const DeviceBuffer& to, uint64_t bytes) {
  Command c;
  c.kind = Command::Kind::Copy;
  c.src = &from;
  c.dst = &to;
  c.bytes = bytes;
  return c;
}

Command of_kind(Command::Kind kind) {
  Command c;
  c.kind = kind;
  return c;
}

// host -> a -> b -> host, by barriers and by edges, of a size that is odd.
TEST_P(DeviceContract, CopiesAreOrdered) {
  constexpr uint64_t kBytes = 5003;
  auto device = open();
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (const MemoryUse use :
       {MemoryUse::Upload, MemoryUse::Device, MemoryUse::Device, MemoryUse::Readback}) {
    auto b = device->allocate(kBytes, use);
    ASSERT_OK(b.status());
    buffers.push_back(std::move(*b));
  }
  for (const bool once : {false, true}) {
    RecordingDesc desc;
    desc.once = once;
    for (uint32_t i = 0; i < 3; ++i) {
      desc.commands.push_back(copy_of(*buffers[i], *buffers[i + 1], kBytes));
      desc.commands.push_back(of_kind(i < 2 ? Command::Kind::Barrier : Command::Kind::HostBarrier));
      if (i > 0) desc.commands[2 * i].after = {2 * i - 2};
    }
    auto recording = device->record(desc);
    ASSERT_OK(recording.status());
    for (int run = 0; run < 3; ++run) {
      std::vector<std::byte> sent(kBytes), got(kBytes);
      for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i * 31 + run * 7);
      ASSERT_OK(device->upload(*buffers[0], 0, sent));
      ASSERT_OK((*recording)->submit());
      ASSERT_OK((*recording)->wait(60'000'000'000));
      ASSERT_OK(device->download(*buffers[3], 0, got));
      EXPECT_TRUE(sent == got);
    }
  }
}

TEST_P(DeviceContract, ARecordingIsSubmittedOnceAtATime) {
  auto device = open();
  auto a = device->allocate(64, MemoryUse::Upload), b = device->allocate(64, MemoryUse::Readback);
  ASSERT_TRUE(a.ok() && b.ok());
  RecordingDesc desc;
  desc.commands = {copy_of(**a, **b, 64), of_kind(Command::Kind::HostBarrier)};
  auto recording = device->record(desc);
  ASSERT_OK(recording.status());
  ASSERT_OK((*recording)->wait(1));  // nothing to wait for
  ASSERT_OK((*recording)->submit());
  EXPECT_EQ((*recording)->submit().code(), Code::Device);
  ASSERT_OK((*recording)->wait(60'000'000'000));
  ASSERT_OK((*recording)->submit());
  ASSERT_OK((*recording)->wait(60'000'000'000));
}

// Whether or not the run ends before its timeout: its objects can go at once.
TEST_P(DeviceContract, ARunThatTimedOutIsWaitedForWhenItsObjectsGo) {
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  auto device = open();
  for (const bool once : {false, true}) {
    auto a = device->allocate(kBytes, MemoryUse::Device);
    auto b = device->allocate(kBytes, MemoryUse::Device);
    ASSERT_TRUE(a.ok() && b.ok());
    RecordingDesc desc;
    desc.once = once;
    for (uint32_t i = 0; i < 16; ++i) {
      desc.commands.push_back(copy_of(i % 2 == 0 ? **a : **b, i % 2 == 0 ? **b : **a, kBytes));
      if (i > 0) desc.commands.back().after = {2 * i - 2};
      desc.commands.push_back(
          of_kind(i < 15 ? Command::Kind::Barrier : Command::Kind::HostBarrier));
    }
    auto recording = device->record(desc);
    ASSERT_OK(recording.status());
    ASSERT_OK((*recording)->submit());
    const Status waited = (*recording)->wait(0);
    if (!waited.ok()) {
      EXPECT_EQ(waited.code(), Code::Timeout);
      EXPECT_NE(waited.message().find("within 0 s"), std::string::npos) << waited.message();
      EXPECT_EQ((*recording)->submit().code(), Code::Device);
    }
  }
  auto c = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(c.status());
  std::array<std::byte, 64> bytes{};
  ASSERT_OK(device->upload(**c, 0, bytes));
  ASSERT_OK(device->download(**c, 0, bytes));
}

TEST_P(DeviceContract, BlocksOutsideTheirBufferAreRefused) {
  auto device = open();
  const plan::KernelCode code = affine_kernel("k", 1, 1);
  auto kernels = device->create_kernels({&code, 1});
  ASSERT_OK(kernels.status());
  auto blocks = device->allocate(64, MemoryUse::Upload);
  ASSERT_OK(blocks.status());
  RecordingDesc desc;
  desc.blocks = blocks->get();
  desc.commands.emplace_back().kernel = kernels->front().get();
  ASSERT_OK(device->record(desc).status());
  desc.commands[0].block_offset = 64;
  EXPECT_EQ(device->record(desc).status().code(), Code::Internal);
}

TEST_P(DeviceContract, ImagesOfAnApplicationAreThoseOfItsVulkanDevice) {
  auto device = open();
  ASSERT_TRUE(device);
  const DeviceImage image{
      .handle = 1, .format = 37, .usage = 3, .width = 8, .height = 8, .layout = 1};
  const bool vulkan = device->info().facts.api == Api::Vulkan;
  EXPECT_EQ(device->check_image(image, ImageFormat::Rgba8, false).code(),
            vulkan ? Code::Usage : Code::Unsupported);
  EXPECT_EQ(device->check_rows().ok(), vulkan);
}

TEST_P(DeviceContract, AnApplicationsDeviceAndMemoryAreBorrowed) {
  const std::string id = GetParam();
  const size_t index = std::stoul(id.substr(id.find(':') + 1));
  const Lender lender = id.substr(0, 4) == "cuda" ? lend_cuda(index) : lend_vulkan(index);
  {
    auto device = open(lender.options);
    ASSERT_TRUE(device);
    EXPECT_EQ(device->info().id, id.substr(0, id.find(':')));
    if (device->info().facts.api == Api::Vulkan) {
      EXPECT_FALSE(device->info().facts.int64);  // not said to be enabled
    }
    auto s = session(chain(2, 100, false), device);
    ASSERT_TRUE(s);
    auto memory = device->borrow(lender.memory, 400);
    ASSERT_OK(memory.status());
    const HostTensor x = floats({100}, ramp(100));
    for (int run = 0; run < 2; ++run) {
      ASSERT_OK(s->run({{{.name = "x", .host = &x}}}, {{{.name = "y", .device = memory->get()}}})
                    .status());
    }
    HostTensor y(DType::F32, {100});
    ASSERT_OK(device->download(**memory, 0, y.mutable_bytes()));
    EXPECT_EQ(values(y)[50], 52.0F);
    EXPECT_EQ(device->borrow(nullptr, 16).status().code(), Code::Usage);
  }
  EXPECT_TRUE(lender.unharmed());  // borrowed objects are not destroyed
}

REPRISE_ON_ALL_DEVICES(DeviceContract);

}  // namespace
}  // namespace reprise::test
