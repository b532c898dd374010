// MatMul: rows of A (of all batches, where they share one B), columns of B, and A's last axis as
// the sum.
#include <algorithm>

#include "codegen/lower/contraction.h"
#include "codegen/lower/cost.h"
#include "codegen/ops/quantize.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Val;

namespace {

/// A constant that can be packed into tiles of columns at load.
struct ConstantMatrix {
  ConstantOperand operand;
  bool transposed = false;  // stored as [N, K]

  Index element(const Expr& k, const Expr& column) const {
    return transposed ? Index{column, k} : Index{k, column};
  }
};

/// B seen through a transposing view; nothing unless constant and 2-D.
std::optional<ConstantMatrix> constant_matrix(const graph::Graph& g, const Group& group,
                                              ValueId b) {
  const ValueId stored = transposed_matrix(g, b);
  const bool transposed = stored != graph::kNone;
  if (transposed) b = stored;
  const auto operand = constant_operand(g, group, b);
  if (!operand || g.value(b).shape.size() != 2) return std::nullopt;
  return ConstantMatrix{*operand, transposed};
}

class MatMulGemm final : public Contraction {
 public:
  MatMulGemm(const graph::Graph& g, const Group& group, const TargetFacts& target)
      : Contraction(g, group, target) {
    const Shape& d = group.domain;
    batch_.assign(d.begin(), d.end() - 2);
    m_ = d[d.size() - 2];
    n_ = d[d.size() - 1];
    left_ = group.anchor->inputs[0];
    right_ = group.anchor->inputs[1];
    k_ = g.value(left_).shape.back();
    wide_n_ = n_.known_divisor(g.symbols) % 4 == 0;
    packed_ = constant_matrix(g, group, right_);
    // A's last axis may be dynamic; that it fits the constant is a guard of the plan.
    if (packed_) k_ = g.value(packed_->operand.value).shape[packed_->transposed ? 1 : 0];
    if (packed_) scale_result(*packed_);
    collapse_batch();
    const bool wide_k = k_.known_divisor(g.symbols) % 4 == 0;
    along_k_ = !packed_ && wide_k &&
               (!wide_n_ || count_loads(g, group, right_, false, k_, n_) <
                                count_loads(g, group, right_, true, n_, k_));
    a_along_k_ = count_loads(g, group, left_, true, k_, m_) == 1;
  }

  Result<Lowered> build(size_t choice) {
    shaders::GemmSize size;
    size.k = count_hint(g_, {k_});
    size.a_loads = a_along_k_ ? 1 : 4;
    RP_ASSIGN(Lowered out, write(size, choice));
    if (packed_) {
      out.schedule += ", packed";
      if (packed_->operand.dequantize != nullptr) out.schedule += " 8-bit";
      PackedOperand p;
      p.k = k_.value();
      p.n = n_.value();
      p.transposed = packed_->transposed;
      pack(out, packed_->operand.value, p);
    }
    if (along_k_) out.schedule += ", along k";
    return out;
  }

  void begin(const Expr& batch) override { batch_index_ = ev_.unflatten(batch, batch_); }

  Index result_index(const Expr& row, const Expr& column) override {
    Index index = row_index(row);
    index.push_back(column);
    return index;
  }

  int row(Val at) override {
    rows_.push_back(clamped_row(at));
    return static_cast<int>(rows_.size()) - 1;
  }

  int column(Val at) override {
    Column c;
    c.vec = at;
    if (packed_) {
      // The last tile is padded.
    } else if (along_k_) {
      c.first = clamped_column(at);
    } else if (wide_n_) {
      c.first = Expr(4) * clamped_vec(at);
    } else {
      for (int l = 0; l < 4; ++l)
        c.four.push_back(clamped_column(b_.add(b_.mul(at, b_.i32(4)), b_.i32(l))));
    }
    columns_.push_back(std::move(c));
    return static_cast<int>(columns_.size()) - 1;
  }

  bool b_along_k() const override { return along_k_; }

  Status k_loop(const std::function<Status(int)>& step) override { return loop_over_k(k_, step); }

  Result<Values> load_a(int row) override {
    return scalars(left_element(row, step_position(), depth_));
  }

  Result<Values> load_b(int column, Val position) override {
    const Column& c = columns_[static_cast<size_t>(column)];
    if (along_k_) {
      return scalars(ev_.eval(right_, operand(right_, step_position(), c.first), depth_));
    }
    if (packed_) return scalars(packed(c.vec, b_.add(ev_.value(at_), position)));
    return scalars(right_columns(c, at_ + ev_.symbol(position, 4)));
  }

