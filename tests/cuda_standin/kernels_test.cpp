// Kernels on the stand-in give the bits that the tests' plain way of running CUDA text gives, with
// any number of threads: optimised code, products of matrices in one exchange, workgroups that
// share the processor.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/kernel/build/builder.h"
#include "runtime/plan/block_layout.h"
#include "tests/cuda_shim/cuda_on_cpu.h"
#include "tests/cuda_standin/loaded_driver.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Kernel;
using kernel::Ty;
using kernel::Val;

constexpr uint32_t kThreads = 64, kGroups = 200;
constexpr size_t kElements = size_t{kThreads} * kGroups;

Kernel finish(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? *k : Kernel{};
}

Val as_int(Builder& b, Builtin what) {
  return b.convert(b.builtin(what), Ty::I32);
}

/// Sums and largest values of warps, and a rotation through shared memory.
Kernel reductions() {
  Builder b("reductions");
  b.set_workgroup(kThreads);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int tile = b.shared("tile", Ty::F32, kThreads);
  const Val i = as_int(b, Builtin::GlobalId), lane = as_int(b, Builtin::LocalIndex);
  const Val v = b.load(x, i);
  const Val sum = b.subgroup(kernel::SubgroupOp::Add, v);
  b.shared_store(tile, lane, b.sub(v, b.mul(sum, b.f32(0.03125F))));
  b.barrier();
  const Val other = b.shared_load(tile, b.sub(b.i32(kThreads - 1), lane));
  const Val largest = b.subgroup(kernel::SubgroupOp::Max, other);
  b.store(y, i, b.fma(other, largest, sum));
  return finish(b);
}

/// Each warp adds the product of two matrices, made of x, to a third.
Kernel matrices(Ty type) {
  constexpr int kSize = 16, kMatrix = kSize * kSize;
  const uint32_t depth = type == Ty::F32 ? 8 : kSize;
  Builder b("matrices_" + std::string(kernel::name_of(type)));
  b.set_workgroup(kThreads);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int halves = b.shared("halves", type, 4 * kMatrix);
  const int sums = b.shared("sums", Ty::F32, 2 * kMatrix);
  const int left = b.matrix("left", kernel::MatrixUse::Left, type, kSize, depth);
  const int right = b.matrix("right", kernel::MatrixUse::Right, type, depth, kSize);
  const int sum = b.matrix("sum", kernel::MatrixUse::Sum, Ty::F32, kSize, kSize);
  const Val lane = as_int(b, Builtin::LocalIndex), i = as_int(b, Builtin::GlobalId);
  const Val v = b.load(x, i);
  for (int n = 0; n < 4 * kMatrix / static_cast<int>(kThreads); ++n) {
    const Val at = b.add(lane, b.i32(n * static_cast<int>(kThreads)));
    const Val part = b.mul(v, b.f32(1.0F / static_cast<float>(n + 1)));
    b.shared_store(halves, at,
                   type == Ty::BF16 ? b.scalar_op(kernel::ScalarOp::RoundBF16, {part})
                                    : b.convert(part, type));
    if (n < 2 * kMatrix / static_cast<int>(kThreads)) b.shared_store(sums, at, v);
  }
  b.barrier();
  const Val first = b.mul(as_int(b, Builtin::SubgroupIndex), b.i32(kMatrix));
  b.matrix_load(left, halves, first, kSize);
  b.matrix_load(right, halves, b.add(first, b.i32(2 * kMatrix)), kSize, true);
  b.matrix_load(sum, sums, first, kSize);
  b.matrix_mul_add(sum, left, right);
  b.matrix_mul_add(sum, left, right);
  b.matrix_store(sum, sums, first, kSize);
  b.barrier();
  b.store(y, i, b.shared_load(sums, b.mul(lane, b.i32(7))));
  return finish(b);
}

/// What CudaOnCpu makes of it.
std::vector<float> expected(const Kernel& k, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const CudaSource source{k.name, cuda_text(k), k.workgroup};
  auto module = CudaOnCpu::load({&source, 1});
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return y;
  uint32_t error = 0;
  const uint64_t block[4] = {reinterpret_cast<uint64_t>(&error), 0,
                             reinterpret_cast<uint64_t>(x.data()),
                             reinterpret_cast<uint64_t>(y.data())};
  static_assert(sizeof block == plan::BlockLayout::size(2, 0));
  const Status ran = module->run(k.name, {kGroups, 1, 1}, block);
  EXPECT_TRUE(ran.ok()) << ran.message();
  return y;
}

class Kernels : public StandinTest {};

TEST_F(Kernels, GiveTheSameBits) {
  std::vector<float> x(kElements);
  for (size_t n = 0; n < x.size(); ++n) x[n] = std::sin(static_cast<float>(n) * 0.37F) * 3;
  for (const char* check : {"zones", "bytes"}) {
    set("CHECK", check);
    for (const Kernel& k :
         {reductions(), matrices(Ty::F16), matrices(Ty::BF16), matrices(Ty::F32)}) {
      SCOPED_TRACE(k.name + " " + check);
      const std::vector<float> wanted = expected(k, x);
      const CUfunction f = load(k);
      const CUdeviceptr from = allocate(4 * kElements), to = allocate(4 * kElements);
      write(from, x);
      GraphBuilder g(api);
      g.kernel(f, {from, to}, kElements, 0, {});
      g.instantiate();
      for (int run = 0; run < 5; ++run) {
        ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
        const std::vector<float> got = read(to, kElements);
        ASSERT_EQ(synchronize(), CUDA_SUCCESS) << log();
        ASSERT_EQ(got, wanted) << "run " << run;
      }
    }
  }
}

/// A barrier that some invocations do not reach would hang a device. Every workgroup of two nodes
/// has one, on any number of threads: it is said once.
TEST_F(Kernels, BarriersAreForAll) {
  std::string text = cuda_text(reverse_kernel());
  const std::string barrier = "__syncthreads();";
  text.replace(text.find(barrier), barrier.size(), "if (threadIdx.x < 7u) __syncthreads();");
  const auto image = image_of(ptx(80), text);
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  ASSERT_EQ(api.cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(api.cuModuleGetFunction(&f, module, "k_reverse"), CUDA_SUCCESS);
  const CUdeviceptr x = allocate(4 * kElements), y = allocate(4 * kElements);
  const auto violations = stat("violations");
  {
    GraphBuilder g(api);
    const CUgraphNode first = g.kernel(f, {x, y}, kElements, 0, {});
    g.kernel(f, {x, y}, kElements, 0, {first});
    g.instantiate();
    ASSERT_EQ(api.cuGraphLaunch(g.exec(), stream), CUDA_SUCCESS);
    EXPECT_EQ(synchronize(), CUDA_ERROR_LAUNCH_FAILED);
  }
  EXPECT_NE(log().find("kernel k_reverse: a barrier or shuffle that only some"), std::string::npos)
      << log();
  EXPECT_EQ(stat("violations"), violations + 1) << log();
}

}  // namespace
}  // namespace reprise::test
