// Attention, recurrent layers, losses, sampling.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

bool attention(Maker& m) {
  const DType t = m.random_float();
  const Expr batch = m.random_dim(), queries = m.random_dim(), keys = m.random_dim();
  const int64_t kv_heads = m.rng.in(1, 2), heads = kv_heads * m.rng.in(1, 3);
  const int64_t depth = m.rng.in(1, 8), columns = m.rng.chance(0.6) ? depth : m.rng.in(1, 8);
  AttrMap attrs;
  std::vector<V> inputs;
  if (m.rng.chance(0.3)) {
    attrs.set("q_num_heads", heads);
    attrs.set("kv_num_heads", kv_heads);
    inputs = {m.operand(t, {batch, queries, heads * depth}),
              m.operand(t, {batch, keys, kv_heads * depth}),
              m.operand(t, {batch, keys, kv_heads * columns})};
  } else {
    inputs = {m.operand(t, {batch, heads, queries, depth}),
              m.operand(t, {batch, kv_heads, keys, depth}),
              m.operand(t, {batch, kv_heads, keys, columns})};
  }
  if (m.rng.chance(0.5)) {
    const Shape mask = m.broadcast_shape({batch, heads, queries, keys}, true);
    if (mask.size() >= 2) inputs.push_back(m.fresh(m.rng.chance(0.5) ? DType::Bool : t, mask));
  }
  if (m.rng.chance(0.3)) attrs.set("is_causal", int64_t{1});
  if (m.rng.chance(0.3)) attrs.set("scale", 0.5F);
  if (m.rng.chance(0.2)) attrs.set("softcap", 2.0F);
  return m.add("Attention", std::move(inputs), std::move(attrs));
}

bool rotary(Maker& m) {
  const DType t = m.random_float();
  const Expr batch = m.random_dim(), length = m.random_dim();
  const int64_t heads = m.rng.in(1, 3), half = m.rng.in(1, 4);
  AttrMap attrs;
  attrs.set("interleaved", m.rng.in(0, 1));
  const V x = m.operand(t, {batch, heads, length, 2 * half});
  if (m.rng.chance(0.5)) {
    const V positions = m.fresh(DType::I64, {batch, length}, Values::between(0, 9));
    return m.add("RotaryEmbedding", {x, m.fresh(t, {10, half}), m.fresh(t, {10, half}), positions},
                 std::move(attrs));
  }
  return m.add("RotaryEmbedding",
               {x, m.operand(t, {batch, length, half}), m.operand(t, {batch, length, half})},
               std::move(attrs));
}

/// Names of functions for the gates, and their parameters.
void set_activations(Maker& m, AttrMap& attrs, int64_t count) {
  const std::vector<std::string> names{"Sigmoid",         "Tanh",       "Relu",        "Affine",
                                       "LeakyRelu",       "ScaledTanh", "HardSigmoid", "Elu",
                                       "ThresholdedRelu", "Softsign",   "Softplus"};
  std::vector<std::string> chosen;
  std::vector<float> alpha, beta;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(m.rng.pick(names));
    if (m.rng.chance(0.5)) alpha.push_back(0.25F * static_cast<float>(m.rng.in(1, 4)));
    if (m.rng.chance(0.5)) beta.push_back(0.25F * static_cast<float>(m.rng.in(1, 4)));
  }
  attrs.set("activations", std::move(chosen));
  if (!alpha.empty()) attrs.set("activation_alpha", std::move(alpha));
  if (!beta.empty()) attrs.set("activation_beta", std::move(beta));
}

/// The attributes that RNN (1 gate), GRU (3) and LSTM (4) have.
AttrMap recurrent_attributes(Maker& m, int64_t gates, int64_t hidden, int64_t directions) {
  AttrMap attrs;
  attrs.set("hidden_size", hidden);
  attrs.set("direction", std::string(directions == 2     ? "bidirectional"
                                     : m.rng.chance(0.5) ? "reverse"
                                                         : "forward"));
  if (gates == 3) attrs.set("linear_before_reset", m.rng.in(0, 1));
  if (gates == 4 && m.rng.chance(0.3)) attrs.set("input_forget", int64_t{1});
  if (m.rng.chance(0.3)) attrs.set("clip", 0.5F);
  if (m.rng.chance(0.4))
    set_activations(m, attrs, directions * (gates == 1 ? 1 : gates == 3 ? 2 : 3));
  return attrs;
}

