// Weights that are larger than the buffers of a device are read in parts, or on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/onnx/importer.h"
#include "runtime/session/session.h"
#include "tests/support/onnx_writer.h"

namespace reprise {
namespace {

using test::OnnxWriter;

constexpr uint64_t kLargestBuffer = 16384;

HostTensor codes(const std::vector<int64_t>& dims) {
  HostTensor t(DType::I8, dims);
  for (int64_t i = 0; i < t.count(); ++i)
    t.mutable_data<int8_t>()[i] = static_cast<int8_t>(i * 29 % 251 - 125);
  return t;
}

OnnxWriter::NodeOptions attributes(const std::string& name,
                                   std::initializer_list<std::pair<const char*, Attr>> list) {
  OnnxWriter::NodeOptions o;
  o.name = name;
  for (const auto& [key, value] : list) o.attrs.set(key, value);
  return o;
}

/// Embeddings whose table is the weight of the last layer, as a float and quantized.
OnnxWriter language_model() {
  OnnxWriter w(18);
  w.input("ids", DType::I64, {std::string("n"), 3}).input("x", DType::F32, {5, 48});
  w.output("tied", DType::F32, {std::string("n"), 3, 1000});
  w.output("y", DType::F32, {5, 900}).output("z", DType::F32, {5, 700});
  w.output("across", DType::F32, {16, std::string("n"), 3}).output("left", DType::F32, {900, 5});
  w.initializer("table", test::float_tensor({1000, 16}, 0.01F, -0.3F));
  w.initializer("w", test::float_tensor({48, 900}, 0.003F, -0.2F));
  w.initializer("q", codes({48, 700})).initializer("zero", HostTensor(DType::I8, {700}));
  w.initializer("scale", test::float_tensor({700}, 0.001F, 0.01F));
  w.initializer("wide", test::float_tensor({16, 2000}, 0.001F));
  w.initializer("rows", test::float_tensor({900, 48}, 0.003F, -0.2F));
  w.node("Gather", {"table", "ids"}, {"e"}, attributes("embedding", {{"axis", int64_t{0}}}));
  w.node("Transpose", {"table"}, {"turned"},
         attributes("turn", {{"perm", std::vector<int64_t>{1, 0}}}));
  w.node("MatMul", {"e", "turned"}, {"tied"}, attributes("head", {}));
  w.node("MatMul", {"x", "w"}, {"p"}, attributes("product", {})).node("Relu", {"p"}, {"y"});
  w.node("DequantizeLinear", {"q", "scale", "zero"}, {"d"},
         attributes("dq", {{"axis", int64_t{1}}}));
  w.node("MatMul", {"x", "d"}, {"z"}, attributes("quantized", {}));
  w.node("Gather", {"wide", "ids"}, {"across"}, attributes("columns", {{"axis", int64_t{1}}}));
  w.node("Transpose", {"x"}, {"xt"}, attributes("xt", {{"perm", std::vector<int64_t>{1, 0}}}));
  w.node("MatMul", {"rows", "xt"}, {"left"}, attributes("left", {}));
  return w;
}

std::shared_ptr<package::Package> compiled(const OnnxWriter& w, CompileOptions options) {
  const std::string bytes = w.bytes();
  auto g = onnx::import_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(g.ok()) << g.status().message();
  auto package = compile(std::move(*g), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  return std::make_shared<package::Package>(std::move(*package));
}

std::vector<HostTensor> results(const std::shared_ptr<package::Package>& package,
                                const std::shared_ptr<Device>& device,
                                const std::vector<std::pair<std::string, HostTensor>>& inputs,
                                Status* why = nullptr) {
  auto session = Session::create(package, device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  std::vector<Binding> bindings(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bindings[i].name = inputs[i].first;
    bindings[i].host = &inputs[i].second;
  }
  auto out = (*session)->run(bindings);
  if (why != nullptr) {
    *why = out.status();
  } else {
    EXPECT_TRUE(out.ok()) << out.status().message();
  }
  return out.ok() ? std::move(*out) : std::vector<HostTensor>();
}

std::vector<std::pair<std::string, HostTensor>> inputs_with(const std::vector<int64_t>& ids) {
  const auto n = static_cast<int64_t>(ids.size()) / 3;
  return {{"ids", test::int64_tensor({n, 3}, ids)}, {"x", test::float_tensor({5, 48}, 0.01F, -1)}};
}

class SplitWeights : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_device("vulkan");
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    device_ = opened->device;
    options_.targets = {"vulkan"};
    compile_for(opened->info, options_);
    options_.device->max_buffer_bytes = kLargestBuffer;
  }

  std::shared_ptr<Device> device_;
  CompileOptions options_;
};

bool notes(const package::Package& p, const std::string& text) {
  return std::ranges::any_of(p.explanation.notes, [&](const std::string& note) {
    return note.find(text) != std::string::npos;
  });
}

TEST_F(SplitWeights, AreReadInParts) {
  const auto package = compiled(language_model(), options_);
  const plan::Plan& plan = package->variants.front().plan;
  for (const plan::Weight& w : plan.weights)
    EXPECT_LE(package->weights[w.segment].bytes().size(), kLargestBuffer) << w.name;
  for (const plan::Step& s : plan.steps)
    EXPECT_FALSE(std::holds_alternative<plan::HostCall>(s.what));
  EXPECT_TRUE(notes(*package,
                    "node 'embedding' (Gather) reads 'table' in parts: it has 64000 bytes, "
                    "and buffers of the device at most 16384"));
  EXPECT_TRUE(notes(*package, "'head' (MatMul) reads 'table' in parts"));
  EXPECT_TRUE(notes(*package, "'quantized' (MatMul) reads 'q' in parts"));
  CompileOptions host;
  host.targets = {};
  const auto inputs = inputs_with({0, 999, -1, 254, 255, 256, 511, -1000, 700});
  const auto expected = results(compiled(language_model(), host), nullptr, inputs);
  const auto actual = results(package, device_, inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].dims(), expected[i].dims());
    for (int64_t at = 0; at < actual[i].count(); ++at) {
      const float e = expected[i].data<float>()[at];
      ASSERT_NEAR(actual[i].data<float>()[at], e, 1e-4F * (1 + std::fabs(e))) << i << " " << at;
    }
  }
}

