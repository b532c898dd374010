// Attention for shaders/attention.h: where queries, keys and values lie, and what is computed of a
// score between the first MatMul and the softmax.
#include "codegen/lower/attention.h"

#include <cmath>

#include "codegen/lower/result_kernel.h"
#include "shaders/attention.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Ty;
using kernel::Val;

namespace {

class AttentionKernel final : public ResultKernel, public shaders::Attention {
 public:
  AttentionKernel(const graph::Graph& g, const Group& group, const TargetFacts& target)
      : ResultKernel(g, group, target),
        chain_(group.attention),
        queries_(chain_.scores->inputs[0]),
        keys_(chain_.scores->inputs[1]),
        values_(group.anchor->inputs[1]) {
    const Shape& d = group.domain;
    batch_.assign(d.begin(), d.end() - 2);
    m_ = d[d.size() - 2];
    n_ = d[d.size() - 1];
    wide_n_ = n_.value() % 4 == 0;
    count_ = g.value(chain_.weights).shape.back();
    head_ = g.value(queries_).shape.back();
  }

  shaders::AttentionSize size() const {
    shaders::AttentionSize s;
    s.batch = count_hint(g_, batch_);
    s.rows = count_hint(g_, {m_});
    s.keys = count_hint(g_, {count_});
    s.depth = count_hint(g_, {head_});
    s.columns = static_cast<int>(n_.value());
    s.key_loads = count_loads(g_, group_, keys_, false, head_, count_) == 1 ? 1 : 4;
    s.value_loads = wide_n_ && count_loads(g_, group_, values_, true, n_, count_) == 1 ? 1 : 4;
    for (const graph::Node* n : group_.nodes) {
      const bool per_score =
          n->outputs[0] != graph::kNone && !is_contraction(*n) &&
          element_count(g_.value(n->outputs[0]).shape) == m_ * count_ * batches();
      if (per_score) s.score_flops += recompute_cost(g_, *n);
    }
    return s;
  }

  /// Whether rows and keys both are of any number.
  bool may_grow() const { return !m_.is_const() && !count_.is_const(); }

  Result<Lowered> build(const shaders::AttentionTile& tile) {
    return write_units(tile, tile.describe(), [&](Val row, Val column_tile) {
      return shaders::write_attention(*this, tile, row, column_tile);
    });
  }

  void begin(const Expr& batch) override {
    batch_linear_ = batch;
    batch_index_ = ev_.unflatten(batch, batch_);
    scores_batch_ = batch_of(chain_.scores->outputs[0]);
    logits_batch_ = batch_of(chain_.logits);
  }

  Index result_index(const Expr& row, const Expr& column) override {
    return at(batch_index_, row, column);
  }

  int row(Val at) override {
    rows_.push_back(m_.is_const(1) ? Expr(0) : clamped_row(at));
    return static_cast<int>(rows_.size()) - 1;
  }
  int key(Val at) override {
    key_positions_.push_back(count_.is_const(1) ? Expr(0)
                                                : clamped(at, count_, whole_blocks(block_)));
    return static_cast<int>(key_positions_.size()) - 1;
  }
  int column(Val vec) override {
    std::vector<Expr> c;
    if (wide_n_) {
      c.push_back(Expr(4) * clamped_vec(vec));
    } else {
      for (int l = 0; l < 4; ++l)
        c.push_back(clamped_column(b_.add(b_.mul(vec, b_.i32(4)), b_.i32(l))));
    }
    columns_.push_back(std::move(c));
    return static_cast<int>(columns_.size()) - 1;
  }

  Val key_count() override { return ev_.value(count_); }
  bool whole_blocks(int keys) const override {
    return count_.known_divisor(g_.symbols) % keys == 0;
  }
  void blocks(int keys, const std::function<void(Val)>& body) override {
    block_ = keys;
    ev_.for_loop(b_.i32(0), key_count(), b_.i32(keys), Expr::ceildiv(count_, keys), [&](Val first) {
      ev_.push_scope();
      body(first);
      ev_.pop_scope();
    });
  }

  Status k_loop(const std::function<Status(int)>& step) override {
    return loop_over_k(head_, step);
  }

  Result<Values> query_at(int row) override {
    const Index index = operand_index(g_, g_.value(queries_).shape, scores_batches(), scores_batch_,
                                      row_at(row), step_position());
    return scalars(ev_.eval(queries_, index, depth_));
  }
  Result<Values> key_at(int key) override {
    const Index index = operand_index(g_, g_.value(keys_).shape, scores_batches(), scores_batch_,
                                      step_position(), position_of(key));
    return scalars(ev_.eval(keys_, index, depth_));
  }

