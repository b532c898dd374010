// Kernel templates with a ring of stages in shared memory: what an invocation copies of an operand
// in each step, asynchronously. Neighbouring invocations copy neighbouring 16 bytes, or 8 or 4 if
// the lines of the operand are aligned to no more.
#pragma once

#include <functional>
#include <vector>

#include "shaders/block_operands.h"

namespace reprise::shaders {

/// A ring of stages in shared memory. While invocations read the oldest stage, copies to all others
/// are under way.
class StageRing {
 public:
  /// `size`: elements of a stage.
  StageRing(kernel::Builder& b, int stages, int size);

  /// Stages whose copies are under way.
  int ahead() const { return stages_ - 1; }
  /// Before the loop: calls `copy` for each of them, with its number and place.
  void fill(const std::function<void(int number, Value place)>& copy);

  /// The places of the stage that is read, and of the one to copy to: it was read before.
  struct Places {
    Value oldest, newest;
  };
  /// At the begin of an iteration: waits for the oldest copies and the other invocations. Then
  /// copies to the newest stage must begin.
  Places await();
  /// At the end of an iteration.
  void advance(const Places& places);

 private:
  kernel::Builder& b_;
  int stages_, size_, oldest_, newest_;
};

/// The price of copies of so many elements, `elements` of so many bytes in all at a time, for
/// gpu_time().
double copy_work(double count, int elements, int bytes);

class CopiedOperand {
 public:
  /// Where a step of K is copied to, and by how many invocations; `depth` is the length of K.
  struct Stage {
    int shared;
    kernel::Ty type;
    BlockLayout layout;
    Value depth;
    int step;
    uint32_t workgroup;
  };
  /// The rows or columns of a tile: so many elements, from number `first` of `count`; of a packed
  /// operand, those of a tile.
  struct Side {
    int elements;
    Value first, count;
    Value tile = {};
  };
  CopiedOperand(kernel::Builder& b, const Stage& stage, const Operand& operand, const Side& side);

  /// Begins to copy the step whose first k is given to a stage. What is not below `end` is zero.
  void copy(Value first_k, Value end, Value stage);
  /// The same of a step that is whole, or does not exist: then all of it is zero.
  void copy_whole(Value first_k, Val exists, Value stage);

 private:
  struct Chunk {
    Value from;  // the index of its first element in the step at k = 0
    Value k;     // its first k within a step
    Value to;    // its place within a stage
    Val exist;   // how many of its elements exist; null: all
  };
  using Place = std::function<std::pair<Value, Val>(Value element)>;

  Val below(Value at, Value end);
  void add(int elements, const Place& place);

  kernel::Builder& b_;
  const Stage stage_;
  int buffer_ = -1;
  Value distance_;
  bool along_k_;
  int copied_;
  std::vector<Chunk> chunks_;
};

}  // namespace reprise::shaders
