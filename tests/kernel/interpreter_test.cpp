// The interpreter runs kernels, and catches what a correct kernel never does.
#include "codegen/interpreter/interpreter.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "codegen/interpreter/memory.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

template <typename T>
std::span<std::byte> bytes(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}

Val global_index(Builder& b) {
  return b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32);
}

Kernel built(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : Kernel{};
}

TEST(Interpreter, WorkgroupSumThroughSharedMemory) {
  Builder b("sum");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int cells = b.shared("cells", Ty::F32, 64);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.shared_store(cells, me, b.load(x, global_index(b)));
  b.barrier();
  for (int width = 32; width > 0; width /= 2) {
    b.if_then(b.lt(me, b.i32(width)), [&] {
      const Val other = b.shared_load(cells, b.add(me, b.i32(width)));
      b.shared_store(cells, me, b.add(b.shared_load(cells, me), other));
    });
    b.barrier();
  }
  b.if_then(b.eq(me, b.i32(0)), [&] {
    const Val group = b.convert(b.builtin(Builtin::WorkgroupId, 0), Ty::I32);
    b.store(y, group, b.shared_load(cells, b.i32(0)));
  });
  const Kernel k = built(b);
  std::vector<float> in(192);
  std::iota(in.begin(), in.end(), 0.0F);
  std::vector<float> out(3);
  const auto outcome = interpret(k, {{3, 1, 1}, {bytes(in), bytes(out)}, {}});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(out, (std::vector<float>{2016, 6112, 10208}));
}

/// y[i] = the sum of the first numbers of a workgroup, as many as the invocation's index. Loops
/// that differ in length, a shared array and a barrier.
Kernel running_sums() {
  Builder b("sums");
  b.set_workgroup(8);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const int cells = b.shared("cells", Ty::I32, 8);
  const int total = b.local("total", kI32);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.shared_store(cells, me, global_index(b));
  b.barrier();
  b.local_store(total, b.i32(0));
  b.for_loop(b.i32(0), me, b.i32(1), [&](Val i) {
    b.local_store(total, b.add(b.local_load(total), b.shared_load(cells, i)));
  });
  b.store(y, global_index(b), b.local_load(total));
  return built(b);
}

TEST(Interpreter, WorkgroupsTogetherDoWhatTheyDoAlone) {
  const Kernel k = running_sums();
  std::vector<std::vector<int32_t>> results;
  std::vector<uint64_t> instructions;
  for (const uint32_t together : {1U, 2U, 5U}) {  // of five: the last step may have fewer
    auto& y = results.emplace_back(40);
    const std::array<std::span<std::byte>, 1> buffers{bytes(y)};
    BufferMemory memory(k, buffers);
    PartialLaunch launch;
    launch.grid = {5, 1, 1};
    launch.memory = &memory;
    launch.together = together;
    const auto outcome = interpret_some(k, launch);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_EQ(outcome->workgroups, 5U);
    instructions.push_back(outcome->instructions);
  }
  EXPECT_EQ(results[0][39], 32 + 33 + 34 + 35 + 36 + 37 + 38);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(instructions, std::vector<uint64_t>(3, instructions[0]));
}

/// y[i] = x[i] divided by the sum of the workgroup's elements of x, which pass through a buffer
/// that the kernel writes and reads, a sum over subgroups and a shared array.
Kernel normalised() {
  Builder b("normalised");
  b.set_workgroup(16);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int scratch = b.buffer("scratch", Ty::F32, Access::ReadWrite);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int cells = b.shared("cells", Ty::F32, 16);
  const int kept = b.local("kept", kF32);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val i = global_index(b);
  const Val squared = b.mul(b.load(x, i), b.load(x, i));
  b.store(scratch, i, squared);
  b.local_store(kept, b.load(scratch, i));
  const Val sum = b.subgroup(SubgroupOp::Add, b.local_load(kept));
  b.shared_store(cells, me, sum);
  b.barrier();
  const Val total = b.add(b.shared_load(cells, b.i32(0)), b.shared_load(cells, b.i32(15)));
  const Val neighbour = b.subgroup(SubgroupOp::ShuffleXor, b.load(x, i), b.u32(1));
  b.store(y, i, b.div(b.add(b.load(x, i), neighbour), total));
  return built(b);
}

