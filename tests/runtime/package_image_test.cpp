// Images of CUDA variants in packages: what is stored, and what is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/runtime/sample_package.h"

namespace reprise::package {
namespace {

namespace fs = std::filesystem;

class PackageImage : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / ("reprise-image-" + std::to_string(::getpid()) + ".rpk");
  }
  void TearDown() override { fs::remove(path_); }

  std::string written(const Package& p) const {
    const Status s = write(p, path_);
    EXPECT_TRUE(s.ok()) << s.message();
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path path_;
};

TEST_F(PackageImage, EqualTextOfSeveralVariantsIsStoredOnce) {
  Package p = sample_package();
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919 % 10007) + ";";
  const size_t before = written(p).size();
  for (const char* arch : {"sm_90", "sm_89", "sm_80"}) {
    p.variants.push_back(cuda_variant(arch));
    p.variants.back().plan.kernels[0].cuda = text;
  }
  EXPECT_LT(written(p).size(), before + text.size());
  const auto back = read(path_);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ((*back)->variants[3].stored[0].cuda, (*back)->variants[5].stored[0].cuda);
  const auto kernels = load_kernels(**back, (*back)->variants[5]);
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  EXPECT_EQ((*kernels)[0].cuda, text);
}

/// Reads what a writer that does not verify would have written.
Status verdict(const std::function<void(Variant&)>& change, const char* arch = "sm_90") {
  Package p = sample_package();
  p.variants = {cuda_variant(arch)};
  change(p.variants[0]);
  return verify(p);
}

void expect_refused(const std::function<void(Variant&)>& change, const std::string& text,
                    const char* arch = "sm_90") {
  const Status s = verdict(change, arch);
  EXPECT_EQ(s.code(), Code::CorruptPackage) << text;
  EXPECT_NE(s.message().find(text), std::string::npos) << s.message();
}

TEST(VerifyImage, SamplesAreGood) {
  EXPECT_TRUE(verdict([](Variant&) {}).ok());
  EXPECT_TRUE(verdict([](Variant&) {}, "compute_80").ok());
}

TEST(VerifyImage, EveryKernelNeedsOneOfItsKind) {
  const auto image = [](std::vector<std::byte> bytes) {
    return [bytes = std::move(bytes)](Variant& v) { v.plan.kernels[1].image = bytes; };
  };
  expect_refused(image({}), "kernel 'fused_add': it has no image for sm_90");
  expect_refused(image(bytes_of({".version 8.0\0", 13})), "fused_add");
  expect_refused(image(sample_cubin()), "PTX", "compute_80");
  expect_refused([](Variant& v) { v.predicate.cuda_arch = "sm_90b"; }, "'sm_90b'");
  expect_refused([](Variant& v) { v.predicate.cuda_arch = ""; }, "not an architecture");
}

TEST(VerifyImage, PtxEndsInItsOnlyZero) {
  for (const std::string_view text :
       {std::string_view(".version 8.0"), std::string_view(".ver\0ion\0", 9),
        std::string_view(".version\0\0", 10), std::string_view("\0", 1), std::string_view()}) {
    const Status s =
        verdict([&](Variant& v) { v.plan.kernels[0].image = bytes_of(text); }, "compute_80");
    EXPECT_EQ(s.code(), Code::CorruptPackage) << text;
  }
}

/// `bytes` of `value` at `at` of the header, the program header (64) or a section header (120).
struct Hostile {
  size_t at, bytes;
  uint64_t value;
  const char* message;
};

TEST(VerifyImage, CubinsLieWithinTheirBytes) {
  const uint64_t size = sample_cubin().size();
  const Hostile cases[] = {
      {0, 1, 0, "not an ELF file"},
      {4, 1, 1, "not an ELF file"},    // 32 bits
      {5, 1, 2, "not an ELF file"},    // big endian
      {18, 2, 62, "not an ELF file"},  // of another machine
      {32, 8, size, "a table"},        // program headers
      {32, 8, ~uint64_t{0}, "a table"},
      {32, 8, size - 55, "a table"},
      {40, 8, size - 64, "a table"},  // section headers
      {40, 8, ~uint64_t{0} - 63, "a table"},
      {54, 2, 55, "sizes of its tables"},
      {56, 2, 0xffff, "a table"},
      {58, 2, 0, "sizes of its tables"},
      {58, 2, 1, "sizes of its tables"},
      {60, 2, 0, "sizes of its tables"},
      {60, 2, 0xffff, "a table"},
      {64 + 8, 8, size + 1, "segment 0"},
      {64 + 8, 8, ~uint64_t{0}, "segment 0"},
      {64 + 32, 8, 33, "segment 0"},
      {64 + 32, 8, ~uint64_t{0} - 247, "segment 0"},
      {184 + 24, 8, ~uint64_t{0} - 31, "section 1"},
      {184 + 32, 8, 33, "section 1"},
      {184 + 32, 8, ~uint64_t{0}, "section 1"},
  };
  for (const Hostile& h : cases) {
    const auto change = [&](Variant& v) {
      for (size_t i = 0; i < h.bytes; ++i)
        v.plan.kernels[0].image[h.at + i] = static_cast<std::byte>(h.value >> (8 * i));
    };
    SCOPED_TRACE(std::to_string(h.at) + " " + std::to_string(h.value));
    expect_refused(change, h.message);
  }
  // A section without bytes may have any size; a cut file has none of its parts.
  EXPECT_TRUE(verdict([](Variant& v) {
                v.plan.kernels[0].image[184 + 4] = std::byte{8};
                v.plan.kernels[0].image[184 + 38] = std::byte{1};
              }).ok());
  for (size_t n = 1; n < size; ++n) {
    const Status s = verdict([&](Variant& v) { v.plan.kernels[0].image.resize(n); });
    EXPECT_EQ(s.code(), Code::CorruptPackage) << n;
  }
}

}  // namespace
}  // namespace reprise::package
