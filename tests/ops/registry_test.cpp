// The registry of operators, and what decompositions must not do.
#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"
#include "codegen/ops/row/op.h"
#include "tests/ops/run_graph.h"

namespace reprise::test {
namespace {

/// Kernels do not check their reads, so no decomposition may read what does not exist.
TEST(Decompose, SlicesStayInside) {
  auto g = graph::parse(
      "graph g\n"
      "input ids: int32[1,8], words: float32[30,4], positions: float32[6,4]\n"
      "input gamma: float32[4], beta: float32[4]\n"
      "(y, m) = \"com.microsoft\"::EmbedLayerNormalization"
      "(ids, _, words, positions, _, gamma, beta) @1 \"e\"\noutput y\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Status s = decompose_all(**g);
  EXPECT_EQ(s.code(), Code::InvalidModel);
  EXPECT_NE(s.message().find("element 7 of axis 0 of [6, 4] is read, which does not exist"),
            std::string::npos)
      << s.message();
}

TEST(Registry, NamesAreUniqueAndCoreOperatorsAreComplete) {
  for (const ops::OpDef* def : ops::all()) {
    const std::string_view name = def->in_models.empty() ? def->name : def->in_models;
    // An old version is found by its last opset.
    const ops::OpDef* found = def->max_opset > 0 ? ops::find(def->domain, name, def->max_opset)
                                                 : ops::find(def->domain, name);
    EXPECT_EQ(found, def) << def->name << " is registered twice";
    EXPECT_NE(def->infer, nullptr) << def->name;
    const bool device = def->lowering != ops::Lowering::None;
    // The meaning of a scan is its `combine`, that of kernels their templates.
    const bool special =
        def->lowering == ops::Lowering::Scan || def->lowering == ops::Lowering::Kernel;
    EXPECT_EQ(def->lowering == ops::Lowering::Kernel, !def->kernel.empty()) << def->name;
    EXPECT_EQ(device, def->row.has_value() || special || def->element != nullptr) << def->name;
    EXPECT_TRUE(!def->row || def->lowering == ops::Lowering::Scalar) << def->name;
    EXPECT_LE(def->min_inputs, def->max_inputs) << def->name;
  }
  EXPECT_EQ(ops::find("com.example", "Add"), nullptr);
}

}  // namespace
}  // namespace reprise::test
