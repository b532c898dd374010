// The Vulkan device itself: memory, kernels, failures, the application's own objects.
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "backends/vulkan/facts.h"
#include "backends/vulkan/pipeline_cache.h"
#include "intercept.h"
#include "support.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAtLast = std::chrono::minutes(5);  // what has to end has ended

class VulkanDeviceTest : public OnDevice {
 protected:
  void SetUp() override { calls().reset(); }
};

// One run of two launches on a fresh device; the first error, if any.
Status whole_life(const std::shared_ptr<Device>& device, bool timestamps) {
  SessionOptions options;
  options.timestamps = timestamps;
  RP_ASSIGN(auto s, Session::create(chain(2, 100, false), device, options));
  const HostTensor x = floats({100}, ramp(100));
  const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
  const Status first = s->run(inputs).status();
  // Whatever failed, the session is usable again unless the device was lost.
  auto second = s->run(inputs);
  if (!first.ok()) {
    if (second.ok()) {
      EXPECT_EQ(values((*second)[0])[99], 101.0F);
    }
    return first;
  }
  return second.status();
}

// Counts that `reprise explain` prints for a package with inputs x and outputs y.
std::map<std::string, uint64_t> explained(package::Package package, const std::string& device) {
  PlanWriter host;
  host.host("Identity", {host.input("x", DType::F32, package.io.inputs[0].shape)},
            {host.output("y", DType::F32, package.io.outputs[0].shape)});
  plan::compute_hazards(host.plan);
  package.host_plan = std::move(host.plan);
  // Their kernels were compiled for no architecture.
  std::erase_if(package.variants, [](const auto& v) { return v.predicate.api == Api::Cuda; });
  const TempDir dir;
  const std::string file = dir / "m.rpk", json = dir / "m.json";
  const Status written = package::write(package, file);
  EXPECT_TRUE(written.ok()) << written.message();
  const ProcessResult r =
      run_process({program("reprise"), "explain", file, "--device", device, "--json", json});
  EXPECT_EQ(r.status, 0) << r.err;
  const std::string text = read_file(json);
  std::map<std::string, uint64_t> counts;
  for (const char* key : {"launches", "submits", "barriers"}) {
    const std::string label = "\"" + std::string(key) + "\": ";
    const size_t at = text.find(label);
    EXPECT_NE(at, std::string::npos) << label << " in " << text;
    if (at != std::string::npos) counts[key] = std::stoull(text.substr(at + label.size()));
  }
  return counts;
}

TEST_P(VulkanDeviceTest, CountsEqualThePlanAndWhatExplainSays) {
  auto device = open(intercept);
  for (const size_t launches : {1U, 5U}) {
    auto package = chain(launches, 1000, true);
    auto s = session(package, device);
    ASSERT_TRUE(s);
    const plan::PlanCounts expected = plan::count(s->plan());
    auto explain = explained(*package, GetParam());
    EXPECT_EQ(explain["launches"], expected.dispatches);
    EXPECT_EQ(explain["submits"], expected.submits);
    EXPECT_EQ(explain["barriers"], expected.barriers);
    calls().reset();
    for (const int64_t n : {1000, 10, 10}) {
      const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
      ASSERT_OK(s->run({{{.name = "x", .host = &x}}}).status());
    }
    // A discrete GPU's memory is not mapped, so the recording also copies the input and the output.
    const bool apart = device->info().facts.kind == DeviceKind::DiscreteGpu;
    const uint64_t copies = apart ? 2 : 0;
    EXPECT_EQ(calls().dispatches, expected.dispatches);
    EXPECT_EQ(calls().dispatches, launches);
    EXPECT_EQ(calls().barriers, expected.barriers + copies);
    EXPECT_EQ(calls().submits, 3 * expected.submits);
    EXPECT_EQ(calls().submits, 3U);
    EXPECT_EQ(calls().copies, copies);
  }
}