bool recurrent(Maker& m, std::string_view op, int64_t gates) {
  const DType t = m.rng.chance(0.8) ? DType::F32 : m.random_float();
  const Expr steps = m.rng.in(1, 4);
  const Expr batch = m.random_dim();
  const int64_t inputs = m.rng.in(1, 5), hidden = m.rng.in(1, 9);
  const int64_t directions = m.rng.in(1, 2);
  AttrMap attrs = recurrent_attributes(m, gates, hidden, directions);
  const bool batch_major = m.rng.chance(0.3);
  if (batch_major) attrs.set("layout", int64_t{1});
  const Shape x = batch_major ? Shape{batch, steps, inputs} : Shape{steps, batch, inputs};
  const Shape state =
      batch_major ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  const auto optional = [&](const Shape& s) {
    return m.rng.chance(0.5) ? m.fresh(t, s) : graph::kNone;
  };
  std::vector<V> operands{m.operand(t, x), m.fresh(t, {directions, gates * hidden, inputs}),
                          m.fresh(t, {directions, gates * hidden, hidden}),
                          optional({directions, 2 * gates * hidden})};
  operands.push_back(
      m.rng.chance(0.3)
          ? m.fresh(DType::I32, {batch}, Values::between(0, static_cast<double>(steps.value())))
          : graph::kNone);
  operands.push_back(optional(state));
  if (gates == 4) {
    operands.push_back(optional(state));
    operands.push_back(optional({directions, 3 * hidden}));
  }
  while (operands.back() == graph::kNone) operands.pop_back();
  return m.add(op, std::move(operands), std::move(attrs), gates == 4 ? 3 : 2, 22);
}

bool loss(Maker& m, std::string_view op) {
  const V x = m.floats(2, 4);
  const int64_t classes = m.least(x, 1);
  if (classes < 1) return false;
  Shape s = m.shape(x);
  s.erase(s.begin() + 1);
  AttrMap attrs;
  attrs.set("reduction", m.rng.pick(std::vector<std::string>{"none", "sum", "mean"}));
  const bool ignores = m.rng.chance(0.5);
  const int64_t ignored = m.rng.in(-1, classes);
  if (ignores) attrs.set("ignore_index", ignored);
  const double lowest = ignores && ignored == -1 ? -1 : 0;
  const double highest = static_cast<double>(ignores && ignored == classes ? classes : classes - 1);
  const DType t = m.rng.chance(0.5) ? DType::I64 : DType::I32;
  std::vector<V> operands{x, m.fresh(t, s, Values::between(lowest, highest))};
  if (m.rng.chance(0.5))
    operands.push_back(m.fresh(m.dtype(x), {m.shape(x)[1]}, Values::between(0, 2)));
  const size_t outputs = op == "SoftmaxCrossEntropyLoss" && m.rng.chance(0.5) ? 2 : 1;
  return m.add(op, std::move(operands), std::move(attrs), outputs, 22);
}

bool grid_sample(Maker& m) {
  const bool volume = m.rng.chance(0.3);
  Shape s{m.rng.in(1, 2), m.rng.in(1, 3), m.rng.in(2, 6), m.rng.in(2, 6)};
  if (volume) s.emplace_back(m.rng.in(1, 4));
  const V x = m.operand(m.rng.chance(0.7) ? DType::F32 : m.random_float(), s);
  std::vector<std::string> modes{"linear", "nearest"};
  if (!volume) modes.emplace_back("cubic");
  AttrMap attrs;
  attrs.set("mode", m.rng.pick(modes));
  attrs.set("padding_mode", m.rng.pick(std::vector<std::string>{"zeros", "border", "reflection"}));
  attrs.set("align_corners", m.rng.in(0, 1));
  Shape positions{s[0], m.rng.in(1, 4), m.rng.in(1, 4)};
  if (volume) positions.emplace_back(m.rng.in(1, 3));
  positions.emplace_back(volume ? 3 : 2);
  const V grid = m.fresh(m.dtype(x), positions, Values::between(-1.2, 1.2));
  return m.add("GridSample", {x, grid}, std::move(attrs), 1, 22);
}

bool roi_align(Maker& m) {
  const V x =
      m.operand(DType::F32, {m.rng.in(1, 2), m.rng.in(1, 3), m.rng.in(4, 7), m.rng.in(4, 7)});
  const int64_t count = m.rng.in(1, 3);
  AttrMap attrs;
  attrs.set("output_height", m.rng.in(1, 3));
  attrs.set("output_width", m.rng.in(1, 3));
  attrs.set("sampling_ratio", m.rng.in(0, 3));
  if (m.rng.chance(0.5)) attrs.set("mode", std::string("max"));
  if (m.rng.chance(0.5))
    attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  const V rois = m.constant(
      test::random_values(DType::F32, {count, 4}, Values::between(-1, 6), m.rng.next(), "rois"));
  return m.add(
      "RoiAlign",
      {x, rois,
       m.fresh(DType::I64, {count}, Values::between(0, static_cast<double>(m.least(x, 0) - 1)))},
      std::move(attrs), 1, 22);
}

bool max_unpool(Maker& m) {
  const V x = m.operand(DType::F32, {1, m.rng.in(1, 3), 4, 4});
  AttrMap attrs;
  attrs.set("kernel_shape", std::vector<int64_t>{2, 2});
  attrs.set("strides", std::vector<int64_t>{2, 2});
  if (!m.add("MaxPool", {x}, attrs, 2, 22)) return false;
  return m.add("MaxUnpool", {m.last(0), m.last(1)}, std::move(attrs), 1, 22);
}

