// Tiles of both operands in shared memory. The invocations of a workgroup load a step of k
// together: each loads whole vectors, and neighbouring invocations load neighbouring vectors.
#pragma once

#include "shaders/contraction.h"

namespace reprise::shaders {

/// Where a part of an operand lies in a shared array: element (i, k), of row or column i and the
/// k-th of the step, at base + i * across + k * along.
struct BlockLayout {
  int base = 0;
  int across = 1, along = 1;
};

class BlockOperands {
 public:
  /// The elements of `shared` are F32, or F16 for operands whose elements are exact in it.
  BlockOperands(Gemm& gemm, const Tile& tile, int shared, BlockLayout left, BlockLayout right);

  /// To be called before loop(), with the tile's first row and its number among columns.
  void begin(kernel::Val row, kernel::Val column);
  /// Calls `multiply` for every step of k, with the element of the shared array where its operands
  /// begin. Double buffered: the next step is loaded while one of the two buffers, of `size`
  /// elements each, is multiplied.
  Status loop(int size, const std::function<void(kernel::Val at)>& multiply);

 private:
  /// Loads a step into locals.
  Status load(kernel::Val block);
  /// Stores what was loaded, `offset` elements after where the layouts say.
  void store(kernel::Val offset);
  /// What an invocation loads of one operand in a step.
  struct Part {
    BlockLayout layout;
    bool along_k = false;  // vectors of four k, else of four columns
    std::vector<int> handles = {};
    std::vector<kernel::Val> places = {};   // quad of k, or k
    std::vector<kernel::Val> offsets = {};  // in the shared array
    std::vector<int> loaded = {};           // locals
  };
  void divide(int count, const std::function<void(kernel::Val)>& fn);
  void add_vector(Part& part, int handle, kernel::Val place, kernel::Val index, kernel::Val k);
  void begin_left(kernel::Val row);
  void begin_right(kernel::Val column);
  void store_vector(const Part& part, kernel::Val at, const int* loaded);

  Gemm& gemm_;
  kernel::Builder& b_;
  const Tile& tile_;
  int shared_;
  bool half_;
  Part left_, right_;
  int locals_ = 0;
};

}  // namespace reprise::shaders
