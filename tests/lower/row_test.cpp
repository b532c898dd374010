// What row kernels keep between their loops.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/lower/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/lower/targets.h"
#include "codegen/passes/pass.h"

namespace reprise::lower {
namespace {

/// A Concat is computed one lane after another. That is one place where it is computed: the second
/// and the third loop load what the first one stored.
TEST(Row, VectorsOfSingleLanesAreStoredOnce) {
  auto g = graph::parse(
      "graph norm\ninput x: float32[2,3,4,8]\ninput y: float32[2,3,4,8]\ninput s: float32[96]\n"
      "input b: float32[96]\n"
      "c = Concat<axis=1>(x, y) @13\n"
      "r = Reshape<shape=(2, 2, 96)>(c)\n"
      "z = LayerNormalization<axis=-1>(r, s, b) @17\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(p.run(**g).ok()) << p.name;
  const auto fusion = fuse(**g);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  ASSERT_EQ(fusion->groups.size(), 1U);
  for (const Target& target : vulkan_targets()) {
    const auto l = lower(**g, fusion->groups[0], target);
    ASSERT_TRUE(l.ok()) << l.status().message();
    const auto keeps_concat = [&](const LoweredBuffer& b) {
      const graph::Node* n = (*g)->value(b.value).producer;
      return b.scratch && n != nullptr && n->op == "Concat";
    };
    EXPECT_TRUE(std::any_of(l->buffers.begin(), l->buffers.end(), keeps_concat))
        << target.name << "\n"
        << kernel::print(l->kernel);
  }
}

}  // namespace
}  // namespace reprise::lower
