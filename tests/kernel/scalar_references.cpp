#include "tests/kernel/scalar_references.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/dtype.h"

namespace reprise::kernel {

namespace {

Real sigmoid(Real a) {
  return 1 / (1 + std::exp(-a));
}
Real softplus(Real a) {
  return a > 0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a));
}
Real floor_mod(Real a, Real b) {
  const Real r = std::fmod(a, b);
  return r != 0 && std::signbit(r) != std::signbit(b) ? r + b : r;
}
Real clamp01(Real a) {
  return a < 0 ? 0 : a > 1 ? 1 : a;
}
const Real kPi = 3.14159265358979323846264338327950288L;

#define UNARY(name, expr)                                           \
  {                                                                 \
    ScalarOp::name, [](Real a, Real, Real) -> Real { return expr; } \
  }
#define BINARY(name, expr)                                            \
  {                                                                   \
    ScalarOp::name, [](Real a, Real b, Real) -> Real { return expr; } \
  }

}  // namespace

const std::map<ScalarOp, Reference>& references() {
  static const std::map<ScalarOp, Reference> table = {
      BINARY(Add, a + b),
      BINARY(Sub, a - b),
      BINARY(Mul, a * b),
      BINARY(Div, a / b),
      BINARY(DivRn, a / b),
      BINARY(Mod, floor_mod(a, b)),
      BINARY(Fmod, std::fmod(a, b)),
      UNARY(Neg, -a),
      UNARY(Abs, std::fabs(a)),
      UNARY(Sign, std::isnan(a) ? a : static_cast<Real>((a > 0) - (a < 0))),
      UNARY(Reciprocal, 1 / a),
      BINARY(Min, std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b)),
      BINARY(Max, std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b)),
      BINARY(MinNum, std::fmin(a, b)),
      BINARY(MaxNum, std::fmax(a, b)),
      UNARY(Floor, std::floor(a)),
      UNARY(Ceil, std::ceil(a)),
      UNARY(Round, std::nearbyint(a)),
      UNARY(Trunc, std::trunc(a)),
      UNARY(RoundBF16, bf16_to_float(double_to_bf16(static_cast<double>(a)))),
      UNARY(SqrtNative, std::sqrt(a)),
      UNARY(RsqrtNative, 1 / std::sqrt(a)),
      UNARY(LogNative, std::log(a)),
      UNARY(Log2Native, std::log2(a)),
      UNARY(ExpNative, std::exp(a)),
      UNARY(Exp2Native, std::exp2(a)),
      UNARY(Exp, std::exp(a)),
      UNARY(Exp2, std::exp2(a)),
      UNARY(Sqrt, std::sqrt(a)),
      UNARY(Rsqrt, 1 / std::sqrt(a)),
      UNARY(Log, std::log(a)),
      UNARY(Log2, std::log2(a)),
      UNARY(Log1p, std::log1p(a)),
      UNARY(Expm1, std::expm1(a)),
      BINARY(Pow, std::pow(a, b)),
      UNARY(Sin, std::sin(a)),
      UNARY(Cos, std::cos(a)),
      UNARY(Tan, std::tan(a)),
      UNARY(Asin, std::asin(a)),
      UNARY(Acos, std::acos(a)),
      UNARY(Atan, std::atan(a)),
      UNARY(Sinh, std::sinh(a)),
      UNARY(Cosh, std::cosh(a)),
      UNARY(Tanh, std::tanh(a)),
      UNARY(Asinh, std::asinh(a)),
      UNARY(Acosh, std::acosh(a)),
      UNARY(Atanh, std::atanh(a)),
      UNARY(Erf, std::erf(a)),
      UNARY(Sigmoid, sigmoid(a)),
      UNARY(Relu, std::isnan(a) || a > 0 ? a : 0),
      UNARY(Gelu, a * (std::erfc(-a / std::sqrt(Real{2})) / 2)),
      UNARY(GeluTanh, a * sigmoid(2 * std::sqrt(2 / kPi) * (a + 0.044715L * a * a * a))),
      UNARY(Softplus, softplus(a)),
      UNARY(Softsign, a / (1 + std::fabs(a))),
      UNARY(HardSwish, a * clamp01(a / 6 + 0.5L)),
      UNARY(Mish, a * std::tanh(softplus(a))),
      UNARY(Silu, a * sigmoid(a)),
  };
  return table;
}

Kernel row_kernel(ScalarOp op, Ty operand, Ty result, bool exact) {
  Builder b("row");
  const int y = b.buffer("y", result, Access::Write);
  const Val i = b.builtin(Builtin::GlobalId, 0);
  std::vector<Val> args;
  for (int a = 0; a < row(op).arity; ++a) {
    args.push_back(b.load(b.buffer("x" + std::to_string(a), operand, Access::Read), i));
  }
  const Val r = b.scalar_op(op, args);
  b.store(y, i, result == Ty::U32 ? b.convert(r, Ty::U32) : r);
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  const Status s = expand(*k, {.exact = exact});
  EXPECT_TRUE(s.ok()) << s.message();
  for (const Inst& inst : k->insts) {
    if (inst.op != Op::Scalar) continue;
    const auto used = static_cast<ScalarOp>(inst.imm);
    const bool rounds = used == ScalarOp::Round || used == ScalarOp::Floor ||
                        used == ScalarOp::Ceil || used == ScalarOp::Trunc;
    const bool native = !row(used).expanded || used == ScalarOp::Div || used == ScalarOp::Abs ||
                        (rounds && inst.type.ty != Ty::F64) || (exact && row(used).exact);
    EXPECT_TRUE(native ||
                class_of(k->insts[static_cast<size_t>(inst.args[0].id)].type.ty) != kFloat)
        << row(used).name << " remains in the expansion of " << row(op).name;
  }
  return std::move(*k);
}

}  // namespace reprise::kernel
