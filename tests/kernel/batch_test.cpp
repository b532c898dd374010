// A kernel of several items does what the kernel did in one launch for each item.
#include "codegen/kernel/build/batch.h"

#include <gtest/gtest.h>

#include <random>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

constexpr uint32_t kWorkgroup = 4;

/// y[i] = x[i] * factor + group for i < count, and z[i] += 1, where `group` is the workgroup.
Kernel one_item(bool by_global_id) {
  Builder b("k");
  b.set_workgroup(kWorkgroup);
  const int x = b.buffer("x", Ty::I32, Access::Read);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const int z = b.buffer("z", Ty::I32, Access::ReadWrite);
  const int count = b.scalar("count"), factor = b.scalar("factor");
  const Val group = b.convert(b.builtin(Builtin::WorkgroupId), Ty::I32);
  const Val local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val i = by_global_id ? b.convert(b.builtin(Builtin::GlobalId), Ty::I32)
                             : b.add(b.mul(group, b.i32(kWorkgroup)), local);
  b.if_then(b.lt(i, b.param(count)), [&] {
    b.store(y, i, b.add(b.mul(b.load(x, i), b.param(factor)), group));
    b.store(z, i, b.add(b.load(z, i), b.i32(1)));
  });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : Kernel{};
}

struct Item {
  std::vector<int32_t> x, y, z;
  int32_t count = 0, factor = 0;
  uint32_t workgroups() const {
    return (static_cast<uint32_t>(count) + kWorkgroup - 1) / kWorkgroup;
  }
  friend bool operator==(const Item&, const Item&) = default;
};

void add_buffers(Item& item, Launch& launch) {
  for (std::vector<int32_t>* v : {&item.x, &item.y, &item.z})
    launch.buffers.push_back(std::as_writable_bytes(std::span(*v)));
}

void add_scalars(const Item& item, Launch& launch) {
  launch.scalars.push_back(static_cast<uint32_t>(item.count));
  launch.scalars.push_back(static_cast<uint32_t>(item.factor));
}

void run(const Kernel& k, const Launch& launch) {
  const auto outcome = interpret(k, launch);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message() << "\n" << print(k);
}

std::vector<Item> random_items(size_t n, std::mt19937& rng) {
  std::vector<Item> items(n);
  for (Item& item : items) {
    item.count = static_cast<int32_t>(rng() % 30 + 1);
    item.factor = static_cast<int32_t>(rng() % 100);
    for (std::vector<int32_t>* v : {&item.x, &item.y, &item.z}) {
      for (int32_t i = 0; i < item.count; ++i) v->push_back(static_cast<int32_t>(rng() % 1000));
    }
  }
  return items;
}

TEST(Batch, EachItemHasItsOwnBuffersAndScalars) {
  std::mt19937 rng(5);
  for (const size_t n : {2, 3, 4, 5, 8, 13, 31, 64}) {
    for (const bool by_global_id : {false, true}) {
      const Kernel k = one_item(by_global_id);
      ASSERT_TRUE(can_batch(k));
      const auto all = batch(k, static_cast<uint32_t>(n));
      ASSERT_TRUE(all.ok()) << all.status().message();
      ASSERT_TRUE(verify(*all).ok()) << verify(*all).message() << print(*all);
      std::vector<Item> apart = random_items(n, rng), together = apart;
      for (Item& item : apart) {
        Launch launch;
        launch.grid = {item.workgroups(), 1, 1};
        add_buffers(item, launch);
        add_scalars(item, launch);
        run(k, launch);
      }
      Launch launch;
      launch.grid = {0, 1, 1};
      for (Item& item : together) {
        add_buffers(item, launch);
        add_scalars(item, launch);
        launch.scalars.push_back(launch.grid[0]);
        launch.grid[0] += item.workgroups();
      }
      run(*all, launch);
      EXPECT_EQ(apart, together) << n << " items";
    }
  }
}

TEST(Batch, OtherAxesErrorsAndItemsAreRefused) {
  for (const bool error : {false, true}) {
    Builder b("k");
    const int y = b.buffer("y", Ty::U32, Access::Write);
    const Val x = b.builtin(Builtin::WorkgroupId);
    b.store(y, x, error ? x : b.builtin(Builtin::WorkgroupId, 1));
    if (error) b.set_error(b.eq(x, b.u32(7)), ErrorCode::IndexOutOfRange);
    const auto k = b.finish();
    ASSERT_TRUE(k.ok());
    EXPECT_FALSE(can_batch(*k));
  }
  const auto all = batch(one_item(true), 2);
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(can_batch(*all));
}

