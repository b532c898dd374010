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
  RowKernel(const graph::Graph& g, const Group& group, const Target& target)
      : g_(g), group_(group), target_(target), b_(kernel_name(group)), ev_(g, group, b_) {
    rows_shape_ = row_shape(group.domain, group.reduced);
    rows_ = element_count(rows_shape_);
    for (int64_t a : group.reduced) cols_shape_.push_back(group.domain[static_cast<size_t>(a)]);
    cols_ = element_count(cols_shape_);
    choose(target);
  }

  Result<Lowered> build() {
    RP_TRY(plan_stages());
    b_.set_workgroup(per_row_ > 1 ? per_row_ : kRowsPerGroup);
    const Expr groups = per_row_ > 1 ? rows_ : Expr::ceildiv(rows_, kRowsPerGroup);
    const Val group_id = linear_workgroup(b_, groups);
    lane_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    const Val row =
        per_row_ > 1 ? group_id : b_.add(b_.mul(group_id, b_.i32(kRowsPerGroup)), lane_);
    Status status;
    auto body = [&] {
      ev_.push_scope();
      status = emit_row(ev_.symbol(row, rows_));
      ev_.pop_scope();
    };
    const bool exact = rows_.is_const() &&
                       (per_row_ > 1 ? rows_.value() <= 65535 : rows_.value() % kRowsPerGroup == 0);
    if (exact) {
      body();
    } else {
      b_.if_then(b_.lt(row, ev_.value(rows_)), body);
    }
    RP_TRY(status);
    std::string schedule = per_row_ > 1 ? "row per workgroup of " + std::to_string(per_row_)
                                        : std::string("row per invocation");
    schedule += " v" + std::to_string(lanes_);
    return finish(ev_, b_, group_, groups, target_, schedule);
  }

 private:
  static constexpr uint32_t kRowsPerGroup = 8;

  /// Pure function of the shape and the target.
  void choose(const Target& target) {
    const bool last_reduced =
        group_.reduced.back() + 1 == static_cast<int64_t>(group_.domain.size());
    lanes_ = last_reduced && cols_.known_divisor(g_.symbols) % 4 == 0 ? 4 : 1;
    const bool few_rows = rows_.is_const() && rows_.value() < 8;
    const bool short_row = cols_.is_const() && cols_.value() <= (target.cpu_type() ? 2048 : 32);
    const bool long_row = cols_.is_const() && cols_.value() > 32768;
    const bool many_columns = cols_.is_const() && cols_.value() >= 1024;
    per_row_ =
        short_row || (target.cpu_type() && !(few_rows && many_columns) && !long_row) ? 1 : 64;
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
    Index index = row_index_;
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

  Status emit_row(const Expr& row) {
    row_index_ = ev_.unflatten(row, rows_shape_);
    for (int s = 0; s <= stages_; ++s) RP_TRY(emit_stage(s));
    // Row values are the same in every lane: one stores.
    std::vector<ValueId> row_outputs;
    for (ValueId v : group_.outputs) {
      if (!is_full(v)) row_outputs.push_back(v);
    }
    if (row_outputs.empty()) return {};
    Status status;
    auto store = [&] {
      ev_.push_scope();
      for (ValueId v : row_outputs) {
        const Index at = ev_.unflatten(row, g_.value(v).shape);
        auto val = ev_.eval(v, at);
        if (val.ok()) status = ev_.store(v, at, *val);
        if (!val.ok()) status = val.status();
        if (!status.ok()) break;
      }
      ev_.pop_scope();
    };
    if (per_row_ > 1) {
      b_.if_then(b_.eq(lane_, b_.i32(0)), store);
    } else {
      store();
    }
    return status;
  }

  /// Values of the row that the loop would otherwise compute per column.
  Status hoist_row_values(int s) {
    for (const Node* n : group_.nodes) {
      const ValueId v = n->outputs[0];
      if (is_full(v) || is_reduction(*n) || available(v) != s) continue;
      if (!(element_count(g_.value(v).shape) == rows_)) continue;
      RP_TRY(ev_.eval(v, ev_.unflatten(ev_.flatten(row_index_, rows_shape_), g_.value(v).shape))
                 .status());
    }
    return {};
  }

  Status emit_stage(int s) {
    RP_TRY(hoist_row_values(s));
    std::vector<Reduction> reductions;
    std::vector<int> accumulators;
    for (const Node* n : group_.nodes) {
      if (!is_reduction(*n) || stage_of_.at(n) != s) continue;
      Reduction r;
      r.node = n;
      r.combine = n->op == "ReduceSum"    ? ScalarOp::Add
                  : n->op == "ReduceProd" ? ScalarOp::Mul
                  : n->op == "ReduceMax"  ? ScalarOp::Max
                                          : ScalarOp::Min;
      const Type type = kernel::vec(accumulator_type(*n), lanes_);
      r.identity = identity_of(n->op, type.ty);
      accumulators.push_back(b_.local("acc" + std::to_string(accumulators.size()), type));
      b_.local_store(accumulators.back(), b_.constant(type, r.identity));
      reductions.push_back(r);
    }
    std::vector<ValueId> stores;
    for (ValueId v : group_.outputs) {
      if (is_full(v) && available(v) == s) stores.push_back(v);
    }
    const auto scratch = scratch_.find(s);
    if (scratch != scratch_.end()) {
      stores.insert(stores.end(), scratch->second.begin(), scratch->second.end());
    }
    if (reductions.empty() && stores.empty()) return {};
    Status status;
    const Expr steps = Expr::floordiv(cols_, lanes_);
    const Expr iterations = Expr::ceildiv(steps, per_row_);
    ev_.for_loop(per_row_ > 1 ? lane_ : b_.i32(0), ev_.value(steps), b_.i32(per_row_), iterations,
                 [&](Val c) {
                   ev_.push_scope();
                   Expr col = Expr(lanes_) * ev_.symbol(c, steps);
                   if (lanes_ > 1) col += ev_.lane();
                   status =
                       emit_column(full_index(ev_.simplify(col)), reductions, accumulators, stores);
                   ev_.pop_scope();
                 });
    RP_TRY(status);
    // Later stages read what this lane stored.
    for (ValueId v : stores) ev_.make_loadable(v);
    for (size_t i = 0; i < reductions.size(); ++i) {
      const Val total = combine(reductions[i], accumulators[i]);
      ev_.bind(reductions[i].node->outputs[0], row_index_, total);
    }
    return {};
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
    Val sum = lanes_ > 1 ? b_.extract(v, 0) : v;
    for (int l = 1; l < lanes_; ++l) sum = b_.scalar_op(r.combine, {sum, b_.extract(v, l)});
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
  uint32_t per_row_ = 1;  // invocations that share a row
  int stages_ = 0;
  int shared_count_ = 0;
  Val lane_;
  Index row_index_;
  std::map<const Node*, int> stage_of_;
  std::map<ValueId, int> available_;
  std::map<int, std::vector<ValueId>> scratch_;  // by the stage that computes and stores them
};

}  // namespace

Result<Lowered> lower_row(const graph::Graph& g, const Group& group, const Target& target) {
  return RowKernel(g, group, target).build();
}

}  // namespace reprise::lower
