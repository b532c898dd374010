// Patterns that compilers look for, several nodes each.
#include <algorithm>

#include "codegen/ops/row/support.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

/// Queries, keys and values of separate products, as exporters write attention.
bool attention_of_products(Maker& m) {
  const DType t = m.random_float();
  const Shape batch = m.random_shape(0, 2);
  const Expr queries = m.random_dim(), keys = m.random_dim();
  const int64_t depth = m.rng.in(1, 12), columns = m.rng.in(1, 12);
  const auto with = [&](const Expr& a, const Expr& b) {
    Shape s = batch;
    s.push_back(a);
    s.push_back(b);
    return s;
  };
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < std::ssize(batch) + 2; ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const V q = m.operand(t, with(queries, depth));
  const V k = m.rng.chance(0.5)
                  ? m.chain("Transpose", {m.operand(t, with(keys, depth))}, attr("perm", perm))
                  : m.operand(t, with(depth, keys));
  V scores = m.chain("MatMul", {q, k});
  if (scores != Maker::kNone && m.rng.chance(0.7)) {
    scores = m.chain("Mul", {scores, m.scalar(t, 0.25)});
  }
  if (scores != Maker::kNone && m.rng.chance(0.6)) {
    const Shape mask = m.broadcast_shape(m.shape(scores), true);
    if (m.rng.chance(0.5)) {
      scores = m.chain("Add", {scores, m.fresh(t, mask)});
    } else {
      scores = m.chain("Where", {m.fresh(DType::Bool, mask), scores,
                                 m.scalar(t, m.rng.chance(0.5) ? -10000.0 : -60000.0)});
    }
  }
  const V weights = m.chain("Softmax", {scores}, attr("axis", int64_t{-1}));
  const V out = m.chain("MatMul", {weights, m.operand(t, with(keys, columns))});
  if (out != Maker::kNone && perm.size() > 2 && m.rng.chance(0.5)) {
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    std::swap(perm[perm.size() - 2], perm[perm.size() - 3]);
    return m.chain("Transpose", {out}, attr("perm", perm)) != Maker::kNone;
  }
  return out != Maker::kNone;
}

/// Something elementwise, a view, and a reduction over what the view made of the axes.
bool view_then_rows(Maker& m) {
  V x = m.floats(2, 4);
  if (m.rng.chance(0.6))
    x = m.chain(m.rng.pick(std::vector<std::string>{"Sigmoid", "Exp", "Tanh", "Neg"}), {x});
  std::vector<int64_t> perm;
  for (int64_t i = 0; x != Maker::kNone && i < m.rank(x); ++i) perm.push_back(i);
  if (x == Maker::kNone) return false;
  const auto a = static_cast<size_t>(m.rng.in(0, std::ssize(perm) - 2));
  std::swap(perm[a], perm[perm.size() - 1]);
  x = m.chain("Transpose", {x}, attr("perm", perm));
  return m.chain(m.rng.chance(0.7) ? "Softmax" : "LogSoftmax", {x},
                 attr("axis", m.rng.in(-2, -1))) != Maker::kNone;
}

/// A vector beside a tensor, along its last axis or another, as biases and scales are. Often
/// several axes are equally long, so that a mistaken axis fits as well.
bool bias(Maker& m) {
  V x = m.of_rank(2, 4);
  if (m.rng.chance(0.6)) {
    const Expr d = m.random_dim();
    x = m.operand(m.rng.chance(0.7) ? m.random_float() : m.random_dtype(), {m.rng.in(1, 3), d, d});
  }
  for (int64_t i = m.rng.in(1, 3); i > 0 && x != Maker::kNone; --i) {
    const auto axis = static_cast<size_t>(m.rng.chance(0.6) ? 1 : m.rng.in(1, m.rank(x)));
    Shape along(axis, Expr(1));
    along[0] = m.shape(x)[m.shape(x).size() - axis];
    const V vector = m.fresh(m.dtype(x), along);
    x = m.chain(m.rng.pick(std::vector<std::string>{"Add", "Mul", "Sub", "Max"}),
                m.rng.chance(0.5) ? std::vector<V>{x, vector} : std::vector<V>{vector, x});
  }
  return x != Maker::kNone;
}

/// x plus what a small layer makes of it.
bool residual(Maker& m) {
  const V x = m.floats(2, 4);
  if (!m.shape(x).back().is_const()) return false;
  const DType t = m.dtype(x);
  const int64_t c = m.shape(x).back().value(), hidden = m.rng.in(1, 24);
  V h = m.chain("MatMul", {x, m.fresh(t, {c, hidden})});
  h = m.chain(m.rng.pick(std::vector<std::string>{"Relu", "Gelu", "Tanh", "Sigmoid"}), {h});
  h = m.chain("MatMul", {h, m.fresh(t, {hidden, c})});
  return m.chain("Add", {x, h}) != Maker::kNone;
}

