// Decompositions of elementwise operators, movement, reductions and normalisations.
#include "tests/ops/decomposition.h"

namespace reprise::test {
namespace {

class Decompose : public testing::TestWithParam<Decomposition> {};

TEST_P(Decompose, KeepsTheMeaning) {
  check_decomposition(GetParam());
}

// --- Elementwise ---------------------------------------------------------------------------------

const Decomposition kElementwise[] = {
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
INSTANTIATE_TEST_SUITE_P(Elementwise, Decompose, testing::ValuesIn(kElementwise),
                         decomposition_name);

const Decomposition kCasts[] = {
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
INSTANTIATE_TEST_SUITE_P(Casts, Decompose, testing::ValuesIn(kCasts), decomposition_name);

// --- Movement ------------------------------------------------------------------------------------

const Decomposition kMovement[] = {
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
    {"PadCropsThenWraps",
     "input x: float32[5,n]\nconst p: int64[4]{3, -1, -1, 4}\ny = Pad<mode=\"wrap\">(x, p) @19\n"
     "output y"},
    {"PadCropsThenReflects",
     "input x: float32[5,6]\nconst p: int64[4]{3, -1, -1, 4}\n"
     "y = Pad<mode=\"reflect\">(x, p) @13\noutput y"},
    {"CenterCropPad",
     "input x: float32[5,n,2]\nconst s: int64[2]{2, 9}\n"
     "y = CenterCropPad<axes=[0, 1]>(x, s) @18\noutput y"},
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
INSTANTIATE_TEST_SUITE_P(Movement, Decompose, testing::ValuesIn(kMovement), decomposition_name);

// --- Reductions and normalisations ---------------------------------------------------------------

const Decomposition kReductions[] = {
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
    {"CumProd", "input x: float32[3,n]\nconst a: int64[]{1}\ny = CumProd(x, a) @26\noutput y"},
    {"CumProdExclusiveReverse",
     "input x: int32[3,4]\nconst a: int64[]{0}\n"
     "y = CumProd<exclusive=1, reverse=1>(x, a) @26\noutput y",
     -9, 9},
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
INSTANTIATE_TEST_SUITE_P(Reductions, Decompose, testing::ValuesIn(kReductions), decomposition_name);

// --- Signals and images --------------------------------------------------------------------------

// A transform of 1200 numbers takes two factors, 40 and 30; one of 8192 takes 64, 16 and 8.
const Decomposition kSignals[] = {
    {"Dft", "input x: float32[2,12,1]\ny = DFT(x) @20\noutput y"},
    {"DftAxis", "input x: float32[6,n,2]\ny = DFT<axis=0>(x) @17\noutput y"},
    {"DftHalf", "input x: float16[2,9,1]\ny = DFT<onesided=1>(x) @20\noutput y"},
    {"DftInverse", "input x: float32[2,10,2]\ny = DFT<inverse=1>(x) @20\noutput y"},
    {"DftPads", "input x: float32[2,5,2]\nconst l: int64[]{8}\ny = DFT(x, l) @20\noutput y"},
    {"DftCuts",
     "input x: float32[2,9,1]\nconst l: int64[]{6}\nconst a: int64[]{1}\n"
     "y = DFT<onesided=1>(x, l, a) @20\noutput y"},
    {"DftMirroredEven", "input x: float32[2,5,2]\ny = DFT<inverse=1, onesided=1>(x) @20\noutput y"},
    {"DftMirroredOdd",
     "input x: float32[2,5,2]\nconst l: int64[]{9}\n"
     "y = DFT<inverse=1, onesided=1>(x, l) @20\noutput y"},
    {"DftLong", "input x: float32[2,1200,1]\ny = DFT(x) @20\noutput y", -1, 1, false, 1e-4},
    {"DftLongHalfPads",
     "input x: float32[1100,n,1]\nconst l: int64[]{1200}\nconst a: int64[]{0}\n"
     "y = DFT<onesided=1>(x, l, a) @20\noutput y",
     -1, 1, false, 1e-4},
    {"DftThreeFactors", "input x: float32[1,8192,1]\ny = DFT(x) @20\noutput y", -1, 1, false, 1e-4},
    {"DftThreeFactorsInverse", "input x: float32[1,4913,2]\ny = DFT<inverse=1>(x) @20\noutput y",
     -1, 1, false, 1e-4},
    {"DftLongInverse", "input x: float32[1,1200,2]\ny = DFT<inverse=1>(x) @20\noutput y", -1, 1,
     false, 1e-4},
    {"DftLongMirrored",
     "input x: float32[1,601,2]\ny = DFT<inverse=1, onesided=1>(x) @20\noutput y", -1, 1, false,
     1e-4},
    {"DftLongMirroredOdd",
     "input x: float32[1,500,2]\nconst l: int64[]{1225}\n"
     "y = DFT<inverse=1, onesided=1>(x, l) @20\noutput y",
     -1, 1, false, 1e-4},
    {"Stft",
     "input x: float32[2,n,1], w: float32[3]\nconst s: int64[]{1}\n"
     "y = STFT(x, s, w) @17\noutput y"},
    {"StftWithoutParts",
     "input x: float32[b,n]\nconst s: int64[]{2}\nconst l: int64[]{3}\n"
     "y = STFT(x, s, _, l) @17\noutput y"},
    {"StftWhole",
     "input x: float32[2,20,2]\nconst s: int64[]{3}\nconst l: int64[]{8}\n"
     "y = STFT<onesided=0>(x, s, _, l) @17\noutput y"},
    {"AffineGrid",
     "input x: float32[n,2,3]\nconst s: int64[4]{4, 1, 3, 5}\ny = AffineGrid(x, s) @20\noutput y"},
    {"AffineGridCorners",
     "input x: float16[2,3,4]\nconst s: int64[5]{2, 1, 3, 1, 4}\n"
     "y = AffineGrid<align_corners=1>(x, s) @20\noutput y"},
    {"Col2Im",
     "input x: float32[2,8,n]\nconst i: int64[2]{3, 3}\nconst k: int64[2]{2, 2}\n"
     "y = Col2Im(x, i, k) @18\noutput y"},
    {"Col2ImStrides",
     "input x: float32[1,12,4]\nconst i: int64[2]{5, 7}\nconst k: int64[2]{2, 3}\n"
     "y = Col2Im<dilations=[2, 1], pads=[1, 0, 0, 1], strides=[2, 3]>(x, i, k) @18\noutput y"},
    {"Col2ImLine",
     "input x: float16[1,6,3]\nconst i: int64[1]{7}\nconst k: int64[1]{3}\n"
     "y = Col2Im<strides=[2]>(x, i, k) @18\noutput y"},
    {"Det2", "input x: float32[n,2,2]\ny = Det(x) @22\noutput y"},
    {"Det3", "input x: float32[2,n,3,3]\ny = Det(x) @11\noutput y"},
    {"Det1", "input x: float32[1,1]\ny = Det(x) @11\noutput y"},
    {"GridSample",
     "input x: float32[2,3,4,5], g: float32[2,3,n,2]\ny = GridSample(x, g) @20\noutput y", -1.5,
     1.5},
    {"GridSampleBorder",
     "input x: float16[2,1,4,5], g: float16[2,3,2,2]\n"
     "y = GridSample<align_corners=1, padding_mode=\"border\">(x, g) @20\noutput y",
     -1.5, 1.5},
    {"GridSampleNearest",
     "input x: float32[1,2,4,5], g: float32[1,3,2,2]\n"
     "y = GridSample<mode=\"nearest\">(x, g) @16\noutput y",
     -1.5, 1.5},
    {"GridSampleVolume",
     "input x: float32[1,2,3,4,5], g: float16[1,2,n,2,3]\n"
     "y = GridSample<padding_mode=\"reflection\">(x, g) @20\noutput y",
     -1.5, 1.5},
    {"RoiAlignOfOldVersions",
     "input x: float32[5,2,6,6], r: float32[n,4], i: int64[n]\n"
     "y = RoiAlign<output_height=2, sampling_ratio=3>(x, r, i) @10\noutput y",
     0, 4},
    {"SoftmaxCrossEntropyLoss",
     "input x: float32[n,5,2], t: int64[n,2], w: float32[5]\n"
     "(y, p) = SoftmaxCrossEntropyLoss<ignore_index=3>(x, t, w) @13\noutput y, p",
     0, 4},
    {"NegativeLogLikelihoodLoss",
     "input x: float16[n,5], t: int32[n]\n"
     "y = NegativeLogLikelihoodLoss<ignore_index=1>(x, t) @22\noutput y",
     0, 4},
    {"ReverseSequence",
     "input x: float32[n,5], l: int64[n]\n"
     "y = ReverseSequence<batch_axis=-2, time_axis=-1>(x, l) @10\noutput y",
     0, 5},
    {"MaxPoolIndices",
     "input x: float32[2,n,5,4]\n"
     "(y, i) = MaxPool<kernel_shape=[3, 2], pads=[1, 1, 1, 0], storage_order=1>(x) @12\n"
     "output y, i",
     -2, 2},
    {"BitCast", "input x: float32[3,n]\ny = BitCast<to=6>(x) @26\noutput y"},
    {"BitCastBytes", "input x: int8[3,n]\ny = BitCast<to=2>(x) @26\noutput y", -9, 9},
    {"LinearAttention",
     "input q: float32[2,3,8], k: float32[2,3,4], v: float32[2,3,6], p: float32[2,1,4,6]\n"
     "(y, s) = LinearAttention<kv_num_heads=1, q_num_heads=2, scale=0.7, update_rule=\"linear\">"
     "(q, k, v, p) @27\noutput y, s",
     -1, 1},
    {"LinearAttentionGatedDelta",
     "input q: float16[2,3,8], k: float16[2,3,8], v: float16[2,3,6], d: float16[2,3,8], "
     "b: float16[2,3,1]\n(y, s) = LinearAttention<kv_num_heads=2, q_num_heads=2>"
     "(q, k, v, _, d, b) @27\noutput y, s",
     -1, 1},
    {"BatchNormTraining",
     "input x: float32[2,3,n], s: float32[3], b: float32[3], m: float32[3], v: float32[3]\n"
     "(y, u, w) = BatchNormalization<training_mode=1>(x, s, b, m, v) @15\noutput y, u, w"},
    {"SpaceToDepthCrd",
     "input x: float32[n,2,4,6]\ny = SpaceToDepth<blocksize=2, mode=\"CRD\">(x) @28\noutput y"},
    {"ModFloat", "input x: float32[24], z: float32[24]\ny = Mod(x, z) @28\noutput y", -3, 3, true},
    {"TensorScatter",
     "input c: float32[3,2,6,4], u: float32[3,2,2,4], i: int64[3]\n"
     "y = TensorScatter(c, u, i) @24\noutput y",
     0, 4},
    {"TensorScatterRing",
     "input c: int8[2,5,3], u: int8[2,5,3], i: int64[2]\n"
     "y = TensorScatter<mode=\"circular\">(c, u, i) @24\noutput y",
     -9, 9},
};
INSTANTIATE_TEST_SUITE_P(Signals, Decompose, testing::ValuesIn(kSignals), decomposition_name);

}  // namespace
}  // namespace reprise::test
