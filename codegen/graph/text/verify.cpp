// Invariants of the graph IR. A failure is a bug of the pass that ran last.
#include <algorithm>

#include "codegen/graph/graph.h"
#include "codegen/graph/text/core_form.h"
#include "codegen/ops/row/op.h"

namespace reprise::graph {

namespace {

class Verifier {
 public:
  Verifier(const Graph& g, bool core) : g_(g), core_(core), defined_(g.values().size()) {}

  Status run() {
    RP_TRY(tables());
    for (ValueId v : g_.captures) {
      if (v != kNone) RP_TRY(input(v));
    }
    for (ValueId v : g_.inputs) RP_TRY(input(v));
    for (const ValueId v : defined_.ids()) {
      if (!value(v).constant) continue;
      RP_TRY(constant(v));
      defined_[v] = true;
    }
    for (const auto& n : g_.nodes()) RP_TRY(node(*n).with_context(text(*n)).about(n->origins));
    RP_TRY(outputs());
    return uses();
  }

 private:
  const Value& value(ValueId v) const { return g_.value(v); }
  std::string name(ValueId v) const { return "'" + value(v).name + "'"; }
  static std::string text(const Node& n) { return "node '" + n.name + "' (" + n.op + ")"; }
  bool in_range(ValueId v) const { return g_.values().has(v); }

  Status tables() const {
    if (g_.symbol_sources.size() != g_.symbols.size()) {
      return internal_error(std::to_string(g_.symbols.size()) + " symbols have " +
                            std::to_string(g_.symbol_sources.size()) + " sources");
    }
    if (!g_.output_names.empty() && g_.output_names.size() != g_.outputs.size()) {
      return internal_error(std::to_string(g_.outputs.size()) + " outputs have " +
                            std::to_string(g_.output_names.size()) + " names");
    }
    for (const SymbolSource& s : g_.symbol_sources) {
      RP_TRY(symbols(s.value, "a derived symbol"));
    }
    for (const DimGuard& d : g_.guards) {
      RP_TRY(symbols(d.a, "a guard"));
      RP_TRY(symbols(d.b, "a guard"));
      RP_TRY(symbols(d.result, "a guard"));
    }
    return {};
  }

  Status symbols(const Expr& e, const std::string& where) const {
    const std::vector<SymbolId> used = e.symbols();
    for (SymbolId s : used) {
      if (s < 0 || static_cast<size_t>(s) >= g_.symbols.size()) {
        return internal_error(where + " uses symbol " + std::to_string(s) +
                              ", but the number of symbols is " +
                              std::to_string(g_.symbols.size()));
      }
    }
    return {};
  }

  Status typed(ValueId v) const {
    const Value& x = value(v);
    if (x.dtype == DType::Invalid || !x.has_shape) {
      return internal_error("value " + name(v) + " has no dtype or shape");
    }
    RP_TRY(stored(v));
    for (const Expr& d : x.shape) {
      RP_TRY(symbols(d, "the shape of " + name(v)));
      if (d.is_const() && d.value() < 0) {
        return internal_error("value " + name(v) + " has a negative dimension");
      }
    }
    if (is_container(x.dtype) && !x.shape.empty())
      return internal_error("value " + name(v) + " is a container and has dims");
    for (const Expr& d : x.items.shape) RP_TRY(symbols(d, "the items of " + name(v)));
    if (!x.elements) return {};
    for (const Expr& e : *x.elements) RP_TRY(symbols(e, "the elements of " + name(v)));
    if (!element_count(x.shape).is_const(static_cast<int64_t>(x.elements->size()))) {
      return internal_error("value " + name(v) + " lists " + std::to_string(x.elements->size()) +
                            " elements, but its shape has " +
                            element_count(x.shape).str(g_.symbols));
    }
    return {};
  }

  /// Only fp32 may have another type in memory. Graph inputs and outputs keep the model's type.
  Status stored(ValueId v) const {
    const Value& x = value(v);
    if (x.storage == DType::Invalid) return {};
    const bool narrow = x.storage == DType::F16 || x.storage == DType::BF16;
    const bool own = x.constant.has_value() || (x.producer != nullptr && !g_.is_output(v));
    if (x.dtype == DType::F32 && narrow && own) return {};
    return internal_error("value " + name(v) + " of type " + std::string(name_of(x.dtype)) +
                          " must not be stored as " + std::string(name_of(x.storage)));
  }

  Status define(ValueId v, const std::string& by) {
    if (!in_range(v))
      return internal_error("value " + std::to_string(v.number()) + " does not exist");
    if (defined_[v]) {
      return internal_error("value " + name(v) + " is defined twice, again by " + by);
    }
    defined_[v] = true;
    return typed(v);
  }

  Status input(ValueId v) {
    RP_TRY(define(v, "the graph's inputs"));
    if (!value(v).producer && !value(v).constant) return {};
    return internal_error("input " + name(v) + " is also a constant or a node's output");
  }

