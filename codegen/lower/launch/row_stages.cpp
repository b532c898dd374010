#include "codegen/lower/launch/row_stages.h"

#include <algorithm>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/group/kernel_limits.h"

namespace reprise::lower {

using graph::Node;
using graph::ValueId;

RowStages::RowStages(const graph::Graph& g, const Group& group)
    : g_(g),
      group_(group),
      rows_(element_count(row_shape(group.domain, group.reduced))),
      elements_(element_count(group.domain)),
      nodes_(group.nodes.begin(), group.nodes.end()) {
  for (const Node* n : group.nodes) {
    int need = 0;
    for (ValueId v : n->inputs) {
      if (v != graph::kNone) need = std::max(need, available(v));
    }
    if (is_reduction(*n)) {
      stage_of_[n] = need;
      ++need;
    }
    for (ValueId v : n->outputs) available_[v] = need;
    count_ = std::max(count_, need);
    flops_ += cost(*n);
  }
  scratch_.resize(static_cast<size_t>(count_) + 1);
}

std::vector<const Node*> RowStages::reductions(int stage) const {
  std::vector<const Node*> out;
  for (const Node* n : group_.nodes) {
    if (is_reduction(*n) && stage_of_.at(n) == stage) out.push_back(n);
  }
  return out;
}

std::vector<ValueId> RowStages::full_outputs(int stage) const {
  std::vector<ValueId> out;
  for (ValueId v : group_.outputs) {
    if (is_full(v) && available(v) == stage) out.push_back(v);
  }
  return out;
}

std::vector<ValueId> RowStages::roots(int stage) const {
  std::vector<ValueId> out;
  for (const Node* n : reductions(stage)) out.push_back(n->inputs[0]);
  const std::vector<ValueId> outputs = full_outputs(stage);
  out.insert(out.end(), outputs.begin(), outputs.end());
  return out;
}

std::vector<ValueId> RowStages::row_values(int stage) const {
  std::vector<ValueId> out;
  for (const Node* n : group_.nodes) {
    const ValueId v = n->outputs[0];
    if (is_full(v) || is_reduction(*n) || available(v) != stage) continue;
    if (element_count(g_.value(v).shape) == rows_) out.push_back(v);
  }
  return out;
}

int RowStages::available(ValueId v) const {
  const auto it = available_.find(v);
  return it == available_.end() ? 0 : it->second;
}

bool RowStages::is_full(ValueId v) const {
  return element_count(g_.value(v).shape) == elements_ && !(rows_ == elements_);
}

bool RowStages::in_group(const Node* n) const {
  return nodes_.count(n) != 0;
}

double RowStages::cost(const Node& n) const {
  return is_reduction(n) ? 1 : recompute_cost(g_, n);
}

double RowStages::subtree_cost(ValueId v) {
  const Node* n = g_.value(v).producer;
  if (!in_group(n) || is_reduction(*n) || !is_full(v)) return 0;
  const auto known = subtree_costs_.find(v);
  if (known != subtree_costs_.end()) return known->second;
  double sum = cost(*n);
  for (ValueId i : n->inputs) {
    if (i != graph::kNone) sum += subtree_cost(i);
  }
  subtree_costs_.emplace(v, sum);
  return sum;
}

void RowStages::choose_reloads(const RowTrace& trace, double recompute) {
  budget_ = recompute * flops_;
  for (int s = 0; s <= count_; ++s) {
    for (ValueId root : roots(s)) visit(root, s, trace);
  }
}

/// A value of an earlier stage that this stage needs is reloaded, or recomputed while the budget
/// lasts. A value that a stage needs at several indices is computed several times.
void RowStages::visit(ValueId v, int stage, const RowTrace& trace) {
  const Node* n = g_.value(v).producer;
  if (!in_group(n) || is_reduction(*n) || !is_full(v)) return;
  if (!visited_.emplace(v, stage).second) return;
  const auto computed_in = [&](int s) -> const std::vector<Index>& {
    return trace.computed[static_cast<size_t>(s)].at(v);
  };
  const std::vector<Index>& here = computed_in(stage);
  if (here.empty()) return;  // this stage does not compute it after all
  const auto [it, first] = first_stage_.try_emplace(v, stage);
  const auto reads_at = [&](const Index& index) {
    return std::find(here.begin(), here.end(), index) != here.end();
  };
  const auto own = trace.outputs.find(v);
  const bool is_stored = own != trace.outputs.end();
  if (is_stored && !first && reads_at(own->second)) reloads_.emplace(v, own->second);
  const auto kept = reloads_.find(v);
  const bool loads = kept != reloads_.end() && !first && reads_at(kept->second);
  const auto times = static_cast<double>(here.size() - (loads ? 1 : 0));
  if (times == 0) return;
  const double again = first ? (times - 1) * cost(*n) : cost(*n) > 0 ? times * subtree_cost(v) : 0;
  if (again > budget_) {
    const bool same = !first && here.size() == 1 && !is_stored && kept == reloads_.end() &&
                      computed_in(it->second) == here;
    if (same) {
      scratch_[static_cast<size_t>(it->second)].push_back(v);
      reloads_.emplace(v, here[0]);
      return;
    }
    excess_ += again;
  } else {
    budget_ -= again;
  }
  for (ValueId i : n->inputs) {
    if (i != graph::kNone) visit(i, stage, trace);
  }
}

}  // namespace reprise::lower
