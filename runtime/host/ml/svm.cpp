// Support vector machines of ai.onnx.ml. Where the standard is vague about scores and labels, they
// are those of ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/host/ml/scores.h"
#include "runtime/host/packed_matrix.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class KernelType : uint8_t { Linear, Poly, Rbf, Sigmoid };

/// The kernel function of samples with the rows of a matrix.
struct KernelFunction {
  KernelType type = KernelType::Linear;
  double gamma = 0, coef0 = 0, degree = 0;
  int64_t rows = 0, features = 0;
  std::vector<float> vectors;          // [rows, features], for KernelType::Rbf
  std::optional<PackedMatrix> matrix;  // for the others
};

std::vector<float> floats(const Call& c, std::string_view name) {
  const auto* list = c.attrs.get<std::vector<float>>(name);
  return list == nullptr ? std::vector<float>() : *list;
}

/// A matrix of `rows` rows. Without support vectors they are the coefficients, and the function is
/// linear whatever the attributes say.
Result<KernelFunction> read_kernel(const Call& c, std::vector<float> vectors, int64_t rows,
                                   bool is_linear = false) {
  const auto size = static_cast<int64_t>(vectors.size());
  if (rows < 1 || size == 0 || size % rows != 0) {
    return invalid_model("it has " + std::to_string(size) + " numbers for " + std::to_string(rows) +
                         " vectors: " + std::to_string(size) + " is not a positive multiple of " +
                         std::to_string(rows));
  }
  KernelFunction k;
  k.rows = rows;
  k.features = size / rows;
  const std::string name = c.attrs.get_string("kernel_type", "LINEAR");
  constexpr std::string_view kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const auto* at = std::ranges::find(kNames, name);
  if (at == std::end(kNames)) {
    return invalid_model("attribute 'kernel_type' is '" + name +
                         "'; expected LINEAR, POLY, RBF or SIGMOID");
  }
  k.type = static_cast<KernelType>(at - std::begin(kNames));
  const std::vector<float> parameters = floats(c, "kernel_params");
  if (!parameters.empty() && parameters.size() != 3) {
    return invalid_model("attribute 'kernel_params' has " + std::to_string(parameters.size()) +
                         " numbers; expected gamma, coef0 and degree");
  }
  if (!parameters.empty()) {
    k.gamma = parameters[0];
    k.coef0 = parameters[1];
    k.degree = parameters[2];
  }
  if (is_linear) k.type = KernelType::Linear;
  if (k.type == KernelType::Rbf) {
    k.vectors = std::move(vectors);
  } else {
    k.matrix.emplace(HostTensor::from(DType::F32, {rows, k.features}, vectors), 0, k.features,
                     rows);
  }
  return k;
}

double squared_distance(const double* x, const float* v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = x[i] - static_cast<double>(v[i]);
    sum += d * d;
  }
  return sum;
}

/// [count, rows]
Result<std::vector<double>> apply(const KernelFunction& k, const Samples& x) {
  if (x.features != k.features) {
    return invalid_input("the samples have " + std::to_string(x.features) +
                         " features, but the vectors of the model have " +
                         std::to_string(k.features));
  }
  RP_ASSIGN(std::vector<double> out, allocate_scratch(Dims{x.count, k.rows}));
  if (k.type == KernelType::Rbf) {
    for (int64_t i = 0; i < x.count; ++i) {
      for (int64_t r = 0; r < k.rows; ++r) {
        out[static_cast<size_t>(i * k.rows + r)] =
            std::exp(-k.gamma * squared_distance(x.values.data() + i * k.features,
                                                 k.vectors.data() + r * k.features, k.features));
      }
    }
    return out;
  }
  k.matrix->multiply({x.values.data(), x.count, k.features}, {0, k.rows}, {out.data(), k.rows});
  if (k.type == KernelType::Linear) return out;
  for (double& v : out) {
    const double scaled = k.gamma * v + k.coef0;
    v = k.type == KernelType::Poly ? std::pow(scaled, k.degree) : std::tanh(scaled);
  }
  return out;
}

// --- regression

struct SvmRegressor : Prepared {
  KernelFunction kernel;
  std::vector<float> coefficients;  // of the support vectors; empty: a linear model
  double rho = 0;
  bool one_class = false;
};

PrepareResult prepare_svm_regressor(const Call& c) {
  auto s = std::make_shared<SvmRegressor>();
  RP_ASSIGN(const PostTransform post, post_transform(c));
  if (post != PostTransform::None)
    return unsupported("attribute 'post_transform' of a regressor must be NONE");
  const int64_t supports = c.attrs.get_int("n_supports", 0);
  std::vector<float> coefficients = floats(c, "coefficients");
  const std::vector<float> rho = floats(c, "rho");
  if (rho.empty()) return invalid_model("attribute 'rho' is empty");
  s->rho = rho[0];
  s->one_class = c.attrs.get_int("one_class", 0) != 0;
  if (supports <= 0) {
    RP_ASSIGN(s->kernel, read_kernel(c, std::move(coefficients), 1, true));
    return PrepareResult(std::move(s));
  }
  if (coefficients.size() != static_cast<size_t>(supports)) {
    return invalid_model("it has " + std::to_string(coefficients.size()) + " coefficients for " +
                         std::to_string(supports) + " support vectors");
  }
  RP_ASSIGN(s->kernel, read_kernel(c, floats(c, "support_vectors"), supports));
  s->coefficients = std::move(coefficients);
  return PrepareResult(std::move(s));
}

