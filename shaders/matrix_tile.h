// Kernel templates for GEMMs on matrix units: how the subgroups of a workgroup share its tile of C,
// multiply what lies in shared memory, and store their sums. The schedules differ in how operands
// come to shared memory.
//
// A workgroup of 2 rows of subgroups computes Tile::rows x Tile::columns elements of C. A subgroup
// has several rows and columns of matrices as accumulators. If the whole workgroup holds matrices
// together (MmaScope::Workgroup), it counts as one subgroup here.
#pragma once

#include <vector>

#include "shaders/block_operands.h"

namespace reprise::shaders {

inline constexpr int kSideRows = 2;  // subgroups of a workgroup along M, if they hold matrices

/// How a workgroup's tile is divided.
struct MatrixDivision {
  explicit MatrixDivision(const Tile& t)
      : whole(t.matrix.scope == MmaScope::Workgroup),
        side_rows(whole ? 1 : kSideRows),
        side_columns(whole ? 1 : static_cast<int>(t.workgroup / t.subgroup_size) / kSideRows),
        rows(t.rows / side_rows / static_cast<int>(t.matrix.m)),
        columns(t.columns / side_columns / static_cast<int>(t.matrix.n)),
        stored_rows(side_rows * static_cast<int>(t.matrix.m)) {}

  bool whole;  // the workgroup holds matrices together
  int side_rows, side_columns;
  int rows, columns;  // matrices of a subgroup
  int stored_rows;    // of C that go through shared memory at once
};

// Elements between lines in shared memory, to avoid bank conflicts.
inline constexpr int kSumPad = 8;  // fp32 sums, stored in pairs
/// Of an operand, whose lines are loaded 16 bytes at a time; but those of F32 across k, one by one.
inline int fragment_pad(kernel::Ty type, bool along_k) {
  return along_k ? 16 / kernel::byte_size(type) : 8;
}

/// How the matrices of a workgroup are arranged: its subgroups along N (1 for the workgroup
/// itself), the matrices of a subgroup along M and N, and the values of k of a step.
struct MatrixArrangement {
  int side_columns, rows, columns, step;
};
/// The tile of an operation of matrix units on such devices.
Tile matrix_tile(const MatrixArrangement& shape, const MmaConfig& matrix,
                 const TargetFacts& device);
/// The type of the operands in shared memory.
inline kernel::Ty operand_type(const Tile& t) {
  return operand_type(t.matrix.types);
}
/// What an invocation does in a step besides bringing operands to shared memory, as for gpu_time().
double matrix_work(const Tile& t);

/// Bytes of shared memory for the sums.
inline int sum_bytes(const Tile& t) {
  return 4 * MatrixDivision(t).stored_rows * (t.columns + kSumPad);
}

/// Where the operands of a step lie in shared memory. One of the distances of an operand is 1.
struct MatrixBlock {
  int shared = -1;
  BlockLayout a, b;
};

class MatrixTile {
 public:
  /// Declares the matrices of the invocation's subgroup. The sums begin with 0.
  explicit MatrixTile(const TileWork& work);

  /// Adds the products of a step, Tile::matrix.k values of k at a time. The offsets in the shared
  /// array are those of the operands' current buffers.
  void multiply(const MatrixBlock& block, Value a_buffer, Value b_buffer);
  /// Stores C. The sums go through shared memory, one row of each subgroup's matrices after
  /// another, and invocations apply the epilogue to vectors.
  Status store();

 private:
  Status store_row(int matrix_row, int sums);
  /// Four sums of split products; those that are not finite as F32 makes them.
  Result<Value> finite_or_single(Value row, Value vec, Value four);
  Status add_singles(LocalGrid& total, Value row, Value vec);

  const TileWork& w_;
  kernel::Builder& b_;
  const MatrixDivision part_;
  /// Of A, of B, and the sums row by row.
  std::vector<int> left_, right_, sums_;
  /// The first element of C that they cover in the workgroup's tile, except that neighbouring rows
  /// of matrices lie stored_rows apart.
  Value row_, column_;
};

}  // namespace reprise::shaders
