// Kernels that differ in numbers only are one kernel, which computes what each of them did.
#include "codegen/kernel/ir/share.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

struct Numbers {
  int32_t stride = 3;
  int32_t count = 20;
  int32_t divisor = 5;
  float scale = 2;
  float shift = 0.5F;
};

/// y[i] = sum over k < count of (x[i * stride + k / divisor] * scale + shift).
Kernel kernel_of(const Numbers& n, const std::string& name = "k") {
  Builder b(name);
  b.set_workgroup(4);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int sum = b.local("sum", kF32);
  b.local_store(sum, b.f32(0));
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.for_loop(b.i32(0), b.i32(n.count), b.i32(1), [&](Val k) {
    const Val at = b.add(b.mul(i, b.i32(n.stride)), b.div(k, b.i32(n.divisor)));
    const Val v = b.add(b.mul(b.load(x, at), b.f32(n.scale)), b.f32(n.shift));
    b.local_store(sum, b.add(b.local_load(sum), v));
  });
  b.store(y, i, b.local_load(sum));
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return {};
  EXPECT_TRUE(legalize(*k, {}).ok());
  return std::move(*k);
}

std::vector<float> run(const Kernel& k, const std::vector<int32_t>& scalars) {
  std::vector<float> x(64), y(8, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.25F;
  Launch launch;
  launch.grid = {2, 1, 1};
  launch.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  for (const int32_t s : scalars) launch.scalars.push_back(static_cast<uint32_t>(s));
  const auto outcome = interpret(k, launch);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message() << print(k);
  return y;
}

SharedKernels shared(const std::vector<Kernel>& all) {
  auto s = share(all);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : SharedKernels{};
}

TEST(Share, EqualKernelsAreOneWithoutParameters) {
  const SharedKernels s = shared({kernel_of({}), kernel_of({}, "other_name")});
  ASSERT_EQ(s.kernels.size(), 1U);
  EXPECT_TRUE(s.kernels[0].scalars.empty());
  EXPECT_EQ(s.uses[1].kernel, 0U);
}

TEST(Share, NumbersBecomeParameters) {
  Numbers other;
  other.stride = 7;
  other.count = 35;
  other.scale = -1.25F;
  other.shift = 1e-3F;
  const std::vector<Kernel> all{kernel_of({}), kernel_of(other), kernel_of({})};
  const SharedKernels s = shared(all);
  ASSERT_EQ(s.kernels.size(), 1U) << print(all[0]) << print(all[1]);
  EXPECT_EQ(s.kernels[0].scalars.size(), 4U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(run(s.kernels[0], s.uses[i].scalars), run(all[i], {})) << i;
  }
}

TEST(Share, WhatDecidesTheCodeStaysApart) {
  Numbers divisor;
  divisor.divisor = 4;
  EXPECT_EQ(shared({kernel_of({}), kernel_of(divisor)}).kernels.size(), 2U);
  Numbers few, fewer;
  few.count = 3;
  fewer.count = 2;
  EXPECT_EQ(shared({kernel_of(few), kernel_of(fewer)}).kernels.size(), 2U);
  Numbers one;
  one.stride = 1;  // no multiplication is left
  EXPECT_EQ(shared({kernel_of({}), kernel_of(one)}).kernels.size(), 2U);
}

TEST(Share, MatricesOfAnotherShapeAreAnotherKernel) {
  const auto zeros = [](uint32_t size) {
    Builder b("zeros");
    b.set_workgroup(8);
    b.require_subgroup_size(8);
    b.matrix_zero(b.matrix("sum", MatrixUse::Sum, Ty::F32, size, size));
    auto k = b.finish();
    EXPECT_TRUE(k.ok()) << k.status().message();
    return k.ok() ? std::move(*k) : Kernel{};
  };
  EXPECT_EQ(shared({zeros(8), zeros(8)}).kernels.size(), 1U);
  EXPECT_EQ(shared({zeros(8), zeros(16)}).kernels.size(), 2U);
}

TEST(Share, InterfacesMustBeEqual) {
  const auto with = [](uint32_t workgroup, uint32_t columns, uint32_t shared) {
    Builder b("k");
    b.set_workgroup(workgroup);
    b.require_subgroup_size(8);
    const int y = b.buffer("y", Ty::F32, Access::Write);
    const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, 8, columns);
    const int result = b.shared("result", Ty::F32, shared);
    b.matrix_zero(sum);
    b.matrix_store(sum, result, b.i32(0), 16);
    b.barrier();
    const Val lane = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.store(y, lane, b.shared_load(result, lane));
    auto k = b.finish();
    EXPECT_TRUE(k.ok()) << k.status().message();
    return k.ok() ? std::move(*k) : Kernel{};
  };
  const Kernel k = with(8, 8, 128);
  EXPECT_EQ(shared({k, with(8, 8, 128)}).kernels.size(), 1U);
  EXPECT_EQ(shared({k, with(16, 8, 128), with(8, 16, 128), with(8, 8, 256)}).kernels.size(), 4U);
}

TEST(Share, NothingIsKeptOfNothing) {
  EXPECT_TRUE(shared({}).kernels.empty());
}

}  // namespace
}  // namespace reprise::kernel
