// Operators of com.microsoft on weights of few bits in blocks, and mixtures of experts, written in
// operators of ONNX.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <cmath>
#include <limits>
#include <string>

#include "codegen/ops/math/quantized.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using graph::kNone;
using V = OpBuilder::V;

bool is_power_of_two(int64_t v) {
  return v > 0 && (v & (v - 1)) == 0;
}

// --- GatherBlockQuantized ------------------------------------------------------------------------

/// The tensor that a constant of bytes holds in fewer bits along its last axis, of which `last`
/// numbers count.
V unpacked_bytes(Composer& c, size_t i, int64_t bits, int64_t last) {
  const graph::Value& v = c.rewriter().input(i);
  if (v.contents() == nullptr || v.shape.empty() || !v.shape.back().is_const()) {
    c.refuse(Code::Unsupported, "input '" + v.name +
                                    "' must be constant, so that it is unpacked once; make it an "
                                    "initialiser");
    return kNone;
  }
  Shape to = v.shape;
  const int64_t bytes = to.back().value();
  if ((last * bits + 7) / 8 != bytes) {
    c.refuse(Code::InvalidModel, "input '" + v.name + "' has rows of " + std::to_string(bytes) +
                                     " bytes, expected " + std::to_string(last) + " numbers");
    return kNone;
  }
  to.back() = Expr(last);
  const int64_t rows = bytes == 0 ? 0 : v.contents()->count() / bytes;
  return c.reshape(c.constant(unpacked(*v.contents(), rows, last, bytes, bits)), to);
}

/// The middle of the numbers, which is the zero point of bytes that have none.
V middle(Composer& c, int64_t bits, V scales) {
  return c.expand(c.scalar(DType::U8, std::ldexp(1.0, static_cast<int>(bits) - 1)),
                  c.shape(scales));
}

struct BlockAxes {
  int64_t gather = 0, quantize = 0, block = 0, bits = 0;
};

/// Checks the axes of GatherBlockQuantized.
BlockAxes block_axes(Composer& c) {
  BlockAxes a;
  const InferContext ctx(c.rewriter().graph(), c.rewriter().node());
  const auto rank = std::ssize(c.shape(c.in(0)));
  const auto axis = [&](const char* name) {
    const auto at = ctx.axis(c.attrs().get_int(name), rank);
    if (!at.ok()) c.fail(at.status());
    return at.ok() ? *at : 0;
  };
  a.gather = axis("gather_axis");
  a.quantize = axis("quantize_axis");
  a.block = c.attrs().get_int("block_size");
  a.bits = c.attrs().get_int("bits");
  if (a.gather == a.quantize)
    c.refuse(Code::InvalidModel, "gather_axis and quantize_axis are equal");
  if (!is_power_of_two(a.block) || a.block < 16)
    c.refuse(Code::InvalidModel, "block_size must be a power of two of at least 16");
  if (a.bits != 2 && a.bits != 4 && a.bits != 8)
    c.refuse(Code::Unsupported, "bits is " + std::to_string(a.bits) + "; 2, 4 and 8 are supported");
  if (c.dtype(c.in(0)) == DType::U8 && a.bits != 8 && a.quantize != rank - 1)
    c.refuse(Code::InvalidModel, "numbers in bytes must be packed along the quantize_axis");
  return a;
}

/// Rows of a matrix of bytes, which is kept as MatMulNBits keeps its weight: in models whose
/// embedding is also the weight of the last layer, both are one constant.
V rows_of_columns(Composer& c, int64_t bits) {
  const graph::Value& v = c.rewriter().input(0);
  const int64_t rows = v.contents()->dims()[0], bytes = v.contents()->dims()[1];
  const V columns =
      c.constant(weight_columns(*v.contents(), rows, bytes * 8 / bits, bytes, bits, c.has(3)));
  const V chosen = c.model("Gather", {columns, c.in(1)}, attributes({{"axis", 1}}));
  std::vector<int64_t> last_first;
  for (int64_t i = 1; i < std::ssize(c.shape(chosen)); ++i) last_first.push_back(i);
  last_first.push_back(0);
  return c.model("Transpose", {chosen}, attributes({{"perm", last_first}}));
}

