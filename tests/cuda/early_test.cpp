// Launches that begin before those that they follow have ended: which edges say so, what the driver
// finds in a kernel that does not wait, and what takes their place where they are not possible.
#include "backends/cuda/library.h"
#include "on_standin.h"
#include "random_model.h"
#include "tests/support/kept_text.h"

namespace reprise::test {
namespace {

class CudaEarly : public OnStandin {
 protected:
  /// A chain whose kernel's text was changed.
  std::shared_ptr<const package::Package> changed_chain(
      const std::function<void(std::string&)>& change) {
    auto package = std::make_shared<package::Package>(*chain(3, 64, false));
    for (package::Variant& v : package->variants) {
      for (plan::KernelCode& k : v.plan.kernels) {
        if (k.cuda.empty()) continue;
        change(k.cuda);
        const std::string image = ptx_naming(".version 8.0\n.target sm_75\n", k.cuda);
        const auto* bytes = reinterpret_cast<const std::byte*>(image.data());
        k.image.assign(bytes, bytes + image.size());
        keep_text(k);
      }
    }
    return package;
  }
};

constexpr const char* kWait = "  rp_await_launches();\n";

TEST_F(CudaEarly, AChainBeginsEarlyButItsFirstLaunch) {
  set("CHECK", "bytes");
  auto s = session(chain(5, 64, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 5));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 4U);
  for (const int64_t n : {64, 100, 7, 64}) ASSERT_OK(run_chain(*s, n, 5));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 4U);
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), 1U);
  EXPECT_EQ(s->stats().recordings, 1U);
}

TEST_F(CudaEarly, AKernelThatDoesNotWaitIsFound) {
  for (const char* check : {"zones", "bytes"}) {
    set("CHECK", check);
    auto s = session(changed_chain([](std::string& text) {
                       const size_t at = text.find(kWait);
                       ASSERT_NE(at, std::string::npos);
                       text.erase(at, std::string(kWait).size());
                     }),
                     open());
    ASSERT_TRUE(s);
    const uint64_t violations = stat("violations");
    EXPECT_EQ(run_chain(*s, 64, 3).code(), Code::DeviceLost);
    EXPECT_EQ(stat("violations"), violations + 1);
  }
}

TEST_F(CudaEarly, AnAccessBeforeTheWaitIsFound) {
  set("CHECK", "bytes");
  auto s = session(changed_chain([](std::string& text) {
                     const size_t at = text.find(kWait), end = text.rfind('}');
                     ASSERT_NE(at, std::string::npos);
                     text.insert(end, kWait);
                     text.erase(at, std::string(kWait).size());
                   }),
                   open());
  ASSERT_TRUE(s);
  const uint64_t violations = stat("violations");
  EXPECT_EQ(run_chain(*s, 64, 3).code(), Code::DeviceLost);
  EXPECT_EQ(stat("violations"), violations + 1);
}

/// A node without workgroups is disabled, and would await nothing.
TEST_F(CudaEarly, FullEdgesTakeTheirPlaceOnceALaunchIsEmpty) {
  auto s = session(chain(3, 0, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 3));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 2U);
  for (const int64_t n : {0, 100, 0, 7}) ASSERT_OK(run_chain(*s, n, 3));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 2U);
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), 2U);
  EXPECT_EQ(s->stats().recordings, 1U);
}

