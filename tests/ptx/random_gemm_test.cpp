// Random products on matrix units: sizes, alignments, layouts, batches, constants and epilogues, by
// random tiles of both schedules. The interpreter, the executor of PTX and CUDA text on the CPU
// must give the bits of the host. Values are small integers, so that sums are exact in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "codegen/compile/compiler.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/needs.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {
namespace {

class RandomProduct {
 public:
  explicit RandomProduct(uint32_t seed) : rng_(seed) {
    constexpr const char* kTypes[] = {"float16", "bfloat16", "float32"};
    type_ = kTypes[one_of(3)];
    for (int64_t* size : {&m_, &n_, &k_}) *size = some_size();
    // Shorter sums of fp32 have no schedules on matrix units.
    if (type_ == "float32") k_ += 32;
    constant_ = one_of(3) == 0;
    if (!constant_ && one_of(3) == 0) batch_ = 1 + one_of(3);
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
  bool coin() { return one_of(2) == 0; }
  int64_t small() { return one_of(5) - 2; }
  /// Of every alignment, often near the edges of tiles.
  int64_t some_size() {
    const int64_t unit = int64_t{1} << one_of(5);
    return coin() ? unit * (1 + one_of(150 / unit))
                  : std::max<int64_t>(64 * (1 + one_of(2)) + small(), 1);
  }
  /// The size, or the name of a symbol that has it.
  std::string size(int64_t n, const char* name) {
    if (one_of(3) != 0) return std::to_string(n);
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
    if (constant_) {
      constant("w", right ? shape(n, k, false) : shape(k, n, false), n_ * k_);
      if (right) views_ += "wt = Transpose<perm=[1, 0]>(w) @13\n";
    } else {
      operand("w", shape(k, n, right), right);
    }
    std::string result = "p";
    std::string nodes =
        std::string("p = MatMul(") + (left ? "xt" : "x") + ", " + (right ? "wt" : "w") + ") @13\n";
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
    text_ += views_ + nodes + "output " + result + "\n";
  }

  std::mt19937 rng_;
  std::string type_, text_, views_;
  int64_t m_ = 1, n_ = 1, k_ = 1, batch_ = 0;
  bool constant_ = false;
  std::vector<int64_t> symbols_;
};

/// What the host makes of the graph.
Result<std::vector<HostTensor>> on_host(const graph::Graph& g,
                                        const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.targets = {};
  RP_ASSIGN(package::Package package, compile(g.clone(), options));
  RP_ASSIGN(const auto session,
            Session::create(std::make_shared<package::Package>(std::move(package)), nullptr));
  std::vector<Binding> bindings(inputs.size());
  for (size_t n = 0; n < inputs.size(); ++n) {
    bindings[n].name = g.value(g.inputs[n]).name;
    bindings[n].host = &inputs[n];
  }
  return session->run(bindings);
}

/// A random one of the schedules on matrix units, which all products here have.
Choice random_tile(RandomProduct& product) {
  return [&product](const std::vector<lower::ScheduleCandidate>& choices) {
    std::vector<size_t> found;
    for (size_t n = 0; n < choices.size(); ++n)
      if (choices[n].schedule.find("matrix tile") != std::string::npos) found.push_back(n);
    if (found.empty()) return size_t{0};
    return found[static_cast<size_t>(product.one_of(static_cast<int64_t>(found.size())))];
  };
}

Result<CudaOnCpu> on_cpu(const std::vector<kernel::Kernel>& kernels) {
  std::vector<CudaSource> sources;
  for (const kernel::Kernel& k : kernels) {
    RP_ASSIGN(std::string text, emit::cuda(k));
    sources.push_back({k.name, std::move(text), k.workgroup});
  }
  return CudaOnCpu::load(sources);
}

void expect_agreement_of_product(uint32_t seed) {
  RandomProduct product(seed);
  PtxGraph graph;
  auto parsed = graph::parse(product.text());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  graph.g = std::move(*parsed);
  graph.symbols = product.symbols();
  for (const graph::ValueId v : graph.g->inputs) {
    const graph::Value& value = graph.g->value(v);
    graph.inputs.push_back(product.values(value.dtype, dims_of(value.shape, graph.symbols)));
  }
  const auto expected = on_host(*graph.g, graph.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *graph.g).ok());
  std::vector<Lowering> lowered(1);
  auto one = lower_for_cuda(*graph.g, random_tile(product));
  ASSERT_TRUE(one.ok()) << one.status().message();
  lowered[0] = std::move(*one);
  const std::vector<kernel::Kernel> kernels = name_kernels(lowered);
  const bool has_matrices =
      std::ranges::any_of(kernels, [](const kernel::Kernel& k) { return !k.matrices.empty(); });
  EXPECT_TRUE(has_matrices);
  auto ptx = PtxModule::load(kernels);
  ASSERT_TRUE(ptx.ok()) << ptx.status().message();
  ptx->options.copies = static_cast<ptx::Completion>(seed % 3);
  const auto cpu = on_cpu(kernels);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  const Execute as_ptx = [&](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                             std::vector<std::span<std::byte>> buffers,
                             std::vector<uint32_t> scalars) -> Status {
    uint32_t error = 0;
    RP_TRY(ptx->run(k, grid, buffers, scalars, 1, error));
    return error == 0 ? Status() : internal_error("error word " + std::to_string(error));
  };
  const std::pair<const char*, Execute> executors[] = {
      {"the interpreter", interpret}, {"PTX", as_ptx}, {"CUDA text", cuda_on_cpu(*cpu)}};
  for (const auto& [name, execute] : executors) {
    KernelRunner runner(*graph.g, graph.symbols, graph.inputs);
    for (const lower::Lowered& l : lowered[0]) {
      const Status s = runner.run(l, execute);
      ASSERT_TRUE(s.ok()) << name << ": " << s.message();
    }
    const HostTensor& wanted = (*expected)[0];
    const std::vector<std::byte>& got = runner.memory_of(graph.g->outputs[0]);
    ASSERT_GE(got.size(), wanted.bytes().size());
    EXPECT_EQ(std::memcmp(got.data(), wanted.bytes().data(), wanted.bytes().size()), 0) << name;
  }
}

/// Of so many seeds; stops at the first that fails.
void expect_agreement_of_products(uint32_t first, uint32_t count) {
  REPRISE_NEEDS_PTX();
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + RandomProduct(seed).text().substr(0, 400));
    expect_agreement_of_product(seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PtxGemm, RandomProducts) {
  expect_agreement_of_products(0, 8);
}

TEST(PtxGemm, FullRandomProducts) {
  expect_agreement_of_products(1000, 150);
}

}  // namespace
}  // namespace reprise::test
