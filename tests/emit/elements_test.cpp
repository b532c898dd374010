// Elements of matrices on every executor of the test program: test_emit runs CUDA text on the CPU,
// test_ptx runs PTX. Values are such that products are exact in any order, so all bits are the
// interpreter's.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <span>

#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/build/sum_elements.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/emit/agreement.h"
#include "tests/emit/expect_agreement.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builtin;
using kernel::MatrixUse;
using kernel::RowValues;
using kernel::SumElements;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

constexpr int kSide = 16, kPitch = 24;  // elements between lines in shared memory
constexpr int kSums = 3, kSubgroups = 2;
constexpr int kArea = kSide * kPitch;

/// The kernel as CUDA has it.
Case case_of(kernel::Builder& b, Launch launch) {
  auto k = b.finish();
  const Status s = k.ok() ? kernel::legalize(*k, {.exact = true}) : k.status();
  EXPECT_TRUE(s.ok()) << s.message();
  return s.ok() ? Case{*std::move(k), std::move(launch), {}, true} : Case{};
}

/// A random sequence of maps, folds, conversions, products and stores.
class RandomElements {
 public:
  explicit RandomElements(uint32_t seed) : rng_(seed), b_("elements" + std::to_string(seed)) {
    type_ = coin() ? Ty::F16 : Ty::BF16;
    b_.set_workgroup(32 * kSubgroups);
    b_.require_subgroup_size(32);
    x_ = b_.buffer("x", type_, Access::Read);
    y_ = b_.buffer("y", Ty::F32, Access::Write);
    rounded_y_ = b_.buffer("rounded_y", type_, Access::Write);
    halves_ = b_.shared("halves", type_, kSubgroups * kArea);
    rounded_ = b_.shared("rounded", type_, kSubgroups * kArea);
    words_ = b_.shared("words", Ty::F32, kSubgroups * kArea);
    left_ = b_.matrix("left", MatrixUse::Left, type_, kSide, kSide);
    right_ = b_.matrix("right", MatrixUse::Right, type_, kSide, kSide);
    for (int n = 0; n < kSums; ++n)
      sums_[static_cast<size_t>(n)] =
          b_.matrix("sum" + std::to_string(n), MatrixUse::Sum, Ty::F32, kSide, kSide);
    local_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    first_ = b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32) * kArea;
  }

  Case make() {
    const SumElements elements(b_, MmaScope::Subgroup);
    elements_ = &elements;
    copy([&](Value at) {
      b_.shared_store(halves_, at, b_.load(x_, at));
      b_.shared_store(words_, at, b_.f32(0));
      const Val zero = b_.f32(0);
      b_.shared_store(rounded_, at, type_ == Ty::F16 ? Val(b_.convert(zero, Ty::F16)) : zero);
    });
    b_.barrier();
    b_.matrix_load(right_, halves_, first_, kPitch, coin(), 8);
    for (const int s : sums_) b_.matrix_zero(s);
    for (const int s : sums_) number(s);
    const int steps = 4 + static_cast<int>(one_of(10));
    for (int n = 0; n < steps; ++n) step();
    for (int n = 0; n < kSums; ++n) write(n);
    elements_ = nullptr;
    return case_of(b_, launch());
  }

 private:
  uint32_t one_of(uint32_t n) { return static_cast<uint32_t>(rng_() % n); }
  bool coin() { return one_of(2) == 0; }
  size_t some_sum() { return one_of(kSums); }
  void copy(const std::function<void(Value at)>& f) {
    b_.for_loop(b_.i32(0), b_.i32(kArea / 32), b_.i32(1),
                [&](Value i) { f(i * (32 * kSubgroups) + local_); });
  }
  Value number_of(Value v) { return b_.convert(v, Ty::F32); }

  /// Small numbers that depend on the place.
  void number(int sum) {
    const int factor = static_cast<int>(one_of(5)) - 2;
    elements_->map(sum, [&](const SumElements::Place& p, const Value& v) {
      return v + number_of(elements_->row(p.which) * factor - p.column);
    });
  }
  /// Multiples of 1/4 of at most 4, of which products and their sums are exact.
  void limit(int sum) {
    elements_->map(sum, [&](const SumElements::Place&, const Value& v) -> Value {
      const Value near = b_.max(b_.min(v, b_.f32(4)), b_.f32(-4));
      return Value(b_, b_.scalar_op(kernel::ScalarOp::Round, {near * four()})) * quarter();
    });
  }
  Value four() { return b_.f32(4); }
  Value quarter() { return b_.f32(0.25F); }

  void step() {
    const size_t n = some_sum();
    switch (one_of(6)) {
      case 0:
        number(sums_[n]);
        break;
      case 1:
        fold(n);
        break;
      case 2:
        limit(sums_[n]);
        b_.matrix_convert(left_, sums_[n]);
        has_left_ = true;
        break;
      case 3:
        multiply(n);
        break;
      case 4:
        round(n);
        break;
      default:
        repeat(n);
        break;
    }
  }

  /// Rows of some sums side by side, of which another one is mapped.
  void fold(size_t n) {
    const auto all = std::span(sums_).first(1 + one_of(kSums));
    const bool most = coin();
    const RowValues rows = elements_->fold(
        all, [&](const Value& a, const Value& b) -> Value { return most ? b_.max(a, b) : a + b; });
    elements_->map(sums_[n], [&](const SumElements::Place& p, const Value& v) {
      return v * quarter() - rows[p.which];
    });
  }
  void multiply(size_t n) {
    if (!has_left_) return;
    limit(sums_[n]);
    b_.matrix_mul_add(sums_[n], left_, right_);
  }
  /// Through shared memory, rounded, into a left operand.
  void round(size_t n) {
    limit(sums_[n]);
    const bool columns = coin();
    b_.barrier();
    b_.matrix_store(sums_[n], rounded_, first_, kPitch, columns, coin() ? 8 : 1);
    b_.barrier();
    b_.matrix_load(left_, rounded_, first_, kPitch, columns, 8);
    has_left_ = true;
  }
  /// The same in a loop, whose rounds depend on each other.
  void repeat(size_t n) {
    b_.for_loop(b_.i32(0), b_.i32(2 + static_cast<int>(one_of(3))), b_.i32(1), [&](Value i) {
      limit(sums_[n]);
      b_.matrix_convert(left_, sums_[n]);
      b_.matrix_mul_add(sums_[n], left_, right_);
      elements_->map(sums_[n], [&](const SumElements::Place& p, const Value& v) {
        return v - number_of(i + p.column);
      });
    });
    has_left_ = true;
  }

  /// Numbers of all digits, as they are and rounded, to the results.
  void write(int n) {
    const int sum = sums_[static_cast<size_t>(n)];
    elements_->map(sum, [&](const SumElements::Place&, const Value& v) { return v * tenth(); });
    b_.barrier();
    b_.matrix_store(sum, words_, first_, kPitch);
    b_.matrix_store(sum, rounded_, first_, kPitch, coin(), coin() ? 8 : 1);
    b_.barrier();
    copy([&](Value at) {
      const Value to = at + n * (kSubgroups * kArea);
      b_.store(y_, to, b_.shared_load(words_, at));
      b_.store(rounded_y_, to, b_.shared_load(rounded_, at));
    });
  }
  Value tenth() { return b_.f32(0.1F); }

  Launch launch() {
    Launch l;
    std::vector<std::byte> x;
    for (size_t n = 0; n < kSubgroups * kArea; ++n) {
      const uint64_t bits =
          kernel::bits_of(static_cast<double>(one_of(5)) - 2, kernel::compute_type(type_));
      set_element(x, type_, n, type_ == Ty::BF16 ? bits >> 16 : bits);
    }
    constexpr size_t kResults = size_t{kSums} * kSubgroups * kArea;
    l.buffers = {x, std::vector<std::byte>(kResults * 4), std::vector<std::byte>(kResults * 2)};
    return l;
  }

  std::mt19937 rng_;
  kernel::Builder b_;
  Ty type_ = Ty::F16;
  int x_ = 0, y_ = 0, rounded_y_ = 0, halves_ = 0, rounded_ = 0, words_ = 0, left_ = 0, right_ = 0;
  std::array<int, kSums> sums_{};
  Value local_, first_;
  bool has_left_ = false;
  const SumElements* elements_ = nullptr;
};

