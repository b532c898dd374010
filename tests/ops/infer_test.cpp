// Inference: shapes over symbols, contents of shape tensors, guards, and what is refused.
#include <gtest/gtest.h>

#include "codegen/onnx/importer.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/shape_arith.h"
#include "tests/ops/run_graph.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

struct Case {
  const char* name;
  const char* text;
  const char* shape;               // of the first output
  const char* elements = nullptr;  // of the first output, "a, b"
  const char* guards = "";         // "a == b; ..."
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

std::string guards_of(const graph::Graph& g) {
  std::string out;
  using Kind = DimGuard::Kind;
  for (const graph::DimGuard& d : g.guards) {
    const char* relation = d.kind == Kind::Equal         ? " == "
                           : d.kind == Kind::BroadcastTo ? " -> "
                           : d.kind == Kind::AtLeast     ? " >= "
                                                         : " ~ ";
    out += (out.empty() ? "" : "; ") + d.a.str(g.symbols) + relation + d.b.str(g.symbols);
  }
  return out;
}

class Infer : public testing::TestWithParam<Case> {};

TEST_P(Infer, GivesShapeElementsAndGuards) {
  const Case& c = GetParam();
  const auto g = must_parse(c.text);
  ASSERT_TRUE(g);
  const graph::Value& v = g->value(g->outputs[0]);
  EXPECT_EQ(shape_str(v.shape, g->symbols), c.shape);
  EXPECT_EQ(guards_of(*g), c.guards);
  if (c.elements == nullptr) return;
  ASSERT_TRUE(v.elements.has_value());
  EXPECT_EQ(shape_str(*v.elements, g->symbols), std::string("[") + c.elements + "]");
}

const Case kCases[] = {
    {"BroadcastOne", "input a: float32[n,1,4], b: float32[m,4]\ny = Add(a, b) @14\noutput y",
     "[n, m, 4]"},
    {"BroadcastUnknownWithKnown", "input a: int64[n], b: int64[4]\ny = Add(a, b) @14\noutput y",
     "[4]", nullptr, "n -> 4"},
    {"BroadcastOfSymbols", "input a: float32[n,4], b: float32[m,4]\ny = Add(a, b) @14\noutput y",
     "[broadcast, 4]", nullptr, "n ~ m"},
    {"BroadcastHasItsPartsSize",
     "input a: float32[n,4], b: float32[m,4]\nz = Add(a, b) @14\nw = Mul(b, z) @14\n"
     "y = Sub(w, a) @14\noutput y",
     "[broadcast, 4]", nullptr, "n ~ m"},
    {"EqualDimsEndABroadcast",
     "input a: float32[n,4], b: float32[m,4]\nz = Add(a, b) @14\nc = Concat<axis=1>(a, b) @13\n"
     "y = Relu(z) @14\noutput y",
     "[n, 4]", nullptr, "n ~ m; n == m; broadcast == n"},
    {"MultiplesAreNeverOne",
     "input a: float32[n], b: float32[m]\nc = Concat<axis=0>(a, a) @13\ny = Add(c, b) @14\n"
     "output y",
     "[2*n]", nullptr, "m -> 2*n"},
    {"DimsThatAreOneTogether",
     "input x: float32[n], k: float32[8]\nconst s: int64[1]{0}\nconst e: int64[1]{8}\n"
     "p = Slice(x, s, e) @13\ny = Add(p, x) @14\noutput y",
     "[n]"},
    {"EqualityElsewhereEndsABroadcast",
     "input x: float32[h]\nconst s: int64[1]{0}\nconst e: int64[1]{9223372036854775807}\n"
     "const i: int64[1]{0}\nconst two: int64[1]{2}\nconst four: int64[1]{4}\nconst one: "
     "int64[1]{1}\n"
     "a = Slice(x, s, e, i, two) @13\nb = Slice(x, s, e, i, four) @13\n"
     "c = Concat<axis=0>(b, b) @13\nz = Add(a, c) @14\na2 = Unsqueeze(a, one) @13\n"
     "c2 = Unsqueeze(c, one) @13\nt = Concat<axis=1>(a2, c2) @13\ny = Relu(a) @14\noutput y",
     "[2*floordiv(h + 3, 4)]", nullptr,
     "floordiv(h + 1, 2) -> 2*floordiv(h + 3, 4); floordiv(h + 1, 2) == 2*floordiv(h + 3, 4)"},
    {"GuardEliminatesASymbol",
     "input a: float32[n,4], b: float32[m,4]\nz = Concat<axis=1>(a, b) @13\ny = Mul(b, b) @14\n"
     "output y",
     "[n, 4]", nullptr, "n == m"},
    {"GuardAgainstAConstant",
     "input a: float32[2,n], b: float32[7,3]\ny = MatMul(a, b) @13\noutput y", "[2, 3]", nullptr,
     "n == 7"},
    {"ShapeSlice", "input x: float32[n,3,m]\ny = Shape<start=-1, end=100>(x) @15\noutput y", "[1]",
     "m"},
    {"Size", "input x: float32[n,3,m]\ny = Size(x) @13\noutput y", "[]", "3*n*m"},
    {"ShapeArithmetic",
     "input x: float32[n,3]\ns = Shape(x) @13\nconst i: int64[]{0}\nd = Gather(s, i) @13\n"
     "const two: int64[]{2}\nt = Mul(d, two) @14\nu = Add(t, two) @14\ny = Div(u, two) @14\n"
     "output y",
     "[]", "n + 1"},
    {"DivisionRoundsTowardsZero",
     "input x: float32[n]\ns = Shape(x) @13\nconst c: int64[1]{-5}\nconst two: int64[1]{2}\n"
     "d = Add(s, c) @14\ny = Div(d, two) @14\noutput y",
     "[1]", "-floordiv(max(-n + 5, 0), 2) + floordiv(max(n - 5, 0), 2)"},
    {"WhereOnADecidedCondition",
     "input x: float32[n,3]\ns = Shape(x) @13\nconst m: int64[2]{-1, -1}\n"
     "const o: int64[2]{1, 1}\nc = Equal(s, m) @13\ny = Where(c, o, s) @9\noutput y",
     "[2]", "n, 3"},
    {"ExpandIdiom",
     "input x: float32[1,3], z: float32[n,3]\ns = Shape(z) @13\nconst two: int64[1]{2}\n"
     "ones = ConstantOfShape<value=int64[1]{1}>(two) @9\nconst k: int64[2]{-1, 3}\n"
     "const neg: int64[]{-1}\nc = Equal(k, neg) @13\nt = Where(c, s, k) @9\n"
     "y = Expand(x, t) @13\noutput y",
     "[n, 3]"},
    {"ExpandKnowsSizesBesideData",
     "input x: float32[2,3], k: int64[1]\nconst c: int64[3]{2, 1, 3}\n"
     "s = Concat<axis=0>(k, c) @13\nv = Expand(x, s) @13\ny = Squeeze(v) @13\noutput y",
     "[v_dim0, 2, v_dim2, 3]", nullptr, "v_dim0 >= 2; v_dim2 >= 2"},
    {"ReduceProdOfAShape",
     "input x: float32[n,3,m]\ns = Shape(x) @13\ny = ReduceProd<keepdims=0>(s) @13\noutput y", "[]",
     "3*n*m"},
    {"ConcatAndCast",
     "input x: float32[n,3]\ns = Shape(x) @13\nt = Cast<to=6>(s) @13\nconst c: int32[1]{9}\n"
     "u = Concat<axis=0>(t, c) @13\ny = Cast<to=7>(u) @13\noutput y",
     "[3]", "n, 3, 9"},
    {"SplitOfAShape",
     "input x: float32[n,3,m]\ns = Shape(x) @13\n(a, y) = Split<split=[1, 2]>(s) @11\noutput y",
     "[2]", "3, m"},
    {"ReshapeCopiesAndInfers",
     "input x: float32[n,6,m]\nconst s: int64[4]{0, 2, -1, 0}\nt = Concat<axis=0>(s) @13\n"
     "const u: int64[3]{0, -1, 3}\ny = Reshape(x, u) @14\noutput y",
     "[n, 2*m, 3]"},
    {"ReshapeKeepsSymbols",
     "input x: float32[n,m,256]\ns = Shape<end=2>(x) @15\nconst h: int64[2]{-1, 64}\n"
     "t = Concat<axis=0>(s, h) @13\ny = Reshape<allowzero=1>(x, t) @14\noutput y",
     "[n, m, 4, 64]"},
    {"ReshapeGuard",
     "input x: float32[n,3]\nconst s: int64[2]{-1, 2}\ny = Reshape(x, s) @14\noutput y",
     "[floordiv(3*n, 2), 2]", nullptr, "2*floordiv(3*n, 2) == 3*n"},
    {"SliceEndBeyond",
     "input x: float32[n,6]\nconst s: int64[1]{1}\nconst e: int64[1]{9223372036854775807}\n"
     "y = Slice(x, s, e) @13\noutput y",
     "[max(n - 1, 0), 6]"},
    {"SliceAll",
     "input x: float32[n,6]\nconst s: int64[1]{0}\nconst e: int64[1]{9223372036854775807}\n"
     "y = Slice(x, s, e) @13\noutput y",
     "[n, 6]"},
    {"SliceFromFarBelow",
     "input x: float32[n]\nconst s: int64[1]{-9223372036854775808}\nconst e: int64[1]{4}\n"
     "y = Slice(x, s, e) @13\noutput y",
     "[min(n, 4)]"},
    {"SliceBySymbolTightensItsRange",
     "input x: float32[128], z: float32[n]\nconst s: int64[1]{0}\ne = Shape(z) @13\n"
     "p = Slice(x, s, e) @13\ny = Add(p, z) @14\noutput y",
     "[n]"},
    {"RangeOfADim",
     "input x: float32[n]\nconst a: int64[]{0}\nd = Size(x) @13\nconst t: int64[]{1}\n"
     "y = Range(a, d, t) @11\noutput y",
     "[n]"},
    {"SmallRangeIsKnown",
     "const a: int32[]{5}\nconst d: int32[]{-1}\nconst t: int32[]{-2}\ny = Range(a, d, t) @11\n"
     "output y",
     "[3]", "5, 3, 1"},
    {"TileBySymbol",
     "input x: float32[3], z: float32[n]\nr = Shape(z) @13\ny = Tile(x, r) @13\noutput y", "[3*n]"},
    {"PadsOfAMatrix",
     "input x: float32[n,3]\nconst q: int64[2,2]{0, 1, 2, 3}\nt = Transpose(q) @13\n"
     "const f: int64[1]{-1}\np = Reshape(t, f) @14\ny = Pad(x, p) @13\noutput y",
     "[n + 1, 8]"},
    {"ConvSymbolic",
     "input x: float32[n,3,h,w], k: float32[8,3,3,3]\n"
     "y = Conv<strides=[2, 1], pads=[1, 1, 1, 1]>(x, k) @11\noutput y",
     "[n, 8, floordiv(h + 1, 2), w]"},
    {"ConvSame",
     "input x: float32[1,3,h], k: float32[8,3,4]\n"
     "y = Conv<strides=[2], auto_pad=\"SAME_UPPER\">(x, k) @11\noutput y",
     "[1, 8, floordiv(h + 1, 2)]"},
    {"RecurrentBatchFirst",
     "input x: float32[batch,steps,4], w: float32[2,12,4], r: float32[2,12,3]\n"
     "y = LSTM<hidden_size=3, direction=\"bidirectional\", layout=1>(x, w, r) @14\noutput y",
     "[batch, steps, 2, 3]"},
    {"RecurrentStates",
     "input x: float32[steps,batch,4], w: float32[1,9,4], r: float32[1,9,3]\n"
     "(_, y) = GRU<hidden_size=3>(x, w, r) @14\noutput y",
     "[1, batch, 3]"},
    {"RecurrentGatesAgree",
     "input x: float32[steps,batch,4], w: float32[1,g,4], r: float32[1,g,3]\n"
     "y = RNN(x, w, r) @14\noutput y",
     "[steps, 1, batch, 3]", nullptr, "g == 3"},
    {"GridSampleTakesTheGridsSizes",
     "input x: float32[n,3,h,w], g: float32[n,i,j,2]\ny = GridSample(x, g) @16\noutput y",
     "[n, 3, i, j]"},
    {"RoiAlign",
     "input x: float32[n,3,h,w], b: float32[k,4], i: int64[k]\n"
     "y = RoiAlign<output_height=2, output_width=5>(x, b, i) @16\noutput y",
     "[k, 3, 2, 5]"},
    {"LossPerTarget",
     "input x: float32[n,5,d], t: int64[n,d]\n"
     "y = NegativeLogLikelihoodLoss<reduction=\"none\">(x, t) @13\noutput y",
     "[n, d]"},
    {"LossReduced",
     "input x: float32[n,5], t: int64[n]\ny = SoftmaxCrossEntropyLoss(x, t) @13\noutput y", "[]"},
    {"AttentionOfPackedHeads",
     "input q: float32[b,s,32], k: float32[b,t,16], v: float32[b,t,24]\n"
     "y = Attention<q_num_heads=4, kv_num_heads=2>(q, k, v) @23\noutput y",
     "[b, s, 48]"},
    {"AttentionGrowsItsCache",
     "input q: float32[b,4,s,8], k: float32[b,2,s,8], v: float32[b,2,s,8],"
     " p: float32[b,2,past,8], w: float32[b,2,past,8]\n"
     "(_, y) = Attention(q, k, v, _, p, w) @23\noutput y",
     "[b, 2, s + past, 8]"},
    {"AttentionMaskOfOtherSymbols",
     "input q: float32[b,2,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8], m: bool[mb,1,ml,mt]\n"
     "y = Attention(q, k, v, m) @23\noutput y",
     "[b, 2, l, 8]", nullptr, "mb -> b; ml -> l; min(mt, s) == mt"},
    {"AttentionMaskOfConstants",
     "input q: float32[b,2,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8], m: bool[3,5]\n"
     "y = Attention(q, k, v, m) @23\noutput y",
     "[b, 2, 3, 8]", nullptr, "3 == l; min(s, 5) == 5"},
    {"AttentionLengths",
     "input q: float32[b,2,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8], n: int64[c]\n"
     "y = Attention(q, k, v, _, _, _, n) @24\noutput y",
     "[b, 2, l, 8]", nullptr, "c == b"},
    {"ConvThatMayBeTooLarge",
     "input x: float32[1,3,h], w: float32[4,3,5]\ny = Conv<pads=[1, 1], strides=[2]>(x, w) @11\n"
     "output y",
     "[1, 4, floordiv(h + 1, 2) - 1]", nullptr, "h + 2 >= 5"},
    {"ConvOfEverySize",
     "input x: float32[1,3,h], w: float32[4,3,3]\ny = Conv<pads=[1, 1], strides=[2]>(x, w) @11\n"
     "output y",
     "[1, 4, floordiv(h + 1, 2)]"},
    {"PoolThatMayBeTooLarge",
     "input x: float32[1,3,h]\ny = MaxPool<kernel_shape=[3], strides=[2]>(x) @12\noutput y",
     "[1, 3, floordiv(h + 1, 2) - 1]"},
    {"PoolThatMayBeShorterThanItsWindow",
     "input x: float32[1,3,h]\ny = MaxPool<kernel_shape=[8], strides=[2]>(x) @12\noutput y",
     "[1, 3, max(floordiv(h, 2) - 3, 0)]", nullptr, "h >= 5"},
    {"SqueezeOfSizes", "input a: float32[n,3,1]\ny = Squeeze(a) @13\noutput y", "[n, 3]", nullptr,
     "n >= 2"},
    {"PoolOfOneStride",
     "input x: float32[1,3,2]\ny = MaxPool<kernel_shape=[4], strides=[2]>(x) @12\noutput y",
     "[1, 3, 0]"},
    {"PoolOfNothing",
     "input x: float32[1,3,0]\ny = MaxPool<kernel_shape=[3], strides=[3], pads=[1, 1], "
     "ceil_mode=1>(x) @12\noutput y",
     "[1, 3, 1]"},
    {"ArgOfADimThatMayBeZero", "input x: float32[n,m]\ny = ArgMax<axis=0>(x) @13\noutput y",
     "[1, m]", nullptr, "n >= min(m, 1)"},
    {"ArgOfNothing", "input x: float32[0,m]\ny = ArgMax<axis=0>(x) @13\noutput y", "[1, m]",
     nullptr, "0 >= min(m, 1)"},
    {"PoolCeil",
     "input x: float32[1,3,h]\ny = MaxPool<kernel_shape=[2], strides=[2], ceil_mode=1>(x) @12\n"
     "output y",
     "[1, 3, floordiv(h + 1, 2)]"},
    {"ResizeByScale",
     "input x: float32[1,3,h,w]\nconst s: float32[4]{1, 1, 2, 0.5}\n"
     "y = Resize(x, _, s) @13\noutput y",
     "[1, 3, 2*h, floordiv(w, 2)]"},
    {"MatMulBatches",
     "input a: float32[b,h,n,64], k: float32[b,h,64,n]\ny = MatMul(a, k) @13\noutput y",
     "[b, h, n, n]"},
    {"ConcatSum", "input a: float32[n,4], b: float32[1,4]\ny = Concat<axis=0>(a, b) @13\noutput y",
     "[n + 1, 4]"},
    {"TopKOfADim",
     "input x: float32[3,n]\nd = Shape<start=1>(x) @15\n(y, i) = TopK(x, d) @11\noutput y",
     "[3, n]"},
    {"NonZeroIsFresh", "input x: float32[3,n]\ny = NonZero(x) @13\noutput y", "[2, y_dim1]"},
    {"GatherElementsWithin",
     "input x: float32[n,4], i: int64[m,4]\ny = GatherElements<axis=1>(x, i) @13\noutput y",
     "[m, 4]", nullptr, "n >= m"},
};
INSTANTIATE_TEST_SUITE_P(Shapes, Infer, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& i) { return i.param.name; });

