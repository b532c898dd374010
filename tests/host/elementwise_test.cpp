#include <gtest/gtest.h>

#include <cmath>

#include "tests/host/cases.h"

namespace reprise::test {
namespace {

TEST(HostUnary, SpecialValues) {
  const HostTensor specials = f32({5}, {kNaN, kInf, -kInf, 0.0F, -0.0F});
  run_cases({
      {"NaN stays", "Relu", {specials}, {f32({5}, {kNaN, kInf, 0, 0.0F, -0.0F})}},
      {"0 * -inf is NaN",
       "HardSwish",
       {specials},
       {f32({5}, {kNaN, kInf, kNaN, 0, -0.0F})},
       {},
       0,
       1e-30},
      {"tiny", "GeluTanh", {f32({1}, {-9})}, {f32({1}, {-1.3364596e-28F})}, {}, 0, 1e-32},
      {"0 * -inf is NaN", "Gelu", {specials}, {f32({5}, {kNaN, kInf, kNaN, 0, 0})}, {}, 0, 1e-30},
      {"0 * -inf is NaN", "Mish", {specials}, {f32({5}, {kNaN, kInf, kNaN, 0, 0})}, {}, 0, 1e-30},
      {"limits", "Sigmoid", {specials}, {f32({5}, {kNaN, 1, 0, 0.5F, 0.5F})}},
      {"limits", "Softplus", {f32({3}, {kNaN, 1000, -1000})}, {f32({3}, {kNaN, 1000, 0})}},
      {"limits", "Tanh", {specials}, {f32({5}, {kNaN, 1, -1, 0.0F, -0.0F})}},
      {"limits", "Erf", {specials}, {f32({5}, {kNaN, 1, -1, 0.0F, -0.0F})}},
      {"poles", "Reciprocal", {f32({2}, {0.0F, -0.0F})}, {f32({2}, {kInf, -kInf})}},
      {"domain", "Sqrt", {f32({3}, {-1, -0.0F, 4})}, {f32({3}, {kNaN, -0.0F, 2})}},
      {"domain", "Log", {f32({3}, {-1, 0, 1})}, {f32({3}, {kNaN, -kInf, 0})}},
      {"NaN stays", "Sign", {specials}, {f32({5}, {kNaN, 1, -1, 0, 0})}},
      {"NaN is within the bounds",
       "Shrink",
       {f32({4}, {kNaN, -2, 0.25F, 2})},
       {f32({4}, {0, -2, 0, 2})}},
  });
}

TEST(HostUnary, ShrinksIntegersByFractions) {
  run_cases({
      {"the result is truncated",
       "Shrink",
       {i64({5}, {-4, -1, 0, 2, 3})},
       {i64({5}, {-2, 0, 0, 0, 1})},
       attrs({{"lambd", 2.5F}, {"bias", 1.5F}})},
      {"unsigned",
       "Shrink",
       {u8({3}, {0, 2, 200})},
       {u8({3}, {0, 0, 198})},
       attrs({{"lambd", 2.5F}, {"bias", 1.5F}})},
  });
}

TEST(HostUnary, RoundsHalfToEven) {
  run_cases({{"halves",
              "Round",
              {f32({7}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 2.4F, 8388609.0F})},
              {f32({7}, {0.0F, 2, 2, -0.0F, -2, 2, 8388609.0F})}}});
}

TEST(HostUnary, RankZeroAndEmpty) {
  run_cases({
      {"rank 0", "Neg", {f32({}, {2})}, {f32({}, {-2})}},
      {"empty", "Exp", {f32({2, 0, 3}, {})}, {f32({2, 0, 3}, {})}},
  });
}

TEST(HostUnary, IntegersWrap) {
  run_cases({
      {"lowest", "Abs", {i64({2}, {kMin64, -3})}, {i64({2}, {kMin64, 3})}},
      {"lowest", "Neg", {i8({2}, {-128, 5})}, {i8({2}, {-128, -5})}},
      {"unsigned", "Sign", {u8({2}, {0, 200})}, {u8({2}, {0, 1})}},
      {"bits", "BitwiseNot", {u8({1}, {0xF0})}, {u8({1}, {0x0F})}},
  });
}

TEST(HostUnary, HalfPrecisionRoundsOnce) {
  // exp in half precision steps would give 2.7168; the exact value rounds to 2.71875.
  run_cases({
      {"float16", "Exp", {f16({2}, {1, 12})}, {f16({2}, {2.71828183F, kInf})}},
      {"bfloat16", "Sqrt", {bf16({1}, {2})}, {bf16({1}, {1.41421356F})}},
  });
}

TEST(HostUnary, Attributes) {
  const HostTensor x = f32({3}, {-1, 0, 2});
  run_cases({
      {"default", "LeakyRelu", {x}, {f32({3}, {-0.01F, 0, 2})}, {}, 0, 1e-7},
      {"alpha", "LeakyRelu", {x}, {f32({3}, {-0.5F, 0, 2})}, attrs({{"alpha", 0.5F}})},
      {"alpha", "Elu", {x}, {f32({3}, {-1.264241F, 0, 2})}, attrs({{"alpha", 2.0F}}), 0, 1e-6},
      {"default", "HardSigmoid", {x}, {f32({3}, {0.3F, 0.5F, 0.9F})}, {}, 0, 1e-6},
      {"alpha", "ThresholdedRelu", {x}, {f32({3}, {0, 0, 2})}},
      {"tanh",
       "Gelu",
       {x},
       {f32({3}, {-0.15880801F, 0, 1.9545977F})},
       attrs({{"approximate", text("tanh")}}),
       20,
       1e-6},
  });
}

TEST(HostBinary, BroadcastsBothWays) {
  run_cases({
      {"rows and columns",
       "Add",
       {f32({2, 1}, {10, 20}), f32({3}, {1, 2, 3})},
       {f32({2, 3}, {11, 12, 13, 21, 22, 23})}},
      {"rank 0", "Mul", {f32({}, {3}), f32({2}, {1, 2})}, {f32({2}, {3, 6})}},
      {"zero-sized", "Sub", {f32({0, 3}, {}), f32({1, 3}, {1, 2, 3})}, {f32({0, 3}, {})}},
      {"inner 1s",
       "Add",
       {counting({2, 1, 2}), f32({1, 2, 1}, {10, 20})},
       {f32({2, 2, 2}, {10, 11, 20, 21, 12, 13, 22, 23})}},
  });
}

TEST(HostBinary, IntegerEdges) {
  run_cases({
      {"truncates",
       "Div",
       {i32({4}, {7, -7, 7, -7}), i32({4}, {2, 2, -2, -2})},
       {i32({4}, {3, -3, -3, 3})}},
      {"lowest by -1", "Div", {i64({1}, {kMin64}), i64({1}, {-1})}, {i64({1}, {kMin64})}},
      {"lowest by -1", "Mod", {i64({1}, {kMin64}), i64({1}, {-1})}, {i64({1}, {0})}},
      {"sign of the divisor",
       "Mod",
       {i32({4}, {-4, 7, 5, -4}), i32({4}, {2, -3, 8, 3})},
       {i32({4}, {0, -2, 5, 2})}},
      {"sign of the dividend",
       "Mod",
       {i32({2}, {-4, 7}), i32({2}, {3, -3})},
       {i32({2}, {-1, 1})},
       attrs({{"fmod", int64_t{1}}})},
      {"wraps", "Add", {i64({1}, {kMax64}), i64({1}, {1})}, {i64({1}, {kMin64})}},
      {"wraps", "Mul", {u8({1}, {200}), u8({1}, {2})}, {u8({1}, {144})}},
      {"large unsigned",
       "Div",
       {u64({1}, {~uint64_t{0}}), u64({1}, {2})},
       {u64({1}, {~uint64_t{0} >> 1})}},
      {"width",
       "BitShift",
       {u8({3}, {1, 255, 1}), u8({3}, {7, 8, 200})},
       {u8({3}, {128, 0, 0})},
       attrs({{"direction", text("LEFT")}})},
      {"exact",
       "Pow",
       {i64({3}, {3, -2, 2}), i64({3}, {39, 3, -1})},
       {i64({3}, {4052555153018976267, -8, 0})}},
      {"other exponent dtype", "Pow", {i32({2}, {2, 9}), f32({2}, {3, 0.5F})}, {i32({2}, {8, 3})}},
      {"nothing to divide", "Div", {i32({0}, {}), i32({1}, {0})}, {i32({0}, {})}},
  });
}

TEST(HostBinary, NaNPropagates) {
  const HostTensor a = f32({4}, {kNaN, 1, kInf, -0.0F});
  const HostTensor b = f32({4}, {1, kNaN, 2, 0.0F});
  run_cases({
      {"either side", "Max", {a, b}, {f32({4}, {kNaN, kNaN, kInf, 0.0F})}, {}, 0, 1e-30},
      {"either side", "Min", {a, b}, {f32({4}, {kNaN, kNaN, 2, 0.0F})}, {}, 0, 1e-30},
      {"clip keeps it",
       "Clip",
       {a, f32({}, {0}), f32({}, {1})},
       {f32({4}, {kNaN, 1, 1, 0})},
       {},
       13,
       1e-30},
      {"variadic", "Max", {f32({1}, {1}), f32({2}, {5, 0}), f32({1}, {3})}, {f32({2}, {5, 3})}},
      {"one input", "Min", {f32({1}, {4})}, {f32({1}, {4})}},
  });
}

TEST(HostBinary, ClipInEveryVersion) {
  const HostTensor x = f32({3}, {-2, 0.5F, 2});
  run_cases({
      {"attributes",
       "Clip",
       {x},
       {f32({3}, {-1, 0.5F, 1})},
       attrs({{"min", -1.0F}, {"max", 1.0F}}),
       7},
      {"only max", "Clip", {x, kOmitted, f32({}, {1})}, {f32({3}, {-2, 0.5F, 1})}, {}, 13},
      {"min over max", "Clip", {x, f32({}, {3}), f32({}, {1})}, {f32({3}, {1, 1, 1})}, {}, 13},
      {"integers",
       "Clip",
       {i8({3}, {-100, 0, 100}), i8({}, {-5}), i8({}, {5})},
       {i8({3}, {-5, 0, 5})},
       {},
       13},
  });
}

TEST(HostBinary, MeanRoundsOnce) {
  // Summed in float16 one by one, 2048 + 1 would stay 2048.
  run_cases(
      {{"float16", "Sum", {f16({1}, {2048}), f16({1}, {1}), f16({1}, {1})}, {f16({1}, {2050})}},
       {"three", "Mean", {f32({1}, {1}), f32({1}, {2}), f32({1}, {6})}, {f32({1}, {3})}}});
}

TEST(HostBinary, Errors) {
  run_error_cases({
      {"shapes", "Add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}, Code::InvalidInput, "[2], [3]"},
      {"dtypes", "Add", {f32({1}, {1}), i32({1}, {1})}, Code::InvalidInput, "float32 and int32"},
      {"division by zero",
       "Div",
       {i32({2}, {1, 2}), i32({2}, {1, 0})},
       Code::InvalidInput,
       "division by zero: element 1"},
      {"modulo zero", "Mod", {u8({1}, {1}), u8({1}, {0})}, Code::InvalidInput, "division by zero"},
      {"missing", "Add", {f32({1}, {1}), kOmitted}, Code::InvalidModel, "input 1 is missing"},
      {"bool", "Add", {boolean({1}, {1}), boolean({1}, {1})}, Code::Unsupported, "bool"},
      {"strings", "Exp", {strings({1}, {"a"})}, Code::Unsupported, "string[1]"},
      {"direction", "BitShift", {u8({1}, {1}), u8({1}, {1})}, Code::InvalidModel, "direction"},
      {"slope too large", "PRelu", {f32({1}, {1}), f32({2}, {1, 2})}, Code::InvalidInput, "slope"},
      {"approximate",
       "Gelu",
       {f32({1}, {1})},
       Code::InvalidModel,
       "'fast'",
       attrs({{"approximate", text("fast")}})},
  });
}

TEST(HostLogic, ComparisonsAndNaN) {
  const HostTensor a = f32({3}, {1, kNaN, 3});
  const HostTensor b = f32({3}, {1, kNaN, 2});
  run_cases({
      {"NaN differs", "Equal", {a, b}, {boolean({3}, {1, 0, 0})}},
      {"NaN is unordered", "GreaterOrEqual", {a, b}, {boolean({3}, {1, 0, 1})}},
      {"exact integers", "Less", {i64({1}, {kMax64 - 1}), i64({1}, {kMax64})}, {boolean({1}, {1})}},
      {"strings", "Equal", {strings({2}, {"a", "b"}), strings({1}, {"a"})}, {boolean({2}, {1, 0})}},
      {"bytes other than 1 are true",
       "And",
       {boolean({2}, {2, 1}), boolean({2}, {1, 0})},
       {boolean({2}, {1, 0})}},
      {"not", "Not", {boolean({2}, {3, 0})}, {boolean({2}, {0, 1})}},
      {"one sign",
       "IsInf",
       {f32({3}, {kInf, -kInf, kNaN})},
       {boolean({3}, {0, 1, 0})},
       attrs({{"detect_positive", int64_t{0}}})},
      {"broadcasts",
       "Where",
       {boolean({2, 1}, {1, 0}), i64({2}, {1, 2}), i64({}, {9})},
       {i64({2, 2}, {1, 2, 9, 9})}},
      {"strings",
       "Where",
       {boolean({2}, {0, 1}), strings({1}, {"a"}), strings({2}, {"b", "c"})},
       {strings({2}, {"b", "a"})}},
  });
  run_error_cases({
      {"condition",
       "Where",
       {f32({1}, {1}), f32({1}, {1}), f32({1}, {1})},
       Code::Unsupported,
       "bool"},
      {"no order on bool",
       "Less",
       {boolean({1}, {1}), boolean({1}, {1})},
       Code::Unsupported,
       "numbers"},
  });
}

TEST(HostCast, Conversions) {
  constexpr int64_t kF32 = 1, kU8 = 2, kI8 = 3, kI32 = 6, kI64 = 7, kString = 8, kBool = 9,
                    kF16 = 10;
  const auto to = [](int64_t t) { return attrs({{"to", t}}); };
  run_cases({
      {"truncates and saturates",
       "Cast",
       {f32({5}, {-1.9F, 1e20F, -1e20F, kNaN, kInf})},
       {i32({5}, {-1, 2147483647, -2147483647 - 1, 0, 2147483647})},
       to(kI32)},
      {"saturates", "Cast", {f32({3}, {-1, 300, 2.9F})}, {u8({3}, {0, 255, 2})}, to(kU8)},
      {"integers wrap", "Cast", {i32({3}, {257, -1, 128})}, {i8({3}, {1, -1, -128})}, to(kI8)},
      {"zero or not",
       "Cast",
       {f32({4}, {0, -0.0F, kNaN, 0.1F})},
       {boolean({4}, {0, 0, 1, 1})},
       to(kBool)},
      {"from bool", "Cast", {boolean({2}, {7, 0})}, {f32({2}, {1, 0})}, to(kF32)},
      // Rounded through float32 first, this value would tie and fall to 1.
      {"one rounding",
       "Cast",
       {f64({1}, {1.00048828125000022})},
       {f16({1}, {1.0009765625F})},
       to(kF16)},
      {"overflow", "Cast", {f32({2}, {65520, 65519})}, {f16({2}, {kInf, 65504})}, to(kF16)},
      {"large", "Cast", {i64({1}, {kMax64})}, {f32({1}, {9223372036854775807.0F})}, to(kF32)},
      {"to text",
       "Cast",
       {f32({3}, {0.5F, kInf, kNaN})},
       {strings({3}, {"0.5", "INF", "NaN"})},
       to(kString)},
      {"from text", "Cast", {strings({2}, {"-12", "+7"})}, {i64({2}, {-12, 7})}, to(kI64)},
      {"same dtype", "CastLike", {i64({1}, {3}), f32({0}, {})}, {f32({1}, {3})}},
  });
  run_error_cases({
      {"junk text", "Cast", {strings({1}, {"12x"})}, Code::InvalidInput, "'12x'", to(kI64)},
      {"float6", "Cast", {f32({1}, {1})}, Code::Unsupported, "27", to(27)},
      {"rounding",
       "Cast",
       {f32({1}, {1})},
       Code::InvalidModel,
       "round_mode",
       attrs({{"to", int64_t{24}}, {"round_mode", std::string("odd")}})},
      {"no target", "Cast", {f32({1}, {1})}, Code::InvalidModel, "'to'"},
  });
}

/// A tensor of a low-bit type, of these codes.
HostTensor codes(DType t, const std::vector<uint8_t>& v) {
  return HostTensor::from(t, {static_cast<int64_t>(v.size())}, v);
}

TEST(HostCast, LowBitTypes) {
  static constexpr int64_t kI8 = 3, kString = 8, kE4M3 = 17, kE5M2 = 19, kU4 = 21, kI4 = 22,
                           kE8M0 = 24;
  const auto to = [](int64_t t) { return attrs({{"to", t}}); };
  const auto open = [](int64_t t) { return attrs({{"to", t}, {"saturate", int64_t{0}}}); };
  const auto rounded = [](const char* mode) {
    return attrs({{"to", kE8M0}, {"round_mode", std::string(mode)}});
  };
  const HostTensor minus = codes(DType::I4, {0xff, 0xf8, 7});
  run_cases({
      {"floats wrap", "Cast", {f32({3}, {15.9F, -8, 7})}, {minus}, to(kI4)},
      {"integers wrap", "Cast", {i32({3}, {0x7f, 8, -9})}, {minus}, to(kI4)},
      {"to integers", "Cast", {minus}, {i8({3}, {-1, -8, 7})}, to(kI8)},
      {"upper bits",
       "Cast",
       {codes(DType::I4, {0x0f, 0x18, 0xf7})},
       {i8({3}, {-1, -8, 7})},
       to(kI8)},
      {"to text", "Cast", {minus}, {strings({3}, {"-1", "-8", "7"})}, to(kString)},
      {"from text",
       "Cast",
       {strings({2}, {"0.5", "-2"})},
       {codes(DType::F8E4M3FN, {0x30, 0xc0})},
       to(kE4M3)},
      // Rounded through float32 first, this value would tie and fall to 1.
      {"one rounding",
       "Cast",
       {f64({1}, {1.0625 + 0x1p-40})},
       {codes(DType::F8E4M3FN, {0x39})},
       to(kE4M3)},
      {"saturates",
       "Cast",
       {f32({2}, {1e9F, -kInf})},
       {codes(DType::F8E5M2, {0x7b, 0xfb})},
       to(kE5M2)},
      {"overflows",
       "Cast",
       {f32({2}, {1e9F, -kInf})},
       {codes(DType::F8E5M2, {0x7c, 0xfc})},
       open(kE5M2)},
      {"between types",
       "Cast",
       {codes(DType::F8E4M3FN, {0x7e, 0xc0})},
       {codes(DType::F8E5M2, {0x5f, 0xc0})},
       to(kE5M2)},
      {"up", "Cast", {f32({2}, {1.1F, 1.5F})}, {codes(DType::F8E8M0, {128, 128})}, rounded("up")},
      {"down",
       "Cast",
       {f32({2}, {1.1F, 1.5F})},
       {codes(DType::F8E8M0, {127, 127})},
       rounded("down")},
      {"nearest",
       "Cast",
       {f32({2}, {1.1F, 1.5F})},
       {codes(DType::F8E8M0, {127, 128})},
       rounded("nearest")},
      {"bits", "BitCast", {minus}, {codes(DType::U4, {15, 8, 7})}, to(kU4)},
      {"bits", "BitCast", {u8({1}, {0x7e})}, {codes(DType::F8E4M3FN, {0x7e})}, to(kE4M3)},
  });
}

}  // namespace
}  // namespace reprise::test
