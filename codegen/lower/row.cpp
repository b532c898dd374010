// Row kernels: every reduction of the group runs over the same columns of the domain. A row is
// computed by one invocation (CPU-type devices with many rows), or by a workgroup whose invocations
// share its columns and combine their partial results in shared memory. A value that several stages
// need is recomputed if that is cheap. Otherwise each invocation stores what it computed, and
// reloads only that, so no barrier is needed.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "codegen/lower/lower.h"
#include "codegen/lower/row_stages.h"
#include "codegen/ops/reduce.h"

namespace reprise::lower {

using graph::Node;
using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;

namespace {

struct Reduction {
  const Node* node = nullptr;
  ScalarOp combine = ScalarOp::Add;
};

/// Rows and columns of a group.
struct RowDomain {
  explicit RowDomain(const Group& group)
      : rows_shape(row_shape(group.domain, group.reduced)), rows(element_count(rows_shape)) {
    for (int64_t a : group.reduced) cols_shape.push_back(group.domain[static_cast<size_t>(a)]);
    cols = element_count(cols_shape);
  }

  Shape rows_shape, cols_shape;
  Expr rows, cols;
};

struct RowSchedule {
  int lanes = 1;         // neighbouring elements that are the lanes of a vector
  bool of_rows = false;  // whether the lanes are rows, else columns
  uint32_t per_row = 1;  // invocations that share a row, in the short form
  double cost = 0;

  int row_lanes() const { return of_rows ? lanes : 1; }
  std::string describe() const {
    std::string name = per_row > 1 ? "row per workgroup of " + std::to_string(per_row)
                                   : std::string("row per invocation");
    name += " v" + std::to_string(lanes);
    return row_lanes() > 1 ? name + " of rows" : name;
  }
};

class RowKernel {
 public:
  RowKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
            const RowSchedule& s, LoopForm form)
      : g_(g),
        group_(group),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        s_(s),
        lanes_(s.lanes),
        row_lanes_(s.row_lanes()),
        per_row_(s.per_row),
        stages_(g, group) {
    const RowDomain d(group);
    rows_shape_ = d.rows_shape;
    rows_ = d.rows;
    cols_shape_ = d.cols_shape;
    cols_ = d.cols;
    if (form == LoopForm::Long) per_row_ = largest_workgroup(target);
    limit_loops(ev_, target);
  }

  /// Where each stage computes values in a kernel of this form without reloads.
  struct Trace {
    std::vector<RowStages::Reads> reads;  // by stage
    RowStages::Reads stored;              // outputs
  };

  /// After this, build() must not be called.
  Result<Trace> trace() {
    const Expr units = Expr::floordiv(rows_, row_lanes_);
    const Val id = b_.convert(b_.builtin(Builtin::GlobalId), Ty::I32);
    place_rows(ev_.symbol(id, units));
    const Val column = b_.convert(b_.builtin(Builtin::GlobalId, 1), Ty::I32);
    Trace out;
    for (int s = 0; s <= stages_.count(); ++s) {
      select_row(0);
      RP_TRY(ev_.scope([&]() -> Status {
        const Index full = full_index(column_at(column));
        for (ValueId v : stages_.roots(s)) RP_TRY(ev_.eval(v, index_in(v, full), lanes_).status());
        for (ValueId v : stages_.full_outputs(s)) out.stored[v] = {index_in(v, full)};
        RowStages::Reads& reads = out.reads.emplace_back();
        for (const Node* n : group_.nodes) reads[n->outputs[0]] = ev_.computed_at(n->outputs[0]);
        return {};
      }));
      for (const Node* n : stages_.reductions(s)) {
        const Type type = ev_.compute(g_.value(n->outputs[0]).dtype);
        results_[0][n->outputs[0]] = b_.constant(kernel::vec(type, row_lanes_), 0);
      }
    }
    return out;
  }

  void choose_reloads(const Trace& trace) { stages_.choose_reloads(trace.reads, trace.stored); }
  bool repeats_flops() const { return stages_.excess_flops() > 0; }

