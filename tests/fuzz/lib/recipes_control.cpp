// If, Loop and Scan with random bodies, which nest, capture values, and pass them on.
#include <algorithm>

#include "tests/fuzz/lib/control_flow.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

using graph::kNone;

constexpr int kMostDepth = 3;
using Type = Maker::Type;

std::vector<std::optional<Expr>> known(const Shape& s) {
  return {s.begin(), s.end()};
}

/// The node's outputs, without the bodies' results.
std::vector<std::optional<Expr>> outside(const Maker& m, const Maker& body, V v) {
  std::vector<std::optional<Expr>> out;
  for (const Expr& d : body.shape(v)) out.push_back(m.dim_outside(body, d));
  return out;
}

void fill(Maker& body) {
  const int64_t count = body.rng.in(1, 4);
  for (int64_t i = 0; i < 2 * count && static_cast<int64_t>(body.nodes()) < count; ++i) {
    const V v = body.any();
    const bool simple = !body.add_some || body.rng.chance(0.5);
    if (!simple) {
      body.add_some(body);
    } else if (is_float(body.dtype(v)) && body.rng.chance(0.5)) {
      body.add(body.rng.pick(std::vector<std::string>{"Tanh", "Relu", "Neg", "Softmax"}), {v});
    } else if (body.dtype(v) != DType::Bool) {
      body.add(body.rng.pick(std::vector<std::string>{"Add", "Mul", "Sub", "Min"}),
               {v, body.partner(v)});
    }
  }
}

/// A Boolean that an input, integers or floats decide.
V condition(Maker& m) {
  const double kind = m.rng.unit();
  if (kind < 0.15) return m.constant(test::random_values(DType::Bool, {}, {}, m.rng.next(), "c"));
  if (kind < 0.5) return m.operand(DType::Bool, {});
  const DType t = kind < 0.75 ? DType::I32 : DType::F32;
  const V x = m.typed(t, 0, 4);
  AttrMap attrs;
  attrs.set("keepdims", int64_t{0});
  const V sum = m.chain(is_float(t) ? "ReduceMean" : "ReduceMax", {x}, std::move(attrs), 17);
  return m.chain("Less", {sum, m.scalar(t, static_cast<double>(m.rng.in(-1, 1)))});
}

/// Any value whose dims bodies and types can name; of few elements, as they are many.
V passable(Maker& m) {
  for (int tries = 0; tries < 4; ++tries) {
    const V v = m.any();
    if (m.is_nameable(m.shape(v)) && m.most_elements(m.shape(v)) <= 600) return v;
  }
  return m.fresh(m.random_float(), {m.rng.in(1, 4), m.rng.in(1, 5)});
}

/// Some values of the body, to be returned.
std::vector<V> results(Maker& body, int64_t count) {
  std::vector<V> out;
  for (int64_t i = 0; i < count; ++i) {
    V v = body.any();
    for (int tries = 0; tries < 3 && body.value(v).producer == nullptr; ++tries) v = body.any();
    if (body.most_elements(body.shape(v)) <= 600) out.push_back(v);
  }
  return out;
}

/// A value like v, whose dims may differ.
V alternative(Maker& body, DType t, const Shape& s) {
  const V v = body.like(t, s);
  if (v == kNone || s.empty() || t == DType::Bool || !body.rng.chance(0.2)) return v;
  AttrMap attrs;
  attrs.set("axis", body.rng.in(0, std::ssize(s) - 1));
  const V longer = body.chain("Concat", {v, v}, std::move(attrs));
  return longer == kNone ? v : longer;
}

bool if_node(Maker& m) {
  if (m.depth() >= kMostDepth) return false;
  const V chosen = condition(m);
  if (chosen == kNone) return false;
  Maker yes(m), no(m);
  fill(yes);
  fill(no);
  const std::vector<V> given = results(yes, m.rng.in(1, 3));
  std::vector<V> others;
  std::vector<Type> types;
  for (const V v : given) {
    Type type{yes.dtype(v), outside(m, yes, v)};
    Shape s;
    for (const auto& d : type.dims) s.push_back(d.value_or(2));
    const V other = alternative(no, type.dtype, s);
    if (other == kNone || no.rank(other) != yes.rank(v) || no.dtype(other) != type.dtype)
      return false;
    for (size_t d = 0; d < s.size(); ++d)
      if (!type.dims[d] || m.dim_outside(no, no.shape(other)[d]) != type.dims[d])
        type.dims[d] = std::nullopt;
    others.push_back(other);
    types.push_back(std::move(type));
  }
  if (given.empty()) return false;
  return m.add_with_bodies("If", {chosen}, {},
                           {{"then_branch", &yes, given}, {"else_branch", &no, others}}, types);
}

