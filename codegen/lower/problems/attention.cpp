#include "codegen/lower/problems/attention.h"

#include <array>
#include <cmath>

#include "codegen/lower/problems/attention_operands.h"

namespace reprise::lower {

using graph::ValueId;

AttentionProblem::AttentionProblem(const graph::Graph& g, const Group& group)
    : chain(group.attention),
      queries(chain.scores->inputs[0]),
      keys(chain.scores->inputs[1]),
      values(group.anchor->inputs[1]) {
  const Shape& d = group.domain;
  result.batch.assign(d.begin(), d.end() - 2);
  result.m = d[d.size() - 2];
  result.n = d[d.size() - 1];
  result.vector_n = result.n.value() % 4 == 0;
  keys_count = g.value(chain.weights).shape.back();
  head = g.value(queries).shape.back();
}

shaders::AttentionSize AttentionProblem::size(const graph::Graph& g, const Group& group) const {
  const auto& [m, n, batch, vector_n] = result;
  shaders::AttentionSize s;
  s.batch = count_hint(g, batch);
  s.rows = count_hint(g, {m});
  s.keys = count_hint(g, {keys_count});
  s.depth = count_hint(g, {head});
  s.columns = static_cast<int>(n.value());
  constexpr int64_t kMostKnown = 1 << 16;
  if (head.is_const() && head.value() <= kMostKnown) s.known_depth = static_cast<int>(head.value());
  s.key_loads = operand_cost(g, group, keys, false, head, keys_count).loads == 1 ? 1 : 4;
  s.value_loads =
      vector_n && operand_cost(g, group, values, true, n, keys_count).loads == 1 ? 1 : 4;
  for (const graph::Node* node : group.nodes) {
    const bool per_score =
        node->outputs[0] != graph::kNone && !is_contraction(*node) &&
        element_count(g.value(node->outputs[0]).shape) == m * keys_count * element_count(batch);
    if (per_score) s.score_flops += recompute_cost(g, *node);
  }
  return s;
}

namespace {

Result<Lowered> build(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      const AttentionProblem& p, const shaders::AttentionTile& tile) {
  ResultKernel kernel(g, group, target, p.result);
  return kernel.write_units(tile, tile.describe(), [&](const WorkUnit& unit) {
    AttentionOperands operands(p, kernel, unit);
    StoredTile result(kernel, [&](const Expr& row, const Expr& column) {
      return operands.result_index(row, column);
    });
    return shaders::write_attention({operands, result, tile, unit.origin});
  });
}

/// Finds whether matrix units can multiply the operands, and asynchronous copies bring their heads
/// to shared memory. Asks the operands of a kernel that is not used.
void find_copies(const graph::Graph& g, const Group& group, const TargetFacts& target,
                 const AttentionProblem& problem, shaders::AttentionSize& size) {
  if (target.cpu_type() || !target.async_copies()) return;
  const DType type = g.value(problem.queries).dtype;
  const bool same = g.value(problem.keys).dtype == type && g.value(problem.values).dtype == type;
  if (!same || (type != DType::F16 && type != DType::BF16)) return;
  ResultKernel kernel(g, group, target, problem.result);
  WorkUnit unit;
  // Not a constant, of which every stride of the batch would be a divisor.
  unit.batch_at = shaders::local_index(kernel.builder());
  unit.batch = kernel.evaluator().symbol(unit.batch_at, element_count(problem.result.batch));
  AttentionOperands operands(problem, kernel, unit);
  const std::array<shaders::Operand, 3> all{operands.queries(), operands.keys(), operands.values()};
  for (size_t n = 0; n < all.size(); ++n) {
    const bool of_values = n == 2;
    const auto& plain = all[n].plain;
    if (!plain || all[n].dtype != type ||
        !(of_values ? plain->contiguous_across : plain->contiguous_along))
      return;
    size.copied[n] = shaders::elements_of_copy(all[n], kernel::storage_type(type));
    if (size.copied[n] == 0) return;
  }
  size.mma = type == DType::F16 ? kHalfMma : kBfloatMma;
}

}  // namespace

Result<Lowered> lower_attention(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice) {
  const AttentionProblem problem(g, group);
  shaders::AttentionSize size = problem.size(g, group);
  find_copies(g, group, target, problem, size);
  const auto tiles = shaders::attention_tiles(size, target);
  return lower_choice(tiles, choice, [&](const shaders::AttentionTile& tile) {
    return build(g, group, target, problem, tile);
  });
}

namespace {

/// The group with the views of its operands, through which the kernel would read.
Group with_views(const graph::Graph& g, Group group) {
  std::vector<ValueId> operands = group.attention.scores->inputs;
  operands.push_back(group.anchor->inputs[1]);
  for (ValueId v : operands) {
    graph::Node* n = g.value(v).producer;
    while (n != nullptr && ops::is_core(*n) && def_of(*n)->lowering == ops::Lowering::View) {
      group.nodes.push_back(n);
      n = g.value(n->inputs[0]).producer;
    }
  }
  return group;
}

}  // namespace

std::string attention_refusal(const graph::Graph& g, const Group& group,
                              const TargetFacts& device) {
  const Group whole = with_views(g, group);
  const AttentionProblem problem(g, whole);
  const shaders::AttentionSize size = problem.size(g, whole);
  // Memory must grow with the length of a sequence, not with its square, whatever the price. So
  // separate kernels are an option only if the scores take less memory than their operands, and
  // not if both of their dimensions are dynamic.
  const double scores = size.rows * size.keys;
  const double operands = (size.rows + size.keys) * (size.depth + size.columns);
  if (scores > operands || problem.may_grow()) return {};
  const double separate = shaders::separate_cost(size, device);
  const double together = shaders::attention_tiles(size, device).front().cost;
  if (together <= separate) return {};
  std::string times = std::to_string(std::round(10 * together / separate) / 10);
  times.resize(times.find('.') + 2);
  return "one kernel of '" + group.anchor->name + "' and its softmax would take " + times +
         " times as long as separate ones";
}

}  // namespace reprise::lower
