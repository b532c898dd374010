#include "runtime/platform/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>

#include "runtime/platform/output_file.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;
using platform::InputFile;

class Files : public testing::Test {
 protected:
  Files() { std::ofstream(path_) << "0123456789"; }
  TempDir dir_;
  const std::string path_ = (dir_ / "f").string();
};

std::string text(const InputFile& file, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const Status s = file.read(offset, std::as_writable_bytes(std::span(out)));
  return s.ok() ? out : s.message();
}

TEST_F(Files, AreReadAtAnyPlace) {
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(text(*file, 3, 4), "3456");
  EXPECT_EQ(text(*file, 0, 10), "0123456789");
}

TEST_F(Files, ThatBecomeShorterAreErrors) {
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file.ok());
  fs::resize_file(path_, 4);
  EXPECT_EQ(text(*file, 0, 4), "0123");
  EXPECT_EQ(text(*file, 2, 4),
            "has become shorter while it was open: it ends at byte 4, not at 10");
}

TEST_F(Files, ThatAreNoneAreRefusedAtOnce) {
  const std::string pipe = (dir_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(InputFile::open(pipe).status().message(), "is not a regular file");
  EXPECT_EQ(InputFile::open((dir_ / "none").string()).status().message(),
            "cannot be opened: No such file or directory");
}

TEST_F(Files, PartsKeepToTheirRange) {
  const int fd = ::open(path_.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  auto part = InputFile::part_of(fd, 2, 5);
  auto rest = InputFile::part_of(fd, 4, 0);
  EXPECT_EQ(InputFile::part_of(fd, 8, 3).status().message(),
            "has 10 bytes, but 3 bytes from byte 8 on were asked for");
  EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), 0);
  ::close(fd);
  ASSERT_TRUE(part.ok() && rest.ok());
  EXPECT_EQ(part->size(), 5u);
  EXPECT_EQ(text(*part, 1, 2), "34");
  EXPECT_EQ(text(*rest, 0, 6), "456789");
  EXPECT_EQ(InputFile::part_of(-1, 0, 0).status().code(), Code::Usage);
}

TEST_F(Files, AreMappedWhole) {
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file.ok());
  const auto bytes = file->map();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size()),
            "0123456789");
}

TEST_F(Files, SayWhyTheyCannotBeWritten) {
  platform::OutputFile file((dir_ / "none/f").string());
  EXPECT_FALSE(file.open());
  EXPECT_EQ(file.error(), "No such file or directory");
}

}  // namespace
}  // namespace reprise::test
