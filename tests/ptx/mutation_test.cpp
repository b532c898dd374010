// Mistakes in PTX that a compiler made of our text are found: by the executor's checks, or because
// results differ from the interpreter's.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/edits.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

/// The operands of an instruction, where a list or an address counts as one.
std::vector<std::pair<size_t, size_t>> operands_of(const std::string& line) {
  std::vector<std::pair<size_t, size_t>> out;
  const size_t name = line.find_first_not_of(" \t@");
  size_t at = line.find_first_of(" \t", name);
  if (line.find('@') != std::string::npos) at = line.find_first_of(" \t", at + 1);
  int depth = 0;
  for (size_t n = at, first = at; n < line.size() && at != std::string::npos; ++n) {
    if (line[n] == '{' || line[n] == '[') ++depth;
    if (line[n] == '}' || line[n] == ']') --depth;
    if (depth != 0 || (line[n] != ',' && line[n] != ';')) continue;
    first = line.find_first_not_of(" \t", first);
    out.emplace_back(first, n - first);
    first = n + 1;
  }
  return out;
}

/// The line with two operands exchanged; empty if it has not so many, or they are equal.
std::string swapped(const std::string& line, size_t a, size_t b) {
  const auto at = operands_of(line);
  if (at.size() <= b) return "";
  const std::string x = line.substr(at[a].first, at[a].second);
  const std::string y = line.substr(at[b].first, at[b].second);
  if (x == y) return "";
  std::string out = line;
  out.replace(at[b].first, at[b].second, x);
  out.replace(at[a].first, at[a].second, y);
  return out;
}

/// The first two elements of the first list exchanged.
std::string list_swapped(const std::string& line, size_t list) {
  size_t open = std::string::npos;
  for (size_t n = 0; n <= list; ++n) open = line.find('{', open + 1);
  if (open == std::string::npos) return "";
  const size_t comma = line.find(',', open), end = line.find_first_of(",}", comma + 1);
  const std::string a = line.substr(open + 1, comma - open - 1);
  const std::string b = line.substr(comma + 2, end - comma - 2);
  if (a == b) return "";
  return line.substr(0, open + 1) + b + ", " + a + line.substr(end);
}

/// What a line may be by mistake; the line does not exist if it is empty.
std::vector<std::string> mistakes(const std::vector<std::string>& lines, size_t at) {
  const std::string& line = lines[at];
  const auto has = [&](const char* part) { return line.find(part) != std::string::npos; };
  std::vector<std::string> out;
  if (has("bar.sync") || has("cp.async.wait") || has("cp.async.commit")) return {";"};
  if (has("ldmatrix")) {
    out.push_back(has(".trans") ? replaced(line, ".trans", "")
                                : replaced(line, ".x4", ".x4.trans"));
    out.push_back(list_swapped(line, 0));
  } else if (has("mma.sync")) {
    for (size_t n = 0; n < 3; ++n) out.push_back(list_swapped(line, n));
    out.push_back(replaced(line, ".f16.f16.", ".bf16.bf16."));
    out.push_back(replaced(line, ".bf16.bf16.", ".f16.f16."));
  } else if (has("and.b32") && has("-8192")) {
    out.push_back(replaced(line, "-8192", "-2147483648"));  // a part of a number of F32
  } else if (has("sub.rn.f32") || has("div.full")) {
    out.push_back(swapped(line, 1, 2));
  } else if (has("add.rn.f32") && !has("0f00000000")) {
    out.push_back(replaced(line, "add", "sub"));
  } else if (has("shfl.sync.bfly") && at + 2 < lines.size() &&
             lines[at + 2].find("add.rn.f32") != std::string::npos) {
    // Of sums, of which the first lane's is used. A softmax is the same with any maximum.
    out.push_back(replaced(line, "bfly", "up"));
  }
  std::erase(out, "");
  return out;
}

struct Subject {
  std::string name, graph, schedule;  // the schedule's beginning
  std::vector<int64_t> sizes;
  std::vector<std::string> instructions;  // beginnings of those that must have been mutated
};

class PtxMutations : public testing::TestWithParam<Subject> {};

