// Damaged files give errors or graphs, never a crash. Runs under the sanitizers in the asan build.
#include <gtest/gtest.h>

#include <random>

#include "tests/onnx/proto.h"
#include "tests/support/paths.h"

namespace reprise::onnx::test {
namespace {

/// A small model with something of everything, so that damage reaches every part of the importer.
std::string rich_model() {
  Model m;
  m.opset("f", 1);
  m.input("x", kFloat, {"batch", 4}).input("c", kBool, {}).output("out", kFloat, {"batch", 4});
  add_float(m.graph(), "w", {1, 2, 3, 4});
  add_int64(m.graph(), "shape", {-1, 2, 2});
  wire::SparseTensor* sparse = m.graph().add_sparse_initializer();
  set_tensor(*sparse->mutable_values(), "sp", kFloat, {1});
  sparse->mutable_values()->add_float_data(1);
  set_tensor(*sparse->mutable_indices(), "", kInt64, {1, 1});
  sparse->mutable_indices()->add_int64_data(2);
  sparse->add_dims(4);
  wire::Function* f = m.proto.add_functions();
  f->set_domain("f");
  f->set_name("F");
  f->add_input("a");
  f->add_output("b");
  f->add_attribute("slope");
  attribute(fill(f->add_node(), "LeakyRelu", {"a"}, {"b"}), "alpha", 1)->set_ref_attr_name("slope");
  wire::Node* call = m.node("F", {"x"}, {"h"}, "call");
  call->set_domain("f");
  attribute(call, "slope", 1)->set_f(0.5f);
  m.node("Mul", {"h", "w"}, {"m"});
  m.node("Reshape", {"m", "shape"}, {"r"});
  attribute(m.node("Transpose", {"r"}, {"t"}), "perm", 7)->add_ints(0);
  for (int i : {2, 1}) m.graph().mutable_node(3)->mutable_attribute(0)->add_ints(i);
  attribute(m.node("Flatten", {"t"}, {"fl"}), "axis", 2)->set_i(1);
  attribute(m.node("Constant", {}, {"k"}), "value_float", 1)->set_f(3);
  wire::Node* choose = m.node("If", {"c"}, {"y"});
  for (const char* label : {"then_branch", "else_branch"}) {
    wire::Graph* g = attribute(choose, label, 5)->mutable_g();
    fill(g->add_node(), "Add", {"fl", label[0] == 't' ? "k" : "sp"}, {"v"});
    g->add_output()->set_name("v");
  }
  attribute(m.node("Softmax", {"y"}, {"out"}), "axis", 2)->set_i(-1);
  return m.bytes();
}

/// What a user of the library does next with whatever came out.
void exercise(const Result<std::unique_ptr<graph::Graph>>& g) {
  if (!g.ok()) {
    EXPECT_FALSE(g.status().message().empty());
    EXPECT_NE(g.status().code(), Code::Ok);
    return;
  }
  const Status s = graph::verify(**g, false);
  EXPECT_TRUE(s.ok()) << s.message();
  graph::ConstantPool pool;
  const std::string text = graph::print(**g, &pool);
  auto back = graph::parse(text, &pool);
  ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << text;
  EXPECT_EQ(graph::print(**back), text);
}

TEST(Hostile, TheModelItselfIsFine) {
  const auto g = import(rich_model());
  ASSERT_TRUE(g.ok()) << g.status().message();
  exercise(g);
}

TEST(Hostile, TruncatedAnywhere) {
  const std::string bytes = rich_model();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto g = import(bytes.substr(0, size));
    EXPECT_FALSE(g.ok()) << "cut to " << size << " bytes";
  }
}

void flip(std::string& bytes, std::mt19937& random) {
  const int count = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i) {
    bytes[random() % bytes.size()] = static_cast<char>(random());
  }
}

void import_flipped(int rounds, uint32_t seed) {
  const std::string bytes = rich_model();
  std::mt19937 random(seed);
  int imported = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = bytes;
    flip(damaged, random);
    const auto g = import(damaged);
    imported += g.ok();
    exercise(g);
  }
  EXPECT_GT(imported, rounds / 50);  // damage to names and weights is harmless,
  EXPECT_LT(imported, rounds);       // most other damage is not
}

TEST(Hostile, FlippedBytes) {
  import_flipped(2000, 7);
}

TEST(Hostile, FlippedBytesFull) {
  import_flipped(50000, 8);
}

TEST(Hostile, SplicedBytes) {
  const std::string bytes = rich_model();
  std::mt19937 random(11);
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = bytes;
    const size_t from = random() % bytes.size();
    const size_t size = random() % std::min<size_t>(64, bytes.size() - from);
    if (round % 2) {
      damaged.erase(from, size);
    } else {
      damaged.insert(random() % bytes.size(), bytes.substr(from, size));
    }
    exercise(import(damaged));
  }
}

TEST(Hostile, RealModelsWithFlippedBytes) {
  if (!reprise::test::has_models()) GTEST_SKIP() << "no models in " << reprise::test::models_dir();
  std::mt19937 random(3);
  for (const char* name : {"mnist", "pointwise"}) {
    const std::string bytes =
        reprise::test::read_file(reprise::test::models_dir() / name / "model.onnx");
    ASSERT_FALSE(bytes.empty());
    for (int round = 0; round < 50; ++round) {
      std::string damaged = bytes;
      flip(damaged, random);
      exercise(import(damaged));
      exercise(import(bytes.substr(0, random() % bytes.size())));
    }
  }
}

TEST(Hostile, DeepNesting) {
  // Bodies in bodies, beyond what the parser takes: an error, not a stack overflow.
  Model m;
  m.input("c", kBool, {}).output("y");
  wire::Node* n = m.node("If", {"c"}, {"y"});
  for (int depth = 0; depth < 200; ++depth) {
    attribute(n, "else_branch", 5)->mutable_g()->add_output()->set_name("c");
    wire::Graph* g = attribute(n, "then_branch", 5)->mutable_g();
    g->add_output()->set_name("y");
    n = fill(g->add_node(), "If", {"c"}, {"y"});
  }
  EXPECT_EQ(imported(m), "the bytes are not an ONNX model, or they are truncated or damaged");
}

TEST(Hostile, LoopsInLoopsDoNotGrowExponentially) {
  Model m;
  m.input("x", kFloat, {2}).output("y");
  add_int64(m.graph(), "one", {1});
  wire::Node* n = m.node("Loop", {"one", "", "x"}, {"y"});
  for (int depth = 0; depth < 30; ++depth) {
    wire::Graph* g = attribute(n, "body", 5)->mutable_g();
    for (const char* name : {"i", "going", "v"}) g->add_input()->set_name(name);
    for (const char* name : {"going", "next"}) g->add_output()->set_name(name);
    n = depth < 29 ? fill(g->add_node(), "Loop", {"one", "", "v"}, {"next"})
                   : fill(g->add_node(), "Neg", {"v"}, {"next"});
  }
  const std::string message = imported(m);
  EXPECT_NE(message.find("expand to more than 100000 nodes"), std::string::npos)
      << message.substr(0, 500);
}

}  // namespace
}  // namespace reprise::onnx::test
