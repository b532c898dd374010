// Row kernels: every reduction of the group runs over the same columns of the domain. A row is
// computed by one invocation (CPU-type devices with many rows), or by a workgroup whose invocations
// share its columns and combine their partial results: those of a subgroup by exchanging them where
// the target can, the rest in shared memory.
//
// On GPUs, an invocation keeps its part of a short row in registers. Otherwise a value that several
// stages need is recomputed if that is cheap, or else each invocation stores what it computed, and
// reloads only that, so no barrier is needed.
#include <algorithm>
#include <bit>
#include <iterator>
#include <map>

#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/launch/compensated.h"
#include "codegen/lower/launch/row_indices.h"
#include "codegen/ops/math/reduce.h"

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

struct RowSchedule {
  RowLanes lanes;
  uint32_t per_row = 1;  // invocations that share a row, in the short form
  double cost = 0;

  std::string describe() const {
    std::string name = per_row > 1 ? "row per workgroup of " + std::to_string(per_row)
                                   : std::string("row per invocation");
    name += " v" + std::to_string(lanes.count);
    return lanes.rows() > 1 ? name + " of rows" : name;
  }
};

/// Where an invocation stored an element.
struct Stored {
  Index index;
  Expr position;  // row-major
};

/// A row, or a vector of rows, that an invocation computes.
struct Row {
  Index index;                       // in the domain, without its columns
  std::map<ValueId, Val> results;    // of reductions
  std::map<ValueId, Stored> stored;  // values that later stages reload
};

/// GPUs wait for memory, so values are computed again rather than stored and reloaded.
constexpr double kGpuRecompute = 1;

// An invocation of a GPU keeps so many elements of a row in registers, and computes so many
// operators on them.
constexpr int64_t kKeptElements = 32, kKeptOperators = 512;

/// How many vectors of a row each invocation has, if it keeps what it loads and computes of them in
/// registers for all stages: its loops are unrolled then. Else 0.
int64_t kept_vectors(const Group& group, const RowSchedule& s, const TargetFacts& target) {
  const Expr columns = RowDomain(group).columns;
  if (s.per_row <= 1 || target.cpu_type() || !columns.is_const()) return 0;
  const int64_t in_turn = int64_t{s.per_row} * s.lanes.columns();
  const int64_t vectors = columns.value() / in_turn;
  const auto operators = static_cast<int64_t>(group.nodes.size());
  const bool fits = vectors * s.lanes.count <= kKeptElements &&
                    vectors * operators <= kKeptOperators && columns.value() % in_turn == 0;
  return fits ? vectors : 0;
}

