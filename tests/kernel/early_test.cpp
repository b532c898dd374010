// Kernels that may begin while launches before them still run: what the verifier and the
// interpreter refuse, and where begin_early() lets them wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codegen/interpreter/interpreter.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

/// y[i] = x[i] + 1.
Kernel increment() {
  Builder b("increment");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int tile = b.shared("tile", Ty::F32, 8);
  const Val i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.shared_store(tile, i, b.f32(1.0F));
  b.if_then(b.lt(i, b.i32(8)), [&] {
    const Val one = b.shared_load(tile, i);
    b.store(y, i, b.add(b.load(x, i), one));
  });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return std::move(*k);
}

enum class Place { First, InBranch, AfterBranch, InBranchAtItsEnd };

/// With a wait, which a builder would refuse at some places.
Kernel waiting_at(Place place) {
  Kernel k = increment();
  const auto wait = static_cast<int32_t>(k.insts.size());
  k.insts.push_back({Op::AwaitLaunches, {}, 0, {}, {}, 1});
  const bool inside = place == Place::InBranch || place == Place::InBranchAtItsEnd;
  auto& block = k.blocks[inside ? 1 : 0].insts;
  const bool first = place == Place::First || place == Place::InBranch;
  block.insert(first ? block.begin() : block.end(), wait);
  return k;
}

Status run_increment(const Kernel& k) {
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y(8);
  Launch launch;
  launch.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  RP_TRY(interpret(k, launch, {}).status());
  for (size_t i = 0; i < 8; ++i)
    if (y[i] != x[i] + 1) return internal_error("element " + std::to_string(i) + " is wrong");
  return {};
}

