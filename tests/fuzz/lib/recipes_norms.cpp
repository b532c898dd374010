// Normalisations and softmax.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

bool layer_norm(Maker& m, std::string_view op) {
  const V x = m.floats(1, 5);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  const Shape tail(m.shape(x).begin() + a, m.shape(x).end());
  std::vector<V> inputs{
      x, m.operand(m.dtype(x), m.rng.chance(0.7) ? tail : m.broadcast_shape(tail, true))};
  if (op == "LayerNormalization" && m.rng.chance(0.6))
    inputs.push_back(m.operand(m.dtype(x), tail));
  AttrMap attrs = attr("axis", m.rng.chance(0.5) ? a : a - m.rank(x));
  if (m.rng.chance(0.4)) attrs.set("epsilon", 1e-3F);
  const size_t outputs = op == "LayerNormalization" && m.rng.chance(0.15) ? 3 : 1;
  return m.add(op, std::move(inputs), std::move(attrs), outputs);
}

/// Without infinities: the compiler splits a scaled difference into a scale and a shift, and then
/// both are infinite.
V scale(Maker& m, DType t, const Shape& s) {
  const V v = m.operand(t, s);
  return m.is_finite(v) ? v : m.fresh(t, s, Values::between(-2, 2));
}

bool instance_norm(Maker& m) {
  const V x = m.floats(3, 5);
  const DType t = m.dtype(x);
  const Shape c{m.shape(x)[1]};
  return m.add("InstanceNormalization", {x, scale(m, t, c), m.operand(t, c)});
}

bool group_norm(Maker& m) {
  const V x = m.floats(3, 5);
  if (!m.shape(x)[1].is_const() || m.shape(x)[1].value() < 1) return false;
  const int64_t c = m.shape(x)[1].value();
  std::vector<int64_t> groups;
  for (int64_t g = 1; g <= c; ++g) {
    if (c % g == 0) groups.push_back(g);
  }
  AttrMap attrs = attr("num_groups", m.rng.pick(groups));
  const DType t = m.dtype(x);
  return m.add("GroupNormalization", {x, m.operand(t, {c}), m.operand(t, {c})}, std::move(attrs));
}

bool batch_norm(Maker& m) {
  const V x = m.floats(2, 5);
  const Shape c{m.shape(x)[1]};
  const DType t = m.dtype(x);
  return m.add(
      "BatchNormalization",
      {x, scale(m, t, c), m.operand(t, c), m.fresh(t, c), m.fresh(t, c, Values::between(0.1, 3))},
      {}, 1, 15);
}

bool softmax(Maker& m, std::string_view op) {
  const V x = m.floats(1, 5);
  return m.add(op, {x}, attr("axis", m.axis(x)), 1, m.rng.chance(0.2) ? 11 : kOpset);
}

bool lrn(Maker& m) {
  return m.add("LRN", {m.floats(3, 5)}, attr("size", m.rng.in(1, 2) * 2 - 1));
}

bool mean_variance(Maker& m) {
  const V x = m.floats(1, 5);
  std::vector<int64_t> axes = m.some_axes(m.rank(x), false);
  if (axes.empty()) axes.push_back(0);
  return m.add("MeanVarianceNormalization", {x}, attr("axes", axes));
}

}  // namespace

std::span<const Recipe> norm_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"LayerNormalization", [](Maker& m) { return layer_norm(m, "LayerNormalization"); }},
      {"RMSNormalization", [](Maker& m) { return layer_norm(m, "RMSNormalization"); }},
      {"InstanceNormalization", instance_norm},
      {"GroupNormalization", group_norm},
      {"BatchNormalization", batch_norm},
      {"Softmax", [](Maker& m) { return softmax(m, "Softmax"); }},
      {"LogSoftmax", [](Maker& m) { return softmax(m, "LogSoftmax"); }},
      {"Hardmax", [](Maker& m) { return softmax(m, "Hardmax"); }},
      {"LRN", lrn},
      {"MeanVarianceNormalization", mean_variance},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