Result<bool> gather_blocks(Rewriter& rw) {
  Composer c(rw);
  const BlockAxes axes = block_axes(c);
  const DType t = c.dtype(c.in(0));
  if (t != DType::U8 && t != DType::U4 && t != DType::I4)
    c.refuse(Code::Unsupported,
             "data is " + std::string(name_of(t)) + "; supported are uint8, uint4 and int4");
  if (!c.ok()) return c.finish();
  V data = c.in(0), zeros = c.input(3);
  const Shape scales = c.shape(c.in(2));
  const HostTensor* table = rw.input(0).contents();
  const bool is_matrix =
      t == DType::U8 && table != nullptr && table->dims().size() == 2 && axes.gather == 0;
  if (t == DType::U8 && axes.bits != 8) {
    const Expr last = c.shape(data).back();
    if (!is_matrix)
      data = unpacked_bytes(c, 0, axes.bits, last.is_const() ? last.value() * 8 / axes.bits : 0);
    if (zeros != kNone && c.ok())
      zeros = unpacked_bytes(c, 3, axes.bits, scales.back().is_const() ? scales.back().value() : 0);
  }
  const auto rows = [&](V from) {
    return c.model("Gather", {from, c.in(1)}, attributes({{"axis", axes.gather}}));
  };
  const V scale = rows(c.in(2));
  const V chosen = is_matrix && c.ok() ? rows_of_columns(c, axes.bits) : rows(data);
  V zero = zeros == kNone ? kNone : rows(zeros);
  if (is_matrix && zero != kNone) zero = c.cast(zero, c.dtype(chosen));
  if (zeros == kNone && t == DType::U8 && !is_matrix) zero = middle(c, axes.bits, scale);
  const int64_t added = std::ssize(c.shape(c.in(1))) - 1;
  const int64_t axis = axes.quantize > axes.gather ? axes.quantize + added : axes.quantize;
  c.replace(0, c.model("DequantizeLinear", {chosen, scale, zero},
                       attributes({{"axis", axis}, {"block_size", axes.block}})));
  return c.finish();
}

// --- MatMulBnb4 ----------------------------------------------------------------------------------

// The numbers that the codes of bitsandbytes stand for.
constexpr float kFp4[] = {
    0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
constexpr float kNf4[] = {-1.0F,
                          -0.6961928009986877F,
                          -0.5250730514526367F,
                          -0.39491748809814453F,
                          -0.28444138169288635F,
                          -0.18477343022823334F,
                          -0.09105003625154495F,
                          0.0F,
                          0.07958029955625534F,
                          0.16093020141124725F,
                          0.24611230194568634F,
                          0.33791524171829224F,
                          0.44070982933044434F,
                          0.5626170039176941F,
                          0.7229568362236023F,
                          1.0F};

/// The numbers of `count` codes. The first one of a byte is in its high half.
std::vector<float> decoded(const HostTensor& packed, int64_t count, std::span<const float> table) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(packed.bytes()[i / 2]);
    out[i] = table[i % 2 == 0 ? byte >> 4U : byte & 15U];
  }
  return out;
}