TEST_F(SplitWeights, IndicesOutOfRangeAreErrors) {
  const auto package = compiled(language_model(), options_);
  for (const int64_t wrong :
       {int64_t{1000}, int64_t{-1001}, int64_t{1} << 40, -(int64_t{1} << 40)}) {
    Status why;
    results(package, device_, inputs_with({1, 2, wrong}), &why);
    // Devices without int64 refuse what 32 bits do not hold.
    const bool beyond = wrong != static_cast<int32_t>(wrong);
    EXPECT_TRUE(why.code() == Code::InvalidInput || (beyond && why.code() == Code::Unsupported))
        << wrong << ": " << why.message();
  }
}

TEST_F(SplitWeights, StayOnTheHostWhereTheyCannotBeCut) {
  OnnxWriter w(18);
  w.input("x", DType::F32, {1, 32, 8, 8}).output("y", DType::F32, {1, 32, 6, 6});
  w.initializer("filter", test::float_tensor({32, 32, 3, 3}, 0.0001F));
  w.node("Conv", {"x", "filter"}, {"c"}, attributes("conv", {})).node("Relu", {"c"}, {"y"});
  const auto package = compiled(w, options_);
  std::string reason;
  for (const plan::Step& s : package->variants.front().plan.steps)
    if (const auto* call = std::get_if<plan::HostCall>(&s.what)) reason += call->reason;
  EXPECT_EQ(reason, "its weight 'filter' has 36864 bytes, and buffers of the device at most 16384");
  const auto y = results(package, device_, {{"x", test::float_tensor({1, 32, 8, 8}, 0.01F)}});
  ASSERT_EQ(y.size(), 1u);
}

TEST_F(SplitWeights, PackagesThatDoNotFitAreNoChoiceForADevice) {
  CompileOptions portable;
  portable.targets = {"vulkan"};
  const auto package = compiled(language_model(), portable);
  DeviceFacts facts = device_->info().facts;
  EXPECT_EQ(why_unfit(*package, facts), "");
  facts.max_buffer_bytes = kLargestBuffer;
  EXPECT_NE(why_unfit(*package, facts).find("the device allows buffers of 16384"),
            std::string::npos);
  EXPECT_EQ(why_unfit(*compiled(language_model(), options_), facts), "");
}

TEST_F(SplitWeights, TheLimitMayBeGiven) {
  CompileOptions portable;
  portable.targets = {"vulkan"};
  portable.pass_options["split-weights.bytes"] = kLargestBuffer;
  EXPECT_TRUE(
      notes(*compiled(language_model(), portable), "'product' (MatMul) reads 'w' in parts"));
  portable.pass_options.clear();
  EXPECT_FALSE(notes(*compiled(language_model(), portable), "in parts"));
}

}  // namespace
}  // namespace reprise
