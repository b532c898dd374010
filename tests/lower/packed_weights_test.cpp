// A weight that one kernel packs and another one reads is on the device once.
#include "codegen/lower/launch/packed_weights.h"

#include <gtest/gtest.h>

#include <functional>

#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/onnx/importer.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

constexpr int64_t kVocabulary = 260, kWidth = 64;

HostTensor numbers(DType t, const std::vector<int64_t>& dims) {
  HostTensor out(t, dims);
  const std::span<std::byte> bytes = out.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); i += size_of(t)) {
    bytes[i] = static_cast<std::byte>(i * 7);
    if (size_of(t) > 1) bytes[i + size_of(t) - 1] = std::byte{0x3C};
  }
  return out;
}

OnnxWriter embedding() {
  OnnxWriter m(18);
  m.input("i", DType::I64, {1, "n"}).input("x", DType::F32, {1, kWidth});
  m.output("e", DType::F32, {1, "n", kWidth}).output("y", DType::F32, {1, kVocabulary});
  return m;
}

/// An embedding whose table is also the weight of a layer, as PyTorch exports it.
std::string tied() {
  OnnxWriter m = embedding();
  m.initializer("table", numbers(DType::F32, {kVocabulary, kWidth}));
  m.node("Gather", {"table", "i"}, {"rows"}).node("Tanh", {"rows"}, {"e"});
  m.node("Transpose", {"table"}, {"w"}).node("MatMul", {"x", "w"}, {"y"});
  return m.bytes();
}

/// The same with a constant for each.
std::string twice() {
  OnnxWriter m = embedding();
  for (const char* name : {"table", "weight"})
    m.initializer(name, numbers(DType::F32, {kVocabulary, kWidth}));
  m.node("Gather", {"table", "i"}, {"rows"}).node("Tanh", {"rows"}, {"e"});
  m.node("Transpose", {"weight"}, {"w"}).node("MatMul", {"x", "w"}, {"y"});
  return m.bytes();
}

AttrMap attributes(std::initializer_list<std::pair<const char*, int64_t>> list) {
  AttrMap out;
  for (const auto& [name, value] : list) out.set(name, value);
  return out;
}

/// What ONNX Runtime's model builder makes of 4 bits.
std::string nibbles(bool with_layer) {
  OnnxWriter m = embedding();
  m.initializer("q", numbers(DType::U8, {kVocabulary, 2, 16}));
  m.initializer("shape", int64_tensor({2}, {kVocabulary, 32}));
  m.initializer("s", float_tensor({kVocabulary, 2}, 0.01F, 0.1F));
  m.initializer("flat", float_tensor({kVocabulary * 2}, 0.01F, 0.1F));
  m.node("Reshape", {"q", "shape"}, {"table"});
  const AttrMap rows =
      attributes({{"bits", 4}, {"block_size", 32}, {"gather_axis", 0}, {"quantize_axis", 1}});
  m.node("GatherBlockQuantized", {"table", "i", "s"}, {"rows"},
         {.name = "embedding", .domain = "com.microsoft", .attrs = rows});
  m.node("Tanh", {"rows"}, {"e"});
  const AttrMap layer =
      attributes({{"bits", 4}, {"block_size", 32}, {"K", kWidth}, {"N", kVocabulary}});
  if (with_layer) {
    m.node("MatMulNBits", {"x", "q", "flat"}, {"y"},
           {.name = "head", .domain = "com.microsoft", .attrs = layer});
  } else {
    m.initializer("zeros", HostTensor(DType::F32, {kWidth, kVocabulary}));
    m.node("MatMul", {"x", "zeros"}, {"y"});
  }
  return m.bytes();
}

struct Sizes {
  uint64_t device = 0;    // bytes of the weights of at least 4,096 elements
  uint64_t elements = 0;  // of them
  size_t weights = 0;     // of the package, of that size
};

Sizes sizes_of(const package::Package& p, const package::Variant& v) {
  Sizes out;
  for (const HostTensor& w : p.weights) out.weights += w.count() >= 4096;
  std::vector<bool> read(v.plan.weights.size(), false);
  for (const plan::Step& step : v.plan.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    if (launch == nullptr) continue;
    for (const plan::BufferId b : launch->buffers) {
      const plan::Buffer& buffer = v.plan.buffers[b];
      if (buffer.kind == plan::BufferKind::Weight) read[static_cast<size_t>(buffer.index)] = true;
    }
  }
  for (size_t i = 0; i < read.size(); ++i) {
    const plan::Weight& w = v.plan.weights[i];
    const HostTensor& raw = p.weights[w.segment];
    if (!read[i] || raw.count() < 4096) continue;
    out.device += w.packing.packed_bytes(package::weight_bytes(raw), size_of(raw.dtype()));
    out.elements += static_cast<uint64_t>(raw.count());
  }
  return out;
}

/// Calls `check` for each variant, those on request too.
void for_each_variant(const std::string& model, DType precision,
                      const std::function<void(const std::string&, const Sizes&)>& check) {
  CompileOptions options;
  options.precision = precision;
  for (const lower::Target& t : vulkan_targets()) options.targets.push_back(t.name);
  auto g = onnx::import_bytes(std::as_bytes(std::span(model)));
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto package = compile(std::move(*g), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  ASSERT_GT(package->variants.size(), 4U);
  for (const package::Variant& v : package->variants) check(v.name, sizes_of(*package, v));
}

constexpr uint64_t kElements = kVocabulary * kWidth;
/// Tiles of columns have up to 64 of them, of which the last one is filled up.
constexpr uint64_t kMostPadded = (kVocabulary + 63) / 64 * 64 * kWidth;

TEST(PackedWeights, AreOnTheDeviceOnce) {
  for (const DType precision : {DType::F32, DType::F16}) {
    for (const std::string& model : {tied(), twice()}) {
      for_each_variant(model, precision, [&](const std::string& variant, const Sizes& s) {
        EXPECT_EQ(s.elements, kElements) << variant;
        EXPECT_LE(s.device, kMostPadded * size_of(precision)) << variant;
        // The host's plan keeps what only Tanh reads in fp32.
        EXPECT_EQ(s.weights, precision == DType::F32 ? 1U : 2U) << variant;
      });
    }
  }
}

TEST(PackedWeights, HaveHalfAByteForFourBits) {
  for_each_variant(nibbles(true), DType::F32, [&](const std::string& variant, const Sizes& s) {
    EXPECT_EQ(s.elements, kElements) << variant;
    EXPECT_LE(s.device, kMostPadded / 2) << variant;
    EXPECT_EQ(s.weights, 1U) << variant;
  });
  for_each_variant(nibbles(false), DType::F32, [&](const std::string& variant, const Sizes& s) {
    EXPECT_EQ(s.elements, 2 * kElements) << variant;
    EXPECT_LE(s.device, kElements / 2 + kMostPadded * 4) << variant;
  });
}

}  // namespace
}  // namespace reprise::test
