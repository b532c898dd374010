// The rows of scalar_ops.def that take F64, expanded, against long double. The error that a row
// states holds in units of the last place of F64; its absolute part shrinks by 2^-29, as these do.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iomanip>
#include <limits>
#include <random>
#include <sstream>

#include "codegen/interpreter/interpreter.h"
#include "tests/kernel/scalar_references.h"

namespace reprise::kernel {
namespace {

using Inputs = std::vector<std::vector<double>>;  // one array per operand

constexpr Real kLargest = std::numeric_limits<double>::max();
constexpr Real kSmallest = std::numeric_limits<double>::min();

std::vector<double> run(const Kernel& k, Inputs x, NativeError error = NativeError::None) {
  const size_t n = (x[0].size() + 63) / 64 * 64;
  for (auto& v : x) v.resize(n, 1.0);
  std::vector<double> y(n);
  Launch launch;
  launch.grid = {static_cast<uint32_t>(n / 64), 1, 1};
  launch.buffers.push_back(std::as_writable_bytes(std::span(y)));
  for (auto& v : x) launch.buffers.push_back(std::as_writable_bytes(std::span(v)));
  const auto outcome = interpret(k, launch, {.native_error = error});
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return y;
}

/// Operands outside are not part of the row's promise (semantics.md).
bool in_domain(ScalarOp op, Real a, Real b) {
  switch (op) {
    case ScalarOp::SqrtNative:
      return a >= 0;
    case ScalarOp::RsqrtNative:
      return a > 0;
    case ScalarOp::MinNum:
    case ScalarOp::MaxNum:
      return !std::isnan(a) && !std::isnan(b);
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Tan:
      return !(std::fabs(a) > 0x1p45L) || std::isinf(a);
    case ScalarOp::Mod:
    case ScalarOp::Fmod:
      return !(std::fabs(b) < 0x1p-900L) || b == 0;
    default:
      return true;
  }
}

/// Rows that devices have only for F32 and F16.
bool is_narrow(ScalarOp op) {
  return op == ScalarOp::ExpNative || op == ScalarOp::Exp2Native || op == ScalarOp::LogNative ||
         op == ScalarOp::Log2Native;
}

/// In units of the last place, or infinity for a result of the wrong kind.
double error_of(const ScalarRow& r, double got, Real want) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kWrong;
  const Real relative = static_cast<Real>(r.f32_ulp) * 0x1p-52L;
  if (std::fabs(want) > kLargest)
    return static_cast<Real>(got) == want || std::fabs(got) >= kLargest * (1 - relative) ? 0
                                                                                         : kWrong;
  if (std::isinf(got)) return std::fabs(want) * (1 + relative) >= kLargest ? 0 : kWrong;
  const int exponent = want == 0 ? -1022 : std::max(std::ilogb(want), -1022);
  const Real slack = static_cast<Real>(r.f32_abs) * 0x1p-29L + kSmallest;
  const Real error = std::max<Real>(std::fabs(got - want) - slack, 0);
  return static_cast<double>(error / std::ldexp(Real{1}, exponent - 52));
}

/// All magnitudes, those where functions change, and those of networks.
Inputs samples(ScalarOp op, size_t count) {
  Inputs x(static_cast<size_t>(row(op).arity));
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 4);
  const double special[] = {0.0,
                            -0.0,
                            1.0,
                            -1.0,
                            0.5,
                            -0.5,
                            2.0,
                            1e300,
                            -1e300,
                            709.7,
                            710.4,
                            -745.0,
                            1e-300,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  for (auto& v : x) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      const double near = std::ldexp(std::bit_cast<double>((bits >> 12U) | 0x3ff0000000000000U),
                                     static_cast<int>(bits % 24) - 14) *
                          ((bits & 64) != 0 ? -1 : 1);
      const double any = std::bit_cast<double>(bits);
      const bool normal_number = !(std::fabs(any) < std::numeric_limits<double>::min());
      v.push_back(i % 4 == 0 && normal_number ? any : i % 4 == 1 ? normal(random) : near);
    }
  }
  for (double a : special) {
    for (double b : special) {
      x[0].push_back(a);
      for (size_t i = 1; i < x.size(); ++i) x[i].push_back(b);
    }
  }
  return x;
}

struct Worst {
  double ulps = 0;
  std::string text;
};