/// Sums of rows and of columns over shared values, as gradients of normalisations have them.
bool gradients(Maker& m) {
  const V x = m.floats(2, 4);
  V y = m.operand(m.dtype(x), m.shape(x));
  if (m.rng.chance(0.6))
    y = m.chain(m.rng.pick(std::vector<std::string>{"Tanh", "Sigmoid", "Erf", "Neg"}), {y});
  const V product = m.chain("Mul", {x, y});
  if (product == Maker::kNone) return false;
  std::vector<int64_t> columns;
  for (int64_t i = 0; i + 1 < m.rank(x); ++i) columns.push_back(i);
  const auto total = [&](V v, const std::vector<int64_t>& axes, int64_t keepdims) {
    AttrMap attrs = attr("axes", axes);
    attrs.set("keepdims", keepdims);
    return m.chain(m.rng.chance(0.7) ? "ReduceMean" : "ReduceMax", {v}, std::move(attrs), 17);
  };
  const V mean = total(y, {m.rank(x) - 1}, 1);
  const V share = m.chain("Mul", {x, total(product, {m.rank(x) - 1}, 1)});
  const V gradient = m.chain("Sub", {m.chain("Sub", {y, mean}), share});
  for (const V v : {gradient, product, y}) {
    if (v != Maker::kNone && m.rng.chance(0.8)) total(v, columns, m.rng.in(0, 1));
  }
  return true;
}

/// The same few operators on several tensors of different sizes, as optimisers update parameters.
bool updates(Maker& m) {
  const DType t = m.rng.chance(0.8) ? m.random_float() : DType::I32;
  const V factor = m.rng.chance(0.5) ? m.scalar(t, 0.5) : m.fresh(t, {});
  struct Operation {
    std::string op;
    bool by_factor;
  };
  std::vector<Operation> operations;
  for (int64_t i = m.rng.in(1, 4); i > 0; --i)
    operations.push_back(
        {m.rng.pick(std::vector<std::string>{"Add", "Sub", "Mul", "Max"}), m.rng.chance(0.2)});
  const bool reduces = m.rng.chance(0.2);
  bool any = false;
  for (int64_t i = m.rng.in(2, 9); i > 0; --i) {
    const Shape shape = m.random_shape(reduces ? 1 : 0, 3);
    V x = m.fresh(t, shape);
    const V gradient = m.fresh(t, shape);
    for (const auto& [op, by_factor] : operations)
      x = m.chain(op, {x, by_factor ? factor : gradient});
    if (x != Maker::kNone && reduces) x = m.chain("ReduceSum", {x, m.ints({-1})});
    any = any || x != Maker::kNone;
  }
  return any;
}

/// Floats through a narrow integer type and back, with arithmetic in between.
bool narrow_integers(Maker& m) {
  const DType t = m.rng.pick(std::vector<DType>{DType::I8, DType::U8, DType::I16, DType::U16});
  V x = m.typed(t);
  for (int64_t i = m.rng.in(1, 3); i > 0 && x != Maker::kNone; --i) {
    const std::string op = m.rng.pick(std::vector<std::string>{
        "Add", "Sub", "Mul", "Neg", "Abs", "BitwiseNot", "BitwiseXor", "Min", "Max"});
    if (op == "Neg" || op == "Abs" || op == "BitwiseNot") {
      x = m.chain(op, {x});
    } else {
      x = m.chain(op, {x, m.partner(x)});
    }
  }
  if (x == Maker::kNone) return false;
  AttrMap to = attr("to", ops::dtype_to_onnx(m.rng.pick(std::vector<DType>{
                              DType::F32, DType::I32, DType::I64, DType::U8, DType::I16})));
  return m.chain("Cast", {x}, to) != Maker::kNone || true;
}

/// A product with weights of 8 bits or fewer and a scale, as quantisers write it.
bool quantized_product(Maker& m) {
  const V x = m.typed(DType::F32, 2, 4);
  if (!m.shape(x).back().is_const() || m.shape(x).back().value() < 1) return false;
  const int64_t k = m.shape(x).back().value(), n = m.rng.in(1, 40);
  const bool wide = m.rng.chance(0.3);
  const DType t = m.rng.pick(std::vector<DType>{DType::I8, DType::U8, DType::I8, DType::U8,
                                                DType::I4, DType::U4, DType::I2, DType::U2});
  const V w = m.constant(test::random_values(t, {k, n}, {Values::Kind::Wide}, m.rng.next(), "w"));
  const std::vector<int64_t> scale_dims = wide ? std::vector<int64_t>{n} : std::vector<int64_t>{};
  std::vector<V> inputs{
      w, m.constant(test::random_values(DType::F32, scale_dims, Values::between(0.01, 0.1),
                                        m.rng.next(), "s"))};
  if (m.rng.chance(0.6))
    inputs.push_back(
        m.constant(test::random_values(t, scale_dims, {Values::Kind::Wide}, m.rng.next(), "z")));
  const V d = m.chain("DequantizeLinear", inputs, attr("axis", int64_t{1}));
  return m.chain("MatMul", {x, d}) != Maker::kNone;
}

