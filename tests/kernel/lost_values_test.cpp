// 64-bit integers computed in 32 bits: what does not fit is an error where it is used, and nowhere
// else.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

constexpr LegalizeFor kLeastDevice{
    .int64 = false, .float16 = false, .storage8 = false, .storage16 = false};
constexpr int64_t kLarge = int64_t{1} << 40;

struct Outcome64 {
  ErrorCode error;
  int64_t value;
};

/// Runs y[0] = f(x[0], x[1], ..) without 64-bit integers.
Outcome64 run(std::vector<int64_t> x, const std::function<Val(Builder&, std::span<const Val>)>& f) {
  Builder b("lost");
  b.set_workgroup(1);
  const int in = b.buffer("x", Ty::I64, Access::Read);
  const int out = b.buffer("y", Ty::I64, Access::Write);
  std::vector<Val> values;
  for (size_t i = 0; i < x.size(); ++i)
    values.push_back(b.load(in, b.i32(static_cast<int64_t>(i))));
  b.store(out, b.i32(0), f(b, values));
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return {};
  const Status s = legalize(*k, kLeastDevice);
  EXPECT_TRUE(s.ok()) << s.message();
  std::vector<int64_t> y(1);
  const auto outcome =
      interpret(*k, {{1, 1, 1},
                     {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))},
                     {}});
  EXPECT_TRUE(outcome.ok()) << outcome.status().message() << print(*k);
  return {outcome.ok() ? outcome->error : ErrorCode::None, y[0]};
}

TEST(LostValues, TheBranchThatIsNotTaken) {
  const auto f = [](Builder& b, std::span<const Val> x) {
    return b.select(b.lt(x[0], b.i64(2)), b.mul(x[0], b.i64(2000000000)), x[1]);
  };
  EXPECT_EQ(run({5, 7}, f).error, ErrorCode::None);
  EXPECT_EQ(run({5, 7}, f).value, 7);
  EXPECT_EQ(run({1, 7}, f).value, 2000000000);
  EXPECT_EQ(run({1, kLarge}, f).error, ErrorCode::None);
  EXPECT_EQ(run({-5, 7}, f).error, ErrorCode::IntegerOverflow);
  EXPECT_EQ(run({5, kLarge}, f).error, ErrorCode::IntegerOverflow);
}

TEST(LostValues, ClippedAndCompared) {
  const auto clip = [](Builder& b, std::span<const Val> x) {
    return b.min(b.max(b.add(x[0], x[1]), b.i64(-10)), b.i64(100));
  };
  EXPECT_EQ(run({2000000000, 2000000000}, clip).value, 100);
  EXPECT_EQ(run({2000000000, 2000000000}, clip).error, ErrorCode::None);
  EXPECT_EQ(run({-2000000000, -2000000000}, clip).value, -10);
  EXPECT_EQ(run({40, 2}, clip).value, 42);
  EXPECT_EQ(run({kLarge, 0}, clip).error, ErrorCode::IntegerOverflow);  // an operand was lost
  const auto less = [](Builder& b, std::span<const Val> x) {
    return b.select(b.lt(x[0], x[1]), b.i64(1), b.i64(0));
  };
  EXPECT_EQ(run({5, kLarge}, less).value, 1);
  EXPECT_EQ(run({5, kLarge}, less).error, ErrorCode::None);
  EXPECT_EQ(run({-kLarge, 5}, less).value, 1);
  EXPECT_EQ(run({kLarge, -kLarge}, less).error, ErrorCode::None);
  EXPECT_EQ(run({kLarge, kLarge + 1}, less).error, ErrorCode::IntegerOverflow);
  EXPECT_EQ(run({std::numeric_limits<int32_t>::max(), kLarge}, less).error,
            ErrorCode::IntegerOverflow);  // equal to what stands for the other one
}

TEST(LostValues, ThroughLocalsAndBranches) {
  const auto sum = [](Builder& b, std::span<const Val> x) {
    const int total = b.local("total", kI64);
    b.local_store(total, b.i64(0));
    b.for_loop(b.i32(0), b.i32(3), b.i32(1),
               [&](Val) { b.local_store(total, b.add(b.local_load(total), x[0])); });
    return b.select(b.eq(x[1], b.i64(0)), b.local_load(total), x[1]);
  };
  EXPECT_EQ(run({1000000000, 4}, sum).error, ErrorCode::None);
  EXPECT_EQ(run({1000000000, 4}, sum).value, 4);
  EXPECT_EQ(run({1000000000, 0}, sum).error, ErrorCode::IntegerOverflow);
  EXPECT_EQ(run({100, 0}, sum).value, 300);
  const auto branch = [](Builder& b, std::span<const Val> x) {
    const int v = b.local("v", kI64);
    b.local_store(v, x[1]);
    b.if_then(b.eq(b.mul(x[0], x[0]), b.i64(9)), [&] { b.local_store(v, b.i64(1)); });
    return b.local_load(v);
  };
  EXPECT_EQ(run({3, 7}, branch).value, 1);
  EXPECT_EQ(run({100000, 7}, branch).value, 7);  // no product of that size is 9
  EXPECT_EQ(run({kLarge, 7}, branch).error, ErrorCode::IntegerOverflow);
}

