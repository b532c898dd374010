// Row kernels: every reduction of the group runs over the same columns of the domain. A row belongs
// to one invocation (CPU-type devices with many rows) or to a workgroup whose lanes share its
// columns and combine their partial results in shared memory. Stages follow from the data: the
// reductions of stage s need results of stages before s. Values that several stages need are kept
// in memory by the lane that computed them (so no barrier is needed) unless recomputing them is
// cheap.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/lower/cost.h"
#include "codegen/lower/lower.h"

namespace reprise::lower {

using graph::Node;
using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;
using kernel::Val;

namespace {

// Recomputing may add this part of the group's own flops (the whole graph stays below 1.1).
constexpr double kRecompute = 0.08;

struct Reduction {
  const Node* node = nullptr;
  ScalarOp combine = ScalarOp::Add;
  double identity = 0;
};

double identity_of(const std::string& op, Ty ty) {
  if (op == "ReduceSum") return 0;
  if (op == "ReduceProd") return 1;
  const bool max = op == "ReduceMax";
  switch (ty) {
    case Ty::I32:
      return max ? -2147483648.0 : 2147483647.0;
    case Ty::U32:
      return max ? 0.0 : 4294967295.0;
    case Ty::I64:
      return max ? -9223372036854775808.0 : 9223372036854775807.0;
    default:
      return max ? -HUGE_VAL : HUGE_VAL;
  }
}

class RowKernel {
 public:
  /// `rows_as_lanes`: neighbouring rows may be the lanes of vectors.
  RowKernel(const graph::Graph& g, const Group& group, const Target& target, bool rows_as_lanes)
      : g_(g), group_(group), target_(target), b_(kernel_name(group)), ev_(g, group, b_) {
    rows_shape_ = row_shape(group.domain, group.reduced);
    rows_ = element_count(rows_shape_);
    for (int64_t a : group.reduced) cols_shape_.push_back(group.domain[static_cast<size_t>(a)]);
    cols_ = element_count(cols_shape_);
    choose(target, rows_as_lanes);
    limit_loops(ev_, target);
  }

  Result<Lowered> build() {
    RP_TRY(plan_stages());
    choose_row_vectors();
    b_.set_workgroup(per_row_ > 1 ? per_row_ : kRowsPerGroup);
    const Expr units = Expr::floordiv(rows_, row_lanes_ * row_vectors_);
    const Expr groups = per_row_ > 1 ? units : Expr::ceildiv(units, kRowsPerGroup);
    const Val group_id = linear_workgroup(b_, groups);
    lane_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    const Val unit =
        per_row_ > 1 ? group_id : b_.add(b_.mul(group_id, b_.i32(kRowsPerGroup)), lane_);
    Status status;
    auto body = [&] {
      ev_.push_scope();
      status = emit_rows(ev_.symbol(unit, units));
      ev_.pop_scope();
    };
    const bool exact = units.is_const() &&
                       (per_row_ > 1 ? units.value() <= 65535 : units.value() % kRowsPerGroup == 0);
    if (exact) {
      body();
    } else {
      b_.if_then(b_.lt(unit, ev_.value(units)), body);
    }
    RP_TRY(status);
    std::string schedule = per_row_ > 1 ? "row per workgroup of " + std::to_string(per_row_)
                                        : std::string("row per invocation");
    schedule += " v" + std::to_string(lanes_);
    if (row_lanes_ > 1) schedule += " x" + std::to_string(row_vectors_) + " of rows";
    return finish(ev_, b_, group_, groups, target_, schedule);
  }

 private:
  static constexpr uint32_t kRowsPerGroup = 8;