void compare(ScalarOp op, const Inputs& x, const std::vector<double>& y, Worst& worst) {
  const ScalarRow& r = row(op);
  for (size_t i = 0; i < y.size() && i < x[0].size(); ++i) {
    const Real a = x[0][i];
    const Real b = x.size() > 1 ? x[1][i] : 0;
    if (!in_domain(op, a, b)) continue;
    const Real want = references().at(op)(a, b, 0);
    const double error = error_of(r, y[i], want);
    if (error <= worst.ulps) continue;
    std::ostringstream text;
    text << std::setprecision(21) << r.name << '(' << a << ", " << b << ") = " << y[i] << ", not "
         << want;
    worst = {error, text.str()};
  }
}

void sweep(size_t count) {
  for (const auto& [op, reference] : references()) {
    if (is_narrow(op)) continue;
    const Inputs x = samples(op, count);
    const Kernel k = row_kernel(op, Ty::F64, Ty::F64);
    Worst worst;
    for (NativeError e :
         {NativeError::None, NativeError::Low, NativeError::High, NativeError::Mixed})
      compare(op, x, run(k, x, e), worst);
    testing::Test::RecordProperty(std::string(row(op).name), std::to_string(worst.ulps));
    EXPECT_LE(worst.ulps, row(op).f32_ulp) << worst.text;
  }
}

TEST(DoubleAccuracy, Quick) {
  sweep(4096);
}

TEST(DoubleAccuracy, FullSweep) {
  sweep(400000);
}

/// From 2^51 on, where doubles are half a radian apart, nothing pretends to be a result.
TEST(DoubleAccuracy, LargeAngles) {
  const Inputs x{{0x1.5p44, 0x1.9p50, 0x1p51, 0x1.1p60, -0x1p1000}};
  const std::vector<double> y = run(row_kernel(ScalarOp::Sin, Ty::F64, Ty::F64), x);
  for (size_t i = 0; i < x[0].size(); ++i) {
    if (std::fabs(x[0][i]) >= 0x1p51) {
      EXPECT_TRUE(std::isnan(y[i])) << x[0][i];
    } else {
      EXPECT_NEAR(y[i], static_cast<double>(std::sin(static_cast<Real>(x[0][i]))), 1e-14)
          << x[0][i];
    }
  }
}

/// Between two narrow numbers, just above and below the middle, nearer than an F32 can tell.
TEST(DoubleAccuracy, NarrowNumbersAreRoundedOnce) {
  std::vector<double> in = {1 + 0x1p-11 + 0x1p-40,
                            1 + 0x1p-11 - 0x1p-40,
                            1 + 0x1p-11,
                            65520,
                            65519.99,
                            -1 - 0x1p-11 - 0x1p-40,
                            1e300,
                            0x1p-25,
                            0x1p-25 + 0x1p-60};
  const std::vector<uint16_t> halves = {0x3c01, 0x3c00, 0x3c00, 0x7c00, 0x7bff,
                                        0xbc01, 0x7c00, 0,      1};
  in.resize(64);
  Builder b("narrow");
  const int y = b.buffer("y", Ty::F16, Access::Write);
  const int x = b.buffer("x", Ty::F64, Access::Read);
  const Val i = b.builtin(Builtin::GlobalId, 0);
  b.store(y, i, b.convert(b.load(x, i), Ty::F16));
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  for (const bool float16 : {true, false}) {
    Kernel legal = *k;
    LegalizeFor target;
    target.float16 = float16;
    ASSERT_TRUE(legalize(legal, target).ok());
    std::vector<uint16_t> out(64);
    Launch launch;
    launch.buffers = {std::as_writable_bytes(std::span(out)),
                      std::as_writable_bytes(std::span(in))};
    launch.grid = {1, 1, 1};
    ASSERT_TRUE(interpret(legal, launch, {}).ok());
    for (size_t n = 0; n < halves.size(); ++n)
      EXPECT_EQ(out[n], halves[n]) << in[n] << ' ' << float16;
  }
  const Inputs bfloats{{1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 0x1p-8, 1e300}};
  const std::vector<double> r = run(row_kernel(ScalarOp::RoundBF16, Ty::F64, Ty::F64), bfloats);
  EXPECT_EQ(r[0], 1 + 0x1p-7);
  EXPECT_EQ(r[1], 1);
  EXPECT_EQ(r[2], 1);
  EXPECT_TRUE(std::isinf(r[3]));
}

}  // namespace
}  // namespace reprise::kernel
