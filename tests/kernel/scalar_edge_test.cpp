// The ends of the number line: NaN, infinities, zeros, extremes of integers; conversions. Expanded
// forms, in every mode of native error, against tables and plain C++.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Runs `write` on one element per row of operands (64-bit words hold the bits), expanded.
std::vector<uint64_t> run(Ty operand, Ty result, const std::vector<std::vector<uint64_t>>& rows,
                          const std::function<Val(Builder&, std::span<const Val>)>& write,
                          const InterpretOptions& options = {}) {
  Builder b("edge");
  b.set_workgroup(1);
  const Val i = b.builtin(Builtin::GlobalId, 0);
  const int y = b.buffer("y", result == Ty::Bool ? Ty::U32 : result, Access::Write);
  const auto size = static_cast<size_t>(byte_size(operand));
  std::vector<std::vector<std::byte>> memory;
  std::vector<Val> args;
  for (size_t a = 0; a < rows[0].size(); ++a) {
    args.push_back(b.load(b.buffer("x" + std::to_string(a), operand, Access::Read), i));
    memory.emplace_back(rows.size() * size);
    for (size_t r = 0; r < rows.size(); ++r)
      std::memcpy(&memory.back()[r * size], &rows[r][a], size);
  }
  const Val v = write(b, args);
  b.store(y, i, result == Ty::Bool ? b.convert(v, Ty::U32) : v);
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  const Status s = expand(*k);
  EXPECT_TRUE(s.ok()) << s.message();
  const size_t out_size = result == Ty::Bool ? 4 : static_cast<size_t>(byte_size(result));
  std::vector<std::byte> out(rows.size() * out_size);
  Launch launch;
  launch.grid = {static_cast<uint32_t>(rows.size()), 1, 1};
  launch.buffers.push_back(out);
  for (auto& m : memory) launch.buffers.push_back(m);
  const auto outcome = interpret(*k, launch, options);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  std::vector<uint64_t> got(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) std::memcpy(&got[r], &out[r * out_size], out_size);
  return got;
}

std::vector<uint64_t> run_row(ScalarOp op, Ty t, const std::vector<std::vector<uint64_t>>& rows,
                              const InterpretOptions& options = {}) {
  const Ty result = row(op).result == ResultKind::Boolean ? Ty::Bool : t;
  return run(
      t, result, rows,
      [op](Builder& b, std::span<const Val> args) { return b.scalar_op(op, args); }, options);
}

uint64_t bits(float v) {
  return std::bit_cast<uint32_t>(v);
}

struct Edge {
  ScalarOp op;
  float x, want;
};

