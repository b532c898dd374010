// Fusion decisions are text in, text out: tests/lower/*.txt. A line per kernel (name: nodes ->
// outputs) and one per edge that did not fuse.
#include <gtest/gtest.h>

#include <sstream>

#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/group/cost.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise::lower {
namespace {

std::string describe(const graph::Graph& g, const Fusion& f) {
  std::ostringstream out;
  double executed = 0;
  for (const Group& group : f.groups) {
    out << row_of(group.kind).name << " " << kernel_name(group) << ":";
    for (const graph::Node* n : group.nodes) out << " " << g.value(n->outputs[0]).name;
    out << " ->";
    for (graph::ValueId v : group.outputs) out << " " << g.value(v).name;
    out << "\n";
    executed += group_flops(g, group);
    if (group.kind == GroupKind::Host) continue;
    if (auto k = lower(g, group, Target{}); !k.ok())
      out << "  lower: " << k.status().message() << "\n";
  }
  for (const Edge& e : f.unfused)
    out << "edge " << e.from << " | " << e.to << " | " << e.reason << "\n";
  EXPECT_LE(executed, 1.1 * graph_flops(g));
  return out.str();
}

std::string run(const test::TextCase& c) {
  auto g = graph::parse(c.source);
  if (!g.ok()) return "parse: " + g.status().message() + "\n";
  if (c.heading.find("raw") == std::string::npos) {
    for (const passes::Pass& p : passes::pipeline()) {
      if (Status s = passes::run(p, **g); !s.ok()) return s.message() + "\n";
    }
  }
  Predicate device;
  if (c.heading.find("subgroups of 8") != std::string::npos) {
    device.cpu_type = device.needs_subgroup_shuffle = true;
    device.subgroup_size = 8;
  }
  auto f = fuse(**g, {.enabled = c.heading.find("off") == std::string::npos, .device = device});
  return f.ok() ? describe(**g, *f) : f.status().message() + "\n";
}

/// Long chains become several kernels, in time that grows with their length only.
TEST(Fuse, KernelsAreBounded) {
  std::string text = "graph chain\ninput v0: float32[4,8]\n";
  constexpr int kNodes = 3000;
  for (int i = 0; i < kNodes; ++i) {
    text += "v" + std::to_string(i + 1) + (i % 2 == 0 ? " = Neg(v" : " = Relu(v") +
            std::to_string(i) + ")\n";
  }
  auto g = graph::parse(text + "output v" + std::to_string(kNodes) + "\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto f = fuse(**g);
  ASSERT_TRUE(f.ok()) << f.status().message();
  EXPECT_LT(f->groups.size(), 20U);
  size_t nodes = 0;
  for (const Group& group : f->groups) {
    EXPECT_LE(group.nodes.size(), 256U);
    EXPECT_EQ(group.outputs.size(), 1U);
    nodes += group.nodes.size();
  }
  EXPECT_EQ(nodes, size_t{kNodes});
  EXPECT_EQ(f->unfused.size() + 1, f->groups.size());
}

TEST(Fuse, TextCases) {
  const auto cases = test::text_cases(test::source_dir() / "tests/lower");
  EXPECT_GE(cases.size(), 10u);
  for (const test::TextCase& c : cases) {
    SCOPED_TRACE(c.file);
    const std::string actual = run(c);
    if (test::rewriting()) test::rewrite(c, actual);
    EXPECT_EQ(actual, c.expected);
  }
}

}  // namespace
}  // namespace reprise::lower
