// Kernel template for RNN, GRU and LSTM: one workgroup computes all steps of some rows of the
// batch, in one direction. The projections of the inputs by W are operands. In each step
//
//   sums[gate][unit] = projection of the step + R[gate][unit] . h, for the gates of the cell
//   h, c = the cell's functions of the sums
//
// The states h of all units lie in shared memory, twice: a step reads those of the step before, and
// writes its own. The states c belong to the invocation that computes the unit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/target/target_facts.h"
#include "runtime/operators/recurrent.h"
#include "shaders/result_tile.h"

namespace reprise::shaders {

/// A row of the batch. Rows past the last one read like the last one.
struct Sequence {
  Expr row;
  Val exists;    // null: always
  Value length;  // the number of its steps
};

/// `width` neighbouring units of the hidden state.
struct Units {
  Value vec;   // their number
  Expr first;  // the first unit, plus the lane if width > 1
  Val exists;  // null: always
};

/// Where R's elements of a gate and some units lie. Only the Recurrence interprets it.
struct RecurrentWeights {
  Value first;
  Expr weight_row;
};

enum class RecurrentState : uint8_t { H, C };

/// The operands of one direction. Values of units are F32, one lane for each unit.
class Recurrence {
 public:
  virtual ~Recurrence() = default;
  virtual kernel::Builder& builder() = 0;

  virtual Result<Sequence> sequence(Value row) = 0;
  virtual Units units(Value vec) = 0;
  /// Writes code for a sequence or for units that exist.
  virtual Status guard(Val exists, const std::function<Status()>& body) = 0;

  /// The steps that this launch computes, [first_step(), end_step()).
  virtual Value first_step() = 0;
  virtual Value end_step() = 0;
  virtual Status over_steps(const std::function<Status(Value step)>& body) = 0;
  /// for (k = 0; k < hidden; k += count)
  virtual Status over_states(int count, const std::function<Status(Value k)>& body) = 0;

  /// Where the inputs of a step lie, which may run backwards. Beyond the sequence: at the step.
  virtual Expr position(Value step, const Sequence& sequence) = 0;
  /// The projections of the inputs by W, with W's biases.
  virtual Result<Val> projection(const Expr& position, const Sequence& sequence, int gate,
                                 const Units& units) = 0;
  /// R's biases, and the weights of c in a gate (0: i, 1: o, 2: f). Null if there are none.
  virtual Result<Val> bias(int gate, const Units& units) = 0;
  virtual Result<Val> peephole(int gate, const Units& units) = 0;
  virtual Result<Val> initial(RecurrentState state, const Sequence& sequence,
                              const Units& units) = 0;
  /// R's elements of the units for the state k.
  virtual RecurrentWeights weights_of(int gate, const Units& units) = 0;
  virtual Result<Val> weight(const RecurrentWeights& weights, Value k) = 0;
  /// The cell's function number `function` of the direction.
  virtual Value activated(int function, Value x) = 0;

  virtual Status store_step(const Expr& position, const Sequence& sequence, const Units& units,
                            Val h) = 0;
  virtual Status store_final(RecurrentState state, const Sequence& sequence, const Units& units,
                             Val v) = 0;
};

/// The most units of a layer: their states have to fit in the shared memory of any device.
inline constexpr int64_t kMaxHiddenUnits = 1024;

/// What the choice of a tile depends on. A dynamic size has a representative value here.
struct RecurrentSize {
  RecurrentCell cell = RecurrentCell::Lstm;
  bool linear_before_reset = false;
  bool input_forget = false;
  int hidden = 1;
  double clip = 0;  // 0: none
  double batch = 1, directions = 1, steps = 1;

  int gates() const { return static_cast<int>(gates_of(cell)); }
  /// Whether the last gate of a GRU reads the states after the reset gate.
  bool resets_states() const { return cell == RecurrentCell::Gru && !linear_before_reset; }
};

/// TileShape::rows are rows of the batch, TileShape::columns are all units.
struct RecurrentTile : TileShape {
  int width = 1;   // units that are the lanes of a vector
  int blocks = 1;  // vectors of units for each invocation
  int unroll = 1;  // states in the unrolled body of the innermost loop
  bool fma = false;
  double cost = 0;  // estimated time, in the unit of GEMM tiles (contraction.h)

  std::string describe() const;
};

/// Tiles worth considering, cheapest first: a pure function of its arguments, never empty.
std::vector<RecurrentTile> recurrent_tiles(const RecurrentSize& size, const TargetFacts& device);

/// The rows from origin.row, in the kernel that computes them.
struct RecurrentWork {
  Recurrence& recurrence;
  const RecurrentSize& size;
  const RecurrentTile& tile;
  TileOrigin origin;
};
Status write_recurrence(const RecurrentWork& work);

}  // namespace reprise::shaders
