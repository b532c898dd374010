#include "runtime/platform/cache_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

class CacheFile : public testing::Test {
 protected:
  bool write() const {
    const std::array<std::byte, 4> bytes{};
    const std::array<std::span<const std::byte>, 1> parts{bytes};
    return write_cache_file(path_, parts);
  }
  /// Why the file is refused; empty when it is opened, or not there.
  std::string wrong(bool opened) const {
    std::string why = "stale";
    EXPECT_EQ(open_cache_file(path_, why) != nullptr, opened);
    return why;
  }
  TempDir dir_;
  fs::path path_ = dir_ / "a.cache";
};

TEST_F(CacheFile, OwnFilesAreOpened) {
  EXPECT_EQ(wrong(false), "");
  ASSERT_TRUE(write());
  EXPECT_EQ(wrong(true), "");
}

TEST_F(CacheFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(wrong(false), "it is not a regular file");
  ASSERT_TRUE(write());  // takes its place
  EXPECT_EQ(wrong(true), "");
  fs::rename(path_, dir_ / "b.cache");
  fs::create_symlink("b.cache", path_);
  EXPECT_EQ(wrong(false), "it is a symbolic link");
}

TEST_F(CacheFile, OnlyTheUserCanReadWhatIsWritten) {
  path_ = dir_ / "a/b/c.cache";
  const mode_t before = ::umask(0);
  const bool written = write();
  ::umask(before);
  ASSERT_TRUE(written);
  const auto mode = [](const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  EXPECT_EQ(mode(path_), 0600u);
  EXPECT_EQ(mode(dir_ / "a"), 0700u);
  EXPECT_EQ(mode(dir_ / "a/b"), 0700u);
}

TEST_F(CacheFile, WhatOthersMayHaveWrittenIsRefused) {
  ASSERT_TRUE(write());
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(wrong(false), "others than its owner may write to it");
  ASSERT_EQ(::chmod(path_.c_str(), 0664), 0);
  EXPECT_EQ(wrong(false), "others than its owner may write to it");
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(wrong(true), "");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_NE(wrong(false).find("it belongs to user 12345"), std::string::npos);
}

TEST_F(CacheFile, AFolderInWhichEveryUserMayExchangeFilesIsNotUsed) {
  const fs::path folder = dir_ / "open";
  path_ = folder / "a.cache";
  ASSERT_TRUE(write());
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  EXPECT_EQ(wrong(false), "every user may write to its folder");
  EXPECT_FALSE(write());
  ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);  // as /tmp
  EXPECT_EQ(wrong(true), "");
  EXPECT_TRUE(write());
  // A folder below it is this user's own.
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  path_ = folder / "below/a.cache";
  EXPECT_TRUE(write());
  EXPECT_EQ(wrong(true), "");
}

}  // namespace
}  // namespace reprise::test
