// Products of F32 as three products of TF32: how numbers are split, and that errors stay those of
// F32.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/split_float.h"

namespace reprise::kernel {
namespace {

constexpr int kProductRows = 16, kProductColumns = 16, kProductDepth = 8;
constexpr uint32_t kSubgroupLanes = 8;
constexpr double kUnit = 0x1p-24;  // the largest relative error of a rounding to F32

/// y = x * w by matrices of F32, of which each operation multiplies kProductDepth values of k.
Kernel product(int depth) {
  Builder b("product");
  b.set_workgroup(kSubgroupLanes);
  b.require_subgroup_size(kSubgroupLanes);
  const int x = b.buffer("x", Ty::F32, Access::Read), w = b.buffer("w", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int xs = b.shared("xs", Ty::F32, static_cast<uint32_t>(kProductRows * depth));
  const int ws = b.shared("ws", Ty::F32, static_cast<uint32_t>(kProductColumns * depth));
  const int ys = b.shared("ys", Ty::F32, kProductRows * kProductColumns);
  const int left = b.matrix("left", MatrixUse::Left, Ty::F32, kProductRows, kProductDepth);
  const int right = b.matrix("right", MatrixUse::Right, Ty::F32, kProductDepth, kProductColumns);
  const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kProductRows, kProductColumns);
  const Val local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const auto each = [&](int count, const std::function<void(Val)>& body) {
    b.for_loop(local, b.i32(count), b.i32(kSubgroupLanes), body);
  };
  each(kProductRows * depth, [&](Val i) { b.shared_store(xs, i, b.load(x, i)); });
  each(kProductColumns * depth, [&](Val i) { b.shared_store(ws, i, b.load(w, i)); });
  b.barrier();
  b.matrix_zero(sum);
  b.for_loop(b.i32(0), b.i32(depth), b.i32(kProductDepth), [&](Value k) {
    b.matrix_load(left, xs, k, static_cast<uint32_t>(depth));
    b.matrix_load(right, ws, k * kProductColumns, kProductColumns);
    b.matrix_mul_add(sum, left, right);
  });
  b.matrix_store(sum, ys, b.i32(0), kProductColumns);
  b.barrier();
  each(kProductRows * kProductColumns, [&](Val i) { b.store(y, i, b.shared_load(ys, i)); });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : Kernel{};
}

struct Operands {
  std::string name;
  std::vector<float> x, w;  // row by row

