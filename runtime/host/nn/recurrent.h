// The functions of the gates of RNN, GRU and LSTM, on the host.
#pragma once

#include "runtime/host/support.h"
#include "runtime/operators/recurrent.h"

namespace reprise::host {

/// The function of a gate with its parameters.
struct Activation {
  double (*f)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double operator()(double x) const { return f(x, alpha, beta); }
};

/// See recurrent_activations().
Result<std::vector<Activation>> read_activations(const AttrMap& attrs, RecurrentCell cell,
                                                 int64_t directions);

}  // namespace reprise::host
