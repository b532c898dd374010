// Executions of parts of a launch, and with several options at once, compute what whole executions
// compute.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <memory>
#include <vector>

#include "codegen/interpreter/demand.h"
#include "codegen/interpreter/interpreter.h"
#include "codegen/interpreter/memory.h"
#include "codegen/interpreter/native_error.h"
#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

constexpr size_t kElements = 64;

Kernel finished(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : Kernel{};
}

Val global_id(Builder& b) {
  return b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32);
}

/// The buffers x, y of 64 floats, of which each variant has its own.
class Copies final : public Memory {
 public:
  Copies(const Kernel& k, size_t variants) {
    for (size_t v = 0; v < variants; ++v) {
      auto& own = buffers_.emplace_back(k.buffers.size(), std::vector<float>(kElements));
      for (size_t i = 0; i < kElements; ++i)
        own[0][i] = i % 9 == 0 ? 0x1p-140F : static_cast<float>(i % 7) * 0.3F - 0.7F;
      std::vector<std::span<std::byte>> spans;
      for (auto& b : own) spans.push_back(std::as_writable_bytes(std::span(b)));
      memories_.push_back(std::make_unique<BufferMemory>(k, spans));
    }
  }
  uint64_t elements(size_t buffer) const override { return memories_[0]->elements(buffer); }
  std::optional<Race> load(const MemoryRow& row) override {
    return split(row, [](Memory& m, const MemoryRow& r) { return m.load(r); });
  }
  std::optional<Race> store(const MemoryRow& row) override {
    return split(row, [](Memory& m, const MemoryRow& r) { return m.store(r); });
  }
  const std::vector<float>& stored(size_t variant) const { return buffers_[variant].back(); }

 private:
  template <typename F>
  std::optional<Race> split(const MemoryRow& row, const F& access) {
    for (size_t v = 0; v < memories_.size(); ++v) {
      std::vector<uint32_t> own;
      for (const uint32_t n : row.active.list)
        if (row.variants[n] == v) own.push_back(n);
      MemoryRow part = row;
      part.active = {own, false, own.size()};
      if (const auto race = access(*memories_[v], part)) return race;
    }
    return std::nullopt;
  }
  std::vector<std::vector<std::vector<float>>> buffers_;
  std::vector<std::unique_ptr<BufferMemory>> memories_;
};

PartialLaunch workgroups(Memory& memory, uint32_t count = 4) {
  PartialLaunch launch;
  launch.grid = {count, 1, 1};
  for (uint32_t w = 0; w < count; ++w) launch.workgroups.push_back({w, 0, 0});
  launch.memory = &memory;
  launch.together = count;
  return launch;
}

/// All that a probe uses, and more.
std::vector<InterpretOptions> all_options() {
  std::vector<InterpretOptions> all(1);
  for (const NativeError e : {NativeError::Low, NativeError::High, NativeError::Mixed})
    all.push_back({.native_error = e});
  for (const uint64_t seed : {1, 2})
    all.push_back({.native_error = NativeError::Every, .error_seed = seed});
  all.push_back({.flush_subnormals = true});
  all.push_back({.native_error = NativeError::Every, .error_seed = 1, .flush_subnormals = true});
  return all;
}

/// Sums, products, native functions, comparisons, data that decide branches, a subgroup and a
/// shared array.
Kernel mixed(uint32_t workgroup) {
  Builder b("mixed");
  b.set_workgroup(workgroup);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int cells = b.shared("cells", Ty::F32, workgroup);
  const int total = b.local("total", kF32);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val v = b.load(x, global_id(b));
  b.local_store(total, b.f32(0.1F));
  b.for_loop(b.i32(0), b.i32(9), b.i32(1), [&](Val) {
    b.local_store(total, b.add(b.local_load(total), b.mul(v, b.f32(1.7F))));
    b.local_store(total, b.fma(v, b.local_load(total), b.f32(0.3F)));
  });
  b.if_then(b.lt(b.f32(0), v),
            [&] { b.local_store(total, b.scalar_op(ScalarOp::ExpNative, {b.local_load(total)})); });
  b.shared_store(cells, me, b.local_load(total));
  b.barrier();
  const Val other =
      b.shared_load(cells, b.rem(b.add(me, b.i32(3)), b.i32(static_cast<int32_t>(workgroup))));
  const Val positive = b.max(b.mul(v, b.f32(0.5F)), b.f32(0));
  const Val tiny = b.mul(b.min(positive, b.f32(0x1p-130F)), b.f32(0x1p126F));
  b.store(y, global_id(b), b.add(b.div(other, b.f32(3)), tiny));
  return finished(b);
}

