// Compiled kernels on disk: what is found again, and what happens to damaged files and full
// folders.
#include "codegen/nvrtc/cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;
using nvrtc::Image;
using nvrtc::ImageCache;

Image image_of(size_t bytes, int seed = 1) {
  Image image;
  for (size_t i = 0; i < bytes; ++i)
    image.bytes.push_back(static_cast<std::byte>(i * 7 + static_cast<size_t>(seed)));
  image.usage = {32, 0, 1024, 8};
  return image;
}

class Cache : public testing::Test {
 protected:
  ImageCache open(uint64_t limit = 1 << 20) {
    return ImageCache(folder(), limit, [this](const std::string& m) { messages_ += m + "\n"; });
  }
  std::string folder() const { return (dir_ / "deep" / "cache").string(); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder())) out.push_back(entry.path());
    return out;
  }

  TempDir dir_;
  std::string messages_;
};

TEST(CacheKey, DependsOnEveryPart) {
  const std::string key = ImageCache::key("text", {"-a", "-b"}, "13.0");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, ImageCache::key("text", {"-a", "-b"}, "13.0"));
  EXPECT_NE(key, ImageCache::key("texts", {"-a", "-b"}, "13.0"));
  EXPECT_NE(key, ImageCache::key("text", {"-a"}, "13.0"));
  EXPECT_NE(key, ImageCache::key("text", {"-a-b"}, "13.0"));
  EXPECT_NE(key, ImageCache::key("text", {"-b", "-a"}, "13.0"));
  EXPECT_NE(key, ImageCache::key("text", {"-a", "-b"}, "13.1"));
}

TEST_F(Cache, FindsWhatWasPut) {
  const std::string key = ImageCache::key("a", {}, "1");
  EXPECT_FALSE(open().find(key));
  open().put(key, image_of(1000));
  const auto found = open().find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, image_of(1000).bytes);
  EXPECT_EQ(found->usage, image_of(1000).usage);
  EXPECT_FALSE(open().find(ImageCache::key("b", {}, "1")));
  EXPECT_EQ(files().size(), 1u);  // nothing half written is left
  EXPECT_EQ(messages_, "");
}

TEST_F(Cache, NoFolderMeansNoCache) {
  const ImageCache none("", 1 << 20, {});
  none.put(ImageCache::key("a", {}, "1"), image_of(10));
  none.bound();
  EXPECT_FALSE(none.find(ImageCache::key("a", {}, "1")));
}

TEST_F(Cache, EveryDamagedByteIsFoundAndTheEntryWrittenAgain) {
  const std::string key = ImageCache::key("a", {}, "1");
  open().put(key, image_of(100));
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  const std::string good = read_file(file);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    write_file(file, bad);
    messages_.clear();
    EXPECT_FALSE(open().find(key)) << i;
    EXPECT_NE(messages_.find(file.string()), std::string::npos) << i;
    EXPECT_NE(messages_.find("compiled again"), std::string::npos) << messages_;
  }
  for (size_t n = 0; n < good.size(); n += 13) {  // torn
    write_file(file, good.substr(0, n));
    EXPECT_FALSE(open().find(key)) << n;
  }
  open().put(key, image_of(100));
  EXPECT_EQ(read_file(file), good);
  EXPECT_TRUE(open().find(key));
}

TEST_F(Cache, AnotherKernelsFileIsNotTaken) {
  const std::string a = ImageCache::key("a", {}, "1"), b = ImageCache::key("b", {}, "1");
  open().put(a, image_of(100));
  fs::rename(files()[0], (fs::path(folder()) / b).string() + files()[0].extension().string());
  EXPECT_FALSE(open().find(b));
  EXPECT_NE(messages_.find("belongs to another kernel"), std::string::npos) << messages_;
}

TEST_F(Cache, ThoseUsedLongestAgoGoFirst) {
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) {
    keys.push_back(ImageCache::key(std::to_string(i), {}, "1"));
    open().put(keys.back(), image_of(1000));
    // Ages differ whatever the file system's clock does.
    const auto age = std::chrono::hours(100 - i);
    for (const fs::path& f : files()) {
      if (f.filename().string().starts_with(keys.back()))
        fs::last_write_time(f, fs::file_time_type::clock::now() - age);
    }
  }
  EXPECT_TRUE(open().find(keys[0]));  // used now
  open(3500).bound();
  EXPECT_EQ(files().size(), 3u);
  EXPECT_TRUE(open().find(keys[0]));
  EXPECT_FALSE(open().find(keys[1]));
  EXPECT_FALSE(open().find(keys[2]));
  EXPECT_TRUE(open().find(keys[3]));
  EXPECT_TRUE(open().find(keys[4]));
}

TEST_F(Cache, AFolderThatCannotBeWrittenIsSaid) {
  write_file(dir_ / "deep", "a file in the folder's place");
  open().put(ImageCache::key("a", {}, "1"), image_of(10));
  EXPECT_NE(messages_.find("could not be written"), std::string::npos) << messages_;
  open().bound();
}

}  // namespace
}  // namespace reprise::test