TEST(ScalarEdge, UnaryTable) {
  const Edge table[] = {
      {ScalarOp::Exp, kInf, kInf},
      {ScalarOp::Exp, -kInf, 0},
      {ScalarOp::Exp, 0, 1},
      {ScalarOp::Log, 0, -kInf},
      {ScalarOp::Log, -0.0F, -kInf},
      {ScalarOp::Log, -1, kNan},
      {ScalarOp::Log, kInf, kInf},
      {ScalarOp::Log, -kInf, kNan},
      {ScalarOp::Log2, 0, -kInf},
      {ScalarOp::Log2, -3, kNan},
      {ScalarOp::Log1p, -1, -kInf},
      {ScalarOp::Log1p, -1.5F, kNan},
      {ScalarOp::Log1p, kInf, kInf},
      {ScalarOp::Log1p, -kInf, kNan},
      {ScalarOp::Log1p, 0, 0},
      {ScalarOp::Expm1, kInf, kInf},
      {ScalarOp::Expm1, -kInf, -1},
      {ScalarOp::Expm1, 0, 0},
      {ScalarOp::Sqrt, -1, kNan},
      {ScalarOp::Sqrt, kInf, kInf},
      {ScalarOp::Sqrt, 0, 0},
      {ScalarOp::Sqrt, -kInf, kNan},
      {ScalarOp::Rsqrt, 0, kInf},
      {ScalarOp::Rsqrt, kInf, 0},
      {ScalarOp::Rsqrt, -1, kNan},
      {ScalarOp::Reciprocal, kInf, 0},
      {ScalarOp::Sin, kInf, kNan},
      {ScalarOp::Cos, -kInf, kNan},
      {ScalarOp::Tan, kInf, kNan},
      {ScalarOp::Sin, 0, 0},
      {ScalarOp::Cos, 0, 1},
      {ScalarOp::Asin, 1.5F, kNan},
      {ScalarOp::Asin, -kInf, kNan},
      {ScalarOp::Acos, 2, kNan},
      {ScalarOp::Acos, 1, 0},
      {ScalarOp::Atan, kInf, 1.57079637F},
      {ScalarOp::Atan, -kInf, -1.57079637F},
      {ScalarOp::Sinh, kInf, kInf},
      {ScalarOp::Sinh, -kInf, -kInf},
      {ScalarOp::Cosh, -kInf, kInf},
      {ScalarOp::Tanh, kInf, 1},
      {ScalarOp::Tanh, -kInf, -1},
      {ScalarOp::Tanh, 0, 0},
      {ScalarOp::Asinh, kInf, kInf},
      {ScalarOp::Asinh, -kInf, -kInf},
      {ScalarOp::Acosh, 1, 0},
      {ScalarOp::Acosh, 0.5F, kNan},
      {ScalarOp::Acosh, kInf, kInf},
      {ScalarOp::Acosh, -kInf, kNan},
      {ScalarOp::Atanh, 1, kInf},
      {ScalarOp::Atanh, -1, -kInf},
      {ScalarOp::Atanh, 1.5F, kNan},
      {ScalarOp::Erf, kInf, 1},
      {ScalarOp::Erf, -kInf, -1},
      {ScalarOp::Erf, 0, 0},
      {ScalarOp::Sigmoid, kInf, 1},
      {ScalarOp::Sigmoid, -kInf, 0},
      {ScalarOp::Relu, -kInf, 0},
      {ScalarOp::Relu, kInf, kInf},
      {ScalarOp::Relu, -0.0F, 0},
      {ScalarOp::Gelu, kInf, kInf},
      {ScalarOp::Gelu, -1e30F, 0},
      {ScalarOp::GeluTanh, kInf, kInf},
      {ScalarOp::GeluTanh, -1e30F, 0},
      {ScalarOp::Softplus, kInf, kInf},
      {ScalarOp::Softplus, -kInf, 0},
      {ScalarOp::HardSwish, kInf, kInf},
      {ScalarOp::HardSwish, -1e30F, 0},
      {ScalarOp::Mish, kInf, kInf},
      {ScalarOp::Mish, -1e30F, 0},
      {ScalarOp::Silu, kInf, kInf},
      {ScalarOp::Silu, -1e30F, 0},
      {ScalarOp::Sign, kInf, 1},
      {ScalarOp::Sign, -kInf, -1},
      {ScalarOp::Sign, 0, 0},
      {ScalarOp::Sign, 1e-38F, 1},
      {ScalarOp::Round, 2.5F, 2},
      {ScalarOp::Round, -3.5F, -4},
  };
  for (const Edge& e : table) {
    for (NativeError n : {NativeError::None, NativeError::Low, NativeError::High}) {
      const float got = std::bit_cast<float>(
          static_cast<uint32_t>(run_row(e.op, Ty::F32, {{bits(e.x)}}, {.native_error = n})[0]));
      const std::string text = std::string(row(e.op).name) + "(" + std::to_string(e.x) + ")";
      if (std::isnan(e.want)) {
        EXPECT_TRUE(std::isnan(got)) << text << " = " << got;
      } else if (std::isinf(e.want) || e.want == 0) {
        EXPECT_EQ(got, e.want) << text;
      } else {
        EXPECT_NEAR(got, e.want, 2e-6) << text;
      }
    }
  }
}

