// No edge of a graph can be taken away: the driver is made to forget each in turn, and notices that
// two nodes that share memory have no order. Tensors have memory of their own, or places in an
// arena that others have before and after them.
#include "codegen/compile/compiler.h"
#include "on_standin.h"
#include "random_model.h"
#include "tests/nvrtc/support.h"
#include "tests/support/kept_text.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

class CudaEdges : public OnStandin {
 protected:
  void SetUp() override {
    OnStandin::SetUp();
    if (IsSkipped()) return;
    set("CHECK", "allocations");
    set("ORDER", "sinks");
  }

  Status run_with(const package::Package& package, uint64_t without) {
    reset_calls();
    set("DROP_EDGE", std::to_string(without));
    RP_ASSIGN(auto made, cuda::open(0, {}));
    const std::shared_ptr<Device> device = std::move(made);
    SessionOptions options;
    options.isolate_tensors = isolate_;
    RP_ASSIGN(auto s,
              Session::create(std::make_shared<package::Package>(package), device, options));
    const std::vector<int64_t> symbols(package.io.symbols.size(), 4);
    std::vector<HostTensor> inputs;
    for (const plan::Slot& slot : package.io.inputs) {
      RP_ASSIGN(auto dims, plan::eval_dims(package.io, slot.shape, symbols, slot.name));
      inputs.emplace_back(slot.dtype, std::move(dims));  // zeros: order does not depend on values
    }
    std::vector<Binding> bindings;
    for (size_t i = 0; i < inputs.size(); ++i)
      bindings.push_back({.name = package.io.inputs[i].name, .host = &inputs[i]});
    return s->run(bindings).status();
  }

  bool isolate_ = true;
  uint64_t joins_ = 0;  // nodes for order alone

  /// Edges that were taken away. Those that this size does not need are counted, or failures.
  uint64_t check(const package::Package& package, uint64_t* spare = nullptr) {
    const Status whole = run_with(package, 0);
    EXPECT_TRUE(whole.ok()) << whole.message();
    const uint64_t edges = stat("edges");
    joins_ += calls("cuGraphAddEmptyNode");
    for (uint64_t e = 1; e <= edges; ++e) {
      const uint64_t violations = stat("violations");
      const Status s = run_with(package, e);
      if (spare && s.ok() && stat("violations") == violations) {
        ++*spare;
        continue;
      }
      EXPECT_EQ(s.code(), Code::DeviceLost) << "without edge " << e << " of " << edges;
      EXPECT_EQ(stat("violations"), violations + 1) << "without edge " << e;
    }
    return edges;
  }
  uint64_t check_random(uint64_t first_seed, uint64_t models, bool dynamic = false,
                        uint64_t* spare = nullptr);
};

uint64_t CudaEdges::check_random(uint64_t first_seed, uint64_t models, bool dynamic,
                                 uint64_t* spare) {
  const RandomKernels kernels;
  uint64_t edges = 0;
  for (uint64_t seed = first_seed; seed < first_seed + models; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    edges += check(*RandomModel(seed, kernels, dynamic ? 12 : 2, dynamic).package(), spare);
  }
  return edges;
}

TEST_F(CudaEdges, EveryEdgeOfRandomModelsIsMissed) {
  EXPECT_GT(check_random(0, 25), 150U);
}

// In an arena, whose bytes tensors have one after the other.
TEST_F(CudaEdges, EveryEdgeOfSharedMemoryIsMissed) {
  isolate_ = false;
  set("CHECK", "bytes");
  EXPECT_GT(check_random(100, 15), 90U);
}

// Where sizes vary, places in the arena are not known: every tensor waits for all that were there
// before it might be, some of which have other places at this size.
TEST_F(CudaEdges, EdgesOfAnySizeAreMissed) {
  EXPECT_GT(check_random(300, 12, true), 150U);
  EXPECT_EQ(joins_, 0U);
  isolate_ = false;
  set("CHECK", "bytes");
  uint64_t spare = 0;
  const uint64_t edges = check_random(300, 12, true, &spare);
  EXPECT_GT(edges, 300U);
  EXPECT_GT(joins_, 0U);
  EXPECT_LE(spare, edges / 8) << "of " << edges << ", joins: " << joins_;
}

TEST_F(CudaEdges, EveryEdgeOfModelsIsMissedFull) {
  REPRISE_NEEDS_NVRTC();
  if (!has_models()) GTEST_SKIP() << "the acceptance models are not at " << models_dir();
  for (const char* model : {"mnist", "linear_ln_gelu", "pointwise", "magika", "ultraface"}) {
    SCOPED_TRACE(model);
    CompileOptions options = cuda_options({"cuda:sm_90"});
    options.keep_source = true;
    const auto package = compile_file(models_dir() / model / "model.onnx", options);
    ASSERT_OK(package.status());
    for (const plan::KernelCode& k : package->variants[0].plan.kernels) keep_text(k);
    EXPECT_GE(check(*package), 2U);
  }
}

}  // namespace
}  // namespace reprise::test
