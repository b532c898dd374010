#include "codegen/families/decoder_graph.h"

#include <cmath>

#include "codegen/families/matrices.h"
#include "codegen/families/nodes.h"

namespace reprise::families {

namespace {

using builder::GraphBuilder;
using builder::kOmitted;
using builder::Value;

AttrMap axis_attr(int64_t axis) {
  AttrMap a;
  a.set("axis", axis);
  return a;
}

class DecoderWriter {
 public:
  DecoderWriter(GraphBuilder& b, const Decoder& d, const DecoderGraphOptions& o)
      : b_(b), n_(b), f_(d.facts), o_(o), w_(n_, d, o.floats) {}

  Status write() {
    RP_TRY(declare());
    Value x = embedded();
    full_ = angles(f_.rotary);
    const bool differ = f_.windowed_rotary.frequencies != f_.rotary.frequencies;
    windowed_ = differ ? angles(f_.windowed_rotary) : full_;
    for (int64_t i = 0; i < f_.layers && n_.ok(); ++i) x = layer(i, x);
    if (!o_.all_logits) x = last_row(x);
    Value y = logits(norm(x, Role::FinalNorm, 0, f_.hidden));
    RP_TRY(n_.status());
    RP_TRY(b_.output("logits", y));
    for (size_t i = 0; i < present_.size(); ++i) {
      const std::string name = "present." + std::to_string(i / 2);
      RP_TRY(b_.output(name + (i % 2 == 0 ? ".key" : ".value"), present_[i]));
    }
    return {};
  }

 private:
  struct Angles {
    Value cosine, sine;  // [batch, sequence, pairs]
  };

  Status declare() {
    constexpr int64_t kMost = int64_t{1} << 24;
    batch_ = Expr(o_.batch);
    sequence_ = Expr(o_.sequence);
    if (o_.batch == 0) {
      RP_ASSIGN(batch_, b_.symbol("batch", {1, kMost}));
    }
    if (o_.sequence == 0) {
      RP_ASSIGN(sequence_, b_.symbol("sequence", {1, f_.context}));
    }
    RP_ASSIGN(past_, b_.symbol("past", {0, f_.context}));
    RP_ASSIGN(ids_, b_.input("input_ids", DType::I64, {batch_, sequence_}));
    const Shape cache{batch_, f_.kv_heads, past_, f_.head_size};
    for (int64_t i = 0; i < f_.layers; ++i) {
      for (const char* part : {".key", ".value"}) {
        const std::string name = "past_key_values." + std::to_string(i) + part;
        RP_ASSIGN(past_values_.emplace_back(), b_.input(name, DType::F32, cache));
      }
    }
    return {};
  }

  Value embedded() {
    const Value x = w_.gather(ids_, Role::Embedding, f_.vocabulary, f_.hidden);
    if (!f_.family->scales_embeddings) return x;
    return n_.mul(x, n_.number(std::sqrt(static_cast<float>(f_.hidden))));
  }

  /// Cosines and sines of the positions behind the past.
  Angles angles(const Rotary& r) {
    const auto pairs = static_cast<int64_t>(r.frequencies.size());
    const Value one = n_.sizes({1}, true);
    const Value from = n_.sizes({past_}, true), to = n_.sizes({past_ + sequence_}, true);
    AttrMap to_float;
    to_float.set("to", int64_t{1});
    const Value row = n_.op("Cast", {n_.op("Range", {from, to, one})}, std::move(to_float));
    const Value frequencies =
        n_.constant("", HostTensor::from<float>(DType::F32, {1, 1, pairs}, r.frequencies));
    Value angle = n_.mul(n_.reshape(row, {1, sequence_, 1}), frequencies);
    if (o_.batch != 1) angle = n_.op("Expand", {angle, n_.sizes({batch_, sequence_, pairs})});
    Angles out{n_.op("Cos", {angle}), n_.op("Sin", {angle})};
    if (r.magnitude == 1) return out;
    const Value magnitude = n_.number(r.magnitude);
    return {n_.mul(out.cosine, magnitude), n_.mul(out.sine, magnitude)};
  }

  Value norm(Value x, Role role, int64_t layer, int64_t size) {
    const Value weight = w_.vector(role, layer, size, f_.norms_from_one ? 1.0F : 0.0F);
    AttrMap a = axis_attr(-1);
    a.set("epsilon", f_.epsilon);
    return n_.op("RMSNormalization", {x, weight}, std::move(a));
  }

  Value layer(int64_t i, Value x) {
    const bool norms_results = f_.family->norms_results;
    Value y = attention(i, norm(x, Role::AttentionNorm, i, f_.hidden));
    if (norms_results) y = norm(y, Role::AttentionResultNorm, i, f_.hidden);
    x = n_.add(x, y);
    y = feed_forward(i, norm(x, Role::FeedForwardNorm, i, f_.hidden));
    if (norms_results) y = norm(y, Role::FeedForwardResultNorm, i, f_.hidden);
    return n_.add(x, y);
  }

  struct Projections {
    Value query, key, value;
  };