std::vector<HostTensor> same(const HostTensor& t, const Maker& m) {
  return std::vector<HostTensor>(m.runs(), t);
}

/// What iterations pass on. Some grow along an axis.
struct States {
  std::vector<V> initial, passed, next;
  std::vector<int64_t> grows;  // the axis, or -1

  void choose(Maker& m, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      initial.push_back(passable(m));
      const V v = initial.back();
      const bool can = m.rank(v) > 0 && m.dtype(v) != DType::Bool;
      grows.push_back(can && m.rng.chance(0.08) ? m.rng.in(0, m.rank(v) - 1) : -1);
    }
  }
  /// `shapes`: of those that grow, with a symbol, which must exist before the body.
  void pass(Maker& m, Maker& body, const std::vector<Shape>& shapes) {
    for (size_t i = 0; i < initial.size(); ++i)
      passed.push_back(body.passed(m.dtype(initial[i]), shapes[i], m.values_of(initial[i])));
  }
  std::vector<Shape> shapes(Maker& m) const {
    std::vector<Shape> out;
    for (size_t i = 0; i < initial.size(); ++i) {
      out.push_back(m.shape(initial[i]));
      const auto axis = static_cast<size_t>(grows[i]);
      if (grows[i] >= 0) out.back()[axis] = m.varying_dim(initial[i], axis);
    }
    return out;
  }
  bool advance(Maker& body) {
    for (size_t i = 0; i < passed.size(); ++i) {
      const V v = passed[i];
      if (grows[i] < 0) {
        next.push_back(body.rng.chance(0.1) ? v : body.like(body.dtype(v), body.shape(v)));
      } else {
        Shape piece = body.shape(v);
        piece[static_cast<size_t>(grows[i])] = 1;
        AttrMap attrs;
        attrs.set("axis", grows[i]);
        const V more = body.fresh(body.dtype(v), piece);
        next.push_back(body.shape(more) == piece ? body.chain("Concat", {v, more}, attrs) : kNone);
      }
      if (next.back() == kNone || (grows[i] < 0 && body.shape(next.back()) != body.shape(v)) ||
          body.dtype(next.back()) != body.dtype(v))
        return false;
    }
    return true;
  }
  void add_types(const Maker& m, std::vector<Type>& types) const {
    for (size_t i = 0; i < initial.size(); ++i) {
      types.push_back({m.dtype(initial[i]), known(m.shape(initial[i]))});
      if (grows[i] >= 0) types.back().dims[static_cast<size_t>(grows[i])] = std::nullopt;
    }
  }
};

/// Whether a loop goes on after an iteration.
V goes_on(Maker& body, V number, V going) {
  const double kind = body.rng.unit();
  if (kind < 0.5) return going;
  if (kind < 0.7)
    return body.chain("Less", {number, body.fresh(DType::I64, {}, Values::between(-1, 4))});
  return condition(body);
}

bool loop_node(Maker& m) {
  if (m.depth() >= kMostDepth) return false;
  States states;
  states.choose(m, m.rng.in(0, 3));
  const std::vector<Shape> shapes = states.shapes(m);
  const bool fixed = m.rng.chance(0.3);
  const int64_t trips = m.rng.in(0, 5);
  const V count = fixed ? m.constant(HostTensor::from<int64_t>(DType::I64, {}, {trips}))
                        : m.fresh(DType::I64, {}, Values::between(0, 5));
  const V first = m.rng.chance(0.7) ? kNone : condition(m);
  Maker body(m);
  const V number =
      body.passed(DType::I64, {}, same(HostTensor::from<int64_t>(DType::I64, {}, {0}), m));
  const V going =
      body.passed(DType::Bool, {}, same(HostTensor::from<uint8_t>(DType::Bool, {}, {1}), m));
  states.pass(m, body, shapes);
  fill(body);
  const V again = goes_on(body, number, going);
  if (again == kNone || body.rank(again) != 0 || !states.advance(body)) return false;
  std::vector<V> outputs{again};
  std::vector<Type> types;
  outputs.insert(outputs.end(), states.next.begin(), states.next.end());
  states.add_types(m, types);
  const bool known_length = fixed && first == kNone && again == going;
  for (const V v : results(body, m.rng.in(states.initial.empty() ? 1 : 0, 2))) {
    Type type{body.dtype(v), outside(m, body, v)};
    type.dims.insert(type.dims.begin(), known_length ? std::optional<Expr>(trips) : std::nullopt);
    outputs.push_back(v);
    types.push_back(std::move(type));
  }
  if (types.empty()) return false;
  std::vector<V> inputs{count, first};
  inputs.insert(inputs.end(), states.initial.begin(), states.initial.end());
  return m.add_with_bodies("Loop", std::move(inputs), {}, {{"body", &body, outputs}}, types);
}