class RowKernel {
 public:
  RowKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
            const RowSchedule& s, LoopForm form)
      : g_(g),
        group_(group),
        domain_(group),
        b_(kernel_name(group)),
        ev_(g, group, b_),
        s_(s),
        stages_(g, group),
        recompute_(target.cpu_type() ? kRecompute : kGpuRecompute) {
    if (form == LoopForm::Long) s_.per_row = largest_workgroup(target);
    kept_vectors_ = kept_vectors(group, s_, target);
    if (shared()) subgroup_ = exchanging_subgroup(target);
    limit_loops(ev_, target);
  }

  Result<Lowered> build() {
    RP_ASSIGN(const RowTrace trace, trace_rows(g_, group_, s_.lanes));
    if (kept_vectors_ == 0) stages_.choose_reloads(trace, recompute_);
    const int vectors = rows_per_invocation();
    b_.set_workgroup(shared() ? s_.per_row : kRowsPerGroup);
    const Expr units = Expr::floordiv(domain_.rows, s_.lanes.rows() * vectors);
    const Expr groups = shared() ? units : Expr::ceildiv(units, kRowsPerGroup);
    const Value group_id = linear_workgroup(b_, groups);
    local_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    const Value unit = shared() ? group_id : group_id * kRowsPerGroup + local_;
    RP_TRY(guard_units(ev_, unit, units, shared() ? 1 : kRowsPerGroup,
                       [&] { return write_rows(ev_.symbol(unit, units), vectors); }));
    return finish(ev_, b_, group_, groups, s_.describe());
  }

 private:
  static constexpr uint32_t kRowsPerGroup = 8;

  /// Whether the invocations of a workgroup share a row.
  bool shared() const { return s_.per_row > 1; }

  /// The invocations of a subgroup that exchange partial results; 0 if they use shared memory
  /// alone.
  uint32_t exchanging_subgroup(const TargetFacts& target) const {
    // On CPU-type devices, a subgroup is a vector register, and workgroups are as small.
    if (target.cpu_type() || !target.subgroup_shuffle()) return 0;
    const uint32_t lanes = target.subgroup_size();
    return lanes > 1 && std::has_single_bit(lanes) && s_.per_row % lanes == 0 ? lanes : 0;
  }

  /// The largest workgroup whose partial results fit in shared memory.
  uint32_t largest_workgroup(const TargetFacts& target) const {
    int bytes = 0;  // of one invocation
    for (int s = 0; s <= stages_.count(); ++s)
      for (const Node* n : stages_.reductions(s))
        bytes += kernel::byte_size(accumulator_type(*n).ty);
    const uint32_t room = target.shared_bytes() / static_cast<uint32_t>(std::max(bytes, 1));
    return std::bit_floor(std::min(target.workgroup_invocations(), room));
  }

  /// The number of rows, or vectors of rows, that an invocation computes. If rows are lanes, the
  /// elements of neighbouring columns are far apart in memory. With several neighbouring vectors,
  /// whole cache lines are used, and stay cached for later stages. But enough workgroups must
  /// remain.
  int rows_per_invocation() const {
    if (s_.lanes.rows() == 1 || stages_.count() < 2) return 1;
    for (int vectors = 4; vectors > 1; vectors /= 2) {
      const int64_t rows = int64_t{s_.lanes.rows()} * vectors;
      const bool whole = group_.domain.back().known_divisor(g_.symbols) % rows == 0;
      const bool enough =
          domain_.rows.is_const() && domain_.rows.value() >= 8 * kRowsPerGroup * rows;
      if (whole && enough) return vectors;
    }
    return 1;
  }

  Status write_rows(const Expr& unit, int count) {
    RowIndices indices(ev_, group_, s_.lanes);
    std::vector<Row> rows;
    rows.reserve(static_cast<size_t>(count));
    const int lanes = s_.lanes.rows();
    for (int u = 0; u < count; ++u)
      rows.push_back({indices.row(Expr(lanes * count) * unit + Expr(lanes * u)), {}, {}});
    for (int s = 0; s <= stages_.count(); ++s) RP_TRY(write_stage(s, indices, rows));
    return store_row_values(indices, rows);
  }

  /// Makes the results of the row's reductions those that the evaluator uses.
  void select(const RowIndices& indices, const Row& row) {
    for (const auto& [v, result] : row.results) ev_.bind(v, indices.of_row(v, row.index), result);
  }

  Status write_stage(int s, RowIndices& indices, std::vector<Row>& rows) {
    // Row values are computed here, because the loop would compute them again for each column.
    for (const Row& row : rows) {
      select(indices, row);
      for (ValueId v : stages_.row_values(s))
        RP_TRY(ev_.eval(v, indices.of_row(v, row.index), s_.lanes.rows()).status());
    }
    const std::vector<Reduction> reductions = reductions_of(s);
    std::vector<std::vector<Accumulator>> accumulators;  // by row and reduction
    for (size_t u = 0; u < rows.size(); ++u)
      accumulators.push_back(make_accumulators(reductions, is_long(indices.steps())));
    if (reductions.empty() && stages_.full_outputs(s).empty()) return {};
    // The loop may be unrolled. A copy of the body must not reload what another column stored.
    const std::vector<Row> before = rows;
    RP_TRY(loop_over_columns(indices.steps(), [&](Value step) -> Status {
      const Expr column = indices.column(step);
      for (size_t u = 0; u < rows.size(); ++u) {
        rows[u].stored = before[u].stored;
        select(indices, rows[u]);
        const Index element = indices.element(rows[u].index, column);
        RP_TRY(store_outputs(s, indices, element, rows[u]));
        RP_TRY(accumulate(reductions, accumulators[u], indices, element));
        for (ValueId v : stages_.scratch(s)) RP_TRY(store_scratch(v, column, indices, rows[u]));
      }
      return {};
    }));
    for (size_t u = 0; u < rows.size(); ++u) {
      for (size_t i = 0; i < reductions.size(); ++i)
        rows[u].results[reductions[i].node->outputs[0]] =
            combine(reductions[i], accumulators[u][i]);
    }
    return {};
  }

  std::vector<Reduction> reductions_of(int s) const {
    std::vector<Reduction> out;
    for (const Node* n : stages_.reductions(s)) out.push_back({n, *def_of(*n)->combine});
    return out;
  }

  /// A long sum in F32 is compensated: the rounding error of each addition is added up beside it.
  struct Accumulator {
    int sum = -1;
    int error = -1;  // -1: the sum is not compensated
  };

  /// Whether an invocation adds more than a few elements to an accumulator.
  bool is_long(const Expr& steps) const {
    const Expr iterations = Expr::ceildiv(steps, s_.per_row);
    return !iterations.is_const() || iterations.value() > kShortSum;
  }

  std::vector<Accumulator> make_accumulators(const std::vector<Reduction>& reductions,
                                             bool is_long) {
    std::vector<Accumulator> out;
    for (const Reduction& r : reductions) {
      const Type type = kernel::vec(accumulator_type(*r.node), s_.lanes.count);
      const std::string name = "acc" + std::to_string(out.size());
      const DType dtype = g_.value(r.node->outputs[0]).dtype;
      const auto local = [&](const std::string& of) {
        const int made = b_.local(of, type);
        b_.local_store(made, ops::reduction_identity(b_, r.combine, dtype, type));
        return made;
      };
      out.push_back({.sum = local(name)});
      if (is_long && r.combine == ScalarOp::Add && type.ty == Ty::F32)
        out.back().error = local(name + "_error");
    }
    return out;
  }

  Status loop_over_columns(const Expr& steps, const Evaluator::LoopBody& body) {
    const Value first = shared() ? local_ : Value{b_, b_.i32(0)};
    const auto per_row = static_cast<int>(s_.per_row);
    for (int64_t n = 0; n < kept_vectors_; ++n)
      RP_TRY(ev_.guard({}, [&] { return body(first + n * per_row); }));
    if (kept_vectors_ > 0) return {};
    return ev_.for_loop(first, ev_.value(steps), b_.i32(per_row), Expr::ceildiv(steps, per_row),
                        body);
  }

  /// Floats of 16 bits accumulate in F32.
  Type accumulator_type(const Node& n) const {
    const Type t = ev_.compute(g_.value(n.outputs[0]).dtype);
    return t.ty == Ty::F16 ? kernel::kF32 : t;
  }

  Status store_outputs(int s, const RowIndices& indices, const Index& element, Row& row) {
    for (const auto& [v, at] : row.stored) ev_.reload_at(v, at.index, at.position);
    for (ValueId v : stages_.full_outputs(s)) {
      const Index at = indices.of_element(v, element);
      RP_ASSIGN(const Val val, ev_.eval(v, at, s_.lanes.count));
      if (stages_.reloads(v)) ev_.allow_reloads(v, false);
      RP_TRY(ev_.store(v, at, val, s_.lanes.count));
      if (stages_.reloads(v)) row.stored[v] = {at, ev_.flatten(at, g_.value(v).shape)};
    }
    return {};
  }

  Status accumulate(const std::vector<Reduction>& reductions,
                    const std::vector<Accumulator>& accumulators, const RowIndices& indices,
                    const Index& element) {
    for (size_t i = 0; i < reductions.size(); ++i) {
      const ValueId in = reductions[i].node->inputs[0];
      RP_ASSIGN(Val x, ev_.eval(in, indices.of_element(in, element), s_.lanes.count));
      const Type type = accumulator_type(*reductions[i].node);
      if (b_.type(x).ty != type.ty) x = b_.convert(x, type.ty);
      const Accumulator& a = accumulators[i];
      const Val before = b_.local_load(a.sum);
      const Val sum = b_.scalar_op(reductions[i].combine, {before, x});
      b_.local_store(a.sum, sum);
      if (a.error >= 0)
        b_.local_store(a.error,
                       b_.add(b_.local_load(a.error), lost({b_, before}, {b_, x}, {b_, sum})));
    }
    return {};
  }

  /// Stores the element of v that was computed for a row and a column. Scratch memory has an
  /// element for each row and column, whatever the shape of v, so that an invocation loads only
  /// what it stored.
  Status store_scratch(ValueId v, const Expr& column, const RowIndices& indices, Row& row) {
    const std::vector<Index> at = ev_.computed_at(v);
    if (at.size() != 1)
      return internal_error("'" + g_.value(v).name + "' is not computed where it was expected");
    const Expr number = indices.number(row.index);
    const Expr position =
        s_.lanes.rows() > 1 ? column * domain_.rows + number : number * domain_.columns + column;
    RP_ASSIGN(const Val val, ev_.eval(v, at[0], s_.lanes.count));
    ev_.allow_reloads(v, true);
    RP_TRY(ev_.store_at(v, position, val, s_.lanes.count));
    row.stored[v] = {at[0], position};
    return {};
  }

  Val combine(const Reduction& r, const Accumulator& a) {
    Val sum = b_.local_load(a.sum);
    Val error = a.error >= 0 ? b_.local_load(a.error) : Val{};
    if (const int columns = s_.lanes.columns(); columns > 1) {
      const Val sums = sum, errors = error;
      sum = b_.extract(sums, 0);
      if (a.error >= 0) error = b_.extract(errors, 0);
      for (int l = 1; l < columns; ++l) {
        const Val before = sum, next = b_.extract(sums, l);
        sum = b_.scalar_op(r.combine, {before, next});
        if (a.error < 0) continue;
        error = b_.add(error, b_.extract(errors, l));
        error = b_.add(error, lost({b_, before}, {b_, next}, {b_, sum}));
      }
    }
    if (a.error >= 0) sum = compensated(b_, sum, error);
    if (shared()) sum = combine_workgroup(r, sum);
    const Type out = ev_.compute(g_.value(r.node->outputs[0]).dtype);
    return b_.type(sum).ty == out.ty ? sum : b_.convert(sum, out.ty);
  }

  Val combine_workgroup(const Reduction& r, Val v) {
    const Ty type = b_.type(v).ty;
    // Devices need not exchange elements of other sizes.
    if (subgroup_ > 0 && kernel::byte_size(type) == 4) return combine_subgroups(r, v);
    const int partial = partial_results(type, s_.per_row);
    b_.shared_store(partial, local_, v);
    b_.barrier();
    for (uint32_t half = s_.per_row / 2; half > 0; half /= 2) {
      b_.if_then(b_.lt(local_, b_.i32(half)), [&] {
        const Val other = b_.shared_load(partial, b_.add(local_, b_.i32(half)));
        b_.shared_store(partial, local_,
                        b_.scalar_op(r.combine, {b_.shared_load(partial, local_), other}));
      });
      b_.barrier();
    }
    return b_.shared_load(partial, b_.i32(0));
  }

  int partial_results(Ty type, uint32_t count) {
    return b_.shared("partial" + std::to_string(shared_count_++), type, count);
  }

  /// Each subgroup combines its values, then all of them combine the results of all subgroups.
  Val combine_subgroups(const Reduction& r, Val v) {
    b_.require_subgroup_size(subgroup_);
    v = combine_lanes(r, v, subgroup_);
    const uint32_t subgroups = s_.per_row / subgroup_;
    if (subgroups == 1) return v;
    const int partial = partial_results(b_.type(v).ty, subgroups);
    const Value lane = b_.convert(b_.builtin(Builtin::SubgroupLane), Ty::I32);
    b_.if_then(b_.eq(lane, b_.i32(0)), [&] {
      b_.shared_store(partial, b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32), v);
    });
    b_.barrier();
    const uint32_t lanes = std::min(subgroups, subgroup_);
    const Value first = lane % lanes;
    Val sum = b_.shared_load(partial, first);
    for (uint32_t others = lanes; others < subgroups; others += lanes)
      sum = b_.scalar_op(r.combine, {sum, b_.shared_load(partial, first + others)});
    return combine_lanes(r, sum, lanes);
  }

  /// Combines the values of `lanes` neighbouring invocations, all of which get the same result:
  /// both of a pair combine the same two values, and no row of `combine` depends on their order.
  Val combine_lanes(const Reduction& r, Val v, uint32_t lanes) {
    for (uint32_t distance = lanes / 2; distance > 0; distance /= 2) {
      const Val other = b_.subgroup(kernel::SubgroupOp::ShuffleXor, v, b_.u32(distance));
      v = b_.scalar_op(r.combine, {v, other});
    }
    return v;
  }

  /// Row values are the same in every invocation of the row, so one of them stores.
  Status store_row_values(const RowIndices& indices, const std::vector<Row>& rows) {
    std::vector<ValueId> outputs;
    std::ranges::copy_if(group_.outputs, std::back_inserter(outputs),
                         [&](ValueId v) { return !stages_.is_full(v); });
    if (outputs.empty()) return {};
    return ev_.guard(shared() ? b_.eq(local_, b_.i32(0)) : Val{}, [&]() -> Status {
      for (const Row& row : rows) {
        select(indices, row);
        for (ValueId v : outputs) {
          const Index at = indices.of_row(v, row.index);
          RP_ASSIGN(const Val val, ev_.eval(v, at, s_.lanes.rows()));
          RP_TRY(ev_.store(v, at, val, s_.lanes.rows()));
        }
      }
      return {};
    });
  }

  const graph::Graph& g_;
  const Group& group_;
  const RowDomain domain_;
  Builder b_;
  Evaluator ev_;
  RowSchedule s_;
  RowStages stages_;
  double recompute_;  // see RowStages::choose_reloads()
  Value local_;       // the number of the invocation in its workgroup
  int shared_count_ = 0;
  uint32_t subgroup_ = 0;     // see exchanging_subgroup()
  int64_t kept_vectors_ = 0;  // see kept_vectors()
};

