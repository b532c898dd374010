#include "codegen/lower/launch/row_indices.h"

#include <algorithm>

namespace reprise::lower {

using graph::Node;
using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;

RowDomain::RowDomain(const Group& group)
    : row_dims(row_shape(group.domain, group.reduced)), rows(element_count(row_dims)) {
  for (int64_t a : group.reduced) column_dims.push_back(group.domain[static_cast<size_t>(a)]);
  columns = element_count(column_dims);
}

RowLanes row_lanes(const graph::Graph& g, const Group& group, bool rows_as_lanes) {
  const RowDomain d(group);
  const bool last_reduced = group.reduced.back() + 1 == static_cast<int64_t>(group.domain.size());
  const Expr& adjacent = last_reduced ? d.columns : group.domain.back();
  const bool few_vectors = d.rows.is_const() && d.rows.value() < 64;
  const bool one_by_one = !last_reduced && (few_vectors || !rows_as_lanes);
  RowLanes lanes;
  lanes.count = !one_by_one && adjacent.known_divisor(g.symbols) % 4 == 0 ? 4 : 1;
  lanes.are_rows = !last_reduced && lanes.count > 1;
  return lanes;
}

RowIndices::RowIndices(Evaluator& ev, const Group& group, RowLanes lanes)
    : ev_(ev), group_(group), lanes_(lanes), d_(group), step_(ev.symbol(Val{}, steps())) {}

Index RowIndices::row(Expr first) const {
  if (lanes_.are_rows) first += ev_.lane();
  return ev_.unflatten(first, d_.row_dims);
}

Expr RowIndices::column(Val step) {
  ev_.set_symbol(step_, step);
  const int lanes = lanes_.columns();
  const Expr first = Expr(lanes) * step_;
  return ev_.simplify(lanes > 1 ? first + ev_.lane() : first);
}

Index RowIndices::element(const Index& row, const Expr& column) const {
  const Index columns = ev_.unflatten(column, d_.column_dims);
  Index index = row;
  for (size_t i = 0; i < columns.size(); ++i)
    index[static_cast<size_t>(group_.reduced[i])] = columns[i];
  ev_.add_element(index, group_.domain);
  return index;
}

Index RowIndices::of_element(ValueId v, const Index& element) const {
  const Shape& shape = ev_.graph().value(v).shape;
  if (shape == group_.domain) return element;
  return ev_.unflatten(ev_.flatten(element, group_.domain), shape);
}

Index RowIndices::of_row(ValueId v, const Index& row) const {
  if (ev_.graph().value(v).shape == d_.row_dims) return row;
  return ev_.unflatten(number(row), ev_.graph().value(v).shape);
}

namespace {

/// Computes what the loop of a stage computes for one column.
Status trace_stage(Evaluator& ev, const Group& group, const RowStages& stages, int stage,
                   const std::function<Status(ValueId)>& compute, RowTrace& out) {
  return ev.scope([&]() -> Status {
    for (ValueId v : stages.roots(stage)) RP_TRY(compute(v));
    RowTrace::Indices& computed = out.computed.emplace_back();
    for (const Node* n : group.nodes) {
      for (ValueId v : n->outputs)
        if (v != graph::kNone) computed[v] = ev.computed_at(v);
    }
    return {};
  });
}

}  // namespace

Result<RowTrace> trace_rows(const graph::Graph& g, const Group& group, RowLanes lanes) {
  Builder b("trace");
  Evaluator ev(g, group, b);
  const RowStages stages(g, group);
  const Expr units = Expr::floordiv(RowDomain(group).rows, lanes.rows());
  const Val id = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Expr unit = ev.symbol(id, units);
  RowIndices indices(ev, group, lanes);
  const Index row = indices.row(Expr(lanes.rows()) * unit);
  const Val step = b.convert(b.builtin(Builtin::GlobalId, 1), Ty::I32);
  const Index element = indices.element(row, indices.column(step));
  RowTrace out;
  for (int s = 0; s <= stages.count(); ++s) {
    const auto compute = [&](ValueId v) {
      return ev.eval(v, indices.of_element(v, element), lanes.count).status();
    };
    RP_TRY(trace_stage(ev, group, stages, s, compute, out));
    for (ValueId v : stages.full_outputs(s)) {
      const Index at = indices.of_element(v, element);
      RP_TRY(ev.check_order(v, at, lanes.count));
      out.outputs[v] = at;
    }
    RP_TRY(ev.scope([&]() -> Status {
      for (ValueId v : stages.row_values(s)) {
        const Index at = indices.of_row(v, row);
        RP_TRY(ev.eval(v, at, lanes.rows()).status());
        const bool stored = std::ranges::count(group.outputs, v) != 0;
        if (stored) RP_TRY(ev.check_order(v, at, lanes.rows()));
      }
      return {};
    }));
    for (const Node* n : stages.reductions(s)) {
      const ValueId v = n->outputs[0];
      const kernel::Type type = kernel::vec(ev.compute(g.value(v).dtype), lanes.rows());
      ev.bind(v, indices.of_row(v, row), b.constant(type, 0));
    }
  }
  RP_TRY(ev.status());
  return out;
}

}  // namespace reprise::lower
