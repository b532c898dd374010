// An operator and its attribute, added in this one file: the row says what they mean, and the
// importer, the compiler, the devices and the host know them. Rows in codegen/ops are the same.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/onnx/importer.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "runtime/session/session.h"
#include "tests/support/onnx_writer.h"

namespace reprise {
namespace {

// --- The operator --------------------------------------------------------------------------------

/// x^2 where x is above the threshold, else 0.
Result<bool> squared_relu(ops::Rewriter& rw) {
  ops::OpBuilder c(rw);
  const auto x = c.in(0);
  const auto threshold =
      c.scalar(c.dtype(x), static_cast<double>(c.attrs().get_float("threshold")));
  const auto above = c.op("Greater", {x, threshold});
  c.replace(0, c.where(above, c.mul(x, x), c.scalar(c.dtype(x), 0)));
  return c.finish();
}

constexpr ops::AttrDecl kSquaredReluAttrs[] = {ops::float_attr("threshold", 0.0F)};

constexpr ops::OpDef kOps[] = {
    {.name = "SquaredRelu",
     .infer = ops::infer_same_float,
     .decompose = squared_relu,
     .attributes = kSquaredReluAttrs},
};

const Status kAdded = ops::add_operators(kOps);

// --- Its test ------------------------------------------------------------------------------------

constexpr int64_t kCount = 64;

Result<std::unique_ptr<graph::Graph>> model(const AttrMap& attrs) {
  test::OnnxWriter writer(13);
  writer.input("x", DType::F32, {kCount}).output("z", DType::F32, {kCount});
  writer.node("SquaredRelu", {"x"}, {"y"}, {.attrs = attrs}).node("Neg", {"y"}, {"z"});
  const std::string bytes = writer.bytes();
  return onnx::import_bytes(std::as_bytes(std::span(bytes)), {});
}

void expect_runs(const AttrMap& attrs, float threshold, const std::vector<std::string>& targets,
                 const std::shared_ptr<Device>& device) {
  auto g = model(attrs);
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = targets;
  options.fullgraph = device != nullptr;
  CompileReport report;
  auto package = compile(std::move(*g), options, &report);
  ASSERT_TRUE(package.ok()) << package.status().message();
  if (device != nullptr) {
    ASSERT_EQ(report.groups.size(), 1U) << "it is fused with its reader";
    EXPECT_EQ(report.groups[0].kernel, "fused_neg_squaredrelu");
  }
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const HostTensor x = test::float_tensor({kCount}, 0.25F, -4);
  auto outputs = (*session)->run({{{.name = "x", .host = &x}}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (int64_t i = 0; i < kCount; ++i) {
    const float v = x.data<float>()[i];
    EXPECT_EQ((*outputs)[0].data<float>()[i], v > threshold ? -(v * v) : -0.0F) << "of " << v;
  }
}

TEST(AddedOperator, IsKnown) {
  ASSERT_TRUE(kAdded.ok()) << kAdded.message();
  EXPECT_NE(ops::find("", "SquaredRelu"), nullptr);
}

TEST(AddedOperator, RunsOnTheHost) {
  expect_runs({}, 0, {}, nullptr);
}

TEST(AddedOperator, RunsOnDevices) {
  for (const char* name : {"vulkan:0", "vulkan:1"}) {
    auto device = open_device(name);
    if (!device.ok()) continue;
    SCOPED_TRACE(name);
    expect_runs({}, 0, {"vulkan"}, device->device);
  }
}

TEST(AddedOperator, HasItsAttribute) {
  AttrMap attrs;
  attrs.set("threshold", 1.5F);
  expect_runs(attrs, 1.5F, {}, nullptr);
  attrs.set("threshold", std::string("high"));
  EXPECT_EQ(model(attrs).status().code(), Code::InvalidModel);
  attrs = {};
  attrs.set("limit", 1.5F);
  EXPECT_EQ(model(attrs).status().code(), Code::Unsupported);
}

TEST(AddedOperator, ComesBeforeTheFirstLookUp) {
  ASSERT_NE(ops::find("", "Add"), nullptr);
  static constexpr ops::OpDef kLate[] = {{.name = "Late", .infer = ops::infer_same}};
  EXPECT_EQ(ops::add_operators(kLate).code(), Code::Usage);
}

}  // namespace
}  // namespace reprise
