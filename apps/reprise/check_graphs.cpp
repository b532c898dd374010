#include "apps/reprise/check_graphs.h"

namespace reprise::app {

namespace {

constexpr CheckGraph kGraphs[] = {
    {"arithmetic", R"(graph arithmetic
input x: float32[37,65]
input y: float32[65]
a = Add(x, y) @14
b = Sub(a, x) @14
c = Mul(a, b) @14
d = Div(c, a) @14
output b, c, d
)"},
    {"functions", R"(graph functions
input x: float32[1031]
a = Exp(x) @13
b = Tanh(x) @13
c = Erf(x) @13
d = Sigmoid(x) @13
e = Sin(x) @7
f = Gelu(x) @20
output a, b, c, d, e, f
)"},
    {"roots", R"(graph roots
input x: float32[1031]
a = Sqrt(x) @13
b = Log(x) @13
c = Pow(x, a) @15
output a, b, c
)"},
    {"integers", R"(graph integers
input a: int32[515]
input b: int32[515]
s = Add(a, b) @14
p = Mul(s, a) @14
q = Less(p, b) @13
w = Where(q, a, p) @16
output s, p, q, w
)"},
    {"int64", R"(graph int64
input a: int64[129]
input b: int64[129]
s = Add(a, b) @14
p = Mul(s, a) @14
c = Cast<to=1>(p) @13
output p, c
)"},
    {"bytes", R"(graph bytes
input a: uint8[1027]
input b: int8[1027]
c = Cast<to=1>(a) @13
d = Cast<to=1>(b) @13
e = Mul(c, d) @14
output e
)"},
    {"halves", R"(graph halves
input x: float16[33,64]
t = Transpose<perm=[1, 0]>(x)
y = Mul(t, t) @14
output y
)"},
    {"transposes", R"(graph transposes
input x: float32[64,96]
input h: float32[2,12,4,20]
t = Transpose<perm=[1, 0]>(x)
u = Mul(t, t) @14
v = Transpose<perm=[0, 2, 3, 1]>(h)
output u, v
)"},
    {"softmax", R"(graph softmax
input x: float32[19,333]
y = Softmax<axis=-1>(x) @13
output y
)"},
    {"layer_norm", R"(graph layer_norm
input x: float32[9,256]
input g: float32[256]
input b: float32[256]
y = LayerNormalization<axis=-1>(x, g, b) @17
output y
)"},
    {"reductions", R"(graph reductions
input x: float32[4,3,40,50]
const axes: int64[2]{1, 3}
const outer: int64[1]{0}
a = ReduceMean<keepdims=0>(x, axes) @18
b = ReduceMax<keepdims=1>(x, outer) @18
c = ReduceMin<keepdims=1>(x, axes) @18
d = ArgMax<axis=3, keepdims=0>(x) @13
output a, b, c, d
)"},
    {"scan", R"(graph scan
input x: float32[7,55]
const axis: int64[]{1}
s = CumSum(x, axis) @14
output s
)"},
    {"matmul", R"(graph matmul
input a: float32[70,90]
input b: float32[90,50]
m = MatMul(a, b) @13
y = Relu(m) @14
output y
)"},
    {"matmul_half", R"(graph matmul_half
input a: float16[64,96]
input b: float16[96,80]
m = MatMul(a, b) @13
output m
)"},
    {"one_row", R"(graph one_row
input a: float32[1,300]
input b: float32[300,130]
m = MatMul(a, b) @13
output m
)"},
    {"conv", R"(graph conv
input x: float32[1,16,17,18]
input w: float32[24,16,3,3]
input b: float32[24]
c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b) @11
y = Relu(c) @14
output y
)"},
    {"depthwise", R"(graph depthwise
input x: float32[1,16,17,18]
input w: float32[16,1,3,3]
y = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=16>(x, w) @11
output y
)"},
    {"pool", R"(graph pool
input x: float32[2,3,15,15]
m = MaxPool<kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]>(x) @12
a = AveragePool<kernel_shape=[2, 2], strides=[2, 2]>(x) @11
output m, a
)"},
    {"attention", R"(graph attention
input q: float32[2,3,19,20]
input k: float32[2,3,37,20]
input v: float32[2,3,37,12]
const scale: float32[]{0.3}
kt = Transpose<perm=[0, 1, 3, 2]>(k)
s = MatMul(q, kt) @13
t = Mul(s, scale) @14
p = Softmax<axis=-1>(t) @13
y = MatMul(p, v) @13
output y
)"},
    {"gather", R"(graph gather
input ids: int64[3,5]
input table: float32[40,24]
y = Gather<axis=0>(table, ids) @13
output y
)"},
    {"resize", R"(graph resize
input x: float32[1,2,12,12]
n = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor", scales=[1.0, 1.0, 2.0, 2.0]>(x)
l = Resize<mode="linear", coordinate_transformation_mode="half_pixel", scales=[1.0, 1.0, 2.0, 2.0]>(x)
output n, l
)"},
};

}  // namespace

std::span<const CheckGraph> check_graphs() {
  return kGraphs;
}

}  // namespace reprise::app
