// A matrix that is multiplied by few rows at a time, many times, as a recurrent layer does.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

/// The right operand of GEMMs, packed once. Sums are in double.
class PackedMatrix {
 public:
  /// `columns` columns of `depth` elements each, stored one after another from `offset` on.
  PackedMatrix(const HostTensor& t, int64_t offset, int64_t depth, int64_t columns);

  struct Rows {
    const double* values;
    int64_t count, stride;
  };
  struct Columns {
    int64_t begin, end;
  };
  struct Target {
    double* values;
    int64_t stride;
  };
  /// out[m, n] = the dot product of row m and column n, for the given columns.
  void multiply(const Rows& rows, Columns columns, const Target& out) const;

 private:
  void multiply_block(const Rows& rows, Columns columns, const Target& out) const;

  int64_t depth_;
  std::vector<double> tiles_;  // [tile][k][column of the tile]
};

}  // namespace reprise::host
