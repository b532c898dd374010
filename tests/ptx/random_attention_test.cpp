// Random attentions on matrix units: heads, numbers of rows and keys, batches, layouts, masks and
// types, by random tiles. The interpreter, the executor of PTX and CUDA text on the CPU must give
// what the host gives, but for roundings of 16 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/ptx/executors.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

class RandomAttention {
 public:
  explicit RandomAttention(uint32_t seed) : rng_(seed) {
    type_ = coin() ? "float16" : "bfloat16";
    write();
  }

  const std::string& text() const { return text_; }
  const std::vector<int64_t>& symbols() const { return symbols_; }
  int64_t one_of(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

  /// Scores are small, so that their roundings are; masks hide some, or add to them.
  HostTensor values(const std::string& name, DType type, const std::vector<int64_t>& dims) {
    HostTensor t(type, dims);
    for (int64_t n = 0; n < t.count(); ++n) {
      if (type == DType::Bool) {
        t.mutable_data<uint8_t>()[n] = one_of(4) != 0;
        continue;
      }
      const float v = name == "mask" ? (one_of(3) == 0 ? -INFINITY : 0.25F)
                                     : static_cast<float>(one_of(65) - 32) / 32;
      t.mutable_data<uint16_t>()[n] = type == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
    }
    return t;
  }

 private:
  bool coin() { return one_of(2) == 0; }
  int64_t some_size() { return coin() ? 1 + one_of(40) : 60 + one_of(80); }
  int64_t some_head() {
    constexpr int64_t kHeads[] = {8, 16, 32, 40, 64, 72, 96, 128, 160, 256};
    return one_of(4) == 0 ? 2 * (1 + one_of(60)) : kHeads[one_of(10)];
  }
  /// A size, or the name of a symbol that has it. Symbols are numbered by their first use.
  std::string size(int64_t n, const char* name) {
    if (coin()) return std::to_string(n);
    symbols_.push_back(n);
    return name;
  }
  /// An input of [batch, heads, length, head], or a view as one.
  void operand(const std::string& name, const std::string& length, int64_t head, bool merged) {
    const std::string wide = std::to_string(heads_ * head), one = std::to_string(head);
    const std::string batch = std::to_string(batch_), count = std::to_string(heads_);
    if (!merged) {
      text_ += "input " + name + ": " + type_ + "[" + batch + "," + count + "," + length + "," +
               one + "]\n";
      return;
    }
    text_ += "input " + name + "m: " + type_ + "[" + batch + "," + length + "," + wide + "]\n";
    views_ += name + "s = Reshape<shape=(" + batch + ", " + length + ", " + count + ", " + one +
              ")>(" + name + "m)\n" + name + " = Transpose<perm=[0, 2, 1, 3]>(" + name + "s)\n";
  }
  void write() {
    batch_ = 1 + one_of(2);
    heads_ = 1 + one_of(3);
    const int64_t head = some_head(), columns = coin() ? head : some_head();
    const std::string rows = size(some_size(), "rows"), keys = size(some_size(), "keys");
    text_ = "graph attention\n";
    operand("q", rows, head, coin());
    operand("k", keys, head, coin());
    operand("v", keys, columns, coin());
    std::string nodes =
        "kt = Transpose<perm=[0, 1, 3, 2]>(k)\ns = MatMul(q, kt)\nx = Mul(s, scale)\n";
    std::string scores = "x";
    const int64_t kind = one_of(3);
    if (kind == 1) {
      text_ += "input mask: " + type_ + "[" + rows + "," + keys + "]\n";
      nodes += "z = Add(x, mask)\n";
      scores = "z";
    } else if (kind == 2) {
      text_ += "input hidden: bool[" + std::to_string(batch_) + ",1,1," + keys + "]\n";
      text_ += "const lowest: " + type_ + "[]{-inf}\n";
      nodes += "z = Where(hidden, x, lowest)\n";
      scores = "z";
    }
    text_ += "const scale: " + type_ + "[]{0.25}\n" + views_ + nodes;
    text_ += "p = Softmax<axis=-1>(" + scores + ") @13\ny = MatMul(p, v)\noutput y\n";
  }

  std::mt19937 rng_;
  std::string type_, text_, views_;
  int64_t batch_ = 1, heads_ = 1;
  std::vector<int64_t> symbols_;
};

float number_in(DType type, uint16_t bits) {
  return type == DType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

/// The first element that differs by more than a few roundings; empty if none does.
std::string far_from(const HostTensor& wanted, const std::vector<std::byte>& memory) {
  HostTensor got(wanted.dtype(), wanted.dims());
  std::copy_n(memory.begin(), got.bytes().size(), got.mutable_bytes().begin());
  const float error = wanted.dtype() == DType::F16 ? 5e-3F : 4e-2F;
  for (int64_t n = 0; n < wanted.count(); ++n) {
    const float e = number_in(wanted.dtype(), wanted.data<uint16_t>()[n]);
    const float x = number_in(wanted.dtype(), got.data<uint16_t>()[n]);
    if (std::isnan(e) ? std::isnan(x) : std::fabs(e - x) <= error) continue;
    return "y[" + std::to_string(n) + "] is " + std::to_string(x) + ", expected " +
           std::to_string(e);
  }
  return "";
}

/// Whether the attention was offered a tile on matrix units.
void expect_agreement_of_attention(uint32_t seed, bool& on_matrices) {
  RandomAttention attention(seed);
  const auto host = GraphOnHost::make(
      {attention.text(), attention.symbols(),
       [&](const std::string& name, DType type, const std::vector<int64_t>& dims) {
         return attention.values(name, type, dims);
       }});
  ASSERT_TRUE(host.ok()) << host.status().message();
  const Choice choose = [&](const std::vector<lower::ScheduleCandidate>& choices) {
    std::vector<size_t> found;
    for (size_t n = 0; n < choices.size(); ++n)
      if (choices[n].schedule.starts_with("attention, matrices")) found.push_back(n);
    on_matrices = on_matrices || !found.empty();
    return found.empty()
               ? size_t{0}
               : found[static_cast<size_t>(attention.one_of(static_cast<int64_t>(found.size())))];
  };
  std::vector<Lowering> lowered(1);
  auto one = lower_for_cuda(*host->graph.g, choose);
  ASSERT_TRUE(one.ok()) << one.status().message();
  lowered[0] = std::move(*one);
  const std::vector<kernel::Kernel> kernels = name_kernels(lowered);
  const auto executors = Executors::load(kernels, static_cast<ptx::Completion>(seed % 3));
  ASSERT_TRUE(executors.ok()) << executors.status().message();
  EXPECT_EQ(executors->disagreement(*host, lowered[0], far_from), "");
}

/// Of so many seeds; stops at the first that fails.
void expect_agreement_of_attentions(uint32_t first, uint32_t count) {
  REPRISE_NEEDS_PTX();
  uint32_t on_matrices = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + RandomAttention(seed).text());
    bool any = false;
    expect_agreement_of_attention(seed, any);
    if (testing::Test::HasFailure()) return;
    on_matrices += any ? 1 : 0;
  }
  EXPECT_GE(2 * on_matrices, count);
}

TEST(PtxAttention, Random) {
  expect_agreement_of_attentions(0, 4);
}

TEST(PtxAttention, FullRandom) {
  expect_agreement_of_attentions(1000, 40);
}

}  // namespace
}  // namespace reprise::test
