// Where CUDA text has fences between stores to shared memory and the asynchronous products of
// teams.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::test {
namespace {

using kernel::MatrixUse;
using kernel::TeamOperands;
using kernel::Ty;

enum Array : uint8_t { kPlain, kLeft, kRight };  // in the order of the kernel's shared arrays

/// The fences of a kernel that stores to an array and multiplies, after a barrier. Its left operand
/// is `kLeft` or, if it is held, a matrix that has the number of `kPlain`.
size_t fences(bool held, Array stored) {
  kernel::Builder b("product");
  b.set_workgroup(2 * kernel::kTeamSubgroups * 32);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F16, kernel::Access::Read);
  b.shared("plain", Ty::F16, 64 * 64);
  b.shared("left", Ty::F16, 64 * 64, Swizzle::B128);
  b.shared("right", Ty::F16, 64 * 64, Swizzle::B128);
  const int left = b.matrix("left", MatrixUse::Left, Ty::F16, 64, 16, MmaScope::Team);
  const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, 64, 64, MmaScope::Team);
  EXPECT_EQ(left, int{kPlain});
  b.role({"multiply", 1, kernel::kTeamSubgroups, 0});
  b.role({"idle", 1, 1, 0});
  TeamOperands p;
  p.sum = static_cast<uint16_t>(sum);
  p.count = 1;
  p.held = held;
  p.left = {static_cast<uint16_t>(held ? left : int{kLeft}), true, 0};
  p.right = {kRight, true, 0};
  const auto multiply = [&] {
    const kernel::Val at =
        b.mul(b.convert(b.builtin(kernel::Builtin::LocalIndex), Ty::I32), b.i32(8));
    b.shared_store(stored, at, b.load(x, at, 8, 8));
    b.barrier(kernel::BarrierScope::Team);
    b.matrix_zero(sum);
    if (held) b.matrix_convert(left, sum);
    b.team_mul_add(p, held ? kernel::Val{} : b.i32(0), b.i32(0));
    b.matrix_commit();
    b.matrix_await(0);
  };
  const std::function<void()> bodies[] = {multiply, [] {}};
  b.run_roles(bodies);
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  const Status s = kernel::legalize(*k, {});
  EXPECT_TRUE(s.ok()) << s.message();
  const auto text = emit::cuda(*k);
  if (!text.ok()) {
    ADD_FAILURE() << text.status().message();
    return ~size_t{0};
  }
  size_t found = 0;
  const std::string call = "rp_async_fence();";
  for (size_t at = 0; (at = text->find(call, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(AsyncFences, FollowStoresToOperands) {
  for (const Array stored : {kLeft, kRight}) EXPECT_EQ(fences(false, stored), 1U);
  EXPECT_EQ(fences(false, kPlain), 0U);
}

/// The number of a held operand is that of a matrix, not of an array.
TEST(AsyncFences, HeldOperandsAreNoArrays) {
  EXPECT_EQ(fences(true, kRight), 1U);
  EXPECT_EQ(fences(true, kPlain), 0U);
  EXPECT_EQ(fences(true, kLeft), 0U);
}

}  // namespace
}  // namespace reprise::test