struct Refused {
  const char* name;
  const char* text;
  const char* message;  // part of it
};

void PrintTo(const Refused& c, std::ostream* os) {
  *os << c.name;
}

class Refuse : public testing::TestWithParam<Refused> {};

TEST_P(Refuse, NamesNodeAndReason) {
  const auto g = graph::parse(GetParam().text);
  ASSERT_FALSE(g.ok());
  EXPECT_NE(g.status().message().find(GetParam().message), std::string::npos)
      << g.status().message();
}

const Refused kRefused[] = {
    {"ClashingShapes",
     "input a: float32[2,3], b: float32[4,3]\ny = Add(a, b) @14 \"sum\"\noutput y",
     "node 'sum' (Add): shapes [2, 3] and [4, 3] do not broadcast: 2 against 4"},
    {"ClashingDtypes", "input a: float32[2], b: int32[2]\ny = Add(a, b) @14\noutput y",
     "differ in dtype: float32 and int32"},
    {"OldOpset", "input a: float32[2], b: float32[2]\ny = Add<axis=1>(a, b) @6 \"sum\"\noutput y",
     "node 'sum' (Add): opset 6 is older than the oldest supported (7)"},
    {"EinsumOfStrings",
     "input a: string[2,3]\ny = Einsum<equation=\"ij->i\">(a) @12 \"e\"\noutput y",
     "node 'e' (Einsum): operands are string, expected numbers"},
    {"UnknownActivation",
     "input x: float32[1,1,3,3], w: float32[1,1,2,2]\n"
     "y = \"com.microsoft\"::FusedConv<activation=\"Mish\">(x, w) @1 \"c\"\noutput y",
     "node 'c' (FusedConv): activation 'Mish' with 0 parameters; known: Relu"},
    {"OperandsOfQLinearConcat",
     "input x: uint8[2], s: float32[], z: uint8[]\n"
     "y = \"com.microsoft\"::QLinearConcat<axis=0>(s, z, x, s, z, x) @1 \"c\"\noutput y",
     "node 'c' (QLinearConcat): has 6 inputs, expected a scale, a zero point, and three for each"},
    {"ScalesOfQLinearConcat",
     "input x: uint8[2], s: float32[2], z: uint8[]\n"
     "y = \"com.microsoft\"::QLinearConcat<axis=0>(s, z, x, s, z) @1 \"c\"\noutput y",
     "node 'c' (QLinearConcat): a scale must be one number"},
    {"TrainingOfDropout",
     "input x: float32[2], b: float32[2], r: float32[]\nconst t: bool[]{true}\n"
     "y = \"com.microsoft\"::BiasDropout(x, b, _, r, t) @1 \"d\"\noutput y",
     "node 'd' (BiasDropout): training_mode is not supported; export the model for inference"},
    {"PackedTable",
     "input a: uint8[2,8], s: float32[2,1], i: int64[1]\n"
     "y = \"com.microsoft\"::GatherBlockQuantized<block_size=16>(a, i, s) @1 \"g\"\noutput y",
     "input 'a' must be constant, so that it is unpacked once; make it an initialiser"},
    {"MinimumOfModel",
     "input x: uint8[4], s: float32[1], z: uint8[1], m: float32[1]\n"
     "y = DequantizeLinear(x, s, z, m) @13 \"d\"\noutput y",
     "node 'd' (DequantizeLinear): has 4 inputs, expected 2 or 3"},
    {"PackedExperts",
     "input x: float32[1,4], r: float32[1,2], s: float32[2,4], a: uint8[2,4,2]\n"
     "y = \"com.microsoft\"::QMoE(x, r, a, s, _, a, s) @1 \"m\"\noutput y",
     "node 'm' (QMoE): weights_prepacked is not 0, so the layout of the weights depends on the"},
    {"SizeFromData",
     "input a: int64[], b: int64[]\n"
     "y = \"com.microsoft\"::ContribRange(a, b) @1 \"r\"\noutput y",
     "node 'r' (ContribRange): the size of a result depends on data; make the inputs"},
    {"SinkWithBias",
     "input q: float32[1,3,32], k: float32[1,3,16], v: float32[1,3,16], l: int32[1]\n"
     "input b: float32[1,2,3,3], h: float32[2]\nconst t: int32[]{3}\n"
     "y = \"com.microsoft\"::GroupQueryAttention<kv_num_heads=1, num_heads=2>"
     "(q, k, v, _, _, l, t, _, _, _, b, h) @1 \"g\"\noutput y",
     "attention_bias with head_sink or smooth_softmax is not supported"},
    {"OperandsOfBefore7DoNotBroadcast",
     "input a: float32[2,3], b: float32[3]\ny = AddBefore7(a, b) @6 \"sum\"\noutput y",
     "node 'sum' (AddBefore7): shapes [2, 3] and [3] differ, and broadcast is not 1"},
    {"OperandsOfBefore7HaveAnAxis",
     "input a: float32[2,3], b: float32[3]\n"
     "y = AddBefore7<axis=2, broadcast=1>(a, b) @6 \"sum\"\noutput y",
     "node 'sum' (AddBefore7): axis 2 does not place [3] in [2, 3]"},
    {"TrainingBefore7", "input a: float32[2,3]\ny = DropoutBefore7(a) @6 \"d\"\noutput y",
     "node 'd' (DropoutBefore7): is_test is 0, which means training; set it to 1"},
    {"TypeBefore6", "input a: float32[2]\ny = CastBefore6<to=\"REAL\">(a) @5 \"c\"\noutput y",
     "node 'c' (CastBefore6): 'to' is 'REAL', expected the name of a type"},
    {"UnknownAttribute", "input a: float32[2]\ny = Relu<slope=1.0>(a) @14 \"r\"\noutput y",
     "node 'r' (Relu): attribute 'slope' is unknown"},
    {"LayoutOfModel",
     "input x: float32[1,8,8,3], w: float32[4,3,3,3]\n"
     "y = Conv<channels_last=1>(x, w) @11 \"c\"\noutput y",
     "node 'c' (Conv): attribute 'channels_last' is unknown"},
    {"LayoutOfModelsPool",
     "input x: float32[1,8,8,3]\n"
     "y = MaxPool<kernel_shape=[2, 2], channels_last=0>(x) @12 \"p\"\noutput y",
     "node 'p' (MaxPool): attribute 'channels_last' is unknown"},
    {"PositionsOfModel",
     "input a: int64[], b: int64[], c: int64[]\ny = Range<computed=1>(a, b, c) @11 \"r\"\noutput y",
     "node 'r' (Range): attribute 'computed' is unknown"},
    {"ConvChannelsLast",
     "input x: float32[1,8,8,3], w: float32[4,2,3,3]\n"
     "y = Conv<channels_last=1>(x, w) \"c\"\noutput y",
     "input [1, 8, 8, 3] has 3 channels, weight [4, 2, 3, 3]"},
    {"UnknownOperator", "input a: float32[2]\ny = Frobnicate(a) @14\noutput y", "Frobnicate"},
    {"TooManyInputs", "input a: float32[2]\ny = Relu(a, a) @14\noutput y",
     "has 2 inputs, expected 1"},
    {"MissingInput", "input a: float32[2]\ny = Add(a, _) @14\noutput y", "input 1 is missing"},
    {"FloatOperatorOnInts", "input a: int32[2]\ny = Sin(a) @14\noutput y",
     "is int32, expected a floating-point type"},
    {"Axis", "input a: float32[2,3]\ny = Softmax<axis=2>(a) @13\noutput y",
     "axis 2 is out of range for rank 2"},
    {"AxisTwice", "input a: float32[2,3]\ny = ReduceSum<axes=[1, -1]>(a) @11\noutput y",
     "axis -1 is given twice"},
    {"Permutation", "input a: float32[2,3]\ny = Transpose<perm=[0, 0]>(a) @13\noutput y",
     "perm is not a permutation"},
    {"ReshapeCount",
     "input a: float32[2,3]\nconst s: int64[2]{4, 2}\ny = Reshape(a, s) @13\noutput y",
     "cannot reshape [2, 3] to [4, 2]: 6 elements against 8"},
    {"GatherIndex", "input a: float32[2,3]\nconst i: int64[1]{2}\ny = Gather(a, i) @13\noutput y",
     "index 2 is out of range for a dim of size 2"},
    {"SplitNegative", "input a: float32[3]\n(y, z) = Split<axis=0, split=[-1, 4]>(a) @11\noutput y",
     "impossible shape"},
    {"ConvChannels",
     "input x: float32[1,3,8,8], w: float32[4,2,3,3]\ny = Conv(x, w) @11 \"c\"\noutput y",
     "node 'c' (Conv): input [1, 3, 8, 8] has 3 channels, weight [4, 2, 3, 3] with group 1 needs "
     "2"},
    {"PoolWindow",
     "input x: float32[1,1,2]\ny = MaxPool<kernel_shape=[6], strides=[2]>(x) @11\noutput y",
     "a window of 6 is larger than the padded input"},
    {"ConvWindow", "input x: float32[1,3,2,8], w: float32[4,3,3,3]\ny = Conv(x, w) @11\noutput y",
     "a window of 3 is larger than the padded input"},
    {"MatMulInner", "input a: float32[2,3], b: float32[4,5]\ny = MatMul(a, b) @13\noutput y",
     "cannot multiply [2, 3] by [4, 5]: inner dims 3 and 4 differ"},
    {"SqueezeOther", "input a: float32[2,3]\ny = Squeeze<axes=[0]>(a) @11\noutput y",
     "squeezed dim and 1 differ: 2 and 1"},
    {"CastToNothing", "input a: float32[2]\ny = Cast<to=77>(a) @13\noutput y",
     "attribute 'to' = 77 is not a supported element type"},
    {"PadMode",
     "input a: float32[2]\nconst p: int64[2]{1, 1}\n"
     "y = Pad<mode=\"mirror\">(a, p) @13\noutput y",
     "mode = 'mirror'"},
    {"RangeStep",
     "const a: int64[]{0}\nconst b: int64[]{3}\nconst d: int64[]{0}\ny = Range(a, b, d) @11\n"
     "output y",
     "delta is 0"},
    {"RecurrentGates",
     "input x: float32[1,1,2], w: float32[1,8,2], r: float32[1,6,2]\ny = LSTM(x, w, r) @14\n"
     "output y",
     "gates of W and R differ: 6 and 8"},
    {"RecurrentState",
     "input x: float32[3,2,4], w: float32[1,32,4], r: float32[1,32,8], h: float32[1,1,8]\n"
     "y = LSTM(x, w, r, _, _, h) @14\noutput y",
     "initial_h must have shape [1, 2, 8], has [1, 1, 8]"},
    {"RecurrentLengths",
     "input x: float32[3,2,4], w: float32[1,24,4], r: float32[1,24,8], n: int32[1]\n"
     "y = GRU(x, w, r, _, n) @14\noutput y",
     "sequence_lens must have shape [2], has [1]"},
    {"RecurrentBias",
     "input x: float32[3,2,4], w: float32[1,8,4], r: float32[1,8,8], b: float32[1,8]\n"
     "y = RNN(x, w, r, b) @14\noutput y",
     "B must have shape [1, 16], has [1, 8]"},
    {"RecurrentPeepholes",
     "input x: float32[3,2,4], w: float32[1,32,4], r: float32[1,32,8], p: float16[1,24]\n"
     "y = LSTM(x, w, r, _, _, _, _, p) @14\noutput y",
     "P must be float32, is float16"},
    {"RecurrentStepsState",
     "input x: float32[3,2,8], r: float32[1,8,8], h: float32[1,2,4]\n"
     "y = RecurrentSteps<cell=0>(x, r, _, _, h)\noutput y",
     "the initial h must have shape [1, 2, 8], has [1, 2, 4]"},
    {"GradHeads",
     "input g: float32[1,3,4,8], q: float32[1,3,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], "
     "l: float32[1,3,4], s: float32[1,3,4]\n"
     "y = AttentionGrad<scale=1.0>(g, q, k, v, l, s)\noutput y",
     "2 heads of K do not divide the 3 heads of Q"},
    {"GradMask",
     "input g: float32[1,2,4,8], q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], "
     "l: float32[1,2,4], s: float32[1,2,4], m: bool[4,6]\n"
     "y = AttentionGrad<scale=1.0>(g, q, k, v, l, s, m)\noutput y",
     "the mask [4, 6] does not broadcast to [1, 2, 4, 5]"},
    {"HeadsPacked",
     "input q: float32[1,4,2,2,8]\n"
     "y = \"com.microsoft\"::MultiHeadAttention<num_heads=2>(q) @1\noutput y",
     "a packed query must have shape [1, 4, 2, 3, 8], has [1, 4, 2, 2, 8]"},
    {"HeadsPackedKey",
     "input q: float32[1,4,16], k: float32[1,6,2,1,8]\n"
     "y = \"com.microsoft\"::MultiHeadAttention<num_heads=2>(q, k) @1\noutput y",
     "a packed key must have shape [1, 6, 2, 2, 8], has [1, 6, 2, 1, 8]"},
    {"HeadsCaches",
     "input q: float32[1,1,16], k: float32[1,1,16], v: float32[1,1,16], p: float32[1,2,3,8], "
     "o: float32[1,2,9,8], l: int32[1]\nconst t: int32[1]{4}\n"
     "(y, z, w) = \"com.microsoft\"::GroupQueryAttention<num_heads=2, kv_num_heads=2>"
     "(q, k, v, p, o, l, t) @1\noutput y",
     "past_value must have shape [1, 2, 3, 8], has [1, 2, 9, 8]"},
    {"TopKTooMany",
     "input x: float32[3,4]\nconst k: int64[1]{5}\n(v, i) = TopK(x, k) @11\noutput v",
     "k = 5 is larger than the dim 4"},
    {"AttentionHeads",
     "input q: float32[1,2,6], k: float32[1,2,6], v: float32[1,2,6]\n"
     "y = Attention<q_num_heads=4, kv_num_heads=2>(q, k, v) @23\noutput y",
     "4 heads do not divide the last dim of Q"},
    {"AttentionGroups",
     "input q: float32[1,3,2,8], k: float32[1,2,2,8], v: float32[1,2,2,8]\n"
     "y = Attention(q, k, v) @23\noutput y",
     "2 heads of K do not divide the 3 heads of Q"},
    {"AttentionMask",
     "input q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], m: bool[4,6]\n"
     "y = Attention(q, k, v, m) @23\noutput y",
     "attn_mask [4, 6] does not broadcast to [1, 2, 4, 5]"},
    {"AttentionMaskRows",
     "input q: float32[b,2,4,8], k: float32[b,2,s,8], v: float32[b,2,s,8], m: bool[b,3,1,s]\n"
     "y = Attention(q, k, v, m) @23\noutput y",
     "attn_mask [b, 3, 1, s] does not broadcast to [b, 2, 4, s]"},
    {"AttentionLengthsRank",
     "input q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], n: int64[1,1]\n"
     "y = Attention(q, k, v, _, _, _, n) @24\noutput y",
     "nonpad_kv_seqlen must have rank 1"},
    {"AttentionLengthsType",
     "input q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], n: float32[1]\n"
     "y = Attention(q, k, v, _, _, _, n) @24\noutput y",
     "expected an integer type"},
    {"AttentionLengthsBatch",
     "input q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], n: int64[3]\n"
     "y = Attention(q, k, v, _, _, _, n) @24\noutput y",
     "batches of Q and nonpad_kv_seqlen differ"},
    {"AttentionCaches",
     "input q: float32[1,2,4,8], k: float32[1,2,5,8], v: float32[1,2,5,8], p: float32[1,2,3,8]\n"
     "y = Attention(q, k, v, _, p) @23\noutput y",
     "lengths of K and V with their caches"},
    {"RotaryPart",
     "input x: float32[1,2,3,8], c: float32[1,3,4], s: float32[1,3,4]\n"
     "y = RotaryEmbedding<rotary_embedding_dim=10>(x, c, s) @23\noutput y",
     "rotates 10 of 8 elements"},
    {"RotaryCaches",
     "input x: float32[1,2,3,8], c: float32[7,4], s: float32[7,4]\n"
     "y = RotaryEmbedding(x, c, s) @23\noutput y",
     "must have rank 3, or 2 with position_ids"},
    {"LossTargets",
     "input x: float32[2,5], t: int64[2,1]\ny = SoftmaxCrossEntropyLoss(x, t) @13\noutput y",
     "targets must have all axes of the scores except the class axis"},
};
INSTANTIATE_TEST_SUITE_P(Errors, Refuse, testing::ValuesIn(kRefused),
                         [](const testing::TestParamInfo<Refused>& i) { return i.param.name; });