TEST_P(VulkanDeviceTest, DriverCallsOfARunDoNotGrowWithThePlan) {
  auto device = open(intercept);
  std::array<uint64_t, 2> made{};
  std::array<double, 2> submit_us{};
  const std::array<size_t, 2> sizes{10, 1000};
  for (size_t p = 0; p < 2; ++p) {
    auto s = session(chain(sizes[p], 64, true), device);
    ASSERT_TRUE(s);
    const HostTensor x = floats({64}, ramp(64));
    std::vector<double> times;
    for (int run = 0; run < 10; ++run) {
      const uint64_t before = calls().all;
      RunStats stats;
      auto y = s->run({{{.name = "x", .host = &x}}}, {}, &stats);
      ASSERT_OK(y.status());
      EXPECT_EQ(values((*y)[0])[5], 5.0F + static_cast<float>(sizes[p]));
      made[p] = calls().all - before;
      times.push_back(stats.host_submit_us);
    }
    std::sort(times.begin(), times.end());
    submit_us[p] = times[times.size() / 2];
  }
  EXPECT_EQ(made[0], made[1]);
  EXPECT_LE(made[1], 4U);
  std::printf("host_submit_us on %s: %.1f for %zu launches, %.1f for %zu\n", GetParam().c_str(),
              submit_us[0], sizes[0], submit_us[1], sizes[1]);
}

TEST_P(VulkanDeviceTest, EveryDriverFailureIsAnErrorWithoutALeak) {
  expect_messages_ = true;  // the layer comments on some injected failures
  for (const int error : {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST}) {
    for (int64_t n = 0;; ++n) {
      calls().reset();
      calls().error = error;
      calls().fail_after = n;
      Status failure;
      {
        auto device = vulkan::open(std::stoul(GetParam().substr(7)), {}, intercept);
        failure = device.ok() ? whole_life(std::shared_ptr<Device>(std::move(*device)), true)
                              : device.status();
      }
      EXPECT_EQ(calls().created, calls().destroyed) << "after failing call " << n;
      if (!calls().failed) {
        ASSERT_OK(failure);
        EXPECT_GT(n, 30);
        break;
      }
      if (!failure.ok()) {
        const bool lost = error == VK_ERROR_DEVICE_LOST;
        EXPECT_EQ(failure.code(), lost ? Code::DeviceLost : Code::OutOfMemory) << failure.message();
        EXPECT_NE(failure.message().find("vk"), std::string::npos) << failure.message();
      }
    }
  }
}

TEST_P(VulkanDeviceTest, ALostDeviceStaysLost) {
  auto device = open(intercept);
  auto s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  const HostTensor x = floats({100}, ramp(100));
  ASSERT_OK(s->run({{{.name = "x", .host = &x}}}).status());
  calls().error = VK_ERROR_DEVICE_LOST;
  calls().fail_after = 1;  // the reset of the fence succeeds, the submission does not
  const Status lost = s->run({{{.name = "x", .host = &x}}}).status();
  EXPECT_EQ(lost.code(), Code::DeviceLost);
  EXPECT_NE(lost.message().find("VK_ERROR_DEVICE_LOST"), std::string::npos) << lost.message();
  const Status later = s->run({{{.name = "x", .host = &x}}}).status();
  EXPECT_EQ(later.code(), Code::DeviceLost);
  EXPECT_NE(later.message().find("open the device again"), std::string::npos) << later.message();
  EXPECT_FALSE(device->allocate(64, MemoryUse::Device).ok());
  EXPECT_FALSE(Session::create(chain(1, 4, false), device).ok());
}

