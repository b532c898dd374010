// The graphs of tests/agreement as PTX, by every kind of schedule, against the interpreter.
#include "tests/ptx/graphs.h"

#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/needs.h"
#include "tests/support/paths.h"
#include "tests/support/random_values.h"
#include "tests/support/tensors.h"
#include "tests/support/text_cases.h"

namespace reprise::test {
namespace {

Result<PtxGraph> prepared(const TextCase& c) {
  PtxGraph out;
  RP_ASSIGN(out.g, graph::parse(c.source));
  const Heading heading = Heading::parse(c.heading);
  for (size_t n = 0; n < out.g->symbols.size(); ++n) {
    const SymbolSource& source = out.g->symbol_sources[n];
    const auto given = heading.sizes.find(out.g->symbols[n].name);
    int64_t size = given == heading.sizes.end() ? 2 : given->second[0];
    if (source.kind == SymbolSource::Kind::Derived) {
      RP_ASSIGN(size, source.value.eval(out.symbols));
    }
    out.symbols.push_back(size);
  }
  std::mt19937 rng(7);
  for (const graph::ValueId v : out.g->inputs) {
    const graph::Value& value = out.g->value(v);
    const std::vector<int64_t> dims = dims_of(value.shape, out.symbols);
    out.inputs.push_back(heading.seed
                             ? random_values(value.dtype, dims, heading.values_of(value.name),
                                             *heading.seed, value.name)
                             : random_tensor(value.dtype, dims, rng));
  }
  for (const passes::Pass& p : passes::pipeline()) RP_TRY(passes::run(p, *out.g));
  return out;
}

class PtxGraphs : public testing::TestWithParam<TextCase> {};

TEST_P(PtxGraphs, EveryKindOfSchedule) {
  REPRISE_NEEDS_PTX();
  const auto graph = prepared(GetParam());
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<std::string> kinds;
  auto lowered = lower_by_kind(*graph->g, &kinds);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  const auto module = PtxModule::load(name_kernels(*lowered));
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (size_t n = 0; n < lowered->size(); ++n)
    EXPECT_EQ(differs(*graph, (*lowered)[n], *module, 2e-6), "") << kinds[n];
}

std::vector<TextCase> sample(bool quick) {
  std::vector<TextCase> out;
  size_t n = 0;
  for (const TextCase& c : text_cases(source_dir() / "tests/agreement"))
    if ((n++ % 6 == 0) == quick) out.push_back(c);
  return out;
}

std::string name_of_case(const testing::TestParamInfo<TextCase>& c) {
  return c.param.file.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Quick, PtxGraphs, testing::ValuesIn(sample(true)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Full, PtxGraphs, testing::ValuesIn(sample(false)), name_of_case);

}  // namespace
}  // namespace reprise::test
