#include "codegen/kernel/legal/in_place.h"

#include <gtest/gtest.h>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

/// Two rows of three columns, of which each invocation has four, in turn; those below `columns`.
Kernel rows_of_three(int32_t columns) {
  Builder b("update");
  const int a = b.buffer("a", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Value first = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32) / 2 * 4;
  for (const int32_t row : {0, 1}) {
    for (const int32_t lane : {0, 1, 2, 3}) {
      const Value column = first + lane;
      b.if_then(column < columns, [&] {
        const Value i = column + row * 3;
        b.store(y, i, b.load(a, i));
      });
    }
  }
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? *k : Kernel();
}

/// The fourth column of the first row has the index of the first column of the second row.
TEST(InPlace, BranchesThatAreNeverTakenStoreNothing) {
  EXPECT_TRUE(updates_in_place(rows_of_three(3), 0, 1));
  EXPECT_FALSE(updates_in_place(rows_of_three(4), 0, 1));
}

/// The bits of a float are no number of an index.
TEST(InPlace, ConditionsOfFloatsMayHold) {
  Builder b("update");
  const int a = b.buffer("a", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Value i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.if_then(b.f32(0.5F) < b.convert(i, Ty::F32), [&] { b.store(y, i, b.load(a, i + 1)); });
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_FALSE(updates_in_place(*k, 0, 1));
}

}  // namespace
}  // namespace reprise::kernel
