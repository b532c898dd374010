// Graphs on the stand-in: orders, updates, edges that are missing, what lies beyond a buffer, what
// an earlier run left.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/cuda_standin/loaded_driver.h"

namespace reprise::test {
namespace {

constexpr size_t kNodeCount = 4 * kGroup;
constexpr size_t kNodeBytes = 4 * kNodeCount;

class Graphs : public StandinTest {
 protected:
  /// Those of a diamond.
  std::vector<CUdeviceptr> buffers() {
    return {allocate(kNodeBytes), allocate(kNodeBytes), allocate(kNodeBytes), allocate(kNodeBytes)};
  }
};

/// a = value; b = a + 1, c = a + 1; d = copy of b; a = mirrored c. All kinds of hazards.
struct Diamond {
  Diamond(GraphBuilder& g, CUcontext context, CUfunction fill, CUfunction add, CUfunction reverse,
          const std::vector<CUdeviceptr>& m)
      : first(g.kernel(fill, {m[0]}, kNodeCount, bits_of(5), {})) {
    const CUgraphNode b = g.kernel(add, {m[0], m[1]}, kNodeCount, 0, {first});
    const CUgraphNode c = g.kernel(add, {m[0], m[2]}, kNodeCount, 0, {first});
    g.copy(m[3], m[1], kNodeBytes, {b}, context);
    g.kernel(reverse, {m[2], m[0]}, kNodeCount, 0, {b, c});
    g.instantiate();
  }
  CUgraphNode first;
  static constexpr uint64_t kEdges = 5;
};

TEST_F(Graphs, GiveTheSameInEveryOrder) {
  const CUfunction fill = load(fill_kernel()), add = load(add_kernel()),
                   reverse = load(reverse_kernel());
  const std::vector<CUdeviceptr> m = buffers();
  set("CHECK", "allocations");
  GraphBuilder g(api);
  const Diamond diamond(g, context, fill, add, reverse, m);
  for (const char* order : {"mixed", "sinks", "random", "reverse", "creation"}) {
    for (const char* seed : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string(order) + ", seed " + seed);
      set("ORDER", order);
      set("SEED", seed);
      const float value = std::stof(seed);
      ASSERT_EQ(g.update(diamond.first, fill, {m[0]}, kNodeCount, bits_of(value)), CUDA_SUCCESS);
      ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
      ASSERT_EQ(synchronize(), CUDA_SUCCESS) << log();
      EXPECT_EQ(read(m[3], kNodeCount), std::vector<float>(kNodeCount, value + 1));
      EXPECT_EQ(read(m[0], kNodeCount), std::vector<float>(kNodeCount, value + 1));
    }
  }
}

/// Two nodes that nothing orders write the same place: who is last shows the order.
TEST_F(Graphs, RunInTheOrderThatIsAskedFor) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr y = allocate(kNodeBytes);
  GraphBuilder g(api);
  g.kernel(fill, {y}, kNodeCount, bits_of(1), {});
  g.kernel(fill, {y}, kNodeCount, bits_of(2), {});
  g.instantiate();
  struct Case {
    const char* order;
    float last;
  };
  for (const Case& c : {Case{"creation", 2}, Case{"reverse", 1}}) {
    set("ORDER", c.order);
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(read(y, 1)[0], c.last) << c.order;
  }
  set("ORDER", "random");
  std::set<float> seen;
  for (int seed = 1; seed < 20; ++seed) {
    set("SEED", std::to_string(seed));
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    seen.insert(read(y, 1)[0]);
  }
  EXPECT_EQ(seen.size(), 2U);
}

