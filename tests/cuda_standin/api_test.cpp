// The stand-in's calls one by one: what they refuse, what is injected, what outlives a fault.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/cuda_standin/loaded_driver.h"

namespace reprise::test {
namespace {

constexpr size_t kCount = 4 * kGroup;
constexpr size_t kBytes = 4 * kCount;

class Calls : public StandinTest {};

CUDA_MEMCPY3D device_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = from;
  c.dstDevice = to;
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

TEST_F(Calls, RefuseWhatADriverRefuses) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr y = allocate(kBytes);
  GraphBuilder g(api);
  const CUgraphNode node = g.kernel(fill, {y}, kCount, 0, {});
  g.instantiate();
  const auto with = [&](const std::function<void(CUDA_KERNEL_NODE_PARAMS&)>& change) {
    Params p(fill, {y}, kCount, 0);
    change(p.params);
    CUgraphNode made = nullptr;
    return api.cuGraphAddKernelNode_v2(&made, g.graph(), nullptr, 0, &p.params);
  };
  const auto copy = [&](const CUDA_MEMCPY3D& c) {
    CUgraphNode made = nullptr;
    return api.cuGraphAddMemcpyNode(&made, g.graph(), nullptr, 0, &c, context);
  };
  CUdeviceptr p = 0;
  void* host = nullptr;
  size_t bytes = 0;
  int value = 0;
  float number = 0;
  using Kernel = CUDA_KERNEL_NODE_PARAMS;
  struct Case {
    const char* what;
    CUresult got, expected;
  };
  const Case cases[] = {
      {"no bytes", api.cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE},
      {"no place for the address", api.cuMemAlloc_v2(nullptr, 4), CUDA_ERROR_INVALID_VALUE},
      {"more than there is", api.cuMemAlloc_v2(&p, size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY},
      {"free inside", api.cuMemFree_v2(y + 4), CUDA_ERROR_INVALID_VALUE},
      {"free as host", api.cuMemFreeHost(reinterpret_cast<void*>(y)), CUDA_ERROR_INVALID_VALUE},
      {"no such host memory", api.cuMemHostGetDevicePointer_v2(&p, &value, 0),
       CUDA_ERROR_INVALID_VALUE},
      {"range of an address outside any allocation",
       api.cuMemGetAddressRange_v2(&p, &bytes, y + kBytes), CUDA_ERROR_NOT_FOUND},
      {"host flags", api.cuMemHostAlloc(&host, 4, 8), CUDA_ERROR_INVALID_VALUE},
      {"copy beyond", api.cuMemcpyHtoDAsync_v2(y + 4, &value, kBytes, stream),
       CUDA_ERROR_INVALID_VALUE},
      {"copy from beyond", api.cuMemcpyDtoHAsync_v2(&value, y + kBytes, 4, stream),
       CUDA_ERROR_INVALID_VALUE},
      {"copy of nothing", api.cuMemcpyAsync(y, y, 0, stream), CUDA_SUCCESS},
      {"stream flags", api.cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE},
      {"grid of zero", with([](Kernel& k) { k.gridDimY = 0; }), CUDA_ERROR_INVALID_VALUE},
      {"large grid", with([](Kernel& k) { k.gridDimY = 65536; }), CUDA_ERROR_INVALID_VALUE},
      {"wide grid", with([](Kernel& k) { k.gridDimX = 65536; }), CUDA_SUCCESS},
      {"block of zero", with([](Kernel& k) { k.blockDimZ = 0; }), CUDA_ERROR_INVALID_VALUE},
      {"block above its bounds", with([](Kernel& k) { k.blockDimX = 128; }),
       CUDA_ERROR_INVALID_VALUE},
      {"dynamic memory", with([](Kernel& k) { k.sharedMemBytes = 4; }), CUDA_ERROR_INVALID_VALUE},
      {"no parameters", with([](Kernel& k) { k.kernelParams = nullptr; }),
       CUDA_ERROR_INVALID_VALUE},
      {"copy of no row", copy(device_copy(y, y, 0)), CUDA_ERROR_INVALID_VALUE},
      {"copy node beyond", copy(device_copy(y, y, kBytes + 1)), CUDA_ERROR_INVALID_VALUE},
      {"attribute", api.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(999), 0),
       CUDA_ERROR_INVALID_VALUE},
      {"device", api.cuDeviceGet(&value, 1), CUDA_ERROR_INVALID_DEVICE},
      {"kernel name", api.cuModuleGetFunction(nullptr, nullptr, "x"), CUDA_ERROR_INVALID_VALUE},
      {"event without record", api.cuEventElapsedTime(&number, nullptr, nullptr),
       CUDA_ERROR_INVALID_HANDLE},
      {"a node in place of a graph", api.cuGraphDestroy(reinterpret_cast<CUgraph>(node)),
       CUDA_ERROR_INVALID_HANDLE},
      {"no context", api.cuCtxPushCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT},
      {"instance flags", api.cuGraphInstantiateWithFlags(nullptr, g.graph(), 0),
       CUDA_ERROR_INVALID_VALUE},
  };
  for (const Case& c : cases) EXPECT_EQ(c.got, c.expected) << c.what;
}

TEST_F(Calls, DependOnNodesOfTheirGraphOnce) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr y = allocate(kBytes);
  GraphBuilder a(api), b(api);
  const CUgraphNode in_a = a.kernel(fill, {y}, kCount, 0, {});
  const CUgraphNode in_b = b.kernel(fill, {y}, kCount, 0, {});
  a.instantiate();
  CUgraphNode made = nullptr;
  const CUgraphNode twice[] = {in_a, in_a};
  EXPECT_EQ(api.cuGraphAddEmptyNode(&made, a.graph(), &in_a, 1), CUDA_SUCCESS);
  EXPECT_EQ(api.cuGraphAddEmptyNode(&made, a.graph(), twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuGraphAddEmptyNode(&made, a.graph(), &in_b, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(a.update(in_b, fill, {y}, kCount, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(a.update(made, fill, {y}, kCount, 0), CUDA_ERROR_INVALID_HANDLE) << "made after exec";
}

/// A graph's own parameters are those of what is instantiated later.
TEST_F(Calls, GraphParametersAreForLaterInstances) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr y = allocate(kBytes);
  GraphBuilder g(api);
  const CUgraphNode node = g.kernel(fill, {y}, kCount, bits_of(1), {});
  g.instantiate();
  const Params p(fill, {y}, kCount, bits_of(2));
  ASSERT_EQ(api.cuGraphKernelNodeSetParams_v2(node, &p.params), CUDA_SUCCESS);
  CUgraphExec later = nullptr;
  ASSERT_EQ(api.cuGraphInstantiateWithFlags(&later, g.graph(), 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  EXPECT_EQ(read(y, 1)[0], 1);
  ASSERT_EQ(api.cuGraphLaunch(later, stream), CUDA_SUCCESS);
  EXPECT_EQ(read(y, 1)[0], 2);
  EXPECT_EQ(api.cuGraphExecDestroy(later), CUDA_SUCCESS);
}

TEST_F(Calls, HandlesThatWereDestroyedAreKnown) {
  CUevent event = nullptr;
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(api.cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuStreamCreate(&other, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  const CUdeviceptr memory = allocate(4);
  CUdeviceptr freed = 0;
  ASSERT_EQ(api.cuMemAlloc_v2(&freed, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.cuEventDestroy_v2(event), CUDA_SUCCESS);
  ASSERT_EQ(api.cuStreamDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(api.cuMemFree_v2(freed), CUDA_SUCCESS);
  const std::pair<const char*, std::function<CUresult()>> cases[] = {
      {"event that was destroyed", [&] { return api.cuEventQuery(event); }},
      {"event that was destroyed", [&] { return api.cuEventDestroy_v2(event); }},
      {"stream that was destroyed", [&] { return api.cuStreamSynchronize(other); }},
      {"graph that was destroyed", [&] { return api.cuGraphDestroy(graph); }},
      {"executable graph that was destroyed", [&] { return api.cuGraphLaunch(exec, stream); }},
      {"in place of: event", [&] { return api.cuEventQuery(reinterpret_cast<CUevent>(stream)); }},
      {"ever had this handle", [&] { return api.cuEventQuery(reinterpret_cast<CUevent>(memory)); }},
  };
  for (const auto& [said, call] : cases) {
    const auto misuses = stat("misuses");
    EXPECT_EQ(call(), CUDA_ERROR_INVALID_HANDLE) << said;
    EXPECT_EQ(stat("misuses"), misuses + 1) << said;
    EXPECT_NE(log().find(said), std::string::npos) << said << log();
  }
  EXPECT_EQ(api.cuMemFree_v2(freed), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Calls, NeedACurrentContext) {
  std::thread([&] {
    CUdeviceptr p = 0;
    EXPECT_EQ(api.cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(api.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(api.cuCtxPopCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(api.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    EXPECT_EQ(api.cuStreamSynchronize(stream), CUDA_SUCCESS);
  }).join();
}

TEST_F(Calls, MemoryOfTheDeviceEnds) {
  set("MEMORY", "1000");
  CUdeviceptr a = 0, b = 0;
  ASSERT_EQ(api.cuMemAlloc_v2(&a, 600), CUDA_SUCCESS);
  EXPECT_EQ(api.cuMemAlloc_v2(&b, 600), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api.cuMemAlloc_v2(&b, 400), CUDA_SUCCESS);
  ASSERT_EQ(api.cuMemFree_v2(a), CUDA_SUCCESS);
  ASSERT_EQ(api.cuMemFree_v2(b), CUDA_SUCCESS);
}

TEST_F(Calls, ImagesAreForTheirDevices) {
  struct Case {
    const char* arch;
    const char* driver;
    std::string head;
    CUresult expected;
  };
  const std::string text = cuda_text(fill_kernel());
  const Case cases[] = {
      {"90", "13000", cubin(0x6005a04, 8), CUDA_SUCCESS},
      {"90", "13000", cubin(0x6005004, 8), CUDA_ERROR_NO_BINARY_FOR_GPU},
      {"89", "13000", cubin(0x6005004, 8), CUDA_SUCCESS},
      {"80", "13000", cubin(0x6005904, 8), CUDA_ERROR_NO_BINARY_FOR_GPU},
      {"120", "13000", cubin(0x6007802, 8), CUDA_SUCCESS},
      {"90", "12000", cubin(0x5a055a, 7), CUDA_SUCCESS},
      {"90", "12000", cubin(0x500550, 7), CUDA_ERROR_NO_BINARY_FOR_GPU},
      {"90", "13000", ptx(80), CUDA_SUCCESS},
      {"80", "13000", ptx(90), CUDA_ERROR_INVALID_PTX},
      {"90", "13000", ptx(80, 9), CUDA_SUCCESS},
      {"90", "12080", ptx(80, 9), CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
      {"90", "13000", std::string("neither\0", 8), CUDA_ERROR_INVALID_IMAGE},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.head.substr(0, 24) + " on " + c.arch);
    set("ARCH", c.arch);
    set("DRIVER", c.driver);
    CUmodule module = nullptr;
    CUfunction f = nullptr;
    std::string said(200, '\0');
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {said.data(), reinterpret_cast<void*>(said.size())};
    const auto image = image_of(c.head, text);
    ASSERT_EQ(api.cuModuleLoadDataEx(&module, image.data(), 2, options, values), c.expected);
    if (c.expected != CUDA_SUCCESS) {
      EXPECT_GT(reinterpret_cast<uintptr_t>(values[1]), 10U);
      EXPECT_NE(said[0], 0);
      continue;
    }
    EXPECT_EQ(api.cuModuleGetFunction(&f, module, "k_fill"), CUDA_SUCCESS);
    EXPECT_EQ(api.cuModuleGetFunction(&f, module, "k_full"), CUDA_ERROR_NOT_FOUND);
    int threads = 0;
    EXPECT_EQ(api.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f),
              CUDA_SUCCESS);
    EXPECT_EQ(threads, static_cast<int>(kGroup));
    EXPECT_EQ(api.cuModuleUnload(module), CUDA_SUCCESS);
  }
}

TEST_F(Calls, ImagesNeedTheirText) {
  const std::string bare = ptx(80);
  CUmodule module = nullptr;
  EXPECT_EQ(api.cuModuleLoadDataEx(&module, bare.data(), 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_NE(log().find("no CUDA text"), std::string::npos) << log();
}

/// What a compiler refuses is known when the kernel is needed: modules compile on other threads.
TEST_F(Calls, TextThatDoesNotCompileIsNamed) {
  std::string text = cuda_text(fill_kernel());
  text.replace(text.find("s0_value;"), 9, "no_value;");
  const auto image = image_of(ptx(80), text);
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  ASSERT_EQ(api.cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(api.cuModuleGetFunction(&f, module, "k_fill"), CUDA_SUCCESS);
  const CUdeviceptr y = allocate(kBytes);
  {
    GraphBuilder g(api);
    g.kernel(f, {y}, kCount, 0, {});
    CUgraphExec exec = nullptr;
    EXPECT_EQ(api.cuGraphInstantiateWithFlags(&exec, g.graph(), 0), CUDA_ERROR_INVALID_IMAGE);
  }
  EXPECT_NE(log().find("no_value"), std::string::npos) << log();
  EXPECT_EQ(api.cuModuleUnload(module), CUDA_SUCCESS);
}

/// Launch, copies and events without a graph.
TEST_F(Calls, LaunchSingleKernels) {
  const CUfunction add = load(add_kernel());
  void* host = nullptr;
  ASSERT_EQ(api.cuMemHostAlloc(&host, 2 * kBytes, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
  auto* values = static_cast<float*>(host);
  std::fill(values, values + kCount, 3.0F);
  CUdeviceptr x = 0;
  ASSERT_EQ(api.cuMemHostGetDevicePointer_v2(&x, host, 0), CUDA_SUCCESS);
  const CUdeviceptr y = allocate(kBytes);
  const Params p(add, {x, y}, kCount, 0);
  for (const CUstream s : {stream, CUstream{nullptr}}) {
    ASSERT_EQ(api.cuLaunchKernel(add, p.params.gridDimX, 1, 1, kGroup, 1, 1, 0, s,
                                 p.params.kernelParams, nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(api.cuMemcpyDtoHAsync_v2(values + kCount, y, kBytes, s), CUDA_SUCCESS);
    ASSERT_EQ(api.cuStreamSynchronize(s), CUDA_SUCCESS);
    EXPECT_EQ(values[2 * kCount - 1], 4);
  }
  EXPECT_EQ(api.cuMemFreeHost(host), CUDA_SUCCESS);
}

/// One run of a model, in small: stops at the first error, and frees what was made.
CUresult small_run(const DriverApi& api, const std::vector<std::byte>& image) {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  CUdeviceptr y = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUresult first = CUDA_SUCCESS;
  std::vector<float> out(kCount);
  const auto ok = [&](CUresult r) {
    if (first == CUDA_SUCCESS) first = r;
    return r == CUDA_SUCCESS;
  };
  // A free that fails in the middle is tried again: an injected failure has no effect.
  const auto free = [&](const std::function<CUresult()>& call) {
    if (!ok(call())) call();
  };
  if (!ok(api.cuInit(0)) || !ok(api.cuDevicePrimaryCtxRetain(&context, 0))) return first;
  if (ok(api.cuCtxPushCurrent_v2(context))) {
    const bool made = ok(api.cuStreamCreate(&stream, 0)) &&
                      ok(api.cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr)) &&
                      ok(api.cuModuleGetFunction(&f, module, "k_fill")) &&
                      ok(api.cuMemAlloc_v2(&y, kBytes)) && ok(api.cuGraphCreate(&graph, 0));
    if (made) {
      const Params p(f, {y}, kCount, bits_of(1));
      static_cast<void>(ok(api.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &p.params)) &&
                        ok(api.cuGraphInstantiateWithFlags(&exec, graph, 0)) &&
                        ok(api.cuGraphLaunch(exec, stream)) &&
                        ok(api.cuMemcpyDtoHAsync_v2(out.data(), y, kBytes, stream)) &&
                        ok(api.cuStreamSynchronize(stream)));
    }
    if (exec != nullptr) free([&] { return api.cuGraphExecDestroy(exec); });
    if (graph != nullptr) free([&] { return api.cuGraphDestroy(graph); });
    if (y != 0) free([&] { return api.cuMemFree_v2(y); });
    if (module != nullptr) free([&] { return api.cuModuleUnload(module); });
    if (stream != nullptr) free([&] { return api.cuStreamDestroy_v2(stream); });
    free([&] { return api.cuCtxPopCurrent_v2(nullptr); });
  }
  free([&] { return api.cuDevicePrimaryCtxRelease_v2(0); });
  EXPECT_TRUE(first != CUDA_SUCCESS || out == std::vector<float>(kCount, 1));
  return first;
}

TEST_F(Calls, FailInTurn) {
  const auto image = image_of(ptx(80), cuda_text(fill_kernel()));
  set("RESET_CALLS", "");
  ASSERT_EQ(small_run(api, image), CUDA_SUCCESS);
  const auto calls = stat("calls"), live = stat("live"), leaks = stat("leaks");
  EXPECT_GT(calls, 15U);
  for (unsigned long long n = 1; n <= calls; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    set("RESET_CALLS", "");
    set("FAIL", "*:" + std::to_string(n) + ":702");
    EXPECT_EQ(small_run(api, image), CUDA_ERROR_LAUNCH_TIMEOUT);
    EXPECT_EQ(stat("live"), live);
  }
  set("RESET_CALLS", "");
  set("FAIL", "cuMemAlloc_v2:1:2");
  EXPECT_EQ(small_run(api, image), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(stat("calls:cuMemAlloc_v2"), 1U);
  EXPECT_EQ(small_run(api, image), CUDA_SUCCESS) << "the second call is not the first";
  EXPECT_EQ(stat("leaks"), leaks);
}

TEST_F(Calls, FaultsStayUntilTheContextGoes) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr y = allocate(kBytes);
  GraphBuilder g(api);
  g.kernel(fill, {y}, kCount, 0, {});
  g.instantiate();
  set("FAULT", "another");
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  ASSERT_EQ(synchronize(), CUDA_SUCCESS);
  set("FAULT", "fill");
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  EXPECT_EQ(synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  set("FAULT", "");
  CUdeviceptr p = 0;
  EXPECT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api.cuMemFree_v2(y), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api.cuDeviceGet(reinterpret_cast<CUdevice*>(&p), 0), CUDA_SUCCESS);
  TearDown();
  SetUp();
  EXPECT_EQ(api.cuMemAlloc_v2(&p, 4), CUDA_SUCCESS);
  EXPECT_EQ(api.cuMemFree_v2(p), CUDA_SUCCESS);
}

/// Who asks until a run has ended never hears of success, however the question meets the fault.
TEST_F(Calls, QueriesDoNotMissAFault) {
  for (int round = 0; round < 200; ++round) {
    const CUfunction fill = load(fill_kernel());
    const CUdeviceptr y = allocate(kBytes);
    CUevent done = nullptr;
    ASSERT_EQ(api.cuEventCreate(&done, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    const Params p(fill, {y}, kCount, 0);
    set("FAULT", "fill");
    ASSERT_EQ(api.cuLaunchKernel(fill, p.params.gridDimX, 1, 1, kGroup, 1, 1, 0, stream,
                                 p.params.kernelParams, nullptr),
              CUDA_SUCCESS);
    const CUresult recorded = api.cuEventRecord(done, stream);
    CUresult r = recorded == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : recorded;
    while (r == CUDA_ERROR_NOT_READY) r = api.cuEventQuery(done);
    ASSERT_EQ(r, CUDA_ERROR_ILLEGAL_ADDRESS) << "round " << round;
    TearDown();
    SetUp();
  }
}

TEST_F(Calls, StaleModulesAndMemoryAreFaults) {
  const auto image = image_of(ptx(80), cuda_text(fill_kernel()));
  for (const bool module_goes : {true, false}) {
    SCOPED_TRACE(module_goes);
    CUmodule module = nullptr;
    CUfunction f = nullptr;
    CUdeviceptr y = 0;
    ASSERT_EQ(api.cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(api.cuModuleGetFunction(&f, module, "k_fill"), CUDA_SUCCESS);
    ASSERT_EQ(api.cuMemAlloc_v2(&y, kBytes), CUDA_SUCCESS);
    GraphBuilder g(api);
    g.kernel(f, {y}, kCount, 0, {});
    g.instantiate();
    ASSERT_EQ(module_goes ? api.cuModuleUnload(module) : api.cuMemFree_v2(y), CUDA_SUCCESS);
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_NE(log().find(module_goes ? "after its module was unloaded" : "in no live allocation"),
              std::string::npos)
        << log();
    TearDown();
    SetUp();
  }
}

/// More may be there than at the first cuInit; each has memory and contexts of its own.
TEST_F(Calls, DevicesAreApart) {
  set("DEVICES", "3");
  set("MEMORY", "2000");
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr here = allocate(kBytes);
  CUcontext other = nullptr;
  CUstream s = nullptr;
  CUdeviceptr there = 0, more = 0;
  EXPECT_EQ(api.cuDevicePrimaryCtxRetain(&other, 3), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(api.cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&other, 2), CUDA_SUCCESS);
  ASSERT_NE(other, context);
  ASSERT_EQ(api.cuCtxPushCurrent_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(api.cuStreamCreate(&s, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuMemAlloc_v2(&there, 1500), CUDA_SUCCESS) << "what another device has is full";
  EXPECT_EQ(api.cuMemAlloc_v2(&more, 1500), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(api.cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  {
    GraphBuilder g(api);
    const CUgraphNode node = g.kernel(fill, {here}, kCount, 0, {});
    g.instantiate();
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    ASSERT_EQ(synchronize(), CUDA_SUCCESS) << log();
    ASSERT_EQ(g.update(node, fill, {there}, kCount, 0), CUDA_SUCCESS);
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_NE(log().find("memory of another context"), std::string::npos) << log();
  }
  ASSERT_EQ(api.cuCtxPushCurrent_v2(other), CUDA_SUCCESS);
  EXPECT_EQ(api.cuStreamSynchronize(s), CUDA_SUCCESS) << "the fault is the other context's";
  EXPECT_EQ(api.cuMemFree_v2(there), CUDA_SUCCESS);
  EXPECT_EQ(api.cuStreamDestroy_v2(s), CUDA_SUCCESS);
  ASSERT_EQ(api.cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(api.cuDevicePrimaryCtxRelease_v2(2), CUDA_SUCCESS);
}

TEST_F(Calls, DevicesAreAsManyAsSaid) {
  set("DEVICES", "0");
  EXPECT_EQ(api.cuInit(0), CUDA_ERROR_NO_DEVICE);
  set("DEVICES", "");
  EXPECT_EQ(api.cuInit(0), CUDA_SUCCESS);
  int version = 0;
  set("DRIVER", "11080");
  EXPECT_EQ(api.cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 11080);
}

}  // namespace
}  // namespace reprise::test
