// What a run costs the driver, and that it is right whatever changed since the last one.
#include <array>
#include <map>
#include <set>

#include "backends/cuda/library.h"
#include "on_standin.h"
#include "random_model.h"

namespace reprise::test {
namespace {

class CudaRun : public OnStandin {};

TEST_F(CudaRun, ARunIsOneGraphLaunchAndAFixedNumberOfCalls) {
  auto device = open();
  std::array<uint64_t, 2> made{};
  const std::array<size_t, 2> sizes{5, 200};
  for (size_t p = 0; p < 2; ++p) {
    auto s = session(chain(sizes[p], 64, true), device);
    ASSERT_TRUE(s);
    const auto added = static_cast<float>(sizes[p]);
    ASSERT_OK(run_chain(*s, 64, added));
    for (int run = 0; run < 3; ++run) {
      reset_calls();
      ASSERT_OK(run_chain(*s, 64, added));
      EXPECT_EQ(calls("cuGraphLaunch"), 1U);
      EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams_v2"), 0U);
      EXPECT_EQ(calls("cuMemAlloc_v2") + calls("cuMemHostAlloc"), 0U);
      EXPECT_EQ(calls("cuMemcpyHtoDAsync_v2") + calls("cuMemcpyDtoHAsync_v2"), 0U);
      made[p] = stat("calls") - calls("cuEventQuery");
    }
    EXPECT_EQ(s->stats().recordings, 1U);
    EXPECT_EQ(s->stats().barriers, 0U);  // edges order a graph
  }
  EXPECT_EQ(made[0], made[1]);
  EXPECT_LE(made[1], 6U);  // push and pop around submission and wait, launch, event
}

TEST_F(CudaRun, RebindingUpdatesTheNodesThatReadTheAddress) {
  auto device = open();
  auto s = session(chain(3, 64, false), device);
  ASSERT_TRUE(s);
  const HostTensor x = floats({64}, ramp(64));
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  for (int i = 0; i < 4; ++i) {
    auto b = device->allocate(256, MemoryUse::Device);
    ASSERT_OK(b.status());
    ASSERT_OK(device->upload(**b, 0, x.bytes()));
    memory.push_back(std::move(*b));
  }
  const auto run = [&](size_t in, size_t out) {
    ASSERT_OK(s->run({{{.name = "x", .device = memory[in].get(), .dims = {64}}}},
                     {{{.name = "y", .device = memory[out].get()}}})
                  .status());
    HostTensor y(DType::F32, {64});
    ASSERT_OK(device->download(*memory[out], 0, y.mutable_bytes()));
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(values(y)[i], ramp(64)[i] + 3);
  };
  run(0, 2);
  const uint64_t recordings = device->counters().recordings;
  const struct {
    size_t in, out;
    uint64_t updates;
  } steps[] = {{0, 2, 0}, {1, 2, 1}, {1, 3, 1}, {0, 2, 2}, {0, 2, 0}};
  for (const auto& step : steps) {
    reset_calls();
    run(step.in, step.out);
    EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams_v2"), step.updates);
    EXPECT_EQ(calls("cuGraphLaunch"), 1U);
  }
  EXPECT_EQ(device->counters().recordings, recordings);
}

TEST_F(CudaRun, LaunchesOfNothingAreSwitchedOff) {
  auto s = session(chain(3, 0, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 0, 3));  // recorded without workgroups
  for (const int64_t n : {100, 0, 100, 7, 0, 0, 7, 100}) ASSERT_OK(run_chain(*s, n, 3));
  EXPECT_GE(calls("cuGraphNodeSetEnabled"), 3U * 5);
  reset_calls();
  ASSERT_OK(run_chain(*s, 100, 3));
  EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams_v2") + calls("cuGraphNodeSetEnabled"), 0U);
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), 0U);
}

cuda::CUresult (*real_copy_update)(cuda::CUgraphExec, cuda::CUgraphNode, const cuda::CUDA_MEMCPY3D*,
                                   cuda::CUcontext) = nullptr;
std::vector<size_t> copied;  // bytes of copies that were changed

