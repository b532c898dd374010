#include "codegen/onnx/conditionals.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/determined.h"
#include "codegen/onnx/import.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

constexpr std::array<const char*, 2> kBranches{"then_branch", "else_branch"};

/// If the condition is that two integers are equal, and the compiler knows both, these integers.
std::optional<std::pair<Expr, Expr>> known_equality(Graph& g, ValueId condition) {
  graph::Node* n = g.value(condition).producer;
  if (!n || n->op != "Equal" || !n->domain.empty()) return std::nullopt;
  const ops::InferContext context(g, *n);
  const auto a = context.elements(0);
  const auto b = context.elements(1);
  if (!a || !b || a->size() != 1 || b->size() != 1) return std::nullopt;
  return std::pair(a->front(), b->front());
}

bool ranks_differ(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < a.outputs.size() && i < b.outputs.size(); ++i) {
    if (a.value(a.outputs[i]).shape.size() != b.value(b.outputs[i]).shape.size()) return true;
  }
  return false;
}

/// "dimension 1 of input 'x'" for each symbol that is a dim of an input.
std::set<std::string> input_dims_of(const Graph& g, const Expr& e) {
  std::set<std::string> out;
  for (const SymbolId id : e.symbols()) {
    const SymbolSource& source = g.symbol_sources[static_cast<size_t>(id)];
    const auto input = static_cast<size_t>(source.index);
    if (source.kind != SymbolSource::Kind::InputDim || input >= g.inputs.size()) continue;
    out.insert("dimension " + std::to_string(source.axis) + " of input " +
               shown(g.value(g.inputs[input]).name));
  }
  return out;
}

