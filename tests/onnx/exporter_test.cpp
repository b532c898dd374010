// What is exported imports to the same graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "codegen/onnx/exporter.h"
#include "codegen/onnx/importer.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

OnnxWriter::NodeOptions named(const std::string& name) {
  OnnxWriter::NodeOptions o;
  o.name = name;
  return o;
}

std::unique_ptr<graph::Graph> imported(const std::string& bytes) {
  auto g = onnx::import_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? std::move(*g) : std::make_unique<graph::Graph>();
}

onnx::Part whole(const graph::Graph& g) {
  onnx::Part part;
  for (const auto& n : g.nodes()) part.nodes.push_back(n.get());
  part.inputs = g.inputs;
  part.outputs = g.outputs;
  return part;
}

OnnxWriter model() {
  OnnxWriter w;
  w.input("x", DType::F32, {"batch", 3, 8, 8}).output("y", DType::F32, {"batch", 4, 4, 4});
  w.output("z", DType::Bool, {"batch", 4, 4, 4});
  w.initializer("w", float_tensor({4, 3, 3, 3}, 0.1F));
  OnnxWriter::NodeOptions conv = named("conv");
  conv.attrs.set("strides", std::vector<int64_t>{2, 2});
  conv.attrs.set("auto_pad", std::string("SAME_UPPER"));
  w.node("Conv", {"x", "w"}, {"c"}, conv);
  OnnxWriter::NodeOptions elu = named("elu");
  elu.attrs.set("alpha", 0.3F);
  w.node("Elu", {"c"}, {"y"}, elu).node("IsNaN", {"y"}, {"z"});
  return w;
}

TEST(Exporter, RoundTrip) {
  const auto g = imported(model().bytes());
  const auto bytes = onnx::export_part(*g, whole(*g));
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto again = imported(*bytes);
  EXPECT_EQ(graph::print(*again), graph::print(*g));
}

TEST(Exporter, CutsAPartWithFixedSizesAndConstants) {
  const auto g = imported(model().bytes());
  onnx::Part part;
  const graph::Node* elu = std::next(g->nodes().begin())->get();
  part.nodes = {elu};
  part.inputs = {elu->inputs[0]};
  part.outputs = {elu->outputs[0]};
  part.dims[elu->inputs[0]] = part.dims[elu->outputs[0]] = {2, 4, 4, 4};
  auto bytes = onnx::export_part(*g, part);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto cut = imported(*bytes);
  ASSERT_EQ(cut->nodes().size(), 1u);
  EXPECT_EQ(cut->nodes().front()->op, "Elu");
  EXPECT_EQ(cut->nodes().front()->name, "elu");
  ASSERT_EQ(cut->inputs.size(), 1u);
  EXPECT_EQ(cut->value(cut->inputs[0]).name, "c");
  EXPECT_TRUE(is_static(cut->value(cut->inputs[0]).shape));
  // A value that is known becomes an initialiser.
  part.inputs.clear();
  part.constants.emplace(elu->inputs[0], float_tensor({2, 4, 4, 4}));
  bytes = onnx::export_part(*g, part);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto constant = imported(*bytes);
  EXPECT_TRUE(constant->inputs.empty());
  EXPECT_TRUE(constant->value(constant->nodes().front()->inputs[0]).constant.has_value());
}

TEST(Exporter, RefusesCoreForm) {
  auto g = graph::parse("graph g\ninput x: float32[4]\ny = Neg(x)\noutput y\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto bytes = onnx::export_part(**g, whole(**g));
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), Code::Unsupported);
  EXPECT_NE(bytes.status().message().find("core form"), std::string::npos);
}

TEST(Exporter, TensorFilesReadBack) {
  HostTensor s(DType::String, {2});
  s.mutable_strings() = {"a", ""};
  TempDir dir;
  for (const HostTensor& t : {float_tensor({2, 3}, 0.5F), HostTensor(DType::BF16, {3}),
                              int64_tensor({2}, {-1, int64_t{1} << 40}), s,
                              HostTensor::from<int8_t>(DType::I4, {3}, {-8, 7, -1}),
                              HostTensor::from<uint8_t>(DType::U2, {5}, {3, 0, 1, 2, 3}),
                              HostTensor::from<uint8_t>(DType::F8E4M3FN, {2}, {0xff, 1})}) {
    const std::string path = dir / "t.pb";
    write_file(path, onnx::tensor_file(t, "name"));
    const auto back = onnx::read_tensor_file(path);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back->name, "name");
    EXPECT_EQ(back->tensor.dtype(), t.dtype());
    EXPECT_EQ(back->tensor.dims(), t.dims());
    if (t.dtype() == DType::String) {
      EXPECT_EQ(back->tensor.strings(), t.strings());
    } else {
      EXPECT_TRUE(std::ranges::equal(back->tensor.bytes(), t.bytes()));
    }
  }
}

}  // namespace
}  // namespace reprise::test
