// The choice between attention's kernel and separate ones is made for each variant.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codegen/compile/compiler.h"

namespace reprise {
namespace {

constexpr const char* kSmall =
    "graph small\ninput q: float32[1,4,16,128], k: float32[1,4,16,128], "
    "v: float32[1,4,16,128]\ny = Attention(q, k, v) @23\noutput y\n";

/// The launches of each variant.
std::map<std::string, int64_t> launches(const std::string& text,
                                        const std::vector<std::string>& disabled,
                                        const std::vector<std::string>& targets = {}) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return {};
  CompileOptions options;
  options.disabled_passes = disabled;
  options.verify_passes = true;
  if (!targets.empty()) options.targets = targets;
  auto package = compile(std::move(*g), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  std::map<std::string, int64_t> out;
  for (const package::Variant& v : package->variants) {
    const auto is_launch = [](const plan::Step& s) {
      return std::holds_alternative<plan::Launch>(s.what);
    };
    out[v.name] = std::count_if(v.plan.steps.begin(), v.plan.steps.end(), is_launch);
  }
  return out;
}

TEST(AttentionPrice, EachVariantHasItsOwn) {
  auto by_price = launches(kSmall, {});
  EXPECT_EQ(by_price["vulkan-cpu-sg8"], 3);
  EXPECT_EQ(by_price["vulkan-cpu-sg8-slow-loads"], 3);
  EXPECT_EQ(by_price["vulkan-cpu"], 1);
  EXPECT_EQ(by_price["vulkan-baseline"], 1);
  for (const auto& [name, count] : launches(kSmall, {"attention-price"}))
    EXPECT_EQ(count, 1) << name;
  for (const auto& [name, count] : launches(kSmall, {"attention"})) EXPECT_EQ(count, 3) << name;
}

std::string gradients(const std::string& length) {
  const std::string head = "float32[1,4," + length + ",64]", row = "float32[1,4," + length + "]";
  return "graph gradients\ninput g: " + head + ", q: " + head + ", k: " + head + ", v: " + head +
         ", l: " + row + ", s: " + row +
         "\n(x, y, z) = AttentionGrad<scale=0.1, is_causal=1>(g, q, k, v, l, s) @24\n"
         "output x, y, z\n";
}

/// All variants share the graph, so the formula has to be faster on all of them.
TEST(AttentionPrice, GradientsAreAFormulaWhereThatIsFaster) {
  const std::vector<std::string> cpu{"vulkan-cpu-sg8"}, both{"vulkan-cpu-sg8", "vulkan-baseline"};
  const auto fused = [&](const std::string& length, const std::vector<std::string>& targets,
                         const std::vector<std::string>& disabled = {}) {
    const auto found = launches(gradients(length), disabled, targets);
    return !found.empty() &&
           std::ranges::all_of(found, [](const auto& v) { return v.second == 2; });
  };
  EXPECT_FALSE(fused("128", cpu));
  EXPECT_TRUE(fused("16", cpu)) << "launches cost more";
  EXPECT_TRUE(fused("512", cpu)) << "there are more scores than operands";
  EXPECT_TRUE(fused("length", cpu)) << "the scores may grow";
  EXPECT_TRUE(fused("128", both)) << "GPUs prefer the kernels";
  EXPECT_TRUE(fused("128", cpu, {"attention-price"}));
  EXPECT_FALSE(fused("512", both, {"attention"}));
}

}  // namespace
}  // namespace reprise
