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

/// How an operand of 16-bit elements lies in the stages from which teams multiply: in groups of 64
/// rows or columns, each of lines of 128 bytes.
namespace team_stages {

inline constexpr int kTeam = 32 * static_cast<int>(kernel::kTeamSubgroups);  // invocations
inline constexpr int kLine = 64;                                             // elements
inline constexpr int kStep = kLine;           // values of k of a stage
inline constexpr int kGroup = kLine * kStep;  // elements of 64 rows or columns

/// An operand in a shared array.
inline kernel::TeamOperand form(int shared, bool along_k) {
  constexpr int kGroupUnits = 2 * kGroup / 1024;  // TeamOperand::group
  return {static_cast<uint16_t>(shared), along_k, kGroupUnits};
}
/// The index in the shared array, with so many elements of rows or columns in a stage, of the
/// element of a row or column, a multiple of 64, at a k within the step.
inline Value at(Value stage, int elements, Value element, int k, bool along_k) {
  return stage * (elements * kStep) + element * kStep + (along_k ? k : k * kLine);
}

}  // namespace team_stages

class ConvertedStages {
 public:
  /// `elements`: rows of A, or columns of B, of a tile: a multiple of 64. `type`: F16 or BF16.
  ConvertedStages(const TileWork& work, const std::string& name, OperandVectors::Side side,
                  kernel::Ty type, int elements);

  /// Loads a step of the tile whose first row or column is `first`.
  Status load(Value first, Value step);
  /// Stores what was loaded, in the same block.
  void store(Value stage);

  kernel::TeamOperand form() const { return team_stages::form(shared_, source_.along_k()); }
  /// See team_stages::at().
  Value at(Value stage, Value element, int k) const {
    return team_stages::at(stage, elements_, element, k, source_.along_k());
  }

 private:
  /// Of 16 bytes: eight values of k of a row or column, or eight columns at one k.
  struct Part {
    Value element, k, offset;  // the first ones within the tile and the step; the place in a stage
    std::array<int, 2> loaded = {};  // the locals that hold them, four each
  };
  void locate_parts();
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
