// Operators of ai.onnx.ml where peers differ; tests/conformance/ml has the others.
#include <gtest/gtest.h>

#include "tests/host/cases.h"

namespace reprise::test {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

/// One tree, x <= 0.5, whose leaves have weights for the first of two classes.
AttrMap stump(float below, float above) {
  return attrs({{"class_ids", Ints{0, 0}},
                {"class_nodeids", Ints{1, 2}},
                {"class_treeids", Ints{0, 0}},
                {"class_weights", Floats{below, above}},
                {"classlabels_int64s", Ints{4, 9}},
                {"nodes_falsenodeids", Ints{2, 0, 0}},
                {"nodes_featureids", Ints{0, 0, 0}},
                {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
                {"nodes_nodeids", Ints{0, 1, 2}},
                {"nodes_treeids", Ints{0, 0, 0}},
                {"nodes_truenodeids", Ints{1, 0, 0}},
                {"nodes_values", Floats{0.5F, 0, 0}}});
}

/// Forests of scikit-learn give the probability of the second class, boosted trees its margin.
TEST(HostMl, WeightsOfOneOfTwoClasses) {
  const HostTensor x = f32({2, 1}, {0, 1});
  run_cases({
      {"probability",
       "TreeEnsembleClassifier",
       {x},
       {i64({2}, {4, 9}), f32({2, 2}, {0.75F, 0.25F, 0.375F, 0.625F})},
       stump(0.25F, 0.625F)},
      {"margin",
       "TreeEnsembleClassifier",
       {x},
       {i64({2}, {4, 9}), f32({2, 2}, {0.25F, -0.25F, -0.125F, 0.125F})},
       stump(-0.25F, 0.125F)},
  });
}

/// A file may choose ids that collide in a hash table, which would take minutes.
TEST(HostMl, ReadsTreesWhoseIdsCollide) {
  constexpr size_t kTrees = 200'000;
  Ints trees(kTrees), nodes(kTrees);
  for (size_t i = 0; i < kTrees; ++i) {
    trees[i] = static_cast<int64_t>(i);
    nodes[i] = static_cast<int64_t>(i * 0x9e3779b97f4a7c15U);
  }
  const Ints zeros(kTrees);
  run_cases({{"leaves",
              "TreeEnsembleRegressor",
              {f32({1, 1}, {0})},
              {f32({1, 1}, {kTrees})},
              attrs({{"n_targets", int64_t{1}},
                     {"nodes_falsenodeids", zeros},
                     {"nodes_featureids", zeros},
                     {"nodes_modes", Strings(kTrees, "LEAF")},
                     {"nodes_nodeids", nodes},
                     {"nodes_treeids", trees},
                     {"nodes_truenodeids", zeros},
                     {"nodes_values", Floats(kTrees)},
                     {"target_ids", zeros},
                     {"target_nodeids", nodes},
                     {"target_treeids", trees},
                     {"target_weights", Floats(kTrees, 1)}})}});
}

TEST(HostMl, VectorsOfAClass) {
  run_error_cases({{"entry",
                    "SVMClassifier",
                    {f32({1, 2}, {0, 0})},
                    Code::InvalidModel,
                    "has the entry 9, but 'support_vectors' has 4 numbers",
                    attrs({{"classlabels_ints", Ints{0, 1}},
                           {"coefficients", Floats(2)},
                           {"rho", Floats{0}},
                           {"support_vectors", Floats(4)},
                           {"vectors_per_class", Ints{1, 9}}})}});
}

TEST(HostMl, ListsOfUnequalLength) {
  run_error_cases({{"true leaves",
                    "TreeEnsemble",
                    {f32({1, 1}, {0})},
                    Code::InvalidModel,
                    "attribute 'nodes_trueleafs' has 3 elements instead of 1",
                    attrs({{"leaf_targetids", Ints{0, 0}},
                           {"leaf_weights", f32({2}, {1, 2})},
                           {"nodes_falseleafs", Ints{1}},
                           {"nodes_falsenodeids", Ints{0}},
                           {"nodes_featureids", Ints{0}},
                           {"nodes_modes", u8({1}, {0})},
                           {"nodes_splits", f32({1}, {0.5F})},
                           {"nodes_trueleafs", Ints{1, 1, 1}},
                           {"nodes_truenodeids", Ints{1}},
                           {"tree_roots", Ints{0}}})}});
}

TEST(HostMl, SupportVectorsOfUnequalSize) {
  run_error_cases({{"coefficients",
                    "SVMRegressor",
                    {f32({1, 2}, {0, 0})},
                    Code::InvalidModel,
                    "12 is not a positive multiple of 5",
                    attrs({{"coefficients", Floats(5)},
                           {"n_supports", int64_t{5}},
                           {"rho", Floats{0}},
                           {"support_vectors", Floats(12)}})}});
}

}  // namespace
}  // namespace reprise::test
