// Scalar loads become vector loads only where every element of the vector is known to exist.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

struct Loads {
  int scalars = 0, vectors = 0;
};

Loads count(const Kernel& k) {
  Loads n;
  for (const Inst& i : k.insts) {
    if (i.op == Op::Load) ++(i.type.lanes == 1 ? n.scalars : n.vectors);
  }
  return n;
}

/// A kernel that adds x[base + offset] for all offsets, with the base a multiple of `divisor`.
Loads coalesced(const std::vector<int>& offsets, int divisor, Access access = Access::Read,
                Ty storage = Ty::F32) {
  Builder b("k");
  b.set_workgroup(1);
  const int x = b.buffer("x", storage, access);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val id = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Val base = b.mul(id, b.i32(divisor));
  Val sum = b.f32(0);
  for (const int o : offsets) {
    const Val v = b.load(x, b.add(base, b.i32(o)));
    sum = b.add(sum, b.type(v).ty == Ty::F32 ? v : b.convert(v, Ty::F32));
  }
  b.store(y, id, sum);
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return {};
  const Status s = coalesce_loads(*k);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(*k).ok()) << verify(*k).message();
  return count(*k);
}

void expect(const Loads& n, int scalars, int vectors) {
  EXPECT_EQ(n.scalars, scalars);
  EXPECT_EQ(n.vectors, vectors);
}

TEST(Coalesce, FourNeighboursAreOneVector) {
  expect(coalesced({0, 1, 2, 3}, 8), 0, 1);
  expect(coalesced({3, 0, 2, 1, 0}, 4), 0, 1);
  expect(coalesced({4, 5, 6, 7, 0, 1, 2, 3}, 8), 0, 2);
  expect(coalesced({0, 1, 2, 3}, 4, Access::Read, Ty::U8), 0, 1);
}

TEST(Coalesce, TheBaseMustBeProvenToBeAligned) {
  expect(coalesced({0, 1, 2, 3}, 2), 4, 0);
  expect(coalesced({1, 2, 3, 4}, 6), 4, 0);
}

TEST(Coalesce, EdgesStayScalarWhereTheVectorMightLeaveTheBuffer) {
  // -1 is the last element of its vector, 4 the first one of its own.
  expect(coalesced({-1, 0, 1, 2, 3, 4}, 8), 2, 1);
  expect(coalesced({1, 2}, 8), 2, 0);
  // Elements that nobody reads lie between others that are read: they exist.
  expect(coalesced({0, 2, 5, 7}, 8), 0, 2);
  // One element alone needs no vector.
  expect(coalesced({0, 5, 11}, 8), 3, 0);
}

TEST(Coalesce, WrittenBuffersAndWideElementsStay) {
  expect(coalesced({0, 1, 2, 3}, 8, Access::ReadWrite), 4, 0);
  expect(coalesced({0, 1, 2, 3}, 8, Access::Read, Ty::I64), 4, 0);
}

TEST(Coalesce, BranchesDoNotLendTheirLoads) {
  Builder b("k");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val id = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Val base = b.mul(id, b.i32(4));
  b.store(y, id, b.load(x, base));
  b.if_then(b.lt(id, b.i32(1)), [&] {
    const Val pair = b.add(b.load(x, b.add(base, b.i32(1))), b.load(x, b.add(base, b.i32(2))));
    b.store(y, id, b.add(pair, b.load(x, b.add(base, b.i32(3)))));
  });
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  ASSERT_TRUE(coalesce_loads(*k).ok());
  expect(count(*k), 4, 0);
}

}  // namespace
}  // namespace reprise::kernel
