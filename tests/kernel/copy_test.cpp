// Asynchronous copies: their meaning, what the verifier and the interpreter refuse, and that each
// wait, commit and barrier of a ring of buffers is needed.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "codegen/interpreter/interpreter.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

constexpr uint32_t kInvocations = 8;
constexpr int kLanes = 4, kStage = 32, kSteps = 5;

/// What is left out of the ring.
enum class Without { Nothing, Wait, Commit, Barrier, LastBarrier };

/// y[i] is the sum of x[32 s + (i + 4) % 32] over all steps s. Invocations copy what others read, a
/// step ahead, through two stages of a ring.
Builder ring(Without without) {
  Builder b("ring");
  b.set_workgroup(kInvocations);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int stages = b.shared("stages", Ty::F32, 2 * kStage);
  const int sum = b.local("sum", {Ty::F32, kLanes});
  b.local_store(sum, b.constant({Ty::F32, kLanes}, 0));
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const auto copy = [&](Value step) {
    const Value left = b.i32(kSteps) - step;
    const Value exist = b.select(b.lt(b.i32(0), left), b.i32(kLanes), b.i32(0));
    const Value from = min(step, b.i32(kSteps - 1)) * kStage + local * kLanes;
    b.async_copy(x, from, stages, step % 2 * kStage + local * kLanes, kLanes, exist);
    if (without != Without::Commit) b.copy_commit();
  };
  copy(b.i32(0));
  b.for_loop(b.i32(0), b.i32(kSteps), b.i32(1), [&](Val at) {
    const Value step(b, at);
    copy(step + 1);
    if (without != Without::Wait) b.copy_wait(1);
    if (without != Without::Barrier) b.barrier();
    const Value other = (local + 1) % static_cast<int64_t>(kInvocations);
    const Val four = b.shared_load(stages, step % 2 * kStage + other * kLanes, kLanes);
    b.local_store(sum, b.add(b.local_load(sum), four));
    if (without != Without::LastBarrier) b.barrier();
  });
  b.copy_wait(0);
  b.store(y, local * kLanes, b.local_load(sum), kLanes);
  return b;
}

Result<std::vector<float>> run(const Kernel& k, size_t inputs = kStage * kSteps) {
  std::vector<float> x(inputs), y(kStage);
  std::iota(x.begin(), x.end(), 1.0F);
  Launch launch;
  launch.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  RP_TRY(interpret(k, launch, {}).status());
  return y;
}

TEST(AsyncCopy, RingOfStages) {
  Builder b = ring(Without::Nothing);
  const auto k = verified(b);
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_TRUE(requirements(*k).async_copies);
  EXPECT_NE(print(*k).find("async_copy stages["), std::string::npos) << print(*k);
  const auto y = run(*k);
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (int i = 0; i < kStage; ++i) {
    float want = 0;
    for (int s = 0; s < kSteps; ++s)
      want += static_cast<float>(kStage * s + (i + kLanes) % kStage + 1);
    EXPECT_EQ((*y)[static_cast<size_t>(i)], want) << i;
  }
}

TEST(AsyncCopy, EachWaitCommitAndBarrierIsNeeded) {
  const std::pair<Without, const char*> cases[] = {
      {Without::Wait, "before it is written"},
      {Without::Commit, "before it is written"},
      {Without::Barrier, "before it is written"},
      {Without::LastBarrier, "races with another invocation on stages"},
  };
  for (const auto& [without, message] : cases) {
    Builder b = ring(without);
    const auto k = verified(b);
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto y = run(*k);
    ASSERT_FALSE(y.ok()) << message;
    const bool found = y.status().message().find(message) != std::string::npos ||
                       y.status().message().find("races") != std::string::npos;
    EXPECT_TRUE(found) << y.status().message();
  }
}

/// A copy of every invocation to its own elements, and what follows.
Builder copies(const std::function<void(Builder&, int x, int shared, Val at)>& write) {
  Builder b("copies");
  b.set_workgroup(kInvocations);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int shared = b.shared("stages", Ty::F32, kStage);
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Value at = local * kLanes;
  write(b, x, shared, at);
  b.store(y, at, b.shared_load(shared, at, kLanes), kLanes);
  return b;
}

TEST(AsyncCopy, ElementsThatDoNotExistAreZero) {
  Builder kernel = copies([](Builder& b, int x, int shared, Val at) {
    const Val one = b.sub(b.i32(21), at);  // of the sixth invocation
    b.async_copy(x, at, shared, at, kLanes, b.max(b.min(one, b.i32(kLanes)), b.i32(0)));
    b.copy_commit();
    b.copy_wait(0);
  });
  const auto k = verified(kernel);
  ASSERT_TRUE(k.ok()) << k.status().message();
  const auto y = run(*k, 21);
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (size_t i = 0; i < kStage; ++i)
    EXPECT_EQ((*y)[i], i < 21 ? static_cast<float>(i + 1) : 0.0F) << i;
}