/// An image with its channels last, a convolution and pools between transposes.
bool channels_last(Maker& m) {
  const DType t = m.rng.chance(0.7) ? DType::F32 : m.random_float();
  const int64_t c = m.rng.in(1, 8);
  V x = m.operand(t, {m.rng.in(1, 2), m.rng.in(3, 7), m.rng.in(3, 7), c});
  x = m.chain("Transpose", {x}, attr("perm", std::vector<int64_t>{0, 3, 1, 2}));
  for (int64_t i = m.rng.in(1, 3); i > 0 && x != Maker::kNone; --i) {
    const std::vector<int64_t> pads{m.rng.in(0, 1), m.rng.in(0, 1), m.rng.in(0, 1), m.rng.in(0, 1)};
    AttrMap window = attr("pads", pads);
    switch (m.rng.in(0, 3)) {
      case 0: {
        window.set("kernel_shape", std::vector<int64_t>{2, 2});
        x = m.chain(m.rng.chance(0.5) ? "MaxPool" : "AveragePool", {x}, window, 22);
        break;
      }
      case 1:
        x = m.chain(m.rng.chance(0.5) ? "Relu" : "Sigmoid", {x});
        break;
      default: {
        const int64_t in = m.shape(x)[1].value();
        const bool depthwise = m.rng.chance(0.4);
        window.set("group", depthwise ? in : int64_t{1});
        const int64_t out = depthwise ? in : m.rng.in(1, 8);
        x = m.chain("Conv",
                    {x, m.constant(test::random_values(t, {out, depthwise ? 1 : in, 2, 2}, {},
                                                       m.rng.next(), "w"))},
                    window);
      }
    }
  }
  return m.chain("Transpose", {x}, attr("perm", std::vector<int64_t>{0, 2, 3, 1})) != Maker::kNone;
}

/// A node almost like one that exists: another attribute, or its operands in another order.
bool twin(Maker& m) {
  const graph::Node* n = m.some_node();
  if (n == nullptr || n->outputs.size() != 1 || n->opset == 0) return false;
  std::vector<V> inputs = n->inputs;
  AttrMap attrs = n->attrs;
  if (inputs.size() > 1 && m.rng.chance(0.4)) std::swap(inputs[0], inputs[1]);
  for (const auto& [name, value] : n->attrs) {
    if (const auto* i = std::get_if<int64_t>(&value); i != nullptr && m.rng.chance(0.6)) {
      attrs.set(name, *i == 0 ? int64_t{1} : *i - 1);
    }
    if (const auto* f = std::get_if<float>(&value); f != nullptr) attrs.set(name, *f + 0.25F);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value);
        list != nullptr && m.rng.chance(0.6)) {
      auto changed = *list;
      std::reverse(changed.begin(), changed.end());
      attrs.set(name, std::move(changed));
    }
  }
  const std::string op = n->op;
  const int64_t opset = n->opset;
  const V before = n->outputs[0];
  if (!m.add(op, std::move(inputs), std::move(attrs), 1, opset)) return false;
  const V after = m.last();
  if (m.rng.chance(0.6) && m.dtype(before) == m.dtype(after) && m.dtype(after) != DType::Bool) {
    m.add("Sub", {before, after});
  }
  return true;
}

/// Two or three casts on top of each other.
bool casts(Maker& m) {
  V x = m.any();
  for (int64_t i = m.rng.in(2, 3); i > 0 && x != Maker::kNone; --i) {
    x = m.chain("Cast", {x}, attr("to", ops::dtype_to_onnx(m.random_dtype())));
  }
  return x != Maker::kNone;
}

}  // namespace

std::span<const Recipe> pattern_recipes() {
  static constexpr Recipe kRecipes[] = {
      {"attention of products", attention_of_products},
      {"view, then rows", view_then_rows},
      {"bias", bias},
      {"residual", residual},
      {"gradients of rows", gradients},
      {"updates", updates},
      {"narrow integers", narrow_integers},
      {"quantized product", quantized_product},
      {"channels last", channels_last},
      {"twin", twin},
      {"casts", casts},
  };
  return kRecipes;
}

}  // namespace reprise::fuzz
