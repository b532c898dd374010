// Tree ensembles in a form that is fast to evaluate. The kernels read it from attributes once.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/host/ml_scores.h"

namespace reprise::host {

/// In the order of TreeEnsemble's numbers. A node for Mode::Member becomes several for Mode::Equal.
enum class Mode : uint8_t {
  LessOrEqual,
  Less,
  GreaterOrEqual,
  Greater,
  Equal,
  NotEqual,
  Member,
  Leaf
};

struct TreeNode {
  double value = 0;  // what the feature is compared with
  uint32_t feature = 0;
  uint32_t next[2] = {0, 0};  // the nodes if false and if true; of a leaf, the range of its weights
  Mode mode = Mode::Leaf;
  bool missing_is_true = false;  // NaN takes the branch for true
};

struct LeafWeight {
  uint32_t target = 0;
  double weight = 0;
};

enum class Aggregate : uint8_t { Sum, Average, Min, Max };

/// Trees whose leaves add weights to targets. The branches of every tree end.
struct Ensemble {
  std::vector<TreeNode> nodes;
  std::vector<LeafWeight> weights;
  std::vector<uint32_t> roots;
  int64_t targets = 0;
  uint32_t features = 0;  // that a sample must have
  Aggregate aggregate = Aggregate::Sum;
  std::vector<double> base;  // per target, or empty
  /// Whether all nodes are for Mode::LessOrEqual and none is for missing values.
  bool is_plain = false;
};

/// TreeEnsembleClassifier and TreeEnsembleRegressor; `prefix` is "class" or "target".
Result<Ensemble> read_trees(const AttrMap& attrs, const std::string& prefix, int64_t targets);
/// TreeEnsemble.
Result<Ensemble> read_trees_of_version_5(const AttrMap& attrs);

/// The scores of samples, [sample, target].
template <typename T>
struct TreeScores {
  std::vector<T> values;
  std::vector<uint8_t> given;  // whether a leaf has a weight for the target
};
/// Adds weights in the order of the trees, in the type T. Fails if samples have too few features.
template <typename T>
Result<TreeScores<T>> evaluate_trees(const Ensemble& e, const Samples& x);

}  // namespace reprise::host
