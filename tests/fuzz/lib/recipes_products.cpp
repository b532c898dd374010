// Products of matrices, and einsum.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

/// A matrix of weights as models have it: a constant, now and then an input.
V weights(Maker& m, DType t, const Shape& s) {
  if (!is_static(s) || m.rng.chance(0.3)) return m.operand(t, s);
  return m.constant(test::random_values(t, static_dims(s), m.some_values(t), m.rng.next(), "w"));
}

bool matmul(Maker& m) {
  const V x = m.of_rank(1, 4);
  if (m.rng.chance(0.08)) return m.add("MatMul", {x, m.operand(m.dtype(x), {m.shape(x).back()})});
  Shape s{m.shape(x).back(), m.random_dim()};
  if (m.rng.chance(0.15)) s[1] = m.rng.in(1, 70);
  if (m.rank(x) > 2 && m.rng.chance(0.5)) {
    s.insert(s.begin(), m.shape(x).begin(), m.shape(x).end() - 2);
    if (m.rng.chance(0.3)) s[0] = 1;
  }
  V w = Maker::kNone;
  if (m.rng.chance(0.2) && s.size() == 2) {
    // The weight as exporters have it, on its side.
    AttrMap perm;
    perm.set("perm", std::vector<int64_t>{1, 0});
    w = m.chain("Transpose", {weights(m, m.dtype(x), {s[1], s[0]})}, perm);
  } else {
    w = weights(m, m.dtype(x), s);
  }
  return m.chain("MatMul", {x, w}) != Maker::kNone;
}

bool gemm(Maker& m) {
  const V x = m.of_rank(2, 2);
  if (size_of(m.dtype(x)) < 4 && !is_float(m.dtype(x))) return false;  // not of ONNX
  AttrMap attrs;
  const bool ta = m.rng.chance(0.4), tb = m.rng.chance(0.5);
  attrs.set("transA", int64_t{ta});
  attrs.set("transB", int64_t{tb});
  if (m.rng.chance(0.4)) attrs.set("alpha", static_cast<float>(m.rng.in(1, 8)) / 4);
  if (m.rng.chance(0.4)) attrs.set("beta", static_cast<float>(m.rng.in(0, 8)) / 4);
  const Expr rows = m.shape(x)[ta ? 1 : 0], depth = m.shape(x)[ta ? 0 : 1],
             columns = m.random_dim();
  std::vector<V> inputs{x,
                        weights(m, m.dtype(x), tb ? Shape{columns, depth} : Shape{depth, columns})};
  if (m.rng.chance(0.7)) {
    inputs.push_back(m.operand(m.dtype(x), m.broadcast_shape({rows, columns}, true)));
  }
  return m.add("Gemm", std::move(inputs), std::move(attrs));
}

/// An equation over the letters of x and of a second operand.
bool einsum(Maker& m) {
  const V x = m.of_rank(1, 4);
  std::string a, b, out;
  Shape s;
  for (int64_t i = 0; i < m.rank(x); ++i) {
    const char letter = static_cast<char>('a' + i);
    a += letter;
    const bool shared = m.rng.chance(0.6);
    if (shared) {
      b += letter;
      s.push_back(m.shape(x)[static_cast<size_t>(i)]);
    }
    if (m.rng.chance(shared ? 0.4 : 0.7)) out += letter;
  }
  if (m.rng.chance(0.6)) {
    b += 'z';
    s.push_back(m.random_dim());
    out += 'z';
  }
  AttrMap attrs;
  if (m.rng.chance(0.15)) {
    attrs.set("equation", a + "->" + out.substr(0, out.find('z')));
    return m.add("Einsum", {x}, std::move(attrs));
  }
  for (size_t i = out.size(); i > 1; --i) {
    std::swap(out[i - 1], out[static_cast<size_t>(m.rng.in(0, static_cast<int64_t>(i) - 1))]);
  }
  attrs.set("equation", a + "," + b + "->" + out);
  const V y = m.operand(m.dtype(x), s);
  // An axis of one operand alone may be summed before the product: infinities then give another
  // result than after it.
  if (!m.is_finite(x) || !m.is_finite(y)) return false;
  return m.add("Einsum", {x, y}, std::move(attrs));
}

/// Products of one operand, as of queries, keys and values, and what models do with them.
bool products_of_one_operand(Maker& m) {
  const V x = m.typed(m.random_float(), 2, 4);
  const DType t = m.dtype(x);
  if (!m.shape(x).back().is_const()) return false;
  const Expr k = m.shape(x).back();
  const bool biased = m.rng.chance(0.5), active = m.rng.chance(0.3), turned = m.rng.chance(0.3);
  std::vector<V> results;
  for (int64_t i = m.rng.in(2, 3); i > 0; --i) {
    const Expr n = m.rng.chance(0.8) ? 8 * m.rng.in(1, 3) : m.rng.in(1, 20);
    V w = m.constant(test::random_values(t, static_dims(turned ? Shape{n, k} : Shape{k, n}), {},
                                         m.rng.next(), "w"));
    if (turned) w = m.chain("Transpose", {w}, attr("perm", std::vector<int64_t>{1, 0}));
    V y = m.chain("MatMul", {x, w});
    if (y != Maker::kNone && biased && m.rng.chance(0.9))
      y = m.chain(
          "Add",
          {y, m.constant(test::random_values(t, static_dims(Shape{n}), {}, m.rng.next(), "b"))});
    if (y != Maker::kNone && active) y = m.chain("Relu", {y});
    if (y == Maker::kNone) return !results.empty();
    results.push_back(y);
  }
  const bool square = m.rng.chance(0.5) && m.shape(results[0]) == m.shape(results[1]);
  if (!square) return m.chain("Concat", results, attr("axis", int64_t{-1})) != Maker::kNone;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < m.rank(x); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const V keys = m.chain("Transpose", {results[1]}, attr("perm", perm));
  const V weights =
      m.chain("Softmax", {m.chain("MatMul", {results[0], keys})}, attr("axis", int64_t{-1}));
  return m.chain("MatMul", {weights, results.back()}) != Maker::kNone;
}

}  // namespace

std::span<const Recipe> product_recipes() {
  static constexpr Recipe kRecipes[] = {{"MatMul", matmul},
                                        {"Gemm", gemm},
                                        {"Einsum", einsum},
                                        {"products of one operand", products_of_one_operand}};
  return kRecipes;
}

}  // namespace reprise::fuzz