/// A pure function of the shape and the target.
RowSchedule choose(const graph::Graph& g, const Group& group, const TargetFacts& target,
                   bool rows_as_lanes) {
  constexpr uint32_t kCpuSubgroup = 8, kLargeGroup = 256;
  const RowDomain d(group);
  RowSchedule s;
  s.lanes = row_lanes(g, group, rows_as_lanes);
  const bool few_rows = d.rows.is_const() && d.rows.value() < 8;
  const bool any_length = !d.columns.is_const();
  const bool short_row = !any_length && d.columns.value() <= (target.cpu_type() ? 2048 : 32);
  const bool many_columns = any_length || d.columns.value() >= 1024;
  const bool image = std::any_of(d.columns.terms().begin(), d.columns.terms().end(),
                                 [](const Term& t) { return t.atoms().size() > 1; });
  const bool long_row = image || (!any_length && d.columns.value() > 32768);
  const bool own = short_row || s.lanes.rows() > 1 ||
                   (target.cpu_type() && !(few_rows && many_columns) && !long_row);
  // Partial results of a large workgroup must fit in shared memory.
  constexpr auto kMostReductions = 8;
  const bool wide = !own && !target.cpu_type() && !any_length &&
                    d.columns.value() / s.lanes.count >= 4 * kLargeGroup &&
                    std::ranges::count_if(group.nodes, [](const Node* n) {
                      return is_reduction(*n);
                    }) <= kMostReductions;
  const uint32_t large = wide ? std::min(kLargeGroup, target.workgroup_invocations()) : 64;
  // A CPU-type device combines the results of one subgroup faster than those of a large workgroup,
  // which pays off only for rows that are known to be long.
  s.per_row = own ? 1 : any_length && target.cpu_type() ? kCpuSubgroup : large;
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
    const bool idle = int64_t{per_row} * chosen.lanes.count > columns.value();
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
  const auto build = [&](const RowSchedule& s) {
    return RowKernel(g, group, target, s, form).build();
  };
  Result<Lowered> by_rows = unsupported("rows are not lanes");
  const RowSchedule of_rows = choose(g, group, target, true);
  // Values of other shapes may not line up with neighbouring rows.
  if (target.cpu_type() && form == LoopForm::Short && of_rows.lanes.rows() > 1)
    by_rows = build(of_rows);
  const RowSchedule chosen = choose(g, group, target, false);
  const auto candidates =
      row_schedules(chosen, by_rows.ok() ? &of_rows : nullptr, RowDomain(group).columns, form);
  return lower_choice(candidates, choice, [&](const RowSchedule& s) {
    return s.lanes.rows() > 1 ? std::move(by_rows) : build(s);
  });
}

}  // namespace reprise::lower
