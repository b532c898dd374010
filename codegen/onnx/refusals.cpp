#include "codegen/onnx/refusals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/onnx/import.h"
#include "codegen/onnx/rewrites.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

/// The message without "node 'name' (Op): " in front.
Status without_node(const Status& s) {
  const std::string& message = s.message();
  const size_t end = message.find("): ");
  if (!message.starts_with("node '") || end == std::string::npos) return s;
  return s.reworded(s.code(), message.substr(end + 3));
}

/// Errors that concern the model alone. After others, an import cannot go on.
bool is_refusal(const Status& s) {
  return s.code() == Code::InvalidModel || s.code() == Code::Unsupported;
}

/// A graph input of the type that the model declares for a value. kNone if it declares none.
ValueId declared_input(Scope& scope, const std::string& name) {
  const bool is_model = scope.outer == nullptr && scope.frame->calls.empty();
  const auto declared = scope.declared.find(name);
  if (!is_model || declared == scope.declared.end() || !declared->second->type().has_tensor_type())
    return kNone;
  const wire::TensorType& type = declared->second->type().tensor_type();
  const Result<DType> dtype = dtype_of(type.elem_type());
  if (!dtype.ok() || !type.has_shape() || type.shape().dim_size() > 64) return kNone;
  Graph& g = *scope.graph;
  const auto index = static_cast<int32_t>(g.inputs.size());
  Shape shape;
  for (const wire::Dimension& d : type.shape().dim()) {
    const auto named = std::ranges::find(g.symbols, d.dim_param(), &Symbol::name);
    const auto axis = static_cast<int32_t>(shape.size());
    if (d.has_dim_value() && d.dim_value() >= 0) {
      shape.push_back(d.dim_value());
    } else if (named != g.symbols.end() && !d.dim_param().empty()) {
      shape.push_back(Expr::symbol(static_cast<SymbolId>(named - g.symbols.begin())));
    } else {
      Symbol s;
      s.name = d.dim_param().empty() ? name + "_dim" + std::to_string(axis) : d.dim_param();
      shape.push_back(
          Expr::symbol(g.add_symbol(std::move(s), {SymbolSource::Kind::InputDim, index, axis})));
    }
  }
  if (is_static(shape) && !checked_element_count(static_dims(shape), *dtype).ok()) return kNone;
  const ValueId v = g.add_value(name, *dtype, std::move(shape));
  g.inputs.push_back(v);
  return v;
}

}  // namespace

Status Refusal::error() const {
  if (node.empty()) return why;
  if (op.empty()) return why.with_context(shown(node));
  return why.with_context("node " + shown(node) + " (" + op + ", domain " + shown(domain) +
                          (version > 0 ? ", version " + std::to_string(version) : "") + ")");
}

void Refusals::add(Refusal refusal) {
  // The bodies of loops are imported more than once.
  const std::string key = refusal.node + '\n' + refusal.op + '\n' + refusal.why.message();
  if (listed_.insert(key).second) list_->push_back(std::move(refusal));
}

Status Refusals::refuse(Scope& scope, const wire::Node& n, const Status& why,
                        const graph::Node* last) {
  if (!keeps_on() || !is_refusal(why) || import_.nodes.expands_too_far()) return why;
  const std::string domain = canonical_domain(n.domain());
  const auto opset = scope.frame->opsets.find(domain);
  if (!listed_before_) {
    add({scope.frame->prefix + name_of_node(n), n.op_type().substr(0, 200),
         domain.empty() ? "ai.onnx" : domain.substr(0, 200),
         opset == scope.frame->opsets.end() ? 0 : opset->second, without_node(why)});
  }
  listed_before_ = false;
  Graph& g = *scope.graph;
  while (!g.nodes().empty() && g.nodes().back().get() != last) g.erase_node(g.nodes().back().get());
  omit_outputs(scope, n);
  return {};
}

Status Refusals::refuse_value(Scope& scope, const std::string& name, const Status& why) {
  if (!keeps_on() || !is_refusal(why)) return why;
  add({scope.frame->prefix + name, "", "", 0, why});
  return import_.names.define(scope, name, scope.graph->add_unknown(scope.name_in_graph(name)));
}

Status Refusals::refuse_model(const Status& why) {
  if (!keeps_on() || !is_refusal(why)) return why;
  add({"", "", "", 0, why});
  return {};
}

bool Refusals::reads_refused(Scope& scope, const wire::Node& n) {
  return std::ranges::any_of(n.input(), [&](const std::string& name) {
    const std::optional<ValueId> v = name.empty() ? kNone : import_.names.resolve(scope, name);
    return v && *v != kNone && !is_typed(scope.graph->value(*v));
  });
}

Status Refusals::omit(Scope& scope, const wire::Node& n) {
  for (const wire::Attribute& a : n.attribute()) {
    if (a.has_g()) RP_TRY(omit_body(scope, a.g()));
  }
  const std::string domain = canonical_domain(n.domain());
  if (!is_flex_attention(n, domain) && !is_sequence_map(n, domain) &&
      ops::find(domain, n.op_type()) == nullptr)
    return import_.nodes.unknown_operator(scope, n, domain);
  omit_outputs(scope, n);
  return {};
}

Status Refusals::omit_body(Scope& scope, const wire::Graph& body) {
  Graph unused;
  unused.symbols = scope.graph->symbols;
  unused.symbol_sources = scope.graph->symbol_sources;
  Scope inner;
  inner.graph = &unused;
  inner.outer = &scope;
  inner.frame = scope.frame;
  for (const wire::ValueInfo& v : body.input())
    RP_TRY(import_.names.define(inner, v.name(), unused.add_unknown(v.name())));
  Status added = import_.names.add_initialisers(inner, body);
  if (added.ok()) added = import_.nodes.add_all(inner, body.node());
  import_.forks.drop(unused);
  return added;
}

void Refusals::omit_outputs(Scope& scope, const wire::Node& n) {
  for (const std::string& name : n.output()) {
    if (name.empty()) continue;
    ValueId v = declared_input(scope, name);
    if (v == kNone) v = scope.graph->add_unknown(scope.name_in_graph(name));
    scope.names.insert_or_assign(name, v);
  }
}

Status Refusals::omit_if_untyped(const Graph& g, const std::vector<ValueId>& values) {
  const bool typed =
      std::ranges::all_of(values, [&g](ValueId v) { return v == kNone || is_typed(g.value(v)); });
  if (typed) return {};
  if (!keeps_on()) return internal_error("a body returns a value without a type");
  listed_before_ = true;
  return unsupported("a value that its body returns is refused");
}

void Refusals::keep_what_is_left(Graph& g) {
  for (const ValueId v : g.values().ids()) {
    if (g.value(v).producer == nullptr || g.use_count(v) != 0) continue;
    g.add_output(v);
    g.output_names.push_back(g.value(v).name);
  }
}

}  // namespace reprise::onnx
