// Products by matrices of a warp at the edges of tiles. Values are small integers, so that sums are
// exact in any order, and results must have the interpreter's bits.
#include <gtest/gtest.h>

#include <regex>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

constexpr const char *kCooperative = "cooperative matrix tile", *kAsync = "async matrix tile";

/// Integers in [-2, 2], not periodic in any size.
HostTensor small_integers(DType type, const std::vector<int64_t>& dims, int64_t seed) {
  HostTensor t(type, dims);
  for (int64_t n = 0; n < t.count(); ++n) {
    const int64_t i = n + 17 * seed;
    const auto v = static_cast<float>((i * i * 7 + i * 3) % 11 % 5 - 2);
    t.mutable_data<uint16_t>()[n] = type == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
  }
  return t;
}

/// The graph after all passes; its symbols have no sizes yet.
Result<PtxGraph> parsed_graph(const std::string& text) {
  PtxGraph out;
  RP_ASSIGN(out.g, graph::parse(text));
  for (const passes::Pass& p : passes::pipeline()) RP_TRY(passes::run(p, *out.g));
  return out;
}

/// A lowering for each of the schedule's tiles.
Result<std::vector<Lowering>> every_tile(const graph::Graph& g, const char* schedule) {
  std::vector<Lowering> out;
  size_t tiles = 1;
  for (size_t tile = 0; tile < tiles; ++tile) {
    RP_ASSIGN(Lowering one, lower_for_cuda(g, [&](const auto& choices) {
                std::vector<size_t> found;
                for (size_t n = 0; n < choices.size(); ++n)
                  if (choices[n].schedule.starts_with(schedule)) found.push_back(n);
                tiles = std::max(tiles, found.size());
                return tile < found.size() ? found[tile] : size_t{0};
              }));
    out.push_back(std::move(one));
  }
  return out;
}

using Sizes = std::vector<int64_t>;  // of the symbols, in order

void expect_equal_products_of(const std::string& text, const std::vector<Sizes>& sizes,
                              const char* schedule) {
  auto graph = parsed_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto tiles = every_tile(*graph->g, schedule);
  ASSERT_TRUE(tiles.ok()) << tiles.status().message();
  ASSERT_GE(tiles->size(), 2U);
  const std::vector<kernel::Kernel> kernels = name_kernels(*tiles);
  auto module = PtxModule::load(kernels);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (const Sizes& s : sizes) {
    graph->symbols = s;
    graph->inputs.clear();
    for (const graph::ValueId v : graph->g->inputs) {
      const auto seed = static_cast<int64_t>(graph->inputs.size());
      const graph::Value& value = graph->g->value(v);
      graph->inputs.push_back(small_integers(value.dtype, dims_of(value.shape, s), seed));
    }
    for (size_t n = 0; n < tiles->size(); ++n) {
      module->options.copies = static_cast<ptx::Completion>(n % 3);
      EXPECT_EQ(differs(*graph, (*tiles)[n], *module, 0), "")
          << "tile " << n << " of sizes " << testing::PrintToString(s);
    }
  }
}

/// A graph of fp16, and the same of bf16.
void expect_equal_products(const std::string& text, const std::vector<Sizes>& sizes,
                           const char* schedule = kCooperative) {
  REPRISE_NEEDS_PTX();
  expect_equal_products_of(text, sizes, schedule);
  const std::string bfloats = std::regex_replace(text, std::regex("\\bfloat16"), "bfloat16");
  expect_equal_products_of(bfloats, sizes, schedule);
}

const std::string kProduct = R"(graph tails
input x: float16[rows,depth]
input w: float16[depth,columns]
input b: float16[columns]
input r: float16[rows,columns]
m = MatMul(x, w) @13
a = Add(m, b) @14
s = Add(a, r) @14
y = Relu(s) @14
output y
)";

/// rows, depth, columns
TEST(PtxGemm, EdgesOfTiles) {
  expect_equal_products(kProduct, {{1, 1, 1}, {17, 20, 33}, {64, 16, 64}, {65, 40, 7}});
}

TEST(PtxGemm, OperandsAlongTheDepth) {
  expect_equal_products(
      "graph along\ninput x: float16[batch,rows,24]\ninput w: float16[batch,columns,24]\n"
      "t = Transpose<perm=[0, 2, 1]>(w) @13\ny = MatMul(x, t) @13\noutput y\n",
      {{2, 19, 21}});
}

/// Whether a schedule of matrix units is a choice for y = x * dequantised w.
bool multiplies_matrices(const std::string& type, const std::string& scales,
                         const std::string& attributes) {
  std::string text = "graph weights\ninput x: " + type + "[64,64]\nconst q: int8[64,64]{1";
  for (int n = 1; n < 64 * 64; ++n) text += ", " + std::to_string(n % 7);
  text += "}\nconst c: " + type + scales + "{1.0";
  for (int n = 1; n < (scales == "[64]" ? 64 : 128); ++n) text += ", 1.0";
  text += "}\nd = DequantizeLinear<" + attributes + ">(q, c)\n";
  auto graph = parsed_graph(text + "y = MatMul(x, d) @13\noutput y\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  bool found = false;
  if (!graph.ok()) return found;
  const auto lowered = lower_for_cuda(*graph->g, [&](const auto& choices) {
    for (const auto& c : choices)
      found = found || c.schedule.find("matrix tile") != std::string::npos;
    return size_t{0};
  });
  EXPECT_TRUE(lowered.ok()) << lowered.status().message();
  return found;
}

TEST(PtxGemm, IntegersBecomeMatricesWhereTheyAreExact) {
  const char *kColumns = "axis=1", *kBlocks = "axis=0, block_size=32";
  EXPECT_TRUE(multiplies_matrices("float16", "[64]", kColumns));
  EXPECT_TRUE(multiplies_matrices("bfloat16", "[64]", kColumns));
  // The model rounds the products with the scales.
  EXPECT_TRUE(multiplies_matrices("float16", "[2,64]", kBlocks));
  EXPECT_FALSE(multiplies_matrices("float32", "[64]", kColumns));
  EXPECT_FALSE(multiplies_matrices("float32", "[2,64]", kBlocks));
}

/// Strides must be multiples of 16 bytes, which sizes of the graph's own ensure.
std::string copied_product(int64_t depth, int64_t columns) {
  const std::string k = std::to_string(depth), n = std::to_string(columns);
  return "graph copied\ninput x: float16[rows," + k + "]\ninput w: float16[" + k + "," + n +
         "]\ninput r: float16[rows," + n + "]\nm = MatMul(x, w) @13\ny = Add(m, r) @14\noutput y\n";
}

TEST(PtxGemm, AsynchronousCopies) {
  expect_equal_products(copied_product(136, 72), {{1}, {70}}, kAsync);
}

TEST(PtxGemm, FullAsynchronousCopies) {
  for (const int64_t depth : {8, 16, 32, 40, 64, 200}) {
    for (const int64_t columns : {8, 64, 136})
      expect_equal_products(copied_product(depth, columns), {{1}, {17}, {64}, {130}}, kAsync);
  }
}

TEST(PtxGemm, FullEveryTail) {
  std::vector<Sizes> sizes;
  for (int64_t m = 1; m <= 8; ++m) {
    for (int64_t n = 1; n <= 8; n += 2) {
      for (int64_t k = 1; k <= 8; k += 2) sizes.push_back({m * 13, k * 11, n * 17});
    }
  }
  sizes.push_back({128, 64, 128});
  sizes.push_back({130, 70, 257});
  expect_equal_products(kProduct, sizes);
}

}  // namespace
}  // namespace reprise::test
