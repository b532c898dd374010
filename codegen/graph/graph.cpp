#include "codegen/graph/graph.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "codegen/graph/symbol_ranges.h"

namespace reprise::graph {

ValueId Graph::add(Value v) {
  uses_.push_back({});
  return values_.push_back(std::move(v));
}

ValueId Graph::add_value(const std::string& value_name, DType dtype, Shape shape) {
  Value v;
  v.name = unique_name(value_name);
  v.dtype = dtype;
  v.has_shape = true;
  v.shape = std::move(shape);
  return add(std::move(v));
}

ValueId Graph::add_container(const std::string& value_name, DType dtype, Items items) {
  const ValueId id = add_value(value_name, dtype, {});
  value(id).items = std::move(items);
  return id;
}

ValueId Graph::add_unknown(const std::string& value_name) {
  Value v;
  v.name = unique_name(value_name);
  return add(std::move(v));
}

ValueId Graph::add_constant(const std::string& value_name, HostTensor data) {
  Shape shape(data.dims().begin(), data.dims().end());
  const ValueId id = add_value(value_name, data.dtype(), std::move(shape));
  value(id).constant = std::move(data);
  return id;
}

ValueId Graph::add_joined(const std::string& value_name, JoinedTensors data) {
  const DType dtype = data.parts[0].dtype();
  std::vector<int64_t> dims = data.parts[0].dims();
  dims[data.axis] = 0;
  for (const HostTensor& part : data.parts) dims[data.axis] += part.dims()[data.axis];
  const ValueId id = add_constant(value_name, HostTensor::borrow(dtype, dims, {}, nullptr));
  value(id).joined = std::move(data);
  return id;
}

Node* Graph::add_node(NodeSpec spec, Node* before) {
  if (spec.name.empty()) spec.name = default_name(*this, spec.op, spec.outputs);
  if (spec.origins.empty()) spec.origins.push_back(spec.name);
  std::vector<ValueId> results = std::move(spec.outputs);
  std::vector<ValueId> operands = std::move(spec.inputs);
  const auto at = before != nullptr ? before->position_ : nodes_.end();
  const auto it = nodes_.insert(at, std::unique_ptr<Node>(new Node(std::move(spec))));
  Node* node = it->get();
  node->position_ = it;
  assign_order(*node);
  set_inputs(*node, std::move(operands));
  node->outputs.list_ = std::move(results);
  for (ValueId v : node->outputs) {
    if (v != kNone) value(v).producer = node;
  }
  return node;
}

void Graph::erase_node(Node* n) {
  for (ValueId v : n->outputs) {
    if (v != kNone && value(v).producer == n) value(v).producer = nullptr;
  }
  set_inputs(*n, {});
  nodes_.erase(n->position_);
}

/// Order numbers increase along the list. The gaps leave room for nodes that are inserted later.
void Graph::assign_order(Node& n) {
  constexpr uint64_t kGap = uint64_t{1} << 32;
  const uint64_t before = n.position_ == nodes_.begin() ? 0 : (*std::prev(n.position_))->order_;
  const auto next = std::next(n.position_);
  n.order_ = next == nodes_.end() ? before + kGap : before + ((*next)->order_ - before) / 2;
  if (n.order_ != before) return;
  uint64_t order = 0;
  for (const auto& node : nodes_) node->order_ = order += kGap;
}

/// Null for kNone and for ids out of range. verify() reports the latter.
Graph::Uses* Graph::uses(ValueId v) {
  return uses_.has(v) ? &uses_[v] : nullptr;
}

void Graph::add_use(ValueId v, Node* n) {
  Uses* of = uses(v);
  if (of == nullptr) return;
  std::vector<Node*>& users = of->users;
  users.insert(std::upper_bound(users.begin(), users.end(), n, precedes), n);
}

void Graph::remove_use(ValueId v, Node* n) {
  Uses* of = uses(v);
  if (of == nullptr) return;
  std::vector<Node*>& users = of->users;
  const auto use = std::lower_bound(users.begin(), users.end(), n, precedes);
  // There is no such use if the value is newer than the node's input. verify() reports that.
  if (use != users.end() && *use == n) users.erase(use);
}

void Graph::set_input(Node& n, size_t i, ValueId v) {
  remove_use(n.inputs[i], &n);
  n.inputs.list_[i] = v;
  add_use(v, &n);
}

void Graph::set_inputs(Node& n, std::vector<ValueId> list) {
  for (ValueId v : n.inputs) remove_use(v, &n);
  n.inputs.list_ = std::move(list);
  for (ValueId v : n.inputs) add_use(v, &n);
}

void Graph::set_output(Node& n, size_t i, ValueId v) {
  const ValueId old = n.outputs[i];
  if (old != kNone && value(old).producer == &n) value(old).producer = nullptr;
  n.outputs.list_[i] = v;
  if (v != kNone) value(v).producer = &n;
}

void Graph::add_output(ValueId v) {
  outputs.list_.push_back(v);
  if (Uses* of = uses(v)) ++of->outputs;
}

void Graph::set_outputs(std::vector<ValueId> list) {
  for (ValueId v : outputs) {
    if (Uses* of = uses(v)) --of->outputs;
  }
  outputs.list_ = std::move(list);
  for (ValueId v : outputs) {
    if (Uses* of = uses(v)) ++of->outputs;
  }
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  assert(uses(from) != nullptr && uses(to) != nullptr);
  const std::vector<Node*> moved = std::exchange(uses(from)->users, {});
  for (Node* n : moved) {
    std::vector<ValueId>& list = n->inputs.list_;
    std::replace(list.begin(), list.end(), from, to);
  }
  std::vector<Node*>& users = uses(to)->users;
  const auto middle = users.insert(users.end(), moved.begin(), moved.end());
  std::inplace_merge(users.begin(), middle, users.end(), precedes);
  if (!is_output(from)) return;
  std::replace(outputs.list_.begin(), outputs.list_.end(), from, to);
  uses(to)->outputs += std::exchange(uses(from)->outputs, 0);
}

std::string Graph::output_name(size_t i) const {
  if (i < output_names.size() && !output_names[i].empty()) return output_names[i];
  return outputs[i] == kNone ? std::string() : value(outputs[i]).name;
}

namespace {

/// Names of symbols occur in expressions, so they must not be names of functions there.
std::string identifier(const std::string& raw) {
  std::string out;
  for (char c : raw) {
    out.push_back(std::isalnum(static_cast<unsigned char>(c)) ? c : '_');
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "s");
  for (const char* word : {"floordiv", "ceildiv", "mod", "min", "max"}) {
    if (out == word) return out + "_";
  }
  return out;
}

/// `base`, or `base_N` with the first free N. The map keeps the next N to try for each base.
std::string take_name(std::unordered_map<std::string, int>& taken, const std::string& base) {
  auto [it, fresh] = taken.try_emplace(base, 1);
  if (fresh) return base;
  int next = it->second;
  std::string candidate;
  do {
    candidate = base + "_" + std::to_string(next++);
  } while (!taken.try_emplace(candidate, 1).second);
  taken[base] = next;
  return candidate;
}

}  // namespace

SymbolId Graph::add_symbol(Symbol s, SymbolSource source) {
  for (; known_symbols_ < symbols.size(); ++known_symbols_) {
    symbol_names_.try_emplace(symbols[known_symbols_].name, 1);
  }
  s.name = take_name(symbol_names_, identifier(s.name));
  symbols.push_back(std::move(s));
  known_symbols_ = symbols.size();
  symbol_sources.resize(symbols.size());
  symbol_sources.back() = std::move(source);
  return static_cast<SymbolId>(symbols.size() - 1);
}

Expr Graph::derived_symbol(const std::string& symbol_name, const Expr& value) {
  for (size_t s = 0; s < symbol_sources.size(); ++s) {
    if (symbol_sources[s].kind == SymbolSource::Kind::Derived && symbol_sources[s].value == value) {
      return Expr::symbol(static_cast<SymbolId>(s));
    }
  }
  const Interval range = value.bounds(symbol_ranges(*this));
  Symbol s;
  s.name = symbol_name;
  s.min = range.min;
  s.max = range.max;
  s.divisor = std::max<int64_t>(value.known_divisor(symbols), 1);
  SymbolSource source;
  source.kind = SymbolSource::Kind::Derived;
  source.value = value;
  return Expr::symbol(add_symbol(std::move(s), std::move(source)));
}

std::string Graph::unique_name(const std::string& base) {
  return take_name(names_, base.empty() ? "v" : base);
}

std::unique_ptr<Graph> Graph::clone() const {
  auto g = std::make_unique<Graph>();
  g->name = name;
  g->symbols = symbols;
  g->symbol_sources = symbol_sources;
  g->likely_sizes = likely_sizes;
  g->guards = guards;
  g->inputs = inputs;
  g->output_names = output_names;
  g->notes = notes;
  g->captures = captures;
  g->inherited_symbols = inherited_symbols;
  g->values_ = values_;
  g->uses_.resize(values_.size());
  g->set_outputs(outputs);
  g->names_ = names_;
  for (Value& v : g->values_) v.producer = nullptr;
  for (const auto& n : nodes_) {
    NodeSpec copy{*n, n->inputs, n->outputs};
    for (auto& [label, body] : copy.subgraphs) body = body->clone();
    g->add_node(std::move(copy));
  }
  return g;
}

std::string default_name(const Graph& g, const std::string& op,
                         const std::vector<ValueId>& results) {
  for (ValueId v : results) {
    if (v != kNone) return op + "(" + g.value(v).name + ")";
  }
  return op + "()";
}

}  // namespace reprise::graph