TEST_P(PtxMutations, AreFound) {
  REPRISE_NEEDS_PTX();
  const Subject& subject = GetParam();
  PtxGraph graph;
  auto g = graph::parse(subject.graph);
  ASSERT_TRUE(g.ok()) << g.status().message();
  graph.g = std::move(*g);
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *graph.g).ok());
  graph.symbols = subject.sizes;
  std::mt19937 rng(3);
  for (const graph::ValueId v : graph.g->inputs) {
    const graph::Value& value = graph.g->value(v);
    graph.inputs.push_back(random_tensor(value.dtype, dims_of(value.shape, graph.symbols), rng));
  }
  std::vector<Lowering> lowered(1);
  auto one = lower_for_cuda(*graph.g, [&](const auto& choices) {
    for (size_t n = 0; n < choices.size(); ++n)
      if (choices[n].schedule.starts_with(subject.schedule)) return n;
    return size_t{0};
  });
  ASSERT_TRUE(one.ok()) << one.status().message();
  lowered[0] = std::move(*one);
  const std::vector<kernel::Kernel> kernels = name_kernels(lowered);
  const auto text = ptx_of(kernels);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const std::vector<std::string> lines = lines_of(*text);
  const auto problem = [&](const std::string& ptx) -> std::string {
    const auto module = PtxModule::load(kernels, [&](std::string& t) { t = ptx; });
    return module.ok() ? differs(graph, lowered[0], *module, 1e-5) : module.status().message();
  };
  ASSERT_EQ(problem(*text), "");
  std::map<std::string, size_t> tried;
  for (size_t n = 0; n < lines.size(); ++n) {
    for (const std::string& mistake : mistakes(lines, n)) {
      const size_t name = lines[n].find_first_not_of(" \t");
      const std::string kind = lines[n].substr(name, lines[n].find_first_of(" \t", name) - name);
      // Kernels repeat themselves; a few of each kind take long enough.
      if (++tried[kind] > 6 && kind != "bar.sync") continue;
      std::vector<std::string> changed = lines;
      changed[n] = mistake;
      EXPECT_NE(problem(joined(changed)), "") << n + 1 << ": " << lines[n] << " became " << mistake;
    }
  }
  for (const std::string& name : subject.instructions) {
    EXPECT_TRUE(std::any_of(tried.begin(), tried.end(), [&](const auto& t) {
      return t.first.starts_with(name);
    })) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PtxMutations,
    testing::Values(
        Subject{"matrices",
                "graph g\ninput x: float16[rows,64]\ninput w: float16[64,columns]\n"
                "y = MatMul(x, w) @13\noutput y\n",
                "cooperative matrix tile",
                {64, 64},
                {"bar.sync", "ldmatrix", "mma.sync"}},
        Subject{"bfloats",
                "graph g\ninput x: bfloat16[rows,64]\ninput w: bfloat16[64,columns]\n"
                "y = MatMul(x, w) @13\noutput y\n",
                "cooperative matrix tile",
                {64, 64},
                {"bar.sync", "ldmatrix", "mma.sync"}},
        // Most of the last step of K exists, whose instructions are apart from those of the loop.
        Subject{"copies",
                "graph g\ninput x: float16[rows,120]\ninput w: float16[120,72]\n"
                "y = MatMul(x, w) @13\noutput y\n",
                "async matrix tile",
                {70},
                {"bar.sync", "cp.async.wait_group", "cp.async.commit_group", "mma.sync"}},
        Subject{"converted",
                "graph g\ninput x: float16[rows,120]\ninput w: float16[120,72]\n"
                "a = Neg(x) @13\nb = Relu(a) @14\ny = MatMul(b, w) @13\noutput y\n",
                "async matrix tile",
                {70},
                {"bar.sync", "cp.async.wait_group", "cp.async.commit_group", "mma.sync"}},
        // Two blocks of keys, of which the second one is not whole.
        Subject{"attention",
                "graph g\ninput q: float16[rows,32]\ninput k: float16[keys,32]\n"
                "input v: float16[keys,32]\nkt = Transpose<perm=[1, 0]>(k)\n"
                "s = MatMul(q, kt) @13\np = Softmax<axis=-1>(s) @13\ny = MatMul(p, v) @13\n"
                "output y\n",
                "attention, matrices 64x32",
                {64, 60},
                {"bar.sync", "cp.async.wait_group", "cp.async.commit_group", "ldmatrix", "mma.sync",
                 "shfl.sync.bfly", "sub.rn.f32"}},
        Subject{"split",
                "graph g\ninput x: float32[rows,72]\ninput w: float32[72,40]\n"
                "y = MatMul(x, w) @13\noutput y\n",
                "async matrix tile",
                {70},
                {"bar.sync", "cp.async.wait_group", "cp.async.commit_group", "ldmatrix", "mma.sync",
                 "sub.rn.f32", "add.rn.f32", "and.b32"}},
        Subject{"softmax",
                "graph g\ninput x: float32[rows,1000]\ny = Softmax<axis=-1>(x) @13\noutput y\n",
                "",
                {3},
                {"bar.sync", "add.rn.f32", "sub.rn.f32", "shfl.sync.bfly"}}),
    [](const testing::TestParamInfo<Subject>& s) { return s.param.name; });

}  // namespace
}  // namespace reprise::test