  bool a_along_k() const override { return a_along_k_; }

  Result<Values> load_a_block(int row, Val quad) override {
    return four_positions(quad, true,
                          [&](const Expr& k, int lanes) { return left_element(row, k, lanes); });
  }

  Result<Values> load_b_block(int column, Val position) override {
    const Column& c = columns_[static_cast<size_t>(column)];
    if (along_k_) {
      return four_positions(position, true, [&](const Expr& k, int lanes) {
        return ev_.eval(right_, operand(right_, k, c.first), lanes);
      });
    }
    return one_position(position, [&](const Expr& k, int) {
      return packed_ ? packed(c.vec, ev_.value(k)) : right_columns(c, k);
    });
  }

 private:
  struct Column {
    Val vec;                 // as given
    Expr first;              // of four, or the one along k
    std::vector<Expr> four;  // where columns are not vectors
  };

  Result<Val> left_element(int row, const Expr& k, int lanes) {
    const Expr& r = rows_[static_cast<size_t>(row)];
    Index index = row_shape_.empty() ? operand(left_, r, k) : row_index(r);
    if (!row_shape_.empty()) index.push_back(k);
    return ev_.eval(left_, index, lanes);
  }

  /// Four columns at a position.
  Result<Val> right_columns(const Column& c, const Expr& k) {
    if (wide_n_) return ev_.eval(right_, operand(right_, k, c.first + ev_.lane()), 4);
    std::vector<Val> four;
    for (const Expr& at : c.four) {
      RP_ASSIGN(const Val x, ev_.eval(right_, operand(right_, k, at), 1));
      four.push_back(x);
    }
    return b_.compose(four);
  }

  /// A scale that does not differ along the sum is applied to the result.
  void scale_result(const ConstantMatrix& m) {
    const graph::Node* n = m.operand.dequantize;
    if (n == nullptr) return;
    const auto axis = ops::scaled_axis(g_, *n);
    if (!axis || *axis == (m.transposed ? 1 : 0)) return;
    set_scale(n, [m](const Expr& column) { return m.element(0, column); });
  }

  Result<Val> packed(Val vec, Val position) {
    const ConstantOperand& operand = packed_->operand;
    const Val raw = load_packed(operand.value, k_, vec, position);
    if (operand.dequantize == nullptr) return raw;
    return dequantized(*operand.dequantize, raw, vec, [&](const Expr& column) {
      return packed_->element(ev_.symbol(position, k_), column);
    });
  }

  /// With one B for all batches, rows of all batches are rows of one GEMM.
  void collapse_batch() {
    const Shape& a = g_.value(left_).shape;
    const Shape& b = g_.value(right_).shape;
    for (size_t d = 0; d + 2 < b.size(); ++d) {
      if (!b[d].is_const(1)) return;
    }
    if (batch_.empty() || a.size() != group_.domain.size()) return;
    if (!std::equal(batch_.begin(), batch_.end(), a.begin())) return;
    row_shape_ = batch_;
    row_shape_.push_back(m_);
    m_ = element_count(row_shape_);
    batch_.clear();
  }

  /// Batch and row of the domain for a row of the GEMM.
  Index row_index(const Expr& row) {
    if (!row_shape_.empty()) return ev_.unflatten(row, row_shape_);
    Index index = batch_index_;
    index.push_back(row);
    return index;
  }

  Index operand(ValueId v, const Expr& row, const Expr& column) const {
    return operand_index(g_, g_.value(v).shape, batch_, batch_index_, row, column);
  }

  ValueId left_, right_;
  Shape row_shape_;  // rows of all batches as one; empty if batches are apart
  std::optional<ConstantMatrix> packed_;
  bool a_along_k_ = false, along_k_ = false;
  Index batch_index_;
  std::vector<Expr> rows_;
  std::vector<Column> columns_;
};

bool is_float_matmul(const graph::Graph& g, const graph::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](ValueId v) { return is_gemm_float(g.value(v).dtype); });
}

}  // namespace

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const TargetFacts& target,
                             size_t choice) {
  if (!is_float_matmul(g, *group.anchor)) return lower_pointwise(g, group, target);
  return MatMulGemm(g, group, target).build(choice);
}

}  // namespace reprise::lower
