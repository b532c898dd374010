// Elements of matrices: where they are, folds of rows, conversions, and what the verifier and the
// interpreter refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/sum_elements.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

constexpr int kSide = 16;
constexpr uint32_t kOfSum = kSide * kSide;

/// A subgroup that has a sum, loaded from x, which `write` works on; and what is then stored to y.
struct OneSum {
  Builder b{"one_sum"};
  int x = 0, y = 0, sums = 0, sum = 0, left = 0, right = 0;
  Value lane;

  explicit OneSum(Ty type = Ty::F16) {
    b.set_workgroup(32);
    b.require_subgroup_size(32);
    x = b.buffer("x", Ty::F32, Access::Read);
    y = b.buffer("y", Ty::F32, Access::Write);
    sums = b.shared("sums", Ty::F32, kOfSum);
    left = b.matrix("left", MatrixUse::Left, type, kSide, kSide);
    right = b.matrix("right", MatrixUse::Right, type, kSide, kSide);
    sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kSide, kSide);
    lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
  }
  void each_of_lane(const std::function<void(Value at)>& f) {
    b.for_loop(b.i32(0), b.i32(kOfSum / 32), b.i32(1), [&](Value i) { f(i * 32 + lane); });
  }
  void load() {
    each_of_lane([&](Value at) { b.shared_store(sums, at, b.load(x, at)); });
    b.barrier();
    b.matrix_load(sum, sums, b.i32(0), kSide);
    b.barrier();
  }
  void store() {
    b.matrix_store(sum, sums, b.i32(0), kSide);
    b.barrier();
    each_of_lane([&](Value at) { b.store(y, at, b.shared_load(sums, at)); });
  }
  Result<std::vector<float>> run(std::vector<float> in) {
    RP_ASSIGN(Kernel k, verified(b));
    RP_TRY(legalize(k, {}));
    std::vector<float> out(kOfSum, -1);
    const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
    RP_TRY(interpret(k, {{1, 1, 1}, {bytes(in), bytes(out)}, {}}).status());
    return out;
  }
};

std::vector<float> counted() {
  std::vector<float> v(kOfSum);
  for (size_t n = 0; n < v.size(); ++n) v[n] = static_cast<float>(n);
  return v;
}

TEST(Elements, EachIsHeldOnce) {
  OneSum s;
  s.load();
  const SumElements elements(s.b, MmaScope::Subgroup);
  elements.map(s.sum, [&](const SumElements::Place& place, const Value& element) {
    s.b.store(s.y, elements.row(place.which) * kSide + place.column, element);
    return element;
  });
  const auto y = s.run(counted());
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(*y, counted());
}

TEST(Elements, MapsAndFolds) {
  OneSum s;
  s.load();
  const SumElements elements(s.b, MmaScope::Subgroup);
  const int all[] = {s.sum};
  const RowValues most = elements.fold(all, [&](Value a, Value b) { return s.b.max(a, b); });
  const RowValues total = elements.fold(all, [](const Value& a, const Value& b) { return a + b; });
  elements.map(s.sum, [&](const SumElements::Place& place, const Value& element) {
    return (element - most[place.which]) * total[place.which];
  });
  s.store();
  const auto y = s.run(counted());
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (int r = 0; r < kSide; ++r) {
    const int total_of_row = kSide * kSide * r + 120;
    for (int c = 0; c < kSide; ++c) {
      EXPECT_EQ((*y)[static_cast<size_t>(r * kSide + c)],
                static_cast<float>((c - 15) * total_of_row));
    }
  }
}

/// The sum after it became a left operand, and was multiplied by the unit matrix.
Result<std::vector<float>> through_left(Ty type, const std::vector<float>& in) {
  OneSum s(type);
  s.load();
  s.b.matrix_convert(s.left, s.sum);
  const int unit = s.b.shared("unit", type, kOfSum);
  s.each_of_lane([&](Value at) {
    const Val diagonal = s.b.eq(at / kSide, at % kSide);
    const Val one = s.b.select(diagonal, s.b.f32(1), s.b.f32(0));
    s.b.shared_store(unit, at, type == Ty::BF16 ? one : s.b.convert(one, Ty::F16));
  });
  s.b.barrier();
  s.b.matrix_load(s.right, unit, s.b.i32(0), kSide);
  s.b.matrix_zero(s.sum);
  s.b.matrix_mul_add(s.sum, s.left, s.right);
  s.store();
  return s.run(in);
}

/// The sum after it was stored to an array of narrower elements.
Result<std::vector<float>> through_array(Ty type, const std::vector<float>& in) {
  OneSum s(type);
  s.load();
  const int narrow = s.b.shared("narrow", type, kOfSum);
  s.b.matrix_store(s.sum, narrow, s.b.i32(0), kSide);
  s.b.barrier();
  s.each_of_lane(
      [&](Value at) { s.b.store(s.y, at, s.b.convert(s.b.shared_load(narrow, at), Ty::F32)); });
  return s.run(in);
}