/// Every row of floats that gives one: NaN in, NaN out, whatever sign and payload.
TEST(ScalarEdge, NanStaysNan) {
  for (int n = 0; n < scalar_op_count(); ++n) {
    const ScalarRow& r = row(static_cast<ScalarOp>(n));
    const bool special = r.op == ScalarOp::MinNum || r.op == ScalarOp::MaxNum ||
                         r.op == ScalarOp::Where || r.op == ScalarOp::ExpNative ||
                         r.op == ScalarOp::Exp2Native;
    if ((r.operands & kFloat) == 0 || r.result == ResultKind::Boolean || special) continue;
    for (uint64_t nan : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU}) {
      for (int position = 0; position < r.arity; ++position) {
        std::vector<uint64_t> operands(static_cast<size_t>(r.arity), bits(0.5F));
        operands[static_cast<size_t>(position)] = nan;
        for (NativeError e : {NativeError::None, NativeError::Low, NativeError::High}) {
          const uint64_t got = run_row(r.op, Ty::F32, {operands}, {.native_error = e})[0];
          EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(got))))
              << r.name << " of " << std::hex << nan << " at " << position << " = " << got;
        }
      }
    }
  }
}

TEST(ScalarEdge, ComparisonsAndTests) {
  const float values[] = {0, -0.0F, 1, -1, kInf, -kInf, kNan, -kNan, 3e38F};
  for (float a : values) {
    EXPECT_EQ(run_row(ScalarOp::IsNaN, Ty::F32, {{bits(a)}})[0], std::isnan(a)) << a;
    EXPECT_EQ(run_row(ScalarOp::IsInf, Ty::F32, {{bits(a)}})[0], std::isinf(a)) << a;
    for (float b : values) {
      const auto test = [&](ScalarOp op) {
        return run_row(op, Ty::F32, {{bits(a), bits(b)}})[0] != 0;
      };
      EXPECT_EQ(test(ScalarOp::Equal), a == b);
      EXPECT_EQ(test(ScalarOp::NotEqual), a != b);
      EXPECT_EQ(test(ScalarOp::Less), a < b);
      EXPECT_EQ(test(ScalarOp::LessOrEqual), a <= b);
      EXPECT_EQ(test(ScalarOp::Greater), a > b);
      EXPECT_EQ(test(ScalarOp::GreaterOrEqual), a >= b);
    }
  }
}

TEST(ScalarEdge, Powers) {
  const float values[] = {0,    -0.0F, 0.5F,  -0.5F, 1,    -1,    2,    -2,    3,         -3,
                          2.5F, 1e9F,  -1e9F, 1e-9F, kInf, -kInf, kNan, 1e38F, 0.999999F, 7};
  for (float x : values) {
    for (float y : values) {
      const float got = std::bit_cast<float>(
          static_cast<uint32_t>(run_row(ScalarOp::Pow, Ty::F32, {{bits(x), bits(y)}})[0]));
      const float want = std::pow(x, y);
      const std::string text = std::to_string(x) + " ^ " + std::to_string(y);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << text << " = " << got;
      } else if (std::isinf(want)) {
        EXPECT_EQ(got, want) << text;
      } else if (std::fabs(want) < 0x1p-126F) {  // may be flushed to zero
        EXPECT_LT(std::fabs(got), 0x1p-126F) << text;
      } else {
        EXPECT_NEAR(got / want, 1, 1e-6) << text;
      }
      // A constant exponent takes shorter ways.
      const auto constant =
          run(Ty::F32, Ty::F32, {{bits(x)}}, [y](Builder& b, std::span<const Val> a) {
            return b.scalar_op(ScalarOp::Pow, {a[0], b.f32(y)});
          });
      const float short_way = std::bit_cast<float>(static_cast<uint32_t>(constant[0]));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(short_way)) << text;
      } else if (std::isfinite(want) && std::fabs(want) >= 0x1p-126F) {
        EXPECT_NEAR(short_way / want, 1, 1e-6) << text;
      } else {
        EXPECT_EQ(std::fabs(short_way) < 0x1p-126F, std::fabs(want) < 0x1p-126F) << text;
      }
    }
  }
}

/// Integer rows against 128-bit arithmetic on all pairs of extremes.
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

