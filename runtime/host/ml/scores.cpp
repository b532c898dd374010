#include "runtime/host/ml/scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace reprise::host {

namespace {

double logistic(double v) {
  return 1 / (1 + std::exp(-v));
}

/// The quantile function of the normal distribution, by the approximation of the inverse error
/// function that ONNX Runtime uses (Winitzki 2008), so that both agree.
double probit(double v) {
  const double x = 2 * v - 1;
  const double log = std::log((1 - x) * (1 + x));
  const double a = 2 / (std::numbers::pi * 0.147) + 0.5 * log;
  const double root = std::sqrt(-a + std::sqrt(a * a - log / 0.147));
  return std::numbers::sqrt2 * (x < 0 ? -root : root);
}

/// With `skip_zeros`, scores of zero stay zero and have no part in the sum.
void softmax(std::span<double> scores, bool skip_zeros) {
  constexpr double kZero = 1e-7;
  const double largest = *std::ranges::max_element(scores);
  const double scale = std::exp(-largest);
  double sum = 0;
  for (double& s : scores) {
    if (skip_zeros && std::fabs(s) <= kZero) {
      s *= scale;
      continue;
    }
    s = std::exp(s - largest);
    sum += s;
  }
  for (double& s : scores) s = sum == 0 ? s : s / sum;
}

}  // namespace

Result<PostTransform> post_transform(const Call& c) {
  const std::string name = c.attrs.get_string("post_transform", "NONE");
  if (name == "NONE") return PostTransform::None;
  if (name == "SOFTMAX") return PostTransform::Softmax;
  if (name == "LOGISTIC") return PostTransform::Logistic;
  if (name == "SOFTMAX_ZERO") return PostTransform::SoftmaxZero;
  if (name == "PROBIT") return PostTransform::Probit;
  return invalid_model("attribute 'post_transform' is '" + name +
                       "'; expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
}

void transform(PostTransform t, std::span<double> scores) {
  switch (t) {
    case PostTransform::None:
      return;
    case PostTransform::Softmax:
    case PostTransform::SoftmaxZero:
      if (!scores.empty()) softmax(scores, t == PostTransform::SoftmaxZero);
      return;
    case PostTransform::Logistic:
      for (double& s : scores) s = logistic(s);
      return;
    case PostTransform::Probit:
      for (double& s : scores) s = probit(s);
      return;
  }
}

std::vector<double> binary_scores(PostTransform t, BinaryForm form, double score) {
  if (t == PostTransform::Logistic) return {logistic(-score), logistic(score)};
  if (form == BinaryForm::Probability) return {1 - score, score};
  return {-score, score};
}

Result<ClassLabels> ClassLabels::read(const Call& c, std::string_view ints,
                                      std::string_view strings) {
  ClassLabels out;
  out.ints_ = c.attrs.get_ints(ints);
  if (const auto* list = c.attrs.get<std::vector<std::string>>(strings)) out.strings_ = *list;
  if (out.ints_.empty() == out.strings_.empty()) {
    return invalid_model("exactly one of the attributes '" + std::string(ints) + "' and '" +
                         std::string(strings) + "' must have labels");
  }
  return out;
}

Result<HostTensor> ClassLabels::of(const std::vector<size_t>& classes) const {
  const Dims dims{static_cast<int64_t>(classes.size())};
  RP_ASSIGN(HostTensor out, allocate(strings_.empty() ? DType::I64 : DType::String, dims));
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= size())
      return invalid_model("class " + std::to_string(classes[i]) + " has no label; there are " +
                           std::to_string(size()));
    if (strings_.empty()) {
      out.mutable_data<int64_t>()[i] = ints_[classes[i]];
    } else {
      out.mutable_strings()[i] = strings_[classes[i]];
    }
  }
  return out;
}

Result<Samples> read_samples(const Call& c) {
  RP_TRY(require_number(c, 0, "samples"));
  RP_TRY(require_rank(c, 0, "samples", 1, 2));
  const HostTensor& x = input(c, 0);
  Samples out;
  out.count = x.rank() == 1 ? 1 : x.dims()[0];
  out.features = x.dims().back();
  RP_ASSIGN(out.values, load_all(x));
  return out;
}

}  // namespace reprise::host
