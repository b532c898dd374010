#include "tests/support/rebuild.h"

#include <map>
#include <set>
#include <utility>

#include "codegen/graph/whole.h"
#include "codegen/ops/row/op.h"

namespace reprise::test {

namespace {

using builder::GraphBuilder;
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

class Rebuilding {
 public:
  /// Nodes of bodies have the versions of the builder, so it takes those that nodes have.
  explicit Rebuilding(const Graph& g) : g_(g), b_(g.name, opsets_of(g)) {}

  Result<builder::BuiltGraph> run() {
    RP_TRY(declare_symbols());
    for (const ValueId v : g_.inputs) {
      const graph::Value& value = g_.value(v);
      Shape dims;
      for (const Expr& d : value.shape) dims.push_back(own(d));
      RP_ASSIGN(values_[v], b_.input(value.name, value.dtype, dims));
    }
    for (const ValueId v : g_.values().ids()) {
      if (g_.value(v).constant) RP_TRY(constant(g_, v, values_));
    }
    for (const auto& n : g_.nodes()) RP_TRY(node(g_, *n, values_));
    for (size_t i = 0; i < g_.outputs.size(); ++i)
      RP_TRY(b_.output(g_.output_name(i), values_.at(g_.outputs[i])));
    RP_TRY(b_.verify());
    return b_.finish();
  }

 private:
  static std::map<std::string, int64_t> opsets_of(const Graph& g) {
    std::map<std::string, int64_t> found;
    for (const auto& n : g.nodes()) {
      if (n->opset != 0) found[n->domain] = n->opset;
      for (const auto& [label, body] : n->subgraphs) found.merge(opsets_of(*body));
    }
    return found;
  }

  using Values = std::map<ValueId, builder::Value>;

  Status declare_symbols() {
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      const auto kind = g_.symbol_sources[s].kind;
      if (kind != SymbolSource::Kind::InputDim && kind != SymbolSource::Kind::Derived) continue;
      const Symbol& symbol = g_.symbols[s];
      RP_ASSIGN(symbols_[static_cast<SymbolId>(s)],
                b_.symbol(symbol.name, {symbol.min, symbol.max, symbol.divisor}));
    }
    return {};
  }

  Expr own(const Expr& e) const {
    return e.substitute([this](SymbolId s) -> std::optional<Expr> {
      const auto at = symbols_.find(s);
      return at == symbols_.end() ? std::nullopt : std::optional(at->second);
    });
  }

  Status constant(const Graph& g, ValueId v, Values& values) {
    const graph::Value& value = g.value(v);
    const bool free = names_.insert(value.name).second;
    RP_ASSIGN(values[v], b_.constant(free ? value.name : "", graph::whole(value)));
    return {};
  }

  Result<std::vector<builder::Value>> operands(const Node& n, size_t count, const Values& values) {
    std::vector<builder::Value> out;
    for (size_t i = 0; i < count; ++i) {
      const ValueId v = n.inputs[i];
      out.push_back(v == kNone ? builder::kOmitted : values.at(v));
    }
    return out;
  }

  builder::OutputNames names_of_results(const Graph& g, const Node& n) {
    builder::OutputNames names;
    for (const ValueId v : n.outputs) {
      if (v == kNone) {
        names.emplace_back();
        continue;
      }
      const bool free = names_.insert(g.value(v).name).second;
      names.emplace_back(free ? g.value(v).name : "");
    }
    return names;
  }

  Status node(const Graph& g, const Node& n, Values& values) {
    const size_t captured = n.subgraphs.empty() ? 0 : n.subgraphs[0].second->captures.size();
    RP_ASSIGN(const auto inputs, operands(n, n.inputs.size() - captured, values));
    Result<std::vector<builder::Value>> added = std::vector<builder::Value>();
    if (n.opset == 0) {
      builder::CoreNode core;
      core.op = n.op;
      core.name = n.name;
      core.inputs = inputs;
      for (const auto& [name, value] : n.attrs) {
        const auto* sizes = std::get_if<std::vector<Expr>>(&value);
        if (sizes == nullptr) {
          core.attrs.set(name, value);
          continue;
        }
        std::vector<Expr> exprs;
        for (const Expr& e : *sizes) exprs.push_back(own(e));
        core.attrs.set(name, std::move(exprs));
      }
      core.outputs = n.outputs.size();
      core.output_names = names_of_results(g, n);
      const graph::Value& first = g.value(n.outputs[0]);
      if (n.op == "Slice" || n.op == "Range") {
        Shape shape;
        for (const Expr& d : first.shape) shape.push_back(own(d));
        core.type = std::pair(first.dtype, std::move(shape));
      }
      added = b_.core(core);
    } else {
      builder::OnnxNode onnx{n.op, n.domain,         inside_ ? 0 : n.opset, n.name, inputs, n.attrs,
                             {},   n.outputs.size(), names_of_results(g, n)};
      const ops::OpDef* def = ops::find(n);
      if (def != nullptr && !def->in_models.empty()) onnx.op = std::string(def->in_models);
      for (const auto& [label, body] : n.subgraphs) {
        Values inner;
        for (size_t i = 0; i < body->captures.size(); ++i) {
          if (body->captures[i] != kNone)
            inner[body->captures[i]] = values.at(n.inputs[n.inputs.size() - captured + i]);
        }
        RP_ASSIGN(const builder::Body made, rebuild_body(*body, std::move(inner)));
        onnx.bodies.emplace_back(label, made);
      }
      added = b_.node(onnx);
    }
    RP_ASSIGN(const auto results, std::move(added));
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i] != kNone) values[n.outputs[i]] = results[i];
    return {};
  }

  Result<builder::Body> rebuild_body(const Graph& body, Values values) {
    RP_TRY(b_.begin_body(body.name));
    const bool outer = std::exchange(inside_, true);
    for (const ValueId v : body.inputs) {
      RP_ASSIGN(values[v], b_.body_input(""));
    }
    for (const ValueId v : body.values().ids()) {
      if (body.value(v).constant) RP_TRY(constant(body, v, values));
    }
    for (const auto& n : body.nodes()) RP_TRY(node(body, *n, values));
    std::vector<builder::Value> outputs;
    for (const ValueId v : body.outputs) outputs.push_back(values.at(v));
    inside_ = outer;
    return b_.end_body(outputs);
  }

  const Graph& g_;
  GraphBuilder b_;
  std::map<SymbolId, Expr> symbols_;
  Values values_;
  std::set<std::string> names_;
  bool inside_ = false;
};

}  // namespace

Result<builder::BuiltGraph> rebuild(const graph::Graph& g) {
  return Rebuilding(g).run();
}

}  // namespace reprise::test