/// Integers make equal scores and shares of areas.
bool non_max_suppression(Maker& m) {
  const Expr batch = m.random_dim(), boxes = m.rng.chance(0.5) ? m.random_dim() : m.rng.in(1, 60);
  const auto numbers = [&](Shape shape, double least, double most) {
    if (m.rng.chance(0.1))
      return m.fresh(DType::F32, std::move(shape), Values{Values::Kind::Special});
    const auto values = Values::between(least, most);
    if (m.rng.chance(0.5)) return m.fresh(DType::F32, std::move(shape), values);
    const V ints = m.fresh(DType::I32, std::move(shape), values);
    AttrMap to;
    to.set("to", int64_t{1});
    return m.add("Cast", {ints}, std::move(to)) ? m.last(0) : graph::kNone;
  };
  std::vector<V> inputs{numbers({batch, boxes, 4}, 0, 8),
                        numbers({batch, m.rng.in(1, 3), boxes}, -2, 4)};
  if (inputs[0] == graph::kNone || inputs[1] == graph::kNone) return false;
  const auto scalar = [&](DType t, double least, double most) {
    const Shape shape = m.rng.chance(0.5) ? Shape{} : Shape{1};
    inputs.push_back(m.rng.chance(0.2) ? graph::kNone
                                       : m.fresh(t, shape, Values::between(least, most)));
  };
  inputs.push_back(m.rng.chance(0.7) ? m.ints({m.rng.in(0, 12)})
                                     : m.fresh(DType::I64, {1}, Values::between(0, 9)));
  scalar(DType::F32, 0, 1);
  scalar(DType::F32, -1, 2);
  AttrMap attrs;
  attrs.set("center_point_box", m.rng.in(0, 1));
  return m.add("NonMaxSuppression", std::move(inputs), std::move(attrs), 1, 11);
}

bool window(Maker& m, std::string_view op) {
  AttrMap attrs;
  attrs.set("periodic", m.rng.in(0, 1));
  return m.add(op,
               {m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{m.rng.in(1, 9)}))},
               std::move(attrs), 1, 17);
}

bool eye_like(Maker& m) {
  AttrMap attrs;
  attrs.set("k", m.rng.in(-2, 2));
  return m.add("EyeLike", {m.of_rank(2, 2)}, std::move(attrs), 1, 22);
}

/// The inference form; what training drops is random.
bool dropout(Maker& m) {
  return m.add("Dropout", {m.fresh(m.random_float(), m.random_shape(0, 5))});
}

bool tf_idf_vectorizer(Maker& m) {
  const auto columns = m.rng.in(1, 3);
  AttrMap attrs;
  attrs.set("mode", std::string(m.rng.chance(0.5) ? "TF" : "IDF"));
  attrs.set("min_gram_length", int64_t{1});
  attrs.set("max_gram_length", m.rng.in(1, 2));
  attrs.set("max_skip_count", m.rng.in(0, 2));
  attrs.set("ngram_counts", std::vector<int64_t>{0, columns});
  std::vector<int64_t> pool;
  std::vector<int64_t> indexes;
  for (int64_t i = 0; i < columns; ++i) pool.push_back(i);
  for (const int64_t word : {0, 1}) pool.push_back(word);
  for (int64_t i = 0; i <= columns; ++i) indexes.push_back(i);
  attrs.set("pool_int64s", std::move(pool));
  attrs.set("ngram_indexes", std::move(indexes));
  const V x = m.fresh(DType::I64, m.random_shape(1, 2), Values::between(0, 4));
  return m.add("TfIdfVectorizer", {x}, std::move(attrs), 1, 9);
}

}  // namespace

std::span<const Recipe> sequence_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"Attention", attention},
      {"RotaryEmbedding", rotary},
      {"RNN", [](Maker& m) { return recurrent(m, "RNN", 1); }},
      {"GRU", [](Maker& m) { return recurrent(m, "GRU", 3); }},
      {"LSTM", [](Maker& m) { return recurrent(m, "LSTM", 4); }},
      {"NegativeLogLikelihoodLoss", [](Maker& m) { return loss(m, "NegativeLogLikelihoodLoss"); }},
      {"SoftmaxCrossEntropyLoss", [](Maker& m) { return loss(m, "SoftmaxCrossEntropyLoss"); }},
      {"GridSample", grid_sample},
      {"RoiAlign", roi_align},
      {"MaxUnpool", max_unpool},
      {"Dropout", dropout},
      {"TfIdfVectorizer", tf_idf_vectorizer},
      {"NonMaxSuppression", non_max_suppression},
      {"HannWindow", [](Maker& m) { return window(m, "HannWindow"); }},
      {"HammingWindow", [](Maker& m) { return window(m, "HammingWindow"); }},
      {"BlackmanWindow", [](Maker& m) { return window(m, "BlackmanWindow"); }},
      {"EyeLike", eye_like},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
