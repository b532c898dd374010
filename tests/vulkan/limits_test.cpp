// What stays bounded: memory over many sizes, the cache folder, threads.
#include <pthread.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "backends/vulkan/pipeline_cache.h"
#include "support.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

class VulkanLimits : public OnDevice {};

TEST_P(VulkanLimits, ManySizesUseTheMemoryOfTheLargest) {
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

TEST_P(VulkanLimits, KernelsAreBuiltWithoutThreadsToo) {
  BackendOptions options;
  options.threads = 4;
  auto device = open({}, options);
  std::vector<plan::KernelCode> code;
  for (int i = 0; i < 6; ++i) code.push_back(affine_kernel("k" + std::to_string(i), 1, 1));
  const NoMoreThreads none;
  auto kernels = device->create_kernels(code);
  ASSERT_OK(kernels.status());
  for (const auto& k : *kernels) EXPECT_NE(k, nullptr);
}

REPRISE_ON_DEVICES(VulkanLimits);

TEST(PipelineCacheFolder, TheOldestFilesGoAndHalfWrittenOnesToo) {
  const fs::path dir = fs::path(testing::TempDir()) / "reprise_cache_folder";
  fs::remove_all(dir);
  fs::create_directories(dir);
  const auto now = fs::file_time_type::clock::now();
  const auto add = [&](const std::string& name, uint64_t bytes, int hours) {
    std::ofstream(dir / name).put('x');
    fs::resize_file(dir / name, bytes);  // sparse
    fs::last_write_time(dir / name, now - std::chrono::hours(hours));
  };
  const uint64_t third = vulkan::kMaxCacheFolderBytes / 3;
  add("oldest.vkcache", third, 30);
  add("older.vkcache", third, 20);
  add("old.vkcache", third, 10);
  add("other.txt", third, 40);
  add("died.vkcache.1.1.part", 100, 2);
  add("writing.vkcache.2.1.part", 100, 0);
  const std::vector<std::byte> bytes(1000);
  const vulkan::CacheKey key;
  std::string messages;
  vulkan::save_cache(dir.string(), key, bytes, [&](const std::string& m) { messages += m; });
  EXPECT_EQ(messages, "");
  EXPECT_TRUE(fs::exists(dir / key.file_name()));
  EXPECT_FALSE(fs::exists(dir / "oldest.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "older.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "old.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "other.txt"));
  EXPECT_FALSE(fs::exists(dir / "died.vkcache.1.1.part"));
  EXPECT_TRUE(fs::exists(dir / "writing.vkcache.2.1.part"));
  const std::vector<std::byte> huge(vulkan::kMaxCacheFileBytes + 1);
  vulkan::save_cache(dir.string(), key, huge, [&](const std::string& m) { messages += m; });
  EXPECT_NE(messages.find("over the limit"), std::string::npos) << messages;
  EXPECT_EQ(fs::file_size(dir / key.file_name()), 1048U);  // as it was
  fs::remove_all(dir);
}

}  // namespace
}  // namespace reprise::test
