// LinearClassifier of ai.onnx.ml. LinearRegressor decomposes to a MatMul.
#include <algorithm>

#include "runtime/host/ml/scores.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

KernelResult linear_classifier(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_ASSIGN(const PostTransform post, post_transform(c));
  RP_ASSIGN(const ClassLabels labels,
            ClassLabels::read(c, "classlabels_ints", "classlabels_strings"));
  const auto* weights = c.attrs.get<std::vector<float>>("coefficients");
  const auto* bias = c.attrs.get<std::vector<float>>("intercepts");
  const auto features = static_cast<size_t>(x.features);
  if (weights == nullptr || features == 0 || weights->size() % features != 0 || weights->empty()) {
    return invalid_model("its coefficients are no multiple of the " + std::to_string(features) +
                         " features of a sample");
  }
  const size_t rows = weights->size() / features;
  if (bias != nullptr && bias->size() != rows)
    return invalid_model("it has " + std::to_string(bias->size()) + " intercepts for " +
                         std::to_string(rows) + " rows of coefficients");
  const bool binary = rows == 1 && labels.size() == 2;
  std::vector<size_t> classes;
  std::vector<double> out;
  for (int64_t i = 0; i < x.count; ++i) {
    const double* sample = x.values.data() + i * x.features;
    std::vector<double> scores(rows);
    for (size_t r = 0; r < rows; ++r) {
      scores[r] = bias == nullptr ? 0 : (*bias)[r];
      for (size_t f = 0; f < features; ++f) scores[r] += sample[f] * (*weights)[r * features + f];
    }
    const auto largest = std::ranges::max_element(scores);
    classes.push_back(binary ? (scores[0] > 0 ? 1 : 0)
                             : static_cast<size_t>(largest - scores.begin()));
    if (binary && post != PostTransform::Probit) {
      // The scores of both classes: probabilities if they are logistic, and 1 - s otherwise.
      const bool margin = post == PostTransform::Logistic;
      scores =
          binary_scores(post, margin ? BinaryForm::Margin : BinaryForm::Probability, scores[0]);
    } else {
      transform(post, scores);
    }
    out.insert(out.end(), scores.begin(), scores.end());
  }
  const int64_t columns = x.count == 0 ? static_cast<int64_t>(binary ? 2 : rows)
                                       : static_cast<int64_t>(out.size()) / x.count;
  RP_ASSIGN(HostTensor y, labels.of(classes));
  RP_ASSIGN(HostTensor z, store_all(DType::F32, {x.count, columns}, out));
  return Tensors{std::move(y), std::move(z)};
}

}  // namespace

Table ml_linear_table() {
  static constexpr Entry kTable[] = {{"LinearClassifier", linear_classifier}};
  return kTable;
}

}  // namespace reprise::host
