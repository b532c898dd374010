// What package::write does with a path that is not a regular file, or that had one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include "runtime/platform/output_file.h"
#include "runtime/platform/partial_file.h"
#include "tests/runtime/sample_package.h"
#include "tests/support/paths.h"

namespace reprise::package {
namespace {

namespace fs = std::filesystem;

class PackageOutput : public testing::Test {
 protected:
  Status save(const std::string& name) const { return write(sample_package(), dir_ / name); }
  void expect_sound(const std::string& name) const {
    const auto p = read(dir_ / name);
    EXPECT_TRUE(p.ok()) << p.status().message();
  }
  mode_t mode(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(::lstat((dir_ / name).c_str(), &info), 0);
    return info.st_mode;
  }
  /// Reads a pipe to its end, as a program that it leads to does.
  std::future<uint64_t> drain(const std::string& name) const {
    return std::async(std::launch::async, [path = dir_ / name] {
      const int fd = ::open(path.c_str(), O_RDONLY);
      char block[4096];
      uint64_t total = 0;
      for (ssize_t n = 0; (n = ::read(fd, block, sizeof block)) > 0;)
        total += static_cast<uint64_t>(n);
      ::close(fd);
      return total;
    });
  }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_ / ""), fs::directory_iterator{}));
  }
  test::TempDir dir_;
};

TEST_F(PackageOutput, APipeStaysAPipe) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", dir_ / "link");
  ASSERT_TRUE(save("file").ok());
  for (const char* name : {"pipe", "link"}) {
    // Opened for reading and writing, so that neither side waits for the other if this fails.
    const int keep = ::open((dir_ / "pipe").c_str(), O_RDWR | O_NONBLOCK);
    auto reader = drain("pipe");
    const Status written = save(name);
    ::close(keep);
    EXPECT_TRUE(written.ok()) << written.message();
    EXPECT_TRUE(S_ISFIFO(mode("pipe")));
    EXPECT_EQ(reader.get(), fs::file_size(dir_ / "file"));
  }
  EXPECT_TRUE(S_ISLNK(mode("link")));
  EXPECT_EQ(files(), 3U);
}

TEST_F(PackageOutput, AReaderThatGoesIsAnError) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) ::close(::open((dir_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  });
  Status s;
  for (int i = 0; i < 1000 && s.ok(); ++i) s = save("pipe");
  over = true;
  reader.join();
  EXPECT_EQ(s.code(), Code::Io) << s.message();
}

TEST_F(PackageOutput, LinksAreFollowed) {
  fs::create_directories(dir_ / "sub");
  fs::create_symlink("sub/target", dir_ / "a");
  fs::create_symlink(dir_ / "a", dir_ / "b");
  for (int round = 0; round < 2; ++round) {  // to a file that does not exist, and to one that does
    ASSERT_TRUE(save("b").ok());
    EXPECT_TRUE(S_ISLNK(mode("a")) && S_ISLNK(mode("b")));
    EXPECT_TRUE(S_ISREG(mode("sub/target")));
    expect_sound("b");
  }
  EXPECT_EQ(files(), 3U);
  fs::create_symlink("loop", dir_ / "loop");
  EXPECT_EQ(save("loop").code(), Code::Io);
  EXPECT_EQ(save("sub").code(), Code::Io);
}

TEST_F(PackageOutput, AnEmptyPathIsAnError) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_ / "");
  const Status s = write(sample_package(), "");
  fs::current_path(before);
  EXPECT_EQ(s.code(), Code::Io);
  EXPECT_EQ(files(), 0U);
}

TEST_F(PackageOutput, TheModeIsKept) {
  ASSERT_TRUE(save("file").ok());
  for (const mode_t wanted : {0600U, 0664U, 0755U}) {
    ASSERT_EQ(::chmod((dir_ / "file").c_str(), wanted), 0);
    ASSERT_TRUE(save("file").ok());
    EXPECT_EQ(mode("file") & 07777U, wanted);
    expect_sound("file");
  }
}

/// Interrupted while the new file is written, a program leaves what was there before.
TEST_F(PackageOutput, ASignalLeavesNoPartOfAFile) {
  ASSERT_TRUE(save("file").ok());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      platform::remove_partial_files_on_signals();
      const std::string old = dir_ / "file", other = dir_ / "other";
      platform::OutputFile first(old), second(other), third(dir_ / "third");
      first.write("part", 4);
      third.finish();
      ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(files(), 2U);
    EXPECT_TRUE(fs::remove(dir_ / "third"));
    expect_sound("file");
  }
}

}  // namespace
}  // namespace reprise::package