/// Tensors with a common axis of one length, each element of which an iteration takes.
struct Scanned {
  std::vector<V> tensors;
  std::vector<int64_t> axes, directions;

  void choose(Maker& m, const Expr& length) {
    const int64_t count = m.rng.in(1, 2);
    for (int64_t i = 0; i < count; ++i) {
      Shape s{m.rng.in(1, 4)};
      if (m.rng.chance(0.5)) s.push_back(m.random_dim());
      if (m.rng.chance(0.1)) s.clear();
      const int64_t axis = m.rng.chance(0.5) ? 0 : m.rng.in(0, std::ssize(s));
      s.insert(s.begin() + axis, length);
      if (m.most_elements(s) > 1000) s = {length};
      tensors.push_back(m.operand(m.rng.chance(0.7) ? DType::F32 : m.random_dtype(), s));
      axes.push_back(std::min(axis, m.rank(tensors.back()) - 1));
      directions.push_back(m.rng.chance(0.3) ? 1 : 0);
    }
  }
  /// The first element in each run; zeros where there is none.
  void pass(Maker& m, Maker& body) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      Shape s = m.shape(tensors[i]);
      const auto axis = static_cast<size_t>(axes[i]);
      s.erase(s.begin() + axes[i]);
      std::vector<HostTensor> values;
      for (const HostTensor& t : m.values_of(tensors[i])) {
        const int64_t size = t.dims()[axis];
        std::vector<int64_t> dims = t.dims();
        dims.erase(dims.begin() + axes[i]);
        values.push_back(size == 0 ? HostTensor(t.dtype(), dims)
                                   : element_at(t, axis, directions[i] != 0 ? size - 1 : 0));
      }
      body.passed(m.dtype(tensors[i]), s, std::move(values));
    }
  }
};

bool scan_node(Maker& m) {
  if (m.depth() >= kMostDepth) return false;
  const Expr length = m.rng.chance(0.5) ? Expr(m.rng.in(1, 5)) : m.random_dim();
  States states;
  states.choose(m, m.rng.in(0, 3));
  std::ranges::fill(states.grows, -1);
  Scanned scanned;
  scanned.choose(m, length);
  Maker body(m);
  states.pass(m, body, states.shapes(m));
  scanned.pass(m, body);
  fill(body);
  if (!states.advance(body)) return false;
  std::vector<V> outputs = states.next;
  std::vector<Type> types;
  states.add_types(m, types);
  std::vector<int64_t> axes, directions;
  for (const V v : results(body, m.rng.in(states.initial.empty() ? 1 : 0, 2))) {
    Type type{body.dtype(v), outside(m, body, v)};
    axes.push_back(m.rng.chance(0.5) ? 0 : m.rng.in(0, body.rank(v)));
    directions.push_back(m.rng.chance(0.3) ? 1 : 0);
    type.dims.insert(type.dims.begin() + axes.back(), length);
    outputs.push_back(v);
    types.push_back(std::move(type));
  }
  if (types.empty()) return false;
  AttrMap attrs;
  attrs.set("num_scan_inputs", std::ssize(scanned.tensors));
  attrs.set("scan_input_axes", scanned.axes);
  attrs.set("scan_input_directions", scanned.directions);
  if (!axes.empty()) {
    attrs.set("scan_output_axes", axes);
    attrs.set("scan_output_directions", directions);
  }
  std::vector<V> inputs = states.initial;
  inputs.insert(inputs.end(), scanned.tensors.begin(), scanned.tensors.end());
  return m.add_with_bodies("Scan", std::move(inputs), std::move(attrs), {{"body", &body, outputs}},
                           types);
}

}  // namespace

std::span<const Recipe> control_recipes() {
  static constexpr Recipe kRecipes[] = {{"If", if_node}, {"Loop", loop_node}, {"Scan", scan_node}};
  return kRecipes;
}

}  // namespace reprise::fuzz
