#include "runtime/operators/recurrent.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace reprise {

namespace {

using enum RecurrentFunction;

struct NamedFunction {
  std::string_view name;  // in lower case
  RecurrentFunction function;
  std::optional<float> alpha, beta;  // the default, if the function has the parameter
};

constexpr NamedFunction kFunctions[] = {
    {"sigmoid", Sigmoid, {}, {}},
    {"tanh", Tanh, {}, {}},
    {"relu", Relu, {}, {}},
    {"affine", Affine, 1.0F, 0.0F},
    {"leakyrelu", LeakyRelu, 0.01F, {}},
    {"thresholdedrelu", ThresholdedRelu, 1.0F, {}},
    {"scaledtanh", ScaledTanh, 1.0F, 1.0F},
    {"hardsigmoid", HardSigmoid, 0.2F, 0.5F},
    {"elu", Elu, 1.0F, {}},
    {"softsign", Softsign, {}, {}},
    {"softplus", Softplus, {}, {}},
};

const NamedFunction* find_function(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto* at = std::ranges::find(kFunctions, name, &NamedFunction::name);
  return at == std::end(kFunctions) ? nullptr : at;
}

/// The values of `activation_alpha` or `activation_beta`.
class Parameters {
 public:
  Parameters(const AttrMap& attrs, std::string_view name)
      : values_(attrs.get<std::vector<float>>(name)) {}
  /// The parameter of the next function, whose default is given if it has this parameter.
  float next(const std::optional<float>& fallback) {
    if (!fallback) return 0;
    return values_ != nullptr && at_ < values_->size() ? (*values_)[at_++] : *fallback;
  }

 private:
  const std::vector<float>* values_;
  size_t at_ = 0;
};

std::vector<std::string> default_names(RecurrentCell cell, int64_t directions) {
  static constexpr std::string_view kDefaults[3][3] = {
      {"tanh"}, {"sigmoid", "tanh"}, {"sigmoid", "tanh", "tanh"}};
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t i = 0; i < functions_of(cell); ++i)
      names.emplace_back(kDefaults[static_cast<size_t>(cell)][i]);
  }
  return names;
}

}  // namespace

Result<std::vector<RecurrentActivation>> recurrent_activations(const AttrMap& attrs,
                                                               RecurrentCell cell,
                                                               int64_t directions) {
  std::vector<std::string> names = default_names(cell, directions);
  if (const auto* given = attrs.get<std::vector<std::string>>("activations")) {
    if (given->size() != names.size()) {
      return invalid_model("attribute 'activations' has " + std::to_string(given->size()) +
                           " names, but needs " + std::to_string(names.size()));
    }
    names = *given;
  }
  Parameters alpha(attrs, "activation_alpha");
  Parameters beta(attrs, "activation_beta");
  std::vector<RecurrentActivation> out;
  for (const std::string& name : names) {
    const NamedFunction* row = find_function(name);
    if (row == nullptr) return unsupported("activation '" + name + "' is not known");
    const float a = alpha.next(row->alpha);
    out.push_back({row->function, a, beta.next(row->beta)});
  }
  return out;
}

}  // namespace reprise
