#include "codegen/compile/plan_buffers.h"

#include <algorithm>

#include "codegen/lower/launch/packed_weights.h"
#include "codegen/ops/row/op.h"

namespace reprise {
namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

/// Inputs or outputs, followed by those that are states.
struct Slots {
  size_t count;
  plan::BufferKind kind, state;

  plan::BufferKind kind_of(size_t i) const { return i < count ? kind : state; }
  int32_t index_of(size_t i) const { return static_cast<int32_t>(i < count ? i : i - count); }
};

}  // namespace

PlanBuffers::PlanBuffers(const Graph& g, plan::Plan& p, WeightStore& weights, size_t states)
    : g_(g), p_(p), weights_(weights), known_from_inputs_(known_from_inputs(g.symbol_sources)) {
  const Slots inputs{g.inputs.size() - states, plan::BufferKind::Input, plan::BufferKind::State};
  const Slots outputs{g.outputs.size() - states, plan::BufferKind::Output,
                      plan::BufferKind::NextState};
  for (size_t i = 0; i < g.inputs.size(); ++i)
    add(g.inputs[i], inputs.kind_of(i), inputs.index_of(i));
  // All rows of states that grow, and the new ones.
  for (const auto& n : g.nodes()) {
    if (!ops::is_memory(*n)) continue;
    const int32_t state = p.buffers[by_value_.at(n->inputs[0])].index;
    add(n->inputs[1], plan::BufferKind::NewRows, state);
    add(n->outputs[0], plan::BufferKind::AllRows, state);
  }
  size_t next = g.inputs.size();
  for (const ValueId v : g.captures) {
    if (v != kNone) add(v, plan::BufferKind::Input, static_cast<int32_t>(next++));
  }
  // A value that is an output twice, an input or a constant is copied into its other slots.
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const ValueId v = g.outputs[i];
    if (i >= outputs.count && appends(v)) continue;
    const bool own = by_value_.count(v) == 0 && !g.value(v).constant;
    if (own) {
      add(v, outputs.kind_of(i), outputs.index_of(i));
      continue;
    }
    const plan::BufferId from = of(v);
    const plan::BufferId id =
        p.buffers.push_back({g.output_name(i), outputs.kind_of(i), outputs.index_of(i),
                             g.value(v).dtype, g.value(v).shape});
    p.aliases.push_back({from, id});
  }
}

/// Whether the next value of a state is the rows that it gets.
bool PlanBuffers::appends(ValueId v) const {
  const auto at = by_value_.find(v);
  return at != by_value_.end() && p_.buffers[at->second].kind == plan::BufferKind::NewRows;
}

plan::BufferId PlanBuffers::of(ValueId v) {
  if (v == kNone) return {};
  if (auto it = by_value_.find(v); it != by_value_.end()) return it->second;
  const graph::Value& value = g_.value(v);
  if (!value.constant) return add(v, intermediate(value.shape), -1);
  plan::Weight w;
  w.name = value.name;
  w.segment = weights_.add_elements(value);
  p_.weights.push_back(std::move(w));
  return add(v, plan::BufferKind::Weight, static_cast<int32_t>(p_.weights.size()) - 1);
}

plan::BufferId PlanBuffers::packed(ValueId v, const lower::PackedOperand& form) {
  const auto key = std::pair(v, form.packing);
  if (auto it = packed_.find(key); it != packed_.end()) return it->second;
  const graph::Value& value = g_.value(v);
  plan::Weight w;
  w.name = value.name;
  w.segment = weights_.add_elements(value);
  w.packing = form.packing;
  p_.weights.push_back(std::move(w));
  const plan::BufferId id = p_.buffers.push_back({value.name, plan::BufferKind::Weight,
                                                  static_cast<int32_t>(p_.weights.size()) - 1,
                                                  graph::storage_of(value), value.shape});
  packed_.emplace(key, id);
  return id;
}

std::vector<std::pair<ValueId, plan::Packing>> PlanBuffers::packings() const {
  std::vector<std::pair<ValueId, plan::Packing>> out;
  out.reserve(packed_.size());
  for (const auto& [form, buffer] : packed_) out.push_back(form);
  return out;
}

plan::BufferId PlanBuffers::add_scratch(const lower::ScratchBuffer& s) {
  return p_.buffers.push_back(
      {g_.value(s.of).name + " (scratch)", intermediate(s.shape), -1, s.dtype, s.shape});
}

plan::BufferId PlanBuffers::add(ValueId v, plan::BufferKind kind, int32_t index) {
  const graph::Value& value = g_.value(v);
  const plan::BufferId id =
      p_.buffers.push_back({value.name, kind, index, graph::storage_of(value), value.shape});
  by_value_[v] = id;
  return id;
}

/// A tensor whose size depends on a host call cannot be in the arena.
plan::BufferKind PlanBuffers::intermediate(const Shape& shape) const {
  std::vector<SymbolId> symbols;
  for (const Expr& e : shape) e.collect_symbols(symbols);
  const bool known = std::all_of(symbols.begin(), symbols.end(), [&](SymbolId s) {
    return known_from_inputs_[static_cast<size_t>(s)];
  });
  return known ? plan::BufferKind::Arena : plan::BufferKind::Growable;
}

}  // namespace reprise