TEST(Early, AwaitsBeforeTheFirstAccess) {
  const Kernel k = waiting_at(Place::First);
  EXPECT_TRUE(verify(k).ok()) << verify(k).message();
  EXPECT_TRUE(requirements(k).early);
  EXPECT_NE(print(k).find("\n  await_launches\n"), std::string::npos) << print(k);
  const Status s = run_increment(k);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(Early, TheBuilderWritesIt) {
  Builder b("early");
  const int y = b.buffer("y", Ty::F32, Access::Write);
  b.await_launches();
  b.store(y, b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.f32(1.0F));
  const auto k = verified(b);
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_TRUE(requirements(*k).early);
}

TEST(Early, TheVerifierRefusesOtherPlaces) {
  const struct {
    Place place;
    const char* problem;
  } cases[] = {{Place::InBranch, "some invocations may not await earlier launches"},
               {Place::InBranchAtItsEnd, "some invocations may not await earlier launches"},
               {Place::AfterBranch, "awaits earlier launches after an access to a buffer"}};
  for (const auto& c : cases) {
    const Status s = verify(waiting_at(c.place));
    EXPECT_NE(s.message().find(c.problem), std::string::npos) << s.message();
  }
  Kernel twice = waiting_at(Place::First);
  begin_early(twice);
  const Status s = verify(twice);
  EXPECT_NE(s.message().find("awaits earlier launches again"), std::string::npos) << s.message();
}

/// Every instruction that shares something with other launches counts as an access.
TEST(Early, TheErrorWordIsSharedAsWell) {
  for (const bool sets : {false, true}) {
    Builder b("errors");
    const int y = b.buffer("y", Ty::I32, Access::Write);
    const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
    Val condition = b.lt(i, b.i32(0));
    if (sets) b.set_error(condition, ErrorCode::IndexOutOfRange);
    if (!sets) condition = b.no_error();
    b.store(y, i, b.select(condition, i, b.i32(0)));
    auto k = b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    Kernel right = *k;
    begin_early(right);
    EXPECT_TRUE(verify(right).ok()) << verify(right).message();
    auto& body = k->blocks[0].insts;
    body.insert(body.end() - 1, static_cast<int32_t>(k->insts.size()));
    k->insts.push_back({Op::AwaitLaunches, {}, 0, {}, {}, 1});
    EXPECT_FALSE(verify(*k).ok());
  }
}

/// A subgroup stores a box of ones, of which a role's only access to a buffer consists.
Kernel box_store() {
  Builder b("box");
  b.set_workgroup(2 * kTeamSubgroups * 32);
  b.require_subgroup_size(32);
  const auto y = static_cast<uint32_t>(b.buffer("y", Ty::F32, Access::Write));
  for (const char* name : {"zero", "rows", "columns", "stride"}) b.scalar(name);
  const int view = b.view("v", {y, 4, Swizzle::None, {32, 4}, 0, {2, 1}, {3}});
  const int ones = b.shared("ones", Ty::F32, 32 * 4);
  b.role({"store", 1, 1, 0});
  b.role({"idle", 1, 1, 0});
  const Value lane = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.for_loop(b.i32(0), b.i32(4), b.i32(1), [&](Value i) {
    b.if_then(lane < 32, [&] { b.shared_store(ones, i * 32 + lane, b.f32(1)); });
  });
  b.barrier();
  const std::function<void()> bodies[] = {
      [&] {
        b.box_store(box_access(view, ones), b.compose({b.i32(0), b.i32(0)}), b.i32(0), 32);
        b.box_drain(0);
      },
      [] {}};
  b.run_roles(bodies);
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return std::move(*k);
}

Status run_box_store(const Kernel& k) {
  std::vector<float> y(32 * 4);
  Launch launch;
  launch.buffers = {std::as_writable_bytes(std::span(y))};
  launch.scalars = {0, 4, 32, 32};
  RP_TRY(interpret(k, launch, {}).status());
  return std::ranges::count(y, 1.0F) == 128 ? Status() : internal_error("y is wrong");
}

TEST(Early, AStoreOfABoxIsAnAccess) {
  Kernel k = box_store();
  begin_early(k);
  EXPECT_TRUE(verify(k).ok()) << verify(k).message();
  const std::string text = print(k);
  EXPECT_LT(text.find("barrier"), text.find("await_launches")) << text;
  EXPECT_LT(text.find("await_launches"), text.find("box_store")) << text;
  const Status s = run_box_store(k);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(Early, TheInterpreterRefusesStoresOfBoxesBefore) {
  Kernel k = box_store();
  const auto roles = std::ranges::find(k.insts, Op::Roles, &Inst::op);
  ASSERT_NE(roles, k.insts.end());
  const auto first = static_cast<size_t>(roles->blocks[0]);
  k.blocks[first].insts.push_back(static_cast<int32_t>(k.insts.size()));
  k.insts.push_back({Op::AwaitLaunches, {}, 0, {}, {}, 1});
  EXPECT_FALSE(verify(k).ok());
  const Status s = run_box_store(k);
  EXPECT_NE(s.message().find("accesses memory before it awaits the launches before it"),
            std::string::npos)
      << s.message();
}

/// Without the verifier, the access itself is found.
TEST(Early, TheInterpreterRefusesAccessesBefore) {
  for (const Place place : {Place::AfterBranch, Place::InBranchAtItsEnd}) {
    const Status s = run_increment(waiting_at(place));
    EXPECT_NE(s.message().find("accesses memory before it awaits the launches before it"),
              std::string::npos)
        << s.message();
  }
  Kernel some = waiting_at(Place::InBranch);
  for (Inst& i : some.insts)
    if (i.op == Op::Const && i.imm == 8 && i.type == kI32) i.imm = 4;
  const Status s = run_increment(some);
  EXPECT_NE(s.message().find("awaits earlier launches, which others do not"), std::string::npos)
      << s.message();
}

TEST(Early, BeginEarlyWaitsAsLateAsItCan) {
  Kernel k = increment();
  ASSERT_FALSE(requirements(k).early);
  begin_early(k);
  EXPECT_TRUE(verify(k).ok()) << verify(k).message();
  const std::string text = print(k);
  const size_t wait = text.find("await_launches");
  EXPECT_GT(wait, text.find("shared_store")) << text;
  EXPECT_LT(wait, text.find("if ")) << text;
  const Status s = run_increment(k);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(Early, AKernelWithoutAccessesWaitsAtItsEnd) {
  Builder b("nothing");
  b.set_workgroup(8);
  const int tile = b.shared("tile", Ty::F32, 8);
  b.shared_store(tile, b.convert(b.builtin(Builtin::LocalIndex), Ty::I32), b.f32(1.0F));
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  begin_early(*k);
  EXPECT_EQ(k->insts[static_cast<size_t>(k->blocks[0].insts.back())].op, Op::AwaitLaunches);
  EXPECT_TRUE(verify(*k).ok()) << verify(*k).message();
}

}  // namespace
}  // namespace reprise::kernel