  Result<Lowered> build() {
    choose_row_vectors();
    b_.set_workgroup(per_row_ > 1 ? per_row_ : kRowsPerGroup);
    const Expr units = Expr::floordiv(rows_, row_lanes_ * row_vectors_);
    const Expr groups = per_row_ > 1 ? units : Expr::ceildiv(units, kRowsPerGroup);
    const Value group_id = linear_workgroup(b_, groups);
    lane_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    const Value unit = per_row_ > 1 ? group_id : group_id * kRowsPerGroup + lane_;
    const bool exact = units.is_const() &&
                       (per_row_ > 1 ? units.value() <= 65535 : units.value() % kRowsPerGroup == 0);
    RP_TRY(ev_.guard(exact ? Val{} : unit < ev_.value(units),
                     [&] { return emit_rows(ev_.symbol(unit, units)); }));
    RowSchedule used = s_;
    used.per_row = per_row_;
    return finish(ev_, b_, group_, groups, used.describe());
  }

 private:
  static constexpr uint32_t kRowsPerGroup = 8;

  /// The largest workgroup whose partial results fit in shared memory.
  uint32_t largest_workgroup(const TargetFacts& target) const {
    int bytes = 0;  // of one invocation
    for (int s = 0; s <= stages_.count(); ++s)
      for (const Node* n : stages_.reductions(s))
        bytes += kernel::byte_size(accumulator_type(*n).ty);
    const uint32_t room = target.shared_bytes() / static_cast<uint32_t>(std::max(bytes, 1));
    return std::bit_floor(std::min(target.workgroup_invocations(), room));
  }

  /// If rows are lanes, the elements of neighbouring columns are far apart in memory. With several
  /// neighbouring vectors per invocation, whole cache lines are used, and stay cached for later
  /// stages. But enough workgroups must remain.
  void choose_row_vectors() {
    if (row_lanes_ == 1 || stages_.count() < 2) return;
    for (int vectors = 4; vectors > 1 && row_vectors_ == 1; vectors /= 2) {
      const int64_t rows = int64_t{row_lanes_} * vectors;
      const bool whole = group_.domain.back().known_divisor(g_.symbols) % rows == 0;
      if (whole && rows_.is_const() && rows_.value() >= 8 * kRowsPerGroup * rows)
        row_vectors_ = vectors;
    }
  }

  Index full_index(const Expr& col) {
    const Index cols = ev_.unflatten(col, cols_shape_);
    Index index = rows_at_[row_];
    for (size_t i = 0; i < cols.size(); ++i)
      index[static_cast<size_t>(group_.reduced[i])] = cols[i];
    ev_.add_element(index, group_.domain);
    return index;
  }

  /// The index into v, which has as many elements as the domain, at the index `full` of the domain.
  Index index_in(ValueId v, const Index& full) {
    const Shape& shape = g_.value(v).shape;
    if (shape == group_.domain) return full;
    return ev_.unflatten(ev_.flatten(full, group_.domain), shape);
  }

  /// Computes the indices of an invocation's rows.
  void place_rows(const Expr& unit) {
    for (int u = 0; u < row_vectors_; ++u) {
      Expr row = Expr(row_lanes_ * row_vectors_) * unit + Expr(row_lanes_ * u);
      if (row_lanes_ > 1) row += ev_.lane();
      rows_at_.push_back(ev_.unflatten(row, rows_shape_));
    }
    results_.resize(rows_at_.size());
    reloads_.resize(rows_at_.size());
  }

  /// The column of loop variable c. All loops share one symbol, so that equal indices of different
  /// stages are equal expressions.
  Expr column_at(Val c) {
    const int lanes = row_lanes_ > 1 ? 1 : lanes_;
    if (column_symbol_) {
      ev_.set_symbol(*column_symbol_, c);
    } else {
      column_symbol_ = ev_.symbol(c, Expr::floordiv(cols_, lanes));
    }
    const Expr col = Expr(lanes) * *column_symbol_;
    return ev_.simplify(lanes > 1 ? col + ev_.lane() : col);
  }

  Status emit_rows(const Expr& unit) {
    place_rows(unit);
    for (int s = 0; s <= stages_.count(); ++s) RP_TRY(emit_stage(s));
    // Row values are the same in every invocation of the row, so one of them stores.
    std::vector<ValueId> row_outputs;
    for (ValueId v : group_.outputs) {
      if (!stages_.is_full(v)) row_outputs.push_back(v);
    }
    if (row_outputs.empty()) return {};
    return ev_.guard(per_row_ > 1 ? b_.eq(lane_, b_.i32(0)) : Val{}, [&]() -> Status {
      for (size_t u = 0; u < rows_at_.size(); ++u) {
        select_row(u);
        for (ValueId v : row_outputs) {
          const Index at = row_index_in(v);
          RP_ASSIGN(const Val val, ev_.eval(v, at, row_lanes_));
          RP_TRY(ev_.store(v, at, val, row_lanes_));
        }
      }
      return {};
    });
  }