TEST_F(CudaEarly, AGraphWithFullEdgesIsTriedAgain) {
  set("CHECK", "bytes");
  auto s = session(chain(3, 0, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 3));
  for (const char* symbol : {"cuGraphCreate", "cuGraphAddKernelNode_v2"}) {
    fail(symbol, 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(run_chain(*s, 0, 3).code(), Code::OutOfMemory) << symbol;
  }
  set("FAIL", "");
  for (const int64_t n : {100, 0, 64}) ASSERT_OK(run_chain(*s, n, 3));
}

TEST_F(CudaEarly, FullEdgesTakeTheirPlaceIfTheDriverRefusesThem) {
  set("CHECK", "bytes");
  constexpr const char* kEdge = "cuGraphAddDependencies_v2";
  constexpr const char* kGraph = "cuGraphInstantiateWithFlags";
  struct Refusal {
    const char* symbol;
    uint64_t nth;
    int error;
    uint64_t edges, graphs;  // that were tried
  };
  for (const Refusal& r : {Refusal{kEdge, 1, cuda::CUDA_ERROR_NOT_SUPPORTED, 1, 1},
                           {kEdge, 1, cuda::CUDA_ERROR_INVALID_VALUE, 1, 1},
                           {kEdge, 3, cuda::CUDA_ERROR_NOT_SUPPORTED, 3, 1},  // after others
                           {kEdge, 3, cuda::CUDA_ERROR_INVALID_VALUE, 3, 1},
                           {kGraph, 1, cuda::CUDA_ERROR_NOT_SUPPORTED, 3, 2}}) {
    fail(r.symbol, r.nth, r.error);
    auto s = session(chain(4, 64, true), open());
    ASSERT_TRUE(s) << r.symbol << ' ' << r.nth;
    for (const int64_t n : {100, 0, 64}) ASSERT_OK(run_chain(*s, n, 4));
    EXPECT_EQ(calls(kEdge), r.edges) << r.symbol << ' ' << r.nth;
    EXPECT_EQ(calls("cuGraphCreate"), 2U) << r.symbol << ' ' << r.nth;
    EXPECT_EQ(calls(kGraph), r.graphs) << r.symbol << ' ' << r.nth;
    EXPECT_EQ(s->stats().recordings, 1U) << r.symbol << ' ' << r.nth;
  }
}

TEST_F(CudaEarly, OtherErrorsOfAnEdgeAreReported) {
  fail("cuGraphAddDependencies_v2", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  auto s = session(chain(3, 64, true), open());
  ASSERT_TRUE(s);
  EXPECT_EQ(run_chain(*s, 64, 3).code(), Code::OutOfMemory);
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 1U);
}

TEST_F(CudaEarly, AnOlderDriverHasFullEdges) {
  auto opened = cuda::open(0, {}, cuda::kDriverLibrary,
                           [](cuda::Table& t) { t.cuGraphAddDependencies_v2 = nullptr; });
  ASSERT_OK(opened.status());
  auto s = session(chain(3, 64, true), std::shared_ptr<Device>(std::move(*opened)));
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 64, 3));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 0U);
}

TEST_F(CudaEarly, OlderDevicesHaveFullEdges) {
  set("ARCH", "89");
  auto s = session(chain(3, 64, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 64, 3));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 0U);
}

TEST_F(CudaEarly, TimedLaunchesDoNotOverlap) {
  SessionOptions options;
  options.timestamps = true;
  auto s = session(chain(3, 64, true), open(), options);
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 64, 3));
  EXPECT_EQ(calls("cuGraphAddDependencies_v2"), 0U);
}

TEST_F(CudaEarly, RandomModelsAreRightInAnyOrder) {
  set("CHECK", "bytes");
  const RandomKernels kernels;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomModel model(seed, kernels);
    auto s = session(model.package(), open());
    ASSERT_TRUE(s);
    std::vector<std::vector<float>> x;
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < model.inputs(); ++i) {
      x.push_back(ramp(40, static_cast<float>(i + 1)));
      inputs.push_back(floats({40}, x.back()));
    }
    std::vector<Binding> bindings;
    for (size_t i = 0; i < inputs.size(); ++i)
      bindings.push_back({.name = model.package()->io.inputs[i].name, .host = &inputs[i]});
    for (int run = 0; run < 2; ++run) {
      const auto y = s->run(bindings);
      ASSERT_OK(y.status());
      const auto expected = model.expected(x);
      for (size_t o = 0; o < expected.size(); ++o) EXPECT_EQ(values((*y)[o]), expected[o]) << seed;
    }
  }
  EXPECT_GT(calls("cuGraphAddDependencies_v2"), 20U);
}

}  // namespace
}  // namespace reprise::test