  Projections projections(int64_t i, Value x) {
    const int64_t q = f_.heads * f_.head_size, kv = f_.kv_heads * f_.head_size;
    if (!f_.family->joins_projections || w_.has(Role::Query, i)) {
      return {w_.product(x, Role::Query, i, q, f_.hidden),
              w_.product(x, Role::Key, i, kv, f_.hidden),
              w_.product(x, Role::Value, i, kv, f_.hidden)};
    }
    const auto part = [&](int64_t first, int64_t count) {
      return w_.product(x, Role::QueryKeyValue, i, q + 2 * kv, f_.hidden, {first, count});
    };
    return {part(0, q), part(q, kv), part(q + kv, kv)};
  }

  /// Heads [batch, sequence, heads * size], normalised and rotated.
  Value rotated(Value v, int64_t i, int64_t heads, Role norm_role) {
    if (f_.family->norms_heads) {
      v = n_.reshape(v, {batch_, sequence_, heads, f_.head_size});
      v = norm(v, norm_role, i, f_.head_size);
      v = n_.reshape(v, {batch_, sequence_, heads * f_.head_size});
    }
    const bool windowed = f_.windowed[static_cast<size_t>(i)];
    const Angles& at = windowed ? windowed_ : full_;
    AttrMap a;
    a.set("num_heads", heads);
    a.set("rotary_embedding_dim",
          static_cast<int64_t>((windowed ? f_.windowed_rotary : f_.rotary).frequencies.size()) * 2);
    return n_.op("RotaryEmbedding", {v, at.cosine, at.sine}, std::move(a));
  }

  Value attention(int64_t i, Value x) {
    const Projections p = projections(i, x);
    const auto at = static_cast<size_t>(i) * 2;
    AttrMap a;
    a.set("is_causal", int64_t{1});
    a.set("q_num_heads", f_.heads);
    a.set("kv_num_heads", f_.kv_heads);
    a.set("scale", static_cast<float>(f_.score_scale));
    if (f_.score_cap > 0) a.set("softcap", static_cast<float>(f_.score_cap));
    if (f_.windowed[static_cast<size_t>(i)]) a.set("left_window_size", f_.window - 1);
    const auto results = n_.all("Attention",
                                {rotated(p.query, i, f_.heads, Role::QueryNorm),
                                 rotated(p.key, i, f_.kv_heads, Role::KeyNorm), p.value, kOmitted,
                                 past_values_[at], past_values_[at + 1]},
                                std::move(a), 3);
    present_.push_back(results[1]);
    present_.push_back(results[2]);
    return w_.product(results[0], Role::AttentionResult, i, f_.hidden, f_.heads * f_.head_size);
  }

  Value feed_forward(int64_t i, Value x) {
    const int64_t size = f_.intermediate;
    Value gate = kOmitted, up = kOmitted;
    if (f_.family->joins_projections && !w_.has(Role::Gate, i)) {
      gate = w_.product(x, Role::GateUp, i, 2 * size, f_.hidden, {0, size});
      up = w_.product(x, Role::GateUp, i, 2 * size, f_.hidden, {size, size});
    } else {
      gate = w_.product(x, Role::Gate, i, size, f_.hidden);
      up = w_.product(x, Role::Up, i, size, f_.hidden);
    }
    return w_.product(n_.mul(activated(gate), up), Role::Down, i, f_.hidden, size);
  }

  Value activated(Value v) {
    if (f_.family->gate == GatedBy::Silu) return n_.mul(v, n_.op("Sigmoid", {v}));
    AttrMap a;
    a.set("approximate", std::string("tanh"));
    return n_.op("Gelu", {v}, std::move(a));
  }

  Value last_row(Value x) {
    builder::CoreNode n;
    n.op = "Slice";
    n.inputs = {x};
    n.attrs.set("starts", std::vector<Expr>{0, sequence_ - 1, 0});
    n.attrs.set("steps", std::vector<Expr>{1, 1, 1});
    n.type = std::pair(DType::F32, Shape{batch_, 1, f_.hidden});
    return n_.core(n);
  }

  Value logits(Value x) {
    const Role role = w_.has(Role::Head, 0) ? Role::Head : Role::Embedding;
    const Value y = w_.product(x, role, 0, f_.vocabulary, f_.hidden);
    if (f_.logit_cap <= 0) return y;
    const Value cap = n_.number(static_cast<float>(f_.logit_cap));
    return n_.mul(n_.op("Tanh", {n_.op("Div", {y, cap})}), cap);
  }

  GraphBuilder& b_;
  Nodes n_;
  const DecoderFacts& f_;
  const DecoderGraphOptions& o_;
  Matrices w_;
  Expr batch_, sequence_, past_;
  Value ids_;
  std::vector<Value> past_values_, present_;  // key and value of each layer
  Angles full_, windowed_;
};

}  // namespace

Result<builder::BuiltGraph> build_decoder(const Decoder& decoder,
                                          const DecoderGraphOptions& options) {
  GraphBuilder b("decoder");
  RP_TRY(DecoderWriter(b, decoder, options).write().with_context(decoder.path));
  return b.finish();
}

}  // namespace reprise::families
