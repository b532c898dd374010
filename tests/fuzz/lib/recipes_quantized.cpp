// Quantisation: scales, zero points, products of integers.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

DType narrow(Maker& m) {
  return m.rng.chance(0.5) ? DType::I8 : DType::U8;
}

V scale(Maker& m, const Shape& s, DType t = DType::F32) {
  return m.fresh(t, s, Values::between(0.01, 0.3));
}

bool quantize(Maker& m, bool to_integers) {
  const DType integers = m.rng.chance(0.85)  ? narrow(m)
                         : m.rng.chance(0.5) ? DType::I16
                                             : DType::U16;
  const V x = to_integers ? m.floats(1, 4) : m.typed(integers, 1, 4);
  const int64_t a = m.rng.in(0, m.rank(x) - 1);
  const bool per_axis = m.rng.chance(0.5);
  const Shape s = per_axis ? Shape{m.shape(x)[static_cast<size_t>(a)]} : Shape{};
  const DType t = to_integers ? m.dtype(x) : m.rng.chance(0.8) ? DType::F32 : DType::F16;
  std::vector<V> inputs{x, scale(m, s, t)};
  if (m.rng.chance(0.7)) inputs.push_back(m.fresh(integers, s));
  return m.add(to_integers ? "QuantizeLinear" : "DequantizeLinear", std::move(inputs),
               attr("axis", a));
}

bool matmul_integer(Maker& m) {
  const DType ta = narrow(m), tb = narrow(m);
  const V x = m.typed(ta, 2, 4);
  const Expr columns = m.random_dim();
  std::vector<V> inputs{x, m.operand(tb, {m.shape(x).back(), columns})};
  if (m.rng.chance(0.6)) inputs.push_back(m.fresh(ta, {}));
  if (inputs.size() == 3 && m.rng.chance(0.6)) {
    inputs.push_back(m.fresh(tb, m.rng.chance(0.5) ? Shape{} : Shape{columns}));
  }
  return m.add("MatMulInteger", std::move(inputs));
}

bool qlinear_matmul(Maker& m) {
  const DType t = narrow(m);
  const V x = m.typed(t, 2, 3);
  const V w = m.operand(t, {m.shape(x).back(), m.random_dim()});
  return m.add("QLinearMatMul", {x, scale(m, {}), m.fresh(t, {}), w, scale(m, {}), m.fresh(t, {}),
                                 scale(m, {}), m.fresh(t, {})});
}

struct Image {
  V x, w;
  int64_t out;
};
Image image(Maker& m, DType tx, DType tw) {
  const int64_t c = m.rng.in(1, 5), out = m.rng.in(1, 6);
  const V x = m.operand(tx, {m.rng.in(1, 2), c, m.rng.in(2, 7), m.rng.in(2, 7)});
  return {x, m.operand(tw, {out, c, m.rng.in(1, 2), m.rng.in(1, 2)}), out};
}

bool conv_integer(Maker& m) {
  const DType tx = narrow(m), tw = narrow(m);
  const Image i = image(m, tx, tw);
  std::vector<V> inputs{i.x, i.w};
  if (m.rng.chance(0.6)) inputs.push_back(m.fresh(tx, {}));
  return m.add("ConvInteger", std::move(inputs),
               attr("pads", std::vector<int64_t>{0, 1, m.rng.in(0, 1), 0}));
}

bool qlinear_conv(Maker& m) {
  const DType t = narrow(m);
  const Image i = image(m, t, t);
  const Shape s = m.rng.chance(0.5) ? Shape{} : Shape{i.out};
  std::vector<V> inputs{i.x,         scale(m, {}),  m.fresh(t, {}), i.w,
                        scale(m, s), m.fresh(t, s), scale(m, {}),   m.fresh(t, {})};
  if (m.rng.chance(0.5)) inputs.push_back(m.fresh(DType::I32, {i.out}, {}));
  return m.add("QLinearConv", std::move(inputs));
}

bool dynamic(Maker& m) {
  const V x = m.typed(DType::F32, 1, 4);
  return m.is_finite(x) && m.add("DynamicQuantizeLinear", {x}, {}, 3);
}

}  // namespace

std::span<const Recipe> quantize_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"QuantizeLinear", [](Maker& m) { return quantize(m, true); }},
      {"DequantizeLinear", [](Maker& m) { return quantize(m, false); }},
      {"DynamicQuantizeLinear", dynamic},
      {"MatMulInteger", matmul_integer},
      {"QLinearMatMul", qlinear_matmul},
      {"ConvInteger", conv_integer},
      {"QLinearConv", qlinear_conv},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
