// CHECK=bytes: accesses beyond what a node was given, and bytes that two nodes share without order.
#include <gtest/gtest.h>

#include "codegen/kernel/build/builder.h"
#include "tests/cuda_standin/loaded_driver.h"

namespace reprise::test {
namespace {

constexpr size_t kCheckedCount = 4 * kGroup;
constexpr size_t kCheckedBytes = 4 * kCheckedCount;

class Bytes : public StandinTest {
 protected:
  void SetUp() override {
    StandinTest::SetUp();
    set("CHECK", "bytes");  // modules are compiled for it
  }
  /// Runs a graph, and begins again after a fault.
  void expect(GraphBuilder& g, const std::string& said) {
    g.instantiate();
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(synchronize(), said.empty() ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS) << log();
    EXPECT_NE(log().find(said), std::string::npos) << log();
    EXPECT_TRUE(!said.empty() || log().empty()) << log();
  }
  void again() {
    TearDown();
    SetUp();
  }
};

/// y[i] = x[i + by]
kernel::Kernel read_shifted() {
  using kernel::Access;
  using kernel::Ty;
  kernel::Builder b("read_shifted");
  b.set_workgroup(kGroup);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const kernel::Val i = b.convert(b.builtin(kernel::Builtin::GlobalId), Ty::I32);
  b.store(y, i, b.load(x, b.add(i, b.param(b.scalar("by")))));
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return *k;
}

TEST_F(Bytes, EveryAccessLiesWithinItsBuffers) {
  struct Case {
    bool writes;
    int by;
    const char* said;
  };
  const int end = kCheckedCount - kGroup;
  for (const Case& c :
       {Case{true, 0, ""}, Case{true, end, ""},
        Case{true, end + 1, "kernel k_shifted (node 0) writes 4 bytes 0 behind allocation"},
        Case{true, -1, "kernel k_shifted (node 0) writes 4 bytes 4 before allocation"},
        Case{true, 1 << 20, "kernel k_shifted (node 0) writes 4 bytes "}, Case{false, end, ""},
        Case{false, end + 1, "kernel k_read_shifted (node 0) reads 4 bytes 0 behind allocation"},
        Case{false, -3, "kernel k_read_shifted (node 0) reads 4 bytes 12 before allocation"}}) {
    SCOPED_TRACE(std::string(c.writes ? "writes " : "reads ") + std::to_string(c.by));
    const CUfunction f = load(c.writes ? shifted_kernel() : read_shifted());
    const CUdeviceptr x = allocate(kCheckedBytes), y = allocate(kCheckedBytes);
    {
      GraphBuilder g(api);
      const std::vector<CUdeviceptr> buffers =
          c.writes ? std::vector<CUdeviceptr>{y} : std::vector<CUdeviceptr>{x, y};
      g.kernel(f, buffers, kGroup, static_cast<uint32_t>(c.by), {});
      expect(g, c.said);
    }
    again();
    if (HasFatalFailure()) return;
  }
}

/// Barriers and shared memory are seen through, too.
TEST_F(Bytes, FibersAreChecked) {
  const CUfunction reverse = load(reverse_kernel());
  const CUdeviceptr x = allocate(kCheckedBytes), y = allocate(kCheckedBytes);
  write(x, std::vector<float>(kCheckedCount, 2));
  {
    GraphBuilder g(api);
    g.kernel(reverse, {x, y}, kCheckedCount, 0, {});
    expect(g, "");
    EXPECT_EQ(read(y, kCheckedCount), std::vector<float>(kCheckedCount, 2));
  }
  GraphBuilder g(api);
  g.kernel(reverse, {x, y}, kCheckedCount + kGroup, 0, {});
  expect(g, "kernel k_reverse (node 0) reads 4 bytes 0 behind allocation");
  again();
}

/// Two tensors in one allocation, as an arena has them: only bytes that are shared need order.
TEST_F(Bytes, SharedBytesNeedAnOrder) {
  struct Case {
    const char* what;
    bool edge;
    size_t apart;  // bytes between what the two nodes use
    bool both_write;
    const char* said;
  };
  for (const Case& c :
       {Case{"apart", false, kCheckedBytes, true, ""}, Case{"ordered", true, 0, true, ""},
        Case{"two writers", false, 0, true, "wrote, and no path of the graph orders them"},
        Case{"half", false, kCheckedBytes / 2, true, "wrote, and no path of the graph orders them"},
        Case{"a writer and a reader", false, 0, false, "no path of the graph orders them"},
        Case{"a reader apart", false, kCheckedBytes, false, ""}}) {
    for (const char* order : {"creation", "reverse"}) {
      SCOPED_TRACE(std::string(c.what) + ", " + order);
      set("ORDER", order);
      const CUfunction fill = load(fill_kernel()), add = load(add_kernel());
      const CUdeviceptr arena = allocate(3 * kCheckedBytes), other = allocate(kCheckedBytes);
      {
        GraphBuilder g(api);
        const CUgraphNode first = g.kernel(fill, {arena}, kCheckedCount, bits_of(1), {});
        const std::vector<CUgraphNode> after =
            c.edge ? std::vector<CUgraphNode>{first} : std::vector<CUgraphNode>{};
        if (c.both_write) {
          g.kernel(fill, {arena + c.apart}, kCheckedCount, bits_of(2), after);
        } else {
          g.kernel(add, {arena + c.apart, other}, kCheckedCount, 0, after);
        }
        expect(g, c.said);
      }
      again();
      if (HasFatalFailure()) return;
    }
  }
}

/// A writer after two readers that nothing orders has to come after both.
TEST_F(Bytes, WritersWaitForAllReaders) {
  for (const int missing : {0, 1, 2}) {
    SCOPED_TRACE(missing);
    const CUfunction fill = load(fill_kernel()), add = load(add_kernel());
    const CUdeviceptr x = allocate(kCheckedBytes), a = allocate(kCheckedBytes),
                      b = allocate(kCheckedBytes);
    {
      GraphBuilder g(api);
      const CUgraphNode first = g.kernel(fill, {x}, kCheckedCount, 0, {});
      const CUgraphNode one = g.kernel(add, {x, a}, kCheckedCount, 0, {first});
      const CUgraphNode two = g.kernel(add, {x, b}, kCheckedCount, 0, {first});
      std::vector<CUgraphNode> after;
      if (missing != 1) after.push_back(one);
      if (missing != 2) after.push_back(two);
      set("ORDER", "creation");
      if (missing == 0) {
        g.copy(x, a, kCheckedBytes, after, context);
      } else {
        g.kernel(fill, {x}, kCheckedCount, 0, after);
      }
      expect(g, missing == 0 ? "" : "read, and no path of the graph orders them");
    }
    again();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace reprise::test