KernelResult svm_regressor(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_ASSIGN(const auto s, prepared<SvmRegressor>(c, prepare_svm_regressor));
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_ASSIGN(const std::vector<double> kernels, apply(s->kernel, x));
  std::vector<double> out(static_cast<size_t>(x.count));
  for (size_t i = 0; i < out.size(); ++i) {
    const double* row = kernels.data() + static_cast<int64_t>(i) * s->kernel.rows;
    const double sum =
        s->coefficients.empty()
            ? row[0]
            : std::inner_product(s->coefficients.begin(), s->coefficients.end(), row, 0.0);
    out[i] = sum + s->rho;
    if (s->one_class) out[i] = out[i] > 0 ? 1 : -1;
  }
  RP_ASSIGN(HostTensor y, store_all(DType::F32, {x.count, 1}, out));
  return one(std::move(y));
}

// --- classification

struct SvmClassifier : Prepared {
  KernelFunction kernel;
  PostTransform post = PostTransform::None;
  ClassLabels labels;
  size_t classes = 0;
  bool is_linear = false;
  std::vector<float> coefficients;         // [classes - 1, vectors]
  std::vector<int64_t> first;              // per class its first vector, and the number of vectors
  std::vector<float> rho, prob_a, prob_b;  // per pair of classes
  bool positive = false;                   // no coefficient is negative
  size_t columns = 0;                      // of the scores
  size_t pairs() const { return classes * (classes - 1) / 2; }
};

Status read_vectors(const Call& c, const std::vector<int64_t>& per_class, SvmClassifier& s) {
  if (s.classes < 2 || per_class.size() != s.classes) {
    return invalid_model("attribute 'vectors_per_class' has " + std::to_string(per_class.size()) +
                         " entries for " + std::to_string(s.classes) +
                         " classes; it needs one for each of at least two");
  }
  std::vector<float> vectors = floats(c, "support_vectors");
  s.first = {0};
  for (const int64_t n : per_class) {
    if (n < 0 || n > static_cast<int64_t>(vectors.size())) {
      return invalid_model("attribute 'vectors_per_class' has the entry " + std::to_string(n) +
                           ", but 'support_vectors' has " + std::to_string(vectors.size()) +
                           " numbers");
    }
    s.first.push_back(s.first.back() + n);
  }
  RP_ASSIGN(s.kernel, read_kernel(c, std::move(vectors), s.first.back()));
  if (s.coefficients.size() < (s.classes - 1) * static_cast<size_t>(s.kernel.rows) ||
      s.rho.size() < s.pairs()) {
    return invalid_model("it has " + std::to_string(s.coefficients.size()) + " coefficients and " +
                         std::to_string(s.rho.size()) + " values of 'rho', too few for " +
                         std::to_string(s.classes) + " classes and " +
                         std::to_string(s.kernel.rows) + " support vectors");
  }
  if (!s.prob_a.empty() && s.prob_a.size() < s.pairs())
    return invalid_model("attributes 'prob_a' and 'prob_b' need a value for each pair of classes");
  return {};
}

PrepareResult prepare_svm_classifier(const Call& c) {
  auto s = std::make_shared<SvmClassifier>();
  RP_ASSIGN(s->labels, ClassLabels::read(c, "classlabels_ints", "classlabels_strings"));
  RP_ASSIGN(s->post, post_transform(c));
  s->classes = s->labels.size();
  s->coefficients = floats(c, "coefficients");
  s->rho = floats(c, "rho");
  s->prob_a = floats(c, "prob_a");
  s->prob_b = floats(c, "prob_b");
  if (s->prob_a.size() != s->prob_b.size())
    return invalid_model("attributes 'prob_a' and 'prob_b' differ in length");
  s->positive = std::ranges::all_of(s->coefficients, [](float v) { return v >= 0; });
  const std::vector<int64_t> per_class = c.attrs.get_ints("vectors_per_class");
  s->is_linear = std::ranges::all_of(per_class, [](int64_t n) { return n == 0; });
  s->columns = s->classes;
  if (s->is_linear) {
    if (s->rho.empty()) return invalid_model("attribute 'rho' is empty");
    RP_ASSIGN(s->kernel, read_kernel(c, s->coefficients, static_cast<int64_t>(s->classes), true));
    return PrepareResult(std::move(s));
  }
  RP_TRY(read_vectors(c, per_class, *s));
  if (s->prob_a.empty() && s->classes > 2) s->columns = s->pairs();
  if (s->prob_a.empty() && s->classes == 2 && s->post == PostTransform::Probit)
    return unsupported("attribute 'post_transform' is PROBIT, which has no meaning for one margin");
  return PrepareResult(std::move(s));
}