  /// Pure function of the shape and the target.
  void choose(const Target& target, bool rows_as_lanes) {
    const bool last_reduced =
        group_.reduced.back() + 1 == static_cast<int64_t>(group_.domain.size());
    const auto fours = [&](const Expr& e) { return e.known_divisor(g_.symbols) % 4 == 0; };
    // A vector holds neighbouring elements: columns of a row, or rows where those are side by side.
    lanes_ = fours(last_reduced ? cols_ : group_.domain.back()) ? 4 : 1;
    const bool few_vectors = rows_.is_const() && rows_.value() < 64;
    if (!last_reduced && (few_vectors || !rows_as_lanes)) lanes_ = 1;
    if (!last_reduced) row_lanes_ = lanes_;
    const bool few_rows = rows_.is_const() && rows_.value() < 8;
    const bool short_row = cols_.is_const() && cols_.value() <= (target.cpu_type() ? 2048 : 32);
    // Height and width of an image: more than the loops of one invocation may pass.
    const bool image = std::any_of(cols_.terms().begin(), cols_.terms().end(),
                                   [](const Term& t) { return t.atoms().size() > 1; });
    const bool long_row = image || (cols_.is_const() && cols_.value() > 32768);
    const bool many_columns = cols_.is_const() && cols_.value() >= 1024;
    const bool own = short_row || row_lanes_ > 1 ||
                     (target.cpu_type() && !(few_rows && many_columns) && !long_row);
    per_row_ = own ? 1 : 64;
  }

  /// Where rows are lanes, a column's elements lie far from the next one's: those that later stages
  /// read again stay cached in whole lines if an invocation has several vectors side by side. But
  /// enough workgroups must remain.
  void choose_row_vectors() {
    if (row_lanes_ == 1 || stages_ < 2) return;
    for (int vectors = 4; vectors > 1 && row_vectors_ == 1; vectors /= 2) {
      const int64_t rows = int64_t{row_lanes_} * vectors;
      const bool whole = group_.domain.back().known_divisor(g_.symbols) % rows == 0;
      if (whole && rows_.is_const() && rows_.value() >= 8 * kRowsPerGroup * rows)
        row_vectors_ = vectors;
    }
  }

  bool in_group(const Node* n) const {
    return n != nullptr &&
           std::find(group_.nodes.begin(), group_.nodes.end(), n) != group_.nodes.end();
  }
  bool is_full(ValueId v) const {
    return element_count(g_.value(v).shape) == element_count(group_.domain) &&
           !(rows_ == element_count(group_.domain));
  }

  /// Stages that must be done before v can be computed.
  int available(ValueId v) const {
    auto it = available_.find(v);
    return it == available_.end() ? 0 : it->second;
  }

  Status plan_stages() {
    double group_flops = 0;
    for (const Node* n : group_.nodes) {
      int need = 0;
      for (ValueId v : n->inputs) {
        if (v != graph::kNone) need = std::max(need, available(v));
      }
      if (is_reduction(*n)) {
        stage_of_[n] = need;
        ++need;
      }
      for (ValueId v : n->outputs) available_[v] = need;
      stages_ = std::max(stages_, need);
      group_flops += cost(*n);
    }
    double budget = kRecompute * group_flops;
    std::set<ValueId> stored;
    std::map<ValueId, int> first_seen;
    for (int s = 0; s <= stages_; ++s) {
      for (ValueId root : roots(s)) visit(root, s, stored, first_seen, budget);
      for (ValueId v : group_.outputs) {
        if (is_full(v) && available(v) == s) stored.insert(v);
      }
    }
    return {};
  }

  double cost(const Node& n) const { return is_reduction(n) ? 1 : light_cost(g_, n); }

  /// Values that the column loop of stage s computes per column.
  std::vector<ValueId> roots(int s) const {
    std::vector<ValueId> out;
    for (const Node* n : group_.nodes) {
      if (is_reduction(*n) && stage_of_.at(n) == s) out.push_back(n->inputs[0]);
    }
    for (ValueId v : group_.outputs) {
      if (is_full(v) && available(v) == s) out.push_back(v);
    }
    return out;
  }

  double subtree_cost(ValueId v) const {
    const Node* n = g_.value(v).producer;
    if (!in_group(n) || is_reduction(*n) || !is_full(v)) return 0;
    double sum = cost(*n);
    for (ValueId i : n->inputs) {
      if (i != graph::kNone) sum += subtree_cost(i);
    }
    return sum;
  }

