// AttentionGrad for random sizes and masks: its host kernel, the kernels of every variant and their
// CUDA text against the derivative of attention, which is written out here.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/compile/targets.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "runtime/host/host_kernels.h"
#include "tests/support/kernel_runner.h"

namespace reprise {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

enum class Mask : uint8_t { None, Bool, Float };

/// One attention, its operands, and the gradients of sum(gradient * result).
struct Case {
  explicit Case(uint32_t seed);

  std::string text() const;
  std::vector<HostTensor> inputs() const;

  int64_t batch, heads, shared, rows, keys, head;  // `shared` heads read the same keys
  bool causal;
  Mask mask;
  bool mask_of_heads;
  double scale;
  std::vector<double> g, q, k, v, m, log_sums, shares, dq, dk, dv;

 private:
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const;
  void differentiate(int64_t b, int64_t h, int64_t i);
  size_t query(int64_t b, int64_t h, int64_t i) const {
    return static_cast<size_t>(((b * heads + h) * rows + i) * head);
  }
  size_t key(int64_t b, int64_t h, int64_t j) const {
    return static_cast<size_t>(((b * (heads / shared) + h / shared) * keys + j) * head);
  }
};

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += a[d] * b[d];
  return sum;
}

Case::Case(uint32_t seed) {
  std::mt19937 rng(seed);
  const auto pick = [&](std::initializer_list<int64_t> from) {
    return from.begin()[rng() % from.size()];
  };
  batch = pick({1, 2});
  shared = pick({1, 1, 2, 3});
  heads = shared * pick({1, 2});
  rows = pick({1, 2, 7, 16, 33, 66, 70});
  keys = pick({1, 3, 8, 31, 32, 64, 65});
  head = pick({1, 4, 6, 8, 16, 20, 32, 64});
  causal = rng() % 2 == 0;
  mask = static_cast<Mask>(rng() % 3);
  mask_of_heads = rng() % 2 == 0;
  scale = 1 / std::sqrt(static_cast<double>(head));
  std::uniform_real_distribution<float> number(-1, 1);
  const auto fill = [&](std::vector<double>& x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<double>(number(rng)));
  };
  const int64_t all = batch * heads * rows;
  for (std::vector<double>* x : {&g, &q}) fill(*x, all * head);
  for (std::vector<double>* x : {&k, &v}) fill(*x, batch * heads / shared * keys * head);
  fill(m, batch * (mask_of_heads ? heads : 1) * rows * keys);
  for (size_t i = 0; i < m.size(); ++i) {
    // Every third row hides all keys.
    const bool hides = rng() % 4 == 0 || i / static_cast<size_t>(keys) % 3 == 2;
    if (mask == Mask::Bool) m[i] = hides ? 0 : 1;
    if (mask == Mask::Float && hides) m[i] = kHidden;
  }
  dq.resize(q.size());
  dk.resize(k.size());
  dv.resize(v.size());
  for (int64_t r = 0; r < all; ++r) differentiate(r / rows / heads, r / rows % heads, r % rows);
}

double Case::score(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (causal && j > i) return kHidden;
  const double s = dot(&q[query(b, h, i)], &k[key(b, h, j)], head) * scale;
  if (mask == Mask::None) return s;
  const int64_t of = mask_of_heads ? b * heads + h : b;
  const double x = m[static_cast<size_t>((of * rows + i) * keys + j)];
  if (mask == Mask::Float) return s + x;
  return x == 0 ? kHidden : s;
}

void Case::differentiate(int64_t b, int64_t h, int64_t i) {
  std::vector<double> weights;
  double largest = kHidden, total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    weights.push_back(score(b, h, i, j));
    largest = std::max(largest, weights.back());
  }
  for (double& w : weights) total += w = largest == kHidden ? 0 : std::exp(w - largest);
  const bool hidden = total == 0;
  log_sums.push_back(hidden ? 0 : std::log(total) + largest);
  const size_t at = query(b, h, i);
  double mean = 0;
  std::vector<double> of_weights;
  for (int64_t j = 0; j < keys; ++j) {
    double& w = weights[static_cast<size_t>(j)];
    if (!hidden) w /= total;
    of_weights.push_back(dot(&g[at], &v[key(b, h, j)], head));
    mean += w * of_weights.back();
  }
  shares.push_back(mean);
  for (int64_t j = 0; j < keys; ++j) {
    const auto n = static_cast<size_t>(j);
    const double of_score = weights[n] * (of_weights[n] - mean) * scale;
    const size_t to = key(b, h, j);
    for (size_t d = 0; d < static_cast<size_t>(head); ++d) {
      dq[at + d] += of_score * k[to + d];
      dk[to + d] += of_score * q[at + d];
      dv[to + d] += weights[n] * g[at + d];
    }
  }
}

std::string Case::text() const {
  const auto dims = [](std::initializer_list<int64_t> list) {
    std::string out;
    for (const int64_t d : list) out += (out.empty() ? "[" : ",") + std::to_string(d);
    return out + "]";
  };
  const std::string of_query = "float32" + dims({batch, heads, rows, head});
  const std::string of_key = "float32" + dims({batch, heads / shared, keys, head});
  const std::string of_row = "float32" + dims({batch, heads, rows});
  std::string out = "graph random\ninput g: " + of_query + "\ninput q: " + of_query +
                    "\ninput k: " + of_key + "\ninput v: " + of_key + "\ninput l: " + of_row +
                    "\ninput s: " + of_row + "\n";
  if (mask != Mask::None)
    out += std::string("input m: ") + (mask == Mask::Bool ? "bool" : "float32") +
           dims({batch, mask_of_heads ? heads : 1, rows, keys}) + "\n";
  return out + "(dq, dk, dv) = AttentionGrad<scale=" + std::to_string(scale) +
         ", is_causal=" + (causal ? "1" : "0") + ">(g, q, k, v, l, s" +
         (mask == Mask::None ? "" : ", m") + ") @24\noutput dq, dk, dv\n";
}

