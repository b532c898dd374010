// Decompositions of Attention and RotaryEmbedding, against their host kernels.
#include "tests/ops/decomposition.h"

namespace reprise::test {
namespace {

class DecomposeAttention : public testing::TestWithParam<Decomposition> {};

TEST_P(DecomposeAttention, KeepsTheMeaning) {
  check_decomposition(GetParam());
}

#define QKV "input q: float32[2,4,3,8], k: float32[2,4,5,8], v: float32[2,4,5,6]\n"
#define GROUPED "input q: float32[2,4,3,8], k: float32[2,2,5,8], v: float32[2,2,5,6]\n"
#define PAST                                                              \
  "input q: float32[2,4,s,8], k: float32[2,2,s,8], v: float32[2,2,s,8], " \
  "pk: float32[2,2,past,8], pv: float32[2,2,past,8]\n"

const Decomposition kAttention[] = {
    {"Plain", QKV "y = Attention(q, k, v) @23\noutput y"},
    {"Scale", QKV "y = Attention<scale=0.5>(q, k, v) @23\noutput y"},
    {"SoftCap", QKV "y = Attention<softcap=2.0>(q, k, v) @23\noutput y"},
    {"SoftmaxPrecision", QKV "y = Attention<softmax_precision=1>(q, k, v) @23\noutput y"},
    {"Causal", QKV "y = Attention<is_causal=1>(q, k, v) @23\noutput y"},
    {"Packed",
     "input q: float32[2,3,32], k: float32[2,5,32], v: float32[2,5,24]\n"
     "y = Attention<q_num_heads=4, kv_num_heads=4>(q, k, v) @23\noutput y"},
    {"PackedGrouped",
     "input q: float32[b,s,32], k: float32[b,t,16], v: float32[b,t,24]\n"
     "y = Attention<q_num_heads=4, kv_num_heads=2>(q, k, v) @23\noutput y"},
    {"Half",
     "input q: float16[1,4,3,8], k: float16[1,2,5,8], v: float16[1,2,5,8]\n"
     "y = Attention<is_causal=1>(q, k, v) @23\noutput y"},
    {"Grouped", GROUPED "y = Attention(q, k, v) @23\noutput y"},
    {"GroupedCausal", GROUPED "y = Attention<is_causal=1>(q, k, v) @23\noutput y"},
    {"OneHeadOfKeys",
     "input q: float32[1,4,3,8], k: float32[1,1,5,8], v: float32[1,1,5,6]\n"
     "y = Attention<is_causal=1>(q, k, v) @23\noutput y"},
    {"Mask", QKV "input m: float32[3,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfBatches", QKV "input m: float32[2,1,3,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfKeys", QKV "input m: float32[5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskInfinite",
     QKV "const m: float32[3,5]{-inf, -inf, -inf, -inf, -inf, 0, 1, -inf, 0, 2, 0, -inf, 0, 0, 0}\n"
         "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskBool", QKV "input m: bool[3,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskBoolHidesRows", QKV "const m: bool[3,5]{true, false, true, false, true, false, false, "
                              "false, false, false, false, true, true, true, true}\n"
                              "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskBoolCausal",
     QKV "input m: bool[2,4,3,5]\ny = Attention<is_causal=1>(q, k, v, m) @23\noutput y"},
    {"MaskShort", QKV "input m: bool[3,4]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskShortFloat", QKV "input m: float32[1,3,1]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfOtherSymbols",
     "input m: float32[mb,1,ml,mt], q: float32[b,2,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8]\n"
     "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfOtherSymbolsGrouped",
     "input m: bool[ml,mt], q: float32[b,4,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8]\n"
     "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfConstants",
     "input m: float32[2,1,3,2], q: float32[b,2,l,8], k: float32[b,2,s,8], v: float32[b,2,s,8]\n"
     "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskHalf",
     "input q: float16[1,4,3,8], k: float16[1,2,5,8], v: float16[1,2,5,8], m: float16[3,5]\n"
     "y = Attention(q, k, v, m) @23\noutput y"},
    {"MaskOfInfiniteScores", QKV
     "const m: float32[5]{0, -inf, -inf, 1, 0}\nconst large: float32[2,1,1,1]{1, inf}\n"
     "const sign: float32[5,1]{-1, 1, 1, -1, -1}\nconst one: float32[8]{1, 1, 1, 1, 1, 1, 1, 1}\n"
     "qa = Abs(q) @13\nql = Mul(qa, large) @14\nks = Mul(sign, one) @14\n"
     "kz = Mul(k, k) @14\nkn = Add(kz, one) @14\nkl = Mul(kn, ks) @14\n"
     "(y, _, _, s) = Attention<qk_matmul_output_mode=2>(ql, kl, v, m) @23\n"
     "output y\noutput s"},
    {"MaskGrouped", GROUPED "input m: bool[3,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskGroupedHeads",
     GROUPED "input m: float32[2,4,3,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskGroupedKeys", GROUPED "input m: float32[4,1,5]\ny = Attention(q, k, v, m) @23\noutput y"},
    {"MaskGroupedBatches",
     GROUPED "input m: bool[2,1,1,5]\ny = Attention<is_causal=1>(q, k, v, m) @23\noutput y"},
    {"Past",
     PAST "(y, nk, nv) = Attention(q, k, v, _, pk, pv) @23\noutput y\noutput nk\noutput nv"},
    {"PastCausal", PAST "(y, nk, nv) = Attention<is_causal=1>(q, k, v, _, pk, pv) @23\n"
                        "output y\noutput nk\noutput nv"},
    {"PastMask", PAST "input m: bool[s,past+s]\n"
                      "(y, nk, nv) = Attention<softcap=3.0, is_causal=1>(q, k, v, m, pk, pv) @23\n"
                      "output y\noutput nk\noutput nv"},
    {"PresentWithoutPast",
     GROUPED "(y, nk, nv) = Attention(q, k, v) @23\noutput y\noutput nk\noutput nv"},
    {"Scores", GROUPED "(y, _, _, s) = Attention(q, k, v) @23\noutput y\noutput s"},
    {"ScoresCapped",
     QKV "(y, _, _, s) = Attention<softcap=1.5, qk_matmul_output_mode=1>(q, k, v) @23\n"
         "output y\noutput s"},
    {"ScoresMasked",
     GROUPED "(y, _, _, s) = Attention<is_causal=1, qk_matmul_output_mode=2>(q, k, v) @23\n"
             "output y\noutput s"},
    {"ScoresAsWeights", GROUPED
     "const m: bool[3,5]{true, false, true, false, true, false, false, false, false, false, false, "
     "true, true, true, true}\n"
     "(y, _, _, s) = Attention<qk_matmul_output_mode=3>(q, k, v, m) @23\noutput y\noutput s"},
    {"Padding", QKV "const n: int64[2]{2, 5}\ny = Attention(q, k, v, _, _, _, n) @24\noutput y"},
    {"PaddingCausal", GROUPED "const n: int64[2]{4, 1}\n"
                              "y = Attention<is_causal=1>(q, k, v, _, _, _, n) @24\noutput y"},
    {"PaddingAsInput",
     "input n: int64[m], q: float32[b,2,3,8], k: float32[b,2,5,8], v: float32[b,2,5,8]\n"
     "y = Attention<is_causal=1>(q, k, v, _, _, _, n) @24\noutput y",
     0, 6},
    {"InfiniteValuesHidden", QKV "const n: int64[2]{2, 5}\nconst e: float32[5,1]{1, 1, 1, 1, inf}\n"
                                 "va = Abs(v) @13\nvi = Mul(va, e) @14\n"
                                 "y = Attention(q, k, vi, _, _, _, n) @24\noutput y"},
    {"InfiniteValuesOfHiddenRows",
     QKV "const m: bool[3,1]{true, false, true}\nconst n: int64[2]{0, 5}\n"
         "const e: float32[5,1]{1, inf, 1, 1, 1}\nva = Abs(v) @13\nvi = Mul(va, e) @14\n"
         "y = Attention(q, k, vi, m, _, _, n) @24\noutput y"},
    {"Window", QKV "y = Attention<is_causal=1, left_window_size=1>(q, k, v) @24\noutput y"},
    {"WindowBothSides",
     GROUPED "y = Attention<left_window_size=0, right_window_size=2>(q, k, v) @24\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Attention, DecomposeAttention, testing::ValuesIn(kAttention),
                         decomposition_name);

#define CACHES "input c: float32[2,3,4], s: float32[2,3,4]\n"
#define POSITIONS "input c: float32[9,4], s: float32[9,4]\nconst p: int64[2,3]{8, 0, 3, 3, 2, 1}\n"

const Decomposition kRotary[] = {
    {"Halves", "input x: float32[2,4,3,8]\n" CACHES "y = RotaryEmbedding(x, c, s) @23\noutput y"},
    {"Interleaved", "input x: float32[2,4,3,8]\n" CACHES
                    "y = RotaryEmbedding<interleaved=1>(x, c, s) @23\noutput y"},
    {"Positions",
     "input x: float32[2,4,3,8]\n" POSITIONS "y = RotaryEmbedding(x, c, s, p) @23\noutput y"},
    {"PositionsFromTheEnd",
     "input x: float32[2,4,3,8], c: float32[9,4], s: float32[9,4]\n"
     "const p: int64[2,3]{-1, 0, -9, 8, -2, 1}\ny = RotaryEmbedding(x, c, s, p) @23\noutput y"},
    {"PositionsInterleaved", "input x: float32[2,4,3,8]\n" POSITIONS
                             "y = RotaryEmbedding<interleaved=1>(x, c, s, p) @23\noutput y"},
    {"Packed", "input x: float32[2,3,32]\n" POSITIONS
               "y = RotaryEmbedding<num_heads=4>(x, c, s, p) @23\noutput y"},
    {"Part", "input x: float32[2,4,3,12]\n" CACHES
             "y = RotaryEmbedding<rotary_embedding_dim=8>(x, c, s) @23\noutput y"},
    {"PartInterleavedPacked",
     "input x: float32[2,3,40]\n" CACHES
     "y = RotaryEmbedding<rotary_embedding_dim=8, num_heads=4, interleaved=1>(x, c, s) @23\n"
     "output y"},
    {"Symbolic",
     "input x: float16[b,3,n,8], c: float16[b,n,4], s: float16[b,n,4]\n"
     "y = RotaryEmbedding(x, c, s) @23\noutput y"},
};
INSTANTIATE_TEST_SUITE_P(Rotary, DecomposeAttention, testing::ValuesIn(kRotary),
                         decomposition_name);

}  // namespace
}  // namespace reprise::test
