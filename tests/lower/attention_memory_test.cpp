// The memory of a run with attention grows with the length of the sequence, not with its square.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "runtime/plan/bind.h"

namespace reprise {
namespace {

std::string model(const std::string& length) {
  const std::string x = "float32[2," + length + ",32]";
  std::string text = "graph attention\ninput x: " + x + "\ninput mask: float32[2,1,1," + length +
                     "]\ninput w: float32[32,32]\nconst scale: float32[]{0.35}\n";
  for (const char* n : {"q", "k", "v"}) {
    const std::string name(n);
    const std::string perm = name == "k" ? "[0, 2, 3, 1]" : "[0, 2, 1, 3]";
    text.append(name).append(" = MatMul(x, w)\n");
    text.append(name).append("4 = Reshape<shape=(2, ").append(length).append(", 4, 8)>(");
    text.append(name).append(")\n").append(name).append("h = Transpose<perm=").append(perm);
    text.append(">(").append(name).append("4)\n");
  }
  return text +
         "s = MatMul(qh, kh)\nt = Mul(s, scale)\nm = Add(t, mask)\np = Softmax<axis=-1>(m) @13\n"
         "o = MatMul(p, vh)\noh = Transpose<perm=[0, 2, 1, 3]>(o)\ny = Reshape<shape=(2, " +
         length + ", 32)>(oh)\nz = MatMul(y, w)\noutput z\n";
}

uint64_t arena_bytes(const plan::Plan& p, const std::vector<int64_t>& symbols) {
  IdVector<plan::BufferId, uint64_t> bytes;
  for (const plan::Buffer& b : p.buffers) {
    auto count = element_count(b.shape).eval(symbols);
    EXPECT_TRUE(count.ok());
    bytes.push_back(static_cast<uint64_t>(count.ok() ? *count : 0) * size_of(b.dtype));
  }
  uint64_t sum = 0;
  const auto placed = plan::place_arenas(p, bytes, std::numeric_limits<uint64_t>::max());
  for (uint64_t arena : placed.bytes) sum += arena;
  return sum;
}

/// Bytes at 2,048 tokens by bytes at 1,024, the largest of all variants.
double growth(bool dynamic, const CompileOptions& options) {
  double largest = 0;
  std::vector<std::vector<uint64_t>> sizes;
  for (const int64_t length : {1024, 2048}) {
    auto g = graph::parse(model(dynamic ? "seq" : std::to_string(length)));
    EXPECT_TRUE(g.ok()) << g.status().message();
    if (!g.ok()) return 0;
    auto package = compile(std::move(*g), options);
    EXPECT_TRUE(package.ok()) << package.status().message();
    if (!package.ok()) return 0;
    std::vector<uint64_t> bytes;
    for (const package::Variant& v : package->variants)
      bytes.push_back(arena_bytes(v.plan, {length}));
    sizes.push_back(std::move(bytes));
  }
  for (size_t i = 0; i < sizes[0].size(); ++i) {
    largest =
        std::max(largest, static_cast<double>(sizes[1][i]) / static_cast<double>(sizes[0][i]));
  }
  return largest;
}

TEST(AttentionMemory, GrowsWithTheLength) {
  for (const bool dynamic : {false, true}) {
    const double by = growth(dynamic, {});
    EXPECT_GT(by, 1.9);
    EXPECT_LT(by, 2.1);
  }
  CompileOptions chain;
  chain.disabled_passes = {"attention"};
  EXPECT_GT(growth(false, chain), 3.5) << "the measure does not see the scores";
}

/// Bytes of the constants, and of the arenas of the variant that needs most.
std::pair<uint64_t, uint64_t> causal_bytes(int64_t length) {
  const std::string x = "float32[1,4," + std::to_string(length) + ",32]";
  auto g = graph::parse("graph causal\ninput q: " + x + "\ninput k: " + x + "\ninput v: " + x +
                        "\nz = Attention<is_causal=1>(q, k, v) @23\ny = Relu(z)\noutput y\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return {};
  auto package = compile(std::move(*g), {});
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  std::pair<uint64_t, uint64_t> bytes;
  for (const HostTensor& w : package->weights) bytes.first += w.bytes().size();
  for (const package::Variant& v : package->variants)
    bytes.second = std::max(bytes.second, arena_bytes(v.plan, {}));
  return bytes;
}

/// The same of the gradients of an attention, in a graph that computes their operands.
uint64_t gradient_bytes(int64_t length) {
  const std::string row = "float32[1,4," + std::to_string(length);
  std::string text = "graph gradients\n";
  for (const char* n : {"a", "b", "c", "d"})
    text.append("input ").append(n).append(": ") += row + ",32]\n";
  text += "input l: " + row + "]\ninput s: " + row + "]\ninput m: bool[" + std::to_string(length) +
          "]\n";
  for (const char* n : {"a", "b", "c", "d"}) text += std::string(n) + "n = Neg(" + n + ")\n";
  auto g =
      graph::parse(text +
                   "(dq, dk, dv) = AttentionGrad<scale=0.2, is_causal=1>(an, bn, cn, dn, l, s, m)"
                   " @24\ny = Relu(dq)\nz = Relu(dk)\noutput y, z, dv\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return 0;
  auto package = compile(std::move(*g), {});
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return 0;
  uint64_t most = 0;
  for (const package::Variant& v : package->variants)
    most = std::max(most, arena_bytes(v.plan, {}));
  return most;
}

TEST(AttentionMemory, GradientsKeepNoScores) {
  constexpr uint64_t kLength = 1024;
  EXPECT_LE(gradient_bytes(kLength), 6 * 4 * kLength * 32 * 4);
}

TEST(AttentionMemory, CausalScoresAreNoConstant) {
  const auto [constants, arenas] = causal_bytes(2048);
  EXPECT_LT(constants, 4096U);
  EXPECT_LE(arenas, uint64_t{4} * 2048 * 32 * 4);
}

}  // namespace
}  // namespace reprise
