// Kernel templates for GEMMs whose matrix units read operands from shared memory (Hopper): the
// stages of an operand that no copy can bring there as it is. It is computed (the prologue of the
// GEMM, an image of a convolution), consists of integers that are weights, or has strides that are
// no multiples of 16 bytes. The invocations of a team load it into registers, convert it, and store
// parts of 16 bytes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "shaders/block_operands.h"

namespace reprise::shaders {

class ConvertedStages {
 public:
  static constexpr int kTeam = 32 * static_cast<int>(kernel::kTeamSubgroups);  // invocations

  /// `elements`: rows of A, or columns of B, of a tile: a multiple of 64. `type`: F16 or BF16.
  ConvertedStages(const TileWork& work, const std::string& name, OperandVectors::Side side,
                  kernel::Ty type, int elements);

  /// Loads a step of the tile whose first row or column is `first`.
  Status load(Value first, Value step);
  /// Stores what was loaded.
  void store(Value stage);

  kernel::TeamOperand form() const;
  /// The index in the shared array of the element of a row or column, a multiple of 64, at a k
  /// within the step.
  Value at(Value stage, Value element, int k) const;

 private:
  /// Of 16 bytes: eight values of k of a row or column, or eight columns at one k.
  struct Part {
    Value element, k, offset;  // the first ones within the tile and the step; the place in a stage
    std::array<int, 2> loaded = {};  // the locals that hold them, four each
  };
  Part part(Value number) const;
  Status load_parts(Value first, Value step, bool whole);

  const TileWork& w_;
  kernel::Builder& b_;
  OperandVectors source_;
  kernel::Ty type_;
  int elements_, shared_ = -1;
  bool neighbours_along_k_;  // in memory
  std::vector<Part> parts_;
};

}  // namespace reprise::shaders