TEST_P(VulkanDeviceTest, ATimeoutNamesTheDevice) {
  auto device = open(intercept);
  auto s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  const HostTensor x = floats({100}, ramp(100));
  ASSERT_OK(s->run({{{.name = "x", .host = &x}}}).status());
  calls().error = VK_TIMEOUT;
  calls().fail_after = 2;  // the wait
  const Status late = s->run({{{.name = "x", .host = &x}}}).status();
  EXPECT_EQ(late.code(), Code::Timeout);
  EXPECT_NE(late.message().find("did not finish on " + GetParam()), std::string::npos)
      << late.message();
  ASSERT_OK(s->run({{{.name = "x", .host = &x}}}).status());
}

PFN_vkWaitForFences real_wait = nullptr;
std::atomic<bool> hangs = false;

VkResult wait_or_hang(VkDevice device, uint32_t n, const VkFence* fences, VkBool32 all,
                      uint64_t ns) {
  return hangs ? VK_TIMEOUT : real_wait(device, n, fences, all, ns);
}

TEST_P(VulkanDeviceTest, ARunThatNeverEndsIsGivenUp) {
  BackendOptions options;
  options.patience_ns = 20'000'000;
  auto device = open(
      [](VolkDeviceTable& t) {
        intercept(t);
        real_wait = t.vkWaitForFences;
        t.vkWaitForFences = wait_or_hang;
      },
      options);
  auto buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  {
    SessionOptions short_time;
    short_time.timeout_ns = 10'000'000;
    auto s = session(chain(2, 100, false), device, short_time);
    ASSERT_TRUE(s);
    hangs = true;
    const HostTensor x = floats({100}, ramp(100));
    const Status late = s->run({{{.name = "x", .host = &x}}}).status();
    EXPECT_NE(late.message().find("within 0.01 s;"), std::string::npos) << late.message();
    calls().reset();
  }
  hangs = false;
  buffer->reset();
  EXPECT_EQ(calls().destroyed, 0U);
  const Status later = device->allocate(64, MemoryUse::Device).status();
  EXPECT_EQ(later.code(), Code::DeviceLost);
  for (const char* part : {"another 0.02 s", "given up", "start the process again"})
    EXPECT_NE(later.message().find(part), std::string::npos) << later.message();
  device.reset();
  EXPECT_EQ(calls().destroyed, 0U);
  ASSERT_OK(open()->allocate(64, MemoryUse::Device).status());
}

TEST_P(VulkanDeviceTest, TransfersBehindARunThatHangsEnd) {
  BackendOptions options;
  options.patience_ns = 300'000'000;
  driver_hook_ = hide_device_memory;
  auto device = open(
      [](VolkDeviceTable& t) {
        real_wait = t.vkWaitForFences;
        t.vkWaitForFences = wait_or_hang;
      },
      options);
  SessionOptions short_time;
  short_time.timeout_ns = 1'000'000;
  auto s = session(chain(2, 100, false), device, short_time);
  auto buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  const HostTensor x = floats({100}, ramp(100));
  hangs = true;
  EXPECT_EQ(s->run({{{.name = "x", .host = &x}}}).status().code(), Code::Timeout);
  std::array<std::byte, 64> bytes{};
  const Status late = device->upload(**buffer, 0, bytes);
  hangs = false;
  EXPECT_EQ(late.code(), Code::Timeout);
  EXPECT_NE(late.message().find("transfer"), std::string::npos) << late.message();
  Status after = late;  // that run ends some time
  for (const auto start = Clock::now(); !after.ok() && Clock::now() - start < kAtLast;)
    after = device->upload(**buffer, 0, bytes);
  EXPECT_TRUE(after.ok()) << after.message();
}

TEST_P(VulkanDeviceTest, WhatIsNoModuleIsRefused) {
  auto device = open();
  plan::KernelCode code = affine_kernel("broken", 1, 1);
  code.spirv = {1, 2, 3, 4, 5, 6};
  const Status s = device->create_kernels({&code, 1}).status();
  EXPECT_EQ(s.code(), Code::InvalidModel);
  EXPECT_NE(s.message().find("'broken'"), std::string::npos) << s.message();
}