Wide floor_mod(Wide a, Wide b) {
  const Wide r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Wide power(Wide a, Wide b) {
  if (b < 0) return a == 1 || a == -1 ? (b % 2 == 0 ? 1 : a) : 0;
  UnsignedWide r = 1, factor = static_cast<UnsignedWide>(a);
  for (; b != 0; b /= 2, factor *= factor) r *= b % 2 != 0 ? factor : 1;
  return static_cast<Wide>(r);
}

std::optional<Wide> integer_reference(ScalarOp op, Wide a, Wide b, int width, bool is_signed) {
  const Wide n = b & ((Wide{1} << width) - 1);
  switch (op) {
    case ScalarOp::Add:
      return a + b;
    case ScalarOp::Sub:
      return a - b;
    case ScalarOp::Mul:
      return static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b));
    case ScalarOp::Div:
      return b == 0 ? 0 : a / b;
    case ScalarOp::Rem:
      return b == 0 ? 0 : a % b;
    case ScalarOp::Mod:
      return b == 0 ? 0 : floor_mod(a, b);
    case ScalarOp::Pow:
      return power(a, b);
    case ScalarOp::IDiv:
      return b == 0 || (is_signed && b == -1) ? std::nullopt : std::optional<Wide>(a / b);
    case ScalarOp::IRem:
      return b == 0 || (is_signed && b == -1) ? std::nullopt : std::optional<Wide>(a % b);
    case ScalarOp::Neg:
      return -a;
    case ScalarOp::Abs:
      return a < 0 ? -a : a;
    case ScalarOp::Sign:
      return (a > 0) - (a < 0);
    case ScalarOp::Min:
    case ScalarOp::MinNum:
      return std::min(a, b);
    case ScalarOp::Max:
    case ScalarOp::MaxNum:
      return std::max(a, b);
    case ScalarOp::Relu:
      return a > 0 ? a : 0;
    case ScalarOp::BitAnd:
      return a & b;
    case ScalarOp::BitOr:
      return a | b;
    case ScalarOp::BitXor:
      return a ^ b;
    case ScalarOp::BitNot:
      return ~a;
    case ScalarOp::ShiftLeft:
      return n >= width ? 0
                        : static_cast<Wide>(static_cast<UnsignedWide>(a) << static_cast<int>(n));
    case ScalarOp::ShiftRight:
      return n >= width ? (a < 0 ? -1 : 0) : a >> static_cast<int>(n);
    case ScalarOp::Equal:
      return a == b;
    case ScalarOp::NotEqual:
      return a != b;
    case ScalarOp::Less:
      return a < b;
    case ScalarOp::LessOrEqual:
      return a <= b;
    case ScalarOp::Greater:
      return a > b;
    case ScalarOp::GreaterOrEqual:
      return a >= b;
    case ScalarOp::InRange:
      return b >= 0 ? a >= 0 && a < b : a >= 0 || a < b;
    default:
      return std::nullopt;
  }
}

TEST(ScalarEdge, Integers) {
  for (Ty t : {Ty::I32, Ty::U32, Ty::I64, Ty::U64}) {
    const int width = byte_size(t) * 8;
    const bool is_signed = class_of(t) == kSigned;
    const uint64_t top = uint64_t{1} << (width - 1);
    std::vector<uint64_t> values = {0,  1,  2,  3,       7,   31,      32,
                                    33, 63, 64, 0x10000, top, top - 1, top + 1};
    for (uint64_t v : {0U, 1U, 2U, 6U}) values.push_back(mask_bits(~uint64_t{v}, t));
    for (int n = 0; n < scalar_op_count(); ++n) {
      const ScalarRow& r = row(static_cast<ScalarOp>(n));
      if ((r.operands & class_of(t)) == 0 || r.op == ScalarOp::Where) continue;
      std::vector<std::vector<uint64_t>> rows;
      std::vector<uint64_t> want;
      for (uint64_t a : values) {
        for (uint64_t b : values) {
          const auto number = [&](uint64_t v) {
            return is_signed ? Wide{integer_of(v, t)} : Wide{v};
          };
          const auto expected = integer_reference(r.op, number(a), number(b), width, is_signed);
          if (!expected) continue;
          rows.push_back(r.arity == 1 ? std::vector{a} : std::vector{a, b});
          const auto low = static_cast<uint64_t>(*expected);
          want.push_back(r.result == ResultKind::Boolean ? low : mask_bits(low, t));
        }
      }
      ASSERT_FALSE(rows.empty()) << r.name;
      const std::vector<uint64_t> got = run_row(r.op, t, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(got[i], want[i])
            << r.name << " of " << name_of(t) << " " << rows[i][0] << ", " << rows[i].back();
      }
    }
  }
}