TEST_F(CudaRun, CopiesMoveWhatTheRunHas) {
  auto opened = cuda::open(0, {}, cuda::kDriverLibrary, [](cuda::Table& t) {
    real_copy_update = t.cuGraphExecMemcpyNodeSetParams;
    t.cuGraphExecMemcpyNodeSetParams = [](cuda::CUgraphExec e, cuda::CUgraphNode n,
                                          const cuda::CUDA_MEMCPY3D* p, cuda::CUcontext c) {
      copied.push_back(p->WidthInBytes);
      return real_copy_update(e, n, p, c);
    };
  });
  ASSERT_OK(opened.status());
  auto s = session(chain(2, 0, true), std::shared_ptr<Device>(std::move(*opened)));
  ASSERT_TRUE(s);
  const struct {
    int64_t n;
    std::vector<size_t> changed;  // in and out
  } runs[] = {{1000, {}}, {1000, {}},     {10, {40, 40}},     {10, {}},
              {0, {}},    {10, {40, 40}}, {999, {3996, 3996}}};
  for (const auto& run : runs) {
    copied.clear();
    ASSERT_OK(run_chain(*s, run.n, 2));
    EXPECT_EQ(copied, run.changed) << run.n;
  }
  fail("cuGraphExecMemcpyNodeSetParams", 2, cuda::CUDA_ERROR_NOT_SUPPORTED);
  for (const int64_t n : {20, 30, 0, 1000}) ASSERT_OK(run_chain(*s, n, 2));
  EXPECT_EQ(calls("cuGraphExecMemcpyNodeSetParams"), 2U);  // from then on whole
  EXPECT_EQ(s->stats().recordings, 1U);
}

TEST_F(CudaRun, AGraphThatRefusesAnUpdateIsMadeAnew) {
  auto s = session(chain(3, 0, true), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 3));
  for (const int error : {cuda::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                          cuda::CUDA_ERROR_NOT_SUPPORTED, cuda::CUDA_ERROR_INVALID_VALUE}) {
    for (const uint64_t nth : {1U, 3U}) {
      for (const int64_t n : {50, 80}) {
        fail("cuGraphExecKernelNodeSetParams_v2", nth, error);
        ASSERT_OK(run_chain(*s, n, 3));
        EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), 1U);
        EXPECT_EQ(calls("cuGraphLaunch"), 1U);
        set("FAIL", "");
        ASSERT_OK(run_chain(*s, n, 3));
        ASSERT_OK(run_chain(*s, 0, 3));
        ASSERT_OK(run_chain(*s, n + 1, 3));
      }
    }
  }
  EXPECT_EQ(s->stats().recordings, 1U);
}

TEST_F(CudaRun, WithoutReplayThereIsNoGraph) {
  SessionOptions options;
  options.replay = false;
  auto s = session(chain(4, 0, true), open(), options);
  ASSERT_TRUE(s);
  reset_calls();
  for (const int64_t n : {10, 0, 3000}) ASSERT_OK(run_chain(*s, n, 4));
  EXPECT_EQ(calls("cuLaunchKernel"), 8U);  // none for no elements
  EXPECT_EQ(calls("cuGraphCreate") + calls("cuGraphLaunch"), 0U);
}

TEST_F(CudaRun, WithoutReplayWhatIsStagedMayChange) {
  auto device = open();
  SessionOptions options;
  options.replay = false;
  auto s = session(chain(3, 64, false), device, options);
  auto b = device->allocate(256, MemoryUse::Device);
  ASSERT_OK(b.status());
  const HostTensor x = floats({64}, ramp(64));
  ASSERT_OK(device->upload(**b, 0, x.bytes()));
  const Binding from_host{.name = "x", .host = &x};
  const Binding on_device{.name = "x", .device = b->get(), .dims = {64}};
  for (const Binding& in : {from_host, from_host, on_device, on_device, from_host}) {
    auto y = s->run({{in}});
    ASSERT_OK(y.status());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(values((*y)[0])[i], ramp(64)[i] + 3);
  }
  EXPECT_EQ(s->stats().copies, 8U);  // 5 outputs, 3 inputs
}