/// Probabilities of classes from those of pairs: r[i, j] is that of class i against class j.
/// Wu, Lin and Weng: Probability estimates for multi-class classification by pairwise coupling,
/// 2004, with the stopping condition of LIBSVM.
std::vector<double> couple(const std::vector<double>& r, size_t n) {
  std::vector<double> q(n * n), p(n, 1.0 / static_cast<double>(n)), qp(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  }
  const double epsilon = 0.005 / static_cast<double>(n);
  for (int loop = 0; loop < 100; ++loop) {
    double pqp = 0;
    for (size_t i = 0; i < n; ++i) {
      qp[i] = std::inner_product(p.begin(), p.end(), q.begin() + static_cast<int64_t>(i * n), 0.0);
      pqp += p[i] * qp[i];
    }
    double error = 0;
    for (size_t i = 0; i < n; ++i) error = std::max(error, std::fabs(qp[i] - pqp));
    if (error < epsilon) break;
    for (size_t i = 0; i < n; ++i) {
      const double step = (pqp - qp[i]) / q[i * n + i];
      p[i] += step;
      pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / (1 + step) / (1 + step);
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + step * q[i * n + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

struct Prediction {
  size_t label = 0;
  std::vector<double> scores;
};

/// The margins of all pairs of classes. Each pair votes for one of its classes.
Prediction classify_pairs(const SvmClassifier& s, const double* kernels) {
  Prediction p;
  std::vector<int64_t> votes(s.classes);
  const auto part = [&](size_t of, size_t row) {  // the vectors of a class, with a coefficient row
    double sum = 0;
    for (int64_t k = s.first[of]; k < s.first[of + 1]; ++k)
      sum += s.coefficients[row * static_cast<size_t>(s.kernel.rows) + static_cast<size_t>(k)] *
             kernels[k];
    return sum;
  };
  for (size_t i = 0; i < s.classes; ++i) {
    for (size_t j = i + 1; j < s.classes; ++j) {
      const double margin = part(i, j - 1) + part(j, i) + s.rho[p.scores.size()];
      p.scores.push_back(margin);
      ++votes[margin > 0 ? i : j];
    }
  }
  p.label = static_cast<size_t>(std::ranges::max_element(votes) - votes.begin());
  return p;
}

std::vector<double> probabilities(const SvmClassifier& s, const std::vector<double>& margins) {
  constexpr double kLeast = 1e-7;
  std::vector<double> r(s.classes * s.classes);
  size_t pair = 0;
  for (size_t i = 0; i < s.classes; ++i) {
    for (size_t j = i + 1; j < s.classes; ++j, ++pair) {
      const double at = margins[pair] * s.prob_a[pair] + s.prob_b[pair];
      const double p = std::clamp(1 / (1 + std::exp(at)), kLeast, 1 - kLeast);
      r[i * s.classes + j] = p;
      r[j * s.classes + i] = 1 - p;
    }
  }
  return couple(r, s.classes);
}

Prediction classify_linear(const SvmClassifier& s, const double* products) {
  Prediction p;
  for (size_t k = 0; k < s.classes; ++k) p.scores.push_back(products[k] + s.rho[0]);
  const auto largest = std::ranges::max_element(p.scores);
  p.label = static_cast<size_t>(largest - p.scores.begin());
  const bool above = s.positive ? *largest >= 0.5 : *largest > 0;
  if (s.classes == 2 && s.prob_a.empty() && above) p.label = 1;
  return p;
}

Prediction classify(const SvmClassifier& s, const double* kernels) {
  Prediction p = s.is_linear ? classify_linear(s, kernels) : classify_pairs(s, kernels);
  if (!s.is_linear && !s.prob_a.empty()) p.scores = probabilities(s, p.scores);
  if (p.scores.size() == 1 && s.columns == 2) {
    const bool margin = s.post == PostTransform::None;
    p.scores =
        binary_scores(s.post, margin ? BinaryForm::Margin : BinaryForm::Probability, p.scores[0]);
  } else {
    transform(s.post, p.scores);
  }
  return p;
}

KernelResult svm_classifier(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  RP_ASSIGN(const auto s, prepared<SvmClassifier>(c, prepare_svm_classifier));
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_ASSIGN(const std::vector<double> kernels, apply(s->kernel, x));
  std::vector<size_t> classes;
  std::vector<double> out;
  for (int64_t i = 0; i < x.count; ++i) {
    const Prediction p = classify(*s, kernels.data() + i * s->kernel.rows);
    classes.push_back(p.label);
    out.insert(out.end(), p.scores.begin(), p.scores.end());
  }
  RP_ASSIGN(HostTensor y, s->labels.of(classes));
  RP_ASSIGN(HostTensor z, store_all(DType::F32, {x.count, static_cast<int64_t>(s->columns)}, out));
  return Tensors{std::move(y), std::move(z)};
}

}  // namespace

Table ml_svm_table() {
  static constexpr Entry kTable[] = {{"SVMClassifier", svm_classifier, prepare_svm_classifier},
                                     {"SVMRegressor", svm_regressor, prepare_svm_regressor}};
  return kTable;
}

}  // namespace reprise::host
