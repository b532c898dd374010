// MatMul as a GEMM: M counts rows of A (of all batches if they share one B), N counts columns of B,
// and K is A's last axis.
#include <algorithm>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/problems/contraction.h"
#include "codegen/lower/problems/row_values.h"
#include "codegen/ops/math/quantize.h"

namespace reprise::lower {

using graph::ValueId;

namespace {

/// A constant B, which is packed into tiles of columns when a session is made.
struct ConstantMatrix {
  ConstantOperand operand;
  bool transposed = false;  // stored as [N, K]

  Index element(const Expr& k, const Expr& column) const {
    return transposed ? Index{column, k} : Index{k, column};
  }
};

/// B if it is constant and 2-D, possibly under a transposing view.
std::optional<ConstantMatrix> constant_matrix(const graph::Graph& g, const Group& group,
                                              ValueId b) {
  const ValueId stored = transposed_matrix(g, b);
  const bool transposed = stored != graph::kNone;
  if (transposed) b = stored;
  const auto operand = constant_operand(g, group, b);
  if (!operand || g.value(b).shape.size() != 2) return std::nullopt;
  return ConstantMatrix{*operand, transposed};
}

/// A MatMul as a GEMM, before a tile is chosen.
struct MatMul {
  MatMul(const graph::Graph& g, const Group& group);

  ValueId left, right;
  Shape batch;  // the batch dims of the result; empty if batches are collapsed into M
  Expr m, n, k;
  Shape row_shape;  // if batches are collapsed: the dims that M is made of
  std::optional<ConstantMatrix> constant;
  bool vector_n = false;
  int64_t block = 0;  // Gemm::b_block()
  OperandCost a_cost, b_cost;
  bool a_along_k = false, b_along_k = false;
  bool b_vectors = true;       // GemmSize::b_loads is 1
  bool row_values = false;     // the kernel computes reductions of rows of A
  bool scales_result = false;  // by the scale of a weight, which does not differ along K

 private:
  void collapse_batch(const graph::Graph& g, const Group& group);
  int64_t block_of(const graph::Graph& g) const;
};

MatMul::MatMul(const graph::Graph& g, const Group& group)
    : left(group.anchor->inputs[0]), right(group.anchor->inputs[1]) {
  const Shape& d = group.domain;
  batch.assign(d.begin(), d.end() - 2);
  m = d[d.size() - 2];
  n = d[d.size() - 1];
  k = g.value(left).shape.back();
  vector_n = n.known_divisor(g.symbols) % 4 == 0;
  constant = constant_matrix(g, group, right);
  // A's last axis may be dynamic. A guard of the plan ensures that it equals the constant's K.
  if (constant) k = g.value(constant->operand.value).shape[constant->transposed ? 1 : 0];
  collapse_batch(g, group);
  row_values = has_row_values(group);
  block = block_of(g);
  if (constant)
    scales_result = lower::scales_result(g, constant->operand, constant->transposed ? 0 : 1);
  const bool vector_k = k.known_divisor(g.symbols) % 4 == 0;
  if (!constant) {
    b_cost = operand_cost(g, group, right, true, n, k);
    const OperandCost along = operand_cost(g, group, right, false, k, n);
    b_along_k = vector_k && (!vector_n || along.loads < b_cost.loads);
    if (b_along_k) b_cost = along;
    b_vectors = (b_along_k || vector_n) && b_cost.loads == 1;
  }
  a_cost = operand_cost(g, group, left, true, k, m);
  a_along_k = a_cost.loads == 1;
}

int64_t MatMul::block_of(const graph::Graph& g) const {
  if (!constant || constant->operand.dequantize == nullptr) return 0;
  const ops::Attributes given(*constant->operand.dequantize);
  const int64_t size = given.get_int("block_size");
  const bool along_k = given.get_int("axis") == (constant->transposed ? 1 : 0);
  const bool whole = size > 0 && size % 8 == 0 && k.is_const() && k.value() % size == 0;
  const DType type = g.value(constant->operand.value).dtype;
  const bool bytes = type == DType::I8 || type == DType::U8;
  return along_k && whole && (bytes || is_packed_in_nibbles(g, constant->operand.value)) ? size : 0;
}

/// If all batches share one B, their rows become rows of one GEMM.
void MatMul::collapse_batch(const graph::Graph& g, const Group& group) {
  const Shape& a = g.value(left).shape;
  const Shape& b = g.value(right).shape;
  for (size_t d = 0; d + 2 < b.size(); ++d) {
    if (!b[d].is_const(1)) return;
  }
  if (batch.empty() || a.size() != group.domain.size()) return;
  if (!std::equal(batch.begin(), batch.end(), a.begin())) return;
  row_shape = batch;
  row_shape.push_back(m);
  m = element_count(row_shape);
  batch.clear();
}

class MatMulOperands final : public TileOperands {
 public:
  MatMulOperands(const MatMul& p, ResultKernel& kernel, const shaders::Tile& tile,
                 const WorkUnit& unit)
      : TileOperands(kernel, tile, unit, p.k), p_(p), batch_(ev_.unflatten(unit.batch, p.batch)) {
    const auto& weight = p_.constant;
    if (p_.scales_result)
      scale_result(weight->operand.dequantize,
                   [&weight](const Expr& column) { return weight->element(0, column); });
  }

