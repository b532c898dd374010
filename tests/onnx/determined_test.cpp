// What constants determine counts as a constant wherever an operator needs one.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/onnx/proto.h"

namespace reprise::onnx::test {
namespace {

void add_bytes(wire::Graph& g, const std::string& name, const std::vector<int64_t>& dims) {
  wire::Tensor& t = *g.add_initializer();
  set_tensor(t, name, kUint8, dims);
  const auto count = static_cast<size_t>(
      std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
  std::string data(count, '\0');
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<char>(i * 37 % 251);
  t.set_raw_data(data);
}

void add_floats(wire::Graph& g, const std::string& name, const std::vector<int64_t>& dims) {
  wire::Tensor& t = *g.add_initializer();
  set_tensor(t, name, kFloat, dims);
  const auto count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) t.add_float_data(0.25F + 0.5F * static_cast<float>(i % 3));
}

/// The embedding and the last layer of a language model share their weight, as ONNX Runtime's model
/// builder writes it. `tied`: nodes that make the table of the embedding from the weight.
Model tied(const std::function<std::string(Model&)>& table) {
  Model m;
  m.opset("com.microsoft", 1);
  m.input("ids", kInt64, {1, "n"}).output("logits");
  add_bytes(m.graph(), "weight", {12, 2, 16});
  add_floats(m.graph(), "scales", {12, 2});
  wire::Node* rows =
      m.node("GatherBlockQuantized", {table(m), "ids", "scales"}, {"x"}, "embedding");
  rows->set_domain("com.microsoft");
  attribute(rows, "bits", 2)->set_i(4);
  attribute(rows, "block_size", 2)->set_i(32);
  wire::Node* last = m.node("MatMulNBits", {"x", "weight", "scales"}, {"logits"}, "head");
  last->set_domain("com.microsoft");
  for (const auto& [name, value] : {std::pair{"K", 64}, {"N", 12}, {"bits", 4}, {"block_size", 32}})
    attribute(last, name, 2)->set_i(value);
  return m;
}

TEST(Determined, WeightsMayBeReshaped) {
  const std::string graph = imported(tied([](Model& m) {
    add_int64(m.graph(), "matrix", {12, 32});
    m.node("Reshape", {"weight", "matrix"}, {"table"}, "reshape");
    return "table";
  }));
  EXPECT_NE(graph.find("x: float32[1,n,64] = com.microsoft::GatherBlockQuantized"),
            std::string::npos)
      << graph;
  EXPECT_NE(graph.find("logits: float32[1,n,12]"), std::string::npos) << graph;
}

TEST(Determined, WeightsMayFollowFromOtherOperators) {
  const std::string graph = imported(tied([](Model& m) {
    add_int64(m.graph(), "rows", {32, 12});
    add_int64(m.graph(), "where", {0});
    m.node("Reshape", {"weight", "rows"}, {"turned"});
    m.node("Transpose", {"turned"}, {"back"});
    m.node("Identity", {"back"}, {"same"});
    attribute(m.node("Concat", {"same"}, {"table"}), "axis", 2)->set_i(0);
    return "table";
  }));
  EXPECT_NE(graph.find("x: float32[1,n,64]"), std::string::npos) << graph;
}

TEST(Determined, AWeightThatARunDecidesIsRefused) {
  Model m = tied([](Model& model) {
    model.input("given", kUint8, {12, 32});
    return "given";
  });
  EXPECT_NE(imported(m).find("input 'given' must be constant"), std::string::npos) << imported(m);
}

/// Sizes, axes and scales that exporters leave to be computed.
TEST(Determined, SizesFollowFromFloats) {
  Model m(18);
  m.input("x", kFloat, {1, 2, 6, 8}).output("y").output("z");
  add_floats(m.graph(), "ones", {2});
  add_floats(m.graph(), "factor", {2});
  add_float(m.graph(), "two", {2, 4});
  m.node("Div", {"ones", "ones"}, {"same"});
  m.node("Mul", {"two", "two"}, {"large"});
  m.node("Sqrt", {"large"}, {"scales"});
  attribute(m.node("Concat", {"same", "scales"}, {"all"}), "axis", 2)->set_i(0);
  m.node("Resize", {"x", "", "all"}, {"y"});
  attribute(m.node("Cast", {"two"}, {"ints"}), "to", 2)->set_i(kInt64);
  add_int64(m.graph(), "first", {0});
  m.node("Gather", {"ints", "first"}, {"k"});
  m.node("TopK", {"x", "k"}, {"z", ""});
  const std::string graph = imported(m);
  EXPECT_NE(graph.find("y: float32[1,2,12,32] = Resize"), std::string::npos) << graph;
  EXPECT_NE(graph.find("z: float32[1,2,6,2]"), std::string::npos) << graph;
}

TEST(Determined, BodiesKnowWhatConstantsDetermine) {
  Model m;
  m.input("c", kBool, {}).input("x", kFloat, {2, 6}).output("y");
  add_float(m.graph(), "three", {3});
  m.node("Mul", {"three", "three"}, {"nine"});
  attribute(m.node("Cast", {"three"}, {"k"}), "to", 2)->set_i(kInt64);
  wire::Node* choice = m.node("If", {"c"}, {"y"}, "choice");
  for (const char* label : {"then_branch", "else_branch"}) {
    wire::Graph* g = attribute(choice, label, 5)->mutable_g();
    fill(g->add_node(), "Less", {"nine", "three"}, {"less"});
    fill(g->add_node(), "Squeeze", {"less"}, {"never"});
    wire::Node* inner = fill(g->add_node(), "If", {"never"}, {"r"});
    wire::Graph* refused = attribute(inner, "then_branch", 5)->mutable_g();
    fill(refused->add_node(), "NoSuchOperator", {"x"}, {"u"});
    refused->add_output()->set_name("u");
    wire::Graph* taken = attribute(inner, "else_branch", 5)->mutable_g();
    fill(taken->add_node(), "Neg", {"x"}, {"w"});
    taken->add_output()->set_name("w");
    fill(g->add_node(), "TopK", {"r", "k"}, {"t", ""});
    g->add_output()->set_name("t");
  }
  const std::string graph = imported(m);
  EXPECT_NE(graph.find("y: float32[2,3] = If"), std::string::npos) << graph;
}

}  // namespace
}  // namespace reprise::onnx::test
