// What RNN, GRU and LSTM have in common: their cells, and the functions of their gates.
// https://onnx.ai/onnx/operators/onnx__LSTM.html
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/operators/attrs.h"

namespace reprise {

/// The values are those of the attribute `cell` of RecurrentSteps.
enum class RecurrentCell : uint8_t { Rnn, Gru, Lstm };

/// The gates of a cell, in their order in weights: 1; z, r, h; i, o, f, c.
inline constexpr int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::Rnn ? 1 : cell == RecurrentCell::Gru ? 3 : 4;
}
/// The functions of a cell: 1; those of z, r and of h; those of i, o, f, of c, and of the state.
inline constexpr int64_t functions_of(RecurrentCell cell) {
  return cell == RecurrentCell::Rnn ? 1 : cell == RecurrentCell::Gru ? 2 : 3;
}

enum class RecurrentFunction : uint8_t {
  Sigmoid,
  Tanh,
  Relu,
  Affine,           // alpha * x + beta
  LeakyRelu,        // x, or alpha * x below 0
  ThresholdedRelu,  // x above alpha, else 0
  ScaledTanh,       // alpha * tanh(beta * x)
  HardSigmoid,      // alpha * x + beta, clamped to [0, 1]
  Elu,              // x, or alpha * (e^x - 1) below 0
  Softsign,
  Softplus,
};

/// A function with its parameters.
struct RecurrentActivation {
  RecurrentFunction function = RecurrentFunction::Sigmoid;
  float alpha = 0, beta = 0;
  bool operator==(const RecurrentActivation&) const = default;
};

/// The functions of all directions, one after another, from the attributes `activations`,
/// `activation_alpha` and `activation_beta`. Names are not case-sensitive. A function that has
/// parameters takes the next values of the two lists, or its defaults if there are none left.
Result<std::vector<RecurrentActivation>> recurrent_activations(const AttrMap& attrs,
                                                               RecurrentCell cell,
                                                               int64_t directions);

}  // namespace reprise
