// The problem that shaders/attention_grad.h solves: where the operands of AttentionGrad lie, and
// how a pair of a query and a key follows from their products.
#include "shaders/attention_grad.h"

#include <algorithm>
#include <limits>

#include "codegen/lower/launch/result_kernel.h"
#include "codegen/lower/problems/attention.h"
#include "codegen/ops/nn/attention_grad.h"
#include "codegen/ops/row/support.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using shaders::GradOf;
using enum ops::AttentionGradInput;

static_assert(ops::kMaxGradHead <= shaders::kMaxAttentionColumns);

namespace {

/// Where a result is stored: in the order of its dims `dims`, which then have the sizes `shape`.
struct Destination {
  ValueId value = graph::kNone;  // kNone: nowhere
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

  ValueId mask() const { return node.inputs.size() > kMask ? node.inputs[kMask] : graph::kNone; }
  Destination destination(size_t output) const;
  bool wants(GradOf of) const {
    const auto wanted = [&](size_t i) { return destination(i).value != graph::kNone; };
    return of == GradOf::Queries ? wanted(0) : wanted(1) || wanted(2);
  }
  ResultShape result(GradOf of) const {
    const Shape& s = of == GradOf::Queries ? query : key;
    return {s[2], head, {s[0], s[1]}, head.value() % 4 == 0};
  }
  shaders::AttentionGradSize size(GradOf of) const;

  const graph::Graph& g;
  const Group& group;
  const graph::Node& node;
  const Shape query, key;
  const Expr head;
  const int64_t groups;  // heads of queries that share keys
  const bool causal;
  const float scale;
};

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

/// The operands of one tile in the kernel that computes it.
class GradOperands final : public shaders::AttentionGrad {
 public:
  GradOperands(const GradProblem& p, GradOf of, ResultKernel& kernel, const WorkUnit& unit)
      : p_(p),
        queries_(of == GradOf::Queries),
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

  /// Factor 0 (q or k) or 1 (g or v) of a query or a key, as F32.
  Result<Values> load(bool query, int factor, const Expr& row, const Expr& column, int lanes) {
    const auto input = query ? (factor == 0 ? kQuery : kGrad) : (factor == 0 ? kKey : kValue);
    const Expr head = ev_.simplify(query ? query_head() : key_head());
    return kernel_.scalars(ev_.eval(p_.node.inputs[input], {batch_[0], head, row, column}, lanes));
  }
  Result<Value> of_query(ops::AttentionGradInput input, const Expr& i) {
    RP_ASSIGN(const Val x,
              ev_.eval(p_.node.inputs[input], {batch_[0], ev_.simplify(query_head()), i}));
    return b_.convert(x, Ty::F32);
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
        const Value added = b_.convert(x, Ty::F32);
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
