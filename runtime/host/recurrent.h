// What the kernels of RNN, GRU and LSTM share with the functions of their gates.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

enum class Cell : uint8_t { Rnn, Gru, Lstm };

/// The function of a gate with its parameters.
struct Activation {
  double (*f)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double operator()(double x) const { return f(x, alpha, beta); }
};

/// The functions of all directions, one after another: 1 (RNN), 2 (GRU) or 3 (LSTM) for each.
/// Names are not case-sensitive. A function that has parameters takes the next values of
/// `activation_alpha` and `activation_beta`, or its defaults if there are none left.
Result<std::vector<Activation>> read_activations(const AttrMap& attrs, Cell cell,
                                                 int64_t directions);

}  // namespace reprise::host
