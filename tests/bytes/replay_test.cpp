// The quick tier of the byte fuzzers: seeds, earlier findings, and a few thousand changes of them.
// tools/fuzz-bytes runs the same targets with libFuzzer for as long as one likes. Other changes
// come with another --gtest_random_seed.
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <set>

#include "runtime/package/package.h"
#include "tests/bytes/mutators.h"
#include "tests/bytes/seeds.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

std::string run(const ByteTarget& target, const std::string& bytes) try {
  return target.run(std::as_bytes(std::span(bytes)));
} catch (const std::exception& e) {
  return std::string("an exception: ") + e.what();
}

class ByteFuzzer : public testing::TestWithParam<ByteTarget> {
 protected:
  /// Changes each seed, and what came of it, and runs what results.
  static void run_mutations(size_t rounds) {
    const ByteTarget& target = GetParam();
    const std::vector<std::string> seeds = seeds_of(target.name);
    ASSERT_GE(seeds.size(), 5U);
    Random random(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
    std::set<std::string> distinct;
    for (size_t i = 0; i < rounds; ++i) {
      std::string bytes = seeds[below(random, seeds.size())];
      for (size_t depth = 1 + below(random, 3); depth > 0; --depth)
        bytes = target.mutate(bytes, random);
      if (i < 100) distinct.insert(bytes);
      const std::string problem = run(target, bytes);
      if (!problem.empty()) {
        const fs::path kept = binary_dir() / (std::string("finding-") + target.name);
        write_file(kept, bytes);
        FAIL() << "round " << i << ", bytes are in " << kept << ": " << problem;
      }
    }
    EXPECT_GT(distinct.size(), std::min<size_t>(rounds, 100) / 2) << "the mutator changes nothing";
  }
};

TEST_P(ByteFuzzer, Seeds) {
  for (const std::string& bytes : seeds_of(GetParam().name)) {
    ASSERT_EQ(run(GetParam(), bytes), "");
  }
}

TEST_P(ByteFuzzer, Findings) {
  for (const std::string& bytes : findings_of(GetParam().name)) {
    EXPECT_EQ(run(GetParam(), bytes), "");
  }
}

TEST_P(ByteFuzzer, Mutations) {
  run_mutations(1000);
}
TEST_P(ByteFuzzer, MutationsFull) {
  run_mutations(50000);
}

/// Some seeds have bodies that the device runs, so that the mutator changes those, too.
TEST(ByteSeeds, PackagesHaveDeviceBodies) {
  const TempDir dir;
  size_t with_bodies = 0;
  for (const std::string& bytes : seeds_of("package")) {
    write_file(dir / "seed.rpk", bytes);
    const auto p = package::read(dir / "seed.rpk");
    ASSERT_TRUE(p.ok()) << p.status().message();
    for (const package::Variant& v : (*p)->variants) with_bodies += v.bodies.empty() ? 0 : 1;
  }
  EXPECT_GE(with_bodies, 2U);
}

INSTANTIATE_TEST_SUITE_P(Targets, ByteFuzzer,
                         testing::ValuesIn(byte_targets().begin(), byte_targets().end()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace reprise::test
