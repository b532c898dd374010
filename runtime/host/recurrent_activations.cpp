// The functions that gates of RNN, GRU and LSTM can have.
#include <algorithm>

#include "runtime/host/recurrent.h"

namespace reprise::host {

namespace {

struct NamedActivation {
  std::string_view name;  // in lower case
  double (*f)(double, double, double);
  std::optional<float> alpha, beta;  // the default, if the function has the parameter
};

constexpr NamedActivation kActivations[] = {
    {"sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }, {}, {}},
    {"tanh", [](double x, double, double) { return std::tanh(x); }, {}, {}},
    {"relu", [](double x, double, double) { return x < 0 ? 0.0 : x; }, {}, {}},
    {"affine", [](double x, double a, double b) { return a * x + b; }, 1.0F, 0.0F},
    {"leakyrelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 0.01F, {}},
    {"thresholdedrelu", [](double x, double a, double) { return x > a ? x : 0.0; }, 1.0F, {}},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 1.0F, 1.0F},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); },
     0.2F, 0.5F},
    {"elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1.0F, {}},
    {"softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }, {}, {}},
    {"softplus",
     [](double x, double, double) {
       return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
     },
     {},
     {}},
};

const NamedActivation* find_activation(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto* at = std::ranges::find(kActivations, name, &NamedActivation::name);
  return at == std::end(kActivations) ? nullptr : at;
}

/// The values of `activation_alpha` or `activation_beta`.
class Parameters {
 public:
  Parameters(const AttrMap& attrs, std::string_view name)
      : values_(attrs.get<std::vector<float>>(name)) {}
  /// The parameter of the next function, whose default is given if it has this parameter.
  double next(const std::optional<float>& fallback) {
    if (!fallback) return 0;
    const bool given = values_ != nullptr && at_ < values_->size();
    return static_cast<double>(given ? (*values_)[at_++] : *fallback);
  }

 private:
  const std::vector<float>* values_;
  size_t at_ = 0;
};

std::vector<std::string> default_names(Cell cell, int64_t directions) {
  static constexpr std::string_view kDefaults[3][3] = {
      {"tanh"}, {"sigmoid", "tanh"}, {"sigmoid", "tanh", "tanh"}};
  const auto kind = static_cast<size_t>(cell);
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) {
    for (size_t i = 0; i <= kind; ++i) names.emplace_back(kDefaults[kind][i]);
  }
  return names;
}

}  // namespace

Result<std::vector<Activation>> read_activations(const AttrMap& attrs, Cell cell,
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
  std::vector<Activation> out;
  for (const std::string& name : names) {
    const NamedActivation* row = find_activation(name);
    if (row == nullptr) return unsupported("activation '" + name + "' is not known");
    const double a = alpha.next(row->alpha);
    out.push_back({row->f, a, beta.next(row->beta)});
  }
  return out;
}

}  // namespace reprise::host
