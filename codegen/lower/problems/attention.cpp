// The problem that shaders/attention.h solves: where queries, keys and values lie, and how a score
// is computed between the first MatMul and the softmax.
#include "codegen/lower/problems/attention.h"

#include <cmath>

#include "codegen/lower/launch/result_kernel.h"
#include "shaders/attention.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;

namespace {

/// Where queries, keys and values lie, before a tile is chosen.
struct AttentionProblem {
  AttentionProblem(const graph::Graph& g, const Group& group);

  shaders::AttentionSize size(const graph::Graph& g, const Group& group) const;
  /// Whether the numbers of rows and of keys are both dynamic.
  bool may_grow() const { return !result.m.is_const() && !keys_count.is_const(); }

  AttentionChain chain;
  ValueId queries, keys, values;
  ResultShape result;
  Expr keys_count;
  Expr head;  // head size of queries and keys
};

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

/// The operands of one tile in the kernel that computes it.
class AttentionOperands final : public shaders::Attention {
 public:
  AttentionOperands(const AttentionProblem& p, ResultKernel& kernel, const WorkUnit& unit)
      : p_(p),
        kernel_(kernel),
        g_(kernel.graph()),
        b_(kernel.builder()),
        ev_(kernel.evaluator()),
        batch_(ev_.unflatten(unit.batch, p.result.batch)),
        scores_batch_(batch_of(unit, p.chain.scores->outputs[0])),
        logits_batch_(batch_of(unit, p.chain.logits)),
        sums_batch_(has_log_sums() ? batch_of(unit, p.chain.log_sum) : Index()) {}

  kernel::Builder& builder() override { return b_; }
  Index result_index(const Expr& row, const Expr& column) const { return at(batch_, row, column); }

  Index row(Value at) override {
    return {p_.result.m.is_const(1) ? Expr(0) : kernel_.clamped_row(at)};
  }
  Index key(Value at, int block) override {
    if (p_.keys_count.is_const(1)) return {Expr(0)};
    return {kernel_.clamped(at, p_.keys_count, whole_blocks(block))};
  }
  Index column(Value vec) override { return kernel_.clamped_columns(vec); }

  Value key_count() override { return ev_.value(p_.keys_count); }
  bool whole_blocks(int keys) const override {
    return p_.keys_count.known_divisor(g_.symbols) % keys == 0;
  }
  Status blocks(int keys, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), key_count(), b_.i32(keys), Expr::ceildiv(p_.keys_count, keys),
                        body);
  }

  Status k_loop(const shaders::KStepBody& body) override {
    return kernel_.loop_over_k(p_.head, body);
  }

  shaders::KStep quad(Value at) override {
    return {Expr(4) * ev_.symbol(at, Expr::floordiv(p_.head, 4)), 4};
  }

  Result<Values> query_at(const Index& row, const shaders::KStep& step) override {
    return operand_of_scores(p_.queries, row[0], kernel_.k_of(step), step.count);
  }
  Result<Values> key_at(const Index& key, const shaders::KStep& step) override {
    return operand_of_scores(p_.keys, kernel_.k_of(step), key[0], step.count);
  }

  Result<Val> score(const Index& row, const Index& key, Value dot) override {
    const ValueId scores = p_.chain.scores->outputs[0];
    const Ty type = ev_.compute(g_.value(scores).dtype).ty;
    ev_.bind(scores, at(scores_batch_, row[0], key[0]), b_.convert(dot, type));
    RP_ASSIGN(const Val x, ev_.eval(p_.chain.logits, at(logits_batch_, row[0], key[0])));
    return b_.convert(x, Ty::F32);
  }

  Result<Values> value(const Index& key, const Index& column) override {
    const Shape& shape = g_.value(p_.values).shape;
    const auto load = [&](const Expr& c, int lanes) {
      return kernel_.scalars(
          ev_.eval(p_.values, operand_index(g_, shape, p_.result.batch, batch_, key[0], c), lanes));
    };
    if (p_.result.vector_n) return load(column[0] + ev_.lane(), 4);
    Values four;
    for (const Expr& c : column) {
      RP_ASSIGN(const Values x, load(c, 1));
      four.push_back(x[0]);
    }
    return four;
  }

  Value normalized(Value weighted, Value total) override {
    Value y = weighted / total;
    if (p_.chain.zero_for_nan) {
      y = b_.select(b_.lt(b_.f32(0), total), y, b_.f32(0));
    } else if (p_.chain.zero_if_hidden) {
      // All weights are 0, so the weighted sum is 0, or NaN if a value is infinite: separate
      // kernels give the same.
      y = b_.select(b_.eq(total, b_.f32(0)), weighted, y);
    }
    // With no keys, the second MatMul sums over nothing: the result is 0.
    if (!(p_.keys_count.is_const() && p_.keys_count.value() > 0))
      y = b_.select(b_.lt(b_.i32(0), key_count()), y, b_.f32(0));
    return y;
  }

  bool has_log_sums() const override { return p_.chain.log_sum != graph::kNone; }
  Status store_log_sum(Value row, Val first, Value base, Value total) override {
    const ValueId v = p_.chain.log_sum;
    return ev_.guard(first, [&] {
      const Val inside = kernel_.exact_rows() ? Val{} : row < ev_.value(p_.result.m);
      return ev_.guard(inside, [&] {
        const Value log{b_, b_.scalar_op(kernel::ScalarOp::Log, {total})};
        const Value sum = b_.select(b_.eq(total, b_.f32(0)), b_.f32(0), log + base);
        const Index index = at(sums_batch_, ev_.symbol(row, p_.result.m), 0);
        return ev_.store(v, index, b_.convert(sum, ev_.compute(g_.value(v).dtype).ty), 1);
      });
    });
  }

 private:
  static Index at(Index batch, const Expr& row, const Expr& column) {
    batch.push_back(row);
    batch.push_back(column);
    return batch;
  }
  Shape batches_of(ValueId v) const {
    const Shape& shape = g_.value(v).shape;
    return {shape.begin(), shape.end() - 2};
  }
  /// The unit's batch as an index into the batch dims of v, a value between the MatMuls.
  Index batch_of(const WorkUnit& unit, ValueId v) {
    return ev_.unflatten(unit.batch, batches_of(v));
  }
  Result<Values> operand_of_scores(ValueId v, const Expr& row, const Expr& column, int lanes) {
    const Index index = operand_index(
        g_, g_.value(v).shape, batches_of(p_.chain.scores->outputs[0]), scores_batch_, row, column);
    return kernel_.scalars(ev_.eval(v, index, lanes));
  }

  const AttentionProblem& p_;
  ResultKernel& kernel_;
  const graph::Graph& g_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const Index batch_, scores_batch_, logits_batch_, sums_batch_;
};

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

}  // namespace

Result<Lowered> lower_attention(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice) {
  const AttentionProblem problem(g, group);
  const auto tiles = shaders::attention_tiles(problem.size(g, group), target);
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
