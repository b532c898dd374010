// Evaluates tree ensembles. The kernels read them from attributes once.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/host/ml/scores.h"
#include "runtime/operators/tree_ensemble.h"

namespace reprise::host {

using trees::Aggregate;
using trees::Ensemble;
using trees::LeafWeight;
using trees::Mode;
using trees::TreeNode;

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
