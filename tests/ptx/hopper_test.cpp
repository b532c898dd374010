// Products by teams, as PTX for sm_90a: mbarrier, copies by tensor maps, wgmma and roles. Values
// are small integers, so that sums are exact in any order, and results must have the interpreter's
// bits.
#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

constexpr const char* kSchedule = "team matrix tile";
constexpr CudaArch kHopper{false, 90, true}, kHopperPtx{true, 90, true};

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
};

std::string text_of(const Form& f, int64_t m, int64_t n, int64_t k) {
  const auto shape = [](int64_t a, int64_t b) {
    return "[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  const std::string t = f.dtype;
  std::string out = "graph product\n";
  out += "input x: " + t + (f.left_transposed ? shape(k, m) : shape(m, k)) + "\n";
  out += "input w: " + t + (f.right_transposed ? shape(n, k) : shape(k, n)) + "\n";
  out += "input r: " + t + shape(m, n) + "\n";
  if (f.left_transposed) out += "xt = Transpose<perm=[1, 0]>(x) @13\n";
  if (f.right_transposed) out += "wt = Transpose<perm=[1, 0]>(w) @13\n";
  out += std::string("p = MatMul(") + (f.left_transposed ? "xt" : "x") + ", " +
         (f.right_transposed ? "wt" : "w") + ") @13\n";
  return out + "s = Add(p, r) @14\ny = Relu(s) @14\noutput y\n";
}

void expect_equal(const Form& f, int64_t m, int64_t n, int64_t k) {
  PtxGraph graph;
  auto parsed = graph::parse(text_of(f, m, n, k));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  graph.g = std::move(*parsed);
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *graph.g).ok());
  for (const graph::ValueId v : graph.g->inputs) {
    const graph::Value& value = graph.g->value(v);
    graph.inputs.push_back(small_numbers(value.dtype, dims_of(value.shape, {}),
                                         static_cast<int64_t>(graph.inputs.size())));
  }
  std::vector<Lowering> tiles;
  size_t count = 1;
  for (size_t tile = 0; tile < count; ++tile) {
    auto one = lower_for_cuda(
        *graph.g,
        [&](const auto& choices) {
          std::vector<size_t> found;
          for (size_t c = 0; c < choices.size(); ++c)
            if (choices[c].schedule.starts_with(kSchedule)) found.push_back(c);
          count = std::max(count, found.size());
          EXPECT_FALSE(found.empty()) << "no tile of teams";
          return found.empty() ? size_t{0} : found[tile % found.size()];
        },
        kHopper);
    ASSERT_TRUE(one.ok()) << one.status().message();
    tiles.push_back(std::move(*one));
  }
  const std::vector<kernel::Kernel> kernels = name_kernels(tiles);
  auto module = PtxModule::load(kernels, {}, kHopperPtx);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (size_t t = 0; t < tiles.size(); ++t) {
    module->options.copies = static_cast<ptx::Completion>(t % 3);
    EXPECT_EQ(differs(graph, tiles[t], *module, 0), "")
        << "tile " << t << " of " << m << "x" << n << "x" << k;
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