  Status constant(ValueId v) const {
    const Value& x = value(v);
    if (defined_[v] || x.producer) {
      return internal_error("constant " + name(v) + " is also an input or a node's output");
    }
    RP_TRY(typed(v));
    const HostTensor& t = *x.constant;
    if (t.dtype() != storage_of(x) || !is_static(x.shape) || static_dims(x.shape) != t.dims()) {
      return internal_error("constant " + name(v) + " holds " + describe(t.dtype(), t.dims()) +
                            ", expected " + std::string(name_of(storage_of(x))) +
                            shape_str(x.shape, g_.symbols));
    }
    return {};
  }

  Status node(const Node& n) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNone) continue;
      if (!in_range(v))
        return internal_error("value " + std::to_string(v.number()) + " does not exist");
      if (!defined_[v]) {
        return internal_error("input " + name(v) + " is used before its definition");
      }
    }
    if (n.outputs.empty()) return internal_error("has no outputs");
    if (n.origins.empty()) return internal_error("has no origins");
    for (ValueId v : n.outputs) {
      if (v == kNone) continue;
      RP_TRY(define(v, text(n)));
      if (value(v).producer != &n) {
        return internal_error("value " + name(v) + " has another producer");
      }
    }
    for (const auto& [key, attr] : n.attrs) {
      const auto* list = std::get_if<std::vector<Expr>>(&attr);
      if (!list) continue;
      for (const Expr& e : *list) RP_TRY(symbols(e, "attribute '" + key + "'"));
    }
    RP_TRY(bodies(n));
    return registered(n);
  }

  Status bodies(const Node& n) const {
    for (const auto& [label, body] : n.subgraphs) {
      if (!body) return internal_error("body '" + label + "' is missing");
      if (body->captures.size() > n.inputs.size()) {
        return internal_error("body '" + label + "' captures " +
                              std::to_string(body->captures.size()) + " values, but the node has " +
                              std::to_string(n.inputs.size()) + " inputs");
      }
      if (body->inherited_symbols > std::min(body->symbols.size(), g_.symbols.size())) {
        return internal_error("body '" + label + "' inherits " +
                              std::to_string(body->inherited_symbols) +
                              " symbols, but its parent has " + std::to_string(g_.symbols.size()));
      }
      RP_TRY(Verifier(*body, core_).run().with_context("body '" + label + "'"));
    }
    return {};
  }

  Status registered(const Node& n) const {
    if (core_ && n.opset == 0 && n.subgraphs.empty()) RP_TRY(check_core_form(g_, n));
    const ops::OpDef* def = ops::find(n);
    if (!def || !n.subgraphs.empty()) return {};
    const auto inputs = static_cast<int>(n.inputs.size());
    if (inputs < def->min_inputs || inputs > def->max_inputs) {
      const std::string most = def->max_inputs == def->min_inputs ? ""
                               : def->max_inputs == ops::kVariadic
                                   ? " or more"
                                   : " to " + std::to_string(def->max_inputs);
      return internal_error("has " + std::to_string(inputs) + " inputs, expected " +
                            std::to_string(def->min_inputs) + most);
    }
    if (static_cast<int>(n.outputs.size()) > def->max_outputs) {
      return internal_error("has " + std::to_string(n.outputs.size()) +
                            " outputs, expected at most " + std::to_string(def->max_outputs));
    }
    return {};
  }

  Status outputs() const {
    for (ValueId v : g_.outputs) {
      if (!in_range(v))
        return internal_error("an output is value " + std::to_string(v.number()) +
                              ", which does not exist");
      if (!defined_[v]) {
        return internal_error("output " + name(v) + " is not defined");
      }
    }
    return {};
  }

  /// Checks that the users and use counts that the graph keeps match its nodes and outputs.
  Status uses() const {
    IdVector<ValueId, std::vector<const Node*>> users(defined_.size());
    IdVector<ValueId, size_t> counts(defined_.size());
    for (const auto& n : g_.nodes()) {
      for (ValueId v : n->inputs) {
        if (v == kNone) continue;
        users[v].push_back(n.get());
        ++counts[v];
      }
    }
    for (ValueId v : g_.outputs) ++counts[v];
    for (const ValueId v : defined_.ids()) {
      if (!std::ranges::equal(users[v], g_.users(v)) || counts[v] != g_.use_count(v))
        return internal_error("value " + name(v) +
                              " has uses that differ from those that the graph recorded");
      const Node* producer = value(v).producer;
      if (producer != nullptr && std::ranges::find(producer->outputs, v) == producer->outputs.end())
        return internal_error("value " + name(v) + " is not an output of its producer");
    }
    return {};
  }

  const Graph& g_;
  const bool core_;
  IdVector<ValueId, bool> defined_;
};

}  // namespace

Status verify(const Graph& g, bool core) {
  return Verifier(g, core).run();
}

}  // namespace reprise::graph