TEST(PartialExecution, SeveralOptionsAtOnceComputeWhatEachComputesAlone) {
  const std::vector<InterpretOptions> options = all_options();
  for (const uint32_t workgroup : {16U, 6U}) {  // Rows of workgroups of 6 have gaps.
    for (const std::vector<uint32_t>& counted : {std::vector<uint32_t>{}, {0, 9, 22, 23}}) {
      const Kernel k = mixed(workgroup);
      Copies together(k, options.size());
      PartialLaunch launch = workgroups(together);
      launch.together = workgroup == 16 ? 4 : 1;
      launch.counted = counted;
      launch.check_shared = true;
      ASSERT_TRUE(interpret_some(k, launch, options).ok());
      for (size_t v = 0; v < options.size(); ++v) {
        Copies alone(k, 1);
        PartialLaunch whole = workgroups(alone);
        ASSERT_TRUE(interpret_some(k, whole, options[v]).ok());
        for (uint32_t i = 0; i < 4 * workgroup; ++i) {
          const bool counts = counted.empty() || std::ranges::count(counted, i) != 0;
          if (counts) {
            EXPECT_EQ(together.stored(v)[i], alone.stored(0)[i]) << v << " " << i;
          }
        }
        EXPECT_TRUE(v == 0 || together.stored(v) != together.stored(0)) << v;
      }
    }
  }
}

/// Four results of each invocation, which pass through an array that a loop reads.
Kernel staged() {
  Builder b("staged");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int results = b.local("results", kF32, 4);
  const Val first = b.mul(global_id(b), b.i32(4));
  for (int i = 0; i < 4; ++i) {
    const Val v = b.load(x, b.add(first, b.i32(i)));
    b.local_store(results, b.mul(v, b.f32(static_cast<float>(i) + 0.5F)), b.i32(i));
  }
  b.for_loop(b.i32(0), b.i32(4), b.i32(1),
             [&](Val i) { b.store(y, b.add(first, i), b.local_load(results, i)); });
  return finished(b);
}