TEST_F(CudaRun, TimesAreOfEachLaunch) {
  for (const bool replay : {true, false}) {
    SessionOptions options;
    options.timestamps = true;
    options.replay = replay;
    auto s = session(chain(5, 0, true), open(), options);
    ASSERT_TRUE(s);
    RunStats stats;
    for (int run = 0; run < 2; ++run) {
      ASSERT_OK(run_chain(*s, 5000, 5, &stats));
      ASSERT_EQ(stats.kernel_us.size(), 5U);
      for (const double us : stats.kernel_us) EXPECT_GT(us, 0);
    }
  }
}

TEST_F(CudaRun, ATimeoutNamesTheDeviceAndTheNextSessionWorks) {
  auto device = open();
  {
    SessionOptions options;
    options.timeout_ns = 2'000'000'000;  // for the second run: a busy machine stops for a while
    auto s = session(chain(2, 100, false), device, options);
    ASSERT_TRUE(s);
    set("HOLD", "1");
    const Status late = run_chain(*s, 100, 2);
    EXPECT_EQ(late.code(), Code::Timeout);
    EXPECT_NE(late.message().find("did not finish on cuda:0 within 2"), std::string::npos)
        << late.message();
    set("HOLD", "");
    ASSERT_OK(run_chain(*s, 100, 2));  // in memory of its own
  }
  auto s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 2));
}

/// Runs a random model once; the error, or that values are wrong.
Status run_random(Session& s, const RandomModel& model, int64_t n, float scale) {
  std::vector<std::vector<float>> x;
  std::vector<HostTensor> tensors;
  std::vector<Binding> bindings;
  for (size_t i = 0; i < model.inputs(); ++i) {
    x.push_back(ramp(static_cast<size_t>(n), scale + static_cast<float>(i)));
    tensors.push_back(floats({n}, x.back()));
  }
  for (size_t i = 0; i < model.inputs(); ++i)
    bindings.push_back({.name = "x" + std::to_string(i), .host = &tensors[i]});
  RP_ASSIGN(const auto y, s.run(bindings));
  const auto expected = model.expected(x);
  for (size_t o = 0; o < expected.size(); ++o) {
    if (values(y[o]) != expected[o])
      return internal_error("output " + std::to_string(o) + " of " + std::to_string(n) +
                            " elements is wrong");
  }
  return {};
}

// Tensors of branches share the arena's memory: whatever runs first, no one sees it.
TEST_F(CudaRun, EveryOrderOfTheGraphGivesTheSame) {
  constexpr size_t kModels = 12;
  const RandomKernels kernels;
  auto device = open();
  size_t sinks = 0, reverse = 0, random = 0;  // models that ran in an order of their own
  for (uint64_t seed = 0; seed < kModels; ++seed) {
    const bool dynamic = seed % 2 == 1;
    const RandomModel model(seed, kernels, 12, dynamic);
    std::map<std::string, std::set<uint64_t>> seen;
    for (const char* order : {"creation", "sinks", "random", "reverse"}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + order);
      set("ORDER", order);
      auto s = session(model.package(), device);
      ASSERT_TRUE(s);
      float scale = 1;
      for (const int64_t n : {40, 700, 3, 0, 4001, 700, 40, 3}) {
        ASSERT_OK(run_random(*s, model, dynamic ? n : 40, scale++));
        seen[order].insert(stat("order"));
      }
    }
    const std::set<uint64_t>& creation = seen["creation"];
    EXPECT_EQ(creation.size(), 1U);
    sinks += creation.count(*seen["sinks"].begin()) == 0 ? 1 : 0;
    reverse += creation.count(*seen["reverse"].begin()) == 0 ? 1 : 0;
    random += seen["random"].size() > 2 ? 1 : 0;
  }
  EXPECT_EQ(sinks, kModels);
  EXPECT_EQ(reverse, kModels);
  EXPECT_EQ(random, kModels);
}

}  // namespace
}  // namespace reprise::test
