// What is left where compiling ends early: threads have ended, the cache is tidy, the error is the
// first one. The compiler is tests/nvrtc/fake.
#include <atomic>
#include <stdexcept>

#include "codegen/nvrtc/cache.h"
#include "codegen/nvrtc/images.h"
#include "tests/nvrtc/support.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// A variant with a kernel of each text.
std::vector<package::Variant> variants_of(const std::vector<std::string>& texts) {
  package::Variant v;
  v.name = "cuda-sm_90";
  v.predicate.api = Api::Cuda;
  v.predicate.cuda_arch = "sm_90";
  for (const std::string& text : texts) {
    plan::KernelCode k;
    k.name = "k" + std::to_string(v.plan.kernels.size());
    k.cuda = text;
    v.plan.kernels.push_back(std::move(k));
  }
  return {std::move(v)};
}

CompileOptions fake_options(unsigned threads) {
  CompileOptions options = cuda_options({"cuda:sm_90"});
  options.nvrtc = fake_nvrtc(13);
  options.threads = threads;
  return options;
}

TEST(Failures, TheFirstIsReportedAndEndsTheWork) {
  std::vector<std::string> texts;
  texts.reserve(60);
  for (int i = 0; i < 60; ++i)
    texts.push_back((i % 20 == 7 ? "#error " : "text ") + std::to_string(i));
  for (const unsigned threads : {1U, 4U, 16U}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      auto variants = variants_of(texts);
      CompileOptions options = fake_options(threads);
      size_t done = 0;
      options.progress = [&](const std::string&, size_t n, size_t) {
        done = n;
        return true;
      };
      ImageReport report;
      const Status s = nvrtc::compile_images(variants, options, report);
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.message().find("kernel 'k7' for sm_90"), std::string::npos) << s.message();
      if (threads == 1) {
        EXPECT_EQ(done, 7U);
      }
    }
  }
}

TEST(Failures, TheCacheIsBoundedAllTheSame) {
  const TempDir dir;
  CompileOptions options = fake_options(1);
  options.cuda_cache_dir = (dir / "cuda").string();
  ImageReport report;
  std::vector<std::string> old;
  old.reserve(20);
  for (int i = 0; i < 20; ++i) old.push_back("old " + std::to_string(i));
  auto full = variants_of(old);
  ASSERT_TRUE(nvrtc::compile_images(full, options, report).ok());
  const auto files = [&] {
    return std::distance(fs::directory_iterator(options.cuda_cache_dir), fs::directory_iterator());
  };
  ASSERT_EQ(files(), 20);
  options.cuda_cache_bytes = 500;
  auto broken = variants_of({"new", "#error"});
  ASSERT_FALSE(nvrtc::compile_images(broken, options, report).ok());
  EXPECT_LE(files(), 6);  // of 86 bytes each
  // What was compiled before the failure is there.
  options.cuda_cache_bytes = 1 << 20;
  auto good = variants_of({"new"});
  ASSERT_TRUE(nvrtc::compile_images(good, options, report).ok());
  EXPECT_EQ(report.cached, 1U);
}

TEST(Failures, ACancelledCompilationBeginsNoMore) {
  for (const unsigned threads : {1U, 4U}) {
    auto variants = variants_of(std::vector<std::string>(1, "a"));
    for (int i = 0; i < 40; ++i) variants[0].plan.kernels.push_back(variants[0].plan.kernels[0]);
    for (size_t i = 0; i < variants[0].plan.kernels.size(); ++i)
      variants[0].plan.kernels[i].cuda = "text " + std::to_string(i);
    CompileOptions options = fake_options(threads);
    size_t calls = 0;
    options.progress = [&](const std::string& what, size_t done, size_t total) {
      EXPECT_EQ(what, "kernels");
      EXPECT_EQ(done, ++calls);
      EXPECT_EQ(total, 41U);
      return calls < 3;
    };
    ImageReport report;
    const Status s = nvrtc::compile_images(variants, options, report);
    EXPECT_EQ(s.code(), Code::Cancelled);
    EXPECT_EQ(calls, 3U);
  }
}

TEST(Failures, ACallbackThatThrowsIsAnError) {
  for (const unsigned threads : {1U, 4U}) {
    auto variants = variants_of({"a", "b", "c", "d"});
    CompileOptions options = fake_options(threads);
    options.progress = [](const std::string&, size_t, size_t) -> bool {
      throw std::runtime_error("the window is gone");
    };
    ImageReport report;
    const Status s = nvrtc::compile_images(variants, options, report);
    EXPECT_EQ(s.code(), Code::Internal);
    EXPECT_NE(s.message().find("the window is gone"), std::string::npos) << s.message();
  }
}

}  // namespace
}  // namespace reprise::test
