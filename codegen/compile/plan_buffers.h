// The buffers of a plan under construction.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/lower.h"
#include "codegen/plan/weight_store.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Buffers of a plan by the graph's values.
class PlanBuffers {
 public:
  /// The arguments must outlive the object. The last `states` inputs and outputs are states.
  PlanBuffers(const graph::Graph& g, plan::Plan& p, WeightStore& weights, size_t states);

  plan::BufferId of(graph::ValueId v);
  /// A constant in the packed form that a kernel reads.
  plan::BufferId packed(graph::ValueId v, const lower::PackedOperand& form);
  /// The packed forms so far.
  std::vector<std::pair<graph::ValueId, plan::Packing>> packings() const;
  plan::BufferId add_scratch(const lower::ScratchBuffer& s);

 private:
  plan::BufferId add(graph::ValueId v, plan::BufferKind kind, int32_t index);
  bool appends(graph::ValueId v) const;
  plan::BufferKind intermediate(const Shape& shape) const;

  const graph::Graph& g_;
  plan::Plan& p_;
  WeightStore& weights_;
  std::vector<bool> known_from_inputs_;  // by symbol
  std::map<graph::ValueId, plan::BufferId> by_value_;
  std::map<std::pair<graph::ValueId, plan::Packing>, plan::BufferId> packed_;
};

}  // namespace reprise
