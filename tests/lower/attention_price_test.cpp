// The choice between attention's kernel and separate ones is made for each variant.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codegen/compiler.h"

namespace reprise {
namespace {

std::map<std::string, int64_t> launches(const std::vector<std::string>& disabled) {
  auto g = graph::parse(
      "graph small\ninput q: float32[1,4,16,128], k: float32[1,4,16,128], "
      "v: float32[1,4,16,128]\ny = Attention(q, k, v) @23\noutput y\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return {};
  CompileOptions options;
  options.disabled_passes = disabled;
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
  auto by_price = launches({});
  EXPECT_EQ(by_price["vulkan-cpu-sg8"], 3);
  EXPECT_EQ(by_price["vulkan-cpu-sg8-slow-loads"], 3);
  EXPECT_EQ(by_price["vulkan-cpu"], 1);
  EXPECT_EQ(by_price["vulkan-baseline"], 1);
  for (const auto& [name, count] : launches({"attention-price"})) EXPECT_EQ(count, 1) << name;
  for (const auto& [name, count] : launches({"attention"})) EXPECT_EQ(count, 3) << name;
}

}  // namespace
}  // namespace reprise
