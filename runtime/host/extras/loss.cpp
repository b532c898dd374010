// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// Scores [N, C, d...] as log-probabilities, and targets [N, d...].
struct LossProblem {
  AxisSplit split;
  Dims targets;
  std::vector<double> weights;  // per class
  bool has_ignored = false;
  int64_t ignored = 0;
};

Result<LossProblem> read_loss(const Call& c) {
  RP_TRY(require_float(c, 0, "scores"));
  RP_TRY(require_rank(c, 0, "scores", 2, std::numeric_limits<int64_t>::max()));
  const Dims& x = input(c, 0).dims();
  Dims expected = x;
  expected.erase(expected.begin() + 1);
  if (input(c, 1).dims() != expected) {
    return invalid_input(describe_input(c, 1, "target") + ": must have shape " +
                         dims_str(expected));
  }
  LossProblem p;
  p.split = split_at(x, 1);
  RP_ASSIGN(p.targets, tensor_ints(input(c, 1), "input 1 (target)"));
  p.has_ignored = c.attrs.has("ignore_index");
  p.ignored = c.attrs.get_int("ignore_index", 0);
  p.weights.assign(static_cast<size_t>(p.split.size), 1.0);
  if (has_input(c, 2)) {
    RP_TRY(require_same_dtype(c, 0, 2));
    if (input(c, 2).dims() != Dims{p.split.size}) {
      return invalid_input(describe_input(c, 2, "weight") + ": needs one number per class");
    }
    RP_ASSIGN(p.weights, load_all(input(c, 2)));
  }
  for (size_t i = 0; i < p.targets.size(); ++i) {
    const int64_t t = p.targets[i];
    if ((p.has_ignored && t == p.ignored) || (t >= 0 && t < p.split.size)) continue;
    return invalid_input("target " + std::to_string(t) + " (element " + std::to_string(i) +
                         ") is out of range for " + std::to_string(p.split.size) + " classes");
  }
  return p;
}

/// Computes log-softmax in place, over axis 1.
void log_softmax(const AxisSplit& s, std::vector<double>& v) {
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    double* line = v.data() + i / s.inner * s.size * s.inner + i % s.inner;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < s.size; ++k) top = std::max(top, line[k * s.inner]);
    double sum = 0;
    for (int64_t k = 0; k < s.size; ++k) sum += std::exp(line[k * s.inner] - top);
    for (int64_t k = 0; k < s.size; ++k) line[k * s.inner] -= top + std::log(sum);
  }
}

Result<HostTensor> reduce_loss(const Call& c, const LossProblem& p,
                               const std::vector<double>& scores) {
  const std::string reduction = c.attrs.get_string("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return invalid_model("attribute 'reduction' is '" + reduction + "', must be none, sum or mean");
  }
  std::vector<double> loss(p.targets.size(), 0.0);
  double sum = 0;
  double total_weight = 0;
  for (size_t i = 0; i < loss.size(); ++i) {
    if (p.has_ignored && p.targets[i] == p.ignored) continue;
    const auto n = static_cast<int64_t>(i);
    const int64_t at_score =
        (n / p.split.inner * p.split.size + p.targets[i]) * p.split.inner + n % p.split.inner;
    const double weight = p.weights[static_cast<size_t>(p.targets[i])];
    loss[i] = -scores[static_cast<size_t>(at_score)] * weight;
    sum += loss[i];
    total_weight += weight;
  }
  const DType t = input(c, 0).dtype();
  if (reduction == "none") return store_all(t, input(c, 1).dims(), loss);
  return store_all(t, {}, {reduction == "sum" ? sum : sum / total_weight});
}

KernelResult negative_log_likelihood(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_ASSIGN(const LossProblem p, read_loss(c));
  RP_ASSIGN(const auto scores, load_all(input(c, 0)));
  RP_ASSIGN(auto y, reduce_loss(c, p, scores));
  return one(std::move(y));
}

KernelResult softmax_cross_entropy(const Call& c) {
  RP_TRY(check_arity(c, 2, 3, 2));
  RP_ASSIGN(const LossProblem p, read_loss(c));
  RP_ASSIGN(auto scores, load_all(input(c, 0)));
  log_softmax(p.split, scores);
  RP_ASSIGN(auto y, reduce_loss(c, p, scores));
  Tensors out;
  out.push_back(std::move(y));
  if (c.output_count > 1) {
    RP_ASSIGN(auto log_probabilities, store_all(input(c, 0).dtype(), input(c, 0).dims(), scores));
    out.push_back(std::move(log_probabilities));
  }
  return out;
}

}  // namespace

Table loss_table() {
  static constexpr Entry kTable[] = {
      {"NegativeLogLikelihoodLoss", negative_log_likelihood},
      {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
  };
  return kTable;
}

}  // namespace reprise::host
