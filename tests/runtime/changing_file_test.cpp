// Files of packages that another process changes while they are open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/package/package.h"
#include "tests/runtime/sample_package.h"
#include "tests/support/paths.h"

namespace reprise::package {
namespace {

namespace fs = std::filesystem;

class ChangingFile : public testing::Test {
 protected:
  ChangingFile() {
    EXPECT_TRUE(write(sample_package(), path_).ok());
    std::ifstream in(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::shared_ptr<const Package> open() const {
    auto p = read(path_);
    EXPECT_TRUE(p.ok()) << p.status().message();
    return p.ok() ? *p : nullptr;
  }
  /// Writes to the file itself, not to a new one.
  void overwrite(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  test::TempDir dir_;
  const std::string path_ = (dir_ / "p.rpk").string();
  std::vector<char> bytes_;
};

TEST_F(ChangingFile, TruncationIsAnError) {
  const auto p = open();
  ASSERT_TRUE(p);
  fs::resize_file(path_, 5000);
  const auto weight = load_weight(*p, 0);
  ASSERT_FALSE(weight.ok());
  EXPECT_EQ(weight.status().code(), Code::Io);
  EXPECT_NE(weight.status().message().find(path_ + "': has become shorter"), std::string::npos)
      << weight.status().message();
  EXPECT_EQ(verify_weights(*p).code(), Code::Io);
  for (const Variant& v : p->variants) EXPECT_TRUE(load_kernels(*p, v).ok());  // they are copied
}

TEST_F(ChangingFile, SavingFindsWhatHasChanged) {
  const std::string copy = (dir_ / "copy.rpk").string();
  const auto p = open();
  ASSERT_TRUE(p);
  fs::resize_file(path_, 5000);
  EXPECT_EQ(write(*p, copy).code(), Code::Io);
  overwrite(std::vector<char>(bytes_.size(), 7));
  const Status damaged = write(*p, copy);
  EXPECT_EQ(damaged.code(), Code::CorruptPackage);
  EXPECT_NE(damaged.message().find(path_), std::string::npos) << damaged.message();
  EXPECT_FALSE(fs::exists(copy));
}

TEST_F(ChangingFile, OtherContentsAreAnError) {
  const auto p = open();
  ASSERT_TRUE(p);
  std::vector<char> other(bytes_.size(), 7);
  overwrite(other);
  const auto weight = load_weight(*p, 0);
  EXPECT_EQ(weight.status().code(), Code::CorruptPackage);
  EXPECT_NE(weight.status().message().find("changed while it was open"), std::string::npos)
      << weight.status().message();
}

TEST_F(ChangingFile, WeightsInUseStayAsTheyWere) {
  const auto p = open();
  ASSERT_TRUE(p);
  const auto weight = load_weight(*p, 0);
  ASSERT_TRUE(weight.ok());
  overwrite({});
  EXPECT_EQ(weight->data<float>()[98], 1.F);
  const auto again = load_weight(*p, 0);  // shared with the one that is in use
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->data<float>(), weight->data<float>());
}

TEST_F(ChangingFile, AReplacedFileChangesNothing) {
  const auto p = open();
  ASSERT_TRUE(p);
  ASSERT_TRUE(write(sample_package(), path_).ok());  // a new file in its place
  fs::remove(path_);
  EXPECT_TRUE(verify_weights(*p).ok());
  EXPECT_TRUE(write(*p, path_).ok());
}

/// Whatever a reader finds is right or an error.
TEST_F(ChangingFile, NeverEndsTheProcess) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (size_t i = 0; !stop; ++i) {
      fs::resize_file(path_, bytes_.size() * (i % 7) / 7);
      overwrite(bytes_);
    }
  });
  int right = 0, wrong = 0;
  for (int i = 0; i < 500; ++i) {
    const auto p = read(path_);
    const Status s = p.ok() ? verify_weights(**p) : p.status();
    ++(s.ok() ? right : wrong);
    EXPECT_TRUE(s.ok() || s.code() == Code::Io || s.code() == Code::CorruptPackage) << s.message();
  }
  stop = true;
  writer.join();
  EXPECT_GT(wrong, 0) << "the file was never caught in between";
  RecordProperty("right", right);
}

TEST_F(ChangingFile, PartsOfFilesAreRead) {
  const std::string whole = (dir_ / "assets").string();
  {
    std::ofstream out(whole, std::ios::binary);
    out << "before ";
    out.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    out << " after";
  }
  const int fd = ::open(whole.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  const auto p = read_part(fd, 7, bytes_.size());
  const auto longer = read_part(fd, 7, 0);
  const auto missing = read_part(fd, 7, bytes_.size() + 7);
  ::close(fd);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_TRUE(verify_weights(**p).ok());
  EXPECT_NE(longer.status().message().find("6 bytes follow its end"), std::string::npos);
  EXPECT_EQ(missing.status().code(), Code::Io);
}

}  // namespace
}  // namespace reprise::package