  /// Selects the row of the invocation whose values are computed next.
  void select_row(size_t u) {
    row_ = u;
    for (const auto& [v, result] : results_[u]) ev_.bind(v, rows_at_[u], result);
  }

  /// The index into v, which has one element per row, at the selected row.
  Index row_index_in(ValueId v) {
    return ev_.unflatten(ev_.flatten(rows_at_[row_], rows_shape_), g_.value(v).shape);
  }

  /// Computes row values before the loop, which would otherwise compute them for each column.
  Status hoist_row_values(int s) {
    for (const Node* n : group_.nodes) {
      const ValueId v = n->outputs[0];
      if (stages_.is_full(v) || is_reduction(*n) || stages_.available(v) != s) continue;
      if (!(element_count(g_.value(v).shape) == rows_)) continue;
      RP_TRY(ev_.eval(v, row_index_in(v), row_lanes_).status());
    }
    return {};
  }

  Status emit_stage(int s) {
    for (size_t u = 0; u < rows_at_.size(); ++u) {
      select_row(u);
      RP_TRY(hoist_row_values(s));
    }
    const std::vector<Reduction> reductions = reductions_of(s);
    std::vector<std::vector<int>> accumulators;  // by row and reduction
    for (size_t u = 0; u < rows_at_.size(); ++u)
      accumulators.push_back(make_accumulators(reductions));
    if (reductions.empty() && stages_.full_outputs(s).empty()) return {};
    RP_TRY(emit_columns(s, reductions, accumulators));
    for (size_t u = 0; u < rows_at_.size(); ++u) {
      for (size_t i = 0; i < reductions.size(); ++i)
        results_[u][reductions[i].node->outputs[0]] = combine(reductions[i], accumulators[u][i]);
    }
    select_row(0);
    return {};
  }

  std::vector<Reduction> reductions_of(int s) const {
    std::vector<Reduction> out;
    for (const Node* n : stages_.reductions(s)) {
      Reduction r;
      r.node = n;
      r.combine = *def_of(*n)->combine;
      out.push_back(r);
    }
    return out;
  }

  std::vector<int> make_accumulators(const std::vector<Reduction>& reductions) {
    std::vector<int> out;
    for (const Reduction& r : reductions) {
      const Type type = kernel::vec(accumulator_type(*r.node), lanes_);
      out.push_back(b_.local("acc" + std::to_string(out.size()), type));
      const DType dtype = g_.value(r.node->outputs[0]).dtype;
      b_.local_store(out.back(), ops::reduction_identity(b_, r.combine, dtype, type));
    }
    return out;
  }

  /// Writes the loop over columns, whose body covers all rows of the invocation.
  Status emit_columns(int s, const std::vector<Reduction>& reductions,
                      const std::vector<std::vector<int>>& accumulators) {
    const Expr steps = Expr::floordiv(cols_, row_lanes_ > 1 ? 1 : lanes_);
    const Expr iterations = Expr::ceildiv(steps, per_row_);
    // The loop may be unrolled. A copy of the body must not reload what another column stored.
    const auto earlier = reloads_;
    const auto body = [&](Value c) -> Status {
      reloads_ = earlier;
      const Expr col = column_at(c);
      for (size_t u = 0; u < rows_at_.size(); ++u) {
        select_row(u);
        RP_TRY(emit_column(s, col, reductions, accumulators[u]));
      }
      return {};
    };
    return ev_.for_loop(per_row_ > 1 ? lane_ : b_.i32(0), ev_.value(steps), b_.i32(per_row_),
                        iterations, body);
  }

  /// Narrow floats accumulate in F32.
  Type accumulator_type(const Node& n) const {
    const Type t = ev_.compute(g_.value(n.outputs[0]).dtype);
    return t.ty == Ty::F16 ? kernel::kF32 : t;
  }