TEST(ElementsOfMatrices, SpirvSaysWhyItHasNone) {
  const auto words = emit::spirv(RandomElements(1).make().kernel, {});
  ASSERT_FALSE(words.ok());
  EXPECT_NE(words.status().message().find("names elements of matrices"), std::string::npos)
      << words.status().message();
}

void expect_agreement_of(uint32_t first, uint32_t count) {
  std::vector<Case> cases;
  for (uint32_t seed = first; seed < first + count; ++seed)
    cases.push_back(RandomElements(seed).make());
  expect_agreement(cases);
}

TEST(ElementsOfMatrices, RandomPrograms) {
  expect_agreement_of(1, 24);
}

TEST(ElementsOfMatrices, FullRandomPrograms) {
  for (uint32_t first = 100; first < 400; first += 50) expect_agreement_of(first, 50);
}

/// Numbers that are hard to round: ties, the largest, subnormal ones, infinity and NaN.
TEST(ElementsOfMatrices, RoundEveryKindOfNumber) {
  std::vector<Case> cases;
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (const bool pairs : {false, true}) {
      kernel::Builder b(std::string("round_") + (type == Ty::F16 ? "f16" : "bf16"));
      b.set_workgroup(32);
      b.require_subgroup_size(32);
      const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", type, Access::Write);
      const int words = b.shared("words", Ty::F32, 256), narrow = b.shared("narrow", type, 256);
      const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kSide, kSide);
      for (const MatrixUse use : {MatrixUse::Left, MatrixUse::Right})
        b.matrix(use == MatrixUse::Left ? "left" : "right", use, type, kSide, kSide);
      const Value lane = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
      const auto each = [&](const std::function<void(Value at)>& f) {
        b.for_loop(b.i32(0), b.i32(8), b.i32(1), [&](Value i) { f(i * 32 + lane); });
      };
      each([&](Value at) { b.shared_store(words, at, b.load(x, at)); });
      b.barrier();
      b.matrix_load(sum, words, b.i32(0), kSide);
      b.matrix_store(sum, narrow, b.i32(0), kSide, false, pairs ? 2 : 1);
      b.barrier();
      each([&](Value at) { b.store(y, at, b.shared_load(narrow, at)); });
      Launch l;
      l.buffers.resize(2);
      std::mt19937 rng(5);
      for (size_t n = 0; n < 256; ++n) {
        constexpr float kHard[] = {65504, 65519,    65520,    INFINITY,   -INFINITY,
                                   NAN,   0x1p-24F, 0x1p-25F, 0x1.8p-25F, 2049,
                                   2051,  -0.0F,    3.3e38F,  257};
        const float v = n < std::size(kHard)
                            ? kHard[n]
                            : std::ldexp(1 + static_cast<float>(rng() % 65536) / 65536,
                                         static_cast<int>(rng() % 40) - 26);
        set_element(l.buffers[0], Ty::F32, n, std::bit_cast<uint32_t>(v));
      }
      l.buffers[1].resize(512);
      cases.push_back(case_of(b, std::move(l)));
    }
  }
  expect_agreement(cases);
}

}  // namespace
}  // namespace reprise::test