  /// Marks values that an earlier stage computed and this one needs again: kept, or computed again
  /// while the budget lasts.
  void visit(ValueId v, int s, std::set<ValueId>& stored, std::map<ValueId, int>& first_seen,
             double& budget) {
    const Node* n = g_.value(v).producer;
    if (!in_group(n) || is_reduction(*n) || stored.count(v) != 0 || !is_full(v)) return;
    auto [it, first] = first_seen.try_emplace(v, s);
    if (!first && it->second == s) return;
    if (!first && cost(*n) > 0) {
      const double again = subtree_cost(v);
      if (again > budget) {
        scratch_[it->second].push_back(v);
        stored.insert(v);
        return;
      }
      budget -= again;
    }
    for (ValueId i : n->inputs) {
      if (i != graph::kNone) visit(i, s, stored, first_seen, budget);
    }
  }

  Index full_index(const Expr& col) {
    const Index cols = ev_.unflatten(col, cols_shape_);
    Index index = rows_at_[row_];
    for (size_t i = 0; i < cols.size(); ++i)
      index[static_cast<size_t>(group_.reduced[i])] = cols[i];
    return index;
  }

  /// The index of a value with as many elements as the domain, at the domain's index.
  Index index_in(ValueId v, const Index& full) {
    const Shape& shape = g_.value(v).shape;
    if (shape == group_.domain) return full;
    return ev_.unflatten(ev_.flatten(full, group_.domain), shape);
  }

