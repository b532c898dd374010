// Kernel templates for attention on GPUs, what forward and backward share: a workgroup computes
// kRows rows and visits the others (keys, say) in blocks of kOthers, through shared memory:
//
//   for each chunk of the head: load rows and others, add their products
//   ... weights from the products, stored to shared memory
//   for each part of the block: load values of others, add weights * values
//
// An invocation has 4 rows x 4 others of the products, and 4 rows x columns / 8 of a result. Eight
// invocations share rows. Everything fits in 16 KB, which is what every Vulkan device has.
#pragma once

#include <functional>
#include <vector>

#include "shaders/result_tile.h"

namespace reprise::shaders {

class SharedBlocks {
 public:
  static constexpr int kRows = 64, kOthers = 32;              // of a workgroup's block
  static constexpr int kOwn = 4;                              // rows, and others, of an invocation
  static constexpr int kSharers = kOthers / kOwn;             // invocations with the same rows
  static constexpr int kWorkgroup = kRows / kOwn * kSharers;  // 128

  /// Heads are multiples of 4. The most positions of one that are loaded at once.
  static int chunk_of(int depth);
  /// The columns of a tile that has to have `columns`, and how many others' values are in shared
  /// memory at once.
  static int columns_of(int columns);
  static int values_of(int columns);

  struct Shape {
    int depth, chunk, columns;
    Value first_row, first_vec;
  };
  /// `row` and `column` find operands before the loops.
  using Find = std::function<Index(Value at)>;
  SharedBlocks(kernel::Builder& b, ResultTile& result, Shape shape, const Find& row,
               const Find& column);

  /// The invocation's first row in the tile and first other one in the block.
  Value own_rows() const { return own_rows_; }
  Value own_others() const { return sharer_ * kOwn; }
  Value sharer() const { return sharer_; }
  int vecs() const { return shape_.columns / kSharers / 4; }

  /// Adds to sums(row), vectors of four others, the products over the head. Loads get a row, or the
  /// number of another one in the block, and the number of a quad of the head.
  using LoadRow = std::function<Result<Values>(const Index& row, Value quad)>;
  using LoadOther = std::function<Result<Values>(Value other, Value quad)>;
  Status add_products(LocalGrid& sums, const LoadRow& load_row, const LoadOther& load_other);

  /// Stores the invocation's weights[other][row] for add_values().
  void store_weights(const std::vector<Values>& weights);
  /// Adds to sums(row, vec), vectors of four columns, the products of the weights and of the values
  /// of all others of the block.
  using LoadValue = std::function<Result<Values>(Value other, const Index& column)>;
  Status add_values(LocalGrid& sums, const LoadValue& load);

  /// Combines four numbers, one for each row, of the invocations that share the rows.
  using Combine = std::function<Value(Value, Value)>;
  Value over_sharers(const Values& own, const Combine& both);

 private:
  void divide(int count, const std::function<Status(Value n, Val has)>& fn);
  Status load_chunk(Value chunk, const LoadRow& load_row, const LoadOther& load_other);
  Status load_part(Value part, const LoadValue& load);
  void where(Val has, const std::function<void()>& store);
  void store_column(Value at, int line, const Values& four, Val has);
  void multiply(LocalGrid& sums, int left, Value a, int right, Value b, int stride);

  kernel::Builder& b_;
  ResultTile& result_;
  Shape shape_;
  Value local_, own_rows_, sharer_;
  int block_, weights_;  // shared arrays
  std::vector<Index> rows_, columns_;
  Status status_;
};

}  // namespace reprise::shaders
