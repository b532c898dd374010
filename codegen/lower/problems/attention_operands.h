// The problem that shaders/attention.h solves: where queries, keys and values lie, and how a score
// is computed between the first MatMul and the softmax.
#pragma once

#include "codegen/lower/problems/operand.h"
#include "shaders/attention.h"

namespace reprise::lower {

/// Where queries, keys and values lie, before a tile is chosen.
struct AttentionProblem {
  AttentionProblem(const graph::Graph& g, const Group& group);

  shaders::AttentionSize size(const graph::Graph& g, const Group& group) const;
  /// Whether the numbers of rows and of keys are both dynamic.
  bool may_grow() const { return !result.m.is_const() && !keys_count.is_const(); }

  AttentionChain chain;
  graph::ValueId queries, keys, values;
  ResultShape result;
  Expr keys_count;
  Expr head;  // head size of queries and keys
};

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

  shaders::Operand queries() override {
    return operand_of(kernel_, p_.queries,
                      {p_.result.m, p_.head, [this](const Expr& row, const Expr& k) {
                         return index_for_scores(p_.queries, row, k);
                       }});
  }
  shaders::Operand keys() override {
    return operand_of(kernel_, p_.keys,
                      {p_.keys_count, p_.head, [this](const Expr& key, const Expr& k) {
                         return index_for_scores(p_.keys, k, key);
                       }});
  }
  shaders::Operand values() override {
    return operand_of(kernel_, p_.values,
                      {p_.result.n, p_.keys_count, [this](const Expr& column, const Expr& key) {
                         return index_of_value(key, column);
                       }});
  }

  Result<Values> query_at(const Index& row, const shaders::KStep& step) override {
    return operand_of_scores(p_.queries, row[0], kernel_.k_of(step), step.count);
  }
  Result<Values> key_at(const Index& key, const shaders::KStep& step) override {
    return operand_of_scores(p_.keys, kernel_.k_of(step), key[0], step.count);
  }

  Result<Val> score(const Index& row, const Index& key, Value dot) override {
    const graph::ValueId scores = p_.chain.scores->outputs[0];
    const kernel::Ty type = ev_.compute(g_.value(scores).dtype).ty;
    ev_.bind(scores, at(scores_batch_, row[0], key[0]), b_.convert(dot, type));
    RP_ASSIGN(const Val x, ev_.eval(p_.chain.logits, at(logits_batch_, row[0], key[0])));
    return b_.convert(x, kernel::Ty::F32);
  }

  Result<Values> value(const Index& key, const Index& column) override {
    const auto load = [&](const Expr& c, int lanes) {
      return kernel_.scalars(ev_.eval(p_.values, index_of_value(key[0], c), lanes));
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
    const graph::ValueId v = p_.chain.log_sum;
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
  Shape batches_of(graph::ValueId v) const {
    const Shape& shape = g_.value(v).shape;
    return {shape.begin(), shape.end() - 2};
  }
  /// The unit's batch as an index into the batch dims of v, a value between the MatMuls.
  Index batch_of(const WorkUnit& unit, graph::ValueId v) {
    return ev_.unflatten(unit.batch, batches_of(v));
  }
  Index index_for_scores(graph::ValueId v, const Expr& row, const Expr& column) const {
    return operand_index(g_, g_.value(v).shape, batches_of(p_.chain.scores->outputs[0]),
                         scores_batch_, row, column);
  }
  Index index_of_value(const Expr& key, const Expr& column) const {
    return operand_index(g_, g_.value(p_.values).shape, p_.result.batch, batch_, key, column);
  }
  Result<Values> operand_of_scores(graph::ValueId v, const Expr& row, const Expr& column,
                                   int lanes) {
    return kernel_.scalars(ev_.eval(v, index_for_scores(v, row, column), lanes));
  }

  const AttentionProblem& p_;
  ResultKernel& kernel_;
  const graph::Graph& g_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const Index batch_, scores_batch_, logits_batch_, sums_batch_;
};

}  // namespace reprise::lower