Result<bool> matmul_bnb4(Rewriter& rw) {
  Composer c(rw);
  const int64_t k = c.attrs().get_int("K"), n = c.attrs().get_int("N");
  const int64_t block = c.attrs().get_int("block_size"), kind = c.attrs().get_int("quant_type");
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (k < 1 || n < 1 || k >= kLargest || n >= kLargest || !is_power_of_two(block) || block < 16 ||
      block >= kLargest || kind < 0 || kind > 1) {
    c.refuse(Code::InvalidModel,
             "K and N must be positive, block_size a power of two of at least 16, and quant_type 0 "
             "or 1");
    return c.finish();
  }
  const int64_t blocks = (n * k + block - 1) / block;
  const graph::Value& packed = rw.input(1);
  if (c.attrs().get_int("transB") == 0 || c.attrs().get_int("training_mode") != 0)
    c.refuse(Code::Unsupported, "transB = 0 and training_mode are not supported");
  if (packed.contents() == nullptr || packed.dtype != DType::U8)
    c.refuse(Code::Unsupported, "B must be a constant of uint8; make it an initialiser");
  if (!c.ok()) return c.finish();
  if (packed.contents()->count() != (n * k + 1) / 2 ||
      !element_count(c.shape(c.in(2))).is_const(blocks)) {
    c.refuse(Code::InvalidModel, "B must have " + std::to_string((n * k + 1) / 2) +
                                     " bytes, and absmax " + std::to_string(blocks) + " numbers");
    return c.finish();
  }
  std::vector<float> numbers = decoded(*packed.contents(), n * k, kind == 0 ? kFp4 : kNf4);
  numbers.resize(static_cast<size_t>(blocks * block));
  const V table = c.constant(HostTensor::from<float>(DType::F32, {blocks, block}, numbers));
  const V scale = c.cast(c.reshape(c.in(2), {blocks, 1}), DType::F32);
  const V flat = c.reshape(c.mul(table, scale), {blocks * block});
  const V weight = c.reshape(c.slice_axis(flat, 0, 0, n * k), {n, k});
  const DType t = c.dtype(c.in(0));
  c.replace(0, c.model("MatMul", {c.in(0), c.transpose(c.cast(weight, t), {1, 0})}));
  return c.finish();
}

// --- MoE, QMoE -----------------------------------------------------------------------------------

/// The weights of the experts [experts, outputs, inputs] and their biases [experts, outputs], which
/// may be kNone, in float32.
struct Layer {
  V weight = kNone, bias = kNone;
};

struct Experts {
  Layer first, second, third;  // the third may have no weight
  V selection = kNone;         // [tokens, experts], from which the experts are chosen
  V mixture = kNone;           // the same, or kNone: the weights of the chosen ones
};

class MixtureWriter {
 public:
  MixtureWriter(Composer& c, Experts experts) : c_(c), e_(experts) {
    const Shape x = c.shape(c.in(0)), w = c.shape(e_.first.weight);
    if (c.ok() && ((x.size() != 2 && x.size() != 3) || w.size() != 3 ||
                   c.shape(e_.second.weight).size() != 3 || c.shape(e_.selection).size() != 2 ||
                   !w[0].is_const())) {
      c.refuse(Code::InvalidModel,
               "the input must have rank 2 or 3, router_probs rank 2, and the weights rank 3 and a "
               "constant number of experts");
    }
    if (!is_float(c.dtype(c.in(0)))) c.refuse(Code::InvalidModel, "the input must be floats");
    if (!c.ok()) return;
    tokens_ = product(x, 0, x.size() - 1);
    count_ = w[0].value();
  }

  void write() {
    if (!c_.ok()) return;
    const Shape s = c_.shape(c_.in(0));
    const V x = c_.reshape(c_.cast(c_.in(0), DType::F32), {1, tokens_, s.back()});
    V hidden = activated(applied(x, e_.first));
    if (e_.third.weight != kNone) hidden = c_.model("Mul", {hidden, applied(x, e_.third)});
    const V results = applied(hidden, e_.second);
    const V share = c_.reshape(c_.transpose(shares(), {1, 0}), {count_, tokens_, 1});
    const V sum = c_.reduce("ReduceSum", c_.model("Mul", {results, share}), {0});
    c_.replace(0, c_.cast(c_.reshape(sum, s), c_.dtype(c_.in(0))));
  }

