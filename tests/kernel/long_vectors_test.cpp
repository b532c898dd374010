// Vectors of 8 and 16 lanes: what the verifier allows, joining of neighbouring accesses, and random
// kernels before and after they are legalised for devices of all kinds.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/interpreter/interpreter.h"
#include "tests/kernel/verified.h"
#include "tests/support/random_moves.h"

namespace reprise::kernel {
namespace {

/// A kernel that loads and stores eight elements, and its instructions of interest.
struct Eight {
  Kernel kernel;
  Val loaded;
};

Eight copy_of_eight(Ty storage, uint32_t align = 16) {
  Builder b("eight");
  b.set_workgroup(1);
  const int x = b.buffer("x", storage, Access::Read, align);
  const int y = b.buffer("y", storage, Access::Write, align);
  const Val v = b.load(x, b.i32(8), 8, 8);
  b.store(y, b.i32(0), v, 8);
  auto k = verified(b);
  EXPECT_TRUE(k.ok()) << k.status().message();
  return {k.ok() ? std::move(*k) : Kernel{}, v};
}

void expect_refused(Kernel k, const std::string& why, const std::function<void(Kernel&)>& change) {
  change(k);
  const Status s = verify(k);
  EXPECT_FALSE(s.ok()) << print(k);
  EXPECT_NE(s.message().find(why), std::string::npos) << s.message();
}

TEST(LongVectors, AreMovedAndPrinted) {
  const Eight e = copy_of_eight(Ty::F16);
  EXPECT_NE(print(e.kernel).find("f16x8"), std::string::npos) << print(e.kernel);
  std::vector<uint16_t> x(16), y(8);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i * 77);
  Launch launch;
  launch.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  const auto outcome = interpret(e.kernel, launch);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(std::equal(y.begin(), y.end(), x.begin() + 8));
}

TEST(LongVectors, AreNotComputedWith) {
  const Eight e = copy_of_eight(Ty::F16);
  const auto add = [&](Kernel& k, Op op, Type t, InlineList<Val, 4> args) {
    Inst i;
    i.op = op;
    i.type = t;
    i.args = args;
    k.blocks[0].insts.push_back(static_cast<int32_t>(k.insts.size()));
    k.insts.push_back(i);
  };
  const Val v = e.loaded;
  const Type eight{Ty::F16, 8};
  expect_refused(e.kernel, "does not take", [&](Kernel& k) {
    add(k, Op::Scalar, eight, {v, v});
    k.insts.back().imm = static_cast<uint64_t>(ScalarOp::Add);
  });
  expect_refused(e.kernel, "malformed conversion", [&](Kernel& k) {
    add(k, Op::Convert, {Ty::F32, 8}, {v});
  });
  expect_refused(e.kernel, "bitcast", [&](Kernel& k) { add(k, Op::Bitcast, {Ty::U32, 4}, {v}); });
  expect_refused(e.kernel, "malformed constant", [&](Kernel& k) { add(k, Op::Const, eight, {}); });
  expect_refused(e.kernel, "another type", [&](Kernel& k) {
    add(k, Op::Extract, {Ty::F16, 1}, {v});
  });
  expect_refused(e.kernel, "no part begins there", [&](Kernel& k) {
    add(k, Op::Extract, {Ty::F16, 4}, {v});
    k.insts.back().imm = 2;
  });
  expect_refused(e.kernel, "wrong number of lanes", [&](Kernel& k) {
    add(k, Op::Compose, {Ty::F16, 16}, {v, v});
  });
  expect_refused(e.kernel, "local", [&](Kernel& k) { k.locals.push_back({"l", eight, 1}); });
}

TEST(LongVectors, HaveSixteenBytesAndAreAligned) {
  const Eight e = copy_of_eight(Ty::F16);
  expect_refused(e.kernel, "accessed as", [](Kernel& k) {
    for (Inst& i : k.insts)
      if (i.type.lanes == 8) i.type.lanes = 16;
  });
  expect_refused(e.kernel, "not proven aligned", [](Kernel& k) {
    for (Inst& i : k.insts) i.align = 4;
  });
  expect_refused(e.kernel, "less than", [](Kernel& k) { k.buffers[0].align = 8; });
  expect_refused(copy_of_eight(Ty::U8).kernel, "accessed as",
                 [](Kernel& k) { k.buffers[0].storage = Ty::U32; });
  Builder b("long");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  b.load(x, b.i32(0), 8, 8);
  EXPECT_FALSE(b.finish().ok());
}

// --- Joining -------------------------------------------------------------------------------------

/// How many loads and stores of so many lanes a kernel has.
struct Counted {
  int loads = 0, stores = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};

Counted accesses(const Kernel& k, int lanes) {
  Counted n;
  for (const Inst& i : k.insts) {
    const bool load = i.op == Op::Load || i.op == Op::SharedLoad;
    const bool store = i.op == Op::Store || i.op == Op::SharedStore;
    if (load && i.type.lanes == lanes) ++n.loads;
    if (store && k.insts[static_cast<size_t>(i.args[1].id)].type.lanes == lanes) ++n.stores;
  }
  return n;
}

/// A kernel whose invocations copy the vectors of four at these offsets, joined.
Kernel joined(Ty storage, const std::vector<int>& offsets, int stride, uint32_t align = 16) {
  Builder b("join");
  b.set_workgroup(4);
  const int x = b.buffer("x", storage, Access::Read, align);
  const int y = b.buffer("y", storage, Access::Write, align);
  const Val base = b.mul(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.i32(stride));
  std::vector<Val> loaded;
  loaded.reserve(offsets.size());
  for (const int o : offsets) loaded.push_back(b.load(x, b.add(base, b.i32(o)), 4, 4));
  for (size_t i = 0; i < offsets.size(); ++i)
    b.store(y, b.add(base, b.i32(offsets[i])), loaded[i], 4);
  auto k = verified(b);
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return {};
  const Status s = join_accesses(*k);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(*k).ok()) << verify(*k).message();
  return *k;
}

