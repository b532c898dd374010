// Kernels that a driver compiles wrong, or executes wrong, fail their checks, and no others do.
#include <set>

#include "tests/probes/checks.h"
#include "tests/probes/layer.h"

namespace reprise::test {
namespace {

class EveryKind : public testing::TestWithParam<app::CheckGraph> {};

struct Change {
  const char* what;
  uint32_t from, to;
};
// Integers are left alone: they address memory.
constexpr Change kChanges[] = {
    {"FAdd becomes FSub", 129, 131},
    {"FMul becomes FAdd", 133, 129},
    {"FDiv becomes FMul", 136, 133},
    {"GroupNonUniformShuffle becomes ShuffleXor", 345, 346},
};

/// Additions that convert subnormal numbers of fp16 alone, which devices may take as 0.
bool is_for_subnormals(const std::string& graph, const Change& change) {
  return graph == "halves" && change.from == 129;
}

// Every kernel in turn is compiled wrong, in every way that applies to it.
TEST_P(EveryKind, ShowsMiscompiledKernels) {
  CheckOptions once;
  once.runs = 1;
  unsigned changes = 0;
  for (const auto& device : devices()) {
    const auto package = compiled(GetParam().text, &device->info());
    ASSERT_TRUE(package);
    const package::Variant& v = package->variants[0];
    for (const plan::KernelCode& victim : v.plan.kernels) {
      for (const Change& change : kChanges) {
        if (is_for_subnormals(GetParam().name, change)) continue;
        const Faults faults("opcode:" + std::to_string(change.from) + ":" +
                            std::to_string(change.to) + ":" + victim.name);
        const auto checks = check(*device, v, once);
        changes += faults.count();
        for (const KernelCheck& c : checks) {
          const bool is_victim = faults.count() > 0 && c.kernel == victim.name;
          EXPECT_EQ(c.verdict, is_victim ? KernelVerdict::Wrong : KernelVerdict::Pass)
              << device->info().name << ": " << c.kernel << " where " << change.what << ": "
              << c.reason;
        }
      }
    }
  }
  // These have no sums and products of floats.
  const std::set<std::string> without{"integers", "int64", "gather"};
  EXPECT_EQ(changes == 0, without.contains(GetParam().name)) << changes;
}

// The last workgroups of a kernel are not executed.
TEST_P(EveryKind, ShowsWorkThatIsLost) {
  const auto device = devices().front();
  const auto package = compiled(GetParam().text, &device->info());
  ASSERT_TRUE(package);
  for (const plan::KernelCode& victim : package->variants[0].plan.kernels) {
    const Faults faults("short:" + victim.name);
    for (const KernelCheck& c : check(*device, package->variants[0])) {
      const KernelVerdict expected =
          c.kernel == victim.name ? KernelVerdict::Wrong : KernelVerdict::Pass;
      EXPECT_EQ(c.verdict, expected) << c.kernel << ": " << c.reason;
    }
    EXPECT_GT(faults.count(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryKind, testing::ValuesIn(app::check_graphs()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Faults, AChangedConstantIsSeen) {
  const auto device = devices().front();
  const auto package = compiled(
      "graph scaled\ninput x: float32[100]\nconst s: float32[]{0.3}\ny = Mul(x, s) @14\noutput y\n",
      &device->info());
  ASSERT_TRUE(package);
  const Faults faults("constant:0.3:0.3001");
  const auto checks = check(*device, package->variants[0]);
  EXPECT_EQ(faults.count(), 1U);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].verdict, KernelVerdict::Wrong);
  EXPECT_NE(checks[0].reason.find("of 'y' must be"), std::string::npos) << checks[0].reason;
}

TEST(Faults, ARunThatIsLostNowAndThenIsSeen) {
  const auto device = devices().front();
  const auto package = compiled(graph_text("arithmetic"), &device->info());
  ASSERT_TRUE(package);
  CheckOptions options;
  options.runs = 20;
  {
    const Faults faults("skip:10");
    const auto checks = check(*device, package->variants[0], options);
    ASSERT_FALSE(checks.empty());
    EXPECT_EQ(checks[0].verdict, KernelVerdict::Varies);
    EXPECT_NE(checks[0].reason.find("differs from that in run 1"), std::string::npos)
        << checks[0].reason;
  }
  const Faults faults("skip:1");
  const auto checks = check(*device, package->variants[0], options);
  ASSERT_FALSE(checks.empty());
  EXPECT_EQ(checks[0].verdict, KernelVerdict::Wrong) << checks[0].reason;
}

}  // namespace
}  // namespace reprise::test
