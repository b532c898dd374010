// Scores of classifiers and regressors of ai.onnx.ml.
#pragma once

#include <string>
#include <vector>

#include "runtime/host/support.h"

namespace reprise::host {

/// In the order of TreeEnsemble's numbers.
enum class PostTransform : uint8_t { None, Softmax, Logistic, SoftmaxZero, Probit };

Result<PostTransform> post_transform(const Call& c);
/// Transforms the scores of one sample.
void transform(PostTransform t, std::span<double> scores);
/// The only score of a sample, as scores of the negative and the positive class. With
/// PostTransform::Logistic these are the logistic functions of -s and s.
enum class BinaryForm : uint8_t {
  Probability,  // 1 - s, s
  Margin,       // -s, s
};
std::vector<double> binary_scores(PostTransform t, BinaryForm form, double score);

/// The labels of classes, which are integers or strings.
class ClassLabels {
 public:
  static Result<ClassLabels> read(const Call& c, std::string_view ints, std::string_view strings);
  size_t size() const { return strings_.empty() ? ints_.size() : strings_.size(); }
  /// A tensor of the labels of these classes.
  Result<HostTensor> of(const std::vector<size_t>& classes) const;

 private:
  std::vector<int64_t> ints_;
  std::vector<std::string> strings_;
};

/// Samples as rows of features: input 0, of rank 1 (one sample) or 2.
struct Samples {
  int64_t count = 0, features = 0;
  std::vector<double> values;
};
Result<Samples> read_samples(const Call& c);

}  // namespace reprise::host