 private:
  /// Every expert is applied to every token, because a graph cannot choose what it computes.
  V applied(V x, const Layer& layer) {
    const V y = c_.model("MatMul", {x, c_.transpose(layer.weight, {0, 2, 1})});
    if (layer.bias == kNone || !c_.ok()) return y;
    const Shape b = c_.shape(layer.bias);
    if (b.size() != 2) c_.refuse(Code::InvalidModel, "a bias must have rank 2");
    if (!c_.ok()) return y;
    return c_.model("Add", {y, c_.reshape(layer.bias, {b[0], 1, b[1]})});
  }

  V activated(V h) {
    const std::string kind = c_.attrs().get_string("activation_type");
    if (kind == "relu") return c_.model("Relu", {h});
    if (kind == "gelu") return c_.op("GeluTanh", {h});
    if (kind == "silu") return c_.mul(h, c_.model("Sigmoid", {h}));
    if (kind == "identity") return h;
    if (kind == "swiglu") return gated(h);
    c_.refuse(Code::Unsupported,
              "activation_type '" + kind + "'; known: relu, gelu, silu, swiglu, identity");
    return h;
  }

  /// The gates and linear parts of SwiGLU are columns of one product.
  V gated(V h) {
    const int64_t fusion = c_.attrs().get_int("swiglu_fusion");
    if (fusion != 1 && fusion != 2)
      c_.refuse(Code::Unsupported,
                "swiglu_fusion is " + std::to_string(fusion) + ", must be 1 or 2");
    if (!c_.ok()) return h;
    const Shape s = c_.shape(h);
    const Expr half = Expr::floordiv(s[2], 2);
    const auto part = [&](int64_t which) {
      if (fusion == 2) return c_.slice_axis(h, 2, Expr(which) * half, half);
      return c_.reshape(c_.slice_axis(c_.reshape(h, {s[0], s[1], half, 2}), 3, which, 1),
                        {s[0], s[1], half});
    };
    AttrMap a = c_.given({"activation_alpha", "activation_beta"});
    if (const auto* limit = c_.attrs().get<float>("swiglu_limit")) a.set("limit", *limit);
    return c_.microsoft("SwiGLU", {part(0), part(1)}, std::move(a));
  }

  /// [tokens, experts]: the weights of the k likeliest experts of each token, and 0 elsewhere.
  V shares() {
    const int64_t k = c_.attrs().get_int("k");
    if (k < 1 || k > count_)
      c_.refuse(Code::InvalidModel,
                "k is " + std::to_string(k) + ", with " + std::to_string(count_) + " experts");
    if (c_.attrs().get_int("use_sparse_mixer") != 0)
      c_.refuse(Code::Unsupported, "use_sparse_mixer is not supported");
    const V logits = c_.cast(e_.selection, DType::F32);
    const V likely = c_.model("Softmax", {logits});
    const V weights = e_.mixture == kNone ? likely : c_.cast(e_.mixture, DType::F32);
    const V chosen = k <= kMostRounds ? chosen_in_rounds(logits, k) : chosen_by_order(logits, k);
    const V share = c_.where(chosen, weights, c_.scalar(DType::F32, 0));
    if (c_.attrs().get_int("normalize_routing_weights") == 0) return share;
    return c_.div(share, c_.reduce("ReduceSum", share, {1}));
  }

  V experts() { return c_.reshape(c_.range(count_), {1, count_}); }

  /// The k largest numbers of each row, as bool. Of equal ones, ONNX Runtime takes the last.
  V chosen_in_rounds(V logits, int64_t k) {
    V chosen = kNone;
    for (int64_t round = 0; round < k; ++round) {
      const V best =
          c_.model("ArgMax", {logits},
                   attributes({{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}}));
      const V hit = c_.op("Equal", {best, experts()});
      chosen = chosen == kNone ? hit : c_.op("Or", {chosen, hit});
      const V none = c_.scalar(DType::F32, -std::numeric_limits<double>::infinity());
      logits = c_.where(hit, none, logits);
    }
    return chosen;
  }

