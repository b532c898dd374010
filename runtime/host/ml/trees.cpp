// Tree ensembles of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor, and TreeEnsemble,
// which replaces both from version 5 on.
#include "runtime/host/ml/trees.h"

#include <algorithm>
#include <bit>

#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

// --- regression

struct TreeRegressor : Prepared {
  Ensemble trees;
  PostTransform post = PostTransform::None;
};

Result<Aggregate> aggregate_of(const std::string& name) {
  if (name == "SUM") return Aggregate::Sum;
  if (name == "AVERAGE") return Aggregate::Average;
  if (name == "MIN") return Aggregate::Min;
  if (name == "MAX") return Aggregate::Max;
  return invalid_model("attribute 'aggregate_function' is '" + name +
                       "'; expected SUM, AVERAGE, MIN or MAX");
}

PrepareResult prepare_tree_regressor(const Call& c) {
  const int64_t targets = c.attrs.get_int("n_targets", 0);
  if (targets < 1) return invalid_model("attribute 'n_targets' must be at least 1");
  auto state = std::make_shared<TreeRegressor>();
  RP_ASSIGN(state->trees, trees::read_trees(c.attrs, "target", targets));
  RP_ASSIGN(state->trees.aggregate, aggregate_of(c.attrs.get_string("aggregate_function", "SUM")));
  RP_ASSIGN(state->post, post_transform(c));
  const size_t base = state->trees.base.size();
  if (base != 0 && base != static_cast<size_t>(targets))
    return invalid_model("attribute 'base_values' has " + std::to_string(base) +
                         " elements instead of " + std::to_string(targets));
  return PrepareResult(std::move(state));
}

PrepareResult prepare_ensemble(const Call& c) {
  constexpr Aggregate kAggregates[] = {Aggregate::Average, Aggregate::Sum, Aggregate::Min,
                                       Aggregate::Max};
  const int64_t aggregate = c.attrs.get_int("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3)
    return invalid_model("attribute 'aggregate_function' is not in [0, 3]");
  const int64_t post = c.attrs.get_int("post_transform", 0);
  if (post < 0 || post > 4) return invalid_model("attribute 'post_transform' is not in [0, 4]");
  auto state = std::make_shared<TreeRegressor>();
  RP_ASSIGN(state->trees, trees::read_trees_of_version_5(c.attrs));
  state->trees.aggregate = kAggregates[aggregate];
  state->post = static_cast<PostTransform>(post);
  return PrepareResult(std::move(state));
}

/// The aggregated values of all samples, [count, targets]. No decision depends on the sums, so they
/// are in double.
KernelResult regress(const Call& c, const TreeRegressor& state, DType dtype) {
  const Ensemble& e = state.trees;
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_ASSIGN(TreeScores<double> scores, evaluate_trees<double>(e, x));
  const auto targets = static_cast<size_t>(e.targets);
  for (size_t at = 0; at < scores.values.size(); at += targets) {
    const std::span<double> row(scores.values.data() + at, targets);
    for (size_t t = 0; t < e.base.size(); ++t) row[t] += e.base[t];
    transform(state.post, row);
  }
  RP_ASSIGN(HostTensor y, store_all(dtype, {x.count, e.targets}, scores.values));
  return one(std::move(y));
}

KernelResult tree_ensemble_regressor(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_ASSIGN(const auto state, prepared<TreeRegressor>(c, prepare_tree_regressor));
  return regress(c, *state, DType::F32);
}

KernelResult tree_ensemble(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "samples"));
  RP_ASSIGN(const auto state, prepared<TreeRegressor>(c, prepare_ensemble));
  return regress(c, *state, input(c, 0).dtype());
}

// --- classification

/// How the weights of two classes decide. The standard does not say what weights for one class
/// alone mean; exporters of scikit-learn write such models.
enum class Decision : uint8_t {
  Largest,      // the class with the largest score
  Probability,  // the second class, if the only sum is above 0.5: no weight is negative (a forest)
  Margin,       // the second class, if the only sum is above 0 (boosted trees)
};

struct TreeClassifier : Prepared {
  Ensemble trees;
  PostTransform post = PostTransform::None;
  ClassLabels labels;
  Decision decision = Decision::Largest;
  size_t weighted = 0;  // the only class with weights, unless the largest score decides
};

void find_decision(TreeClassifier& s) {
  if (s.trees.targets != 2 || s.trees.weights.empty()) return;
  const uint32_t only = s.trees.weights[0].target;
  const bool is_only = std::ranges::all_of(
      s.trees.weights, [only](const LeafWeight& w) { return w.target == only; });
  if (!is_only) return;
  const bool positive =
      std::ranges::all_of(s.trees.weights, [](const LeafWeight& w) { return w.weight >= 0; });
  s.decision = positive ? Decision::Probability : Decision::Margin;
  s.weighted = only;
}

PrepareResult prepare_tree_classifier(const Call& c) {
  auto state = std::make_shared<TreeClassifier>();
  RP_ASSIGN(state->labels, ClassLabels::read(c, "classlabels_int64s", "classlabels_strings"));
  RP_ASSIGN(state->post, post_transform(c));
  RP_ASSIGN(state->trees,
            trees::read_trees(c.attrs, "class", static_cast<int64_t>(state->labels.size())));
  find_decision(*state);
  return PrepareResult(std::move(state));
}

/// The scores of one sample with base values, and whether they count.
template <typename T>
struct SampleScores {
  std::span<T> values;
  std::span<const uint8_t> given;
};