/// y[index[i]] = x[i] + 1 where x[i] is positive: data decides where, and whether, is stored.
Kernel scattered() {
  Builder b("scattered");
  b.set_workgroup(16);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int index = b.buffer("index", Ty::I32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val i = global_index(b);
  const Val v = b.load(x, i);
  b.if_then(b.lt(b.f32(0), v), [&] { b.store(y, b.load(index, i), b.add(v, b.f32(1))); });
  return built(b);
}

/// The bits of the last buffer after a launch of four workgroups of 16 in which these count.
std::vector<float> stored(const Kernel& k, const std::vector<uint32_t>& counted, bool exact) {
  std::vector<std::vector<float>> buffers(k.buffers.size(), std::vector<float>(64));
  for (size_t i = 0; i < 64; ++i) {
    buffers[0][i] = static_cast<float>(i % 7) - 2.25F;
    buffers[1][i] = std::bit_cast<float>(static_cast<int32_t>(63 - i));
  }
  std::vector<std::span<std::byte>> spans;
  for (auto& b : buffers) spans.push_back(bytes(b));
  BufferMemory memory(k, spans);
  PartialLaunch launch;
  launch.grid = {4, 1, 1};
  for (uint32_t w = 0; w < 4; ++w) launch.workgroups.push_back({3 - w, 0, 0});
  launch.memory = &memory;
  launch.together = 4;
  launch.counted = counted;
  InterpretOptions options;
  if (!exact) options.native_error = NativeError::Every;
  const auto outcome = interpret_some(k, launch, options);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return buffers.back();
}

TEST(Interpreter, StoresThatCountAreThoseOfAWholeLaunch) {
  for (const bool exact : {true, false}) {
    for (const uint32_t one : {0U, 5U, 15U, 16U, 38U, 63U}) {
      const std::vector<uint32_t> counted{one / 2, one};  // of workgroup 3 - one / 16
      const size_t at = size_t{16} * (3 - one / 16) + one % 16;
      const Kernel sums = normalised();
      EXPECT_EQ(stored(sums, counted, exact)[at], stored(sums, {}, exact)[at]) << one;
      EXPECT_NE(stored(sums, {}, exact)[at], 0) << one;
      // Whether an invocation stores depends on data, so all do.
      EXPECT_EQ(stored(scattered(), counted, exact), stored(scattered(), {}, exact)) << one;
    }
  }
}

TEST(Interpreter, InvocationsThatDoNotCountComputeNoResults) {
  Builder b("copy");
  b.set_workgroup(16);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  b.buffer("unused", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  b.store(y, global_index(b), b.load(x, global_index(b)));
  const Kernel k = built(b);
  const std::vector<float> some = stored(k, {17, 63}, true);
  const std::vector<float> all = stored(k, {}, true);
  for (size_t i = 0; i < 64; ++i) {
    const bool counts = i == 33 || i == 15;
    EXPECT_EQ(some[i], counts ? all[i] : 0) << i;
  }
}

TEST(Interpreter, ASecondWorkgroupFollowsACheapFirstOne) {
  const Kernel k = running_sums();
  const auto workgroups = [&](uint64_t enough, uint64_t cheap) {
    std::vector<int32_t> y(40);
    const std::array<std::span<std::byte>, 1> buffers{bytes(y)};
    BufferMemory memory(k, buffers);
    PartialLaunch launch;
    launch.grid = {5, 1, 1};
    launch.memory = &memory;
    launch.enough = enough;
    launch.cheap = cheap;
    const auto outcome = interpret_some(k, launch);
    return outcome.ok() ? outcome->workgroups : 0;
  };
  EXPECT_EQ(workgroups(1, 0), 1U);
  EXPECT_EQ(workgroups(1, 1'000'000), 2U);
  EXPECT_EQ(workgroups(1'000'000, 0), 5U);
}

TEST(Interpreter, LoopsBranchesLocalsAndParameters) {
  // y[i] = sum of the even numbers below i + n
  Builder b("evens");
  b.set_workgroup(8);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const int n = b.scalar("n");
  const int sum = b.local("sum", kI32);
  b.local_store(sum, b.i32(0));
  const Val i = global_index(b);
  b.for_loop(b.i32(0), b.add(i, b.param(n)), b.i32(1), [&](Val j) {
    b.if_then(b.eq(b.rem(j, b.i32(2)), b.i32(0)),
              [&] { b.local_store(sum, b.add(b.local_load(sum), j)); });
  });
  b.store(y, i, b.local_load(sum));
  Kernel k = built(b);
  for (bool expanded : {false, true}) {
    ASSERT_TRUE(!expanded || expand(k).ok());
    std::vector<int32_t> out(8, -1);
    ASSERT_TRUE(interpret(k, {{1, 1, 1}, {bytes(out)}, {2}}).ok());
    EXPECT_EQ(out, (std::vector<int32_t>{0, 2, 2, 6, 6, 12, 12, 20}));
  }
}

TEST(Interpreter, SubgroupOperations) {
  Builder b("subgroups");
  b.set_workgroup(8);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const auto put = [&](int at, Val v) { b.store(y, b.add(b.mul(me, b.i32(5)), b.i32(at)), v); };
  put(0, b.subgroup(SubgroupOp::Add, me));
  put(1, b.subgroup(SubgroupOp::Max, me));
  put(2, b.subgroup(SubgroupOp::ShuffleXor, me, b.i32(1)));
  put(3, b.subgroup(SubgroupOp::Broadcast, me, b.i32(2)));
  put(4, b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32));
  const Kernel k = built(b);
  std::vector<int32_t> out(40);
  const auto outcome = interpret(k, {{1, 1, 1}, {bytes(out)}, {}}, {.subgroup_size = 4});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(std::vector<int32_t>(out.begin(), out.begin() + 5),
            (std::vector<int32_t>{6, 3, 1, 2, 0}));
  EXPECT_EQ(std::vector<int32_t>(out.end() - 5, out.end()), (std::vector<int32_t>{22, 7, 6, 6, 1}));
}

TEST(Interpreter, StorageTypesWidenAndNarrow) {
  const struct {
    Ty storage;
    Ty arithmetic;
    uint64_t stored;
    uint64_t loaded;
  } cases[] = {
      {Ty::I8, Ty::I32, 0x80, 0xffffff80},
      {Ty::U8, Ty::U32, 0xfe, 0xfe},
      {Ty::I16, Ty::I32, 0xfffe, 0xfffffffe},
      {Ty::U16, Ty::U32, 0xfffe, 0xfffe},
      {Ty::BF16, Ty::F32, 0x3fc0, 0x3fc00000},
      {Ty::F16, Ty::F16, 0x3e00, 0x3e00},
      {Ty::I64, Ty::I64, ~uint64_t{5}, ~uint64_t{5}},
  };
  for (const auto& c : cases) {
    Builder b("copy");
    b.set_workgroup(1);
    const int x = b.buffer("x", c.storage, Access::Read);
    const int y = b.buffer("y", c.storage, Access::Write);
    const int wide = b.buffer("wide", c.arithmetic, Access::Write);
    const Val v = b.load(x, b.i32(0));
    b.store(y, b.i32(0), v);
    b.store(wide, b.i32(0), v);
    const Kernel k = built(b);
    std::vector<uint64_t> in{c.stored};
    std::vector<uint64_t> out(1);
    std::vector<uint64_t> loaded(1);
    ASSERT_TRUE(interpret(k, {{1, 1, 1}, {bytes(in), bytes(out), bytes(loaded)}, {}}).ok());
    EXPECT_EQ(out[0], c.stored) << name_of(c.storage);
    EXPECT_EQ(loaded[0], c.loaded) << name_of(c.storage);
  }
}

TEST(Interpreter, RecordsErrors) {
  Builder b("check");
  b.set_workgroup(4);
  const int n = b.scalar("n");
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const Val i = global_index(b);
  b.set_error(b.ge(i, b.param(n)), ErrorCode::IndexOutOfRange);
  b.store(y, i, i);
  const Kernel k = built(b);
  std::vector<int32_t> out(4);
  EXPECT_EQ(interpret(k, {{1, 1, 1}, {bytes(out)}, {4}})->error, ErrorCode::None);
  EXPECT_EQ(interpret(k, {{1, 1, 1}, {bytes(out)}, {3}})->error, ErrorCode::IndexOutOfRange);
}

TEST(Interpreter, ReportsTheLargestOfSeveralErrors) {
  Builder b("check");
  b.set_workgroup(2);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const Val i = global_index(b);
  b.set_error(b.eq(i, b.i32(0)), ErrorCode::DivisionByZero);
  b.set_error(b.eq(i, b.i32(1)), ErrorCode::IndexOutOfRange);
  b.store(y, i, i);
  std::vector<int32_t> out(2);
  EXPECT_EQ(interpret(built(b), {{1, 1, 1}, {bytes(out)}, {}})->error, ErrorCode::DivisionByZero);
}

TEST(Interpreter, StoresOfBitsKeepTheOthers) {
  Builder b("bits");
  b.set_workgroup(4);
  const int y = b.buffer("y", Ty::U32, Access::Write);
  const Val i = b.builtin(Builtin::LocalIndex);
  const Val shift = b.mul(i, b.u32(8));
  const auto shifted = [&](uint64_t v) {
    return b.scalar_op(ScalarOp::ShiftLeft, {b.u32(v), shift});
  };
  b.store_bits(y, b.u32(0), shifted(0xabc), shifted(0x0f));
  std::vector<uint32_t> out{0x11223344};
  EXPECT_EQ(interpret(built(b), {{1, 1, 1}, {bytes(out)}, {}})->error, ErrorCode::None);
  EXPECT_EQ(out[0], 0x1c2c3c4cU);
}

struct Violation {
  const char* message;
  std::function<void(Builder&, int x, int y)> write;
};

/// 8 invocations in two subgroups of 4; x: 8 floats to read, y: 8 floats to read and write.
const Violation kViolations[] = {
    {"invocation (1, 0, 0) accesses x[8], 1 elements, of 8",
     [](Builder& b, int x, int y) {
       const Val i = global_index(b);
       b.store(y, i, b.load(x, b.add(i, b.i32(7))));
     }},
    {"accesses y[-1]",
     [](Builder& b, int, int y) { b.store(y, b.sub(global_index(b), b.i32(1)), b.f32(0)); }},
    {"accesses x[1], claimed a multiple of 4",
     [](Builder& b, int x, int y) {
       b.store(y, global_index(b), b.extract(b.load(x, global_index(b), 4, 4), 0));
     }},
    {"accesses x[8], 4 elements, of 8",
     [](Builder& b, int x, int y) {
       const Val i = global_index(b);
       b.store(y, i, b.extract(b.load(x, b.mul(i, b.i32(4)), 4, 4), 0));
     }},
    {"races with another invocation on y[0]",
     [](Builder& b, int, int y) { b.store(y, b.i32(0), b.f32(1)); }},
    {"races with another invocation on y[",
     [](Builder& b, int, int y) {
       const Val i = global_index(b);
       b.store(y, i, b.f32(1));
       const Val next = b.rem(b.add(i, b.i32(1)), b.i32(8));
       b.store(y, i, b.load(y, next));
     }},
    {"races with another invocation on cells[",
     [](Builder& b, int, int y) {
       const int cells = b.shared("cells", Ty::F32, 8);
       const Val i = global_index(b);
       b.shared_store(cells, i, b.f32(1));
       b.store(y, i, b.shared_load(cells, b.sub(b.i32(7), i)));
     }},
    {"reads cells[1] before it is written",
     [](Builder& b, int, int y) {
       const int cells = b.shared("cells", Ty::F32, 8);
       const Val i = global_index(b);
       b.if_then(b.eq(i, b.i32(0)), [&] { b.shared_store(cells, i, b.f32(1)); });
       b.barrier();
       b.store(y, i, b.shared_load(cells, i));
     }},
    {"accesses cells[8]",
     [](Builder& b, int, int) {
       const int cells = b.shared("cells", Ty::F32, 8);
       b.shared_store(cells, b.add(global_index(b), b.i32(1)), b.f32(1));
     }},
    {"reads local 'v' before it is written",
     [](Builder& b, int, int y) {
       const int v = b.local("v", kF32);
       const Val i = global_index(b);
       b.if_then(b.lt(i, b.i32(7)), [&] { b.local_store(v, b.f32(1)); });
       b.store(y, i, b.local_load(v));
     }},
    {"accesses many[4]",
     [](Builder& b, int, int) {
       const int many = b.local("many", kF32, 4);
       b.local_store(many, b.f32(1), global_index(b));
     }},
    {"divides by zero",
     [](Builder& b, int, int y) {
       const Val i = global_index(b);
       b.store(y, i, b.convert(b.scalar_op(ScalarOp::IDiv, {b.i32(5), i}), Ty::F32));
     }},
    {"outside the range that it claims",
     [](Builder& b, int x, int y) {
       const Val i = global_index(b);
       const Val big = b.mul(b.load(x, i), b.f32(1e9F));
       b.store(y, i, b.convert(b.convert(big, Ty::I32, true), Ty::F32));
     }},
    {"reads subgroup lane 4, which is inactive or does not exist",
     [](Builder& b, int x, int y) {
       const Val i = global_index(b);
       const Val lane = b.add(b.rem(i, b.i32(4)), b.i32(1));
       b.store(y, i, b.subgroup(SubgroupOp::Shuffle, b.load(x, i), lane));
     }},
    {"reads subgroup lane 3, which is inactive or does not exist",
     [](Builder& b, int x, int y) {
       const Val i = global_index(b);
       b.if_then(b.lt(i, b.i32(3)),
                 [&] { b.store(y, i, b.subgroup(SubgroupOp::Broadcast, b.load(x, i), b.i32(3))); });
     }},
    {"loops with a step that is not positive",
     [](Builder& b, int, int y) {
       const Val i = global_index(b);
       b.for_loop(b.i32(0), b.i32(9), i, [&](Val) { b.store(y, i, b.f32(1)); });
     }},
};

TEST(Interpreter, CatchesViolations) {
  for (const Violation& v : kViolations) {
    Builder b("wrong");
    b.set_workgroup(8);
    const int x = b.buffer("x", Ty::F32, Access::Read);
    const int y = b.buffer("y", Ty::F32, Access::ReadWrite);
    v.write(b, x, y);
    const Kernel k = built(b);
    std::vector<float> in(8, 7.0F);
    std::vector<float> out(8);
    const auto outcome =
        interpret(k, {{1, 1, 1}, {bytes(in), bytes(out)}, {}}, {.subgroup_size = 4});
    ASSERT_FALSE(outcome.ok()) << v.message;
    EXPECT_EQ(outcome.status().code(), Code::Internal);
    EXPECT_NE(outcome.status().message().find(v.message), std::string::npos)
        << outcome.status().message();
  }
}

TEST(Interpreter, CatchesDivergentBarriers) {
  Builder b("divergent");
  b.set_workgroup(4);
  const int y = b.buffer("y", Ty::I32, Access::Write);
  const Val me = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val group = b.convert(b.builtin(Builtin::WorkgroupId, 0), Ty::I32);
  const Val uniform = b.lt(group, b.i32(2));
  const Val varying = b.lt(me, b.i32(2));
  b.if_then(uniform, [&] { b.barrier(); });
  b.store(y, me, b.convert(varying, Ty::I32));
  Kernel k = built(b);
  std::vector<int32_t> out(4);
  EXPECT_TRUE(interpret(k, {{1, 1, 1}, {bytes(out)}, {}}).ok());
  // No verified kernel has this.
  for (Inst& i : k.insts) {
    if (i.op == Op::If) i.args[0] = varying;
  }
  EXPECT_FALSE(verify(k).ok());
  const auto outcome = interpret(k, {{1, 1, 1}, {bytes(out)}, {}});
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.status().message().find("only 2 of 4 invocations reach"), std::string::npos)
      << outcome.status().message();
}