std::vector<int32_t> ids_of(const Kernel& k, Op op) {
  std::vector<int32_t> ids;
  for (size_t id = 0; id < k.insts.size(); ++id)
    if (k.insts[id].op == op) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

TEST(PartialExecution, OnlyIterationsThatStoreWhatCountsNeedTheirValues) {
  const Kernel k = staged();
  const std::vector<int32_t> local_stores = ids_of(k, Op::LocalStore);
  const int32_t store = ids_of(k, Op::Store).at(0);
  const std::vector<StoreOf> stores{{store, 2}};
  const std::vector<bool> needed = needed_for(k, stores, false);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(needed[static_cast<size_t>(local_stores.at(i))], i == 2) << i;

  Copies some(k, 1), all(k, 1);
  PartialLaunch launch = workgroups(some, 2);
  launch.counted = {1, 7};
  launch.stores = stores;
  ASSERT_TRUE(interpret_some(k, launch).ok());
  ASSERT_TRUE(interpret_some(k, workgroups(all, 2)).ok());
  for (const size_t n : {1, 7}) EXPECT_EQ(some.stored(0)[4 * n + 2], all.stored(0)[4 * n + 2]);
  EXPECT_NE(some.stored(0)[4 * 1 + 3], all.stored(0)[4 * 1 + 3]);
}

/// If values pass from one iteration to another, all iterations are needed.
TEST(PartialExecution, IterationsNeedThoseBeforeThem) {
  Builder b("sums");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int values = b.local("values", kF32, 4);
  const int sum = b.local("sum", kF32);
  const Val first = b.mul(global_id(b), b.i32(4));
  for (int i = 0; i < 4; ++i) b.local_store(values, b.load(x, b.add(first, b.i32(i))), b.i32(i));
  b.local_store(sum, b.f32(0));
  b.for_loop(b.i32(0), b.i32(4), b.i32(1), [&](Val i) {
    b.local_store(sum, b.add(b.local_load(sum), b.local_load(values, i)));
    b.store(y, b.add(first, i), b.local_load(sum));
  });
  const Kernel k = finished(b);
  const std::vector<StoreOf> stores{{ids_of(k, Op::Store).at(0), 3}};
  const std::vector<bool> needed = needed_for(k, stores, false);
  for (const int32_t id : ids_of(k, Op::LocalStore)) EXPECT_TRUE(needed[static_cast<size_t>(id)]);
}

/// An invocation that does not count races.
TEST(PartialExecution, ChecksSharedAccessesOfInvocationsThatDoNotCount) {
  const auto k = [](bool races) {
    Builder b("race");
    b.set_workgroup(16);
    b.buffer("x", Ty::F32, Access::Read);
    const int y = b.buffer("y", Ty::F32, Access::Write);
    const int cells = b.shared("cells", Ty::F32, 17);
    const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.shared_store(cells, me, b.f32(1));
    if (!races) b.barrier();
    const Val next = b.add(me, b.i32(1));
    b.if_then(b.eq(me, b.i32(11)), [&] { b.store(y, global_id(b), b.shared_load(cells, next)); });
    return finished(b);
  };
  for (const bool races : {false, true}) {
    for (const size_t variants : {1, 3}) {
      Copies memory(k(races), variants);
      PartialLaunch launch = workgroups(memory);
      launch.counted = {2};
      launch.check_shared = true;
      const std::vector<InterpretOptions> options(variants);
      EXPECT_EQ(interpret_some(k(races), launch, options).ok(), !races);
    }
  }
}

/// Reads shared elements at indices that it has read from shared elements. `outside`: the one that
/// invocation 13 reads second does not exist.
Kernel chased(bool outside) {
  Builder b("chased");
  b.set_workgroup(16);
  b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int next = b.shared("next", Ty::I32, 16);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val last = b.select(b.eq(me, b.i32(13)), b.i32(outside ? 16 : 2), b.i32(5));
  b.shared_store(next, me, b.rem(b.add(me, last), b.i32(outside ? 32 : 16)));
  b.barrier();
  const Val first = b.shared_load(next, b.rem(b.add(me, b.i32(3)), b.i32(16)));
  b.store(y, global_id(b), b.convert(b.shared_load(next, b.shared_load(next, first)), Ty::F32));
  return finished(b);
}

TEST(PartialExecution, ChecksSharedAccessesWhoseIndicesWereShared) {
  for (const size_t variants : {1, 3}) {
    const std::vector<InterpretOptions> options(variants);
    Copies some(chased(false), variants), whole(chased(false), 1);
    PartialLaunch launch = workgroups(some);
    launch.counted = {2, 21, 38};
    launch.check_shared = true;
    ASSERT_TRUE(interpret_some(chased(false), launch, options).ok());
    ASSERT_TRUE(interpret_some(chased(false), workgroups(whole)).ok());
    for (const uint32_t n : launch.counted)
      for (size_t v = 0; v < variants; ++v)
        EXPECT_EQ(some.stored(v)[n], whole.stored(0)[n]) << n << " " << v;
    Copies wrong(chased(true), variants);
    launch.memory = &wrong;
    EXPECT_FALSE(interpret_some(chased(true), launch, options).ok());
  }
}

/// All read an element, several times, before one of them writes it.
TEST(PartialExecution, ChecksWritesOfElementsThatManyHaveRead) {
  const auto k = [](bool races) {
    Builder b("race");
    b.set_workgroup(16);
    b.buffer("x", Ty::F32, Access::Read);
    const int y = b.buffer("y", Ty::F32, Access::Write);
    const int cells = b.shared("cells", Ty::F32, 16);
    const int sum = b.local("sum", kF32);
    const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.local_store(sum, b.f32(0));
    b.for_loop(b.i32(0), b.i32(9), b.i32(1), [&](Val i) {
      b.if_then(b.eq(me, b.i32(11)),
                [&] { b.shared_store(cells, b.i32(0), b.convert(i, Ty::F32)); });
      b.barrier();
      for (int n = 0; n < 2; ++n)
        b.local_store(sum, b.add(b.local_load(sum), b.shared_load(cells, b.i32(0))));
      if (!races) b.barrier();
    });
    b.store(y, global_id(b), b.local_load(sum));
    return finished(b);
  };
  for (const bool races : {false, true}) {
    Copies memory(k(races), 3);
    PartialLaunch launch = workgroups(memory);
    launch.counted = {2};
    launch.check_shared = true;
    const std::vector<InterpretOptions> options(3);
    EXPECT_EQ(interpret_some(k(races), launch, options).ok(), !races);
    if (!races) {
      for (size_t v = 0; v < 3; ++v) EXPECT_EQ(memory.stored(v)[2], 72.0F) << v;
    }
  }
}

/// Values of locals stay as they were loaded, although they may share the words of the local.
TEST(PartialExecution, LoadedValuesOutliveLaterStores) {
  Builder b("swap");
  b.set_workgroup(16);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int l = b.local("l", kF32);
  const int m = b.local("m", kF32);
  const Val i = global_id(b);
  b.local_store(l, b.load(x, i));
  b.local_store(m, b.f32(2));
  const Val before = b.local_load(l);
  const Val product = b.mul(b.local_load(l), b.local_load(m));
  b.local_store(l, b.f32(100));
  const Val sum = b.add(product, b.local_load(l));  // fused with the product, after the store
  b.if_then(b.lt(b.i32(3), i), [&] { b.local_store(m, before); });
  b.store(y, i, b.add(sum, b.mul(before, b.local_load(m))));
  const Kernel k = finished(b);
  Copies memory(k, 1), unused(k, 1);
  ASSERT_TRUE(interpret_some(k, workgroups(memory)).ok());
  for (size_t n = 0; n < kElements; ++n) {
    const float v = n % 9 == 0 ? 0x1p-140F : static_cast<float>(n % 7) * 0.3F - 0.7F;
    EXPECT_EQ(memory.stored(0)[n], (v * 2 + 100) + v * (n > 3 ? v : 2)) << n;
  }
}

TEST(Rows, DivisionsByConstantsAreExact) {
  std::vector<uint32_t> numbers{0, 1, 2, 3, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff};
  for (uint32_t i = 0; i < 1000; ++i) numbers.push_back(i * 0x9e3779b1U);
  for (const uint32_t by : {1U, 2U, 3U, 7U, 49U, 64U, 4093U, 65536U, 1U << 30U, (1U << 30U) - 1,
                            0U - 1, 0U - 3, 0U - 64}) {
    for (uint32_t q = 1; q < 20; ++q)
      for (const uint32_t d : {0U - 1, 0U, 1U}) numbers.push_back(q * by + d);
  }
  numbers.resize((numbers.size() + 7) / 8 * 8);
  for (const Ty t : {Ty::I32, Ty::U32}) {
    for (const ScalarOp op : {ScalarOp::IDiv, ScalarOp::IRem}) {
      for (const int64_t by :
           {1, 2, 3, 7, 49, 64, 4093, 65536, 1 << 30, (1 << 30) - 1, -1, -3, -64}) {
        if (t == Ty::U32 && by < 0) continue;
        const std::vector<uint32_t> divisors(numbers.size(), static_cast<uint32_t>(by));
        std::vector<uint32_t> out(numbers.size());
        division_function(op, t)(
            {out.data(), {numbers.data(), divisors.data(), numbers.data()}, numbers.size(), 0});
        for (size_t i = 0; i < numbers.size(); ++i) {
          const uint64_t operands[2] = {numbers[i], divisors[i]};
          ASSERT_EQ(out[i], static_cast<uint32_t>(scalar_function(op, t)(operands)))
              << numbers[i] << " by " << by;
        }
      }
    }
  }
}

TEST(Rows, PeriodicWordsRepeat) {
  for (const uint32_t period : {4093U, 8186U}) {
    std::vector<uint32_t> words;
    for (uint32_t i = 0; i < period + PeriodicWords::kMore; ++i) words.push_back(i % period);
    const PeriodicWords periodic(words);
    std::vector<uint32_t> indices{0, 1, period - 1, period, period + 1, 0xffffffffU, 0x80000000U};
    for (uint32_t i = 1; i < 1000; ++i) {
      indices.push_back(i * period);
      indices.push_back(i * period - 1);
      indices.push_back(i * 0x9e3779b1U);
    }
    std::vector<uint32_t> out(4 * indices.size());
    periodic.load(indices, 4, indices.size(), out.data());
    for (size_t i = 0; i < indices.size(); ++i)
      for (size_t l = 0; l < 4; ++l)
        ASSERT_EQ(out[l * indices.size() + i], (indices[i] % period + l) % period) << indices[i];
  }
}

/// Rows and single results must not differ, or a result would depend on how it was computed.
TEST(Rows, HaveTheResultsOfSingleOperations) {
  std::vector<uint32_t> a, b, c;
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525U + 1013904223U; };
  for (size_t i = 0; i < 4096; ++i) {
    const bool near = i % 2 == 0;  // numbers whose sums are inexact, or any bits
    for (auto* list : {&a, &b, &c})
      list->push_back(near ? 0x3f000000U + next() % 0x2000000U : next());
  }
  for (const InterpretOptions& o : all_options()) {
    for (const ScalarOp op : {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Fma,
                              ScalarOp::Less, ScalarOp::Equal}) {
      const RowFunction f = row_function(op, Ty::F32, o);
      if (f == nullptr) continue;
      std::vector<uint32_t> out(a.size());
      f({out.data(), {a.data(), b.data(), c.data()}, a.size(), o.error_seed});
      for (size_t i = 0; i < a.size(); ++i) {
        const uint64_t operands[3] = {a[i], b[i], c[i]};
        const size_t arity = op == ScalarOp::Fma ? 3 : 2;
        const auto one =
            static_cast<uint32_t>(inexact_result(op, Ty::F32, std::span(operands).first(arity), o));
        const bool both_nan =
            std::isnan(std::bit_cast<float>(one)) && std::isnan(std::bit_cast<float>(out[i]));
        ASSERT_TRUE(out[i] == one || both_nan) << static_cast<int>(op) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernel
