// A cost that is 0, infinite or NaN would make the order of the candidates arbitrary.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/graph/text/text.h"
#include "codegen/onnx/importer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

/// Compiles for every Vulkan variant, and returns the number of candidates.
size_t check_costs(std::unique_ptr<graph::Graph> g) {
  CompileOptions options;
  options.targets.clear();
  for (const lower::Target& t : vulkan_targets()) options.targets.push_back(t.name);
  CompileReport report;
  const auto p = compile(std::move(g), options, &report);
  EXPECT_TRUE(p.ok()) << p.status().message();
  size_t count = 0;
  for (const ScheduleChoice& choice : report.schedules) {
    for (const lower::ScheduleCandidate& c : choice.site.candidates) {
      EXPECT_TRUE(std::isfinite(c.cost) && c.cost > 0)
          << choice.site.variant << ", " << choice.site.kernel << ", " << c.schedule << ": "
          << c.cost;
      ++count;
    }
  }
  return count;
}

size_t check_text(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? check_costs(std::move(*g)) : 0;
}

/// (length + 64) / 128 - 1 windows: none at the representative length of 64.
TEST(FiniteCosts, OfAnEmptyConvolution) {
  EXPECT_GT(check_text("graph empty\n"
                       "input x: float32[batch,1,length]\ninput w: float32[9,9]\n"
                       "const filters: float32[9,1,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, "
                       "7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                       "const from: int64[1]{62}\nconst to: int64[1]{9223372036854775807}\n"
                       "const axis: int64[1]{2}\n"
                       "cut = Slice(x, from, to, axis) @13\n"
                       "y = Conv<kernel_shape=[3]>(cut, filters) @11\n"
                       "z = MatMul(w, y) @13\n"
                       "output z\n"),
            0U);
}

TEST(FiniteCosts, OfFixedSizesOfZero) {
  check_text(
      "graph empty\ninput x: float32[0,5]\ninput y: float32[5,7]\n"
      "z = MatMul(x, y) @13\noutput z\n");
}

TEST(FiniteCosts, OfTheAcceptanceModels) {
  if (!has_models()) GTEST_SKIP() << "no models in " << models_dir();
  for (const auto& entry : std::filesystem::directory_iterator(models_dir())) {
    const std::filesystem::path file = entry.path() / "model.onnx";
    if (!std::filesystem::exists(file)) continue;
    SCOPED_TRACE(file.string());
    auto g = onnx::import_file(file);
    ASSERT_TRUE(g.ok()) << g.status().message();
    check_costs(std::move(*g));
  }
}

}  // namespace
}  // namespace reprise::test
