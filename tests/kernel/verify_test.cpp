// Kernels that no builder makes: the verifier names what is wrong.
#include <gtest/gtest.h>

#include "codegen/kernel/build/builder.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

/// for i in 0..n: y[i] = x[i] * 2, with a barrier after the loop.
Kernel sound() {
  Builder b("sound");
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int n = b.scalar("n");
  b.shared("cells", Ty::F32, 4);
  b.local("sum", kF32);
  b.for_loop(b.i32(0), b.param(n), b.i32(1),
             [&](Val i) { b.store(y, i, b.mul(b.load(x, i), b.f32(2))); });
  b.barrier();
  auto k = verified(b);
  EXPECT_TRUE(k.ok());
  return std::move(*k);
}

Inst& first(Kernel& k, Op op) {
  for (Inst& i : k.insts) {
    if (i.op == op) return i;
  }
  ADD_FAILURE() << "no such instruction";
  return k.insts[0];
}

TEST(Verify, NamesWhatIsWrong) {
  const struct {
    const char* message;
    std::function<void(Kernel&)> damage;
  } cases[] = {
      {"the name is not an identifier", [](Kernel& k) { k.name = "two words"; }},
      {"the name is not an identifier", [](Kernel& k) { k.name = ""; }},
      {"a workgroup dimension is 0", [](Kernel& k) { k.workgroup[1] = 0; }},
      {"the workgroup has 2048 invocations",
       [](Kernel& k) {
         k.workgroup = {64, 32, 1};
       }},
      {"buffer 'x' has alignment 6", [](Kernel& k) { k.buffers[0].align = 6; }},
      {"scalar 'n' of f16", [](Kernel& k) { k.scalars[0].type = Ty::F16; }},
      {"shared array 'cells' of bool", [](Kernel& k) { k.shared[0].type = Ty::Bool; }},
      {"local 'sum' of i8", [](Kernel& k) { k.locals[0].type.ty = Ty::I8; }},
      {"it has no body", [](Kernel& k) { k.blocks.clear(); }},
      {"no block 99", [](Kernel& k) { first(k, Op::For).blocks[0] = 99; }},
      {"is used twice", [](Kernel& k) { first(k, Op::For).blocks[0] = 0; }},
      {"no instruction 1000", [](Kernel& k) { k.blocks[0].insts.push_back(1000); }},
      {"is placed twice", [](Kernel& k) { k.blocks[0].insts.push_back(k.blocks[0].insts[0]); }},
      {"is not visible here",
       [](Kernel& k) { std::swap(k.blocks[1].insts[0], k.blocks[1].insts[1]); }},
      {"is not visible here", [](Kernel& k) { first(k, Op::Store).args[0] = Val{-1}; }},
      {"an operand has no value",
       [](Kernel& k) {
         const auto id = static_cast<int32_t>(k.insts.size());
         k.insts.push_back({Op::Barrier, {}, 0, {}, {}, 1});
         k.insts.push_back({Op::SetError, {}, 1, {Val{id}}, {}, 1});
         k.blocks[0].insts.push_back(id);
         k.blocks[0].insts.push_back(id + 1);
       }},
      {"Mul: wrong number of operands", [](Kernel& k) { first(k, Op::Scalar).args.pop_back(); }},
      {"Mul gives f32, not i32", [](Kernel& k) { first(k, Op::Scalar).type = kI32; }},
      {"And does not take f32",
       [](Kernel& k) { first(k, Op::Scalar).imm = static_cast<uint64_t>(ScalarOp::And); }},
      {"unknown scalar operation", [](Kernel& k) { first(k, Op::Scalar).imm = 10000; }},
      {"no such buffer", [](Kernel& k) { first(k, Op::Load).imm = 2; }},
      {"buffer 'x' of f32 accessed as i32", [](Kernel& k) { first(k, Op::Load).type = kI32; }},
      {"loads from write-only buffer 'y'", [](Kernel& k) { first(k, Op::Load).imm = 1; }},
      {"stores to read-only buffer 'x'", [](Kernel& k) { first(k, Op::Store).imm = 0; }},
      {"the alignment is 0", [](Kernel& k) { first(k, Op::Store).align = 0; }},
      {"no such parameter", [](Kernel& k) { first(k, Op::Param).imm = 7; }},
      {"the constant has bits beyond its type",
       [](Kernel& k) { first(k, Op::Const).imm = uint64_t{1} << 40; }},
      {"malformed loop", [](Kernel& k) { first(k, Op::For).args.pop_back(); }},
      {"malformed barrier", [](Kernel& k) { first(k, Op::Barrier).type = kF32; }},
  };
  ASSERT_TRUE(verify(sound()).ok()) << verify(sound()).message();
  for (const auto& c : cases) {
    Kernel k = sound();
    c.damage(k);
    const Status s = verify(k);
    EXPECT_FALSE(s.ok()) << c.message;
    EXPECT_NE(s.message().find(c.message), std::string::npos)
        << s.message() << "\nexpected: " << c.message;
  }
}