  /// The same for a large k, on the host.
  V chosen_by_order(V logits, int64_t k) {
    const V best = c_.model_all("TopK", {logits, c_.ints({k})}, {}, 2)[1];
    const V hits = c_.op("Equal", {c_.reshape(best, {tokens_, k, 1}), experts()});
    const V any = c_.reduce("ReduceMax", c_.cast(hits, DType::I32), {1});
    return c_.cast(c_.reshape(any, {tokens_, count_}), DType::Bool);
  }

  static constexpr int64_t kMostRounds = 16;

  Composer& c_;
  Experts e_;
  Expr tokens_;
  int64_t count_ = 0;
};

V wide_input(Composer& c, size_t i) {
  return c.has(i) ? c.cast(c.in(i), DType::F32) : kNone;
}

Result<bool> experts(Rewriter& rw) {
  Composer c(rw);
  if (!c.has(2) || !c.has(4)) c.refuse(Code::InvalidModel, "the weights are missing");
  if (c.attrs().get_int("swiglu_limit_after_activation") != 0)
    c.refuse(Code::Unsupported, "swiglu_limit_after_activation is not supported");
  if (!c.ok()) return c.finish();
  Experts e;
  e.first = {wide_input(c, 2), wide_input(c, 3)};
  e.second = {wide_input(c, 4), wide_input(c, 5)};
  e.third = {wide_input(c, 6), wide_input(c, 7)};
  e.selection = c.in(1);
  MixtureWriter(c, e).write();
  return c.finish();
}

/// Weights [experts, outputs, inputs], of inputs 3 * layer + 2 and the two after it, as floats.
Layer quantized_layer(Composer& c, size_t layer) {
  const size_t first = 3 * layer + 2, zero = 11 + layer;
  if (!c.has(first)) return {};
  const char* kBits[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                         "fc3_expert_weight_bits"};
  const int64_t bits =
      c.attrs().get_or<int64_t>(kBits[layer], c.attrs().get_int("expert_weight_bits"));
  const Shape w = c.shape(c.in(first));
  if (bits != 2 && bits != 4 && bits != 8)
    c.refuse(Code::Unsupported,
             "weights of " + std::to_string(bits) + " bits; 2, 4 and 8 are known");
  if (!c.has(first + 1) || w.size() != 3 || !is_static(w))
    c.refuse(Code::InvalidModel, "quantised weights must have rank 3, static dims, and scales");
  if (!c.ok()) return {};
  const int64_t rows = w[0].value() * w[1].value(), columns = w[2].value() * 8 / bits;
  const int64_t given = c.attrs().get_int("block_size"), block = given > 0 ? given : columns;
  const int64_t blocks = (columns + block - 1) / block;
  const V q = c.reshape(unpacked_bytes(c, first, bits, columns), {rows, columns});
  if (!c.ok()) return {};
  if (!element_count(c.shape(c.in(first + 1))).is_const(rows * blocks))
    c.refuse(Code::InvalidModel, "there must be one scale for each block of a weight");
  const V scales = c.cast(c.reshape(c.in(first + 1), {rows, blocks}), DType::F32);
  V zeros = middle(c, bits, scales);
  if (c.has(zero)) {
    // Without blocks, the zero points of an expert are packed together.
    zeros = given > 0 ? unpacked_bytes(c, zero, bits, blocks)
                      : unpacked_bytes(c, zero, bits, w[1].value());
    zeros = c.reshape(zeros, {rows, blocks});
  }
  const V weight = c.model("DequantizeLinear", {q, scales, zeros},
                           attributes({{"axis", int64_t{1}}, {"block_size", block}}));
  return {c.reshape(weight, {w[0], w[1], columns}), wide_input(c, first + 2)};
}

