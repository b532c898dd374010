// Kernel templates for GEMMs through shared memory: the double-buffered blocks of A and B that the
// invocations of a workgroup load together. Each invocation loads whole vectors, and neighbouring
// invocations load neighbouring vectors. A block covers Tile::rows of A, Tile::columns of B and
// Tile::step values of k.
#pragma once

#include <optional>

#include "shaders/contraction.h"

namespace reprise::shaders {

/// The layout of an operand's block in a shared array. The element of row (or column) i and the
/// k-th value of the step is at base + i * across + k * along.
struct BlockLayout {
  int base = 0;
  int across = 1, along = 1;

  Value at(Value buffer, Value i, Value k) const { return buffer + base + i * across + k * along; }
};

class BlockOperands {
 public:
  /// Writes the code that finds which vectors an invocation loads. `shared` is an array of F32, or
  /// of a 16-bit type of which the elements of both operands are values. `pairs`: an invocation
  /// loads two neighbouring vectors where they are neighbours in memory, so that legalize() can
  /// join them.
  BlockOperands(const TileWork& work, int shared, BlockLayout a, BlockLayout b, bool pairs = false);

  /// Loops over K and calls `multiply` for every step, with the offset in the shared array at which
  /// its buffer begins. If the last step may not be whole, it is the first one, so that no load in
  /// the loop asks where K ends. There are two buffers of `size` elements: while one is multiplied,
  /// the next step is loaded into registers and then stored to the other.
  Status loop(int size, const std::function<Status(Value at)>& multiply);

 private:
  /// A vector that an invocation loads in each step: four values of k of a row or column, or four
  /// columns at one k.
  struct Vector {
    Index row = {};
    Column column = {};
    Value k;                       // within the step: the quad of k, or k
    Value offset;                  // within a buffer
    std::vector<int> loaded = {};  // the four locals that hold it between load and store
  };
  struct Operand {
    BlockLayout layout;
    bool along_k = false;  // a vector has four values of k, else four columns
    std::vector<Vector> vectors = {};
  };
  Vector vector(const BlockLayout& layout, Value k, Value i, Value first_k);
  int pair_size(int count, int per_line) const;
  void divide(int count, int pair, const std::function<void(Value)>& fn);
  void find_a();
  void find_b();
  std::optional<Value> next_step(Value i);
  /// Loads the unit's i-th step of K from global memory into locals. `whole`: it ends before K
  /// does.
  Status load(Value i, bool whole);
  /// Stores the loaded step to the buffer at `offset`.
  void store(Value offset);
  void store_vector(const Operand& operand, Value at, const std::vector<int>& loaded);

  const TileWork& w_;
  kernel::Builder& builder_;
  int shared_;
  kernel::Type element_;
  bool pairs_;
  Operand a_, b_;
  int locals_ = 0;
};

}  // namespace reprise::shaders