  Index result_index(const Expr& row, const Expr& column) override {
    Index index = row_index(row);
    index.push_back(column);
    return index;
  }

  shaders::Operand a() override {
    return operand_of(kernel_, p_.left, {p_.m, p_.k, [this](const Expr& row, const Expr& k) {
                                           return a_index(row, k);
                                         }});
  }
  shaders::Operand b() override {
    if (p_.constant) return packed_operand(p_.constant->operand);
    return operand_of(kernel_, p_.right, {p_.n, p_.k, [this](const Expr& column, const Expr& k) {
                                            return operand(p_.right, k, column);
                                          }});
  }
  std::optional<shaders::ViewedOperand> viewed_a() override {
    return viewed(p_.left, p_.m,
                  [this](const Expr& row, const Expr& k) { return a_index(row, k); });
  }
  std::optional<shaders::ViewedOperand> viewed_b() override {
    if (p_.constant) return viewed(p_.constant->operand, p_.n);
    return viewed(p_.right, p_.n, [this](const Expr& column, const Expr& k) {
      return operand(p_.right, k, column);
    });
  }
  bool a_along_k() const override { return p_.a_along_k; }
  bool b_along_k() const override { return p_.b_along_k; }
  bool rounds_b() const override {
    return p_.constant && p_.constant->operand.dequantize != nullptr && !p_.scales_result;
  }
  int64_t b_block() const override { return p_.block; }

  Result<shaders::BlockScale> load_b_scale(const shaders::Column& column, Value step,
                                           int64_t length) override {
    const graph::Node& n = *p_.constant->operand.dequantize;
    const Expr k = Expr(length) * ev_.symbol(step, Expr::floordiv(k_, length));
    const auto at = [&](const Expr& c) { return p_.constant->element(k, c); };
    shaders::BlockScale out;
    RP_ASSIGN(out.scale, parameters(n, 1, column.vec, at));
    if (ops::has_input(n, ops::kZeroPoint)) {
      RP_ASSIGN(out.zero, parameters(n, ops::kZeroPoint, column.vec, at));
    }
    if (ops::has_input(n, ops::kMinimum)) {
      RP_ASSIGN(out.minimum, parameters(n, ops::kMinimum, column.vec, at));
    }
    return out;
  }

  Result<std::vector<Values>> load_b_octet(std::span<const shaders::Column> columns, Value octet,
                                           std::span<const Val> zeros) override {
    if (has_own_packing()) return internal_error("the schedule packs B, and loads it itself");
    const ConstantOperand& constant = p_.constant->operand;
    if (!is_packed_in_nibbles(g_, constant.value))
      return load_octet_of_bytes(columns, octet, zeros);
    const bool is_signed = g_.value(constant.value).dtype == DType::I4;
    std::vector<Values> out(columns.size());
    for (size_t v = 0; v < columns.size(); ++v) {
      const Value words = load_octet(constant, columns[v].vec, octet);
      for (int i = 0; i < 8; ++i) {
        const Value word{b_, b_.extract(words, i / 2)};
        const Value x = nibbles_of(b_, word, b_.i32(i % 2), is_signed);
        out[v].push_back(less(x, zeros, v));
      }
    }
    return out;
  }

  Index row(Value at) override {
    const Expr row = kernel_.clamped_row(at);
    if (p_.row_values) {
      Index index = a_index(row, 0);
      index.pop_back();
      rows_ = compute_row_values(kernel_, index, tile_);
    }
    return {row};
  }

  shaders::Column column(Value at) override {
    if (p_.constant) return {at, {}};  // packing pads the last tile, so no index is clamped
    if (p_.b_along_k) return {at, {kernel_.clamped_column(at)}};
    return {at, kernel_.clamped_columns(at)};
  }

  Status k_loop(const shaders::KStepBody& body) override { return kernel_.loop_over_k(k_, body); }

  Result<Values> load_a(const Index& row, const shaders::KStep& step) override {
    RP_TRY(Status(rows_));
    return kernel_.scalars(a_element(row, kernel_.k_of(step), step.count));
  }

  Result<Values> load_b(const shaders::Column& column, const shaders::KStep& step,
                        Value k) override {
    if (p_.b_along_k)
      return kernel_.scalars(b_element(kernel_.k_of(step), column.at[0], step.count));
    if (p_.constant) {
      // An expression of the step tells which values of k share a scale.
      const Value at = ev_.value(step.first) + k;
      const auto number = b_.as_const(k);
      return kernel_.scalars(
          packed(column, at, number ? step.first + Expr(*number) : ev_.symbol(at, k_)));
    }
    return kernel_.scalars(b_columns(column, step.first + ev_.symbol(k, 4)));
  }

  Result<Values> load_a_block(const Index& row, Value quad, bool whole) override {
    RP_TRY(Status(rows_));
    return load_quad(quad, true, whole,
                     [&](const Expr& k, int lanes) { return a_element(row, k, lanes); });
  }

