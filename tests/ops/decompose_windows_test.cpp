// Decompositions of products, convolutions, pools, interpolation and quantised operators.
#include "tests/ops/decomposition.h"

namespace reprise::test {
namespace {

class DecomposeWindows : public testing::TestWithParam<Decomposition> {};

TEST_P(DecomposeWindows, KeepsTheMeaning) {
  check_decomposition(GetParam());
}

// --- Products, windows, interpolation ------------------------------------------------------------

const Decomposition kContractions[] = {
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
    {"ConvChannelsLast",
     "input x: float32[n,7,6,4], w: float32[6,2,3,2]\n"
     "y = Conv<channels_last=1, group=2, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2]>(x, w)"
     "\noutput y"},
    {"Conv1dChannelsLast",
     "input x: float32[2,n,3], w: float32[4,3,3]\n"
     "y = Conv<channels_last=1, group=1, pads=[1, 1], strides=[1], dilations=[1]>(x, w)\n"
     "output y"},
    {"Conv3dChannelsLast",
     "input x: float32[1,3,4,3,2], w: float32[2,2,2,2,2]\n"
     "y = Conv<channels_last=1, group=1, pads=[0, 0, 0, 0, 0, 0], strides=[1, 1, 1], "
     "dilations=[1, 1, 1]>(x, w)\noutput y"},
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
    {"MaxPoolChannelsLast",
     "input x: float32[2,n,7,3]\n"
     "y = MaxPool<channels_last=1, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 3], "
     "dilations=[1, 2], ceil_mode=0>(x)\noutput y"},
    {"AveragePoolChannelsLast",
     "input x: float32[1,6,7,3]\n"
     "y = AveragePool<channels_last=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], "
     "dilations=[1, 1], ceil_mode=1, count_include_pad=1>(x)\noutput y"},
    {"LpPool", "input x: float32[1,3,8]\ny = LpPool<kernel_shape=[3], p=3>(x) @11\noutput y"},
    {"GlobalMaxPool", "input x: float32[2,3,n,5]\ny = GlobalMaxPool(x) @1\noutput y"},
    {"GlobalAveragePool", "input x: float32[2,3,n,5]\ny = GlobalAveragePool(x) @1\noutput y"},
    {"GlobalLpPool", "input x: float32[2,3,4]\ny = GlobalLpPool<p=2>(x) @2\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Contractions, DecomposeWindows, testing::ValuesIn(kContractions),
                         decomposition_name);

#define RESIZE(attributes, scales, dims)                                                \
  "input x: float32[" dims "]\nconst s: float32[4]{" scales "}\ny = Resize<" attributes \
  ">(x, "                                                                               \
  "_, s) @13\noutput y"

const Decomposition kResize[] = {
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
    {"NearestTfHalfPixelKeepsOtherAxes",
     RESIZE("mode=\"nearest\", coordinate_transformation_mode=\"tf_half_pixel_for_nn\", "
            "nearest_mode=\"ceil\"",
            "1, 1, 2, 1.5", "2,3,4,4")},
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
    {"Antialias", RESIZE("mode=\"linear\", antialias=1", "1, 1, 0.4, 1.5", "n,2,9,7"), -3, 3, true},
    {"AntialiasCubic",
     RESIZE("mode=\"cubic\", antialias=1, coordinate_transformation_mode=\"half_pixel_symmetric\"",
            "1, 1, 0.37, 0.5", "1,2,9,8")},
    {"AntialiasSizes",
     "input x: float32[n,2,9,7]\nd = Shape<end=2>(x) @15\nconst to: int64[2]{4, 3}\n"
     "s = Concat<axis=0>(d, to) @13\n"
     "y = Resize<mode=\"cubic\", antialias=1, exclude_outside=1>(x, _, _, s) @18\noutput y"},
    {"CubicSizesOfTheBatch",
     "input x: float32[n,2,4,5]\nd = Shape<end=2>(x) @15\nconst to: int64[2]{6, 8}\n"
     "s = Concat<axis=0>(d, to) @13\ny = Resize<mode=\"cubic\">(x, _, _, s) @18\noutput y"},
    {"Half",
     "input x: float16[1,1,3,4]\nconst s: float32[4]{1, 1, 2, 3}\n"
     "y = Resize<mode=\"linear\">(x, _, s) @13\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Resize, DecomposeWindows, testing::ValuesIn(kResize), decomposition_name);

const Decomposition kQuantized[] = {
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
INSTANTIATE_TEST_SUITE_P(Quantized, DecomposeWindows, testing::ValuesIn(kQuantized),
                         decomposition_name);

}  // namespace
}  // namespace reprise::test