  /// The n-th factors of result i.
  std::pair<float, float> factors(int i, int n) const {
    const size_t depth = x.size() / kProductRows, row = static_cast<size_t>(i) / kProductColumns;
    const size_t at = static_cast<size_t>(n), column = static_cast<size_t>(i) % kProductColumns;
    return {x[row * depth + at], w[at * kProductColumns + column]};
  }
};

std::vector<float> products(const Kernel& k, Operands o, NativeError error) {
  std::vector<float> y(kProductRows * kProductColumns);
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  const auto ran = interpret(k, {{1, 1, 1}, {bytes(o.x), bytes(o.w), bytes(y)}, {}},
                             {.native_error = error, .error_seed = 5});
  EXPECT_TRUE(ran.ok()) << ran.status().message();
  return y;
}

std::vector<Operands> hard_operands(int depth) {
  std::mt19937 rng(static_cast<uint32_t>(depth));
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> positive(0.5F, 1.0F);
  std::uniform_int_distribution<int> exponent(-40, 40);
  const auto make = [&](const char* name, const auto& x_of, const auto& w_of) {
    Operands o{name, {}, {}};
    for (int i = 0; i < kProductRows * depth; ++i) o.x.push_back(x_of(i % depth));
    for (int i = 0; i < kProductColumns * depth; ++i) o.w.push_back(w_of(i / kProductColumns));
    return o;
  };
  const auto any = [&](int) { return normal(rng); };
  const auto above = [&](int) { return positive(rng); };
  float last = 0;
  std::vector<float> earlier;
  return {
      make("normal", any, any),
      make("positive", above, above),
      // Neighbours along k cancel up to their last digits.
      make(
          "cancelling",
          [&](int k) {
            last = k % 2 == 0 ? normal(rng) * 1000 : std::nextafterf(-last, 1e9F);
            return last;
          },
          [&](int) { return 1 + static_cast<float>(rng() % 4) * 0x1p-23F; }),
      // Those of the first half cancel those of the second.
      make(
          "cancelling late",
          [&](int k) {
            if (k == 0) earlier.clear();
            if (k < depth / 2) {
              earlier.push_back(normal(rng));
              return earlier.back();
            }
            return std::nextafterf(-earlier[static_cast<size_t>(k - depth / 2)], 1e9F);
          },
          [&](int) { return 1 + static_cast<float>(rng() % 4) * 0x1p-23F; }),
      make(
          "wide", [&](int) { return std::ldexp(normal(rng), exponent(rng)); },
          [&](int) { return std::ldexp(normal(rng), exponent(rng)); }),
      make(
          "large", [&](int) { return std::ldexp(positive(rng), 127); },
          [&](int k) { return std::ldexp(k % 2 == 0 ? positive(rng) : -positive(rng), -12); }),
      make(
          "small", [&](int) { return std::ldexp(normal(rng), -118); }, any),
      make(
          "subnormal", [&](int) { return std::ldexp(normal(rng), -135); }, any),
      // Both low parts are as large as they can be: half a unit of the high ones.
      make(
          "halfway", [&](int) { return 1 + 0x0.fffp-10F * 0.5F; },
          [&](int) { return 1 + 0x0.fffp-10F * 0.5F; }),
  };
}

TEST(SplitProducts, PartsAreTheNumber) {
  std::mt19937 rng(1);
  const auto check = [](float v) {
    const SplitFloat s = split_float(v);
    for (const float part : {s.high, s.low})
      EXPECT_EQ(std::bit_cast<uint32_t>(part) & 0x1fffU, 0U) << v;
    const double error = std::fabs(static_cast<double>(v) - static_cast<double>(s.high) -
                                   static_cast<double>(s.low));
    const double size = std::fabs(static_cast<double>(v));
    EXPECT_LE(error, size * 2 * kUnit + 0x1p-136) << v;
    EXPECT_LE(std::fabs(static_cast<double>(s.low)), size * 0x1p-11 + 0x1p-137) << v;
  };
  for (const float v : {0.0F, -0.0F, 1.0F, 1 + 0x1p-11F, 1 + 0x1p-12F, -1.5F, 0x1p-126F, 0x1p-149F,
                        0x1.ffdffep127F, 0x1.fffffep0F, 0x1.000ffep0F})
    check(v);
  for (int n = 0; n < 100000; ++n) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    if (std::fabs(v) < 0x1.ffep127F) check(v);
  }
  EXPECT_TRUE(std::isnan(split_float(NAN).low));
  EXPECT_TRUE(std::isnan(split_float(std::bit_cast<float>(0x7f800001U)).low));
  EXPECT_TRUE(std::isnan(split_float(std::bit_cast<float>(0xffffffffU)).low));
}

/// What semantics.md promises of `depth` products, of which matrix units may round each sum in any
/// direction. From kLeastSplitDepth on, it is within what sums in F32 may be off.
TEST(SplitProducts, ErrorsAreThoseOfSingles) {
  for (const int depth : {8, 32, 64, 256}) {
    const Kernel k = product(depth);
    const double promised = depth / 8.0 + 27;
    if (depth >= 32) {
      EXPECT_LE(promised, depth);
    }
    for (const Operands& o : hard_operands(depth)) {
      for (const NativeError error : {NativeError::None, NativeError::Low, NativeError::High,
                                      NativeError::Mixed, NativeError::Every}) {
        const std::vector<float> y = products(k, o, error);
        for (int i = 0; i < kProductRows * kProductColumns; ++i) {
          double exact = 0, size = 0, operands = 0;
          for (int n = 0; n < depth; ++n) {
            const auto [left, right] = o.factors(i, n);
            const auto a = static_cast<double>(left), c = static_cast<double>(right);
            exact += a * c;
            size += std::fabs(a * c);
            operands += std::fabs(a) + std::fabs(c) + 1;
          }
          const double got = static_cast<double>(y[static_cast<size_t>(i)]);
          ASSERT_LE(std::fabs(got - exact), promised * kUnit * size + operands * 0x1p-126)
              << o.name << ", depth " << depth << ", error " << static_cast<int>(error);
        }
      }
    }
  }
}

/// Not only the bound: on the average, sums are as near as those that round after each product.
/// Where neighbours along k cancel, sums in order stay small and hardly round; then they are
/// nearer.
TEST(SplitProducts, AreAsNearAsSinglesInOrder) {
  for (const int depth : {32, 64, 256}) {
    const Kernel k = product(depth);
    for (const Operands& o : hard_operands(depth)) {
      const bool usual = o.name == "normal" || o.name == "positive" || o.name == "cancelling late";
      if (!usual && o.name != "cancelling") continue;
      const std::vector<float> y = products(k, o, NativeError::None);
      double split = 0, single = 0;
      for (int i = 0; i < kProductRows * kProductColumns; ++i) {
        double exact = 0;
        float in_order = 0;
        for (int n = 0; n < depth; ++n) {
          const auto [a, c] = o.factors(i, n);
          exact += static_cast<double>(a) * static_cast<double>(c);
          in_order = std::fma(a, c, in_order);
        }
        const double far = static_cast<double>(y[static_cast<size_t>(i)]) - exact;
        const double far_single = static_cast<double>(in_order) - exact;
        split += far * far;
        single += far_single * far_single;
      }
      EXPECT_LE(std::sqrt(split), (usual ? 1 : 3) * std::sqrt(single))
          << o.name << ", depth " << depth;
    }
  }
}

/// A kernel sees that it has to compute such a sum otherwise.
TEST(SplitProducts, WhatCannotBeSplitIsNotFinite) {
  const Kernel k = product(32);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float v : {kInfinity, -kInfinity, NAN, std::numeric_limits<float>::max(),
                        -0x1.ffep127F, std::bit_cast<float>(0x7f800001U)}) {
    for (const bool left : {false, true}) {
      for (const float other : {0.0F, 1.0F, -3000.7F, 0x1p-140F, kInfinity}) {
        Operands o{"", std::vector<float>(kProductRows * 32, 1),
                   std::vector<float>(kProductColumns * 32, 1)};
        (left ? o.x : o.w)[static_cast<size_t>(left ? 5 : 5 * kProductColumns)] = v;
        (left ? o.w : o.x)[static_cast<size_t>(left ? 5 * kProductColumns : 5)] = other;
        EXPECT_FALSE(std::isfinite(products(k, o, NativeError::None)[0])) << v << " " << other;
      }
    }
  }
}

TEST(SplitProducts, OperandsAreOfOneType) {
  Kernel k = product(8);
  EXPECT_EQ(requirements(k).matrix,
            (MmaConfig{kProductRows, kProductColumns, kProductDepth, kSplitMma}));
  EXPECT_NE(print(k).find("matrix left: left f32 16x8"), std::string::npos) << print(k);
  Kernel legal = k;
  ASSERT_TRUE(legalize(legal, {}).ok());
  const Operands o = hard_operands(8)[0];
  EXPECT_EQ(products(k, o, NativeError::None), products(legal, o, NativeError::None));
  k.matrices[1].type = Ty::F16;
  EXPECT_NE(verify(k).message().find("matrix 'right' of f16 8x16"), std::string::npos)
      << verify(k).message();
}

}  // namespace
}  // namespace reprise::kernel
