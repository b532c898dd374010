// Code of kernels in packages: stored once, compressed, loaded when a session takes its variant.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "runtime/package/code_store.h"
#include "runtime/package/scaled.h"
#include "runtime/package/spirv_form.h"
#include "tests/runtime/sample_package.h"

namespace reprise::package {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

/// Instructions of a function whose ids begin at `first`: near-copies have other words.
std::vector<uint32_t> kernel_words(uint32_t first, uint32_t count, uint32_t seed) {
  std::vector<uint32_t> w{0x07230203, 0x00010300, 0, first + count + 1, 0};
  const auto add = [&w](uint32_t op, std::initializer_list<uint32_t> operands) {
    w.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
    w.insert(w.end(), operands);
  };
  add(21, {1, 32, 0});                 // OpTypeInt
  add(43, {1, 2, 0x3f800000 + seed});  // OpConstant
  add(54, {1, first, 0, 1});           // OpFunction
  std::mt19937 random(7);
  for (uint32_t i = 1; i < count; ++i)
    add(128, {1, first + i, static_cast<uint32_t>(first + i - 1 - random() % i), 2});
  add(253, {});
  return w;
}

class PackageCode : public testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }

  std::shared_ptr<const Package> written(const Package& p) const {
    const Status s = write(p, path_);
    EXPECT_TRUE(s.ok()) << s.message();
    const auto back = read(path_);
    EXPECT_TRUE(back.ok()) << back.status().message();
    return back.ok() ? *back : nullptr;
  }

  std::string path_ =
      (fs::temp_directory_path() / ("reprise-code-" + std::to_string(::getpid()) + ".rpk"))
          .string();
};

TEST_F(PackageCode, EqualKernelsOfVariantsAreStoredOnce) {
  Package p = sample_package();
  p.variants.resize(1);
  for (plan::KernelCode& k : p.variants[0].plan.kernels) k.cuda.clear();
  p.variants[0].plan.kernels[0].spirv = kernel_words(10, 100, 0);
  p.variants[0].plan.kernels[1].spirv = kernel_words(10, 100, 1);
  for (int i = 0; i < 5; ++i) p.variants.push_back(p.variants[0]);
  const auto back = written(p);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->code->size(), 2U);
  EXPECT_EQ(back->variants[5].stored[1].spirv, back->variants[0].stored[1].spirv);
  const auto kernels = load_kernels(*back, back->variants[5]);
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  EXPECT_EQ((*kernels)[1].spirv, p.variants[0].plan.kernels[1].spirv);
}

TEST_F(PackageCode, OnlyTheVariantInUseIsDecompressed) {
  const auto back = written(sample_package());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->code->loads(), 0U);
  ASSERT_TRUE(load_kernels(*back, back->variants[1]).ok());
  EXPECT_EQ(back->code->loads(), 4U);  // text and image of two kernels
  EXPECT_GT(back->code->size(), 4U);
}

TEST_F(PackageCode, WhatWasReadIsWrittenAgain) {
  const auto back = written(sample_package());
  ASSERT_TRUE(back);
  const auto size = fs::file_size(path_);
  const auto again = written(*back);
  ASSERT_TRUE(again);
  EXPECT_EQ(fs::file_size(path_), size);
  const auto whole = unpack(again);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ((*whole)->variants[2].plan.kernels[0].image,
            sample_package().variants[2].plan.kernels[0].image);
}

TEST_F(PackageCode, NearCopiesTakeLittle) {
  Package p = sample_package();
  p.variants.resize(1);
  const Variant v = p.variants[0];
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    p.variants.push_back(v);
    plan::KernelCode& k = p.variants.back().plan.kernels[0];
    k.spirv = kernel_words(10 + i, 5000, i);
    bytes += k.spirv.size() * 4;
  }
  const auto back = written(p);
  ASSERT_TRUE(back);
  const uint64_t weights = uint64_t{64} * 512 * 4;
  EXPECT_LT(fs::file_size(path_) - weights, bytes / 20);
  for (size_t i = 1; i < p.variants.size(); ++i) {
    const auto kernels = load_kernels(*back, back->variants[i]);
    ASSERT_TRUE(kernels.ok()) << kernels.status().message();
    EXPECT_EQ((*kernels)[0].spirv, p.variants[i].plan.kernels[0].spirv);
  }
}

/// A store of one text, which a test damages.
struct Store {
  CodeWriter writer;
  std::string text = std::string(20000, 'x') + "end";
  std::vector<CompressedCode> code;
  Store() {
    writer.add(CodeForm::Cuda, std::as_bytes(std::span(text)));
    EXPECT_TRUE(writer.compress().ok());
    code = writer.code();
  }
  Status load() const {
    const CodeStore store("package 'p.rpk'", code, writer.dictionaries(), nullptr);
    RP_TRY(store.check());
    return store.load(0).status();
  }
};

