// Pass tests are text in, text out: tests/passes/*.txt, whose first line names the passes to run;
// fp16 and bf16 are autocast in that precision, where constants of 8 elements count as large.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise::passes {
namespace {

const Pass* find(const std::string& name) {
  for (const Pass& p : pipeline()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

/// What stays in fp32, and why: a line each.
std::string said_by_autocast(graph::Graph& g, DType precision) {
  const AutocastReport report = autocast(g, precision, 8);
  std::string out = "// " + std::to_string(report.narrowed) + " narrowed\n";
  for (const package::KeptNode& k : report.kept)
    out += "// " + k.op + " " + k.node + ": " + k.reason + "\n";
  return out;
}

/// Every input behind which an output has rows grows.
PassOptions growing_in(const graph::Graph& g) {
  PassOptions options;
  for (size_t o = 0; o < g.outputs.size(); ++o) {
    const graph::ValueId v = grown_input(g, g.outputs[o]);
    if (v == graph::kNone) continue;
    const Shape &before = g.value(v).shape, &after = g.value(g.outputs[o]).shape;
    const auto axis = std::ranges::mismatch(before, after).in1 - before.begin();
    const auto input = std::ranges::find(g.inputs, v) - g.inputs.begin();
    options.growing.push_back({static_cast<size_t>(input), o, static_cast<int32_t>(axis)});
  }
  return options;
}

std::string run(const test::TextCase& c) {
  auto g = graph::parse(c.source);
  if (!g.ok()) return "parse: " + g.status().message() + "\n";
  std::istringstream names(c.heading);
  bool core = false;
  std::string said;
  for (std::string name; names >> name;) {
    if (name == "fp16" || name == "bf16") {
      said += said_by_autocast(**g, name == "fp16" ? DType::F16 : DType::BF16);
      continue;
    }
    const Pass* pass = find(name);
    if (pass == nullptr) return "there is no pass " + name + "\n";
    if (Status s = passes::run(*pass, **g, growing_in(**g)); !s.ok()) return s.message() + "\n";
    core |= name == "decompose";
  }
  if (Status s = graph::verify(**g, core); !s.ok()) return "verify: " + s.message() + "\n";
  return said + graph::print(**g);
}

TEST(Passes, TextCases) {
  const auto cases = test::text_cases(test::source_dir() / "tests/passes");
  EXPECT_GE(cases.size(), 10u);
  for (const test::TextCase& c : cases) {
    const std::string actual = run(c);
    if (test::rewriting()) test::rewrite(c, actual);
    EXPECT_EQ(actual, c.expected) << c.file;
  }
}

/// A view of a large weight stays one where a kernel reads through it; a convolution packs its
/// weight, which has to be a constant.
TEST(Passes, LargeWeightsOfConvolutionsAreFolded) {
  std::string values = "0";
  for (int i = 1; i < 128 * 64; ++i) values += ", " + std::to_string(i % 7);
  auto g = graph::parse(
      "graph weights\ninput x: float32[1,64,8,8]\ninput y: float32[2,128]\n"
      "const w: float32[64,128]{" +
      values + "}\n" +
      "t = Transpose<perm=[1, 0]>(w)\n"
      "r = Reshape<shape=(128, 64, 1, 1)>(t)\n"
      "c = Conv<dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]>(x, r)\n"
      "u = Transpose<perm=[1, 0]>(w)\n"
      "m = MatMul(y, u)\n"
      "output c, m\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  ASSERT_TRUE(fold_constants(**g).ok());
  for (const auto& n : (*g)->nodes()) {
    const bool constant = n->inputs.size() == 2 && (*g)->value(n->inputs[1]).constant.has_value();
    EXPECT_EQ(constant, n->op == "Conv") << n->name;
  }
}

TEST(Passes, NamesAreUnique) {
  for (const Pass& p : pipeline()) EXPECT_EQ(find(std::string(p.name)), &p) << p.name;
}

}  // namespace
}  // namespace reprise::passes
