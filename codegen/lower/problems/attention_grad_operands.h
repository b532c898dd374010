// The problem that shaders/attention_grad.h solves: where the operands of AttentionGrad lie, and
// how a pair of a query and a key follows from their products.
#pragma once

#include <limits>

#include "codegen/lower/problems/operand.h"
#include "codegen/ops/nn/attention_grad.h"
#include "codegen/ops/row/support.h"
#include "shaders/attention_grad.h"

namespace reprise::lower {

using enum ops::AttentionGradInput;

/// Where a result is stored: in the order of its dims `dims`, which then have the sizes `shape`.
struct Destination {
  graph::ValueId value = graph::kNone;  // kNone: nowhere
  std::vector<int64_t> dims = {0, 1, 2, 3};
  Shape shape;
};

struct GradProblem {
  GradProblem(const graph::Graph& graph, const Group& gr)
      : g(graph),
        group(gr),
        node(*gr.anchor),
        query(g.value(node.inputs[kQuery]).shape),
        key(g.value(node.inputs[kKey]).shape),
        head(query[3]),
        groups(query[1].value() / key[1].value()),
        causal(ops::Attributes(node).get_int("is_causal") != 0),
        scale(ops::Attributes(node).get_float("scale")) {}

  graph::ValueId mask() const {
    return node.inputs.size() > kMask ? node.inputs[kMask] : graph::kNone;
  }
  Destination destination(size_t output) const;
  bool wants(shaders::GradOf of) const {
    const auto wanted = [&](size_t i) { return destination(i).value != graph::kNone; };
    return of == shaders::GradOf::Queries ? wanted(0) : wanted(1) || wanted(2);
  }
  ResultShape result(shaders::GradOf of) const {
    const Shape& s = of == shaders::GradOf::Queries ? query : key;
    return {s[2], head, {s[0], s[1]}, head.value() % 4 == 0};
  }
  shaders::AttentionGradSize size(shaders::GradOf of) const;

  const graph::Graph& g;
  const Group& group;
  const graph::Node& node;
  const Shape query, key;
  const Expr head;
  const int64_t groups;  // heads of queries that share keys
  const bool causal;
  const float scale;
};

/// The operands of one tile in the kernel that computes it.
class GradOperands final : public shaders::AttentionGrad {
 public:
  GradOperands(const GradProblem& p, shaders::GradOf of, ResultKernel& kernel, const WorkUnit& unit)
      : p_(p),
        queries_(of == shaders::GradOf::Queries),
        kernel_(kernel),
        b_(kernel.builder()),
        ev_(kernel.evaluator()),
        batch_(ev_.unflatten(unit.batch, kernel.shape().batch)),
        count_(queries_ ? p.key[2] : p.query[2]) {}

  kernel::Builder& builder() override { return b_; }
  Index result_index(const Expr& row, const Expr& column) const {
    return {batch_[0], batch_[1], row, column};
  }

  Index row(Value at) override { return {kernel_.clamped_row(at)}; }
  Index other(Value at, int block) override {
    return {kernel_.clamped(at, count_, whole_blocks(block))};
  }
  Index column(Value vec) override { return kernel_.clamped_columns(vec); }

  Value other_count() override { return ev_.value(count_); }
  bool whole_blocks(int others) const override {
    return count_.known_divisor(p_.g.symbols) % others == 0;
  }

  Status blocks(Value row, int rows, int others,
                const std::function<Status(Value)>& body) override {
    const auto of_head = [&] {
      Value first = b_.i32(0), end = other_count();
      if (p_.causal && queries_) end = min(end, row + rows);
      if (p_.causal && !queries_) first = row / others * others;
      return ev_.for_loop(first, end, b_.i32(others), Expr::ceildiv(count_, others), body);
    };
    if (queries_ || p_.groups == 1) return of_head();
    return ev_.for_loop(b_.i32(0), b_.i32(p_.groups), b_.i32(1), Expr(p_.groups), [&](Value i) {
      group_ = ev_.symbol(i, Expr(p_.groups));
      return of_head();
    });
  }

  Status k_loop(const shaders::KStepBody& body) override {
    return kernel_.loop_over_k(p_.head, body);
  }
  shaders::KStep quad(Value at) override {
    return {Expr(4) * ev_.symbol(at, Expr::floordiv(p_.head, 4)), 4};
  }

  shaders::Operand rows(int factor) override {
    return factor_of(queries_, factor, kernel_.shape().m);
  }
  shaders::Operand others(int factor) override { return factor_of(!queries_, factor, count_); }