TEST(Interpreter, SeesRacesThroughOverlappingBuffers) {
  Builder b("in_place");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read, 4);
  const int y = b.buffer("y", Ty::F32, Access::Write, 4);
  const Val i = global_index(b);
  b.store(y, i, b.load(x, i));
  const Kernel k = built(b);
  std::vector<float> data(9, 1.0F);
  const auto whole = bytes(data);
  EXPECT_TRUE(interpret(k, {{1, 1, 1}, {whole.first(32), whole.first(32)}, {}}).ok());
  const auto shifted = interpret(k, {{1, 1, 1}, {whole.first(32), whole.subspan(4)}, {}});
  ASSERT_FALSE(shifted.ok());
  EXPECT_NE(shifted.status().message().find("races"), std::string::npos);
}

TEST(Interpreter, RefusesLaunchesThatDoNotMatch) {
  Builder b("two");
  b.buffer("x", Ty::F32, Access::Read);
  b.scalar("n");
  const Kernel k = built(b);
  std::vector<float> data(4);
  EXPECT_EQ(interpret(k, {{1, 1, 1}, {}, {1}}).status().code(), Code::Usage);
  EXPECT_EQ(interpret(k, {{1, 1, 1}, {bytes(data)}, {}}).status().code(), Code::Usage);
  EXPECT_EQ(interpret(k, {{65536, 1, 1}, {bytes(data)}, {1}}).status().code(), Code::Usage);
}

}  // namespace
}  // namespace reprise::kernel