TEST(ScalarEdge, FloatsToIntegersSaturate) {
  const float values[] = {
      0,     -0.5F,  0.9F,          -1.9F, 2147483520.0F, 2147483648.0F, -2147483648.0F,
      -3e9F, 4.2e9F, 4294967296.0F, kInf,  -kInf,         kNan,          -kNan,
      9e18F, 1e19F,  1.8e19F,       2e19F, -1e19F};
  for (Ty t : {Ty::I32, Ty::U32, Ty::I64, Ty::U64}) {
    for (float v : values) {
      const auto got = run(Ty::F32, t, {{bits(v)}},
                           [t](Builder& b, std::span<const Val> a) { return b.convert(a[0], t); });
      const Wide high = class_of(t) == kSigned ? (Wide{1} << (byte_size(t) * 8 - 1)) - 1
                                               : (Wide{1} << (byte_size(t) * 8)) - 1;
      const Wide low = class_of(t) == kSigned ? -high - 1 : 0;
      const Wide exact = std::isnan(v)          ? 0
                         : std::fabs(v) < 1e30F ? static_cast<Wide>(v)
                         : v > 0                ? high
                                                : low;
      const Wide want = std::clamp(exact, low, high);
      EXPECT_EQ(got[0], mask_bits(static_cast<uint64_t>(want), t)) << v << " to " << name_of(t);
    }
  }
}

TEST(ScalarEdge, HalvesRoundToEven) {
  std::vector<std::vector<uint64_t>> rows;
  for (uint64_t v = 0; v <= 0xffffffffU; v += 99991) rows.push_back({v});
  for (float v :
       {65504.0F, 65519.9F, 65520.0F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1.002p0F, 0x1.006p0F}) {
    rows.push_back({bits(v)});
  }
  const auto got = run(Ty::F32, Ty::F16, rows,
                       [](Builder& b, std::span<const Val> a) { return b.convert(a[0], Ty::F16); });
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint16_t want = float_to_f16(std::bit_cast<float>(static_cast<uint32_t>(rows[i][0])));
    const bool nan = (want & 0x7fffU) > 0x7c00U;
    EXPECT_TRUE(nan ? (got[i] & 0x7fffU) > 0x7c00U : got[i] == want) << std::hex << rows[i][0];
  }
}

/// Expanding what is expanded changes nothing.
TEST(ScalarEdge, ExpansionIsIdempotent) {
  for (int n = 0; n < scalar_op_count(); ++n) {
    const ScalarRow& r = row(static_cast<ScalarOp>(n));
    const Ty t = (r.operands & kFloat) != 0 ? Ty::F32
                 : (r.operands & kInt) != 0 ? Ty::I32
                                            : Ty::Void;
    if (t == Ty::Void || r.op == ScalarOp::Where) continue;
    Builder b("twice");
    const int y = b.buffer("y", r.result == ResultKind::Boolean ? Ty::U32 : t, Access::Write);
    std::vector<Val> args;
    for (int a = 0; a < r.arity; ++a) {
      const int x = b.buffer("x" + std::to_string(a), t, Access::Read);
      args.push_back(b.load(x, b.i32(0), 2, 2));
    }
    const Val v = b.scalar_op(r.op, args);
    b.store(y, b.i32(0), r.result == ResultKind::Boolean ? b.convert(v, Ty::U32) : v, 2);
    auto k = b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    ASSERT_TRUE(expand(*k).ok());
    simplify(*k);
    const std::string once = print(*k);
    ASSERT_TRUE(expand(*k).ok());
    simplify(*k);
    EXPECT_EQ(print(*k), once) << r.name;
  }
}

}  // namespace
}  // namespace reprise::kernel