TEST(Elements, ConversionsRoundToNearestEven) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const struct {
    Ty type;
    float from, to;
  } cases[] = {
      {Ty::F16, 2049, 2048},          {Ty::F16, 2051, 2052},  {Ty::F16, -1.0004F, -1},
      {Ty::F16, 1.0006F, 0x1.004p0F}, {Ty::F16, 0x1p-25F, 0}, {Ty::F16, 0x1.8p-25F, 0x1p-24F},
      {Ty::BF16, 257, 256},           {Ty::BF16, 259, 260},   {Ty::BF16, -1e38F, -0x1.2cp126F},
  };
  for (const auto& c : cases) {
    std::vector<float> in(kOfSum);
    in[19] = c.from;
    for (const auto& through : {through_left, through_array}) {
      const auto y = through(c.type, in);
      ASSERT_TRUE(y.ok()) << y.status().message();
      EXPECT_EQ((*y)[19], c.to) << c.from;
      EXPECT_EQ((*y)[18], 0);
    }
  }
  std::vector<float> in(kOfSum);
  in[0] = NAN;
  in[1] = 65520;
  in[2] = -kInfinity;
  const auto y = through_array(Ty::F16, in);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(std::isnan((*y)[0]));
  EXPECT_EQ((*y)[1], kInfinity);
  EXPECT_EQ((*y)[2], -kInfinity);
}

TEST(Elements, InterpreterCatchesViolations) {
  const struct {
    const char* message;
    std::function<void(OneSum&)> write;
  } cases[] = {
      {"uses an element of sum before it is written",
       [](OneSum& s) { s.b.store(s.y, s.lane, s.b.matrix_get(s.sum, 0)); }},
      {"uses an element of sum before it is written",
       [](OneSum& s) { s.b.matrix_set(s.sum, 0, s.b.f32(1)); }},
      {"converts sum before it is written", [](OneSum& s) { s.b.matrix_convert(s.left, s.sum); }},
  };
  for (const auto& c : cases) {
    OneSum s;
    c.write(s);
    const auto y = s.run(counted());
    ASSERT_FALSE(y.ok()) << c.message;
    EXPECT_NE(y.status().message().find(c.message), std::string::npos) << y.status().message();
  }
}

TEST(Elements, VerifierNamesWhatIsWrong) {
  const struct {
    const char* message;
    std::function<void(OneSum&)> write;
  } cases[] = {
      {"'sum' has no slot 8", [](OneSum& s) { s.b.matrix_set(s.sum, 8, s.b.f32(0)); }},
      {"'left' is no sum", [](OneSum& s) { s.b.matrix_set(s.left, 0, s.b.f32(0)); }},
      {"an element is i32", [](OneSum& s) { s.b.matrix_set(s.sum, 0, s.b.i32(0)); }},
      {"in subgroups of 16, not 32",
       [](OneSum& s) {
         s.b.require_subgroup_size(16);
         s.b.matrix_set(s.sum, 0, s.b.f32(0));
       }},
      {"'right' is no left operand like 'sum'",
       [](OneSum& s) { s.b.matrix_convert(s.right, s.sum); }},
      {"'left' is no sum", [](OneSum& s) { s.b.matrix_convert(s.left, s.left); }},
      {"'sum' has no such columns from 16 on",
       [](OneSum& s) { s.b.matrix_convert(s.left, s.sum, 16); }},
      {"'sum' has no such columns from 8 on",
       [](OneSum& s) { s.b.matrix_convert(s.left, s.sum, 8); }},
      {"may differ within a subgroup",
       [](OneSum& s) { s.b.if_then(s.lane < 3, [&] { s.b.matrix_convert(s.left, s.sum); }); }},
      {"may differ within a subgroup",
       [](OneSum& s) {
         s.b.if_then(s.b.lt(s.b.matrix_get(s.sum, 0), s.b.f32(1)), [&] { s.b.matrix_zero(s.sum); });
       }},
      {"types differ",
       [](OneSum& s) {
         s.b.matrix_store(s.sum, s.b.shared("words", Ty::I32, kOfSum), s.b.i32(0), kSide);
       }},
      {"no matrix 9", [](OneSum& s) { s.b.matrix_get(9, 0); }},
      {"no matrix 7", [](OneSum& s) { s.b.matrix_convert(7, s.sum); }},
  };
  for (const auto& c : cases) {
    OneSum s;
    c.write(s);
    const auto k = verified(s.b);
    ASSERT_FALSE(k.ok()) << c.message;
    EXPECT_NE(k.status().message().find(c.message), std::string::npos) << k.status().message();
  }
}

TEST(Elements, OtherShapesHaveNoPlaces) {
  Builder b("shapes");
  b.set_workgroup(32);
  b.require_subgroup_size(32);
  const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, 8, 16);
  b.matrix_set(sum, 0, b.f32(0));
  const auto k = verified(b);
  ASSERT_FALSE(k.ok());
  EXPECT_NE(k.status().message().find("names elements of 'sum' of 8x16"), std::string::npos)
      << k.status().message();
}

TEST(Elements, PrintedForm) {
  OneSum s;
  s.load();
  s.b.matrix_set(s.sum, 5, s.b.matrix_get(s.sum, 3));
  s.b.matrix_convert(s.left, s.sum);
  auto k = verified(s.b);
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_TRUE(requirements(*k).matrix_elements);
  ASSERT_TRUE(legalize(*k, {}).ok());
  const std::string text = print(*k);
  for (const char* part : {": f32 = matrix_get sum.3\n", "matrix_set sum.5, %",
                           "matrix_convert left, sum from column 0\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace reprise::kernel
