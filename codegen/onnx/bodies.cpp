#include "codegen/onnx/bodies.h"

#include <algorithm>

#include "codegen/onnx/import.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

/// The sources of symbols for another graph, in which the ids of values mean nothing.
std::vector<SymbolSource> sources_elsewhere(std::vector<SymbolSource> sources) {
  for (SymbolSource& s : sources) {
    if (s.kind != SymbolSource::Kind::InputDim) s.index = kNone.number();
  }
  return sources;
}

Status fill_body(Import& import, const wire::Graph& body, const std::vector<BodyInput>& inputs,
                 Scope& scope) {
  if (static_cast<size_t>(body.input_size()) != inputs.size()) {
    return invalid_model("it has " + std::to_string(body.input_size()) + " inputs, but " +
                         std::to_string(inputs.size()) + " values are passed to it");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = body.input(static_cast<int>(i)).name();
    const ValueId v = scope.graph->add_value(name, inputs[i].dtype, inputs[i].shape);
    scope.graph->value(v).items = inputs[i].items;
    scope.graph->inputs.push_back(v);
    RP_TRY(import.names.define(scope, name, v));
  }
  RP_TRY(import.names.add_initialisers(scope, body));
  import.names.add_declared(scope, body);
  RP_TRY(import.nodes.add_all(scope, body.node()));
  RP_TRY(import.forks.end(scope, output_names(body)));
  return import.names.set_outputs(scope, body);
}

}  // namespace

void join_captures(graph::NodeSpec& node, std::span<const Scope> scopes) {
  const size_t first = node.inputs.size();
  for (size_t s = 0; s < scopes.size(); ++s) {
    for (const Scope::Capture& c : scopes[s].captures) {
      const auto begin = node.inputs.begin() + static_cast<std::ptrdiff_t>(first);
      auto it = std::find(begin, node.inputs.end(), c.outer);
      const auto at = static_cast<size_t>(it - begin);
      if (it == node.inputs.end()) node.inputs.push_back(c.outer);
      std::vector<ValueId>& inner = node.subgraphs[s].second->captures;
      inner.resize(std::max(inner.size(), at + 1), kNone);
      inner[at] = c.inner;
    }
  }
  for (auto& [label, body] : node.subgraphs) {
    body->captures.resize(node.inputs.size() - first, kNone);
  }
}

void share_symbols(const Graph& from, Graph& to) {
  const auto known = static_cast<std::ptrdiff_t>(to.symbols.size());
  const auto sources = sources_elsewhere(from.symbol_sources);
  to.symbols.insert(to.symbols.end(), from.symbols.begin() + known, from.symbols.end());
  to.symbol_sources.insert(to.symbol_sources.end(), sources.begin() + known, sources.end());
}

graph::Items items_outside(const Graph& g, graph::Items items) {
  for (Expr& d : items.shape) {
    const bool outer = std::ranges::all_of(d.symbols(), [&g](SymbolId s) {
      const auto at = static_cast<size_t>(s);
      return at < g.symbols.size() && g.symbol_sources[at].index != kNone.number();
    });
    if (!outer) d = graph::Items::kDiffers;
  }
  return items;
}

Result<ValueId> add_simple(Graph& g, const char* op, ValueId operand, const std::string& result) {
  graph::NodeSpec node;
  node.op = op;
  node.opset = 18;
  node.inputs = {operand};
  const ValueId v = g.add_unknown(result);
  node.outputs = {v};
  RP_TRY(ops::infer(g, *g.add_node(std::move(node))));
  return v;
}

Result<std::shared_ptr<Graph>> import_body(Import& import, Scope& outer, const wire::Graph& body,
                                           const std::vector<BodyInput>& inputs, Scope& scope) {
  auto g = std::make_shared<Graph>();
  g->name = body.name();
  g->symbols = outer.graph->symbols;
  g->symbol_sources = sources_elsewhere(outer.graph->symbol_sources);
  scope.graph = g.get();
  scope.outer = &outer;
  scope.frame = outer.frame;
  scope.source = &body;
  const Status filled = fill_body(import, body, inputs, scope);
  import.forks.drop(*g);  // after an error
  RP_TRY(filled);
  share_symbols(*g, *outer.graph);
  g->inherited_symbols = g->symbols.size();
  return g;
}

Status inline_body(Import& import, Scope& inner, const wire::Graph& body) {
  RP_TRY(import.names.add_initialisers(inner, body));
  import.names.add_declared(inner, body);
  return import.nodes.add_all(inner, body.node());
}

}  // namespace reprise::onnx