std::string joined(const std::set<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

/// What the value of an If's condition depends on.
class Dependences {
 public:
  Dependences(const Graph& g, ValueId condition) : g_(g) { add(condition); }

  std::set<std::string> values;  // names of tensors whose elements decide it
  std::set<std::string> dims;    // "dimension 1 of input 'x'"

 private:
  void add(ValueId condition) {
    std::vector<ValueId> pending{condition};
    std::set<ValueId> seen;
    while (!pending.empty()) {
      const ValueId v = pending.back();
      pending.pop_back();
      if (v == kNone || !seen.insert(v).second) continue;
      const graph::Value& value = g_.value(v);
      if (value.constant) continue;
      if (value.elements) {
        for (const Expr& e : *value.elements) dims.merge(input_dims_of(g_, e));
      } else if (value.producer) {
        pending.insert(pending.end(), value.producer->inputs.begin(), value.producer->inputs.end());
      } else {
        values.insert(shown(value.name));
      }
    }
  }

  const Graph& g_;
};

using Branches = std::array<const wire::Graph*, 2>;  // taken if true, and if false

Status inline_branch(Import& import, Scope& scope, const wire::Node& n, const wire::Graph& body) {
  Scope inner = scope.nested();
  if (body.output_size() < n.output_size()) {
    return invalid_model(node_text(n) + " has more outputs than its branch");
  }
  for (int i = 0; i < n.output_size(); ++i) {
    if (!n.output(i).empty()) {
      inner.renamed.emplace(body.output(i).name(), scope.name_in_graph(n.output(i)));
    }
  }
  RP_TRY(inline_body(import, inner, body));
  for (int i = 0; i < n.output_size(); ++i) {
    if (n.output(i).empty()) continue;
    const auto v = import.names.resolve(inner, body.output(i).name());
    if (!v || *v == kNone) {
      return invalid_model(node_text(n) + ": nothing defines the branch's output " +
                           shown(body.output(i).name()));
    }
    RP_TRY(import.names.check_declared(scope, n.output(i), *v, node_text(n)));
    scope.names.insert_or_assign(n.output(i), *v);
  }
  return {};
}

/// Imports a body of an If without listing refusals.
Result<std::shared_ptr<Graph>> try_branch(Import& import, Scope& scope, const wire::Graph& body,
                                          Scope& inner) {
  const Refusals::Trial trial(import.refusals);
  import.nodes.watch_types();
  return import_body(import, scope, body, {}, inner);
}

/// Imports the bodies of an If in these scopes. If one of them is invalid, its body only fails.
Status import_branches(Import& import, Scope& scope, const wire::Node& n, const Branches& branches,
                       graph::NodeSpec& node, std::array<Scope, 2>& scopes) {
  std::array<std::shared_ptr<Graph>, 2> bodies;
  std::array<Status, 2> invalid;
  for (size_t b = 0; b < 2; ++b) {
    const std::string where = "in the " + std::string(kBranches[b]) + " of " + node_text(n);
    Result<std::shared_ptr<Graph>> body = try_branch(import, scope, *branches[b], scopes[b]);
    const bool fails =
        !body.ok() && import.nodes.is_fault_of_types(body.status()) && invalid[0].ok();
    if (fails) {
      invalid[b] = body.status().with_context(where);
      scopes[b].captures.clear();
      import.functions.forget_failure();
      continue;
    }
    if (!body.ok() && import.refusals.keeps_on()) {  // once more, to list what is refused
      scopes[b] = {};
      body = import_body(import, scope, *branches[b], {}, scopes[b]);
    }
    if (!body.ok()) return (invalid[0].ok() ? body.status().with_context(where) : invalid[0]);
    if ((*body)->outputs.size() != static_cast<size_t>(n.output_size())) {
      return invalid_model(node_text(n) + " has " + std::to_string(n.output_size()) +
                           " outputs, but its " + kBranches[b] + " has " +
                           std::to_string((*body)->outputs.size()));
    }
    RP_TRY(import.refusals.omit_if_untyped(**body, (*body)->outputs));
    bodies[b] = *std::move(body);
  }
  for (size_t b = 0; b < 2; ++b) {
    if (!invalid[b].ok()) {
      const Graph& other = *bodies[1 - b];
      const std::vector<ValueId> results(other.outputs.begin(), other.outputs.end());
      RP_ASSIGN(bodies[b], failing_body(*scope.graph, other, results, invalid[b], import.notes));
      share_symbols(*bodies[b], *scope.graph);
      bodies[b]->inherited_symbols = bodies[b]->symbols.size();
    }
    node.subgraphs.emplace_back(kBranches[b], bodies[b]);
  }
  return {};
}

/// If the condition is that two dims are equal, adds a guard for it and returns true.
bool assume_equality(Import& import, Scope& scope, const wire::Node& n, ValueId condition) {
  const auto equal = known_equality(*scope.graph, condition);
  if (!equal) return false;
  graph::DimGuard guard;
  guard.a = equal->first;
  guard.b = equal->second;
  guard.node = scope.frame->prefix + (n.name().empty() ? "If(" + n.output(0) + ")" : n.name());
  if (guard.b.is_const())
    guard.b_is =
        "the size for which the then_branch was chosen (compile the model with --shape for others)";
  std::set<std::string> dims = input_dims_of(*scope.graph, guard.a);
  dims.merge(input_dims_of(*scope.graph, guard.b));
  const std::vector<Symbol>& symbols = scope.graph->symbols;
  import.notes.add(
      node_text(n) + ": its branches differ in rank, so the then_branch is assumed, which needs " +
      guard.a.str(symbols) + " = " + guard.b.str(symbols) +
      (dims.empty() ? std::string() : " (" + joined(dims) + ")") +
      "; runs with other sizes are refused. --shape with other sizes gives the else_branch");
  if (!ops::propagate_equality(*scope.graph, guard.a, guard.b))
    scope.graph->guards.push_back(std::move(guard));
  ops::simplify_broadcasts(*scope.graph);
  return true;
}

}  // namespace

std::optional<bool> known_condition(const Graph& g, ValueId condition) {
  const graph::Value& v = g.value(condition);
  if (v.elements && v.elements->size() == 1 && v.elements->front().is_const()) {
    return v.elements->front().value() != 0;
  }
  Determined constants(g, {});
  const HostTensor* known = constants.value(condition);
  if (known == nullptr || known->dtype() != DType::Bool || known->count() != 1) return std::nullopt;
  return known->data<uint8_t>()[0] != 0;
}