  Status emit_rows(const Expr& unit) {
    for (int u = 0; u < row_vectors_; ++u) {
      Expr row = Expr(row_lanes_ * row_vectors_) * unit + Expr(row_lanes_ * u);
      if (row_lanes_ > 1) row += ev_.lane();
      rows_at_.push_back(ev_.unflatten(row, rows_shape_));
    }
    results_.resize(rows_at_.size());
    for (int s = 0; s <= stages_; ++s) RP_TRY(emit_stage(s));
    // Row values are the same in every lane: one stores.
    std::vector<ValueId> row_outputs;
    for (ValueId v : group_.outputs) {
      if (!is_full(v)) row_outputs.push_back(v);
    }
    if (row_outputs.empty()) return {};
    return guard(ev_, per_row_ > 1 ? b_.eq(lane_, b_.i32(0)) : Val{}, [&]() -> Status {
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

  /// Makes a row of the invocation the one whose values are computed.
  void select_row(size_t u) {
    row_ = u;
    for (const auto& [v, result] : results_[u]) ev_.bind(v, rows_at_[u], result);
  }

  /// The index of a value of the row.
  Index row_index_in(ValueId v) {
    return ev_.unflatten(ev_.flatten(rows_at_[row_], rows_shape_), g_.value(v).shape);
  }

  /// Values of the row that the loop would otherwise compute per column.
  Status hoist_row_values(int s) {
    for (const Node* n : group_.nodes) {
      const ValueId v = n->outputs[0];
      if (is_full(v) || is_reduction(*n) || available(v) != s) continue;
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
    std::vector<ValueId> stores;
    for (ValueId v : group_.outputs) {
      if (is_full(v) && available(v) == s) stores.push_back(v);
    }
    const auto scratch = scratch_.find(s);
    if (scratch != scratch_.end()) {
      stores.insert(stores.end(), scratch->second.begin(), scratch->second.end());
    }
    if (reductions.empty() && stores.empty()) return {};
    RP_TRY(emit_columns(reductions, accumulators, stores));
    // Later stages read what this lane stored.
    for (ValueId v : stores) ev_.make_loadable(v);
    for (size_t u = 0; u < rows_at_.size(); ++u) {
      for (size_t i = 0; i < reductions.size(); ++i)
        results_[u][reductions[i].node->outputs[0]] = combine(reductions[i], accumulators[u][i]);
    }
    select_row(0);
    return {};
  }

  std::vector<Reduction> reductions_of(int s) const {
    std::vector<Reduction> out;
    for (const Node* n : group_.nodes) {
      if (!is_reduction(*n) || stage_of_.at(n) != s) continue;
      Reduction r;
      r.node = n;
      r.combine = n->op == "ReduceSum"    ? ScalarOp::Add
                  : n->op == "ReduceProd" ? ScalarOp::Mul
                  : n->op == "ReduceMax"  ? ScalarOp::Max
                                          : ScalarOp::Min;
      r.identity = identity_of(n->op, accumulator_type(*n).ty);
      out.push_back(r);
    }
    return out;
  }

  std::vector<int> make_accumulators(const std::vector<Reduction>& reductions) {
    std::vector<int> out;
    for (const Reduction& r : reductions) {
      const Type type = kernel::vec(accumulator_type(*r.node), lanes_);
      out.push_back(b_.local("acc" + std::to_string(out.size()), type));
      b_.local_store(out.back(), b_.constant(type, r.identity));
    }
    return out;
  }

  /// The loop over the columns of all rows of the invocation.
  Status emit_columns(const std::vector<Reduction>& reductions,
                      const std::vector<std::vector<int>>& accumulators,
                      const std::vector<ValueId>& stores) {
    Status status;
    const int col_lanes = row_lanes_ > 1 ? 1 : lanes_;
    const Expr steps = Expr::floordiv(cols_, col_lanes);
    const Expr iterations = Expr::ceildiv(steps, per_row_);
    ev_.for_loop(per_row_ > 1 ? lane_ : b_.i32(0), ev_.value(steps), b_.i32(per_row_), iterations,
                 [&](Val c) {
                   ev_.push_scope();
                   Expr col = Expr(col_lanes) * ev_.symbol(c, steps);
                   if (col_lanes > 1) col += ev_.lane();
                   for (size_t u = 0; u < rows_at_.size() && status.ok(); ++u) {
                     select_row(u);
                     status = emit_column(full_index(ev_.simplify(col)), reductions,
                                          accumulators[u], stores);
                   }
                   ev_.pop_scope();
                 });
    return status;
  }

  /// Narrow floats accumulate in F32.
  Type accumulator_type(const Node& n) const {
    const Type t = ev_.compute(g_.value(n.outputs[0]).dtype);
    return t.ty == Ty::F16 ? kernel::kF32 : t;
  }

  Status emit_column(const Index& full, const std::vector<Reduction>& reductions,
                     const std::vector<int>& accumulators, const std::vector<ValueId>& stores) {
    for (ValueId v : stores) {
      const bool output =
          std::find(group_.outputs.begin(), group_.outputs.end(), v) != group_.outputs.end();
      const Index at = index_in(v, full);
      RP_ASSIGN(const Val val, ev_.eval(v, at, lanes_));
      ev_.keep(v, !output);
      RP_TRY(ev_.store(v, at, val, lanes_));
    }
    for (size_t i = 0; i < reductions.size(); ++i) {
      const ValueId in = reductions[i].node->inputs[0];
      RP_ASSIGN(Val x, ev_.eval(in, index_in(in, full), lanes_));
      const Type type = accumulator_type(*reductions[i].node);
      if (b_.type(x).ty != type.ty) x = b_.convert(x, type.ty);
      b_.local_store(accumulators[i],
                     b_.scalar_op(reductions[i].combine, {b_.local_load(accumulators[i]), x}));
    }
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
  const Target& target_;
  Builder b_;
  Evaluator ev_;
  Shape rows_shape_, cols_shape_;
  Expr rows_, cols_;
  int lanes_ = 1;
  int row_lanes_ = 1;     // rows as the lanes of a vector,
  int row_vectors_ = 1;   // and such vectors of an invocation
  uint32_t per_row_ = 1;  // invocations that share a row
  int stages_ = 0;
  int shared_count_ = 0;
  Val lane_;
  std::vector<Index> rows_at_;                   // the rows of an invocation, or vectors of them
  size_t row_ = 0;                               // of these: the one whose values are computed
  std::vector<std::map<ValueId, Val>> results_;  // of reductions, by row
  std::map<const Node*, int> stage_of_;
  std::map<ValueId, int> available_;
  std::map<int, std::vector<ValueId>> scratch_;  // by the stage that computes and stores them
};

}  // namespace

Result<Lowered> lower_row(const graph::Graph& g, const Group& group, const Target& target) {
  if (target.cpu_type()) {
    // Values of other shapes may not line up with neighbouring rows.
    if (auto wide = RowKernel(g, group, target, true).build(); wide.ok()) return wide;
  }
  return RowKernel(g, group, target, false).build();
}

}  // namespace reprise::lower
