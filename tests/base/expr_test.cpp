#include "runtime/expr/expr.h"
#include "runtime/expr/any_symbol.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "runtime/base/tensor.h"

namespace reprise {
namespace {

const std::vector<Symbol> kTable{{"batch"}, {"seq"}, {"past len"}, {"min"}};
const Expr b = Expr::symbol(0);
const Expr s = Expr::symbol(1);
const Expr i = Expr::symbol(10);
const Expr j = Expr::symbol(11);
const Expr k = Expr::symbol(12);

std::string text(const Expr& e) {
  return e.str(kTable);
}

TEST(Expr, PolynomialsCompareEqual) {
  EXPECT_EQ(b * s * 256, Expr(256) * s * b);
  EXPECT_EQ((b + 1) * (s - 1), b * s - b + s - 1);
  EXPECT_EQ((b * s * 256).hash(), (Expr(256) * s * b).hash());
  EXPECT_FALSE(b * s == b * b);
  EXPECT_TRUE((b - b).is_const(0));
  EXPECT_EQ(s.as_symbol(), std::optional<SymbolId>(1));
  EXPECT_FALSE((s + 1).as_symbol());
  EXPECT_FALSE((s * 2).as_symbol());
  EXPECT_FALSE((s * s).as_symbol());
}

TEST(Expr, Text) {
  EXPECT_EQ(text(Expr(256) * s * b + 1), "256*batch*seq + 1");
  EXPECT_EQ(text(Expr(0) - s), "-seq");
  EXPECT_EQ(text(s - b - 1), "-batch + seq - 1");
  EXPECT_EQ(text(Expr::floordiv(s, 2)), "floordiv(seq, 2)");
  EXPECT_EQ(text(Expr::symbol(2) * 3), "3*\"past len\"");
  EXPECT_EQ(text(Expr::symbol(3)), "\"min\"");
  EXPECT_EQ(text(Expr::symbol(9)), "$9");
  EXPECT_EQ(text(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
}

TEST(Expr, Division) {
  EXPECT_EQ(Expr::floordiv(s * 4 + 8, 4), s + 2);
  EXPECT_EQ(Expr::mod(Expr(256) * b * s, 256), Expr(0));
  EXPECT_EQ(Expr::floordiv(Expr(256) * b * s, b * s), Expr(256));
  EXPECT_EQ(Expr::ceildiv(s * 4, 4), s);
  EXPECT_EQ(text(Expr::ceildiv(s, 4)), "floordiv(seq + 3, 4)");
  EXPECT_EQ(text(Expr::floordiv(s - 1, 2)), "floordiv(seq + 1, 2) - 1");
  EXPECT_EQ(Expr::floordiv(Expr::floordiv(s, 3), 4), Expr::floordiv(s, 12));
  EXPECT_EQ(Expr::floordiv(s * 4 + 3, 8), Expr::floordiv(s, 2));
  EXPECT_EQ(Expr::floordiv(Expr(-7), 2), Expr(-4));
  EXPECT_EQ(Expr::ceildiv(Expr(-7), 2), Expr(-3));
  EXPECT_EQ(Expr::ceildiv(Expr(7), 2), Expr(4));
  EXPECT_EQ(Expr::mod(Expr(-7), 4), Expr(1));
  EXPECT_EQ(Expr::mod(Expr(7), -4), Expr(-1));
  EXPECT_EQ(Expr::floordiv(b * s + b, s + 1), b);
  EXPECT_EQ(*Expr::divide_exact(b * s + b, s + 1), b);
  EXPECT_FALSE(Expr::divide_exact(b * s + 1, s));
  EXPECT_FALSE(Expr::divide_exact(s * 3, 2));
  EXPECT_EQ(Expr::floordiv(Expr::mod(s, 12), 4), Expr::mod(Expr::floordiv(s, 4), 3));
  EXPECT_EQ(Expr::mod(Expr::mod(s, 12) + b, 4), Expr::mod(s + b, 4));
}

TEST(Expr, SplitIndexRecombines) {
  // [x] -> [x / 12, x % 12 / 4, x % 4] -> flat again: what nested reshapes do.
  const Expr flat = Expr::floordiv(i, 12) * 12 + Expr::floordiv(Expr::mod(i, 12), 4) * 4 +
                    Expr::mod(Expr::mod(i, 12), 4);
  EXPECT_EQ(flat, i);
  EXPECT_EQ(Expr::floordiv(i, s) * s + Expr::mod(i, s), i);
  // The same with symbolic extents [.., b, s].
  EXPECT_EQ(Expr::floordiv(i, b * s) * b * s + Expr::floordiv(Expr::mod(i, b * s), s) * s +
                Expr::mod(i, s),
            i);
  EXPECT_EQ(Expr::floordiv(i, s * 768) * s * 768 +
                Expr::floordiv(Expr::mod(i, s * 768), 768) * 768 + Expr::mod(i, 768),
            i);
}

TEST(Expr, MinMax) {
  EXPECT_EQ(Expr::min(s, s + 1), s);
  EXPECT_EQ(Expr::max(s, s + 1), s + 1);
  EXPECT_EQ(Expr::min(Expr(3), 5), Expr(3));
  const int64_t low = std::numeric_limits<int64_t>::min(), high = -(low + 1);
  EXPECT_EQ(Expr::min(Expr(high), low), Expr(low));
  EXPECT_EQ(Expr::max(Expr(high), low), Expr(high));
  EXPECT_EQ(Expr::min(s, b), Expr::min(b, s));
  EXPECT_EQ(Expr::min(Expr::min(s, 5), 3), Expr::min(s, 3));
  EXPECT_EQ(Expr::max(Expr::mod(s, 4), 0), Expr::mod(s, 4));
}

TEST(Expr, SimplifyWithRanges) {
  const auto ranges = [](SymbolId id) -> SymbolRange {
    if (id == 10) return {0, 1 << 20, b};
    if (id == 11) return {0, 63, std::nullopt};
    if (id == 12) return {0, 1 << 20, s};
    return {1, 1 << 20, std::nullopt};
  };
  EXPECT_EQ(Expr::floordiv(i * 64 + j, 64).simplify(ranges), i);
  EXPECT_EQ(Expr::mod(i * 64 + j, 64).simplify(ranges), j);
  EXPECT_EQ(Expr::mod(s * i + k, s).simplify(ranges), k);
  EXPECT_EQ(Expr::floordiv(s * i + k, s).simplify(ranges), i);
  EXPECT_EQ(Expr::floordiv(s * i + k, s * b).simplify(ranges), Expr(0));
  EXPECT_EQ(Expr::floordiv(k * 64 + j, s * 64).simplify(ranges), Expr(0));
  EXPECT_EQ(Expr::mod(i * 128 + j + 64, 128).simplify(ranges), j + 64);
  EXPECT_EQ(Expr::max(j, 0).simplify(ranges), j);
  EXPECT_EQ(Expr::min(j, 64).simplify(ranges), j);
  EXPECT_FALSE(Expr::floordiv(i, 64).simplify(ranges).is_const());
  const Interval range = (j * 2 - 1).bounds(ranges);
  EXPECT_EQ(range.min, -1);
  EXPECT_EQ(range.max, 125);
}

TEST(Expr, SimplifierRemembersUntilRangesChange) {
  int64_t largest = 63;
  const auto ranges = [&largest](SymbolId id) -> SymbolRange {
    return {0, id == 11 ? largest : 1 << 20, std::nullopt};
  };
  Simplifier simplifier(ranges);
  const Expr quotient = Expr::floordiv(j, 64);
  EXPECT_EQ(simplifier.simplify(quotient), Expr(0));
  EXPECT_EQ(simplifier.simplify(i + quotient * 3), i);
  EXPECT_EQ(simplifier.simplify(Expr::floordiv(i, 64)), Expr::floordiv(i, 64));
  EXPECT_EQ(simplifier.simplify(i * Expr::floordiv(i, 64)), i * Expr::floordiv(i, 64));
  largest = 127;
  simplifier.ranges_changed();
  EXPECT_EQ(simplifier.simplify(quotient), quotient);
}

TEST(Expr, KnownDivisor) {
  EXPECT_EQ(Expr(0).known_divisor(), 0);
  EXPECT_EQ(Expr(-12).known_divisor(), 12);
  EXPECT_EQ((s * 12 + b * 8).known_divisor(), 4);
  EXPECT_EQ((s * 12 + 3).known_divisor(), 3);
  EXPECT_EQ(Expr::min(s * 8, b * 12).known_divisor(), 4);
  EXPECT_EQ(Expr::floordiv(s, 8).known_divisor(), 1);
  const std::vector<Symbol> table{{"b", 0, 100, 1}, {"s", 0, 100, 8}};
  EXPECT_EQ((s * b * 4).known_divisor(table), 32);
  EXPECT_EQ(Expr(std::numeric_limits<int64_t>::min()).known_divisor(), int64_t{1} << 62);
}

TEST(Expr, EvalErrors) {
  const std::array<int64_t, 2> values{3, std::numeric_limits<int64_t>::min()};
  EXPECT_EQ(*(b * b + 1).eval(values), 10);
  EXPECT_NE(s.eval(values).status().message().find("symbol 1"), std::string::npos);
  EXPECT_FALSE(i.eval(values).ok());
  EXPECT_FALSE(Expr::floordiv(b, b - 3).eval(values).ok());
  EXPECT_FALSE(Expr::mod(Expr(5), 0).eval(values).ok());
  const std::array<int64_t, 1> huge{int64_t{1} << 62};
  EXPECT_FALSE((b * 2).eval(huge).ok());
  EXPECT_FALSE((b + b * b).eval(huge).ok());
}

TEST(Expr, OverflowIsAbsorbing) {
  const Expr big = std::numeric_limits<int64_t>::max();
  const Expr o = big + 1;
  EXPECT_TRUE(o.is_overflow());
  EXPECT_FALSE(o.is_const());
  EXPECT_TRUE((o * 0).is_overflow());
  EXPECT_TRUE((b * big * 2).is_overflow());
  EXPECT_TRUE(Expr::floordiv(s, o).is_overflow());
  EXPECT_TRUE(Expr::min(o, 1).is_overflow());
  EXPECT_TRUE(Expr::floordiv(std::numeric_limits<int64_t>::min(), -1).eval({}).status().message() !=
              "");
  EXPECT_FALSE(o.eval({}).ok());
  EXPECT_EQ(text(o), "overflow");
  EXPECT_TRUE(Expr::parse("overflow", kTable)->is_overflow());
  Expr grown = 1;
  for (SymbolId n = 0; n < 64; ++n) grown *= Expr::symbol(n) + 1;
  EXPECT_TRUE(grown.is_overflow());
  Expr deep = s;
  for (int n = 0; n < 1000; ++n) deep = Expr::floordiv(deep + b, i);
  EXPECT_TRUE(deep.is_overflow());
}

TEST(Expr, EmptyShapesHaveNoElements) {
  const Expr huge = int64_t{1} << 40;
  EXPECT_TRUE(element_count({huge, huge, 0}).is_const(0));
  EXPECT_TRUE(element_count({huge, huge, Expr::symbol(0), 0}).is_const(0));
  EXPECT_TRUE(element_count({huge, huge, 1}).is_overflow());
  const HostTensor t(DType::F32, {huge.value(), huge.value(), 0});
  EXPECT_EQ(t.count(), 0);
  EXPECT_EQ(t.reshaped({0, huge.value(), huge.value()}).count(), 0);
}

TEST(Expr, ParseErrors) {
  for (const char* bad :
       {"", "1 +", "nobody", "floordiv(seq)", "min(seq, 2", "(1", "1 2", "$", "$99999999999",
        "99999999999999999999", "\"batch", "batch batch", "2**3"}) {
    const auto e = Expr::parse(bad, kTable);
    EXPECT_FALSE(e.ok()) << bad;
    EXPECT_EQ(e.status().code(), Code::InvalidModel) << bad;
  }
  EXPECT_FALSE(Expr::parse(std::string(100000, '('), kTable).ok());
  EXPECT_EQ(*Expr::parse(" -( batch+2 ) * - 3", kTable), b * 3 + 6);
}

TEST(Expr, DecodeErrors) {
  const std::vector<std::vector<int64_t>> bad{
      {}, {0}, {9}, {-1}, {2}, {0, 1, 2}, {1, -1}, {1, int64_t{1} << 40}, {0, 1, 0, 2}};
  for (const auto& code : bad) EXPECT_FALSE(Expr::decode(code).ok());
  std::vector<int64_t> long_stack;
  for (int n = 0; n < 5000; ++n) long_stack.insert(long_stack.end(), {0, 1});
  EXPECT_FALSE(Expr::decode(long_stack).ok());
}

/// A random expression beside its value computed without Expr. Values that divide by zero or leave
/// 40 bits are not made.
struct Random {
  explicit Random(uint64_t seed) : rng(seed) {}
  std::mt19937_64 rng;
  std::array<int64_t, 4> symbols{};
  static constexpr int kSamples = 6;
  using Values = std::array<int64_t, kSamples>;
  std::array<std::array<int64_t, 4>, kSamples> samples{};

  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
  }

  std::pair<Expr, Values> leaf() {
    Values v{};
    if (pick(0, 2) == 0) {
      const int64_t c = pick(0, 3) == 0 ? pick(-70, 70) : pick(1, 16);
      v.fill(c);
      return {c, v};
    }
    const auto id = static_cast<SymbolId>(pick(0, 3));
    for (size_t n = 0; n < kSamples; ++n) v[n] = samples[n][static_cast<size_t>(id)];
    return {Expr::symbol(id), v};
  }

  std::pair<Expr, Values> make(int depth) {
    if (depth == 0 || pick(0, 5) == 0) return leaf();
    auto [x, xv] = make(depth - 1);
    auto [y, yv] = make(depth - 1);
    const int64_t op = pick(0, 7);
    const bool divides = op >= 3 && op <= 5;
    Values v{};
    for (size_t n = 0; n < kSamples; ++n) {
      if (divides && yv[n] == 0) return {x, xv};
      if (op == 2 && std::abs(xv[n]) > (1 << 20)) return {x, xv};
      if (op == 2 && std::abs(yv[n]) > (1 << 20)) return {x, xv};
      v[n] = apply(op, xv[n], yv[n]);
    }
    return {apply(op, x, y), v};
  }

  static int64_t apply(int64_t op, int64_t x, int64_t y) {
    const auto floor = [](int64_t p, int64_t q) {
      int64_t r = p / q;
      if (p % q != 0 && (p < 0) != (q < 0)) --r;
      return r;
    };
    switch (op) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return floor(x, y);
      case 4:
        return -floor(-x, y);
      case 5:
        return x - y * floor(x, y);
      case 6:
        return std::min(x, y);
      default:
        return std::max(x, y);
    }
  }
  static Expr apply(int64_t op, const Expr& x, const Expr& y) {
    switch (op) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return Expr::floordiv(x, y);
      case 4:
        return Expr::ceildiv(x, y);
      case 5:
        return Expr::mod(x, y);
      case 6:
        return Expr::min(x, y);
      default:
        return Expr::max(x, y);
    }
  }
};

TEST(Expr, RandomTreesKeepTheirValue) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Random r(seed);
    // Half of the cases with values >= 1, as dims are; the others with any sign.
    const bool positive = seed % 2 == 0;
    for (auto& sample : r.samples) {
      for (auto& v : sample) v = r.pick(positive ? 1 : -40, 40);
    }
    const auto [e, values] = r.make(static_cast<int>(r.pick(1, 4)));
    if (e.is_overflow()) continue;
    const auto ranges = [positive](SymbolId) -> SymbolRange {
      return {positive ? 1 : -40, 40, std::nullopt};
    };
    const Expr simple = e.simplify(ranges);
    const Interval range = e.bounds(ranges);
    const int64_t divisor = e.known_divisor();
    std::vector<int64_t> code;
    e.encode(code);
    const auto decoded = Expr::decode(code);
    const auto parsed = Expr::parse(e.str(kTable), kTable);
    ASSERT_TRUE(decoded.ok() && parsed.ok()) << text(e);
    for (size_t n = 0; n < Random::kSamples; ++n) {
      // An inner divisor that is zero at a sample is the caller's error: it must be an error here.
      const auto v = e.eval(r.samples[n]);
      if (!v.ok()) continue;
      ++compared;
      ASSERT_EQ(*v, values[n]) << seed << ": " << text(e);
      const auto w = simple.eval(r.samples[n]);
      ASSERT_TRUE(w.ok()) << seed << ": " << text(e) << " -> " << text(simple);
      ASSERT_EQ(*w, values[n]) << seed << ": " << text(e) << " -> " << text(simple);
      ASSERT_EQ(*decoded->eval(r.samples[n]), values[n]) << seed << ": " << text(e);
      ASSERT_EQ(*parsed->eval(r.samples[n]), values[n]) << seed << ": " << text(e);
      ASSERT_LE(range.min, values[n]) << seed << ": " << text(e);
      ASSERT_GE(range.max, values[n]) << seed << ": " << text(e);
      ASSERT_TRUE(divisor == 0 ? values[n] == 0 : values[n] % divisor == 0) << text(e);
    }
  }
  EXPECT_GT(compared, 80000);
}

