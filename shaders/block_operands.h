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

/// Whether vectors of B have neighbouring values of k in a matrix tile. They have if B is loaded
/// element by element: then an invocation clamps one column, not four.
bool matrix_b_along_k(Gemm& gemm);

/// Loads vectors of four elements of A or B, as numbers of the type that a shared array has.
class OperandVectors {
 public:
  enum class Side : uint8_t { A, B };
  /// `along_k`: a vector has four values of k, else four columns.
  OperandVectors(Gemm& gemm, Side side, bool along_k)
      : gemm_(gemm), b_(gemm.builder()), side_(side), along_k_(along_k) {}
  bool along_k() const { return along_k_; }
  /// Finds where the operand lies: before the other functions, in each tile of a kernel.
  void locate();

  /// A row of A, a column of B or, unless along_k(), a vector of columns.
  struct Line {
    Index row = {};
    Column column = {};
  };
  Line line(Value number);
  /// The vector of a line at the four k from 4 * k or, unless along_k(), at k. `whole`: all of the
  /// step is below the end of K; else what is past it is zero.
  Result<Values> load(const Line& line, Value k, bool whole, kernel::Ty type);

 private:
  Result<Values> load_numbers(const Line& line, Value k, bool whole);
  Values load_elements(Value column, Value quad, bool whole);

  Gemm& gemm_;
  kernel::Builder& b_;
  Side side_;
  bool along_k_;
  std::optional<PlainOperand> elements_ = std::nullopt;  // B, if it is loaded element by element
};

class BlockOperands {
 public:
  /// Writes the code that finds which vectors an invocation loads. `shared` is an array of F32, or
  /// of a 16-bit type, to which elements of B are rounded if Gemm::rounds_b() says so. An operand
  /// without a layout comes to shared memory in another way. `pairs`: an invocation loads two
  /// neighbouring vectors where they are neighbours in memory, so that legalize() can join them.
  BlockOperands(const TileWork& work, int shared, const std::optional<BlockLayout>& a,
                const std::optional<BlockLayout>& b, bool pairs = false);

  /// Loops over K and calls `multiply` for every step, with the offset in the shared array at which
  /// its buffer begins. If the last step may not be whole, it is the first one, so that no load in
  /// the loop asks where K ends. There are two buffers of `size` elements: while one is multiplied,
  /// the next step is loaded into registers and then stored to the other.
  Status loop(int size, const std::function<Status(Value at)>& multiply);

  // The parts of that loop, for schedules that do more in it.
  /// Before the loop: brings the first step to the buffer at 0.
  Status begin();
  /// In the i-th iteration, after a barrier: loads the next step, calls `multiply`, and stores what
  /// it loaded to the buffer at `other`.
  Status advance(Value i, Value other, const std::function<Status()>& multiply);

 private:
  /// A vector that an invocation loads in each step: four values of k of a row or column, or four
  /// columns at one k.
  struct Vector {
    OperandVectors::Line line;
    Value k;                       // within the step: the quad of k, or k
    Value offset;                  // within a buffer
    std::vector<int> loaded = {};  // the four locals that hold it between load and store
  };
  struct Operand {
    BlockLayout layout;
    OperandVectors source;
    std::vector<Vector> vectors = {};
  };
  Vector vector(const Operand& operand, OperandVectors::Line line, Value k, Value i);
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
  std::optional<Operand> a_, b_;
  int locals_ = 0;
};

}  // namespace reprise::shaders
