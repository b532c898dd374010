#include "runtime/host/packed_matrix.h"

#include <algorithm>

#include "runtime/host/tile_product.h"

namespace reprise::host {

namespace {

constexpr int64_t kPackedTile = 8;   // columns
constexpr int64_t kRows = 2;         // rows that read a tile together
constexpr int64_t kPackedRows = 64;  // rows that are read by all tiles before the next rows are

}  // namespace

PackedMatrix::PackedMatrix(const HostTensor& t, int64_t offset, int64_t depth, int64_t columns)
    : depth_(depth),
      tiles_(static_cast<size_t>((columns + kPackedTile - 1) / kPackedTile * kPackedTile * depth)) {
  if (columns == 0) return;  // the depth may have any size
  std::vector<double> column(static_cast<size_t>(depth));
  for (int64_t n = 0; n < columns; ++n) {
    load(t, offset + n * depth, 1, depth, column.data());
    double* to = tiles_.data() + n / kPackedTile * depth * kPackedTile + n % kPackedTile;
    for (int64_t k = 0; k < depth; ++k) to[k * kPackedTile] = column[static_cast<size_t>(k)];
  }
}

void PackedMatrix::multiply_block(const Rows& rows, Columns columns, const Target& out) const {
  for (int64_t tile = columns.begin / kPackedTile; tile * kPackedTile < columns.end; ++tile) {
    const double* const packed = tiles_.data() + tile * depth_ * kPackedTile;
    const int64_t begin = std::max(columns.begin, tile * kPackedTile);
    const int64_t end = std::min(columns.end, (tile + 1) * kPackedTile);
    for (int64_t m = 0; m < rows.count; m += kRows) {
      const TileRows some{rows.values + m * rows.stride, rows.stride, 1};
      const int64_t count = std::min(kRows, rows.count - m);
      double sums[kRows][kPackedTile];
      if (count == kRows) {
        multiply_tile<kRows, kPackedTile>(some, packed, depth_, *sums);
      } else {
        multiply_tile<1, kPackedTile>(some, packed, depth_, *sums);
      }
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(sums[i] + (begin - tile * kPackedTile), end - begin,
                    out.values + (m + i) * out.stride + begin);
      }
    }
  }
}

void PackedMatrix::multiply(const Rows& rows, Columns columns, const Target& out) const {
  for (int64_t m = 0; m < rows.count; m += kPackedRows) {
    multiply_block(
        {rows.values + m * rows.stride, std::min(kPackedRows, rows.count - m), rows.stride},
        columns, {out.values + m * out.stride, out.stride});
  }
}

}  // namespace reprise::host