Result<bool> quantized_experts(Rewriter& rw) {
  Composer c(rw);
  if (c.attrs().get_string("quant_type") != "int")
    c.refuse(Code::Unsupported,
             "quant_type '" + c.attrs().get_string("quant_type") + "'; only 'int' is supported");
  if (c.attrs().get_int("weights_prepacked") != 0)
    c.refuse(Code::Unsupported,
             "weights_prepacked is not 0, so the layout of the weights depends on the device; set "
             "it to 0 if they are [experts, outputs, packed inputs]");
  if (c.attrs().get_int("swiglu_limit_after_activation") != 0)
    c.refuse(Code::Unsupported, "swiglu_limit_after_activation is not supported");
  for (size_t i = 15; i < rw.node().inputs.size(); ++i) {
    if (c.has(i)) c.refuse(Code::Unsupported, "scales of activations are not supported");
  }
  if (!c.has(2) || !c.has(5)) c.refuse(Code::InvalidModel, "the weights are missing");
  if (!c.ok()) return c.finish();
  Experts e;
  e.first = quantized_layer(c, 0);
  e.second = quantized_layer(c, 1);
  e.third = quantized_layer(c, 2);
  e.selection = c.in(1);
  e.mixture = c.input(14);
  if (!c.ok()) return c.finish();
  MixtureWriter(c, e).write();
  return c.finish();
}

constexpr AttrDecl kGatherAttrs[] = {int_attr("bits", 4), int_attr("block_size", 128),
                                     int_attr("gather_axis", 0), int_attr("quantize_axis", 1)};
constexpr AttrDecl kBnbAttrs[] = {required_attr("K", AttrType::Int),
                                  required_attr("N", AttrType::Int),
                                  required_attr("block_size", AttrType::Int),
                                  required_attr("quant_type", AttrType::Int),
                                  int_attr("training_mode", 0),
                                  int_attr("transB", 1)};
constexpr AttrDecl kMoeAttrs[] = {float_attr("activation_alpha", 1.0F),
                                  float_attr("activation_beta", 0.0F),
                                  string_attr("activation_type", "relu"),
                                  int_attr("k", 1),
                                  int_attr("normalize_routing_weights", 0),
                                  int_attr("swiglu_fusion", 0),
                                  optional_attr("swiglu_limit", AttrType::Float),
                                  int_attr("swiglu_limit_after_activation", 0),
                                  int_attr("use_sparse_mixer", 0)};
constexpr AttrDecl kQMoeAttrs[] = {int_attr("accuracy_level", 0),
                                   float_attr("activation_alpha", 1.0F),
                                   float_attr("activation_beta", 0.0F),
                                   string_attr("activation_type", "relu"),
                                   int_attr("block_size", 0),
                                   int_attr("expert_weight_bits", 4),
                                   optional_attr("fc1_expert_weight_bits", AttrType::Int),
                                   optional_attr("fc2_expert_weight_bits", AttrType::Int),
                                   optional_attr("fc3_expert_weight_bits", AttrType::Int),
                                   int_attr("k", 1),
                                   int_attr("normalize_routing_weights", 0),
                                   string_attr("quant_type", "int"),
                                   int_attr("swiglu_fusion", 0),
                                   optional_attr("swiglu_limit", AttrType::Float),
                                   int_attr("swiglu_limit_after_activation", 0),
                                   int_attr("use_sparse_mixer", 0),
                                   int_attr("weights_prepacked", -1)};
}  // namespace

std::span<const OpDef> microsoft_experts_ops() {
  static constexpr OpDef kOps[] = {
      of_low_bits(composed_row("GatherBlockQuantized", gather_blocks, {3, 4}, kGatherAttrs)),
      composed_row("MatMulBnb4", matmul_bnb4, {3, 3}, kBnbAttrs),
      composed_row("MoE", experts, {3, 8}, kMoeAttrs),
      composed_row("QMoE", quantized_experts, {3, 21}, kQMoeAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