  Status emit_column(int s, const Expr& col, const std::vector<Reduction>& reductions,
                     const std::vector<int>& accumulators) {
    const Index full = full_index(col);
    for (const auto& [v, at] : reloads_[row_]) ev_.reload_at(v, at.index, at.position);
    for (ValueId v : stages_.full_outputs(s)) {
      const Index at = index_in(v, full);
      RP_ASSIGN(const Val val, ev_.eval(v, at, lanes_));
      if (stages_.reloads(v)) ev_.allow_reloads(v, false);
      RP_TRY(ev_.store(v, at, val, lanes_));
      if (stages_.reloads(v)) reloads_[row_][v] = {at, ev_.flatten(at, g_.value(v).shape)};
    }
    for (size_t i = 0; i < reductions.size(); ++i) {
      const ValueId in = reductions[i].node->inputs[0];
      RP_ASSIGN(Val x, ev_.eval(in, index_in(in, full), lanes_));
      const Type type = accumulator_type(*reductions[i].node);
      if (b_.type(x).ty != type.ty) x = b_.convert(x, type.ty);
      b_.local_store(accumulators[i],
                     b_.scalar_op(reductions[i].combine, {b_.local_load(accumulators[i]), x}));
    }
    for (ValueId v : stages_.scratch(s)) RP_TRY(store_scratch(v, col));
    return {};
  }

  /// Stores the element of v that was computed for the current row and column. Scratch memory has
  /// an element for each row and column, whatever the shape of v, so that an invocation loads only
  /// what it stored.
  Status store_scratch(ValueId v, const Expr& col) {
    const std::vector<Index> at = ev_.computed_at(v);
    if (at.size() != 1)
      return internal_error("'" + g_.value(v).name + "' is not computed where it was expected");
    const Expr row = ev_.flatten(rows_at_[row_], rows_shape_);
    const Expr position = row_lanes_ > 1 ? col * rows_ + row : row * cols_ + col;
    RP_ASSIGN(const Val val, ev_.eval(v, at[0], lanes_));
    ev_.allow_reloads(v, true);
    RP_TRY(ev_.store_at(v, position, val, lanes_));
    reloads_[row_][v] = {at[0], position};
    return {};
  }

  Val combine(const Reduction& r, int accumulator) {
    const Val v = b_.local_load(accumulator);
    const bool columns = lanes_ > 1 && row_lanes_ == 1;
    Val sum = columns ? b_.extract(v, 0) : v;
    for (int l = 1; columns && l < lanes_; ++l)
      sum = b_.scalar_op(r.combine, {sum, b_.extract(v, l)});
    if (per_row_ > 1) sum = combine_workgroup(r, sum);
    const Type out = ev_.compute(g_.value(r.node->outputs[0]).dtype);
    return b_.type(sum).ty == out.ty ? sum : b_.convert(sum, out.ty);
  }

  Val combine_workgroup(const Reduction& r, Val v) {
    const int shared =
        b_.shared("partial" + std::to_string(shared_count_++), b_.type(v).ty, per_row_);
    b_.shared_store(shared, lane_, v);
    b_.barrier();
    for (uint32_t half = per_row_ / 2; half > 0; half /= 2) {
      b_.if_then(b_.lt(lane_, b_.i32(half)), [&] {
        const Val other = b_.shared_load(shared, b_.add(lane_, b_.i32(half)));
        b_.shared_store(shared, lane_,
                        b_.scalar_op(r.combine, {b_.shared_load(shared, lane_), other}));
      });
      b_.barrier();
    }
    return b_.shared_load(shared, b_.i32(0));
  }