void expect_damaged(const Store& s, const std::string& text) {
  const Status status = s.load();
  EXPECT_EQ(status.code(), Code::CorruptPackage) << text;
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

TEST(CodeStore, ClaimsAreRefusedBeforeMemoryIsTaken) {
  Store s;
  EXPECT_TRUE(s.load().ok());
  s.code[0].bytes = uint64_t{1} << 60;
  expect_damaged(s, "claims 1152921504606846976 bytes");
  s.code[0].bytes = 100;  // the frame's own claim is larger
  expect_damaged(s, "claims 20003 bytes; the limit for it is 100");
  s.code[0].bytes = 0;
  expect_damaged(s, "claims 0 bytes");
  s.code[0].bytes = 20004;
  expect_damaged(s, "checksum");
  s.code[0].form = CodeForm{9};
  expect_damaged(s, "form 9");
  EXPECT_FALSE(CodeStore("p", s.code, {}, nullptr).load(7).ok());
}

TEST(CodeStore, DamagedFramesAreErrors) {
  const Store good;
  Bytes frame(good.code[0].data.begin(), good.code[0].data.end());
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    Store s;
    Bytes own = frame;
    if (i % 2 == 0) own.resize(random() % own.size() + (i == 0 ? 0 : 1));
    if (!own.empty()) own[random() % own.size()] ^= static_cast<std::byte>(1 + random() % 255);
    s.code[0].data = own;
    const Status status = s.load();
    if (status.ok()) continue;  // bits that mean nothing: the content's hash is right
    ASSERT_EQ(status.code(), Code::CorruptPackage);
    ASSERT_NE(status.message().find("compile the model again"), std::string::npos)
        << status.message();
  }
}

TEST(CodeStore, DictionaryIsChecked) {
  CodeWriter writer;
  std::vector<std::vector<uint32_t>> kernels;
  for (uint32_t i = 0; i < 40; ++i) kernels.push_back(kernel_words(10 + i, 2000, i));
  for (const auto& k : kernels) writer.add(CodeForm::Spirv, std::as_bytes(std::span(k)));
  ASSERT_TRUE(writer.compress().ok());
  auto dictionaries = writer.dictionaries();
  ASSERT_EQ(dictionaries.size(), 1U);
  EXPECT_TRUE(CodeStore("p", writer.code(), dictionaries, nullptr).load(39).ok());
  EXPECT_FALSE(CodeStore("p", writer.code(), {}, nullptr).load(39).ok());
  auto twice = dictionaries;
  twice.push_back(twice[0]);
  EXPECT_FALSE(CodeStore("p", writer.code(), twice, nullptr).check().ok());
  dictionaries[0].hash ^= 1;
  const Status s = CodeStore("p", writer.code(), dictionaries, nullptr).load(0).status();
  EXPECT_NE(s.message().find("dictionary"), std::string::npos) << s.message();
}

TEST(SpirvForm, AnyWordsComeBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::vector<uint32_t> words = kernel_words(10, 40, 5);
    words.resize(random() % words.size());
    for (size_t changes = random() % 8; changes > 0 && !words.empty(); --changes)
      words[random() % words.size()] = static_cast<uint32_t>(random() >> random() % 32);
    const Bytes bytes = compact_spirv(words);
    ASSERT_LE(bytes.size(), max_compact_bytes(words.size()));
    const auto back = expand_spirv(bytes, words.size());
    ASSERT_TRUE(back.ok()) << i;
    ASSERT_EQ(*back, words) << i;
  }
}

TEST(SpirvForm, AnyBytesAreAnErrorOrWords) {
  std::mt19937 random(2);
  const Bytes good = compact_spirv(kernel_words(10, 40, 5));
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = good;
    for (size_t changes = 1 + random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto words = expand_spirv(bytes, random() % 300);
    if (!words.ok()) {
      ASSERT_EQ(words.status().code(), Code::CorruptPackage);
    }
  }
}

/// A weight of the variants that is the first one times a factor for each row.
Package scaled_package() {
  Package p = sample_package();
  std::mt19937 random(4);
  std::uniform_real_distribution<float> real(-2, 2);
  std::vector<float> raw(64 * 512), scaled(64 * 512);
  for (size_t row = 0; row < 64; ++row) {
    const float f = real(random);
    for (size_t i = row * 512; i < (row + 1) * 512; ++i) {
      raw[i] = real(random);
      scaled[i] = raw[i] * f;
    }
  }
  p.weights[0] = HostTensor::from(DType::F32, {64, 512}, raw);
  const auto index = static_cast<uint32_t>(p.weights.size());
  p.weights.push_back(HostTensor::from(DType::F32, {64, 512}, scaled));
  for (Variant& v : p.variants) v.plan.weights[0].segment = index;
  return p;
}

TEST_F(PackageCode, ScaledWeightIsStoredAsFactors) {
  const Package p = scaled_package();
  const auto back = written(p);
  ASSERT_TRUE(back);
  EXPECT_LT(fs::file_size(path_), 2 * p.weights[0].bytes().size());
  const auto product = load_weight(*back, p.weights.size() - 1);
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_TRUE(std::ranges::equal(product->bytes(), p.weights.back().bytes()));
  EXPECT_TRUE(verify_weights(*back).ok());
}

TEST(Scaled, OnlyWhatIsEqualBitForBit) {
  Package p = scaled_package();
  ASSERT_TRUE(find_scaled(p).back());
  float& last = p.weights.back().mutable_data<float>()[64 * 512 - 1];
  last = std::nextafter(last, 4.F);
  EXPECT_FALSE(find_scaled(p).back());
  last = 1e-40F;  // what a thread makes of it may vary
  EXPECT_FALSE(find_scaled(p).back());
}

}  // namespace
}  // namespace reprise::package
