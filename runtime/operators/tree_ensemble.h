// Tree ensembles of ai.onnx.ml, read from the attributes of their operators.
// https://onnx.ai/onnx/operators/index_ai_onnx_ml.html
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/operators/attrs.h"

namespace reprise::trees {

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

}  // namespace reprise::trees
