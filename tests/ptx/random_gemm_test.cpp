// Random products on matrix units: sizes, alignments, layouts, batches, constants, prologues,
// weights of integers and epilogues, by random tiles of all schedules. The interpreter, the
// executor of PTX and CUDA text on the CPU must give the bits of the host. Values are small
// integers, so that sums are exact in any order. Persistent kernels of teams get few workgroups,
// and no CUDA text: it has no form for a CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "tests/ptx/executors.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

class RandomProduct {
 public:
  /// `teams`: most operands, and results, have views.
  RandomProduct(uint32_t seed, bool teams) : teams_(teams), rng_(seed) {
    constexpr const char* kTypes[] = {"float16", "bfloat16", "float32"};
    type_ = kTypes[one_of(teams_ ? 2 : 3)];
    for (int64_t* size : {&m_, &n_, &k_}) *size = teams_ ? some_whole_size() : some_size();
    // Shorter sums of fp32 have no schedules on matrix units.
    if (type_ == "float32") k_ += 32;
    if (teams_ && coin()) (coin() ? m_ : n_) = some_size();
    constant_ = one_of(3) == 0;
    if (!constant_ && one_of(3) == 0) batch_ = 1 + one_of(3);
    // Matrix units multiply no fp32 by integers.
    if (constant_ && type_ != "float32" && coin())
      integers_ = one_of(3) == 0 ? Integers::Blocks : Integers::Columns;
    if (integers_ == Integers::Blocks) k_ = kBlock * (1 + one_of(4));
    write();
  }