TEST(Verify, ClaimsAboutConstantIndices) {
  Builder b("claims");
  const int x = b.buffer("x", Ty::F32, Access::Read, 8);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  b.store(y, b.i32(6), b.f32(1), 4);
  EXPECT_NE(verified(b).status().message().find("index 6 is not a multiple of 4"),
            std::string::npos);
  Builder wide("wide");
  wide.buffer("x", Ty::F32, Access::Read, 8);
  wide.load(x, wide.i32(4), 4, 4);
  EXPECT_NE(verified(wide).status().message().find("less than f32x4 needs"), std::string::npos);
}

/// Whether a kernel with a barrier under this condition, or in a loop of this many turns, verifies.
bool allows_barrier(const std::function<Val(Builder&)>& condition) {
  Builder b("barrier");
  b.scalar("n");
  b.buffer("x", Ty::I32, Access::Read);
  const Val c = condition(b);
  b.if_then(c, [&] { b.barrier(); });
  return verified(b).ok();
}

TEST(Verify, BarriersNeedUniformControlFlow) {
  const auto positive = [](Builder& b, Val v) { return b.lt(b.i32(0), b.convert(v, Ty::I32)); };
  EXPECT_TRUE(allows_barrier([&](Builder& b) { return positive(b, b.param(0)); }));
  EXPECT_TRUE(
      allows_barrier([&](Builder& b) { return positive(b, b.builtin(Builtin::WorkgroupId, 1)); }));
  EXPECT_TRUE(allows_barrier([&](Builder& b) { return positive(b, b.load(0, b.param(0))); }));
  EXPECT_FALSE(
      allows_barrier([&](Builder& b) { return positive(b, b.builtin(Builtin::LocalIndex)); }));
  EXPECT_FALSE(allows_barrier([&](Builder& b) {
    return positive(b, b.load(0, b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32)));
  }));
  // A local that one invocation sets differently makes what depends on it vary, also in a loop
  // where the store comes after the barrier.
  Builder b("loop");
  const int state = b.local("state", kI32);
  b.local_store(state, b.i32(0));
  b.for_loop(b.i32(0), b.param(b.scalar("n")), b.i32(1), [&](Val) {
    b.if_then(b.lt(b.local_load(state), b.i32(3)), [&] { b.barrier(); });
    b.local_store(state, b.convert(b.builtin(Builtin::LocalIndex), Ty::I32));
  });
  const auto k = verified(b);
  ASSERT_FALSE(k.ok());
  EXPECT_NE(k.status().message().find("a barrier under control flow that may differ"),
            std::string::npos);
}

TEST(Verify, Requirements) {
  Builder b("needs");
  b.set_workgroup(32, 4);
  b.require_subgroup_size(8);
  const int x = b.buffer("x", Ty::I8, Access::Read);
  const int y = b.buffer("y", Ty::F16, Access::Write);
  b.shared("cells", Ty::F32, 100);
  b.shared("wide", Ty::I64, 10);
  const Val v = b.convert(b.load(x, b.i32(0)), Ty::F32);
  const Val sum = b.subgroup(SubgroupOp::Add, v);
  b.store(y, b.i32(0), b.convert(b.subgroup(SubgroupOp::Broadcast, sum, b.i32(0)), Ty::F16));
  const auto k = verified(b);
  ASSERT_TRUE(k.ok()) << k.status().message();
  const Requirements r = requirements(*k);
  EXPECT_TRUE(r.int64 && r.float16 && r.storage8 && r.storage16);
  EXPECT_TRUE(r.subgroup_arithmetic && r.subgroup_shuffle);
  EXPECT_FALSE(r.float64);
  EXPECT_EQ(r.subgroup_size, 8U);
  EXPECT_EQ(r.workgroup_invocations, 128U);
  EXPECT_EQ(r.shared_bytes, 480U);
  const Requirements none = requirements(Kernel{});
  EXPECT_FALSE(none.int64 || none.float16 || none.storage8 || none.storage16 ||
               none.subgroup_arithmetic || none.subgroup_shuffle || none.subgroup_extended_types);
}

TEST(Verify, SubgroupOperationsOnWideAndHalfTypesNeedTheirFeature) {
  for (const Ty ty : {Ty::F32, Ty::I32, Ty::U32, Ty::F16, Ty::I64, Ty::U64}) {
    Builder b("sum");
    b.set_workgroup(32);
    const int y = b.buffer("y", ty, Access::Write);
    const Val lane = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.store(y, lane, b.subgroup(SubgroupOp::Add, b.convert(lane, ty)));
    const auto k = verified(b);
    ASSERT_TRUE(k.ok()) << k.status().message();
    EXPECT_EQ(requirements(*k).subgroup_extended_types, ty == Ty::F16 || byte_size(ty) == 8);
  }
}

}  // namespace
}  // namespace reprise::kernel