TEST(ShapeArith, ClampsAreSimplifiedWhenProven) {
  const std::vector<Symbol> table{{"n", 1, 100, 1}};
  const Expr n = Expr::symbol(0);
  EXPECT_EQ(ops::clamp(n, 0, 1000, table), n);
  EXPECT_EQ(ops::clamp(n - 200, 0, n, table), Expr(0));
  EXPECT_EQ(ops::less_than(n, 101, table), Expr(1));
  EXPECT_EQ(ops::equal_to(n, 0, table), Expr(0));
  EXPECT_EQ(ops::select(ops::less_than(n, 1, table), n, 7), Expr(7));
  // Undecided conditions are exact expressions.
  const Expr chosen = ops::select(ops::less_than(n, 10, table), n, Expr(10));
  for (int64_t v : {1, 9, 10, 11, 100}) {
    EXPECT_EQ(*chosen.eval(std::vector<int64_t>{v}), std::min<int64_t>(v, 10));
  }
}

/// Slicing of one dim, by ONNX's definition.
std::vector<int64_t> sliced(int64_t start, int64_t end, int64_t step, int64_t dim) {
  if (dim == 0) return {};
  const auto wrap = [dim](int64_t x) { return x < 0 ? x + dim : x; };
  step = std::clamp(step, -dim, dim);  // as far as it takes the same elements
  std::vector<int64_t> out;
  if (step > 0) {
    const int64_t last = std::clamp<int64_t>(wrap(end), 0, dim);
    for (int64_t i = std::clamp<int64_t>(wrap(start), 0, dim); i < last; i += step) {
      out.push_back(i);
    }
    return out;
  }
  const int64_t last = std::clamp<int64_t>(wrap(end), -1, dim - 1);
  for (int64_t i = std::clamp<int64_t>(wrap(start), 0, dim - 1); i > last; i += step) {
    out.push_back(i);
  }
  return out;
}

