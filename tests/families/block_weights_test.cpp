// Weights in blocks are those that the package gguf of PyPI makes of random blocks, bit for bit.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/formats/block_weights.h"
#include "codegen/formats/safetensors.h"
#include "runtime/base/low_bit.h"
#include "tests/support/paths.h"

namespace reprise::formats {
namespace {

constexpr GgufType kTypes[] = {GgufType::Q4_0, GgufType::Q4_1, GgufType::Q5_0,   GgufType::Q5_1,
                               GgufType::Q8_0, GgufType::Q2_K, GgufType::Q3_K,   GgufType::Q4_K,
                               GgufType::Q5_K, GgufType::Q6_K, GgufType::IQ4_NL, GgufType::IQ4_XS,
                               GgufType::MXFP4};

struct Case {
  HostTensor blocks, floats;
};

Case case_of(GgufType type) {
  const auto path = test::source_dir() / "tests/families/data/blocks.safetensors";
  const auto file = Safetensors::open(path.string());
  Case out;
  if (!file.ok()) return out;
  const std::string name = gguf_type_traits(type).name;
  for (const Safetensors::Entry& e : file->tensors()) {
    if (e.name == name + ".blocks") out.blocks = e.tensor;
    if (e.name == name + ".floats") out.floats = e.tensor;
  }
  return out;
}

StoredRows rows_of(GgufType type, const Case& c) {
  return {type, c.floats.dims()[0], c.floats.dims()[1], c.blocks.bytes()};
}

float scale_at(const HostTensor& t, size_t at) {
  return t.dtype() == DType::F16 ? f16_to_float(t.data<uint16_t>()[at]) : t.data<float>()[at];
}

TEST(BlockWeights, DequantiseToTheFloatsOfThePackage) {
  for (const GgufType type : kTypes) {
    SCOPED_TRACE(gguf_type_traits(type).name);
    const Case c = case_of(type);
    ASSERT_EQ(c.floats.rank(), 2);
    const auto floats = dequantized(rows_of(type, c));
    ASSERT_TRUE(floats.ok()) << floats.status().message();
    ASSERT_EQ(floats->bytes().size(), c.floats.bytes().size());
    for (int64_t i = 0; i < floats->count(); ++i) {
      float want;
      std::memcpy(&want, c.floats.bytes().data() + i * 4, 4);
      EXPECT_EQ(floats->data<float>()[i], want) << i;
    }
  }
}

TEST(BlockWeights, NumbersScalesAndMinimumsAreExact) {
  for (const GgufType type : kTypes) {
    SCOPED_TRACE(gguf_type_traits(type).name);
    const Case c = case_of(type);
    ASSERT_EQ(c.floats.rank(), 2);
    StoredRows stored = rows_of(type, c);
    const std::vector<int64_t> order{1, 0, 1};  // rows in another order, and one twice
    stored.order = order;
    const auto b = block_columns(stored);
    ASSERT_TRUE(b.ok()) << b.status().message();
    const auto columns = static_cast<size_t>(stored.columns);
    ASSERT_EQ(b->numbers.dims(), (std::vector<int64_t>{stored.columns, 3}));
    for (size_t k = 0; k < columns; ++k) {
      for (size_t r = 0; r < 3; ++r) {
        const size_t at = k / static_cast<size_t>(b->block) * 3 + r;
        const uint8_t code = b->numbers.data<uint8_t>()[k * 3 + r];
        const DType t = b->numbers.dtype();
        const int number = is_low_bit_int(t) ? low_bit_to_int(t, code)
                           : t == DType::I8  ? static_cast<int8_t>(code)
                                             : static_cast<int>(code);
        float got = static_cast<float>(number) * scale_at(b->scales, at);
        if (b->minimums) got += scale_at(*b->minimums, at);
        float want;
        const size_t row = static_cast<size_t>(order[r]);
        std::memcpy(&want, c.floats.bytes().data() + (row * columns + k) * 4, 4);
        EXPECT_EQ(got, want) << k << ", " << r;
      }
    }
  }
}

TEST(BlockWeights, WrongSizesAreErrors) {
  const std::vector<std::byte> bytes(18 * 4);
  const StoredRows fits{GgufType::Q4_0, 4, 32, bytes};
  EXPECT_TRUE(dequantized(fits).ok());
  StoredRows s = fits;
  s.rows = 5;
  EXPECT_EQ(dequantized(s).status().code(), Code::InvalidModel);
  s = fits;
  s.columns = 33;
  EXPECT_EQ(block_columns(s).status().code(), Code::InvalidModel);
  s = fits;
  s.rows = -1;
  EXPECT_FALSE(dequantized(s).ok());
  s = fits;
  const std::vector<int64_t> order{4};
  s.order = order;
  EXPECT_EQ(block_columns(s).status().code(), Code::Usage);
  s = fits;
  s.type = GgufType::IQ1_S;
  s.columns = 0;
  s.bytes = {};
  EXPECT_EQ(dequantized(s).status().code(), Code::Unsupported);
}

}  // namespace
}  // namespace reprise::formats
