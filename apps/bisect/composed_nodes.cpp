#include "apps/bisect/composed_nodes.h"

#include <algorithm>

#include "codegen/compile/host_plan.h"
#include "codegen/passes/pass.h"
#include "runtime/plan/bind.h"

namespace reprise::app {

using graph::kNone;
using graph::ValueId;

Result<std::unique_ptr<ComposedNodes>> ComposedNodes::of(const graph::Graph& g) {
  std::vector<ValueId> results;
  for (const auto& n : g.nodes()) {
    if (!passes::lacks_host_kernel(*n)) continue;
    for (const ValueId v : n->outputs)
      if (v != kNone) results.push_back(v);
  }
  if (results.empty()) return std::unique_ptr<ComposedNodes>();
  auto out = std::make_unique<ComposedNodes>();
  out->graph_ = g.clone();
  // As outputs of the copy, the results show which values take their places.
  out->graph_->output_names.clear();
  out->graph_->set_outputs(results);
  RP_TRY(passes::decompose_for_host(*out->graph_));
  for (const auto& n : out->graph_->nodes()) {
    if (passes::lacks_host_kernel(*n))
      return unsupported("node '" + n->name + "' (" + n->op +
                         ") has neither a host kernel nor parts that have one, so there is no "
                         "reference; replace the operator in the model");
  }
  for (size_t i = 0; i < results.size(); ++i)
    out->parts_.emplace(results[i], out->graph_->outputs[i]);
  out->host_ = std::make_unique<HostGraph>(*out->graph_);
  return out;
}

ValueId ComposedNodes::part_of(ValueId v) const {
  const auto at = parts_.find(v);
  return at == parts_.end() ? v : at->second;
}

Result<Values> ComposedNodes::evaluate(const graph::Node& n, const Values& values,
                                       const std::vector<int64_t>& symbols, Noise* noise) const {
  Values own;
  own.of.resize(graph_->values().size());
  own.symbols = symbols;
  own.symbols.resize(graph_->symbols.size(), plan::kUnbound);
  plan::derive_symbols(make_interface(*graph_), own.symbols);
  for (const ValueId v : graph_->values().ids()) {
    const graph::Value& value = graph_->value(v);
    if (value.constant) own.of[v] = from_storage(*value.constant, value.dtype);
  }
  std::vector<ValueId> known, wanted;
  for (const ValueId v : n.inputs) {
    if (v == kNone) continue;
    known.push_back(part_of(v));
    own.of[known.back()] = values.at(v);
  }
  for (const ValueId v : n.outputs) wanted.push_back(v == kNone ? kNone : part_of(v));
  RP_TRY(host_->run(host_->between(known, wanted), own, noise));
  return own;
}

Result<std::vector<HostTensor>> ComposedNodes::run(const graph::Node& n, const Values& values,
                                                   std::vector<int64_t>& symbols,
                                                   Noise* noise) const {
  const Values& known = noise == nullptr ? values : noise->exact();
  RP_ASSIGN(Values parts, evaluate(n, known, noise == nullptr ? symbols : known.symbols, nullptr));
  if (noise != nullptr) {
    const Values exact = std::move(parts);
    Noise own = noise->within(exact);
    RP_ASSIGN(parts, evaluate(n, values, symbols, &own));
  }
  std::copy_n(parts.symbols.begin(), symbols.size(), symbols.begin());
  std::vector<HostTensor> out;
  for (const ValueId v : n.outputs) out.push_back(v == kNone ? HostTensor() : parts.at(part_of(v)));
  return out;
}

}  // namespace reprise::app
