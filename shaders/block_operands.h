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

  Value at(Value buffer, Value i, Value k) const { return buffer + base + i * across + k * along; }
};

class BlockOperands {
 public:
  /// Finds what each invocation loads. The elements of `shared` are F32, or F16 for operands whose
  /// elements are exact in it.
  BlockOperands(const TileWork& work, int shared, BlockLayout a, BlockLayout b);

  /// Calls `multiply` for every step of k, with the element of the shared array where its operands
  /// begin. Double buffered: the next step is loaded while one of the two buffers, of `size`
  /// elements each, is multiplied.
  Status loop(int size, const std::function<void(Value at)>& multiply);

 private:
  /// A vector that an invocation loads in each step: four k of a row or column, or four columns.
  struct Vector {
    Index row = {};
    Column column = {};
    Value k;                       // in the step: the quad of k, or k
    Value offset;                  // in the shared array
    std::vector<int> loaded = {};  // locals
  };
  struct Operand {
    BlockLayout layout;
    bool along_k = false;  // vectors of four k, else of four columns
    std::vector<Vector> vectors = {};
  };
  Vector vector(const BlockLayout& layout, Value k, Value i, Value first_k);
  void divide(int count, const std::function<void(Value)>& fn);
  void find_a();
  void find_b();
  /// Loads the unit's i-th block of K into locals.
  Status load(Value i);
  /// Stores what was loaded, `offset` elements after where the layouts say.
  void store(Value offset);
  void store_vector(const Operand& operand, Value at, const std::vector<int>& loaded);

  const TileWork& w_;
  kernel::Builder& builder_;
  int shared_;
  bool half_;
  Operand a_, b_;
  int locals_ = 0;
};

}  // namespace reprise::shaders