  const std::string& text() const { return text_; }
  const std::vector<int64_t>& symbols() const { return symbols_; }
  HostTensor values(DType type, const std::vector<int64_t>& dims) {
    HostTensor t(type, dims);
    for (int64_t n = 0; n < t.count(); ++n) {
      const auto v = static_cast<float>(small());
      if (type == DType::F32) {
        t.mutable_data<float>()[n] = v;
      } else {
        t.mutable_data<uint16_t>()[n] = type == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
      }
    }
    return t;
  }
  int64_t one_of(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

 private:
  /// A constant operand that is dequantised.
  enum class Integers : uint8_t { None, Columns, Blocks };
  static constexpr int64_t kBlock = 32;

  bool coin() { return one_of(2) == 0; }
  int64_t small() { return one_of(5) - 2; }
  /// Of every alignment, often near the edges of tiles.
  int64_t some_size() {
    const int64_t unit = int64_t{1} << one_of(5);
    return coin() ? unit * (1 + one_of(150 / unit))
                  : std::max<int64_t>(64 * (1 + one_of(2)) + small(), 1);
  }
  /// Of 16 bytes.
  int64_t some_whole_size() {
    return coin() ? 8 * (1 + one_of(40)) : 64 * (1 + one_of(4)) + 8 * small();
  }
  /// The size, or the name of a symbol that has it.
  std::string size(int64_t n, const char* name) {
    if (one_of(teams_ ? 6 : 3) != 0) return std::to_string(n);
    symbols_.push_back(n);
    return name;
  }
  /// "[batch,rows,columns]", or transposed.
  std::string shape(const std::string& rows, const std::string& columns, bool transposed) const {
    const std::string batch = batch_ == 0 ? "" : std::to_string(batch_) + ",";
    return "[" + batch + (transposed ? columns + "," + rows : rows + "," + columns) + "]";
  }
  void operand(const std::string& name, const std::string& dims, bool transposed) {
    text_ += "input " + name + ": " + type_ + dims + "\n";
    if (transposed) views_ += name + "t = Transpose<perm=" + perm() + ">(" + name + ") @13\n";
  }
  std::string perm() const { return batch_ == 0 ? "[1, 0]" : "[0, 2, 1]"; }
  void constant(const std::string& name, const std::string& dims, int64_t count) {
    text_ += "const " + name + ": " + type_ + dims + "{";
    for (int64_t n = 0; n < count; ++n)
      text_ += (n == 0 ? "" : ", ") + std::to_string(small()) + ".0";
    text_ += "}\n";
  }
  std::string numbers(int64_t count, const std::function<std::string()>& next) const {
    std::string out = "{";
    for (int64_t n = 0; n < count; ++n) out += (n == 0 ? "" : ", ") + next();
    return out + "}\n";
  }
  /// A weight of integers: with a scale for each column, or for each block of K. Scales are powers
  /// of two, so that products with them are exact.
  void dequantized(bool transposed) {
    const bool blocks = integers_ == Integers::Blocks, zeros = coin();
    const std::string type = blocks || coin() ? "int4" : coin() ? "int8" : "uint8";
    const int64_t least = type == "uint8" ? 0 : -4;
    const auto integer = [&] { return std::to_string(least + one_of(8)); };
    const auto scale = [&] { return std::string(coin() ? "0.5" : "1.0"); };
    const auto shape_of = [&](int64_t k) {
      return transposed ? shape(std::to_string(n_), std::to_string(k), false)
                        : shape(std::to_string(k), std::to_string(n_), false);
    };
    const int64_t count = blocks ? n_ * (k_ / kBlock) : n_;
    const std::string scales = blocks ? shape_of(k_ / kBlock) : "[" + std::to_string(n_) + "]";
    text_ += "const wq: " + type + shape_of(k_) + numbers(n_ * k_, integer);
    text_ += "const ws: " + type_ + scales + numbers(count, scale);
    if (zeros) text_ += "const wz: " + type + scales + numbers(count, integer);
    const std::string axis = std::to_string((blocks ? 0 : 1) ^ (transposed ? 1 : 0));
    views_ += "w = DequantizeLinear<axis=" + axis +
              (blocks ? ", block_size=" + std::to_string(kBlock) : "") + ">(wq, ws" +
              (zeros ? ", wz" : "") + ")\n";
  }
  /// Arithmetic before the product, in the same kernel.
  std::string computed(const std::string& operand) {
    if (one_of(3) != 0) return operand;
    const std::string out = operand + "c";
    views_ += out + "n = Neg(" + operand + ") @13\n" + out + " = Relu(" + out + "n) @14\n";
    return out;
  }
  void write() {
    const bool left = coin(), right = coin();
    // Symbols are numbered in the order in which the text has them.
    std::string m, n, k;
    const auto name_sizes = [&](bool first_k) {
      const std::string a = first_k ? "" : size(m_, "rows");
      k = constant_ ? std::to_string(k_) : size(k_, "depth");
      m = first_k ? size(m_, "rows") : a;
      n = constant_ ? std::to_string(n_) : size(n_, "columns");
    };
    name_sizes(left);
    text_ = "graph product\n";
    operand("x", shape(m, k, left), left);
    if (integers_ != Integers::None) {
      dequantized(right);
      if (right) views_ += "wt = Transpose<perm=[1, 0]>(w) @13\n";
    } else if (constant_) {
      constant("w", right ? shape(n, k, false) : shape(k, n, false), n_ * k_);
      if (right) views_ += "wt = Transpose<perm=[1, 0]>(w) @13\n";
    } else {
      operand("w", shape(k, n, right), right);
    }
    std::string result = "p";
    const std::string a = computed(left ? "xt" : "x");
    const std::string b = right ? "wt" : "w";
    std::string nodes = "p = MatMul(" + a + ", " + (constant_ ? b : computed(b)) + ") @13\n";
    if (coin()) {
      operand("b", "[" + n + "]", false);
      nodes += "q = Add(p, b) @14\nr = Relu(q) @14\n";
      result = "r";
    }
    if (coin()) {
      operand("s", shape(m, n, false), false);
      nodes += "y = Add(" + result + ", s) @14\n";
      result = "y";
    }
    if (teams_ && one_of(4) == 0) {
      nodes += "f = Cast<to=1>(" + result + ") @13\n";
      result = "f";
    }
    text_ += views_ + nodes + "output " + result + "\n";
  }

  const bool teams_;
  std::mt19937 rng_;
  std::string type_, text_, views_;
  int64_t m_ = 1, n_ = 1, k_ = 1, batch_ = 0;
  bool constant_ = false;
  Integers integers_ = Integers::None;
  std::vector<int64_t> symbols_;
};

/// A random one of the schedules on matrix units, which all products here have: of teams, where
/// they are wanted and offered.
Choice random_tile(RandomProduct& product, bool teams) {
  return [&product, teams](const std::vector<lower::ScheduleCandidate>& choices) {
    std::vector<size_t> found;
    const auto find = [&](const char* name) {
      for (size_t n = 0; n < choices.size(); ++n)
        if (choices[n].schedule.find(name) != std::string::npos) found.push_back(n);
    };
    if (teams) find("team matrix tile");
    if (found.empty()) find("matrix tile");
    if (found.empty()) return size_t{0};
    return found[static_cast<size_t>(product.one_of(static_cast<int64_t>(found.size())))];
  };
}

std::string other_bits(const HostTensor& wanted, const std::vector<std::byte>& memory) {
  const auto bytes = wanted.bytes();
  if (memory.size() < bytes.size()) return "the result is smaller than the host's";
  const auto at = std::ranges::mismatch(bytes, std::span(memory).first(bytes.size())).in1;
  return at == bytes.end()
             ? ""
             : "byte " + std::to_string(at - bytes.begin()) + " of the result is not the host's";
}

/// Counts the products that teams compute.
void expect_agreement_of_product(uint32_t seed, bool teams, size_t& of_teams) {
  RandomProduct product(seed, teams);
  const auto host =
      GraphOnHost::make({product.text(), product.symbols(),
                         [&](const std::string&, DType type, const std::vector<int64_t>& dims) {
                           return product.values(type, dims);
                         }});
  ASSERT_TRUE(host.ok()) << host.status().message();
  std::vector<Lowering> lowered(1);
  const CudaArch arch = teams ? CudaArch{false, 90, true} : CudaArch{false, 80};
  auto one = lower_for_cuda(*host->graph.g, random_tile(product, teams), arch);
  ASSERT_TRUE(one.ok()) << one.status().message();
  lowered[0] = std::move(*one);
  const bool persistent = limit_groups(lowered[0], 1 + seed % 3);
  of_teams += persistent ? 1 : 0;
  const std::vector<kernel::Kernel> kernels = name_kernels(lowered);
  const bool has_matrices =
      std::ranges::any_of(kernels, [](const kernel::Kernel& k) { return !k.matrices.empty(); });
  EXPECT_TRUE(has_matrices);
  const auto executors = Executors::load(kernels, static_cast<ptx::Completion>(seed % 3), arch);
  ASSERT_TRUE(executors.ok()) << executors.status().message();
  EXPECT_EQ(executors->disagreement(*host, lowered[0], other_bits), "");
}

/// Of so many seeds; stops at the first that fails.
void expect_agreement_of_products(uint32_t first, uint32_t count, bool teams) {
  REPRISE_NEEDS_PTX();
  size_t of_teams = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" +
                 RandomProduct(seed, teams).text().substr(0, 400));
    expect_agreement_of_product(seed, teams, of_teams);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(of_teams, teams ? count / 3 : 0);
}

TEST(PtxGemm, RandomProducts) {
  expect_agreement_of_products(0, 8, false);
}

TEST(PtxGemm, RandomProductsOfTeams) {
  expect_agreement_of_products(0, 6, true);
}

TEST(PtxGemm, FullRandomProducts) {
  expect_agreement_of_products(1000, 150, false);
}

TEST(PtxGemm, FullRandomProductsOfTeams) {
  expect_agreement_of_products(1000, 150, true);
}

}  // namespace
}  // namespace reprise::test
