// Products by matrices of a warp at the edges of tiles. Values are small integers, so that sums are
// exact in any order, and results must have the interpreter's bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <regex>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {
namespace {

constexpr const char *kCooperative = "cooperative matrix tile", *kAsync = "async matrix tile";

/// Integers in [-2, 2], not periodic in any size.
HostTensor small_integers(DType type, const std::vector<int64_t>& dims, int64_t seed) {
  HostTensor t(type, dims);
  for (int64_t n = 0; n < t.count(); ++n) {
    const int64_t i = n + 17 * seed;
    const auto v = static_cast<float>((i * i * 7 + i * 3) % 11 % 5 - 2);
    if (type == DType::F32) {
      t.mutable_data<float>()[n] = v;
    } else {
      t.mutable_data<uint16_t>()[n] = type == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
    }
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

/// A graph of fp16, and the same of other types.
void expect_equal_products(const std::string& text, const std::vector<Sizes>& sizes,
                           const char* schedule = kCooperative,
                           const std::vector<std::string>& others = {"bfloat16", "float32"}) {
  REPRISE_NEEDS_PTX();
  expect_equal_products_of(text, sizes, schedule);
  for (const std::string& type : others) {
    SCOPED_TRACE(type);
    expect_equal_products_of(std::regex_replace(text, std::regex("\\bfloat16"), type), sizes,
                             schedule);
  }
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

/// A depth of 0 leaves the waits of a ring of copies, and no copies. Sums are 0. The depth is
/// known, or has a symbol; a number of columns that is known lets copies of w be a choice.
void expect_products_without_depth(const char* schedule, const std::vector<std::string>& others) {
  const std::string known = std::regex_replace(kProduct, std::regex("depth"), "0");
  const std::string symbolic = std::regex_replace(kProduct, std::regex("columns"), "40");
  expect_equal_products(known, {{70, 40}}, schedule, others);
  expect_equal_products(symbolic, {{70, 0}}, schedule, others);
}

TEST(PtxGemm, ProductsWithoutDepth) {
  expect_products_without_depth(kAsync, {});
}

TEST(PtxGemm, FullProductsWithoutDepth) {
  expect_products_without_depth(kAsync, {"bfloat16"});
  expect_products_without_depth(kCooperative, {"bfloat16"});
}

TEST(PtxGemm, OperandsAlongTheDepth) {
  expect_equal_products(
      "graph along\ninput x: float16[batch,rows,40]\ninput w: float16[batch,columns,40]\n"
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
    std::vector<std::string> others{"bfloat16"};
    if (depth >= 32) others.emplace_back("float32");  // shorter sums have no such schedule
    for (const int64_t columns : {8, 64, 136})
      expect_equal_products(copied_product(depth, columns), {{1}, {17}, {64}, {130}}, kAsync,
                            others);
  }
}

/// Operands with infinities, NaN, the largest numbers, and products beyond the range.
struct HardProduct {
  static constexpr int64_t kRows = 9, kDepth = 72, kColumns = 36;
  bool transposed;
  HostTensor x{DType::F32, {kRows, kDepth}};
  HostTensor w{DType::F32,
               transposed ? std::vector{kColumns, kDepth} : std::vector{kDepth, kColumns}};

  explicit HardProduct(bool by_columns) : transposed(by_columns) {
    for (int64_t k = 0; k < kDepth; ++k) {
      for (int64_t r = 0; r < kRows; ++r) left(r, k) = static_cast<float>((k + r) % 5 - 2) * 1.1F;
      for (int64_t c = 0; c < kColumns; ++c)
        right(k, c) = static_cast<float>((k * 3 + c) % 7 - 3) * 0.7F;
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kMost = std::numeric_limits<float>::max();
    const float hard[] = {kInfinity, -kInfinity, NAN, kMost, -kMost, 0x1p126F, 0x1p100F};
    // What these meet: zero, numbers that need no low part, others, and as large ones.
    const float met[] = {0, 1, -3000.7F, 0.25F, 0x1.fffffep0F, 0x1p-149F, -0x1p60F, 0x1.2345p30F};
    for (int64_t r = 0; r < 7; ++r) {
      left(r, 3 * r) = hard[r];
      for (int64_t c = 0; c < kColumns; ++c) right(3 * r, c) = met[c % 8];
    }
    right(70, 35) = -kInfinity;
  }
  float& left(int64_t row, int64_t k) { return x.mutable_data<float>()[row * kDepth + k]; }
  float& right(int64_t k, int64_t column) {
    return w.mutable_data<float>()[transposed ? column * kDepth + k : k * kColumns + column];
  }
  std::string graph() const {
    return std::string("graph g\ninput x: float32[9,72]\ninput w: float32") +
           (transposed ? "[36,72]\nt = Transpose<perm=[1, 0]>(w) @13\ny = MatMul(x, t) @13\n"
                       : "[72,36]\ny = MatMul(x, w) @13\n") +
           "output y\n";
  }
  /// Sums in the order of k, with multiply-adds of F32.
  void expect_like_singles(const float* y) {
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      float single = 0;
      double exact = 0, size = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const float a = left(i / kColumns, k), b = right(k, i % kColumns);
        single = std::fma(a, b, single);
        exact += static_cast<double>(a) * static_cast<double>(b);
        size += std::fabs(static_cast<double>(a) * static_cast<double>(b));
      }
      if (std::isnan(single)) {
        EXPECT_TRUE(std::isnan(y[i])) << i << ": " << y[i];
      } else if (std::isinf(single)) {
        EXPECT_EQ(y[i], single) << i;
      } else {
        EXPECT_LE(std::fabs(static_cast<double>(y[i]) - exact), kDepth * 0x1p-24 * size) << i;
      }
    }
  }
};

/// Sums that three products of TF32 cannot make are those of F32.
TEST(PtxGemm, SplitProductsBeyondTheRange) {
  REPRISE_NEEDS_PTX();
  const Execute execute = [](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                             std::vector<std::span<std::byte>> buffers,
                             std::vector<uint32_t> scalars) {
    return interpret(k, grid, std::move(buffers), std::move(scalars));
  };
  for (const bool transposed : {false, true}) {
    HardProduct hard(transposed);
    auto graph = parsed_graph(hard.graph());
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    graph->inputs = {hard.x, hard.w};
    for (const char* schedule : {kCooperative, kAsync}) {
      SCOPED_TRACE(schedule);
      auto tiles = every_tile(*graph->g, schedule);
      ASSERT_TRUE(tiles.ok()) << tiles.status().message();
      ASSERT_GE(tiles->size(), 2U);
      auto module = PtxModule::load(name_kernels(*tiles));
      ASSERT_TRUE(module.ok()) << module.status().message();
      for (const Lowering& tile : *tiles) {
        EXPECT_EQ(differs(*graph, tile, *module, 1e-5), "");
        KernelRunner runner(*graph->g, {}, graph->inputs);
        for (const lower::Lowered& l : tile) ASSERT_TRUE(runner.run(l, execute).ok());
        std::vector<float> y(HardProduct::kRows * HardProduct::kColumns);
        std::memcpy(y.data(), runner.memory_of(graph->g->outputs[0]).data(), 4 * y.size());
        hard.expect_like_singles(y.data());
      }
    }
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