  const graph::Graph& g_;
  const Group& group_;
  Builder b_;
  Evaluator ev_;
  Shape rows_shape_, cols_shape_;
  Expr rows_, cols_;
  const RowSchedule& s_;
  int lanes_;
  int row_lanes_;        // rows that are the lanes of a vector
  int row_vectors_ = 1;  // vectors of rows per invocation
  uint32_t per_row_;     // invocations that share a row
  RowStages stages_;
  int shared_count_ = 0;
  Value lane_;
  std::vector<Index> rows_at_;                   // the rows, or vectors of rows, of an invocation
  size_t row_ = 0;                               // the selected one of these
  std::vector<std::map<ValueId, Val>> results_;  // results of reductions, by row
  struct Stored {
    Index index;
    Expr position;  // row-major
  };
  std::vector<std::map<ValueId, Stored>> reloads_;  // values that later stages reload, by row
  std::optional<Expr> column_symbol_;
};

/// Builds the kernel. With `cheap`, only if it stays within the budget of recomputed flops.
Result<Lowered> build(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      const RowSchedule& s, bool cheap, LoopForm form = LoopForm::Short) {
  RP_ASSIGN(const RowKernel::Trace trace, RowKernel(g, group, target, s, form).trace());
  RowKernel kernel(g, group, target, s, form);
  kernel.choose_reloads(trace);
  if (cheap && kernel.repeats_flops())
    return unsupported("the kernel would compute values again at other columns");
  return kernel.build();
}

/// A pure function of the shape and the target. `rows_as_lanes`: whether neighbouring rows may be
/// the lanes of vectors.
RowSchedule choose(const graph::Graph& g, const Group& group, const TargetFacts& target,
                   bool rows_as_lanes) {
  constexpr uint32_t kCpuSubgroup = 8;
  const RowDomain d(group);
  const bool last_reduced = group.reduced.back() + 1 == static_cast<int64_t>(group.domain.size());
  const auto fours = [&](const Expr& e) { return e.known_divisor(g.symbols) % 4 == 0; };
  RowSchedule s;
  // A vector holds elements that are adjacent in memory: columns of a row, or rows.
  s.lanes = fours(last_reduced ? d.cols : group.domain.back()) ? 4 : 1;
  const bool few_vectors = d.rows.is_const() && d.rows.value() < 64;
  if (!last_reduced && (few_vectors || !rows_as_lanes)) s.lanes = 1;
  s.of_rows = !last_reduced;
  const bool few_rows = d.rows.is_const() && d.rows.value() < 8;
  const bool any_length = !d.cols.is_const();
  const bool short_row = !any_length && d.cols.value() <= (target.cpu_type() ? 2048 : 32);
  const bool many_columns = any_length || d.cols.value() >= 1024;
  const bool image = std::any_of(d.cols.terms().begin(), d.cols.terms().end(),
                                 [](const Term& t) { return t.atoms().size() > 1; });
  const bool long_row = image || (!any_length && d.cols.value() > 32768);
  const bool own = short_row || s.row_lanes() > 1 ||
                   (target.cpu_type() && !(few_rows && many_columns) && !long_row);
  // A CPU-type device combines the results of one subgroup faster than those of a large workgroup,
  // which pays off only for rows that are known to be long.
  s.per_row = own ? 1 : any_length && target.cpu_type() ? kCpuSubgroup : 64;
  return s;
}

/// The preferred schedule comes first. `by_rows` is the schedule with rows as lanes, or null.
std::vector<RowSchedule> row_schedules(const RowSchedule& chosen, const RowSchedule* by_rows,
                                       const Expr& columns, LoopForm form) {
  std::vector<RowSchedule> out;
  const auto add = [&](RowSchedule s) {
    s.cost = preference_cost(out.size());
    out.push_back(s);
  };
  if (by_rows != nullptr) add(*by_rows);
  add(chosen);
  if (form == LoopForm::Long || !columns.is_const()) return out;
  for (const uint32_t per_row : {1U, 8U, 64U}) {
    const bool idle = int64_t{per_row} * chosen.lanes > columns.value();
    const bool long_loop = columns.value() > 32768 * int64_t{per_row};
    if (per_row == chosen.per_row || idle || long_loop) continue;
    RowSchedule other = chosen;
    other.per_row = per_row;
    add(other);
  }
  return out;
}

}  // namespace

Result<Lowered> lower_row(const graph::Graph& g, const Group& group, const TargetFacts& target,
                          size_t choice, LoopForm form) {
  Result<Lowered> by_rows = unsupported("rows are not lanes");
  const RowSchedule wide = choose(g, group, target, true);
  // Values of other shapes may not line up with neighbouring rows.
  if (target.cpu_type() && form == LoopForm::Short && wide.row_lanes() > 1)
    by_rows = build(g, group, target, wide, false);
  const RowSchedule chosen = choose(g, group, target, false);
  const auto candidates =
      row_schedules(chosen, by_rows.ok() ? &wide : nullptr, RowDomain(group).cols, form);
  return lower_choice(candidates, choice, [&](const RowSchedule& s) {
    return s.row_lanes() > 1 ? std::move(by_rows) : build(g, group, target, s, false, form);
  });
}

Status check_row(const graph::Graph& g, const Group& group) {
  const Predicate any;
  return build(g, group, any, choose(g, group, any, false), true).status();
}

}  // namespace reprise::lower
