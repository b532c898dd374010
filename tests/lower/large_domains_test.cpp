// Values of more elements than kernels count, which no kernel stores.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"

namespace reprise {
namespace {

std::shared_ptr<package::Package> compiled(const char* text, std::string* log = nullptr) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"vulkan"};
  if (log != nullptr) options.log = [log](const std::string& line) { *log += line; };
  CompileReport report;
  auto package = compile(std::move(*g), options, &report);
  EXPECT_TRUE(package.ok()) << package.status().message();
  EXPECT_TRUE(report.broken.empty()) << "a limit is no fault";
  return package.ok() ? std::make_shared<package::Package>(std::move(*package)) : nullptr;
}

std::string host_reasons(const package::Package& p) {
  std::string out;
  for (const plan::Step& s : p.variants.front().plan.steps)
    if (const auto* call = std::get_if<plan::HostCall>(&s.what))
      out += call->node + ": " + call->reason + "\n";
  return out;
}

constexpr const char* kMean = R"(graph mean
input x: float32[46341,1]
const to: int64[2]{46341, 46341}
e = Expand(x, to) @13 "expand"
y = ReduceMean<keepdims=0>(e) @13 "mean"
output y
)";

TEST(LargeDomains, AreReducedInSteps) {
  std::string log;
  const auto package = compiled(kMean, &log);
  ASSERT_NE(package, nullptr);
  EXPECT_EQ(host_reasons(*package), "");
  EXPECT_EQ(log, "");
}

TEST(LargeDomains, OfOneAxisToo) {
  const auto package = compiled(R"(graph constant
const sizes: int64[1]{10000000000}
input x: float32[4]
c = ConstantOfShape<value=float32[1]{2}>(sizes) @9 "fill"
m = ReduceMax<keepdims=0>(c) @13 "max"
y = Add(x, m) @14
output y
)");
  ASSERT_NE(package, nullptr);
  EXPECT_EQ(host_reasons(*package), "");
}

TEST(LargeDomains, WhoseElementsFollowFromTheirIndicesSayWhyNot) {
  std::string log;
  const auto package = compiled(R"(graph range
input start: int64[]
const limit: int64[]{8589934592}
const step: int64[]{1}
const zero: int64[]{0}
r = Range(zero, limit, step) @11 "range"
s = Mul(r, start) @14 "scale"
y = ReduceMax<keepdims=0>(s) @13 "max"
output y
)",
                                &log);
  ASSERT_NE(package, nullptr);
  const std::string reasons = host_reasons(*package);
  EXPECT_NE(reasons.find("range"), std::string::npos) << reasons;
  EXPECT_NE(reasons.find("32 bits"), std::string::npos) << reasons;
  EXPECT_EQ(log, "");
}

}  // namespace
}  // namespace reprise
