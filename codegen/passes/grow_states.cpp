#include "codegen/passes/grow_states.h"

#include <algorithm>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// The value of which `v` is another name.
ValueId unnamed(const Graph& g, ValueId v) {
  for (const Node* n = g.value(v).producer; n != nullptr; n = g.value(v).producer) {
    const bool same = n->inputs.size() == 1 && ops::is_identity(*n) &&
                      g.value(n->inputs[0]).dtype == g.value(v).dtype &&
                      g.value(n->inputs[0]).shape == g.value(v).shape;
    if (!same) break;
    v = n->inputs[0];
  }
  return v;
}

/// Where axis `axis` is first, and back.
std::vector<int64_t> rows_first(size_t rank, int32_t axis) {
  std::vector<int64_t> perm{axis};
  for (size_t a = 0; a < rank; ++a)
    if (static_cast<int32_t>(a) != axis) perm.push_back(static_cast<int64_t>(a));
  return perm;
}

std::vector<int64_t> rows_back(size_t rank, int32_t axis) {
  const std::vector<int64_t> there = rows_first(rank, axis);
  std::vector<int64_t> perm(rank);
  for (size_t a = 0; a < rank; ++a) perm[static_cast<size_t>(there[a])] = static_cast<int64_t>(a);
  return perm;
}

class Grower {
 public:
  Grower(Graph& g, const GrowingState& s, int64_t number) : g_(g), s_(s), number_(number) {}

  Status run() {
    const ValueId v = g_.inputs[s_.input], o = g_.outputs[s_.output];
    joins_ = appending_node(g_, v, o);
    if (joins_ == nullptr)
      return internal_error("state '" + g_.value(v).name +
                            "': nothing puts rows behind it any more");
    origins_ = joins_->origins;
    name_ = g_.value(joins_->outputs[0]).name;
    const size_t rank = g_.value(v).shape.size();
    Shape first;
    for (const int64_t a : rows_first(rank, s_.axis))
      first.push_back(g_.value(v).shape[static_cast<size_t>(a)]);
    const ValueId before = g_.add_value(g_.value(v).name, g_.value(v).dtype, first);
    g_.inputs[s_.input] = before;
    for (SymbolSource& source : g_.symbol_sources) {
      const bool own = source.kind == SymbolSource::Kind::InputDim &&
                       source.index == static_cast<int32_t>(s_.input);
      if (own) source.axis = 0;
    }
    RP_ASSIGN(const ValueId fresh, new_rows());
    const ValueId joined = joins_->outputs[0];
    RP_ASSIGN(const ValueId ordered, permuted(fresh, rows_first(rank, s_.axis), joins_));
    RP_ASSIGN(const ValueId appended, add(ops::state_append_node(number_), {ordered}, joins_));
    RP_ASSIGN(const ValueId all, add(ops::state_rows_node(number_), {before, appended}, joins_));
    RP_ASSIGN(const ValueId view, permuted(all, rows_back(rank, s_.axis), joins_));
    std::vector<ValueId> outputs(g_.outputs.begin(), g_.outputs.end());
    outputs[s_.output] = appended;
    g_.set_outputs(std::move(outputs));
    g_.replace_uses(joined, view);
    g_.erase_node(joins_);
    if (g_.use_count(v) == 0) return {};
    RP_ASSIGN(const ValueId old,
              permuted(before, rows_back(rank, s_.axis), g_.nodes().front().get()));
    g_.replace_uses(v, old);
    return {};
  }

 private:
  Result<ValueId> add(graph::NodeSpec spec, std::vector<ValueId> inputs, Node* at) {
    spec.origins = origins_;
    spec.inputs = std::move(inputs);
    const ValueId out = g_.add_unknown(name_);
    spec.outputs = {out};
    Node* const n = g_.add_node(std::move(spec), at);
    RP_TRY(ops::infer(g_, *n));
    return out;
  }

  Result<ValueId> permuted(ValueId v, std::vector<int64_t> perm, Node* at) {
    if (std::ranges::is_sorted(perm)) return v;
    return add(ops::transpose_node(std::move(perm)), {v}, at);
  }

  /// What the node puts behind the state.
  Result<ValueId> new_rows() {
    std::vector<ValueId> rest(joins_->inputs.begin() + 1, joins_->inputs.end());
    if (rest.size() == 1) return rest[0];
    graph::NodeSpec spec;
    spec.op = joins_->op;
    spec.attrs = joins_->attrs;
    return add(std::move(spec), std::move(rest), joins_);
  }

  Graph& g_;
  const GrowingState& s_;
  const int64_t number_;
  Node* joins_ = nullptr;
  std::vector<std::string> origins_;  // of that node
  std::string name_;                  // of its result
};

}  // namespace

ValueId grown_input(const Graph& g, ValueId o) {
  const Node* n = g.value(unnamed(g, o)).producer;
  const ops::OpDef* def = n == nullptr ? nullptr : ops::core_def(*n);
  if (def == nullptr || !def->concatenates || n->inputs.size() < 2) return graph::kNone;
  const ValueId v = unnamed(g, n->inputs[0]);
  return std::ranges::find(g.inputs, v) == g.inputs.end() ? graph::kNone : v;
}

Node* appending_node(const Graph& g, ValueId v, ValueId o) {
  return v != graph::kNone && grown_input(g, o) == v ? g.value(unnamed(g, o)).producer : nullptr;
}

Status grow_states(PassContext& context) {
  int64_t number = 0;
  for (const GrowingState& s : context.growing())
    RP_TRY(Grower(context.graph(), s, number++).run());
  return {};
}

}  // namespace reprise::passes
