// Both operands of a block of the result in shared memory: the invocations of a workgroup load a
// step of positions together, each whole vectors, consecutive ones from consecutive places.
#pragma once

#include "shaders/contraction.h"

namespace reprise::shaders {

/// Where a part of an operand lies in a shared array: element (i, k), of row or column i at
/// position k of the step, at base + i * across + k * along.
struct BlockLayout {
  int base = 0;
  int across = 1, along = 1;
};

class BlockOperands {
 public:
  /// The elements of `shared` are F32, or F16 for operands whose elements are exact in it.
  BlockOperands(Product& product, const Tile& tile, int shared, BlockLayout left,
                BlockLayout right);

  /// To be called before the sum, with the block's first row and its number among columns.
  void begin(kernel::Val row, kernel::Val column);
  /// Loads a step of positions, and keeps it in locals.
  Status load(kernel::Val block);
  /// Stores what was loaded, `offset` elements after where the layouts say.
  void store(kernel::Val offset);

 private:
  /// What an invocation loads of one operand in a step.
  struct Part {
    BlockLayout layout;
    bool along_k = false;  // vectors of four positions, else of four columns
    std::vector<int> handles = {};
    std::vector<kernel::Val> places = {};   // quad of positions, or position
    std::vector<kernel::Val> offsets = {};  // in the shared array
    std::vector<int> loaded = {};           // locals
  };
  void divide(int count, const std::function<void(kernel::Val)>& fn);
  void add_vector(Part& part, int handle, kernel::Val place, kernel::Val index,
                  kernel::Val position);
  void begin_left(kernel::Val row);
  void begin_right(kernel::Val column);
  void store_vector(const Part& part, kernel::Val at, const int* loaded);

  Product& p_;
  kernel::Builder& b_;
  const Tile& tile_;
  int shared_;
  bool half_;
  Part left_, right_;
  int locals_ = 0;
};

}  // namespace reprise::shaders