/// Every edge of the diamond matters, and the check names who collides.
TEST_F(Graphs, MissingEdgesAreFound) {
  for (uint64_t edge = 1; edge <= Diamond::kEdges; ++edge) {
    SCOPED_TRACE("edge " + std::to_string(edge));
    const CUfunction fill = load(fill_kernel()), add = load(add_kernel()),
                     reverse = load(reverse_kernel());
    const std::vector<CUdeviceptr> m = buffers();
    set("CHECK", "allocations");
    set("RESET_CALLS", "");
    set("DROP_EDGE", std::to_string(edge));
    const auto violations = stat("violations");
    {
      GraphBuilder g(api);
      const Diamond diamond(g, context, fill, add, reverse, m);
      EXPECT_EQ(stat("edges"), Diamond::kEdges);
      ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
      EXPECT_EQ(synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    EXPECT_EQ(stat("violations"), violations + 1);
    EXPECT_NE(log().find("dropped: edge " + std::to_string(edge)), std::string::npos) << log();
    EXPECT_NE(log().find("no path of the graph orders them"), std::string::npos) << log();
    TearDown();
    SetUp();
    if (HasFatalFailure()) return;
  }
}

TEST_F(Graphs, WritesBeyondABufferAreFound) {
  struct Case {
    int by;
    const char* said;  // "": nothing is wrong
  };
  const int end = kNodeCount - kGroup;
  for (const Case& c :
       {Case{0, ""}, Case{end, ""}, Case{end + 1, "0 bytes behind allocation"},
        Case{end + 70, "24 bytes behind allocation"}, Case{-1, "4 bytes before allocation"}}) {
    SCOPED_TRACE(c.by);
    const CUfunction shifted = load(shifted_kernel());
    const CUdeviceptr y = allocate(kNodeBytes);
    {
      GraphBuilder g(api);
      g.kernel(shifted, {y}, kGroup, static_cast<uint32_t>(c.by), {});
      g.instantiate();
      ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
      EXPECT_EQ(synchronize(), *c.said == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    EXPECT_NE(log().find(c.said), std::string::npos) << log();
    EXPECT_EQ(log().find("kernel k_shifted wrote") == std::string::npos, *c.said == 0) << log();
    TearDown();
    SetUp();
    if (HasFatalFailure()) return;
  }
}

TEST_F(Graphs, MemoryBeginsPoisoned) {
  for (const float v : read(allocate(kNodeBytes), kNodeCount)) EXPECT_TRUE(std::isnan(v));
}

/// The second run writes half of what it reads: the other half is not what the first one left.
TEST_F(Graphs, EarlierResultsAreGone) {
  const CUfunction fill = load(fill_kernel()), add = load(add_kernel());
  for (const bool poison : {true, false}) {
    set("POISON", poison ? "1" : "0");
    const CUdeviceptr x = allocate(kNodeBytes), y = allocate(kNodeBytes);
    GraphBuilder g(api);
    const CUgraphNode first = g.kernel(fill, {x}, kNodeCount, bits_of(5), {});
    g.kernel(add, {x, y}, kNodeCount, 0, {first});
    g.instantiate();
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(read(y, kNodeCount), std::vector<float>(kNodeCount, 6));
    ASSERT_EQ(g.update(first, fill, {x}, kNodeCount / 2, bits_of(7)), CUDA_SUCCESS);
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    const std::vector<float> second = read(y, kNodeCount);
    EXPECT_EQ(second[kNodeCount / 2 - 1], 8);
    EXPECT_EQ(std::isnan(second[kNodeCount / 2]), poison);
  }
}

/// Nodes that are given another part of an allocation leave what they wrote into the first one.
TEST_F(Graphs, ResultsInOtherPartsAreKept) {
  const CUfunction fill = load(fill_kernel()), add = load(add_kernel());
  const CUdeviceptr x = allocate(2 * kNodeBytes), y = allocate(kNodeBytes);
  GraphBuilder g(api);
  const CUgraphNode first = g.kernel(fill, {x}, kNodeCount, bits_of(5), {});
  const CUgraphNode second = g.kernel(add, {x, y}, kNodeCount, 0, {first});
  g.instantiate();
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  ASSERT_EQ(g.update(first, fill, {x + kNodeBytes}, kNodeCount, bits_of(7)), CUDA_SUCCESS);
  ASSERT_EQ(g.update(second, add, {x + kNodeBytes, y}, kNodeCount, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  EXPECT_EQ(read(x, 1)[0], 5);
  EXPECT_EQ(read(x + kNodeBytes, 1)[0], 7);
  EXPECT_EQ(read(y, 1)[0], 8);
}

/// What a run keeps for the next one was written by the host: it stays.
TEST_F(Graphs, StatesAreKept) {
  const CUfunction add = load(add_kernel());
  const CUdeviceptr state = allocate(kNodeBytes), next = allocate(kNodeBytes);
  write(state, std::vector<float>(kNodeCount, 0));
  GraphBuilder g(api);
  const CUgraphNode node = g.kernel(add, {state, next}, kNodeCount, 0, {});
  g.copy(state, next, kNodeBytes, {node}, context);
  g.instantiate();
  for (int run = 1; run < 4; ++run) {
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(read(state, 1)[0], static_cast<float>(run));
  }
}

/// Parameters are copied at the call, and a launch takes them as they are at its call.
TEST_F(Graphs, UpdatesAreForLaterLaunches) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr a = allocate(kNodeBytes), b = allocate(kNodeBytes);
  GraphBuilder g(api);
  const CUgraphNode node = g.kernel(fill, {a}, kNodeCount, bits_of(1), {});
  g.instantiate();
  set("HOLD", "1");
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  ASSERT_EQ(g.update(node, fill, {b}, kNodeCount, bits_of(2)), CUDA_SUCCESS);
  set("HOLD", "");
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  ASSERT_EQ(synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(read(a, 1)[0], 1);
  EXPECT_EQ(read(b, 1)[0], 2);
  write(b, {0});
  ASSERT_EQ(api.cuGraphNodeSetEnabled(g.exec(), node, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  EXPECT_EQ(read(b, 1)[0], 0);
}

/// As on a real driver, the graph may go before what was made from it.
TEST_F(Graphs, InstancesOutliveTheirGraph) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr a = allocate(kNodeBytes);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(api.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  const Params p(fill, {a}, kNodeCount, bits_of(3));
  ASSERT_EQ(api.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &p.params), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(api.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(read(a, 1)[0], 3);
  EXPECT_EQ(api.cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(Graphs, EventsTellTheTimeOfNodes) {
  const CUfunction fill = load(fill_kernel());
  const CUdeviceptr a = allocate(kNodeBytes);
  CUevent before = nullptr, after = nullptr;
  ASSERT_EQ(api.cuEventCreate(&before, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(api.cuEventCreate(&after, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  float ms = -1;
  EXPECT_EQ(api.cuEventQuery(before), CUDA_SUCCESS);
  EXPECT_EQ(api.cuEventElapsedTime(&ms, before, after), CUDA_ERROR_INVALID_HANDLE);
  {
    GraphBuilder g(api);
    CUgraphNode start = nullptr, end = nullptr;
    ASSERT_EQ(api.cuGraphAddEventRecordNode(&start, g.graph(), nullptr, 0, before), CUDA_SUCCESS);
    const CUgraphNode kernel = g.kernel(fill, {a}, kNodeCount, 0, {start});
    ASSERT_EQ(api.cuGraphAddEventRecordNode(&end, g.graph(), &kernel, 1, after), CUDA_SUCCESS);
    g.instantiate();
    set("HOLD", "1");
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(api.cuEventQuery(after), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(api.cuEventElapsedTime(&ms, before, after), CUDA_ERROR_NOT_READY);
    set("HOLD", "");
    ASSERT_EQ(api.cuEventSynchronize(after), CUDA_SUCCESS);
    EXPECT_EQ(api.cuEventQuery(after), CUDA_SUCCESS);
    ASSERT_EQ(api.cuEventElapsedTime(&ms, before, after), CUDA_SUCCESS);
    EXPECT_GE(ms, 0);
    EXPECT_EQ(synchronize(), CUDA_SUCCESS);
  }
  EXPECT_EQ(api.cuEventDestroy_v2(before), CUDA_SUCCESS);
  EXPECT_EQ(api.cuEventDestroy_v2(after), CUDA_SUCCESS);
}

/// Edges by which a kernel may begin before another has ended.
class EarlyEdges : public Graphs {
 protected:
  static constexpr CUgraphEdgeData kEarly{
      CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  CUresult add(const GraphBuilder& g, CUgraphNode from, CUgraphNode to,
               const CUgraphEdgeData* data) {
    return api.cuGraphAddDependencies_v2(g.graph(), &from, &to, data, 1);
  }
  static kernel::Kernel early(kernel::Kernel k) {
    kernel::begin_early(k);
    return k;
  }
};

TEST_F(EarlyEdges, OrderAccesses) {
  const CUfunction fill = load(fill_kernel()), add_one = load(early(add_kernel()));
  const std::vector<CUdeviceptr> m = buffers();
  set("CHECK", "bytes");
  for (const char* order : {"mixed", "sinks", "random", "reverse"}) {
    set("ORDER", order);
    GraphBuilder g(api);
    const CUgraphNode first = g.kernel(fill, {m[0]}, kNodeCount, bits_of(5), {});
    const CUgraphNode second = g.kernel(add_one, {m[0], m[1]}, kNodeCount, 0, {});
    ASSERT_EQ(add(g, first, second, &kEarly), CUDA_SUCCESS);
    g.instantiate();
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    ASSERT_EQ(synchronize(), CUDA_SUCCESS) << log();
    EXPECT_EQ(read(m[1], kNodeCount), std::vector<float>(kNodeCount, 6));
  }
}

TEST_F(EarlyEdges, NeedAKernelThatWaits) {
  const CUfunction fill = load(fill_kernel()), add_one = load(add_kernel());
  const std::vector<CUdeviceptr> m = buffers();
  GraphBuilder g(api);
  const CUgraphNode first = g.kernel(fill, {m[0]}, kNodeCount, bits_of(5), {});
  const CUgraphNode second = g.kernel(add_one, {m[0], m[1]}, kNodeCount, 0, {});
  ASSERT_EQ(add(g, first, second, &kEarly), CUDA_SUCCESS);
  g.instantiate();
  ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
  EXPECT_EQ(synchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(log().find("invocations of a workgroup do not await them"), std::string::npos) << log();
}

TEST_F(EarlyEdges, AreBetweenKernelsAlone) {
  const CUfunction fill = load(fill_kernel());
  const std::vector<CUdeviceptr> m = buffers();
  GraphBuilder g(api);
  const CUgraphNode kernel = g.kernel(fill, {m[0]}, kNodeCount, 0, {});
  const CUgraphNode copy = g.copy(m[1], m[0], kNodeBytes, {}, context);
  EXPECT_EQ(add(g, kernel, copy, &kEarly), CUDA_ERROR_INVALID_VALUE);
  CUgraphEdgeData odd = kEarly;
  odd.reserved[4] = 1;
  const CUgraphNode other = g.kernel(fill, {m[2]}, kNodeCount, 0, {});
  EXPECT_EQ(add(g, kernel, other, &odd), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(g, kernel, copy, nullptr), CUDA_SUCCESS);
  const uint64_t misuses = stat("misuses");
  EXPECT_EQ(add(g, kernel, copy, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(stat("misuses"), misuses + 1);
}

TEST_F(EarlyEdges, HaveNoDisabledEnds) {
  const CUfunction fill = load(fill_kernel()), add_one = load(early(add_kernel()));
  const std::vector<CUdeviceptr> m = buffers();
  GraphBuilder g(api);
  const CUgraphNode first = g.kernel(fill, {m[0]}, kNodeCount, 0, {});
  const CUgraphNode second = g.kernel(add_one, {m[0], m[1]}, kNodeCount, 0, {});
  ASSERT_EQ(add(g, first, second, &kEarly), CUDA_SUCCESS);
  g.instantiate();
  const uint64_t misuses = stat("misuses");
  for (const CUgraphNode node : {first, second})
    EXPECT_EQ(api.cuGraphNodeSetEnabled(g.exec(), node, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(stat("misuses"), misuses + 2);
}

}  // namespace
}  // namespace reprise::test
