#include "codegen/lower/problems/attention_grad_operands.h"

#include <algorithm>

#include "codegen/lower/problems/attention.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using shaders::GradOf;

static_assert(ops::kMaxGradHead <= shaders::kMaxAttentionColumns);

/// Follows the nodes of the group that order the dims of a result.
Destination GradProblem::destination(size_t output) const {
  Destination to;
  if (output >= node.outputs.size()) return to;
  to.value = node.outputs[output];
  if (to.value != graph::kNone) to.shape = g.value(to.value).shape;
  while (to.value != graph::kNone &&
         std::ranges::find(group.outputs, to.value) == group.outputs.end()) {
    const auto next = std::ranges::find_if(group.nodes, [&](const graph::Node* n) {
      return n != &node && !n->inputs.empty() && n->inputs[0] == to.value;
    });
    if (next == group.nodes.end()) return {};
    if (const auto perm = ops::permutation_of(**next)) {
      const std::vector<int64_t> before = to.dims;
      for (size_t d = 0; d < perm->size(); ++d)
        to.dims[d] = before[static_cast<size_t>((*perm)[d])];
      to.shape = g.value((*next)->outputs[0]).shape;
    }
    to.value = (*next)->outputs[0];
  }
  return to;
}

shaders::AttentionGradSize GradProblem::size(GradOf of) const {
  const bool queries = of == GradOf::Queries;
  const Shape& rows = queries ? query : key;
  const Shape& others = queries ? key : query;
  shaders::AttentionGradSize s;
  s.of = of;
  s.batch = count_hint(g, {rows[0], rows[1]});
  s.rows = count_hint(g, {rows[2]});
  s.others = count_hint(g, {others[2]}) * (queries ? 1 : static_cast<double>(groups));
  s.head = static_cast<int>(head.value());
  const auto loads = [&](ValueId v, const Expr& length) {
    return operand_cost(g, group, v, true, head, length).loads == 1 ? 1.0 : 4.0;
  };
  s.loads = std::max(loads(node.inputs[kQuery], query[2]), loads(node.inputs[kKey], key[2]));
  s.score_flops = (mask() == graph::kNone ? 0 : 3) + (causal ? 2 : 0);
  return s;
}

namespace {

/// Stores one result of AttentionGrad.
class GradTile final : public StoredTile {
 public:
  GradTile(ResultKernel& kernel, ResultIndex index, Destination to)
      : StoredTile(kernel, std::move(index)), ev_(kernel.evaluator()), to_(std::move(to)) {}

 protected:
  Status put(const Index& index, Val value, int lanes) override {
    if (to_.value == graph::kNone) return {};
    Index at;
    for (const int64_t d : to_.dims) at.push_back(index[static_cast<size_t>(d)]);
    const Ty type = ev_.compute(ev_.graph().value(to_.value).dtype).ty;
    return ev_.store_at(to_.value, ev_.flatten(at, to_.shape), ev_.builder().convert(value, type),
                        lanes);
  }

 private:
  Evaluator& ev_;
  Destination to_;
};

Result<Lowered> build(const GradProblem& p, GradOf of, const TargetFacts& target,
                      const shaders::AttentionGradTile& tile) {
  const bool queries = of == GradOf::Queries;
  const std::string name = kernel_name(p.group) + (queries ? "_queries" : "_keys");
  ResultKernel kernel(p.g, p.group, target, p.result(of), name);
  return kernel.write_units(tile, tile.describe(), [&](const WorkUnit& unit) {
    GradOperands operands(p, of, kernel, unit);
    const auto stored = [&](size_t output) {
      return GradTile(
          kernel,
          [&](const Expr& row, const Expr& column) { return operands.result_index(row, column); },
          p.destination(output));
    };
    GradTile first = stored(queries ? 0 : 1), second = stored(2);
    std::vector<shaders::ResultTile*> results{&first};
    if (!queries) results.push_back(&second);
    return shaders::write_attention_grad({operands, std::move(results), tile, unit.origin});
  });
}

/// The tiles of both launches.
struct GradTiles {
  std::vector<std::pair<GradOf, shaders::AttentionGradTile>> launches;
  double cost = 0;

  std::string describe() const {
    std::string out;
    for (const auto& [of, tile] : launches) out += (out.empty() ? "" : "; ") + tile.describe();
    return out;
  }
};

std::vector<GradTiles> candidates(const GradProblem& p, const TargetFacts& target) {
  std::vector<GradTiles> out;
  for (const GradOf of : {GradOf::Queries, GradOf::Keys}) {
    if (!p.wants(of)) continue;
    const auto tiles = shaders::attention_grad_tiles(p.size(of), target);
    if (out.size() < tiles.size()) {
      const size_t known = out.size();
      out.resize(tiles.size());
      for (size_t i = known; known > 0 && i < out.size(); ++i) out[i] = out[known - 1];
    }
    for (size_t i = 0; i < out.size(); ++i) {
      const auto& tile = tiles[std::min(i, tiles.size() - 1)];
      out[i].launches.emplace_back(of, tile);
      out[i].cost += tile.cost;
    }
  }
  return out;
}

}  // namespace

Result<Lowered> lower_attention_grad(const graph::Graph& g, const Group& group,
                                     const TargetFacts& target, size_t choice) {
  const GradProblem problem(g, group);
  return lower_choice(candidates(problem, target), choice,
                      [&](const GradTiles& tiles) -> Result<Lowered> {
                        Lowered out;
                        out.schedule = tiles.describe();
                        for (const auto& [of, tile] : tiles.launches) {
                          RP_ASSIGN(Lowered one, build(problem, of, target, tile));
                          out.launches.push_back(std::move(one.launches[0]));
                        }
                        return out;
                      });
}

namespace {

bool prefers_formula(const graph::Graph& g, const graph::Node& n, const TargetFacts& device) {
  const Shape& query = g.value(n.inputs[kQuery]).shape;
  const Shape& key = g.value(n.inputs[kKey]).shape;
  if (!query[2].is_const() && !key[2].is_const()) return false;  // the scores may grow
  shaders::AttentionGradSize size;
  size.rows = count_hint(g, {query[2]});
  size.others = count_hint(g, {key[2]});
  size.head = static_cast<int>(query[3].value());
  const bool few_scores = size.rows * size.others <= (size.rows + size.others) * 2 * size.head;
  return few_scores && shaders::separate_gradients_win(size, device);
}

}  // namespace

Status choose_gradient_formulas(graph::Graph& g, std::span<const Target> targets, bool always) {
  std::vector<graph::Node*> replaced;
  for (const auto& n : g.nodes()) {
    const ops::OpDef* def = ops::core_def(*n);
    if (def == nullptr || def->kernel != "attention gradient") continue;
    const bool faster = !targets.empty() && std::ranges::all_of(targets, [&](const Target& t) {
      return prefers_formula(g, *n, t);
    });
    if (always || faster) replaced.push_back(n.get());
  }
  for (graph::Node* n : replaced) {
    ops::Rewriter rw(g, *n);
    RP_TRY(ops::attention_grad_formula(rw).status());
    g.erase_node(n);
  }
  return {};
}

}  // namespace reprise::lower
