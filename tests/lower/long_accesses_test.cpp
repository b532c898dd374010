// On GPUs, kernels of narrow types access 16 bytes at a time where elements are neighbours, and
// compute what the host does.
#include <gtest/gtest.h>

#include "codegen/compile/targets.h"
#include "tests/lower/group_on_interpreter.h"

namespace reprise {
namespace {

/// How many loads and stores of 16 bytes the kernels have, of buffers with narrow elements or of
/// the words that they became, and how many of shared arrays.
struct LongAccesses {
  int loads = 0, stores = 0, shared_stores = 0;
};

LongAccesses long_accesses(const lower::Lowered& l) {
  LongAccesses n;
  for (const lower::LoweredLaunch& launch : l.launches) {
    const kernel::Kernel& k = launch.kernel;
    const auto type = [&](kernel::Val v) { return k.insts[static_cast<size_t>(v.id)].type; };
    for (const kernel::Inst& i : k.insts) {
      if (i.op == kernel::Op::SharedStore) n.shared_stores += kernel::is_long(type(i.args[1]));
      if (i.op != kernel::Op::Load && i.op != kernel::Op::Store) continue;
      const kernel::Type t = i.op == kernel::Op::Load ? i.type : type(i.args[1]);
      const bool all = t.lanes * kernel::byte_size(k.buffers[i.imm].storage) == 16;
      const bool narrow = kernel::is_long(t) || k.buffers[i.imm].storage == kernel::Ty::U32;
      if (all && narrow) ++(i.op == kernel::Op::Load ? n.loads : n.stores);
    }
  }
  return n;
}

/// What the first candidate of the schedule accesses.
LongAccesses accesses_of(test::GroupOnInterpreter& model, const lower::Target& target,
                         const std::string& schedule) {
  std::vector<LongAccesses> all;
  model.run(target, schedule, [&](const auto& l) { all.push_back(long_accesses(l)); });
  return all.empty() ? LongAccesses{} : all.front();
}

lower::Target target_of(const std::string& name) {
  const auto found = parse_targets({name});
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? found->front() : lower::Target{};
}

constexpr const char* kGpus[] = {"cuda:sm_80", "vulkan-matrix"};

TEST(LongAccesses, OfPointwiseKernels) {
  test::GroupOnInterpreter halves(
      "graph g\ninput x: float16[32,1024]\ninput y: float16[32,1024]\n"
      "z = Add(x, y) @14\noutput z\n",
      DType::F16);
  test::GroupOnInterpreter bytes("graph g\ninput x: uint8[64,1024]\nz = Sub(x, x) @14\noutput z\n",
                                 DType::U8);
  for (const char* name : kGpus) {
    SCOPED_TRACE(name);
    const LongAccesses h =
        accesses_of(halves, target_of(name), "pointwise v4 x8 strided, 2 joined");
    EXPECT_EQ(h.loads, 8);
    EXPECT_EQ(h.stores, 4);
    const LongAccesses b =
        accesses_of(bytes, target_of(name), "pointwise v4 x16 strided, 4 joined");
    EXPECT_EQ(b.stores, 4);
  }
}

/// fp16 matrices, of which A has a prologue, so that it is not copied as it is.
std::string product(const std::string& b) {
  return "graph g\ninput a: float16[128,64]\n" + b +
         "r = Relu(a) @14\ny = MatMul(r, b) @13\noutput y\n";
}

TEST(LongAccesses, OfCooperativeTiles) {
  test::GroupOnInterpreter rows(product("input b: float16[64,128]\n"), DType::F16);
  test::GroupOnInterpreter columns(
      product("input c: float16[128,64]\nb = Transpose<perm=[1, 0]>(c) @13\n"), DType::F16);
  for (const char* name : kGpus) {
    SCOPED_TRACE(name);
    const bool splits = std::string(name).starts_with("vulkan");
    for (test::GroupOnInterpreter* of : {&rows, &columns}) {
      const LongAccesses n = accesses_of(*of, target_of(name), "cooperative matrix tile");
      EXPECT_GT(n.loads, 1);
      EXPECT_EQ(n.shared_stores > 0, !splits);
    }
  }
}

TEST(LongAccesses, NotOnDevicesOfTheCpuType) {
  test::GroupOnInterpreter halves(
      "graph g\ninput x: float16[32,1024]\nz = Add(x, x) @14\noutput z\n", DType::F16);
  EXPECT_EQ(accesses_of(halves, target_of("vulkan-cpu-sg8"), "pointwise").stores, 0);
}

}  // namespace
}  // namespace reprise