  Result<Val> score(int row, int key, Val dot) override {
    const ValueId scores = chain_.scores->outputs[0];
    const Ty type = ev_.compute(g_.value(scores).dtype).ty;
    if (type != Ty::F32) dot = b_.convert(dot, type);
    ev_.bind(scores, at(scores_batch_, row_at(row), position_of(key)), dot);
    RP_ASSIGN(const Val x,
              ev_.eval(chain_.logits, at(logits_batch_, row_at(row), position_of(key))));
    return b_.type(x).ty == Ty::F32 ? x : b_.convert(x, Ty::F32);
  }

  Result<Values> value(int key, int column) override {
    const Shape& shape = g_.value(values_).shape;
    const std::vector<Expr>& c = columns_[static_cast<size_t>(column)];
    const auto load = [&](const Expr& at, int lanes) {
      return scalars(ev_.eval(
          values_, operand_index(g_, shape, batch_, batch_index_, position_of(key), at), lanes));
    };
    if (wide_n_) return load(c[0] + ev_.lane(), 4);
    Values four;
    for (const Expr& at : c) {
      RP_ASSIGN(const Values x, load(at, 1));
      four.push_back(x[0]);
    }
    return four;
  }

  Val normalized(Val weighted, Val total) override {
    Val y = b_.div(weighted, total);
    if (chain_.zero_for_nan) {
      y = b_.select(b_.lt(b_.f32(0), total), y, b_.f32(0));
    } else if (chain_.zero_if_hidden) {
      // Weights of 0: the sum is 0, or NaN of infinite values, as it is of separate kernels.
      y = b_.select(b_.eq(total, b_.f32(0)), weighted, y);
    }
    // Without keys the second MatMul sums nothing.
    if (!(count_.is_const() && count_.value() > 0))
      y = b_.select(b_.lt(b_.i32(0), key_count()), y, b_.f32(0));
    return y;
  }

 private:
  Expr batches() const { return element_count(batch_); }
  static Index at(Index batch, const Expr& row, const Expr& column) {
    batch.push_back(row);
    batch.push_back(column);
    return batch;
  }
  /// The unit's batch as dims of another value between the MatMuls.
  Index batch_of(ValueId v) { return ev_.unflatten(batch_linear_, batches_of(v)); }
  Shape batches_of(ValueId v) const {
    const Shape& shape = g_.value(v).shape;
    return {shape.begin(), shape.end() - 2};
  }
  Shape scores_batches() const { return batches_of(chain_.scores->outputs[0]); }
  const Expr& row_at(int row) const { return rows_[static_cast<size_t>(row)]; }
  const Expr& position_of(int key) const { return key_positions_[static_cast<size_t>(key)]; }

  AttentionChain chain_;
  ValueId queries_, keys_, values_;
  Expr count_, head_;  // keys, and the size of a head
  Expr batch_linear_;
  Index batch_index_, scores_batch_, logits_batch_;
  std::vector<Expr> rows_, key_positions_;
  std::vector<std::vector<Expr>> columns_;
  int block_ = 1;
};

}  // namespace

Result<Lowered> lower_attention(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice) {
  AttentionKernel kernel(g, group, target);
  const auto tiles = shaders::attention_tiles(kernel.size(), target);
  if (choice >= tiles.size()) {
    return internal_error("schedule " + std::to_string(choice) + " of " +
                          std::to_string(tiles.size()));
  }
  RP_ASSIGN(Lowered out, kernel.build(tiles[choice]));
  for (const shaders::AttentionTile& t : tiles) out.choices.push_back({t.describe(), t.cost});
  return out;
}

Status check_attention(const graph::Graph& g, const Group& group) {
  shaders::AttentionTile smallest;
  smallest.keys = 1;
  return AttentionKernel(g, group, Predicate{}).build(smallest).status();
}

namespace {

/// With the views of its operands, which the kernel would read through.
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
  const AttentionKernel kernel(g, whole, device);
  const shaders::AttentionSize size = kernel.size();
  // Memory grows with the length of a sequence, not with its square, whatever the price: scores
  // take less than what they are made of, and not both of their sides may grow.
  const double scores = size.rows * size.keys;
  const double operands = (size.rows + size.keys) * (size.depth + size.columns);
  if (scores > operands || kernel.may_grow()) return {};
  const double separate = shaders::separate_cost(size, device);
  const double together = shaders::attention_tiles(size, device).front().cost;
  if (together <= separate) return {};
  std::string times = std::to_string(std::round(10 * together / separate) / 10);
  times.resize(times.find('.') + 2);
  return "one kernel of '" + group.anchor->name + "' and its softmax would take " + times +
         " times as long as separate ones";
}

}  // namespace reprise::lower
