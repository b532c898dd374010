#include <algorithm>
#include <cmath>

#include "runtime/host/nn/recurrent.h"

namespace reprise::host {

namespace {

using Function = double (*)(double x, double alpha, double beta);

Function function_of(RecurrentFunction f) {
  switch (f) {
    case RecurrentFunction::Sigmoid:
      return [](double x, double, double) { return 1 / (1 + std::exp(-x)); };
    case RecurrentFunction::Tanh:
      return [](double x, double, double) { return std::tanh(x); };
    case RecurrentFunction::Relu:
      return [](double x, double, double) { return x < 0 ? 0.0 : x; };
    case RecurrentFunction::Affine:
      return [](double x, double a, double b) { return a * x + b; };
    case RecurrentFunction::LeakyRelu:
      return [](double x, double a, double) { return x < 0 ? a * x : x; };
    case RecurrentFunction::ThresholdedRelu:
      return [](double x, double a, double) { return x > a ? x : 0.0; };
    case RecurrentFunction::ScaledTanh:
      return [](double x, double a, double b) { return a * std::tanh(b * x); };
    case RecurrentFunction::HardSigmoid:
      return [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); };
    case RecurrentFunction::Elu:
      return [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; };
    case RecurrentFunction::Softsign:
      return [](double x, double, double) { return x / (1 + std::fabs(x)); };
    case RecurrentFunction::Softplus:
      break;
  }
  return [](double x, double, double) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  };
}

}  // namespace

Result<std::vector<Activation>> read_activations(const AttrMap& attrs, RecurrentCell cell,
                                                 int64_t directions) {
  RP_ASSIGN(const auto given, recurrent_activations(attrs, cell, directions));
  std::vector<Activation> out;
  out.reserve(given.size());
  for (const RecurrentActivation& a : given)
    out.push_back(
        {function_of(a.function), static_cast<double>(a.alpha), static_cast<double>(a.beta)});
  return out;
}

}  // namespace reprise::host