TEST(Expr, NormalFormIsStable) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    Random r(seed);
    for (auto& sample : r.samples) {
      for (auto& v : sample) v = r.pick(1, 40);
    }
    const Expr e = r.make(static_cast<int>(r.pick(1, 3))).first;
    std::vector<int64_t> code;
    e.encode(code);
    EXPECT_EQ(*Expr::decode(code), e) << text(e);
    EXPECT_EQ(*Expr::parse(text(e), kTable), e) << text(e);
    const Expr walked = [&e] {
      Expr sum = e.constant();
      for (const Term& t : e.terms()) {
        Expr product = t.coefficient;
        for (const Atom& a : t.atoms()) product *= a.expr();
        sum += product;
      }
      return sum;
    }();
    EXPECT_EQ(walked, e);
  }
}

TEST(Expr, Substitute) {
  const Expr e = Expr::floordiv(s + 3, 4) * b + s;
  const auto fixed = [](SymbolId id) -> std::optional<Expr> {
    return id == 1 ? std::optional<Expr>(128) : std::nullopt;
  };
  EXPECT_EQ(e.substitute(fixed), b * 32 + 128);
  EXPECT_EQ(b.substitute(fixed), b);
  std::vector<SymbolId> ids;
  e.collect_symbols(ids);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(ids, (std::vector<SymbolId>{0, 1}));
}

TEST(Expr, AsksSymbolsUntilOneAnswers) {
  const Expr x = Expr::symbol(3), y = Expr::symbol(5);
  const Expr e = Expr::floordiv(x * y + Expr(1), Expr::max(y, 7)) + Expr::mod(x, 8);
  for (const SymbolId id : {3, 5, 7})
    EXPECT_EQ(any_symbol(e, [&](SymbolId symbol) { return symbol == id; }), id != 7) << id;
  int asked = 0;
  EXPECT_TRUE(any_symbol(e, [&](SymbolId) { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  EXPECT_FALSE(any_symbol(Expr(4), [](SymbolId) { return true; }));
  EXPECT_FALSE(any_symbol(Expr::overflow(), [](SymbolId) { return true; }));
}

}  // namespace
}  // namespace reprise