std::vector<HostTensor> Case::inputs() const {
  std::vector<HostTensor> out;
  const auto add = [&](std::vector<int64_t> dims, const std::vector<double>& from) {
    HostTensor t(DType::F32, std::move(dims));
    for (size_t i = 0; i < from.size(); ++i)
      t.mutable_data<float>()[i] = static_cast<float>(from[i]);
    out.push_back(std::move(t));
  };
  for (const auto* x : {&g, &q}) add({batch, heads, rows, head}, *x);
  for (const auto* x : {&k, &v}) add({batch, heads / shared, keys, head}, *x);
  for (const auto* x : {&log_sums, &shares}) add({batch, heads, rows}, *x);
  if (mask == Mask::None) return out;
  add({batch, mask_of_heads ? heads : 1, rows, keys}, m);
  if (mask == Mask::Float) return out;
  HostTensor bits(DType::Bool, out.back().dims());
  for (size_t i = 0; i < m.size(); ++i) bits.mutable_data<uint8_t>()[i] = m[i] != 0 ? 1 : 0;
  out.back() = std::move(bits);
  return out;
}

void expect_gradients(const Case& c, const std::vector<std::span<const float>>& found,
                      const std::string& what) {
  const std::vector<double>* expected[] = {&c.dq, &c.dk, &c.dv};
  for (size_t o = 0; o < 3; ++o) {
    double largest = 0.1;
    for (const double e : *expected[o]) largest = std::max(largest, std::fabs(e));
    for (size_t i = 0; i < expected[o]->size(); ++i)
      ASSERT_NEAR(found[o][i], (*expected[o])[i], 1e-5 * largest)
          << what << ", result " << o << " [" << i << "] of\n"
          << c.text();
  }
}

class Random : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    auto g = graph::parse(c_.text());
    ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << c_.text();
    g_ = std::move(*g);
    for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *g_).ok());
  }

  Result<std::vector<lower::Lowered>> lowered(const lower::Target& target) {
    RP_ASSIGN(const lower::Fusion fusion, lower::fuse(*g_, {.device = target.predicate}));
    std::vector<lower::Lowered> out;
    for (const lower::Group& group : fusion.groups) {
      RP_ASSIGN(lower::Lowered l, lower::lower(*g_, group, target));
      if (const size_t choice = GetParam() % std::max<size_t>(l.choices.size(), 1); choice > 0) {
        RP_ASSIGN(l, lower::lower(*g_, group, target, choice));
      }
      RP_TRY(test::legalize_for(l, target));
      out.push_back(std::move(l));
    }
    return out;
  }

  void run(const std::vector<lower::Lowered>& all, const test::Execute& execute,
           const std::string& what) {
    test::KernelRunner runner(*g_, {}, c_.inputs());
    for (const lower::Lowered& l : all) {
      const Status s = runner.run(l, execute);
      ASSERT_TRUE(s.ok()) << what << " " << l.schedule << ": " << s.message() << "\n" << c_.text();
    }
    std::vector<std::span<const float>> found;
    for (const graph::ValueId v : g_->outputs) {
      const auto& bytes = runner.memory_of(v);
      found.emplace_back(reinterpret_cast<const float*>(bytes.data()), bytes.size() / 4);
    }
    expect_gradients(c_, found, what);
  }

  const Case c_{GetParam()};
  std::unique_ptr<graph::Graph> g_;
};

using AttentionGradients = Random;

TEST_P(AttentionGradients, Host) {
  const std::vector<HostTensor> inputs = c_.inputs();
  AttrMap attrs;
  attrs.set("scale", static_cast<float>(c_.scale));
  attrs.set("is_causal", int64_t{c_.causal});
  std::vector<const HostTensor*> given;
  given.reserve(inputs.size());
  for (const HostTensor& t : inputs) given.push_back(&t);
  auto results = host::find("AttentionGrad")({"AttentionGrad", 24, attrs, given, 3});
  ASSERT_TRUE(results.ok()) << results.status().message();
  std::vector<std::span<const float>> found;
  for (const HostTensor& t : *results)
    found.emplace_back(t.data<float>(), static_cast<size_t>(t.count()));
  expect_gradients(c_, found, "host");
}

TEST_P(AttentionGradients, Interpreter) {
  for (const lower::Target& target : vulkan_targets()) {
    auto all = lowered(target);
    ASSERT_TRUE(all.ok()) << all.status().message();
    run(*all, test::interpret, target.name);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionGradients, CudaText) {
  auto all = lowered(cuda_target(CudaArch{false, 80}));
  ASSERT_TRUE(all.ok()) << all.status().message();
  std::vector<test::CudaSource> sources;
  for (lower::Lowered& l : *all) {
    for (lower::LoweredLaunch& launch : l.launches) {
      auto text = emit::cuda(launch.kernel);
      ASSERT_TRUE(text.ok()) << text.status().message();
      sources.push_back({launch.kernel.name, *text, launch.kernel.workgroup});
    }
  }
  auto module = test::CudaOnCpu::load(sources);
  ASSERT_TRUE(module.ok()) << module.status().message();
  run(*all, test::cuda_on_cpu(*module), "cuda");
}

INSTANTIATE_TEST_SUITE_P(Seeds, AttentionGradients, testing::Range(0U, 24U));
INSTANTIATE_TEST_SUITE_P(FullSeeds, AttentionGradients, testing::Range(24U, 200U));

}  // namespace
}  // namespace reprise