  Result<Values> load_b_block(const shaders::Column& column, Value k, bool whole) override {
    if (p_.b_along_k) {
      return load_quad(k, true, whole, [&](const Expr& at, int lanes) {
        return b_element(at, column.at[0], lanes);
      });
    }
    return load_one(k, whole, [&](const Expr& at, int) {
      return p_.constant ? packed(column, ev_.value(at), at) : b_columns(column, at);
    });
  }

 private:
  Index a_index(const Expr& row, const Expr& k) {
    if (p_.row_shape.empty()) return operand(p_.left, row, k);
    Index index = row_index(row);
    index.push_back(k);
    return index;
  }

  Result<Val> a_element(const Index& row, const Expr& k, int lanes) {
    return ev_.eval(p_.left, a_index(row[0], k), lanes);
  }

  Result<Val> b_element(const Expr& k, const Expr& column, int lanes) {
    return ev_.eval(p_.right, operand(p_.right, k, column), lanes);
  }

  /// Four columns at one k.
  Result<Val> b_columns(const shaders::Column& column, const Expr& k) {
    if (p_.vector_n) return b_element(k, column.at[0] + ev_.lane(), 4);
    std::vector<Val> four;
    for (const Expr& at : column.at) {
      RP_ASSIGN(const Val x, b_element(k, at, 1));
      four.push_back(x);
    }
    return b_.compose(four);
  }

  /// Four columns of a constant at k, which is `at` as an expression.
  Result<Val> packed(const shaders::Column& column, Value k, const Expr& at) {
    return load_packed(p_.constant->operand, column.vec, k,
                       [&](const Expr& c) { return p_.constant->element(at, c); });
  }

  /// Integers of four columns, less the zero points of the v-th vector, if there are any.
  Val less(Val integers, std::span<const Val> zeros, size_t v) {
    return b_.convert(zeros.empty() ? integers : b_.sub(integers, zeros[v]), kernel::Ty::F32);
  }

  std::vector<Values> load_octet_of_bytes(std::span<const shaders::Column> columns, Value octet,
                                          std::span<const Val> zeros) {
    const int count = 4 * static_cast<int>(columns.size());
    std::vector<Values> out(columns.size());
    for (int i = 0; i < 8; ++i) {
      const Val all = load_columns(p_.constant->operand, columns[0].vec, octet * 8 + i, count);
      for (size_t v = 0; v < columns.size(); ++v) {
        const Val four = count == 4 ? all : b_.part(all, static_cast<int>(v));
        out[v].push_back(less(b_.convert(four, kernel::Ty::I32), zeros, v));
      }
    }
    return out;
  }

  /// The index in the domain, without the column, of a row of the GEMM.
  Index row_index(const Expr& row) {
    if (!p_.row_shape.empty()) return ev_.unflatten(row, p_.row_shape);
    Index index = batch_;
    index.push_back(row);
    return index;
  }

  Index operand(ValueId v, const Expr& row, const Expr& column) const {
    return operand_index(g_, g_.value(v).shape, p_.batch, batch_, row, column);
  }

  const MatMul& p_;
  const Index batch_;
  Status rows_;  // of the reductions of the row
};

bool is_float_matmul(const graph::Graph& g, const graph::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](ValueId v) { return is_gemm_float(g.value(v).dtype); });
}

}  // namespace

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const TargetFacts& target,
                             size_t choice) {
  if (!is_float_matmul(g, *group.anchor)) return lower_pointwise(g, group, target, choice);
  const MatMul p(g, group);
  ContractionProblem problem;
  problem.result = {p.m, p.n, p.batch, p.vector_n};
  problem.size.k = count_hint(g, {p.k});
  problem.size.a_loads = p.a_along_k ? 1 : 4;
  problem.size.b_loads = p.b_vectors ? 1 : 4;
  problem.size.a_prologue = p.a_cost.instructions;
  problem.size.b_prologue = p.b_cost.instructions;
  problem.converts = true;
  problem.one_row = p.row_values;
  if (p.constant) {
    const bool nibbles = is_packed_in_nibbles(g, p.constant->operand.value);
    const bool integers = p.constant->operand.dequantize != nullptr;
    problem.note += nibbles ? ", packed 4-bit" : integers ? ", packed 8-bit" : ", packed";
    problem.size.b_block = static_cast<double>(p.block);
    problem.size.b_bits = nibbles ? 4 : 8;
    problem.constant = p.constant->operand.value;
    problem.weight = {1, p.k.value(), p.n.value(), p.constant->transposed};
    problem.weight_bits = nibbles ? 4 : 0;
    problem.integers = integers;
  }
  if (p.b_along_k) problem.note += ", along k";
  problem.operands = [&p](ResultKernel& kernel, const shaders::Tile& tile, const WorkUnit& unit) {
    return std::make_unique<MatMulOperands>(p, kernel, tile, unit);
  };
  return lower_contraction(g, group, target, std::move(problem), choice);
}

}  // namespace reprise::lower
