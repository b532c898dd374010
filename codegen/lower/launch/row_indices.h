// The indices of a row kernel: its rows, the columns of a row, and the elements of the group's
// values that belong to them.
#pragma once

#include "codegen/lower/evaluate/evaluator.h"
#include "codegen/lower/launch/row_stages.h"

namespace reprise::lower {

/// The lanes of a row kernel's vectors: neighbouring columns of a row, or neighbouring rows.
struct RowLanes {
  int count = 1;
  bool are_rows = false;

  int rows() const { return are_rows ? count : 1; }
  int columns() const { return are_rows ? 1 : count; }
};

/// The lanes of a row kernel. `rows_as_lanes`: whether neighbouring rows may be the lanes of
/// vectors, which hold elements that are adjacent in memory.
RowLanes row_lanes(const graph::Graph& g, const Group& group, bool rows_as_lanes);

/// Rows and columns of a group.
struct RowDomain {
  explicit RowDomain(const Group& group);

  Shape row_dims;     // of the domain, with size 1 for the reduced axes
  Shape column_dims;  // the reduced axes
  Expr rows, columns;
};

class RowIndices {
 public:
  RowIndices(Evaluator& ev, const Group& group, RowLanes lanes);

  const RowDomain& domain() const { return d_; }
  /// The loop steps that cover the columns of a row.
  Expr steps() const { return Expr::floordiv(d_.columns, lanes_.columns()); }

  /// The index of a row in the domain, without its columns. If rows are lanes, it is the vector of
  /// rows that begins at number `first`.
  Index row(Expr first) const;
  /// The row-major number of a row.
  Expr number(const Index& row) const { return ev_.flatten(row, d_.row_dims); }
  /// The column of loop step number `step`. All loops share one symbol for their step, so that
  /// equal indices of different stages are equal expressions.
  Expr column(Val step);
  /// The index in the domain of a row's element at a column.
  Index element(const Index& row, const Expr& column) const;

  /// The index into v, which has as many elements as the domain, of an element of the domain.
  Index of_element(graph::ValueId v, const Index& element) const;
  /// The index into v, which has one element per row.
  Index of_row(graph::ValueId v, const Index& row) const;

 private:
  Evaluator& ev_;
  const Group& group_;
  RowLanes lanes_;
  RowDomain d_;
  Expr step_;
};

/// Evaluates all values of the group for one row and column. An error names the value that a row
/// kernel cannot compute.
Result<RowTrace> trace_rows(const graph::Graph& g, const Group& group, RowLanes lanes);

}  // namespace reprise::lower
