// How a weight becomes the bytes that kernels read, as data: a schedule that wants a layout of its
// own defines one, and no reader or packer changes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::plan {

/// A permutation of the digits of an index. The raw weight is dense, with `dims` in its order. Each
/// of its axes is split into parts: a part of `size` and `step` is (i / step) % size of the index i
/// along its axis. The packed weight is dense, too; its axes are the parts, the last one
/// contiguous. What lies past the end of a raw axis is zero.
///
/// For example, a [K, N] matrix in tiles of 16 columns, [N / 16][K][16], has the parts
/// {1, ceil(N / 16), 16}, {0, K, 1}, {1, 16, 1}.
struct Packing {
  struct Part {
    int64_t axis = 0, size = 1, step = 1;
    auto operator<=>(const Part&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  std::vector<int64_t> dims;  // of the raw weight, at least two; none: it stays as it is
  std::vector<Part> parts;    // from the outermost one
  /// 0: elements are those of the raw weight. 2 or 4: an element has so many bits, those that are
  /// lowest in its byte of the raw weight. They fill words of 32 bits from the lowest bits on; the
  /// last parts of both the last two axes make up exactly a word.
  int64_t bits = 0;

  bool is_raw() const { return dims.empty(); }
  /// Elements of the packed weight, and of a word.
  int64_t count() const;
  int64_t per_word() const { return bits == 0 ? 1 : 32 / bits; }
  /// The size of an axis with its padding.
  int64_t padded(size_t axis) const;
  /// The distance between neighbours along a part, in packed elements.
  int64_t stride(size_t part) const;
  /// `element` is the size of a raw element in bytes.
  uint64_t packed_bytes(uint64_t raw_bytes, size_t element) const;
  /// Checks that the parts of each axis cover it once, and that all numbers are possible. The other
  /// functions may be called only after that.
  Status check() const;
  /// "[1, 64, 25] as 0:1 2:4*8 1:64 2:8": each part's axis, size and step.
  std::string str() const;

  auto operator<=>(const Packing&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// `batch` matrices of K x N, in which N is contiguous, or K if `transposed`.
struct MatrixShape {
  int64_t batch = 1, k = 0, n = 0;
  bool transposed = false;
};
/// [batch][n / columns][k][columns].
Packing in_tiles(const MatrixShape& m, int64_t columns);
/// The same of 4-bit integers: [batch][n / columns][k / 8][columns / 4][4][8]. The last axis is a
/// word, from the lowest bits on [2 values of k][4 columns]. `columns` is a multiple of 4.
Packing in_tiles_of_nibbles(const MatrixShape& m, int64_t columns);

}  // namespace reprise::plan