TEST(JoinAccesses, NeighboursBecomeSixteenBytes) {
  EXPECT_EQ(accesses(joined(Ty::F16, {0, 4}, 8), 8), (Counted{1, 1}));
  EXPECT_EQ(accesses(joined(Ty::BF16, {4, 0, 12, 8}, 16), 8), (Counted{2, 2}));
  EXPECT_EQ(accesses(joined(Ty::U8, {0, 4, 8, 12}, 16), 16), (Counted{1, 1}));
  EXPECT_EQ(accesses(joined(Ty::I8, {0, 4, 8}, 16), 8), (Counted{1, 1}));
}

TEST(JoinAccesses, OthersStay) {
  EXPECT_EQ(accesses(joined(Ty::F32, {0, 4}, 8), 4), (Counted{2, 2}));
  EXPECT_EQ(accesses(joined(Ty::F16, {4, 8}, 16), 4), (Counted{2, 2}));  // not aligned together
  EXPECT_EQ(accesses(joined(Ty::F16, {0, 4}, 12), 4), (Counted{2, 2}));  // nor proven to be
  EXPECT_EQ(accesses(joined(Ty::F16, {0, 8}, 16), 4), (Counted{2, 2}));
  EXPECT_EQ(accesses(joined(Ty::F16, {0, 4}, 8, 8), 4), (Counted{2, 2}));  // nor is the buffer
}

/// x[0..8) is loaded by parts, with a store to it in between.
TEST(JoinAccesses, NotAcrossAStoreOrABarrier) {
  Builder b("between");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::F16, Access::ReadWrite);
  const int s = b.shared("s", Ty::F16, 8);
  const Val low = b.load(x, b.i32(0), 4, 4);
  b.store(x, b.i32(4), low, 4);
  const Val high = b.load(x, b.i32(4), 4, 4);
  b.shared_store(s, b.i32(0), low);
  b.barrier();
  b.shared_store(s, b.i32(4), high);
  b.barrier();
  b.store(x, b.i32(8), b.shared_load(s, b.i32(0), 4), 4);
  b.barrier();
  b.store(x, b.i32(12), b.shared_load(s, b.i32(4), 4), 4);
  auto k = verified(b);
  ASSERT_TRUE(k.ok()) << k.status().message();
  ASSERT_TRUE(join_accesses(*k).ok());
  // Only the stores to x[8..16), which no barrier orders.
  EXPECT_EQ(accesses(*k, 4), (Counted{4, 3})) << print(*k);
  EXPECT_EQ(accesses(*k, 8), (Counted{0, 1})) << print(*k);
}

// --- Random kernels ------------------------------------------------------------------------------

std::vector<std::vector<std::byte>> run_moves(const Kernel& k,
                                              std::vector<std::vector<std::byte>> buffers) {
  Launch launch;
  launch.grid = {2, 1, 1};
  for (auto& m : buffers) launch.buffers.emplace_back(m);
  const auto outcome = interpret(k, launch);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message() << print(k);
  EXPECT_TRUE(!outcome.ok() || outcome->error == ErrorCode::None);
  return buffers;
}

bool has_long(const Kernel& k) {
  return std::ranges::any_of(k.insts, [](const Inst& i) { return is_long(i.type); });
}

constexpr LegalizeFor kTargets[] = {
    {},
    {.joins_accesses = true},
    {.long_vectors = false},
    {.long_vectors = false, .joins_accesses = true},
    {.float16 = false, .long_vectors = false, .joins_accesses = true},
    {.storage8 = false, .long_vectors = false, .joins_accesses = true},
    {.storage16 = false, .long_vectors = false, .joins_accesses = true},
    {.float16 = false, .joins_accesses = true},
    {.word_loads = true, .long_vectors = false, .joins_accesses = true},
    {.int64 = false,
     .float16 = false,
     .storage8 = false,
     .storage16 = false,
     .long_vectors = false,
     .joins_accesses = true},
};

TEST(LongVectors, RandomKernelsMeanTheSameOnAllTargets) {
  size_t joins = 0, moved = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto made = test::random_moves(seed, 32);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_TRUE(verify(made->kernel).ok()) << verify(made->kernel).message();
    moved += has_long(made->kernel) ? 1 : 0;
    const auto expected = run_moves(made->kernel, made->buffers);
    for (size_t t = 0; t < std::size(kTargets); ++t) {
      Kernel k = made->kernel;
      const Status s = legalize(k, kTargets[t]);
      ASSERT_TRUE(s.ok()) << s.message();
      ASSERT_TRUE(verify(k).ok()) << verify(k).message();
      EXPECT_TRUE(kTargets[t].long_vectors || !has_long(k)) << print(k);
      if (kTargets[t].joins_accesses && kTargets[t].long_vectors)
        joins += accesses(k, 4).loads < accesses(made->kernel, 4).loads ? 1 : 0;
      ASSERT_EQ(run_moves(k, made->buffers), expected) << "target " << t << print(made->kernel);
    }
  }
  EXPECT_GT(moved, 50U);
  EXPECT_GT(joins, 50U);
}

}  // namespace
}  // namespace reprise::kernel
