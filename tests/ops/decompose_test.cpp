// Every decomposition, checked by numbers: the ONNX form on the host kernels against the core form
// on the host kernels, and against the core form's element() definitions on the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/ops/op.h"
#include "tests/ops/run_graph.h"

namespace reprise::test {
namespace {

struct Case {
  const char* name;
  const char* text;
  double lo = -3, hi = 3;   // of random inputs
  bool special = false;     // NaN, infinities and zeros among the inputs
  double tolerance = 2e-5;  // relative to 1 + |expected|
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

HostTensor random_tensor(DType t, const std::vector<int64_t>& dims, const Case& c,
                         std::mt19937& rng) {
  HostTensor out(t, dims);
  std::uniform_real_distribution<double> real(c.lo, c.hi);
  const double inf = std::numeric_limits<double>::infinity();
  const double specials[] = {std::nan(""), inf, -inf, 0.0, -0.0, 1.0};
  for (int64_t i = 0; i < out.count(); ++i) {
    double v = real(rng);
    if (c.special && is_float(t) && i % 3 == 0) v = specials[static_cast<size_t>(i / 3) % 6];
    const auto n = static_cast<int64_t>(std::floor(v));
    switch (t) {
      case DType::F32:
        out.mutable_data<float>()[i] = static_cast<float>(v);
        break;
      case DType::F16:
        out.mutable_data<uint16_t>()[i] = float_to_f16(static_cast<float>(v));
        break;
      case DType::Bool:
        out.mutable_data<uint8_t>()[i] = v > (c.lo + c.hi) / 2;
        break;
      case DType::I8:
        out.mutable_data<int8_t>()[i] = static_cast<int8_t>(n);
        break;
      case DType::U8:
        out.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(n < 0 ? -n : n);
        break;
      case DType::I32:
        out.mutable_data<int32_t>()[i] = static_cast<int32_t>(n);
        break;
      case DType::I64:
        out.mutable_data<int64_t>()[i] = n;
        break;
      default:
        ADD_FAILURE() << "no random values for " << name_of(t);
    }
  }
  return out;
}

/// Dims of an input: symbols take small distinct values.
std::vector<int64_t> concrete(const Shape& shape) {
  std::vector<int64_t> dims;
  for (const Expr& d : shape) {
    const auto s = d.as_symbol();
    dims.push_back(d.is_const() ? d.value() : 3 + (s ? *s : 0));
  }
  return dims;
}

void expect_close(const HostTensor& want, const HostTensor& got, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(describe(want.dtype(), want.dims()), describe(got.dtype(), got.dims())) << what;
  const auto a = numbers(want);
  const auto b = numbers(got);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isinf(a[i])) {
      ASSERT_TRUE(std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i])
          << what << ": element " << i << " is " << b[i] << ", expected " << a[i];
      continue;
    }
    const double slack = want.dtype() == DType::F16 ? 2e-3 : tolerance;
    ASSERT_LE(std::fabs(a[i] - b[i]), is_float(want.dtype()) ? slack * (1 + std::fabs(a[i])) : 0)
        << what << ": element " << i << " is " << b[i] << ", expected " << a[i];
  }
}

class Decompose : public testing::TestWithParam<Case> {};

