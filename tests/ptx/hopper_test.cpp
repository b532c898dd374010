// Products by teams, as PTX for sm_90a: mbarrier, copies by tensor maps, wgmma and roles. Values
// are small integers, so that sums are exact in any order, and results must have the interpreter's
// bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

const std::string kSchedule = "team matrix tile";
constexpr CudaArch kTeams{false, 90, true}, kTeamsPtx{true, 90, true};

HostTensor small_numbers(DType dtype, const std::vector<int64_t>& dims, int64_t seed) {
  HostTensor t(dtype, dims);
  for (int64_t n = 0; n < t.count(); ++n) {
    const int64_t i = n + 17 * seed;
    const auto v = static_cast<float>((i * i * 7 + i * 3) % 11 % 5 - 2);
    t.mutable_data<uint16_t>()[n] = dtype == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
  }
  return t;
}

/// y = relu(x * w + r), with operands as they are named.
struct Form {
  std::string dtype = "float16";
  bool left_transposed = false, right_transposed = false;
  /// The left operand is computed in the kernel.
  bool computed = false;
  /// The right one is a weight of integers, with a scale for each column, or for each block of 32
  /// values of k.
  enum class Weight : uint8_t { None, Columns, Blocks } weight = Weight::None;
};

std::string list_of(int64_t count, const std::function<std::string(int64_t)>& at) {
  std::string out = "{";
  for (int64_t n = 0; n < count; ++n) out += (n == 0 ? "" : ", ") + at(n);
  return out + "}\n";
}

