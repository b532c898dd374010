// The stages of a row kernel. Each stage is one loop over the columns of a row; the reductions of
// stage s need results of stages before s. A value that several stages need is either reloaded
// where the same invocation stored it, or recomputed.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/lower/evaluate/evaluator.h"
#include "codegen/lower/group/kernel_limits.h"

namespace reprise::lower {

/// Where a row kernel without reloads computes the group's values.
struct RowTrace {
  /// The indices at which a stage computes each value, over the symbols of one row and one column.
  using Indices = std::map<graph::ValueId, std::vector<Index>>;

  std::vector<Indices> computed;            // by stage, for every value of the group
  std::map<graph::ValueId, Index> outputs;  // where full outputs are stored
};

class RowStages {
 public:
  RowStages(const graph::Graph& g, const Group& group);

  /// Stages 0 to count() - 1 have reductions. Stage count() computes what needs all of their
  /// results.
  int count() const { return count_; }
  std::vector<const graph::Node*> reductions(int stage) const;
  /// The outputs with one element per column that a stage computes.
  std::vector<graph::ValueId> full_outputs(int stage) const;
  /// The values that the loop of a stage computes for each column: operands of reductions, and
  /// outputs.
  std::vector<graph::ValueId> roots(int stage) const;
  /// The values with one element per row, other than results of reductions, that can be computed
  /// when the stages before this one are complete.
  std::vector<graph::ValueId> row_values(int stage) const;
  /// The number of stages that must be complete before v can be computed.
  int available(graph::ValueId v) const;
  /// Whether v has an element per column of every row, and not one per row.
  bool is_full(graph::ValueId v) const;

  /// Decides which values later stages reload. A value can be reloaded only at the index at which
  /// it was stored: another index belongs to another invocation, which may not have stored it yet.
  /// `recompute`: the flops that may be computed again, as a fraction of the group's.
  void choose_reloads(const RowTrace& trace, double recompute = kRecompute);
  /// Values that are not outputs and that a stage stores to scratch memory for later stages.
  const std::vector<graph::ValueId>& scratch(int stage) const {
    return scratch_[static_cast<size_t>(stage)];
  }
  bool reloads(graph::ValueId v) const { return reloads_.count(v) != 0; }
  /// Recomputed flops beyond the budget; 0 if the kernel stays within it.
  double excess_flops() const { return excess_; }

 private:
  bool in_group(const graph::Node* n) const;
  double cost(const graph::Node& n) const;
  /// The cost of computing v and all values that it depends on, shared ones once for each reader.
  double subtree_cost(graph::ValueId v);
  void visit(graph::ValueId v, int stage, const RowTrace& trace);

  const graph::Graph& g_;
  const Group& group_;
  Expr rows_, elements_;
  std::unordered_set<const graph::Node*> nodes_;
  int count_ = 0;
  std::map<const graph::Node*, int> stage_of_;
  std::map<graph::ValueId, int> available_;
  double flops_ = 0;
  double budget_ = 0;
  double excess_ = 0;
  std::vector<std::vector<graph::ValueId>> scratch_;  // by stage
  std::map<graph::ValueId, Index> reloads_;           // where they are stored
  // Only during choose_reloads:
  std::unordered_map<graph::ValueId, double> subtree_costs_;
  std::map<graph::ValueId, int> first_stage_;
  std::set<std::pair<graph::ValueId, int>> visited_;
};

}  // namespace reprise::lower