/// Random trees: a result without an error is right, and there is no error where everything fits
/// that the chosen operands come from.
class RandomTree {
 public:
  RandomTree(uint64_t seed, const std::vector<int64_t>& x) : rng_(seed), x_(x) {}

  struct Node {
    Val value;
    int64_t exact = 0;
    bool fits = true;
  };

  Node make(Builder& b, std::span<const Val> loads, int depth) {
    if (depth == 0) return leaf(b, loads);
    switch (pick(7)) {
      case 0:
        return arithmetic(b, ScalarOp::Add, loads, depth);
      case 1:
        return arithmetic(b, ScalarOp::Sub, loads, depth);
      case 2:
        return arithmetic(b, ScalarOp::Mul, loads, depth);
      case 3:
        return arithmetic(b, ScalarOp::Min, loads, depth);
      case 4:
        return arithmetic(b, ScalarOp::Max, loads, depth);
      default:
        return choice(b, loads, depth);
    }
  }

 private:
  uint64_t pick(uint64_t below) { return rng_() % below; }
  static bool fits(int64_t v) { return v == static_cast<int32_t>(v); }

  Node leaf(Builder& b, std::span<const Val> loads) {
    if (pick(3) == 0) {
      const auto c = static_cast<int64_t>(pick(7)) - 3;
      return {b.i64(c), c, true};
    }
    const size_t i = pick(x_.size());
    return {loads[i], x_[i], fits(x_[i])};
  }

  Node arithmetic(Builder& b, ScalarOp op, std::span<const Val> loads, int depth) {
    const Node l = make(b, loads, depth - 1), r = make(b, loads, depth - 1);
    const auto u = static_cast<uint64_t>(l.exact), v = static_cast<uint64_t>(r.exact);
    const uint64_t exact = op == ScalarOp::Add   ? u + v
                           : op == ScalarOp::Sub ? u - v
                           : op == ScalarOp::Mul ? u * v
                           : op == ScalarOp::Min
                               ? static_cast<uint64_t>(std::min(l.exact, r.exact))
                               : static_cast<uint64_t>(std::max(l.exact, r.exact));
    const auto e = static_cast<int64_t>(exact);
    return {b.scalar_op(op, {l.value, r.value}), e, l.fits && r.fits && fits(e)};
  }

  Node choice(Builder& b, std::span<const Val> loads, int depth) {
    const Node l = make(b, loads, depth - 1), r = make(b, loads, depth - 1);
    const Node m = make(b, loads, depth - 1), n = make(b, loads, depth - 1);
    Val condition = b.lt(l.value, r.value);
    bool holds = l.exact < r.exact, known = l.fits && r.fits;
    if (pick(2) == 0) {
      const bool conjunction = pick(2) == 0;
      const bool same = m.exact == n.exact;
      const Val equal = b.eq(m.value, n.value);
      condition = conjunction ? b.logical_and(condition, equal) : b.logical_or(condition, equal);
      holds = conjunction ? holds && same : holds || same;
      known = known && m.fits && n.fits;
    }
    const Node& taken = holds ? m : n;
    return {b.select(condition, m.value, n.value), taken.exact, known && taken.fits};
  }

  std::mt19937_64 rng_;
  const std::vector<int64_t>& x_;
};

TEST(LostValues, RandomTrees) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t interesting[] = {0,          1,          -1,        3,      -7,
                                 50000,      -50000,     kMost,     -kMost, kMost + 1,
                                 -kMost - 1, -kMost - 2, kMost - 1, kLarge, -kLarge};
  int right = 0, errors = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 rng(seed);
    std::vector<int64_t> x;
    for (int i = 0; i < 4; ++i) x.push_back(interesting[rng() % std::size(interesting)]);
    RandomTree::Node tree;
    const Outcome64 o = run(x, [&](Builder& b, std::span<const Val> loads) {
      tree = RandomTree(seed, x).make(b, loads, 1 + static_cast<int>(seed % 3));
      return tree.value;
    });
    if (o.error == ErrorCode::None) {
      ++right;
      ASSERT_EQ(o.value, tree.exact) << seed;
    } else {
      ++errors;
      ASSERT_FALSE(tree.fits) << seed;
    }
  }
  EXPECT_GT(right, 500);
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace reprise::kernel