Status merge_types(Graph& g, ValueId out, const std::array<const graph::Value*, 2>& given,
                   const std::string& what, const std::string& advice) {
  const graph::Value& a = *given[0];
  const graph::Value& b = *given[1];
  const auto type = [&](const graph::Value& v) {
    return std::string(name_of(v.dtype)) + shape_str(v.shape, g.symbols);
  };
  if (a.dtype != b.dtype) {
    return invalid_model("the branches give " + type(a) + " and " + type(b) + " for " + what);
  }
  if (a.shape.size() != b.shape.size()) {
    return unsupported("the branches give " + type(a) + " and " + type(b) + " for " + what +
                       ", and the graph's outputs need one rank; " + advice);
  }
  Shape shape;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] == b.shape[d]) {
      shape.push_back(a.shape[d]);
      continue;
    }
    Symbol s;
    s.name = g.value(out).name + "_dim" + std::to_string(d);
    const SymbolSource source{
        SymbolSource::Kind::HostOutput, out.number(), static_cast<int32_t>(d), {}};
    shape.push_back(Expr::symbol(g.add_symbol(std::move(s), source)));
  }
  graph::Value& v = g.value(out);
  v.dtype = a.dtype;
  v.shape = std::move(shape);
  v.items = items_outside(g, joined(a.items, b.items));
  v.has_shape = true;
  return {};
}

std::string advice_for(const Graph& g, ValueId condition) {
  const Dependences on(g, condition);
  if (!on.values.empty()) {
    return "the condition depends on the values of " + joined(on.values) +
           ", which fixed shapes do not determine: make them constants (initialisers) of the "
           "model, or export it with branches of one rank";
  }
  if (!on.dims.empty()) {
    return "the condition depends on " + joined(on.dims) +
           ": fix the size with --shape, so that the condition is known";
  }
  return "export the model with branches of one rank";
}

Status add_if(Import& import, Scope& scope, const wire::Node& n) {
  Branches branches{};
  for (const wire::Attribute& a : n.attribute()) {
    for (size_t b = 0; b < 2; ++b) {
      if (a.name() == kBranches[b] && a.has_g()) branches[b] = &a.g();
    }
  }
  RP_ASSIGN(std::vector<ValueId> inputs, import.nodes.inputs_of(scope, n));
  if (!branches[0] || !branches[1] || inputs.size() != 1 || inputs[0] == kNone) {
    return invalid_model(node_text(n) + " needs a condition, a then_branch and an else_branch");
  }
  const graph::Value& condition = scope.graph->value(inputs[0]);
  if (condition.dtype != DType::Bool) {
    return invalid_model(node_text(n) + ": the condition is " +
                         std::string(name_of(condition.dtype)) + ", not bool");
  }
  if (const auto known = known_condition(*scope.graph, inputs[0])) {
    return inline_branch(import, scope, n, *branches[*known ? 0 : 1]);
  }
  graph::NodeSpec node;
  node.op = "If";
  node.opset = scope.frame->default_opset();
  if (!n.name().empty()) node.name = scope.frame->prefix + n.name();
  node.inputs = inputs;
  std::array<Scope, 2> scopes;
  RP_TRY(import_branches(import, scope, n, branches, node, scopes));
  // Exporters write "squeeze if the size is 1" as an If. The nodes after it need one rank, so the
  // model intends one of the branches. A guard refuses runs that would take the other.
  if (ranks_differ(*node.subgraphs[0].second, *node.subgraphs[1].second)) {
    if (assume_equality(import, scope, n, inputs[0]))
      return inline_branch(import, scope, n, *branches[0]);
    if (import.forks.is_open(scope)) return import.forks.add(scope, n);
    return import.forks.start(scope, n, std::move(node), scopes);
  }
  join_captures(node, scopes);
  for (const std::string& name : n.output()) {
    node.outputs.push_back(name.empty() ? kNone
                                        : scope.graph->add_unknown(scope.name_in_graph(name)));
  }
  graph::Node* added = scope.graph->add_node(std::move(node));
  const auto result = [&](size_t b, size_t i) {
    const Graph& body = *added->subgraphs[b].second;
    return &body.value(body.outputs[i]);
  };
  for (size_t i = 0; i < added->outputs.size(); ++i) {
    const ValueId v = added->outputs[i];
    if (v == kNone) continue;
    RP_TRY(merge_types(*scope.graph, v, {result(0, i), result(1, i)}, "output " + std::to_string(i),
                       advice_for(*scope.graph, inputs[0]))
               .with_context(node_text(n)));
    scope.names.insert_or_assign(n.output(static_cast<int>(i)), v);
  }
  return import.nodes.check_outputs(scope, n, *added);
}

}  // namespace reprise::onnx
