// Probes: a healthy driver passes them, packages keep them, and hostile ones are refused.
#include <functional>
#include <limits>

#include "tests/probes/checks.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

class EveryGraph : public testing::TestWithParam<app::CheckGraph> {};

TEST_P(EveryGraph, PassesOnHealthyDevices) {
  for (const auto& device : devices()) {
    const auto package = compiled(GetParam().text, &device->info());
    ASSERT_TRUE(package);
    ASSERT_FALSE(package->variants.empty());
    const auto checks = check(*device, package->variants[0]);
    ASSERT_FALSE(checks.empty());
    for (const KernelCheck& c : checks) {
      EXPECT_EQ(c.verdict, KernelVerdict::Pass)
          << device->info().name << " " << c.kernel << ": " << c.reason;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Probes, EveryGraph, testing::ValuesIn(app::check_graphs()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Probes, AreKeptInPackages) {
  const auto package = compiled(graph_text("softmax"));
  ASSERT_TRUE(package);
  const TempDir folder;
  const std::string path = (folder / "probes.rpk").string();
  ASSERT_TRUE(package::write(*package, path).ok());
  const auto back = package::read(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  for (size_t v = 0; v < package->variants.size(); ++v) {
    EXPECT_FALSE(package->variants[v].probes.empty());
    EXPECT_EQ(package->variants[v].probes, (*back)->variants[v].probes);
  }
}

TEST(Probes, OfOtherKernelsAreRefused) {
  const auto good = compiled(graph_text("softmax"));
  ASSERT_TRUE(good);
  ASSERT_TRUE(package::verify(*good).ok());
  using plan::Probe;
  const std::pair<const char*, std::function<void(Probe&)>> changes[] = {
      {"does not launch it", [](Probe& p) { p.step = 99; }},
      {"grid is impossible", [](Probe& p) { p.grid[1] = 0; }},
      {"grid is impossible", [](Probe& p) { p.grid[0] = 65536; }},
      {"fit the kernel's parameters", [](Probe& p) { p.scalars.push_back(1); }},
      {"fit the kernel's parameters", [](Probe& p) { p.bytes.pop_back(); }},
      {"fit the kernel's parameters", [](Probe& p) { p.inputs = 200; }},
      {"fit the kernel's parameters", [](Probe& p) { p.samples.clear(); }},
      {"too large", [](Probe& p) { p.bytes[0] = plan::kMaxProbeBytes + 1; }},
      {"not written", [](Probe& p) { p.samples[0].buffer = 0; }},
      {"past the end", [](Probe& p) { p.samples[0].at[0] = 1U << 30U; }},
      {"different numbers", [](Probe& p) { p.samples[0].values.pop_back(); }},
      {"different numbers", [](Probe& p) { p.samples[0].exact.push_back(1); }},
      {"different numbers", [](Probe& p) { p.samples[0].tolerance.clear(); }},
      {"not a positive number",
       [](Probe& p) { p.samples[0].tolerance[0] = std::numeric_limits<float>::quiet_NaN(); }},
      {"not a positive number", [](Probe& p) { p.samples[0].tolerance[0] = -1; }},
      {"not a positive number",
       [](Probe& p) { p.samples[0].tolerance[0] = std::numeric_limits<float>::infinity(); }},
      {"is skipped has samples", [](Probe& p) { p.skipped = "for no reason"; }},
  };
  for (const auto& [what, change] : changes) {
    package::Package bad = *good;
    change(bad.variants[0].probes[0]);
    const Status s = package::verify(bad);
    EXPECT_EQ(s.code(), Code::CorruptPackage) << what;
    EXPECT_NE(s.message().find(what), std::string::npos) << s.message();
  }
  package::Package bad = *good;
  bad.variants[0].probes.emplace_back();
  EXPECT_EQ(package::verify(bad).code(), Code::CorruptPackage);
}

/// Sizes that are parameters are cut down; large ones that are baked in cost no more either.
TEST(Probes, AreSmall) {
  const auto dynamic = compiled("graph d\ninput x: float32[n,m]\ny = Exp(x) @13\noutput y\n");
  ASSERT_TRUE(dynamic);
  ASSERT_TRUE(dynamic->variants[0].probes[0].skipped.empty());
  EXPECT_LE(dynamic->variants[0].probes[0].bytes[0], 4096U);
  const auto large = compiled("graph l\ninput x: float32[8192,8192]\ny = Exp(x) @13\noutput y\n");
  ASSERT_TRUE(large);
  for (const package::Variant& v : large->variants) {
    ASSERT_TRUE(v.probes[0].skipped.empty()) << v.probes[0].skipped;
    EXPECT_LE(v.probes[0].bytes[0], 1U << 20U) << v.name;
  }
}

TEST(Probes, AreNotMadeUnlessAskedFor) {
  auto graph = graph::parse(graph_text("softmax"));
  ASSERT_TRUE(graph.ok());
  const auto package = compile(std::move(*graph), CompileOptions{});
  ASSERT_TRUE(package.ok());
  EXPECT_TRUE(package->variants[0].probes.empty());
}

}  // namespace
}  // namespace reprise::test
