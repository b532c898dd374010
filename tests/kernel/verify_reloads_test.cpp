#include "codegen/kernel/check/verify_reloads.h"

#include <gtest/gtest.h>

#include <functional>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

/// A kernel in which invocation `row` of 8 stores row `row` of y in one loop over 4 columns, and
/// loads in a second one.
struct Reload {
  const char* what;
  bool own;
  std::function<Val(Builder& b, Val row, Val column, Val from_x)> index;
};

const Reload kReloads[] = {
    {"the same element", true,
     [](Builder& b, Val row, Val c, Val) { return b.add(b.mul(row, b.i32(4)), c); }},
    {"the transposed element", false,
     [](Builder& b, Val row, Val c, Val) { return b.add(b.mul(c, b.i32(8)), row); }},
    {"the next element", false,
     [](Builder& b, Val row, Val c, Val) {
       return b.add(b.add(b.mul(row, b.i32(4)), c), b.i32(1));
     }},
    {"an element that data decides", false, [](Builder&, Val, Val, Val from_x) { return from_x; }},
};

Kernel kernel_of(const Reload& reload, int last_column) {
  Builder b("rows");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::I32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::ReadWrite);
  const int z = b.buffer("z", Ty::F32, Access::Write);
  const Val row = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.for_loop(b.i32(0), b.i32(4), b.i32(1),
             [&](Val c) { b.store(y, b.add(b.mul(row, b.i32(4)), c), b.convert(c, Ty::F32)); });
  b.for_loop(b.i32(0), b.i32(last_column), b.i32(1), [&](Val c) {
    const Val at = b.add(b.mul(row, b.i32(4)), c);
    b.store(z, at, b.load(y, reload.index(b, row, c, b.load(x, at))));
  });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return *k;
}

TEST(VerifyReloads, AcceptsOnlyWhatTheInvocationStored) {
  for (const Reload& reload : kReloads) {
    const Status s = verify_reloads(kernel_of(reload, 4));
    EXPECT_EQ(s.ok(), reload.own) << reload.what;
    if (reload.own) continue;
    EXPECT_EQ(s.code(), Code::Internal);
    EXPECT_NE(s.message().find("'y'"), std::string::npos) << s.message();
  }
}

TEST(VerifyReloads, LoopsOverOtherRangesHaveOtherElements) {
  EXPECT_FALSE(verify_reloads(kernel_of(kReloads[0], 5)).ok());
}

TEST(VerifyReloads, StoresComeFirst) {
  Builder b("too_early");
  b.set_workgroup(8);
  const int y = b.buffer("y", Ty::F32, Access::ReadWrite);
  const int z = b.buffer("z", Ty::F32, Access::Write);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.store(z, i, b.load(y, i));
  b.store(y, i, b.f32(1));
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_FALSE(verify_reloads(*k).ok());
}

}  // namespace
}  // namespace reprise::kernel