  Result<Values> row_at(int factor, const Index& row, const shaders::KStep& step) override {
    return load(queries_, factor, row[0], kernel_.k_of(step), step.count);
  }
  Result<Values> other_at(int factor, const Index& other, const shaders::KStep& step) override {
    return load(!queries_, factor, other[0], kernel_.k_of(step), step.count);
  }
  Result<Values> columns_at(int factor, const Index& other, const Index& column) override {
    if (kernel_.shape().vector_n)
      return load(!queries_, factor, other[0], column[0] + ev_.lane(), 4);
    Values four;
    for (const Expr& c : column) {
      RP_ASSIGN(const Values x, load(!queries_, factor, other[0], c, 1));
      four.push_back(x[0]);
    }
    return four;
  }

  Result<Weights> weights(const Index& row, const Index& other, Value first,
                          Value second) override {
    const Expr& i = queries_ ? row[0] : other[0];
    const Expr& j = queries_ ? other[0] : row[0];
    RP_ASSIGN(const Value s, score(i, j, first));
    RP_ASSIGN(const Value log_sum, of_query(kLogSum, i));
    RP_ASSIGN(const Value share, of_query(kShare, i));
    Weights w;
    w.weight = b_.scalar_op(kernel::ScalarOp::Exp, {s - log_sum});
    // A weight of 0 also hides an infinite value.
    w.pull = b_.select(b_.eq(w.weight, b_.f32(0)), b_.f32(0), Value(w.weight) * (second - share));
    return w;
  }

  Value finished(int result, Value sum) override {
    return result == 0 ? sum * Value{b_, b_.f32(p_.scale)} : sum;
  }

 private:
  Expr query_head() const {
    return queries_ || p_.groups == 1 ? batch_[1] : batch_[1] * Expr(p_.groups) + group_;
  }
  Expr key_head() const {
    return queries_ && p_.groups > 1 ? Expr::floordiv(batch_[1], p_.groups) : batch_[1];
  }

  /// Factor 0 (q or k) or 1 (g or v) of a query or a key.
  graph::ValueId input(bool query, int factor) const {
    const auto at = query ? (factor == 0 ? kQuery : kGrad) : (factor == 0 ? kKey : kValue);
    return p_.node.inputs[at];
  }
  Index index_in(bool query, const Expr& row, const Expr& column) const {
    return {batch_[0], ev_.simplify(query ? query_head() : key_head()), row, column};
  }
  shaders::Operand factor_of(bool query, int factor, const Expr& count) {
    return operand_of(kernel_, input(query, factor),
                      {count, p_.head, [this, query](const Expr& row, const Expr& column) {
                         return index_in(query, row, column);
                       }});
  }
  /// As F32.
  Result<Values> load(bool query, int factor, const Expr& row, const Expr& column, int lanes) {
    return kernel_.scalars(ev_.eval(input(query, factor), index_in(query, row, column), lanes));
  }
  Result<Value> of_query(ops::AttentionGradInput input, const Expr& i) {
    RP_ASSIGN(const Val x,
              ev_.eval(p_.node.inputs[input], {batch_[0], ev_.simplify(query_head()), i}));
    return b_.convert(x, kernel::Ty::F32);
  }

  Result<Value> score(const Expr& i, const Expr& j, Value dot) {
    const Value hidden = b_.f32(-std::numeric_limits<float>::infinity());
    Value s = dot * Value{b_, b_.f32(p_.scale)};
    if (p_.mask() != graph::kNone) {
      const graph::Value& mask = p_.g.value(p_.mask());
      const Shape scores{p_.query[0], p_.query[1], p_.query[2], p_.key[2]};
      const Index at = ops::broadcast_index(p_.g, {batch_[0], ev_.simplify(query_head()), i, j},
                                            mask.shape, scores);
      RP_ASSIGN(const Val x, ev_.eval(p_.mask(), at));
      if (mask.dtype == DType::Bool) {
        s = b_.select(x, s, hidden);
      } else {
        const Value added = b_.convert(x, kernel::Ty::F32);
        s = b_.select(b_.eq(added, hidden), hidden, s + added);
      }
    }
    if (p_.causal) s = b_.select(b_.le(ev_.value(j), ev_.value(i)), s, hidden);
    return s;
  }

  const GradProblem& p_;
  const bool queries_;
  ResultKernel& kernel_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const Index batch_;
  const Expr count_;  // of others
  Expr group_ = 0;    // the head of queries, of those that share keys
};

}  // namespace reprise::lower
