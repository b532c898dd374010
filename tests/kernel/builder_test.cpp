#include "codegen/kernel/build/builder.h"
#include "tests/kernel/verified.h"

#include <gtest/gtest.h>

namespace reprise::kernel {
namespace {

std::string simplified(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return "";
  simplify(*k);
  EXPECT_TRUE(verify(*k).ok()) << verify(*k).message();
  return print(*k);
}

TEST(Builder, PrintsAKernel) {
  Builder b("scale");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int n = b.scalar("n");
  const Val i = b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32);
  b.if_then(b.lt(i, b.param(n)), [&] { b.store(y, i, b.mul(b.load(x, i), b.f32(2.5F))); });
  EXPECT_EQ(simplified(b), R"(kernel scale workgroup(64, 1, 1)
  buffer x: f32 read align 16
  buffer y: f32 write align 16
  scalar n: i32
{
  %3: i32 = convert global_id.x
  %4: bool = Less %3, $n
  if %4 {
    %6: f32 = load x[%3]
    %7: f32 = Mul %6, 2.5:f32
    store y[%3], %7
  }
}
)");
}

TEST(Builder, FoldsAndSharesIndexArithmetic) {
  Builder b("index");
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const int n = b.scalar("n");
  const Val i = b.param(n);
  // ((i * 1 + 0) * 4 * 2 + 3) - 1, written twice.
  for (int copy = 0; copy < 2; ++copy) {
    const Val v = b.mul(b.mul(b.add(b.mul(i, b.i32(1)), b.i32(0)), b.i32(4)), b.i32(2));
    b.store(y, b.i32(copy), b.sub(b.add(v, b.i32(3)), b.i32(1)));
  }
  EXPECT_EQ(simplified(b), R"(kernel index workgroup(64, 1, 1)
  buffer y: i32 write align 16
  scalar n: i32
{
  %5: i32 = Mul $n, 8:i32
  %6: i32 = Add %5, 2:i32
  store y[0:i32], %6
  store y[1:i32], %6
}
)");
}

TEST(Builder, MovesInvariantsOutOfLoopsAndDropsKnownBranches) {
  Builder b("loop");
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int n = b.scalar("n");
  const int sum = b.local("sum", kF32);
  b.local_store(sum, b.f32(0));
  b.for_loop(b.i32(0), b.param(n), b.i32(1), [&](Val i) {
    const Val base = b.mul(b.param(n), b.i32(3));
    const Val v = b.load(x, b.add(base, i));
    b.local_store(sum, b.add(b.local_load(sum), v));
  });
  b.for_loop(b.i32(5), b.i32(6), b.i32(1), [&](Val i) { b.store(y, i, b.f32(1)); });
  b.if_else(
      b.boolean(false), [&] { b.store(y, b.i32(1), b.f32(2)); },
      [&] { b.store(y, b.i32(0), b.local_load(sum)); });
  EXPECT_EQ(simplified(b), R"(kernel loop workgroup(64, 1, 1)
  buffer x: f32 read align 16
  buffer y: f32 write align 16
  scalar n: i32
  local sum: f32
{
  local_store sum, 0:f32
  %8: i32 = Mul $n, 3:i32
  for %9 in 0:i32, $n, 1:i32 {
    %10: i32 = Add %8, %9
    %11: f32 = load x[%10]
    %12: f32 = local_load sum
    %13: f32 = Add %12, %11
    local_store sum, %13
  }
  store y[5:i32], 1:f32
  %16: f32 = local_load sum
  store y[0:i32], %16
}
)");
}

TEST(Builder, VectorsAndIdentities) {
  Builder b("vectors");
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val v = b.load(x, b.i32(8), 4, 4);
  std::vector<Val> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(b.extract(v, i));
  const Val same = b.compose(lanes);
  EXPECT_EQ(same, v);
  EXPECT_EQ(b.extract(b.splat(lanes[2], 4), 3), lanes[2]);
  EXPECT_EQ(b.as_const(b.convert(b.f32(-3.7F), Ty::I32)), -3);
  EXPECT_EQ(b.as_const(b.convert(b.f32(3e9F), Ty::I32)), 2147483647);
  EXPECT_EQ(b.select(b.splat(b.boolean(true), 4), v, same), v);
  EXPECT_EQ(b.mul(v, b.splat(b.f32(1), 4)), v);
  const Val i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  EXPECT_EQ(b.convert(b.convert(i, Ty::U32), Ty::I32), i);
  EXPECT_EQ(b.as_const(b.sub(i, i)), 0);
  EXPECT_EQ(b.as_const(b.lt(i, i)), 0);
  EXPECT_EQ(b.rem(i, b.i32(1)), b.i32(0));
  b.store(y, b.i32(0), v, 4);
  EXPECT_TRUE(b.finish().ok());
}

/// The builder reports the first mistake, by operation.
/// Whether the comparison is a constant (its value), or else happens in 32 bits.
std::string narrowed(ScalarOp op, int64_t c, bool constant_first) {
  Builder b("compare");
  const int x = b.buffer("x", Ty::I32, Access::Read);
  const int y = b.buffer("y", Ty::U32, Access::Write);
  const Val wide = b.convert(b.load(x, b.i32(0)), Ty::I64);
  const Val r =
      constant_first ? b.scalar_op(op, {b.i64(c), wide}) : b.scalar_op(op, {wide, b.i64(c)});
  if (const auto known = b.as_const(b.convert(r, Ty::I32))) return *known != 0 ? "true" : "false";
  b.store(y, b.i32(0), b.convert(r, Ty::U32));
  const std::string text = simplified(b);
  return text.find("i64") == std::string::npos ? "32 bits" : text;
}

TEST(Builder, ComparesWidenedIntegersInTheirOwnWidth) {
  constexpr int64_t kAbove = int64_t{1} << 31;
  constexpr int64_t kBelow = -kAbove - 1;
  for (const bool first : {false, true}) {
    for (const ScalarOp op :
         {ScalarOp::Less, ScalarOp::LessOrEqual, ScalarOp::Greater, ScalarOp::GreaterOrEqual}) {
      for (const int64_t c : {int64_t{4}, int64_t{-3}, kAbove - 1, kBelow + 1}) {
        EXPECT_EQ(narrowed(op, c, first), "32 bits") << c;
      }
      const bool less = op == ScalarOp::Less || op == ScalarOp::LessOrEqual;
      EXPECT_EQ(narrowed(op, kAbove, first), less != first ? "true" : "false");
      EXPECT_EQ(narrowed(op, kBelow, first), less != first ? "false" : "true");
    }
    EXPECT_EQ(narrowed(ScalarOp::Equal, kAbove, first), "false");
    EXPECT_EQ(narrowed(ScalarOp::NotEqual, kBelow, first), "true");
  }
}

/// A store in a branch is live if the local is loaded, and with it the branch and its condition.
TEST(Builder, BranchesThatStoreWhatIsLoadedStay) {
  for (const bool loaded : {true, false}) {
    Builder b("branches");
    const int x = b.buffer("x", Ty::F32, Access::Read);
    const int y = b.buffer("y", Ty::F32, Access::Write);
    const int first = b.local("first", kF32);
    const int second = b.local("second", kF32);
    const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
    b.local_store(first, b.f32(1));
    b.local_store(second, b.f32(2));
    b.if_then(b.lt(i, b.i32(5)), [&] {
      b.for_loop(b.i32(0), i, b.i32(1), [&](Val n) { b.local_store(first, b.load(x, n)); });
    });
    // The value of this store needs the other local.
    b.if_then(b.lt(i, b.i32(7)), [&] { b.local_store(second, b.local_load(first)); });
    b.store(y, i, loaded ? Val(b.local_load(second)) : Val(b.f32(3)));
    const std::string text = simplified(b);
    EXPECT_EQ(text.find("for") != std::string::npos, loaded) << text;
    EXPECT_EQ(text.find("load x") != std::string::npos, loaded) << text;
    EXPECT_EQ(text.find("if") != std::string::npos, loaded) << text;
    EXPECT_NE(text.find("store y"), std::string::npos) << text;
  }
}

TEST(Builder, ManyValuesAreSharedUntilTheirBlocksEnd) {
  constexpr int kMany = 300;
  Builder b("many");
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const int l = b.local("l", kI32);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.local_store(l, i);
  for (int n = 0; n < kMany; ++n) b.i32(n);
  /// How many instructions sums of v and each number add.
  const auto added = [&](Val v, bool swapped) {
    const size_t before = b.instruction_count();
    Val sum = v;
    for (int n = 1; n < kMany; ++n) {
      const Val one =
          swapped ? b.mul(b.i32(n), b.add(b.i32(n), v)) : b.mul(b.add(v, b.i32(n)), b.i32(n));
      if (n == 7) sum = one;
    }
    const size_t after = b.instruction_count();
    b.store(y, i, sum);
    return after - before;
  };
  for (int block = 0; block < 3; ++block) {
    b.if_then(b.lt(i, b.i32(block + 5)), [&] {
      const Val outer = b.local_load(l);
      EXPECT_EQ(added(outer, false), 2 * (kMany - 1) - 1);  // one factor is 1
      EXPECT_EQ(added(outer, true), 0);
      b.if_then(b.lt(i, b.i32(2)), [&] {
        EXPECT_EQ(added(outer, false), 0);
        EXPECT_EQ(added(b.local_load(l), true), 2 * (kMany - 1) - 1);
      });
      EXPECT_EQ(added(outer, false), 0);
    });
  }
  EXPECT_EQ(added(i, false), 2 * (kMany - 1) - 1);
  EXPECT_NE(simplified(b), "");
}

TEST(Builder, ReportsTypeErrors) {
  struct Case {
    std::function<void(Builder&)> write;
    const char* message;
  };
  const Case cases[] = {
      {[](Builder& b) { b.add(b.i32(1), b.f32(1)); }, "Add: operand 0 is i32, not f32"},
      {[](Builder& b) { b.logical_and(b.i32(1), b.i32(1)); }, "And: does not take i32"},
      {[](Builder& b) { b.select(b.i32(1), b.i32(1), b.i32(1)); }, "Where: operand 0 is i32"},
      {[](Builder& b) { b.load(0, b.f32(1)); }, "load: the index is f32"},
      {[](Builder& b) { b.load(0, b.i32(4), 4, 2); }, "4 lanes need an index"},
      {[](Builder& b) { b.load(7, b.i32(4)); }, "no buffer 7"},
      {[](Builder& b) { b.store(1, b.i32(4), b.i32(4)); }, "store: of i32 to buffer 'y' of f32"},
      {[](Builder& b) { b.store(0, b.i32(4), b.f32(4)); }, "stores to read-only buffer 'x'"},
      {[](Builder& b) { b.load(0, b.i32(-1)); }, "the index is -1"},
      {[](Builder& b) { b.i32(int64_t{1} << 40); }, "does not fit"},
      {[](Builder& b) { b.extract(b.i32(1), 2); }, "lane 2 of i32"},
      {[](Builder& b) { b.bitcast(b.i32(1), kI64); }, "bitcast: from i32 to i64"},
      {[](Builder& b) { b.if_then(b.i32(1), [] {}); }, "if: the condition is i32"},
      {[](Builder& b) { b.for_loop(b.i32(0), b.i32(9), b.i32(0), [](Val) {}); }, "the step is 0"},
      {[](Builder& b) {
         Val inner;
         b.if_then(b.lt(b.param(0), b.i32(3)), [&] { inner = b.load(0, b.param(0)); });
         b.store(1, b.i32(0), inner);
       },
       "was made in a block that is closed"},
  };
  for (const Case& c : cases) {
    Builder b("wrong");
    b.buffer("x", Ty::F32, Access::Read);
    b.buffer("y", Ty::F32, Access::Write);
    b.scalar("n");
    c.write(b);
    const auto k = verified(b);
    ASSERT_FALSE(k.ok()) << c.message;
    EXPECT_EQ(k.status().code(), Code::Internal);
    EXPECT_NE(k.status().message().find(c.message), std::string::npos) << k.status().message();
  }
}

}  // namespace
}  // namespace reprise::kernel