TEST_P(VulkanDeviceTest, ThePipelineCacheSurvivesAndBadFilesAreIgnored) {
  namespace fs = std::filesystem;
  expect_messages_ = true;  // about the files that this test damages
  const fs::path dir =
      fs::path(testing::TempDir()) / ("reprise_cache_" + id_as_name({GetParam(), 0}));
  fs::remove_all(dir);
  auto instance = vulkan::Instance::create(false, {});
  ASSERT_OK(instance.status());
  auto handles = (*instance)->physical_devices();
  const auto physical =
      vulkan::PhysicalDevice::query(**instance, (*handles)[std::stoul(GetParam().substr(7))], 0);
  BackendOptions options;
  options.cache_dir = dir.string();
  const plan::KernelCode code = affine_kernel("cached", 2, 3);
  const auto start = [&] {
    auto device =
        open([&](VolkDeviceTable& t) { mock_pipeline_cache(t, physical.properties); }, options);
    EXPECT_TRUE(device->create_kernels({&code, 1}).ok());
    return initial_cache_bytes();
  };
  EXPECT_EQ(start(), 0U);
  const uint64_t first = start();
  EXPECT_EQ(first, sizeof(VkPipelineCacheHeaderVersionOne) + 1);
  EXPECT_EQ(start(), first + 1);
  EXPECT_TRUE(messages().empty());
  ASSERT_EQ(std::distance(fs::directory_iterator(dir), fs::directory_iterator{}), 1);

  const fs::path file = fs::directory_iterator(dir)->path();
  for (const uint64_t at : {0U, 8U, 24U, 32U, 40U, 48U, 60U}) {
    const size_t before = messages().size();
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const char flipped = static_cast<char>(f.get() ^ 0x40);
    f.seekp(static_cast<std::streamoff>(at));
    f.put(flipped);
    f.close();
    EXPECT_EQ(start(), 0U) << "byte " << at;  // and the file is written anew
    EXPECT_GT(messages().size(), before);
    EXPECT_GT(start(), 0U);
  }
  fs::resize_file(file, 50);
  EXPECT_EQ(start(), 0U);
  fs::remove_all(dir);
}

TEST_P(VulkanDeviceTest, APipeAsCacheFileIsIgnored) {
  expect_messages_ = true;
  const TempDir dir;
  BackendOptions options;
  options.cache_dir = dir.path().string();
  vulkan::CacheKey key;
  driver_hook_ = [&](vulkan::Driver& d) {
    const VkPhysicalDeviceProperties& p = d.physical.properties;
    std::copy(std::begin(d.physical.info.uuid), std::end(d.physical.info.uuid),
              key.device_uuid.begin());
    key.driver_version = p.driverVersion;
    ASSERT_EQ(::mkfifo((dir / key.file_name()).c_str(), 0600), 0);
  };
  auto device = open({}, options);
  ASSERT_TRUE(device);
  ASSERT_EQ(messages().size(), 1U);
  EXPECT_NE(messages()[0].find("is ignored: it is not a regular file"), std::string::npos)
      << messages()[0];
}

TEST(Registry, NamesAndTheirErrors) {
  EXPECT_EQ(open_device("gpu").status().code(), Code::Usage);
  EXPECT_EQ(open_device("vulkan:x").status().code(), Code::Usage);
  const auto host = open_device("host");
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->device, nullptr);
  EXPECT_EQ(list_devices().back().id, "host");
  if (!device_ids().empty()) {
    const auto chosen = open_device("auto");
    ASSERT_TRUE(chosen.ok());
    EXPECT_NE(chosen->note.find(chosen->info.id), std::string::npos);
    EXPECT_TRUE(open_device("vulkan:0").ok());
    EXPECT_EQ(open_device("vulkan:999").status().code(), Code::Usage);
  }
}

REPRISE_ON_DEVICES(VulkanDeviceTest);

}  // namespace
}  // namespace reprise::test
