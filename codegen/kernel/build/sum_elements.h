// Writes what is done with the elements of sums that an invocation holds (HeldPlaces): maps of each
// element, and folds of rows, of which all invocations that hold a row get the result.
#pragma once

#include <array>
#include <functional>
#include <span>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

/// A value for each row of which an invocation holds elements.
using RowValues = std::array<Value, HeldPlaces::kRowsHeld>;

class SumElements {
 public:
  SumElements(Builder& b, MmaScope scope);

  /// Where an element is in its matrix: in which of the rows that the invocation holds, in which
  /// column, and in which of the invocation's slots.
  struct Place {
    size_t which = 0;
    Value column;
    uint32_t slot = 0;
  };
  using Map = std::function<Value(const Place& place, const Value& element)>;
  using TryMap = std::function<Result<Value>(const Place& place, const Value& element)>;
  using Combine = std::function<Value(const Value& a, const Value& b)>;

  /// A row that the invocation holds, by its number in the matrix. I32.
  Value row(size_t which) const { return rows_[which]; }
  /// The column of a slot, by its number in the matrix. I32.
  Value column(uint32_t slot) const { return first_column_ + int64_t{HeldPlaces::column(slot)}; }
  /// Replaces each element.
  void map(int matrix, const Map& f) const;
  Status try_map(int matrix, const TryMap& f) const;
  /// Rows of sums that lie side by side: an invocation combines its own elements, from the first
  /// matrix and column on, and then neighbours combine theirs. `combine` must be commutative.
  RowValues fold(std::span<const int> matrices, const Combine& combine) const;
  /// The last part of it, of values that invocations have combined.
  Value fold_shared(Value own, const Combine& combine) const;

 private:
  uint32_t slots(int matrix) const { return HeldPlaces::slots(b_.matrix_var(matrix).columns); }

  Builder& b_;
  RowValues rows_;
  Value first_column_;
};

}  // namespace reprise::kernel
