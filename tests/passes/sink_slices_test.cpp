// Random graphs whose results are cut to one position: on the host, the graph after the pass gives
// the bits of the graph before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/support/random_values.h"

namespace reprise {
namespace {

/// Writes values of shape [batch, seq, 4].
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : rng_(seed) {}

  std::string write() {
    const size_t count = 3 + below(9);
    for (size_t i = 0; i < count; ++i) add_layer();
    const bool along_batch = below(5) == 0;
    const std::string dim = along_batch ? "batch" : "seq";
    const std::string at = below(2) == 0 ? "-1 + " + dim : "0";
    text_ += "cut: float32[" + std::string(along_batch ? "1,seq" : "batch,1") +
             ",4] = Slice<starts=(" + (along_batch ? at + ", 0" : "0, " + at) +
             ", 0), steps=(1, 1, 1)>(" + values_.back() + ")\noutput cut";
    if (below(3) == 0) text_ += ", " + any();
    return text_ + "\n";
  }

 private:
  size_t below(size_t end) { return rng_() % end; }
  std::string any() { return values_[below(values_.size())]; }
  /// Adds a node and returns the name of its result.
  std::string node(const std::string& expression) {
    std::string name = "v" + std::to_string(number_++);
    text_ += name + " = " + expression + "\n";
    return name;
  }
  void add_layer() { values_.push_back(layer()); }
  std::string layer() {
    const std::string x = below(3) == 0 ? any() : values_.back();
    switch (below(9)) {
      case 0:
        return node("Tanh(" + x + ")");
      case 1:
        return node("Add(" + x + ", " + any() + ")");
      case 2:
        return node("Mul(" + x + ", " + std::array{"row", "places", "lines"}[below(3)] + ")");
      case 3:
        return node("MatMul(" + x + ", w)");
      case 4:
        return node("Sub(" + x + ", " +
                    node("ReduceMax<axes=[" + std::to_string(below(3)) + "]>(" + x + ")") + ")");
      case 5: {
        const std::string t = node("Transpose<perm=[1, 0, 2]>(" + x + ")");
        return node("Transpose<perm=[1, 0, 2]>(" + node("Relu(" + t + ")") + ")");
      }
      case 6: {
        const std::string r = node("Reshape<shape=(batch, seq, 2, 2)>(" + x + ")");
        return node("Reshape<shape=(batch, seq, 4)>(" + node("Sin(" + r + ")") + ")");
      }
      case 7:
        return node("MatMul(" + node("Concat<axis=2>(" + x + ", " + any() + ")") + ", u)");
      default: {
        const std::string t = node("Transpose<perm=[0, 2, 1]>(" + any() + ")");
        const std::string s = node("Tanh(" + node("MatMul(" + x + ", " + t + ")") + ")");
        return node("MatMul(" + s + ", " + any() + ")");
      }
    }
  }

  std::mt19937 rng_;
  std::string text_ =
      "graph random\ninput x: float32[batch,seq,4], places: float32[seq,1], lines: "
      "float32[batch,1,1]\n"
      "const row: float32[4]{1, -0.5, 0.25, 2}\n"
      "const w: float32[4,4]{1, 0.5, -1, 0, 0.25, 1, 0, 0.5, -0.5, 0, 1, 1, 0, 1, -1, 0.5}\n"
      "const u: float32[8,4]{1, 0, -1, 0, 0.25, 1, 0, 0, -0.5, 0, 1, 1, 0, 1, -1, 0.5, 1, 0, 0, 1, "
      "0, "
      "0, 1, 0, 1, 1, 0, -1, 0, 0.5, 0, 1}\n";
  std::vector<std::string> values_{"x"};
  size_t number_ = 0;
};

std::vector<HostTensor> results_of(std::unique_ptr<graph::Graph> g,
                                   const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.targets = {};
  auto p = compile(std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  if (!p.ok()) return {};
  auto session = Session::create(std::make_shared<package::Package>(*std::move(p)), nullptr);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  std::vector<Binding> bindings;
  for (size_t i = 0; i < inputs.size(); ++i)
    bindings.push_back({.name = (*session)->io().inputs[i].name, .host = &inputs[i]});
  auto out = (*session)->run(bindings);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? *std::move(out) : std::vector<HostTensor>();
}

TEST(SinkSlices, RandomGraphs) {
  const std::vector<HostTensor> inputs{test::random_values(DType::F32, {3, 5, 4}, {}, 1, "x"),
                                       test::random_values(DType::F32, {5, 1}, {}, 1, "places"),
                                       test::random_values(DType::F32, {3, 1, 1}, {}, 1, "lines")};
  int moved = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const std::string text = RandomGraph(seed).write();
    SCOPED_TRACE(text);
    auto before = graph::parse(text), after = graph::parse(text);
    ASSERT_TRUE(before.ok()) << before.status().message();
    ASSERT_TRUE(passes::sink_slices(**after).ok());
    ASSERT_TRUE(passes::dce(**after).ok());
    const Status valid = graph::verify(**after, true);
    ASSERT_TRUE(valid.ok()) << valid.message();
    moved += (*after)->value((*after)->outputs[0]).name != "cut" ? 1 : 0;
    const auto expected = results_of(*std::move(before), inputs);
    const auto actual = results_of(*std::move(after), inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].dims(), expected[i].dims());
      EXPECT_TRUE(std::ranges::equal(actual[i].bytes(), expected[i].bytes()));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(moved, 100);
}

}  // namespace
}  // namespace reprise