TEST(ShapeArith, SliceRangesHoldForEveryDim) {
  const std::vector<Symbol> table{{"n", 0, 100, 1}};
  const Expr n = Expr::symbol(0);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t step : {kLeast, -kMost, int64_t{-3}, int64_t{-1}, int64_t{1}, int64_t{2}, kMost}) {
    for (int64_t start :
         {kLeast, int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{4}, kMost}) {
      for (int64_t end :
           {kLeast, int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{4}, kMost}) {
        const ops::SliceRange r = ops::slice_range(start, end, step, n, table);
        ASSERT_LT(std::abs(r.step), int64_t{1} << 31);
        for (int64_t dim : {0, 1, 3, 6}) {
          const auto want = sliced(start, end, step, dim);
          const std::vector<int64_t> values{dim};
          ASSERT_EQ(*r.size.eval(values), static_cast<int64_t>(want.size()))
              << start << ":" << end << ":" << step << " of " << dim;
          if (!want.empty()) {
            ASSERT_EQ(*r.start.eval(values), want[0])
                << start << ":" << end << ":" << step << " of " << dim;
          }
        }
      }
    }
  }
}

/// Dims that only a run can tell would send nodes to the host.
TEST(Models, ShapesStaySymbolic) {
  if (!has_models()) GTEST_SKIP() << "no models in " << models_dir();
  for (const char* name : {"bert", "magika", "llama_step", "minilm_int8", "ppocr_cls", "ppocr_det",
                           "ppocr_rec", "espcn", "vit", "unet", "ultraface", "resnet18"}) {
    const auto g = onnx::import_file((models_dir() / name / "model.onnx").string());
    ASSERT_TRUE(g.ok()) << name << ": " << g.status().message();
    for (size_t s = 0; s < (*g)->symbols.size(); ++s) {
      EXPECT_EQ((*g)->symbol_sources[s].kind, SymbolSource::Kind::InputDim)
          << name << ": " << (*g)->symbols[s].name;
    }
  }
}

TEST(Models, EveryNodeReachesTheCoreForm) {
  if (!has_models()) GTEST_SKIP() << "no models in " << models_dir();
  for (const char* name : {"bert", "magika", "llama_step", "minilm_int8", "ppocr_cls", "ppocr_det",
                           "ppocr_rec", "espcn", "vit", "unet", "ultraface", "resnet18",
                           "squeezenet_fp16", "mobilenet_v3_small", "mnist", "pointwise"}) {
    const auto g = onnx::import_file((models_dir() / name / "model.onnx").string());
    ASSERT_TRUE(g.ok()) << name << ": " << g.status().message();
    const Status s = decompose_all(**g);
    ASSERT_TRUE(s.ok()) << name << ": " << s.message();
    for (const auto& n : (*g)->nodes()) {
      EXPECT_TRUE(ops::is_core(*n)) << name << ": " << n->op.str() << " '" << n->name << "'";
    }
    const Status verified = graph::verify(**g, true);
    EXPECT_TRUE(verified.ok()) << name << ": " << verified.message();
  }
}

}  // namespace
}  // namespace reprise::test