TEST_P(Decompose, CoreFormAndElementsAgreeWithTheOnnxForm) {
  const Case& c = GetParam();
  const auto onnx = must_parse(c.text);
  ASSERT_TRUE(onnx);
  std::mt19937 rng(7);
  std::vector<HostTensor> inputs;
  for (graph::ValueId v : onnx->inputs) {
    const graph::Value& value = onnx->value(v);
    inputs.push_back(random_tensor(value.dtype, concrete(value.shape), c, rng));
  }
  const auto want = run_graph(*onnx, inputs, Engine::Host);
  ASSERT_TRUE(want.ok()) << want.status().message();

  const auto core = must_parse(c.text);
  const Status s = decompose_all(*core);
  ASSERT_TRUE(s.ok()) << s.message();
  const Status verified = graph::verify(*core, true);
  ASSERT_TRUE(verified.ok()) << verified.message() << "\n" << graph::print(*core);
  for (const auto& n : core->nodes()) EXPECT_TRUE(ops::is_core(*n)) << graph::print(*core);

  const auto host = run_graph(*core, inputs, Engine::Host);
  ASSERT_TRUE(host.ok()) << host.status().message() << "\n" << graph::print(*core);
  int interpreted = 0;
  const auto elements = run_graph(*core, inputs, Engine::Elements, &interpreted);
  ASSERT_TRUE(elements.ok()) << elements.status().message() << "\n" << graph::print(*core);
  EXPECT_EQ(interpreted, static_cast<int>(core->nodes().size()));
  for (size_t i = 0; i < want->size(); ++i) {
    expect_close((*want)[i], (*host)[i], c.tolerance, "core form on the host");
    expect_close((*want)[i], (*elements)[i], c.tolerance, "elements");
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

// --- Elementwise ---------------------------------------------------------------------------------

const Case kElementwise[] = {
    {"Relu", "input x: float32[24]\ny = Relu(x) @14\noutput y", -3, 3, true},
    {"Tanh", "input x: float32[24]\ny = Tanh(x) @13\noutput y", -3, 3, true},
    {"Erf", "input x: float32[24]\ny = Erf(x) @13\noutput y", -3, 3, true},
    {"Sigmoid", "input x: float32[24]\ny = Sigmoid(x) @13\noutput y", -3, 3, true},
    {"NegInt", "input x: int32[24]\ny = Neg(x) @13\noutput y", -9, 9},
    {"SignFloat", "input x: float32[24]\ny = Sign(x) @13\noutput y", -3, 3, true},
    {"Round", "input x: float32[24]\ny = Round(x) @11\noutput y", -3, 3, true},
    {"ClipInputs",
     "input x: float32[24]\nconst lo: float32[]{-1}\nconst hi: float32[]{2}\n"
     "y = Clip(x, lo, hi) @13\noutput y",
     -3, 3, true},
    {"ClipOnlyMax",
     "input x: float32[24]\nconst hi: float32[]{2}\ny = Clip(x, _, hi) @13\noutput y"},
    {"ClipAttributes", "input x: float32[24]\ny = Clip<min=-0.5, max=0.5>(x) @6\noutput y"},
    {"ClipInt", "input x: int32[24]\nconst lo: int32[]{-2}\ny = Clip(x, lo) @12\noutput y", -9, 9},
    {"HardSigmoid", "input x: float32[24]\ny = HardSigmoid<alpha=0.3>(x) @6\noutput y", -3, 3,
     true},
    {"HardSwish", "input x: float32[24]\ny = HardSwish(x) @14\noutput y", -5, 5},
    {"Elu", "input x: float32[24]\ny = Elu<alpha=1.5>(x) @6\noutput y", -3, 3, true},
    {"Selu", "input x: float32[24]\ny = Selu(x) @6\noutput y", -3, 3, true},
    {"Celu", "input x: float32[24]\ny = Celu<alpha=0.7>(x) @12\noutput y", -3, 3, true},
    {"LeakyRelu", "input x: float32[24]\ny = LeakyRelu<alpha=0.2>(x) @16\noutput y", -3, 3, true},
    {"PRelu",
     "input x: float32[2,3,4]\nconst s: float32[3,1]{0.1, 0.2, 0.3}\ny = PRelu(x, s) @16\n"
     "output y"},
    {"ThresholdedRelu", "input x: float32[24]\ny = ThresholdedRelu<alpha=0.5>(x) @10\noutput y"},
    {"Gelu", "input x: float32[24]\ny = Gelu(x) @20\noutput y"},
    {"GeluTanh", "input x: float32[24]\ny = Gelu<approximate=\"tanh\">(x) @20\noutput y"},
    {"Mish", "input x: float32[24]\ny = Mish(x) @18\noutput y"},
    {"Softplus", "input x: float32[24]\ny = Softplus(x) @1\noutput y", -50, 50},
    {"Softsign", "input x: float32[24]\ny = Softsign(x) @1\noutput y"},
    {"Swish", "input x: float32[24]\ny = Swish<alpha=1.5>(x) @24\noutput y"},
    {"Shrink", "input x: float32[24]\ny = Shrink<lambd=1.0, bias=0.5>(x) @9\noutput y"},
    {"AddBroadcast", "input a: float32[2,1,4], b: float32[3,1]\ny = Add(a, b) @14\noutput y"},
    {"AddSymbolic", "input a: float32[n,4], b: float32[n,1]\ny = Add(a, b) @14\noutput y"},
    {"DivInt", "input a: int32[24], b: int32[24]\ny = Div(a, b) @14\noutput y", 1, 60},
    {"MaxVariadic",
     "input a: float32[12], b: float32[12], c: float32[1]\ny = Max(a, b, c) @13\noutput y", -3, 3,
     true},
    {"MinOne", "input a: float32[12]\ny = Min(a) @13\noutput y"},
    {"Sum", "input a: float32[12], b: float32[12], c: float32[1]\ny = Sum(a, b, c) @13\noutput y"},
    {"Mean",
     "input a: float32[12], b: float32[12], c: float32[1]\ny = Mean(a, b, c) @13\noutput y"},
    {"MeanHalf", "input a: float16[12], b: float16[12]\ny = Mean(a, b) @13\noutput y", 40000,
     60000},
    {"ModInt", "input a: int32[24], b: int32[24]\ny = Mod(a, b) @13\noutput y", 1, 60},
    {"ModFloat", "input a: float32[24], b: float32[24]\ny = Mod<fmod=1>(a, b) @13\noutput y", 1,
     60},
    {"Pow", "input a: float32[24], b: float32[24]\ny = Pow(a, b) @15\noutput y", 0.1, 3},
    {"PowIntExponent", "input a: float32[24]\nconst e: int64[]{3}\ny = Pow(a, e) @15\noutput y"},
    {"PowTwo", "input a: float32[24]\nconst e: float32[]{2}\ny = Pow(a, e) @15\noutput y", -3, 3,
     true},
    {"PowHalf", "input a: float32[24]\nconst e: float32[]{0.5}\ny = Pow(a, e) @15\noutput y", -3, 3,
     true},
    {"PowMinusHalf", "input a: float32[24]\nconst e: float32[]{-0.5}\ny = Pow(a, e) @15\noutput y",
     -3, 3, true},
    {"PowMinusOne", "input a: float32[24]\nconst e: float32[1]{-1}\ny = Pow(a, e) @15\noutput y",
     -3, 3, true},
    {"PowFour", "input a: float32[24]\nconst e: float32[1]{4}\ny = Pow(a, e) @15\noutput y"},
    {"BitShift",
     "input a: uint8[24], b: uint8[24]\ny = BitShift<direction=\"LEFT\">(a, b) @11\noutput y", 0,
     4},
    {"BitwiseAnd", "input a: int32[24], b: int32[24]\ny = BitwiseAnd(a, b) @18\noutput y", -99, 99},
    {"BitwiseNot", "input a: int32[24]\ny = BitwiseNot(a) @18\noutput y", -99, 99},
    {"Where",
     "input c: bool[2,3], a: float32[3], b: float32[2,1]\ny = Where(c, a, b) @16\noutput y"},
    {"LessOrEqual", "input a: float32[24], b: float32[24]\ny = LessOrEqual(a, b) @16\noutput y", -3,
     3, true},
    {"IsInfPositive", "input a: float32[24]\ny = IsInf<detect_negative=0>(a) @10\noutput y", -3, 3,
     true},
    {"IsInfNone",
     "input a: float32[24]\ny = IsInf<detect_negative=0, detect_positive=0>(a) @10\noutput y", -3,
     3, true},
    {"IsNaN", "input a: float32[24]\ny = IsNaN(a) @13\noutput y", -3, 3, true},
    {"Xor", "input a: bool[24], b: bool[24]\ny = Xor(a, b) @7\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Elementwise, Decompose, testing::ValuesIn(kElementwise), case_name);

const Case kCasts[] = {
    {"FloatToInt32", "input x: float32[24]\ny = Cast<to=6>(x) @13\noutput y", -9, 9},
    {"FloatToInt8", "input x: float32[24]\ny = Cast<to=3>(x) @13\noutput y", -100, 100},
    {"FloatToBool", "input x: float32[24]\ny = Cast<to=9>(x) @13\noutput y", -3, 3, true},
    {"FloatToHalf", "input x: float32[24]\ny = Cast<to=10>(x) @13\noutput y"},
    {"HalfToFloat", "input x: float16[24]\ny = Cast<to=1>(x) @13\noutput y"},
    {"Int64ToInt32", "input x: int64[24]\ny = Cast<to=6>(x) @13\noutput y", -99, 99},
    {"Int32ToUint8", "input x: int32[24]\ny = Cast<to=2>(x) @13\noutput y", -999, 999},
    {"Int32ToInt8", "input x: int32[24]\ny = Cast<to=3>(x) @13\noutput y", -999, 999},
    {"Int8ToUint8", "input x: int8[24]\ny = Cast<to=2>(x) @13\noutput y", -99, 99},
    {"Int8ToUint32", "input x: int8[24]\ny = Cast<to=12>(x) @13\noutput y", -99, 99},
    {"Uint8ToFloat", "input x: uint8[24]\ny = Cast<to=1>(x) @13\noutput y", 0, 200},
    {"BoolToFloat", "input x: bool[24]\ny = Cast<to=1>(x) @13\noutput y"},
    {"BoolToInt64", "input x: bool[24]\ny = Cast<to=7>(x) @13\noutput y"},
    {"CastLike", "input x: float32[24], z: int32[1]\ny = CastLike(x, z) @15\noutput y", -9, 9},
};
INSTANTIATE_TEST_SUITE_P(Casts, Decompose, testing::ValuesIn(kCasts), case_name);

// --- Movement ------------------------------------------------------------------------------------

const Case kMovement[] = {
    {"Reshape",
     "input x: float32[2,3,4]\nconst s: int64[3]{0, -1, 2}\ny = Reshape(x, s) @14\noutput y"},
    {"ReshapeSymbolic",
     "input x: float32[n,6,m]\nconst s: int64[4]{0, 2, 3, -1}\ny = Reshape(x, s) @14\noutput y"},
    {"ReshapeMerges",
     "input x: float32[n,6,m]\nconst s: int64[2]{-1, 4}\nz = Reshape(x, s) @14\n"
     "const t: int64[1]{-1}\ny = Reshape(z, t) @14\noutput y"},
    {"Squeeze", "input x: float32[1,3,1]\ny = Squeeze<axes=[0, -1]>(x) @11\noutput y"},
    {"SqueezeInput",
     "input x: float32[1,3,1]\nconst a: int64[1]{2}\ny = Squeeze(x, a) @13\noutput y"},
    {"Unsqueeze",
     "input x: float32[3,4]\nconst a: int64[2]{0, -1}\ny = Unsqueeze(x, a) @13\noutput y"},
    {"Flatten", "input x: float32[n,3,4]\ny = Flatten<axis=2>(x) @13\noutput y"},
    {"FlattenAll", "input x: float32[2,3]\ny = Flatten<axis=0>(x) @13\noutput y"},
    {"Identity", "input x: float32[2,3]\ny = Identity(x) @13\noutput y"},
    {"Dropout", "input x: float32[2,3]\n(y, m) = Dropout(x) @13\noutput y, m"},
    {"Transpose", "input x: float32[2,n,4]\ny = Transpose<perm=[2, 0, 1]>(x) @13\noutput y"},
    {"TransposeDefault", "input x: float32[2,3,4]\ny = Transpose(x) @13\noutput y"},
    {"Expand", "input x: float32[3,1]\nconst s: int64[3]{2, 1, 4}\ny = Expand(x, s) @13\noutput y"},
    {"DepthToSpaceDcr",
     "input x: float32[n,8,2,3]\ny = DepthToSpace<blocksize=2>(x) @13\noutput y"},
    {"DepthToSpaceCrd",
     "input x: float32[1,8,2,3]\ny = DepthToSpace<blocksize=2, mode=\"CRD\">(x) @13\noutput y"},
    {"SpaceToDepth", "input x: float32[1,2,4,6]\ny = SpaceToDepth<blocksize=2>(x) @13\noutput y"},
    {"Slice",
     "input x: float32[5,6]\nconst s: int64[2]{1, -1}\nconst e: int64[2]{4, -7}\n"
     "const a: int64[2]{0, 1}\nconst t: int64[2]{2, -2}\ny = Slice(x, s, e, a, t) @13\noutput y"},
    {"SliceToTheEnd",
     "input x: float32[n,6]\nconst s: int64[2]{1, -3}\n"
     "const e: int64[2]{9223372036854775807, 9223372036854775807}\ny = Slice(x, s, e) @13\noutput "
     "y"},
    {"SliceReversed",
     "input x: float32[n,6]\nconst s: int64[1]{-1}\nconst e: int64[1]{-9223372036854775808}\n"
     "const a: int64[1]{0}\nconst t: int64[1]{-1}\ny = Slice(x, s, e, a, t) @13\noutput y"},
    {"SliceAttributes", "input x: float32[5,6]\ny = Slice<starts=[1], ends=[-1]>(x) @7\noutput y"},
    {"SliceEmpty",
     "input x: float32[5]\nconst s: int64[1]{4}\nconst e: int64[1]{2}\ny = Slice(x, s, e) @13\n"
     "output y"},
    {"SplitEqual", "input x: float32[4,6]\n(a, b, c) = Split<axis=1>(x) @11\noutput a, b, c"},
    {"SplitSizes",
     "input x: float32[4,n]\nconst s: int64[2]{1, 3}\n(a, b) = Split(x, s) @13\noutput a, b"},
    {"SplitNumOutputs",
     "input x: float32[7]\n(a, b, c) = Split<num_outputs=3>(x) @18\noutput a, b, c"},
    {"Concat",
     "input a: float32[2,n], b: float32[2,3], c: float32[2,0]\n"
     "y = Concat<axis=-1>(a, b, c) @13\noutput y"},
    {"ConcatBool", "input a: bool[2], b: bool[3]\ny = Concat<axis=0>(a, b) @13\noutput y"},
    {"PadConstant",
     "input x: float32[2,3]\nconst p: int64[4]{1, 0, 0, 2}\nconst v: float32[]{7}\n"
     "y = Pad(x, p, v) @13\noutput y"},
    {"PadNegative",
     "input x: float32[4,5]\nconst p: int64[4]{-1, 1, 0, -2}\ny = Pad(x, p) @13\noutput y"},
    {"PadAxes",
     "input x: float32[2,3,n]\nconst p: int64[2]{1, 2}\nconst a: int64[1]{-1}\n"
     "y = Pad(x, p, _, a) @18\noutput y"},
    {"PadReflect",
     "input x: float32[4,5]\nconst p: int64[4]{2, 3, 3, 4}\ny = Pad<mode=\"reflect\">(x, p) @13\n"
     "output y"},
    {"PadEdge",
     "input x: float32[n,5]\nconst p: int64[4]{2, 3, 3, 4}\ny = Pad<mode=\"edge\">(x, p) @13\n"
     "output y"},
    {"PadWrap",
     "input x: float32[4,5]\nconst p: int64[4]{2, 3, 3, 4}\ny = Pad<mode=\"wrap\">(x, p) @19\n"
     "output y"},
    {"PadAttributes",
     "input x: float32[2,3]\ny = Pad<pads=[0, 1, 1, 0], value=1.5>(x) @2\noutput y"},
    {"Tile", "input x: float32[2,n]\nconst r: int64[2]{3, 2}\ny = Tile(x, r) @13\noutput y"},
    {"GatherScalar",
     "input x: float32[3,4]\nconst i: int64[]{-1}\ny = Gather<axis=0>(x, i) @13\noutput y"},
    {"GatherVector",
     "input x: float32[3,n]\nconst i: int64[2,2]{2, 0, -3, 1}\ny = Gather(x, i) @13\noutput y"},
    {"GatherRunTime", "input x: float32[3,4], i: int64[5]\ny = Gather<axis=-2>(x, i) @13\noutput y",
     -3, 2.99},
    {"GatherElements",
     "input x: float32[3,4], i: int32[2,4]\ny = GatherElements<axis=0>(x, i) @13\noutput y", -3,
     2.99},
    {"GatherND", "input x: float32[3,3,2], i: int64[4,2]\ny = GatherND(x, i) @13\noutput y", -3,
     2.99},
    {"GatherNDBatch",
     "input x: float32[2,3,4], i: int64[2,1]\ny = GatherND<batch_dims=1>(x, i) @13\noutput y", -3,
     2.99},
    {"Range",
     "const a: int64[]{7}\nconst b: int64[]{-4}\nconst d: int64[]{-3}\ny = Range(a, b, d) @11\n"
     "output y"},
    {"RangeFloat",
     "const a: float32[]{0.5}\nconst b: float32[]{3}\nconst d: float32[]{0.7}\n"
     "y = Range(a, b, d) @11\noutput y"},
    {"RangeOfADim",
     "input x: float32[n,4]\ns = Size(x) @13\nconst a: int64[]{1}\nconst d: int64[]{2}\n"
     "y = Range(a, s, d) @11\noutput y"},
    {"Shape", "input x: float32[n,4,m]\ny = Shape<start=-2>(x) @15\noutput y"},
    {"ConstantOfShape",
     "input x: float32[n,4]\ns = Shape(x) @13\ny = ConstantOfShape<value=int32[1]{5}>(s) @9\n"
     "output y"},
    {"EyeLike", "input x: float32[4,n]\ny = EyeLike<k=-1>(x) @9\noutput y"},
    {"OneHot",
     "input i: int64[2,3]\nconst d: int64[]{3}\nconst v: float32[2]{-1, 4}\n"
     "y = OneHot<axis=1>(i, d, v) @11\noutput y",
     -5, 5},
    {"TriluUpper", "input x: float32[2,4,5]\nconst k: int64[]{1}\ny = Trilu(x, k) @14\noutput y"},
    {"TriluLower", "input x: float32[n,5]\ny = Trilu<upper=0>(x) @14\noutput y"},
    {"TriluRunTime", "input x: float32[4,5], k: int64[]\ny = Trilu(x, k) @14\noutput y", -2, 2},
};
INSTANTIATE_TEST_SUITE_P(Movement, Decompose, testing::ValuesIn(kMovement), case_name);

// --- Reductions and normalisations ---------------------------------------------------------------

const Case kReductions[] = {
    {"ReduceSum", "input x: float32[2,3,4]\ny = ReduceSum<axes=[1]>(x) @11\noutput y"},
    {"ReduceSumInput",
     "input x: float32[2,n,4]\nconst a: int64[2]{-1, 0}\n"
     "y = ReduceSum<keepdims=0>(x, a) @13\noutput y"},
    {"ReduceSumAll", "input x: float32[2,n]\ny = ReduceSum<keepdims=0>(x) @13\noutput y"},
    {"ReduceSumNoop",
     "input x: float32[2,3]\ny = ReduceSum<noop_with_empty_axes=1>(x) @13\noutput y"},
    {"ReduceSumHalf", "input x: float16[4,200]\ny = ReduceSum<axes=[1]>(x) @11\noutput y"},
    {"ReduceSumInt", "input x: int32[4,5]\ny = ReduceSum<axes=[0]>(x) @11\noutput y", -9, 9},
    {"ReduceSumEmpty", "input x: float32[2,0]\ny = ReduceSum<axes=[1]>(x) @11\noutput y"},
    {"ReduceMax", "input x: float32[3,4]\ny = ReduceMax<axes=[1]>(x) @11\noutput y", -3, 3, true},
    {"ReduceMaxInt8", "input x: int8[3,4]\ny = ReduceMax<axes=[1]>(x) @12\noutput y", -90, 90},
    {"ReduceMaxBool", "input x: bool[3,4]\ny = ReduceMax(x) @20\noutput y"},
    {"ReduceMin", "input x: int64[3,n]\ny = ReduceMin<axes=[1]>(x) @11\noutput y", -9, 9},
    {"ReduceProd", "input x: float32[3,4]\ny = ReduceProd<axes=[0]>(x) @11\noutput y"},
    {"ReduceMean", "input x: float32[3,n]\ny = ReduceMean<axes=[1]>(x) @11\noutput y"},
    {"ReduceMeanHalf", "input x: float16[3,20]\ny = ReduceMean<axes=[1]>(x) @11\noutput y", 9e3,
     3e4},
    {"ReduceMeanInt", "input x: int32[3,4]\ny = ReduceMean<axes=[1]>(x) @11\noutput y", -9, 9},
    {"ReduceL1", "input x: float32[3,4]\ny = ReduceL1<axes=[1]>(x) @11\noutput y"},
    {"ReduceL2", "input x: float32[3,n]\ny = ReduceL2<keepdims=0>(x) @13\noutput y"},
    {"ReduceSumSquare", "input x: float32[3,4]\ny = ReduceSumSquare<axes=[0]>(x) @11\noutput y"},
    {"ReduceLogSum", "input x: float32[3,4]\ny = ReduceLogSum<axes=[1]>(x) @11\noutput y", 0.1, 9},
    {"ReduceLogSumExp", "input x: float32[3,4]\ny = ReduceLogSumExp<axes=[1]>(x) @11\noutput y",
     500, 600},
    {"ReduceLogSumExpSpecial",
     "input x: float32[9,2]\ny = ReduceLogSumExp<axes=[1]>(x) @11\noutput y", -3, 3, true},
    {"ArgMax", "input x: float32[3,n]\ny = ArgMax<axis=-1, keepdims=0>(x) @13\noutput y"},
    {"ArgMaxLast", "input x: int32[3,8]\ny = ArgMax<axis=1, select_last_index=1>(x) @13\noutput y",
     -2, 2},
    {"ArgMin", "input x: float32[3,4]\ny = ArgMin<axis=0>(x) @13\noutput y"},
    {"CumSum", "input x: float32[3,n]\nconst a: int64[]{-1}\ny = CumSum(x, a) @14\noutput y"},
    {"CumSumExclusiveReverse",
     "input x: float32[3,4]\nconst a: int64[]{0}\n"
     "y = CumSum<exclusive=1, reverse=1>(x, a) @14\noutput y"},
    {"Softmax", "input x: float32[2,3,n]\ny = Softmax<axis=1>(x) @13\noutput y", -90, 90},
    {"SoftmaxFlattens", "input x: float32[2,3,4]\ny = Softmax(x) @11\noutput y"},
    {"SoftmaxHalf", "input x: float16[2,3,4]\ny = Softmax(x) @13\noutput y"},
    {"SoftmaxSpecial", "input x: float32[9,2]\ny = Softmax(x) @13\noutput y", -3, 3, true},
    {"LogSoftmax", "input x: float32[2,n]\ny = LogSoftmax(x) @13\noutput y", -90, 90, false, 1e-4},
    {"Hardmax", "input x: float32[2,3,4]\ny = Hardmax(x) @13\noutput y"},
    {"HardmaxFlattens", "input x: float32[2,3,n]\ny = Hardmax<axis=1>(x) @11\noutput y"},
    {"LayerNorm",
     "input x: float32[n,3,4], s: float32[4], b: float32[4]\n"
     "(y, m, i) = LayerNormalization(x, s, b) @17\noutput y, m, i"},
    {"LayerNormAxis",
     "input x: float32[2,3,4], s: float32[3,4]\n"
     "y = LayerNormalization<axis=1, epsilon=0.01>(x, s) @17\noutput y"},
    {"LayerNormHalf",
     "input x: float16[5,8], s: float16[8], b: float16[8]\n"
     "y = LayerNormalization(x, s, b) @17\noutput y"},
    {"RmsNorm", "input x: float32[n,8], s: float32[8]\ny = RMSNormalization(x, s) @23\noutput y"},
    {"InstanceNorm",
     "input x: float32[2,3,4,n], s: float32[3], b: float32[3]\n"
     "y = InstanceNormalization(x, s, b) @6\noutput y"},
    {"GroupNormPerGroup",
     "input x: float32[2,4,n], s: float32[2], b: float32[2]\n"
     "y = GroupNormalization<num_groups=2>(x, s, b) @18\noutput y"},
    {"GroupNormPerChannel",
     "input x: float32[2,4,3,3], s: float32[4], b: float32[4]\n"
     "y = GroupNormalization<num_groups=2>(x, s, b) @21\noutput y"},
    {"BatchNormConstant",
     "input x: float32[2,3,n]\nconst s: float32[3]{1, -2, 0.5}\nconst b: float32[3]{0, 1, 2}\n"
     "const m: float32[3]{0.5, -1, 3}\nconst v: float32[3]{1, 0.2, 4}\n"
     "y = BatchNormalization(x, s, b, m, v) @15\noutput y"},
    {"BatchNormRunTime",
     "input x: float32[2,3,n], s: float32[3], b: float32[3], m: float32[3], v: float32[3]\n"
     "y = BatchNormalization(x, s, b, m, v) @9\noutput y",
     0.1, 3},
    {"LpNorm1", "input x: float32[3,4]\ny = LpNormalization<p=1, axis=0>(x) @1\noutput y"},
    {"LpNorm2", "input x: float32[3,n]\ny = LpNormalization(x) @1\noutput y"},
    {"Lrn", "input x: float32[2,6,3,2]\ny = LRN<size=4, alpha=0.5, beta=0.6>(x) @13\noutput y"},
    {"MeanVariance", "input x: float32[2,3,4,5]\ny = MeanVarianceNormalization(x) @13\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Reductions, Decompose, testing::ValuesIn(kReductions), case_name);

// --- Products, windows, interpolation ------------------------------------------------------------

const Case kContractions[] = {
    {"MatMul", "input a: float32[n,3,4], b: float32[4,5]\ny = MatMul(a, b) @13\noutput y"},
    {"MatMulBroadcast",
     "input a: float32[2,1,3,4], b: float32[3,4,2]\ny = MatMul(a, b) @13\noutput y"},
    {"MatMulVectors", "input a: float32[4], b: float32[4]\ny = MatMul(a, b) @13\noutput y"},
    {"MatMulVectorLeft", "input a: float32[4], b: float32[2,4,3]\ny = MatMul(a, b) @13\noutput y"},
    {"MatMulVectorRight", "input a: float32[3,n], b: float32[n]\ny = MatMul(a, b) @13\noutput y"},
    {"MatMulInt", "input a: int32[3,4], b: int32[4,2]\ny = MatMul(a, b) @13\noutput y", -9, 9},
    {"MatMulEmptyInner", "input a: float32[3,0], b: float32[0,2]\ny = MatMul(a, b) @13\noutput y"},
    {"Gemm",
     "input a: float32[4,n], b: float32[5,4], c: float32[5]\n"
     "y = Gemm<alpha=0.5, beta=2.0, transA=1, transB=1>(a, b, c) @13\noutput y"},
    {"GemmPlain", "input a: float32[3,4], b: float32[4,2]\ny = Gemm(a, b) @11\noutput y"},
    {"EinsumBatch",
     "input a: float32[2,n,3,4], b: float32[2,5,3,4]\n"
     "y = Einsum<equation=\"bqhd,bkhd->bhqk\">(a, b) @12\noutput y"},
    {"EinsumImplicit",
     "input a: float32[3,4], b: float32[4,5]\ny = Einsum<equation=\"ij, jk\">(a, b) @12\noutput y"},
    {"EinsumEllipsis",
     "input a: float32[2,3,4], b: float32[1,4,5]\n"
     "y = Einsum<equation=\"...ij,...jk->...ik\">(a, b) @12\noutput y"},
    {"EinsumThree",
     "input a: float32[3], b: float32[3,4], c: float32[4,2]\n"
     "y = Einsum<equation=\"i,ij,jk->k\">(a, b, c) @12\noutput y"},
    {"EinsumSum", "input a: float32[3,4,n]\ny = Einsum<equation=\"ijk->ki\">(a) @12\noutput y"},
    {"EinsumOuter",
     "input a: float32[3], b: float32[4,5]\ny = Einsum<equation=\"i,jk->ji\">(a, b) @12\noutput y"},
    {"Conv",
     "input x: float32[n,4,7,6], w: float32[6,2,3,2], b: float32[6]\n"
     "y = Conv<group=2, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2]>(x, w, b) @11\n"
     "output y"},
    {"ConvSameUpper",
     "input x: float32[1,2,n,6], w: float32[3,2,3,2]\n"
     "y = Conv<auto_pad=\"SAME_UPPER\", strides=[2, 2]>(x, w) @11\noutput y"},
    {"ConvSameLower",
     "input x: float32[1,2,5,6], w: float32[3,2,2,2]\n"
     "y = Conv<auto_pad=\"SAME_LOWER\">(x, w) @11\noutput y"},
    {"Conv1d",
     "input x: float32[2,3,n], w: float32[4,3,3], b: float32[4]\n"
     "y = Conv<pads=[1, 1]>(x, w, b) @11\noutput y"},
    {"Conv3d",
     "input x: float32[1,2,3,4,3], w: float32[2,2,2,2,2]\n"
     "y = Conv<auto_pad=\"VALID\">(x, w) @11\noutput y"},
    {"ConvDepthwise",
     "input x: float32[1,4,5,5], w: float32[8,1,3,3]\ny = Conv<group=4>(x, w) @11\noutput y"},
    {"ConvTranspose",
     "input x: float32[n,4,3,4], w: float32[4,2,3,2], b: float32[4]\n"
     "y = ConvTranspose<group=2, pads=[1, 0, 0, 1], strides=[2, 3], dilations=[1, 2], "
     "output_padding=[1, 0]>(x, w, b) @11\noutput y"},
    {"ConvTransposeSame",
     "input x: float32[1,2,n,3], w: float32[2,3,3,3]\n"
     "y = ConvTranspose<auto_pad=\"SAME_UPPER\", strides=[2, 2]>(x, w) @11\noutput y"},
    {"ConvTransposeOutputShape",
     "input x: float32[1,2,3,3], w: float32[2,1,3,3]\n"
     "y = ConvTranspose<output_shape=[6, 7], strides=[2, 2]>(x, w) @11\noutput y"},
    {"ConvTranspose1d",
     "input x: float32[1,2,n], w: float32[2,3,4]\n"
     "y = ConvTranspose<strides=[2]>(x, w) @11\noutput y"},
    {"MaxPool",
     "input x: float32[2,3,n,7]\n"
     "y = MaxPool<kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 3], dilations=[1, 2]>(x) "
     "@12\n"
     "output y"},
    {"MaxPoolCeil",
     "input x: float32[1,2,6,7]\n"
     "y = MaxPool<kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1>(x) @12\noutput y"},
    {"MaxPoolInt8",
     "input x: int8[1,2,6]\ny = MaxPool<kernel_shape=[2], strides=[2]>(x) @12\noutput y", -90, 90},
    {"MaxPoolSame",
     "input x: float32[1,2,n,7]\n"
     "y = MaxPool<kernel_shape=[3, 3], strides=[2, 2], auto_pad=\"SAME_LOWER\">(x) @12\noutput y"},
    {"AveragePool",
     "input x: float32[2,3,n,7]\n"
     "y = AveragePool<kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 2]>(x) @11\noutput y"},
    {"AveragePoolIncludePad",
     "input x: float32[1,3,6,7]\n"
     "y = AveragePool<kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=1, "
     "count_include_pad=1>(x) @11\noutput y"},
    {"AveragePoolDilated",
     "input x: float32[1,3,8]\n"
     "y = AveragePool<kernel_shape=[3], dilations=[2], ceil_mode=1, strides=[3]>(x) @19\noutput y"},
    {"AveragePoolHalf",
     "input x: float16[1,3,8]\ny = AveragePool<kernel_shape=[4]>(x) @11\noutput y", 9e3, 3e4},
    {"AveragePool3d",
     "input x: float32[1,2,3,4,5]\ny = AveragePool<kernel_shape=[2, 2, 2]>(x) @11\noutput y"},
    {"LpPool", "input x: float32[1,3,8]\ny = LpPool<kernel_shape=[3], p=3>(x) @11\noutput y"},
    {"GlobalMaxPool", "input x: float32[2,3,n,5]\ny = GlobalMaxPool(x) @1\noutput y"},
    {"GlobalAveragePool", "input x: float32[2,3,n,5]\ny = GlobalAveragePool(x) @1\noutput y"},
    {"GlobalLpPool", "input x: float32[2,3,4]\ny = GlobalLpPool<p=2>(x) @2\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Contractions, Decompose, testing::ValuesIn(kContractions), case_name);

#define RESIZE(attributes, scales, dims)                                                \
  "input x: float32[" dims "]\nconst s: float32[4]{" scales "}\ny = Resize<" attributes \
  ">(x, "                                                                               \
  "_, s) @13\noutput y"

const Case kResize[] = {
    {"NearestFloor", RESIZE("mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
                            "nearest_mode=\"floor\"",
                            "1, 1, 2, 3", "1,2,n,4")},
    {"NearestHalfPixel", RESIZE("mode=\"nearest\"", "1, 1, 2.5, 1.75", "1,2,4,4")},
    {"NearestDown", RESIZE("mode=\"nearest\", nearest_mode=\"ceil\"", "1, 1, 0.6, 0.3", "1,2,7,9")},
    {"NearestPreferCeil",
     RESIZE("mode=\"nearest\", nearest_mode=\"round_prefer_ceil\"", "1, 1, 0.5, 1.5", "1,2,8,6")},
    {"NearestAlignCorners",
     RESIZE("mode=\"nearest\", coordinate_transformation_mode=\"align_corners\"", "1, 1, 2, 1.5",
            "1,2,4,4")},
    {"NearestTfHalfPixel",
     RESIZE("mode=\"nearest\", coordinate_transformation_mode=\"tf_half_pixel_for_nn\", "
            "nearest_mode=\"floor\"",
            "1, 1, 2, 1.5", "1,2,4,4")},
    {"Linear", RESIZE("mode=\"linear\"", "1, 1, 2, 0.6", "1,2,4,5")},
    {"LinearAlignCorners",
     RESIZE("mode=\"linear\", coordinate_transformation_mode=\"align_corners\"", "1, 1, 2, 3",
            "1,2,n,3")},
    {"LinearAsymmetric", RESIZE("mode=\"linear\", coordinate_transformation_mode=\"asymmetric\"",
                                "1, 1, 2, 0.7", "1,2,4,5")},
    {"LinearPytorch",
     RESIZE("mode=\"linear\", coordinate_transformation_mode=\"pytorch_half_pixel\"",
            "1, 1, 2, 0.25", "1,2,4,4")},
    {"LinearSymmetric",
     RESIZE("mode=\"linear\", coordinate_transformation_mode=\"half_pixel_symmetric\"",
            "1, 1, 2.3, 0.7", "1,2,4,5")},
    {"Cubic", RESIZE("mode=\"cubic\"", "1, 1, 2, 1.5", "1,1,4,5")},
    {"CubicExcludeOutside",
     RESIZE("mode=\"cubic\", exclude_outside=1, cubic_coeff_a=-0.5", "1, 1, 2, 0.8", "1,1,4,5")},
    {"Sizes",
     "input x: float32[1,2,n,4]\nconst s: int64[4]{1, 2, 7, 9}\n"
     "y = Resize<mode=\"linear\">(x, _, _, s) @13\noutput y"},
    {"SizesAxes",
     "input x: float32[1,2,3,4]\nconst s: int64[2]{6, 3}\n"
     "y = Resize<mode=\"nearest\", axes=[2, 3]>(x, _, _, s) @18\noutput y"},
    {"SizesOfAnotherTensor",
     "input x: float32[1,2,n,4], z: float32[1,2,m,6]\ns = Shape(z) @13\n"
     "y = Resize<mode=\"nearest\">(x, _, _, s) @13\noutput y"},
    {"Opset10",
     "input x: float32[1,1,4,4]\nconst s: float32[4]{1, 1, 2, 0.5}\n"
     "y = Resize<mode=\"nearest\">(x, s) @10\noutput y"},
    {"Upsample",
     "input x: float32[1,1,3,4]\nconst s: float32[4]{1, 1, 2, 3}\n"
     "y = Upsample<mode=\"linear\">(x, s) @9\noutput y"},
    {"Trilinear",
     "input x: float32[1,1,3,2,4]\nconst s: float32[5]{1, 1, 2, 2, 1.5}\n"
     "y = Resize<mode=\"linear\">(x, _, s) @13\noutput y"},
    {"Half",
     "input x: float16[1,1,3,4]\nconst s: float32[4]{1, 1, 2, 3}\n"
     "y = Resize<mode=\"linear\">(x, _, s) @13\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Resize, Decompose, testing::ValuesIn(kResize), case_name);

const Case kQuantized[] = {
    {"Quantize",
     "input x: float32[3,n]\nconst s: float32[]{0.25}\nconst z: uint8[]{100}\n"
     "y = QuantizeLinear(x, s, z) @13\noutput y",
     -60, 60},
    {"QuantizeNoZero",
     "input x: float32[3,4]\nconst s: float32[]{0.25}\ny = QuantizeLinear(x, s) @13\noutput y"},
    {"QuantizeAxis",
     "input x: float32[2,3,4]\nconst s: float32[3]{0.25, 0.5, 2}\nconst z: int8[3]{1, -2, 3}\n"
     "y = QuantizeLinear<axis=-2>(x, s, z) @13\noutput y",
     -60, 60},
    {"QuantizeBlocked",
     "input x: float32[2,5]\nconst s: float32[2,3]{0.25, 0.5, 2, 1, 4, 0.125}\n"
     "const z: int8[2,3]{0, 1, 2, 3, 4, 5}\n"
     "y = QuantizeLinear<axis=1, block_size=2>(x, s, z) @21\noutput y",
     -20, 20},
    {"Dequantize",
     "input x: int8[3,4]\nconst s: float32[]{0.25}\nconst z: int8[]{-100}\n"
     "y = DequantizeLinear(x, s, z) @13\noutput y",
     -100, 100},
    {"DequantizeAxis",
     "input x: uint8[2,3]\nconst s: float32[2]{0.25, 3}\ny = DequantizeLinear<axis=0>(x, s) @13\n"
     "output y",
     0, 200},
    {"DequantizeInt32",
     "input x: int32[2,3]\nconst s: float32[]{0.25}\ny = DequantizeLinear(x, s) @13\noutput y",
     -100000, 100000},
    {"DequantizeHalfScale",
     "input x: int8[2,3]\nconst s: float16[]{0.25}\ny = DequantizeLinear(x, s) @19\noutput y", -90,
     90},
    {"Dynamic", "input x: float32[3,n]\n(y, s, z) = DynamicQuantizeLinear(x) @11\noutput y, s, z",
     -2, 5},
    {"DynamicZeros",
     "input x: float32[3,4]\n(y, s, z) = DynamicQuantizeLinear(x) @11\noutput y, s, z", 0, 1e-50},
    {"MatMulInteger",
     "input a: uint8[n,4], b: int8[4,3]\nconst az: uint8[]{12}\nconst bz: int8[3]{1, 2, -3}\n"
     "y = MatMulInteger(a, b, az, bz) @10\noutput y",
     -100, 100},
    {"MatMulIntegerPlain",
     "input a: int8[2,4], b: int8[4,3]\ny = MatMulInteger(a, b) @10\noutput y", -100, 100},
    {"QLinearMatMul",
     "input a: uint8[2,4], b: uint8[4,3]\nconst as: float32[]{0.125}\nconst az: uint8[]{12}\n"
     "const bs: float32[3]{0.5, 0.25, 0.125}\nconst bz: uint8[3]{1, 2, 3}\n"
     "const ys: float32[]{8}\nconst yz: uint8[]{100}\n"
     "y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz) @10\noutput y",
     0, 100},
    {"ConvInteger",
     "input x: uint8[1,2,5,n], w: uint8[3,2,3,3]\nconst xz: uint8[]{7}\nconst wz: uint8[3]{1, 2, "
     "3}\n"
     "y = ConvInteger<pads=[1, 1, 1, 1]>(x, w, xz, wz) @10\noutput y",
     0, 100},
    {"QLinearConv",
     "input x: uint8[1,2,5,5], w: uint8[3,2,3,3]\nconst xs: float32[]{0.125}\nconst xz: "
     "uint8[]{7}\n"
     "const ws: float32[3]{0.5, 0.25, 0.125}\nconst wz: uint8[3]{1, 2, 3}\n"
     "const ys: float32[]{64}\nconst yz: uint8[]{10}\nconst b: int32[3]{100, -200, 300}\n"
     "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b) @10\noutput y",
     0, 100},
};
INSTANTIATE_TEST_SUITE_P(Quantized, Decompose, testing::ValuesIn(kQuantized), case_name);

}  // namespace
}  // namespace reprise::test
