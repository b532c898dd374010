// What stays bounded: the folder of the pipeline cache.
#include <chrono>
#include <filesystem>
#include <fstream>

#include "backends/vulkan/pipeline_cache.h"
#include "support.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

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
  vulkan::save_cache(dir.string(), key, bytes,
                     [&](Severity, const std::string& m) { messages += m; });
  EXPECT_EQ(messages, "");
  EXPECT_TRUE(fs::exists(dir / key.file_name()));
  EXPECT_FALSE(fs::exists(dir / "oldest.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "older.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "old.vkcache"));
  EXPECT_TRUE(fs::exists(dir / "other.txt"));
  EXPECT_FALSE(fs::exists(dir / "died.vkcache.1.1.part"));
  EXPECT_TRUE(fs::exists(dir / "writing.vkcache.2.1.part"));
  const std::vector<std::byte> huge(vulkan::kMaxCacheFileBytes + 1);
  vulkan::save_cache(dir.string(), key, huge,
                     [&](Severity, const std::string& m) { messages += m; });
  EXPECT_NE(messages.find("exceeds the limit"), std::string::npos) << messages;
  EXPECT_EQ(fs::file_size(dir / key.file_name()), 1048U);  // as it was
  fs::remove_all(dir);
}

}  // namespace
}  // namespace reprise::test