/// "w", dequantised. Products with the scales are exact.
std::string weight_of(const Form& f, int64_t n, int64_t k) {
  const bool blocks = f.weight == Form::Weight::Blocks;
  const auto dims = [](int64_t a, int64_t b) {
    return "[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  const std::string type = blocks ? "int4" : "int8";
  const auto scale = [](int64_t i) { return std::string(i % 3 == 0 ? "0.5" : "1.0"); };
  return "const q: " + type + dims(k, n) +
         list_of(n * k, [](int64_t i) { return std::to_string((i * i * 5 + i) % 13 % 8 - 4); }) +
         "const c: " + f.dtype + (blocks ? dims(k / 32, n) : "[" + std::to_string(n) + "]") +
         list_of(blocks ? n * (k / 32) : n, scale);
}

std::string text_of(const Form& f, int64_t m, int64_t n, int64_t k) {
  const auto shape = [](int64_t a, int64_t b) {
    return "[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  const std::string t = f.dtype;
  std::string out = "graph product\n";
  out += "input x: " + t + (f.left_transposed ? shape(k, m) : shape(m, k)) + "\n";
  if (f.weight == Form::Weight::None) {
    out += "input w: " + t + (f.right_transposed ? shape(n, k) : shape(k, n)) + "\n";
  } else {
    out += weight_of(f, n, k);
  }
  out += "input r: " + t + shape(m, n) + "\n";
  if (f.left_transposed) out += "xt = Transpose<perm=[1, 0]>(x) @13\n";
  if (f.right_transposed) out += "wt = Transpose<perm=[1, 0]>(w) @13\n";
  if (f.weight == Form::Weight::Columns) out += "w = DequantizeLinear<axis=1>(q, c)\n";
  if (f.weight == Form::Weight::Blocks)
    out += "w = DequantizeLinear<axis=0, block_size=32>(q, c)\n";
  std::string left = f.left_transposed ? "xt" : "x";
  if (f.computed) {
    out += "xn = Neg(" + left + ") @13\nxc = Relu(xn) @14\n";
    left = "xc";
  }
  out += "p = MatMul(" + left + ", " + (f.right_transposed ? "wt" : "w") + ") @13\n";
  return out + "s = Add(p, r) @14\ny = Relu(s) @14\noutput y\n";
}

/// The graph, and a lowering for each tile of teams whose name has this part.
Status lower_tiles(const std::string& text, const std::string& part, PtxGraph& graph,
                   std::vector<Lowering>& tiles) {
  RP_ASSIGN(graph.g, graph::parse(text));
  for (const passes::Pass& p : passes::pipeline()) RP_TRY(passes::run(p, *graph.g));
  for (const graph::ValueId v : graph.g->inputs) {
    const graph::Value& value = graph.g->value(v);
    graph.inputs.push_back(small_numbers(value.dtype, dims_of(value.shape, {}),
                                         static_cast<int64_t>(graph.inputs.size())));
  }
  size_t count = 1;
  for (size_t tile = 0; tile < count; ++tile) {
    const auto choose = [&](const auto& choices) {
      std::vector<size_t> found;
      for (size_t c = 0; c < choices.size(); ++c)
        if (choices[c].schedule.starts_with(kSchedule + part)) found.push_back(c);
      count = found.size();
      return tile < found.size() ? found[tile] : size_t{0};
    };
    RP_ASSIGN(Lowering one, lower_for_cuda(*graph.g, choose, kTeams));
    if (count == 0) return internal_error("no tile of teams");
    tiles.push_back(std::move(one));
  }
  return {};
}

/// Each tile whose name has this part.
void expect_equal(const Form& f, int64_t m, int64_t n, int64_t k, const std::string& part = "") {
  PtxGraph graph;
  std::vector<Lowering> tiles;
  const Status lowered = lower_tiles(text_of(f, m, n, k), part, graph, tiles);
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    limit_groups(tiles[t], 1 + t % 3);
    if (t % 2 == 0) begin_early(tiles[t]);
  }
  const std::vector<kernel::Kernel> kernels = name_kernels(tiles);
  auto module = PtxModule::load(kernels, {}, kTeamsPtx);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (size_t t = 0; t < tiles.size(); ++t) {
    module->options.copies = static_cast<ptx::Completion>(t % 3);
    EXPECT_EQ(differs(graph, tiles[t], *module, 0), "")
        << "tile " << t << " of " << m << "x" << n << "x" << k;
  }
}

/// A product, and a part of a tile's name.
struct Product {
  int64_t m, n, k;
  std::string tile;
};
// More steps than stages, and two tiles for one workgroup.
const Product kTwoTiles{136, 256, 392, " 128x256"};

using Words = std::vector<std::string_view>;
/// The lines that synchronise have one of these.
const Words kSynchronising{
    "mbarrier.init.",           "mbarrier.arrive.",  "mbarrier.expect_tx.",
    "cp.async.bulk.tensor.",    "wgmma.fence.",      "wgmma.commit_group.",
    "wgmma.wait_group.",        "bar.sync",          "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group", "fence.proxy.async", "griddepcontrol.wait",
    "barrier.cluster."};

/// The numbers of lines that are left out together.
using LeftOut = std::vector<size_t>;

/// Each of the lines with such words, alone. But the last waits of a cluster are one mistake: a
/// workgroup lasts until all its roles have ended, so it is enough that one of them waits.
std::vector<LeftOut> left_out_of(const std::vector<std::string>& lines, const Words& words) {
  std::vector<LeftOut> out;
  LeftOut ends;
  bool begun = false;
  for (size_t n = 0; n < lines.size(); ++n) {
    const auto has = [&](std::string_view word) {
      return lines[n].find(word) != std::string::npos;
    };
    if (std::ranges::none_of(words, has)) continue;
    const bool waits = has("barrier.cluster.wait");
    if (waits && begun) {
      ends.push_back(n);
    } else {
      out.push_back({n});
    }
    begun = begun || waits;
  }
  if (!ends.empty()) out.push_back(std::move(ends));
  return out;
}

/// Without any one of the lines with such words, the executor reports a mistake. There are at least
/// so many mistakes.
void expect_lines_needed(const Form& f, size_t least, const Product& p = kTwoTiles,
                         const Words& words = kSynchronising) {
  PtxGraph graph;
  std::vector<Lowering> tiles;
  const Status lowered = lower_tiles(text_of(f, p.m, p.n, p.k), p.tile, graph, tiles);
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  tiles.resize(1);
  limit_groups(tiles[0], 1);
  begin_early(tiles[0]);
  const std::vector<kernel::Kernel> kernels = name_kernels(tiles);
  std::vector<std::string> lines;
  const auto read = [&lines](std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  };
  ASSERT_TRUE(PtxModule::load(kernels, read, kTeamsPtx).ok());
  const std::vector<LeftOut> mistakes = left_out_of(lines, words);
  for (const LeftOut& mistake : mistakes) {
    const auto drop = [&](std::string& text) {
      text.clear();
      for (size_t i = 0; i < lines.size(); ++i)
        if (std::ranges::find(mistake, i) == mistake.end()) text += lines[i] + "\n";
    };
    const auto module = PtxModule::load(kernels, drop, kTeamsPtx);
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_NE(differs(graph, tiles[0], *module, 0), "") << lines[mistake[0]];
  }
  EXPECT_GE(mistakes.size(), least);
}

TEST(PtxHopper, FullEachSynchronisingLineIsNeeded) {
  REPRISE_NEEDS_PTX();
  expect_lines_needed({}, 17);
}

TEST(PtxHopper, FullEachSynchronisingLineOfAConvertingTeamIsNeeded) {
  REPRISE_NEEDS_PTX();
  Form f;
  f.computed = true;
  expect_lines_needed(f, 18);
}

/// The ring's arrivals at other workgroups follow reads that are over: products that were awaited.
/// Signals are ready before other workgroups arrive at them, and last until these have.
TEST(PtxHopper, ASharedRingAwaitsProductsAndWorkgroups) {
  REPRISE_NEEDS_PTX();
  expect_lines_needed({}, 4, {200, 256, 328, " 256x256"},
                      {"wgmma.wait_group.", "barrier.cluster.wait"});
}

/// Two workgroups share the right operand.
TEST(PtxHopper, FullEachSynchronisingLineOfASharedRingIsNeeded) {
  REPRISE_NEEDS_PTX();
  // The text has 22 such lines or more; two of them, the roles' last waits, are left out together.
  expect_lines_needed({}, 21, {260, 256, 392, " 256x256"});
}

/// Two workgroups sum parts of K.
TEST(PtxHopper, FullEachSynchronisingLineOfAnExchangeIsNeeded) {
  REPRISE_NEEDS_PTX();
  expect_lines_needed({}, 22, {70, 64, 1160, " 64x64x64, 8 stages, K split over a cluster of 2"});
}

/// A depth that up to four workgroups sum together.
TEST(PtxHopper, PartsOfKInAClusterAreSummed) {
  REPRISE_NEEDS_PTX();
  expect_equal({"bfloat16", false, true}, 70, 73, 1032);
  // A workgroup stores one part of each of its tiles, which must have left before the next.
  expect_equal({}, 64, 200, 520, " 64x64x64, 8 stages, K split over a cluster of 2");
}

TEST(PtxHopper, OperandsThatATeamConverts) {
  REPRISE_NEEDS_PTX();
  Form f;
  f.computed = true;
  expect_equal(f, 70, 72, 136);
  f.dtype = "bfloat16";
  f.weight = Form::Weight::Columns;
  expect_equal(f, 65, 72, 130);
  f.computed = false;
  f.weight = Form::Weight::Blocks;
  expect_equal(f, 40, 72, 96);
}

TEST(PtxHopper, FullOddStrides) {
  REPRISE_NEEDS_PTX();
  for (int form = 0; form < 8; ++form) {
    Form f{form % 2 == 0 ? "float16" : "bfloat16", form / 2 % 2 != 0, form / 4 != 0};
    expect_equal(f, 67, 72, 131);
    expect_equal(f, 72, 133, 65);
    expect_equal(f, 71, 45, 39);
  }
}

TEST(PtxHopper, FullWeightsOfIntegers) {
  REPRISE_NEEDS_PTX();
  for (const Form::Weight weight : {Form::Weight::Columns, Form::Weight::Blocks}) {
    for (const int64_t m : {1, 136}) {
      for (const int64_t n : {8, 37, 264}) {
        for (const int64_t k : {32, 96, 320}) {
          Form f{n == 8 ? "float16" : "bfloat16", k == 96};
          f.weight = weight;
          f.computed = m == 1;
          expect_equal(f, m, n, k);
        }
      }
    }
  }
}

TEST(PtxHopper, ProductsOfTeams) {
  REPRISE_NEEDS_PTX();
  expect_equal({}, 70, 136, 200);
  expect_equal({"bfloat16"}, 64, 64, 64);
}

TEST(PtxHopper, OperandsAlongAnyAxis) {
  REPRISE_NEEDS_PTX();
  expect_equal({"float16", false, true}, 40, 72, 136);
  expect_equal({"float16", true, false}, 72, 40, 72);
  expect_equal({"bfloat16", true, true}, 136, 24, 80);
}

/// A probe of a persistent kernel computes a few of a workgroup's tiles, however many there are.
TEST(PtxHopper, ProbesComputeFewTiles) {
  REPRISE_NEEDS_PTX();
  auto g = graph::parse(text_of({}, 4096, 4096, 64));
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"cuda:sm_90a"};
  options.probes = true;
  const auto package = compile(std::move(*g), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  const package::Variant& v = package->variants[0];
  ASSERT_EQ(v.name, "cuda-sm_90a");
  ASSERT_EQ(v.plan.kernels.size(), 1U);
  ASSERT_EQ(v.plan.kernels[0].views.size(), 3U);
  const plan::Probe& probe = v.probes[0];
  ASSERT_EQ(probe.skipped, "");
  EXPECT_EQ(probe.grid, (std::array<uint32_t, 3>{1, 1, 1}));
  const auto& launch = std::get<plan::Launch>(v.plan.steps[probe.step].what);
  EXPECT_EQ(launch.grid[0].value(), 132);
  // Two tiles of one workgroup, of all tiles of 132 workgroups.
  size_t changed = 0;
  for (size_t n = 0; n < launch.scalars.size(); ++n) {
    const int64_t whole = launch.scalars[n].value();
    if (probe.scalars[n] == whole) continue;
    EXPECT_EQ(probe.scalars[n], whole == 132 ? 1 : 2) << "instead of " << whole;
    ++changed;
  }
  EXPECT_EQ(changed, 2U);
}

/// Compiles a product by the tile with this part in its name. Its kernel has a probe, of which
/// `size` workgroups are a cluster.
void expect_probe_of_clusters(const Product& p, uint32_t size) {
  auto g = graph::parse(text_of({}, p.m, p.n, p.k));
  ASSERT_TRUE(g.ok()) << g.status().message();
  uint32_t cluster = 0;
  CompileOptions options;
  options.targets = {"cuda:sm_90a"};
  options.cuda_ptx = false;
  options.probes = true;
  options.choose_schedule = [&](const ScheduleSite& site) {
    const auto has = [&](const auto& c) { return c.schedule.find(p.tile) != std::string::npos; };
    const auto found = std::ranges::find_if(site.candidates, has);
    return found == site.candidates.end() ? size_t{0}
                                          : static_cast<size_t>(found - site.candidates.begin());
  };
  options.on_kernel_ir = [&](const std::string&, const kernel::Kernel& k) { cluster = k.cluster; };
  const auto package = compile(std::move(*g), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  EXPECT_EQ(cluster, size);
  const plan::Probe& probe = package->variants[0].probes[0];
  EXPECT_EQ(probe.skipped, "");
  EXPECT_FALSE(probe.samples.empty());
  EXPECT_EQ(probe.grid[0] % size, 0U) << probe.grid[0];
  EXPECT_GE(probe.grid[0], size);
}

TEST(PtxHopper, ProbesOfClusters) {
  REPRISE_NEEDS_PTX();
  expect_probe_of_clusters({136, 264, 200, "256x256"}, 2);
  expect_probe_of_clusters({70, 64, 1160, "64x64x64, 8 stages, K split over a cluster of 2"}, 2);
}

TEST(PtxHopper, FullProbesOfClusters) {
  REPRISE_NEEDS_PTX();
  expect_probe_of_clusters({2048, 264, 200, "256x256"}, 2);
  expect_probe_of_clusters({256, 256, 16384, "K split over a cluster of 4"}, 4);
}

TEST(PtxHopper, FullEdgesOfTiles) {
  REPRISE_NEEDS_PTX();
  for (const int64_t m : {8, 64, 136}) {
    for (const int64_t n : {8, 264}) {
      for (const int64_t k : {8, 64, 320, 520})
        expect_equal({n == 8 ? "float16" : "bfloat16", m == 8, k == 64}, m, n, k);
    }
  }
}

}  // namespace
}  // namespace reprise::test