/// The class has the largest score. Of more than two classes, those without a base value for which
/// no leaf of the sample has a weight do not count, unless that is true of all.
template <typename T>
size_t largest_score(const TreeClassifier& s, const SampleScores<T>& scores) {
  size_t label = 0;
  bool found = false;
  for (size_t k = 0; k < scores.values.size(); ++k) {
    const bool counts = scores.given[k] || k < s.trees.base.size() || scores.values.size() <= 2;
    if (!counts || (found && scores.values[k] <= scores.values[label])) continue;
    label = k;
    found = true;
  }
  return label;
}

template <typename T>
size_t judge(const TreeClassifier& s, const SampleScores<T>& scores) {
  const auto above = [&](double limit) { return scores.values[s.weighted] > limit ? 1U : 0U; };
  switch (s.decision) {
    case Decision::Largest:
      break;
    case Decision::Probability:
      return above(0.5);
    case Decision::Margin:
      return above(0);
  }
  return largest_score(s, scores);
}

/// T is the type of the sums. It decides about ties: five weights of 0.1 are 0.5 in float32.
template <typename T>
KernelResult classify(const TreeClassifier& s, const Samples& x) {
  RP_ASSIGN(TreeScores<T> scores, evaluate_trees<T>(s.trees, x));
  const std::vector<double>& base = s.trees.base;
  const auto n = static_cast<size_t>(s.trees.targets);
  const auto count = static_cast<size_t>(x.count);
  std::vector<size_t> classes(count);
  std::vector<double> out(count * n);
  for (size_t i = 0; i < count; ++i) {
    const SampleScores<T> sample{{scores.values.data() + i * n, n},
                                 {scores.given.data() + i * n, n}};
    for (size_t k = 0; k < std::min(n, base.size()); ++k)
      sample.values[k] += static_cast<T>(base[k]);
    classes[i] = judge(s, sample);
    const std::span<double> row(out.data() + i * n, n);
    if (s.decision != Decision::Largest && s.weighted == 0) {
      const BinaryForm form =
          s.decision == Decision::Probability ? BinaryForm::Probability : BinaryForm::Margin;
      std::ranges::copy(binary_scores(s.post, form, sample.values[0]), row.begin());
    } else {
      std::ranges::copy(sample.values, row.begin());
      transform(s.post, row);
    }
  }
  RP_ASSIGN(HostTensor y, s.labels.of(classes));
  RP_ASSIGN(HostTensor z, store_all(DType::F32, {x.count, s.trees.targets}, out));
  return Tensors{std::move(y), std::move(z)};
}

KernelResult tree_ensemble_classifier(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  RP_ASSIGN(const auto state, prepared<TreeClassifier>(c, prepare_tree_classifier));
  RP_ASSIGN(const Samples x, read_samples(c));
  return input(c, 0).dtype() == DType::F64 ? classify<double>(*state, x)
                                           : classify<float>(*state, x);
}

// --- the core form

/// The leaf to which each tree leads each sample. A node is {feature * 16 + outcomes, the bits of
/// the value, the node if the outcome is not among them, the node if it is}. The outcome is 1 if
/// the feature is less than the value, 2 if equal, 4 if greater, 8 if either is NaN. Leaves lead to
/// themselves. Indices out of range, which no compiler writes, are clamped.
KernelResult tree_leaves(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_rank(c, 0, "samples", 2, 2));
  RP_TRY(require_rank(c, 1, "nodes", 2, 2));
  RP_TRY(require_rank(c, 2, "roots", 1, 1));
  const HostTensor &x = input(c, 0), &nodes = input(c, 1), &roots = input(c, 2);
  const int64_t rows = x.dims()[0], features = x.dims()[1], trees = roots.count();
  const int64_t count = nodes.dims()[0];
  const bool types =
      x.dtype() == DType::F32 && nodes.dtype() == DType::I32 && roots.dtype() == DType::I32;
  if (!types || nodes.dims()[1] != 4 || ((count == 0 || features == 0) && rows * trees != 0))
    return internal_error("TreeLeaves has unfit operands");
  RP_ASSIGN(HostTensor y, allocate(DType::I32, {trees, rows}));
  const auto* table = nodes.data<int32_t>();
  const int64_t depth = c.attrs.get_int("depth", 0);
  for (int64_t i = 0; i < rows * trees; ++i) {
    const float* sample = x.data<float>() + i % rows * features;
    int64_t at = roots.data<int32_t>()[i / rows];
    for (int64_t step = 0; step < depth; ++step) {
      const int32_t* node = table + std::clamp<int64_t>(at, 0, count - 1) * 4;
      const float v = sample[std::clamp<int64_t>(node[0] >> 4, 0, features - 1)];
      const auto value = std::bit_cast<float>(node[1]);
      const int outcome = v < value ? 1 : v == value ? 2 : v > value ? 4 : 8;
      at = (node[0] & outcome) != 0 ? node[3] : node[2];
    }
    y.mutable_data<int32_t>()[i] = static_cast<int32_t>(at);
  }
  return one(std::move(y));
}

}  // namespace

Table ml_trees_table() {
  static constexpr Entry kTable[] = {
      {"TreeEnsemble", tree_ensemble, prepare_ensemble},
      {"TreeEnsembleClassifier", tree_ensemble_classifier, prepare_tree_classifier},
      {"TreeEnsembleRegressor", tree_ensemble_regressor, prepare_tree_regressor},
      {"TreeLeaves", tree_leaves}};
  return kTable;
}

}  // namespace reprise::host
