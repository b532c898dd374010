#include "codegen/lower/group/cost.h"

#include <algorithm>
#include <map>

#include "codegen/lower/group/group_lowering.h"
#include "codegen/target/device_costs.h"

namespace reprise::lower {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

double node_flops(const Graph& g, const Node& n, double evals) {
  if (is_reduction(n) || is_scan(n)) return count_hint(g, g.value(n.inputs[0]).shape);
  if (!is_contraction(n)) return evals * recompute_cost(g, n);
  const double out = count_hint(g, g.value(n.outputs[0]).shape);
  return 2 * out * count_hint(g, def_of(n)->contracted(g, n));
}

/// Reads of input `i` by a contraction, per element of that input.
double contraction_reads(const Graph& g, const Node& n, size_t i) {
  const Shape& out = g.value(n.outputs[0]).shape;
  if (i >= 2) return 1;
  if (def_of(n)->lowering == ops::Lowering::MatMul) {
    const Expr other = i == 0 ? out[out.size() - 1] : out[out.size() - 2];
    return std::max(1.0, count_hint(g, {other}) / shaders::kFusionCosts.tile);
  }
  const double flops = node_flops(g, n, 0) / 2;
  return std::max(1.0, flops / shaders::kFusionCosts.tile /
                           std::max(1.0, count_hint(g, g.value(n.inputs[i]).shape)));
}

class Evaluations {
 public:
  Evaluations(const Graph& g, const Group& group)
      : g_(g), group_(group), inside_(group.nodes.begin(), group.nodes.end()) {
    std::sort(inside_.begin(), inside_.end());
  }

  double of(const Node& n) {
    auto [it, inserted] = memo_.try_emplace(&n, 0.0);
    if (!inserted) return it->second;
    double same_index = 0, other = 0;
    for (ValueId v : n.outputs) {
      if (v == kNone) continue;
      const double count = count_hint(g_, g_.value(v).shape);
      if (std::find(group_.outputs.begin(), group_.outputs.end(), v) != group_.outputs.end()) {
        same_index = std::max(same_index, count);
      }
      for (const Node* u : g_.users(v)) {
        if (!std::binary_search(inside_.begin(), inside_.end(), u)) continue;
        add_use(v, count, *u, same_index, other);
      }
    }
    double evals = same_index + other;
    if (group_.attention.weights != kNone && !n.outputs.empty()) {
      evals = std::min(evals, attention_evaluations(n.outputs[0], evals));
    }
    if (is_row_value(n)) evals = std::min(evals, count_hint(g_, g_.value(n.outputs[0]).shape));
    memo_[&n] = evals;
    return evals;
  }

 private:
  /// Whether n's result has one element per row. A row kernel computes it before the loop over
  /// columns.
  bool is_row_value(const Node& n) const {
    if (!row_of(group_.kind).reduces_rows || n.outputs[0] == kNone) return false;
    return element_count(g_.value(n.outputs[0]).shape) ==
           element_count(row_shape(group_.domain, group_.reduced));
  }

  /// A value that does not depend on both row and key is computed once per block of attention.
  double attention_evaluations(ValueId v, double otherwise) const {
    if (v == kNone) return otherwise;
    const Shape& s = g_.value(v).shape;
    const bool full = s.size() >= 2 && !s[s.size() - 1].is_const(1) && !s[s.size() - 2].is_const(1);
    if (full) return otherwise;
    return count_hint(g_, g_.value(group_.attention.weights).shape) / shaders::kFusionCosts.tile;
  }

  void add_use(ValueId v, double count, const Node& u, double& same_index, double& other) {
    const ops::OpDef* def = def_of(u);
    const bool weights = v == group_.attention.weights && &u == group_.anchor;
    if (weights || is_reduction(u) || is_scan(u)) {
      same_index = std::max(same_index, count);
    } else if (is_contraction(u)) {
      for (size_t i = 0; i < u.inputs.size(); ++i) {
        if (u.inputs[i] == v) other += count * contraction_reads(g_, u, i);
      }
    } else if (def->lowering == ops::Lowering::Scalar || only_renames(u, v)) {
      same_index = std::max(same_index, of(u));
    } else {
      const double reads = def->reads_per_element != nullptr ? def->reads_per_element(g_, u) : 1;
      other += of(u) * reads * (def->lowering == ops::Lowering::View ? 1 : operand_share(u, v));
    }
  }

  bool only_renames(const Node& u, ValueId v) const {
    return ops::is_reshape(g_, u) && g_.value(u.outputs[0]).shape == g_.value(v).shape;
  }

  /// The fraction of u's output that reads v, where u joins its operands (Concat).
  double operand_share(const Node& u, ValueId v) const {
    if (!def_of(u)->concatenates) return 1;
    return count_hint(g_, g_.value(v).shape) /
           std::max(1.0, count_hint(g_, g_.value(u.outputs[0]).shape));
  }

  const Graph& g_;
  const Group& group_;
  std::vector<const Node*> inside_;  // sorted
  std::map<const Node*, double> memo_;
};

/// Elements that one output element of a definition with loops reads (Pool, ConvTranspose).
double reads_per_output(const Graph& g, const Node& n, const ops::OpDef& def) {
  if (def.reads_per_element == nullptr || n.inputs.empty() || n.inputs[0] == kNone) return 1;
  const double in = count_hint(g, g.value(n.inputs[0]).shape);
  const double out = count_hint(g, g.value(n.outputs[0]).shape);
  return std::max(1.0, def.reads_per_element(g, n) * in / std::max(1.0, out));
}

}  // namespace

double recompute_cost(const Graph& g, const Node& n) {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr) return 1;
  if (ops::dequantizes(n)) return 0;  // weights are to stay in 8 bits in memory
  switch (def->lowering) {
    case ops::Lowering::View:
      return 0;
    case ops::Lowering::Scalar:
      return def->row ? kernel::row(*def->row).cost : 1;
    case ops::Lowering::Element:
      return shaders::kFusionCosts.element * reads_per_output(g, n, *def);
    case ops::Lowering::Reduce:
    case ops::Lowering::Scan:
    case ops::Lowering::MatMul:
    case ops::Lowering::Conv:
    case ops::Lowering::Kernel:
    case ops::Lowering::None:
      return 1;
  }
  return 1;
}

double evaluations(const Graph& g, const Group& group, const Node& n) {
  return Evaluations(g, group).of(n);
}

double group_flops(const Graph& g, const Group& group) {
  Evaluations evals(g, group);
  double sum = 0;
  for (const Node* n : group.nodes) sum += node_flops(g, *n, evals.of(*n));
  return sum;
}

double graph_flops(const Graph& g) {
  double sum = 0;
  for (const auto& n : g.nodes()) {
    if (!n->outputs.empty() && n->outputs[0] != kNone) {
      sum += node_flops(g, *n, count_hint(g, g.value(n->outputs[0]).shape));
    }
  }
  return sum;
}

}  // namespace reprise::lower
