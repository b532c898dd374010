#include "codegen/graph/graph.h"

#include <algorithm>
#include <cassert>
#include <cctype>

namespace reprise::graph {

ValueId Graph::add_value(const std::string& value_name, DType dtype, Shape shape) {
  Value v;
  v.name = unique_name(value_name);
  v.dtype = dtype;
  v.has_shape = true;
  v.shape = std::move(shape);
  values_.push_back(std::move(v));
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_unknown(const std::string& value_name) {
  Value v;
  v.name = unique_name(value_name);
  values_.push_back(std::move(v));
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_constant(const std::string& value_name, HostTensor data) {
  Shape shape(data.dims().begin(), data.dims().end());
  const ValueId id = add_value(value_name, data.dtype(), std::move(shape));
  value(id).constant = std::move(data);
  return id;
}

Node* Graph::add_node(Node n, Node* before) {
  auto at = nodes_.end();
  if (before) {
    auto known = positions_.find(before);
    at = known != positions_.end()
             ? known->second
             : std::find_if(nodes_.begin(), nodes_.end(),
                            [before](const auto& p) { return p.get() == before; });
  }
  if (n.name.empty()) n.name = default_name(*this, n);
  if (n.origins.empty()) n.origins.push_back(n.name);
  auto it = nodes_.insert(at, std::make_unique<Node>(std::move(n)));
  Node* node = it->get();
  positions_[node] = it;
  for (ValueId v : node->outputs) {
    if (v != kNone) value(v).producer = node;
  }
  return node;
}

void Graph::erase_node(Node* n) {
  for (ValueId v : n->outputs) {
    if (v != kNone && value(v).producer == n) value(v).producer = nullptr;
  }
  auto known = positions_.find(n);
  if (known != positions_.end()) {
    auto it = known->second;
    positions_.erase(known);
    nodes_.erase(it);
    return;
  }
  nodes_.remove_if([n](const auto& p) { return p.get() == n; });
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  for (auto& n : nodes_) std::replace(n->inputs.begin(), n->inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

std::vector<std::vector<Node*>> Graph::compute_uses() const {
  std::vector<std::vector<Node*>> uses(values_.size());
  for (const auto& n : nodes_) {
    for (ValueId v : n->inputs) {
      if (v != kNone) uses[static_cast<size_t>(v)].push_back(n.get());
    }
  }
  return uses;
}

bool Graph::is_output(ValueId v) const {
  return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
}

std::string Graph::output_name(size_t i) const {
  if (i < output_names.size() && !output_names[i].empty()) return output_names[i];
  return outputs[i] == kNone ? std::string() : value(outputs[i]).name;
}

namespace {

/// Symbols appear in expressions: letters, digits and '_', and none of the functions' names.
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

/// `base`, or `base_N` with the first free N; the map remembers where to go on for each base.
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
  const Interval range = value.bounds([this](SymbolId id) {
    const Symbol& s = symbols[static_cast<size_t>(id)];
    return SymbolRange{s.min, s.max, std::nullopt};
  });
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
  g->guards = guards;
  g->inputs = inputs;
  g->outputs = outputs;
  g->output_names = output_names;
  g->captures = captures;
  g->values_ = values_;
  g->names_ = names_;
  for (Value& v : g->values_) v.producer = nullptr;
  for (const auto& n : nodes_) {
    Node copy = *n;
    for (auto& [label, body] : copy.subgraphs) body = body->clone();
    g->add_node(std::move(copy));
  }
  return g;
}

std::string default_name(const Graph& g, const Node& n) {
  for (ValueId v : n.outputs) {
    if (v != kNone) return n.op + "(" + g.value(v).name + ")";
  }
  return n.op + "()";
}

}  // namespace reprise::graph