TEST(Batch, AnItemThatDoesNotExistIsAViolation) {
  Builder b("k");
  b.set_workgroup(1);
  b.buffer("y", Ty::I32, Access::Write);
  b.scalar("first");
  auto k = b.finish();
  ASSERT_TRUE(k.ok());
  k->items = 2;
  k->buffers.push_back(k->buffers[0]);
  k->scalars.push_back(k->scalars[0]);
  for (const bool parameter : {false, true}) {
    Builder writer = Builder::like(*k);
    const Value item = writer.convert(writer.builtin(Builtin::WorkgroupId), Ty::I32);
    writer.select_item(parameter ? writer.i32(1) : item);
    writer.store(0, item, writer.param(0, item));
    auto wrong = writer.finish();
    ASSERT_TRUE(wrong.ok()) << wrong.status().message();
    std::vector<int32_t> a(3), c(3);
    Launch launch;
    launch.grid = {3, 1, 1};
    launch.buffers = {std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(c))};
    launch.scalars = {7, 8};
    const auto outcome = interpret(*wrong, launch);
    ASSERT_FALSE(outcome.ok());
    EXPECT_NE(outcome.status().message().find(parameter ? "of no item" : "selects no item"),
              std::string::npos)
        << outcome.status().message();
  }
}

TEST(Batch, TheVerifierKnowsTheRules) {
  const auto whole = batch(one_item(true), 3);
  ASSERT_TRUE(whole.ok());
  const auto find = [](Kernel& k, Op op) {
    return std::ranges::find_if(
        k.blocks[0].insts, [&](int32_t i) { return k.insts[static_cast<size_t>(i)].op == op; });
  };
  const struct {
    const char* problem;
    void (*damage)(Kernel&);
  } cases[] = {
      {"its items differ", [](Kernel& k) { k.items = 2; }},
      {"its items differ", [](Kernel& k) { k.buffers.back().align = 32; }},
      {"its items differ", [](Kernel& k) { k.items = 0; }},
      {"no such buffer",
       [](Kernel& k) {
         for (Inst& i : k.insts)
           if (i.op == Op::Load) i.imm += 3;
       }},
      {"the item of a parameter",
       [](Kernel& k) {
         for (Inst& i : k.insts)
           if (i.op == Op::Param) i.args = {};
       }},
  };
  for (const auto& c : cases) {
    Kernel k = *whole;
    c.damage(k);
    EXPECT_NE(verify_structure(k).message().find(c.problem), std::string::npos)
        << verify_structure(k).message();
  }
  Kernel late = *whole, twice = *whole;
  late.blocks[0].insts.erase(find(late, Op::SelectItem));
  EXPECT_NE(verify_structure(late).message().find("no item is selected"), std::string::npos);
  Inst again = twice.insts[static_cast<size_t>(*find(twice, Op::SelectItem))];
  twice.insts.push_back(again);
  twice.blocks[0].insts.push_back(static_cast<int32_t>(twice.insts.size()) - 1);
  EXPECT_NE(verify_structure(twice).message().find("selected already"), std::string::npos);
}

TEST(Batch, WorkgroupsSelectOneItem) {
  const auto all = batch(one_item(true), 3);
  ASSERT_TRUE(all.ok());
  Builder b = Builder::like(*all);
  b.select_item(b.convert(b.builtin(Builtin::LocalIndex), Ty::I32));
  auto divergent = b.finish();
  const Status s = divergent.ok() ? verify(*divergent) : divergent.status();
  EXPECT_NE(s.message().find("an item that may differ"), std::string::npos) << s.message();
}

TEST(Batch, DescriptorsAreRefused) {
  const auto all = batch(one_item(true), 3);
  ASSERT_TRUE(all.ok());
  emit::SpirvOptions options;
  EXPECT_TRUE(emit::spirv(*all, options).ok());
  EXPECT_TRUE(emit::cuda(*all).ok());
  options.descriptors = true;
  EXPECT_FALSE(emit::spirv(*all, options).ok());
}

}  // namespace
}  // namespace reprise::kernel