/// As in a product without depth, whose ring has nothing to copy.
TEST(AsyncCopy, NothingIsWaitedFor) {
  for (const bool commits : {false, true}) {
    Builder kernel = copies([&](Builder& b, int, int shared, Val at) {
      b.shared_store(shared, at, b.constant({Ty::F32, kLanes}, 3));
      if (commits) b.copy_commit();
      b.copy_wait(1);
      b.copy_wait(0);
    });
    const auto k = verified(kernel);
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto y = run(*k);
    ASSERT_TRUE(y.ok()) << y.status().message();
    for (const float v : *y) EXPECT_EQ(v, 3.0F);
  }
}

TEST(AsyncCopy, InterpreterCatchesViolations) {
  const struct {
    const char* message;
    std::function<void(Builder&, int x, int shared, Val at)> write;
  } cases[] = {
      {"copies 5 of 4 elements",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, at, shared, at, kLanes, b.add(b.i32(5), b.mul(at, b.i32(0))));
       }},
      {"accesses x[256], 4 elements, of 160",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, b.mul(at, b.i32(32)), shared, at, kLanes, b.i32(kLanes));
       }},
      {"claimed a multiple of 4",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, b.add(at, b.i32(2)), shared, at, kLanes, b.i32(kLanes));
       }},
      {"before it is written",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, at, shared, at, kLanes, b.i32(kLanes));
         b.copy_commit();
         b.copy_wait(1);
       }},
      {"races with another invocation on stages",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, at, shared, b.i32(0), kLanes, b.i32(kLanes));
       }},
      {"which was accessed meanwhile",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, at, shared, at, kLanes, b.i32(kLanes));
         b.copy_commit();
         b.barrier();
         b.shared_store(shared, at, b.f32(1));
         b.copy_wait(0);
       }},
  };
  for (const auto& c : cases) {
    Builder b = copies(c.write);
    auto k = b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto y = run(*k);
    ASSERT_FALSE(y.ok()) << c.message;
    EXPECT_NE(y.status().message().find(c.message), std::string::npos) << y.status().message();
  }
}

TEST(AsyncCopy, CopiesAreWaitedFor) {
  Builder kernel = copies([](Builder& b, int x, int shared, Val at) {
    b.shared_store(shared, at, b.constant({Ty::F32, kLanes}, 1));
    b.barrier();
    const Val again = b.add(b.i32(kStage / 2), b.div(at, b.i32(2)));
    b.if_then(b.lt(at, b.i32(0)), [&] { b.async_copy(x, again, shared, again, 1, b.i32(1)); });
  });
  const auto k = verified(kernel);
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_TRUE(run(*k).ok());  // no invocation copies
  Builder lost("lost");
  lost.set_workgroup(kInvocations);
  const int x = lost.buffer("x", Ty::F32, Access::Read);
  lost.buffer("y", Ty::F32, Access::Write);
  const int shared = lost.shared("stages", Ty::F32, kStage);
  const Value at = lost.convert(lost.builtin(Builtin::LocalIndex), Ty::I32);
  lost.async_copy(x, at * kLanes, shared, at * kLanes, kLanes, lost.i32(kLanes));
  const auto unfinished = lost.finish();
  ASSERT_TRUE(unfinished.ok()) << unfinished.status().message();
  const auto y = run(*unfinished);
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().message().find("never waits for this copy"), std::string::npos)
      << y.status().message();
}

TEST(AsyncCopy, VerifierNamesWhatIsWrong) {
  const struct {
    const char* message;
    std::function<void(Builder&, int x, int shared, Val at)> write;
  } cases[] = {
      {"not 4, 8 or 16",
       [](Builder& b, int x, int shared, Val at) { b.async_copy(x, at, shared, at, 3, b.i32(3)); }},
      {"types differ",
       [](Builder& b, int x, int, Val at) {
         b.async_copy(x, at, b.shared("halves", Ty::F16, 64), at, kLanes, b.i32(kLanes));
       }},
      {"which is written",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x + 1, at, shared, at, kLanes, b.i32(kLanes));
       }},
      {"index 2 is not a multiple of 4",
       [](Builder& b, int x, int shared, Val at) {
         b.async_copy(x, b.i32(2), shared, at, kLanes, b.i32(kLanes));
       }},
      {"malformed copy", [](Builder& b, int x, int shared,
                            Val at) { b.async_copy(x, at, shared, at, kLanes, b.f32(1)); }},
      {"malformed copy_wait", [](Builder& b, int, int, Val) { b.copy_wait(8); }},
      {"no shared array 7",
       [](Builder& b, int x, int, Val at) { b.async_copy(x, at, 7, at, kLanes, b.i32(4)); }},
      {"no buffer 9", [](Builder& b, int, int shared,
                         Val at) { b.async_copy(9, at, shared, at, kLanes, b.i32(4)); }},
  };
  for (const auto& c : cases) {
    Builder b = copies(c.write);
    const auto k = verified(b);
    ASSERT_FALSE(k.ok()) << c.message;
    EXPECT_NE(k.status().message().find(c.message), std::string::npos) << k.status().message();
  }
}

}  // namespace
}  // namespace reprise::kernel
