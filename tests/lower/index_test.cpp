// Index expressions as kernels compute them: the emitted code gives what Expr::eval gives, for
// dividends of any sign.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "codegen/graph/text/text.h"
#include "codegen/interpreter/interpreter.h"
#include "codegen/lower/evaluate/evaluator.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"

namespace reprise::lower {
namespace {

using kernel::Ty;

constexpr uint32_t kWorkgroup = 64, kGroups = 3;
constexpr SymbolId kModelSymbols = 3;
using Sizes = std::array<int64_t, kModelSymbols>;

/// A kernel that stores expressions over run-time values; values[i] stays below limits[i].
struct IndexKernel {
  std::unique_ptr<graph::Graph> g;
  std::vector<Group> groups;
  kernel::Builder b{"index"};
  std::unique_ptr<Evaluator> ev;
  Val invocation;
  std::vector<Expr> symbols, limits;
  std::vector<Expr> results;
  int out = 0;

  IndexKernel() {
    auto parsed = graph::parse("graph index\ninput x: int32[n,m,p]\ny = Neg(x)\noutput y\n");
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    g = std::move(*parsed);
    auto fusion = fuse(*g);
    EXPECT_TRUE(fusion.ok()) << fusion.status().message();
    groups = std::move(fusion->groups);
    ev = std::make_unique<Evaluator>(*g, groups[0], b);
    b.set_workgroup(kWorkgroup);
    out = b.buffer("out", Ty::I32, kernel::Access::Write);
    invocation = b.convert(b.builtin(kernel::Builtin::GlobalId), Ty::I32);
    const Expr n = Expr::symbol(0), m = Expr::symbol(1);
    for (const Expr& below : {Expr(7), Expr(12), n, n * m}) {
      limits.push_back(below);
      symbols.push_back(ev->symbol(b.rem(invocation, ev->value(below)), below));
    }
  }

  void store(const Expr& e, int of) {
    const auto at = static_cast<int64_t>(results.size());
    b.store(out, b.add(b.mul(invocation, b.i32(of)), b.i32(at)), ev->value(e));
    results.push_back(e);
  }

  /// What an expression is for one invocation.
  int64_t expected(const Expr& e, const Sizes& sizes, int64_t id) const {
    const auto known = [&](SymbolId s) -> std::optional<Expr> {
      if (s < kModelSymbols) return Expr(sizes[static_cast<size_t>(s)]);
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (symbols[i].as_symbol() != s) continue;
        const auto below = limits[i].eval(sizes);
        return Expr(id % *below);
      }
      return std::nullopt;
    };
    const Expr v = e.substitute(known);
    EXPECT_TRUE(v.is_const());
    return v.value();
  }
};

void run_and_compare(IndexKernel& k, const std::vector<Sizes>& all_sizes) {
  const size_t count = k.results.size();
  const std::vector<Expr> scalars = k.ev->scalars();
  ASSERT_TRUE(k.ev->status().ok()) << k.ev->status().message();
  auto made = k.b.finish();
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_TRUE(kernel::legalize(*made, {}).ok());
  for (const Sizes& sizes : all_sizes) {
    std::vector<int32_t> out(count * kWorkgroup * kGroups);
    std::vector<uint32_t> values;
    for (const Expr& e : scalars) {
      const auto v = e.eval(sizes);
      ASSERT_TRUE(v.ok()) << e.str(k.g->symbols);
      values.push_back(static_cast<uint32_t>(*v));
    }
    const auto outcome = kernel::interpret(
        *made, {{kGroups, 1, 1}, {std::as_writable_bytes(std::span(out))}, values});
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    for (size_t i = 0; i < out.size(); ++i) {
      const Expr& e = k.results[i % count];
      const auto id = static_cast<int64_t>(i / count);
      ASSERT_EQ(out[i], k.expected(e, sizes, id)) << e.str(k.g->symbols) << " in invocation " << id;
    }
  }
}

TEST(Index, DividendsBelowZero) {
  IndexKernel k;
  const Expr i = k.symbols[0], j = k.symbols[3];
  const Expr n = Expr::symbol(0), m = Expr::symbol(1);
  // [.., 2] or [.., m] of a flattened tensor that is read from its end.
  const Expr constant = Expr(6) - i, symbolic = n * m - Expr(1) - j;
  const Expr expressions[] = {Expr::floordiv(constant, 2), Expr::mod(constant, 2),
                              Expr::floordiv(symbolic, m), Expr::mod(symbolic, m),
                              Expr::floordiv(i - 5, 3),    Expr::mod(i - 5, 3),
                              Expr::floordiv(i - j, n),    Expr::mod(i - j, n)};
  for (const Expr& e : expressions) k.store(e, static_cast<int>(std::size(expressions)));
  run_and_compare(k, {{1, 1, 1}, {3, 5, 2}, {7, 4, 9}});
}

/// The division of a number that is not negative is one instruction, also where the algebra has
/// moved a multiple of the divisor out of it.
TEST(Index, NothingIsAddedWhereTheDividendIsNotNegative) {
  for (const bool flipped : {false, true}) {
    IndexKernel k;
    const Expr i = k.symbols[1];
    k.store(Expr::floordiv(flipped ? Expr(11) - i : i + Expr(11), 5), 1);
    auto made = k.b.finish();
    ASSERT_TRUE(made.ok()) << made.status().message();
    int rows = 0, selects = 0;
    for (const kernel::Inst& inst : made->insts) {
      if (inst.op != kernel::Op::Scalar) continue;
      ++rows;
      selects += static_cast<kernel::ScalarOp>(inst.imm) == kernel::ScalarOp::Where ? 1 : 0;
    }
    EXPECT_EQ(selects, 0);
    // The remainder that makes i, the index, and at most: product, sum, quotient, sum.
    EXPECT_LE(rows, 8) << kernel::print(*made);
  }
}

struct RandomIndex {
  std::mt19937_64 rng;
  const std::vector<Expr>& symbols;

  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
  }
  Expr size() {
    if (pick(0, 1) == 0) return pick(1, 9);
    const Expr s = Expr::symbol(static_cast<SymbolId>(pick(0, kModelSymbols - 1)));
    return pick(0, 2) == 0 ? s * Expr(pick(1, 4)) : s;
  }
  Expr sum(int depth) {
    Expr e = pick(-20, 20);
    for (int64_t n = pick(1, 3); n > 0; --n) e += Expr(pick(-5, 5)) * make(depth - 1);
    return e;
  }
  Expr make(int depth) {
    if (depth <= 0) {
      if (pick(0, 4) == 0) return size();
      return symbols[static_cast<size_t>(pick(0, static_cast<int64_t>(symbols.size()) - 1))];
    }
    switch (pick(0, 5)) {
      case 0:
      case 1:
        return Expr::floordiv(sum(depth), size());
      case 2:
      case 3:
        return Expr::mod(sum(depth), size());
      case 4:
        return Expr::min(sum(depth), sum(depth));
      default:
        return Expr::max(sum(depth), sum(depth));
    }
  }
};

TEST(Index, RandomExpressions) {
  constexpr int kPerKernel = 16;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    IndexKernel k;
    RandomIndex random{std::mt19937_64(seed), k.symbols};
    for (int n = 0; n < kPerKernel; ++n) {
      const Expr e = random.make(static_cast<int>(random.pick(1, 3)));
      // Half of them as the lowering gives them, half as they are.
      k.store(n % 2 == 0 ? k.ev->simplify(e) : e, kPerKernel);
    }
    run_and_compare(k, {{1, 1, 1}, {3, 5, 2}, {7, 4, 9}});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace reprise::lower
