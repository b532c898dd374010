// Bodies of If, Loop and Scan: graphs of their own, whose values are those of a first iteration.
#include <algorithm>
#include <limits>

#include "codegen/ops/row/op.h"
#include "tests/fuzz/lib/control_flow.h"
#include "tests/fuzz/lib/evaluation.h"
#include "tests/fuzz/lib/generator.h"

namespace reprise::fuzz {

namespace {

constexpr int64_t kMostInBody = 6000;  // of what a node with bodies gives
constexpr int64_t kUnknownSize = std::numeric_limits<int64_t>::min();

/// The sources of symbols in another graph, where the ids of values mean nothing.
void copy_symbols(const graph::Graph& from, size_t first, graph::Graph& to) {
  for (size_t s = first; s < from.symbols.size(); ++s) {
    to.symbols.push_back(from.symbols[s]);
    to.symbol_sources.push_back(from.symbol_sources[s]);
    SymbolSource& source = to.symbol_sources.back();
    if (source.kind != SymbolSource::Kind::InputDim) source.index = graph::kNone.number();
  }
}

using V = graph::ValueId;
using Captured = std::vector<std::pair<V, V>>;  // outside and in the body

/// Inputs from `first` on are what bodies capture, each value once.
void add_captured(graph::NodeSpec& n, size_t first, const Captured& captured) {
  for (const auto& [there, here] : captured) {
    const auto begin = n.inputs.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::find(begin, n.inputs.end(), there) == n.inputs.end()) n.inputs.push_back(there);
  }
}

/// What stands for these inputs in a body.
std::vector<V> captures_of(const graph::NodeSpec& n, size_t first, const Captured& captured) {
  std::vector<V> out;
  for (size_t i = first; i < n.inputs.size(); ++i) {
    const auto at = std::ranges::find(captured, n.inputs[i], &std::pair<V, V>::first);
    out.push_back(at == captured.end() ? graph::kNone : at->second);
  }
  return out;
}

}  // namespace

Maker::Maker(Maker& outer)
    : rng(outer.rng.next()),
      add_some(outer.add_some),
      g_(std::make_unique<graph::Graph>()),
      heading_(outer.heading_),
      model_symbols_(outer.model_symbols_),
      sizes_(outer.sizes_),
      held_(outer.sizes_.size()),
      palette_(outer.palette_),
      favourite_(outer.favourite_),
      wild_(outer.wild_),
      outer_(&outer),
      depth_(outer.depth_ + 1),
      declared_(outer.declared_) {
  copy_symbols(*outer.g_, 0, *g_);
}

Maker::V Maker::passed(DType t, const Shape& s, std::vector<HostTensor> values,
                       graph::Items items) {
  const V v = g_->add_value("p" + std::to_string(g_->values().size()), t, s);
  g_->value(v).items = std::move(items);
  g_->inputs.push_back(v);
  for (size_t r = 0; r < held_.size(); ++r) {
    held_[r].resize(g_->values().size());
    held_[r][v] = std::move(values[r]);
  }
  offer(v);
  return v;
}

std::vector<HostTensor> Maker::values_of(V v) {
  std::vector<HostTensor> out;
  for (size_t r = 0; r < held_.size(); ++r) {
    held_[r].resize(g_->values().size());
    out.push_back(held(v, r));
  }
  return out;
}

bool Maker::is_nameable(const Shape& s) const {
  return std::ranges::all_of(s, [&](const Expr& d) {
    return std::ranges::all_of(d.symbols(), [&](SymbolId id) {
      return static_cast<size_t>(id) < model_symbols_ || declared_.count(id) != 0;
    });
  });
}

Maker::V Maker::capture(V outer) {
  for (const auto& [there, here] : captured_)
    if (there == outer) return here;
  if (!outer_->is_nameable(outer_->shape(outer))) return kNone;
  const V v = g_->add_value("k" + std::to_string(g_->values().size()), outer_->dtype(outer),
                            outer_->shape(outer));
  g_->value(v).items = outer_->value(outer).items;
  const std::vector<HostTensor> values = outer_->values_of(outer);
  for (size_t r = 0; r < held_.size(); ++r) {
    held_[r].resize(g_->values().size());
    held_[r][v] = values[r];
  }
  captured_.emplace_back(outer, v);
  offer(v);
  return v;
}

Maker::V Maker::like(DType t, const Shape& given_shape) {
  const Shape s = given_shape;  // it may be of a value, whose address changes
  std::vector<V> made, given;
  for (const V v : pool_) {
    if (dtype(v) == t && shape(v) == s) (value(v).producer != nullptr ? made : given).push_back(v);
  }
  if (!made.empty() && rng.chance(0.8)) return rng.pick(made);
  V v = given.empty() ? fresh(t, s) : rng.pick(given);
  if (shape(v) != s || rng.chance(0.1)) return v;
  if (t == DType::Bool) return chain("Not", {v});
  if (is_float(t) && rng.chance(0.6)) v = chain("Tanh", {v});
  if (v == kNone) return v;
  const std::vector<std::string> ops{"Add", "Mul", "Max", "Sub"};
  return chain(rng.pick(ops), {v, fresh(t, broadcast_shape(s, true))});
}

/// Text declares symbols in the graph that they belong to, so no two graphs have one of a name.
std::string Maker::symbol_name() {
  Maker* root = this;
  while (root->outer_ != nullptr) root = root->outer_;
  return "d" + std::to_string(++root->named_);
}

Expr Maker::varying_dim(V v, size_t axis) {
  const Expr dim = shape(v)[axis];
  const SymbolId id = g_->add_symbol(
      {symbol_name()},
      {SymbolSource::Kind::HostOutput, graph::kNone.number(), static_cast<int32_t>(axis), {}});
  declared_.insert(id);
  varying_.insert(id);
  for (auto& run : sizes_) {
    const auto size = dim.eval(run);
    run.push_back(size.ok() ? *size : kUnknownSize);
  }
  return Expr::symbol(id);
}

std::optional<Expr> Maker::dim_outside(const Maker& body, const Expr& dim) const {
  // Symbols of the body come after those of this graph, which has not changed since.
  const bool known =
      dim.largest_symbol() < static_cast<SymbolId>(g_->symbols.size()) &&
      std::ranges::none_of(dim.symbols(), [this](SymbolId id) { return varying_.contains(id); });
  return known && body.is_nameable({dim}) && is_nameable({dim}) ? std::optional(dim) : std::nullopt;
}

std::shared_ptr<graph::Graph> Maker::end_body(const std::vector<V>& outputs) {
  if (!sizes_are_as_computed() || std::find(outputs.begin(), outputs.end(), kNone) != outputs.end())
    return nullptr;
  g_->set_outputs(outputs);
  return std::move(g_);
}

bool Maker::computable_with_bodies(const graph::Node& n) {
  attempt(n);
  const Evaluation bodies = Evaluation::of_bodies(n);
  for (size_t r = 0; r < sizes_.size(); ++r) {
    held_[r].resize(g_->values().size());
    std::vector<const HostTensor*> inputs;
    for (const V v : n.inputs) inputs.push_back(v == kNone ? nullptr : &held(v, r));
    auto results = bodies.run(n, inputs, sizes_[r]);
    if (!results.ok()) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      HostTensor& t = (*results)[i];
      if (t.count() > kMostInBody) return false;
      for (size_t d = 0; d < t.dims().size(); ++d) {
        const auto symbol = shape(n.outputs[i])[d].as_symbol();
        if (symbol && sizes_[r][static_cast<size_t>(*symbol)] == kUnknownSize)
          sizes_[r][static_cast<size_t>(*symbol)] = t.dims()[d];
        const auto size = shape(n.outputs[i])[d].eval(sizes_[r]);
        if (!size.ok() || *size != t.dims()[d]) return false;
      }
      held_[r][n.outputs[i]] = std::move(t);
    }
  }
  return true;
}

bool Maker::add_with_bodies(std::string_view op, std::vector<V> inputs, AttrMap attrs,
                            const std::vector<BodyOf>& bodies, const std::vector<Type>& types) {
  const size_t guards = g_->guards.size();
  const size_t symbols = g_->symbols.size();
  graph::NodeSpec n;
  n.op = op;
  n.opset = kOpset;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  const size_t first = n.inputs.size();
  for (const BodyOf& b : bodies) add_captured(n, first, b.maker->captured_);
  for (const BodyOf& b : bodies) {
    const auto body = b.maker->end_body(b.outputs);
    if (body == nullptr) return false;
    body->captures = captures_of(n, first, b.maker->captured_);
    body->inherited_symbols = symbols;
    n.subgraphs.emplace_back(b.label, body);
  }
  const std::string base = "v" + std::to_string(g_->values().size());
  for (const Type& type : types) {
    const V v = g_->add_unknown(base);
    Shape shape;
    for (const auto& d : type.dims) {
      if (d) {
        shape.push_back(*d);
        continue;
      }
      const SymbolId id = g_->add_symbol(
          {symbol_name()},
          {SymbolSource::Kind::HostOutput, v.number(), static_cast<int32_t>(shape.size()), {}});
      declared_.insert(id);
      shape.push_back(Expr::symbol(id));
    }
    graph::Value& value = g_->value(v);
    value.dtype = type.dtype;
    value.shape = std::move(shape);
    value.items = type.items;
    value.has_shape = true;
    n.outputs.push_back(v);
  }
  add_sizes();
  graph::Node* node = g_->add_node(std::move(n));
  if (!computable(*node)) {
    retract(node, guards, symbols);
    for (auto* ids : {&declared_, &varying_})
      std::erase_if(*ids, [&](SymbolId id) { return static_cast<size_t>(id) >= symbols; });
    return false;
  }
  last_ = node->outputs;
  std::ranges::for_each(last_, [this](V v) { offer(v); });
  return true;
}

}  // namespace reprise::fuzz
