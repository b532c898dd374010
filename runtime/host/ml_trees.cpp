// Tree ensembles of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor, and TreeEnsemble,
// which replaces both from version 5 on. https://onnx.ai/onnx/operators/index_ai_onnx_ml.html
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "runtime/host/ml_scores.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// In the order of TreeEnsemble's numbers.
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
  Mode mode = Mode::Leaf;
  bool missing_is_true = false;  // NaN takes the branch for true
  int64_t feature = 0;
  double value = 0;
  std::vector<double> members;                      // for Mode::Member
  size_t if_true = 0, if_false = 0;                 // nodes
  std::vector<std::pair<int64_t, double>> weights;  // of a leaf: target and weight
};

enum class Aggregate : uint8_t { Sum, Average, Min, Max };

/// Trees whose leaves add weights to targets.
struct Ensemble {
  std::vector<TreeNode> nodes;
  std::vector<size_t> roots;
  int64_t targets = 0;
  Aggregate aggregate = Aggregate::Sum;
  std::vector<double> base;  // per target, or empty
};

bool takes_true(const TreeNode& n, double x) {
  if (std::isnan(x) && n.missing_is_true) return true;
  switch (n.mode) {
    case Mode::LessOrEqual:
      return x <= n.value;
    case Mode::Less:
      return x < n.value;
    case Mode::GreaterOrEqual:
      return x >= n.value;
    case Mode::Greater:
      return x > n.value;
    case Mode::Equal:
      return x == n.value;
    case Mode::NotEqual:
      return x != n.value;
    case Mode::Member:
      return std::ranges::find(n.members, x) != n.members.end();
    case Mode::Leaf:
      break;
  }
  return false;
}

/// Indices of nodes and features are in range, and following branches ends.
Status check(const Ensemble& e, int64_t features) {
  for (const TreeNode& n : e.nodes) {
    if (n.mode == Mode::Leaf) {
      for (const auto& [target, weight] : n.weights) {
        if (target < 0 || target >= e.targets)
          return invalid_model("a leaf has a weight for target " + std::to_string(target) + " of " +
                               std::to_string(e.targets));
      }
      continue;
    }
    if (n.if_true >= e.nodes.size() || n.if_false >= e.nodes.size())
      return invalid_model("a branch leads to a node that does not exist");
    if (n.feature < 0 || n.feature >= features)
      return invalid_input("a node reads feature " + std::to_string(n.feature) +
                           ", but the samples have " + std::to_string(features));
  }
  return {};
}

struct Score {
  double value = 0;
  bool given = false;
};

Result<std::vector<Score>> evaluate(const Ensemble& e, const double* sample) {
  std::vector<Score> scores(static_cast<size_t>(e.targets));
  for (const size_t root : e.roots) {
    size_t at = root;
    size_t steps = 0;
    while (e.nodes[at].mode != Mode::Leaf) {
      const TreeNode& n = e.nodes[at];
      if (++steps > e.nodes.size()) return invalid_model("the branches of a tree form a cycle");
      at = takes_true(n, sample[n.feature]) ? n.if_true : n.if_false;
    }
    for (const auto& [target, weight] : e.nodes[at].weights) {
      Score& s = scores[static_cast<size_t>(target)];
      const bool sums = e.aggregate == Aggregate::Sum || e.aggregate == Aggregate::Average;
      s.value = !s.given                        ? weight
                : sums                          ? s.value + weight
                : e.aggregate == Aggregate::Min ? std::min(s.value, weight)
                                                : std::max(s.value, weight);
      s.given = true;
    }
  }
  if (e.aggregate == Aggregate::Average && !e.roots.empty()) {
    for (Score& s : scores) s.value /= static_cast<double>(e.roots.size());
  }
  return scores;
}

// --- reading attributes

/// A list of floats, which newer versions may give as a tensor "NAME_as_tensor".
Result<std::vector<double>> numbers(const Call& c, const std::string& name) {
  if (const auto* t = c.attrs.get<HostTensor>(name + "_as_tensor")) return load_all(*t);
  if (const auto* t = c.attrs.get<HostTensor>(name)) return load_all(*t);
  const auto* list = c.attrs.get<std::vector<float>>(name);
  return list == nullptr ? std::vector<double>() : std::vector<double>(list->begin(), list->end());
}

Status same_size(size_t found, size_t expected, const std::string& name) {
  if (found == expected) return {};
  return invalid_model("attribute '" + name + "' has " + std::to_string(found) +
                       " elements instead of " + std::to_string(expected));
}

Result<Mode> mode_of(const std::string& name) {
  static const std::map<std::string, Mode> kModes{{"BRANCH_LEQ", Mode::LessOrEqual},
                                                  {"BRANCH_LT", Mode::Less},
                                                  {"BRANCH_GTE", Mode::GreaterOrEqual},
                                                  {"BRANCH_GT", Mode::Greater},
                                                  {"BRANCH_EQ", Mode::Equal},
                                                  {"BRANCH_NEQ", Mode::NotEqual},
                                                  {"LEAF", Mode::Leaf}};
  const auto at = kModes.find(name);
  if (at != kModes.end()) return at->second;
  return invalid_model("attribute 'nodes_modes' has the unknown mode '" + name + "'");
}

/// The nodes of the two older operators, by the ids of their trees and of themselves.
class Nodes {
 public:
  Status read(const Call& c, Ensemble& e);
  Result<size_t> find(int64_t tree, int64_t id) const {
    const auto at = index_.find({tree, id});
    if (at != index_.end()) return at->second;
    return invalid_model("tree " + std::to_string(tree) + " has no node " + std::to_string(id));
  }

 private:
  Status link(const Call& c, Ensemble& e);
  std::vector<int64_t> trees_, ids_;
  std::map<std::pair<int64_t, int64_t>, size_t> index_;
};

Status Nodes::read(const Call& c, Ensemble& e) {
  const auto* modes = c.attrs.get<std::vector<std::string>>("nodes_modes");
  if (modes == nullptr) return invalid_model("attribute 'nodes_modes' is missing");
  const size_t n = modes->size();
  trees_ = c.attrs.get_ints("nodes_treeids");
  ids_ = c.attrs.get_ints("nodes_nodeids");
  const std::vector<int64_t> features = c.attrs.get_ints("nodes_featureids");
  const std::vector<int64_t> missing =
      c.attrs.get_ints("nodes_missing_value_tracks_true", std::vector<int64_t>(n, 0));
  RP_ASSIGN(const std::vector<double> values, numbers(c, "nodes_values"));
  RP_TRY(same_size(trees_.size(), n, "nodes_treeids"));
  RP_TRY(same_size(ids_.size(), n, "nodes_nodeids"));
  RP_TRY(same_size(features.size(), n, "nodes_featureids"));
  RP_TRY(same_size(values.size(), n, "nodes_values"));
  RP_TRY(same_size(missing.size(), n, "nodes_missing_value_tracks_true"));
  e.nodes.resize(n);
  for (size_t i = 0; i < n; ++i) {
    RP_ASSIGN(e.nodes[i].mode, mode_of((*modes)[i]));
    e.nodes[i].feature = features[i];
    e.nodes[i].value = values[i];
    e.nodes[i].missing_is_true = missing[i] != 0;
    if (!index_.emplace(std::pair(trees_[i], ids_[i]), i).second)
      return invalid_model("tree " + std::to_string(trees_[i]) + " has two nodes " +
                           std::to_string(ids_[i]));
  }
  return link(c, e);
}

Status Nodes::link(const Call& c, Ensemble& e) {
  const size_t n = e.nodes.size();
  const std::vector<int64_t> if_true = c.attrs.get_ints("nodes_truenodeids");
  const std::vector<int64_t> if_false = c.attrs.get_ints("nodes_falsenodeids");
  RP_TRY(same_size(if_true.size(), n, "nodes_truenodeids"));
  RP_TRY(same_size(if_false.size(), n, "nodes_falsenodeids"));
  std::vector<bool> is_child(n, false);
  for (size_t i = 0; i < n; ++i) {
    if (e.nodes[i].mode == Mode::Leaf) continue;
    RP_ASSIGN(e.nodes[i].if_true, find(trees_[i], if_true[i]));
    RP_ASSIGN(e.nodes[i].if_false, find(trees_[i], if_false[i]));
    is_child[e.nodes[i].if_true] = is_child[e.nodes[i].if_false] = true;
  }
  for (size_t i = 0; i < n; ++i)
    if (!is_child[i]) e.roots.push_back(i);
  return {};
}

/// Adds the weights of leaves; `prefix` is "class" or "target".
Status read_weights(const Call& c, const std::string& prefix, const Nodes& nodes, Ensemble& e) {
  const std::vector<int64_t> ids = c.attrs.get_ints(prefix + "_ids");
  const std::vector<int64_t> trees = c.attrs.get_ints(prefix + "_treeids");
  const std::vector<int64_t> node_ids = c.attrs.get_ints(prefix + "_nodeids");
  RP_ASSIGN(const std::vector<double> weights, numbers(c, prefix + "_weights"));
  RP_TRY(same_size(trees.size(), ids.size(), prefix + "_treeids"));
  RP_TRY(same_size(node_ids.size(), ids.size(), prefix + "_nodeids"));
  RP_TRY(same_size(weights.size(), ids.size(), prefix + "_weights"));
  for (size_t i = 0; i < ids.size(); ++i) {
    RP_ASSIGN(const size_t at, nodes.find(trees[i], node_ids[i]));
    e.nodes[at].weights.emplace_back(ids[i], weights[i]);
  }
  RP_ASSIGN(e.base, numbers(c, "base_values"));
  return {};
}

Result<Aggregate> aggregate_of(const std::string& name) {
  if (name == "SUM") return Aggregate::Sum;
  if (name == "AVERAGE") return Aggregate::Average;
  if (name == "MIN") return Aggregate::Min;
  if (name == "MAX") return Aggregate::Max;
  return invalid_model("attribute 'aggregate_function' is '" + name +
                       "'; expected SUM, AVERAGE, MIN or MAX");
}

// --- operators

/// The aggregated values of all samples, [count, targets].
KernelResult regress(const Call& c, const Ensemble& e, PostTransform post, DType dtype) {
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_TRY(check(e, x.features));
  if (!e.base.empty() && e.base.size() != static_cast<size_t>(e.targets))
    return same_size(e.base.size(), static_cast<size_t>(e.targets), "base_values");
  std::vector<double> out;
  for (int64_t i = 0; i < x.count; ++i) {
    RP_ASSIGN(const std::vector<Score> scores, evaluate(e, x.values.data() + i * x.features));
    std::vector<double> row;
    for (size_t t = 0; t < scores.size(); ++t)
      row.push_back(scores[t].value + (e.base.empty() ? 0 : e.base[t]));
    transform(post, row);
    out.insert(out.end(), row.begin(), row.end());
  }
  RP_ASSIGN(HostTensor y, store_all(dtype, {x.count, e.targets}, out));
  return one(std::move(y));
}

KernelResult tree_ensemble_regressor(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  Ensemble e;
  Nodes nodes;
  RP_TRY(nodes.read(c, e));
  e.targets = c.attrs.get_int("n_targets", 0);
  if (e.targets < 1) return invalid_model("attribute 'n_targets' must be at least 1");
  RP_TRY(read_weights(c, "target", nodes, e));
  RP_ASSIGN(e.aggregate, aggregate_of(c.attrs.get_string("aggregate_function", "SUM")));
  RP_ASSIGN(const PostTransform post, post_transform(c));
  return regress(c, e, post, DType::F32);
}

/// The scores of a sample and its class.
struct ClassScores {
  size_t label = 0;
  std::vector<double> scores;
};

/// Judges two classes with weights for the first one alone. The sum of the weights is the score of
/// the second class. It is a probability if no weight is negative, as in a forest, and otherwise a
/// margin, as in boosted trees.
ClassScores judge_binary(double score, bool is_probability, PostTransform post) {
  const BinaryForm form = is_probability ? BinaryForm::Probability : BinaryForm::Margin;
  return {score > (is_probability ? 0.5 : 0) ? size_t{1} : size_t{0},
          binary_scores(post, form, score)};
}

/// The class has the largest score. Of more than two classes, those for which no leaf of the sample
/// has a weight do not count, unless that is true of all.
ClassScores judge(const std::vector<Score>& scores, const std::vector<double>& base,
                  PostTransform post) {
  ClassScores v;
  bool found = false;
  for (size_t k = 0; k < scores.size(); ++k) {
    v.scores.push_back(scores[k].value + (k < base.size() ? base[k] : 0));
    const bool counts = scores[k].given || scores.size() <= 2;
    if (!counts || (found && v.scores[k] <= v.scores[v.label])) continue;
    v.label = k;
    found = true;
  }
  transform(post, v.scores);
  return v;
}

KernelResult tree_ensemble_classifier(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  Ensemble e;
  Nodes nodes;
  RP_TRY(nodes.read(c, e));
  RP_TRY(read_weights(c, "class", nodes, e));
  RP_ASSIGN(const ClassLabels labels,
            ClassLabels::read(c, "classlabels_int64s", "classlabels_strings"));
  RP_ASSIGN(const PostTransform post, post_transform(c));
  e.targets = static_cast<int64_t>(labels.size());
  RP_ASSIGN(const Samples x, read_samples(c));
  RP_TRY(check(e, x.features));
  std::set<int64_t> weighted;
  bool positive = true;
  for (const TreeNode& n : e.nodes) {
    for (const auto& [target, weight] : n.weights) {
      weighted.insert(target);
      positive = positive && weight >= 0;
    }
  }
  // The standard does not say what weights for one of two classes mean. Exporters of scikit-learn
  // write such models.
  const bool binary = e.targets == 2 && weighted == std::set<int64_t>{0};
  std::vector<size_t> classes;
  std::vector<double> out;
  for (int64_t i = 0; i < x.count; ++i) {
    RP_ASSIGN(const std::vector<Score> scores, evaluate(e, x.values.data() + i * x.features));
    const double base = e.base.empty() ? 0 : e.base[0];
    const ClassScores v =
        binary ? judge_binary(scores[0].value + base, positive, post) : judge(scores, e.base, post);
    classes.push_back(v.label);
    out.insert(out.end(), v.scores.begin(), v.scores.end());
  }
  RP_ASSIGN(HostTensor y, labels.of(classes));
  RP_ASSIGN(HostTensor z, store_all(DType::F32, {x.count, e.targets}, out));
  return Tensors{std::move(y), std::move(z)};
}

/// The leaves of TreeEnsemble follow its inner nodes.
Status read_leaves(const Call& c, Ensemble& e) {
  const std::vector<int64_t> targets = c.attrs.get_ints("leaf_targetids");
  RP_ASSIGN(const std::vector<double> weights, numbers(c, "leaf_weights"));
  RP_TRY(same_size(weights.size(), targets.size(), "leaf_weights"));
  for (size_t i = 0; i < targets.size(); ++i) {
    TreeNode leaf;
    leaf.weights = {{targets[i], weights[i]}};
    e.nodes.push_back(std::move(leaf));
  }
  return {};
}

/// The sets of Mode::Member are in one list, each ending with NaN.
Status read_members(const Call& c, Ensemble& e, size_t inner) {
  RP_ASSIGN(const std::vector<double> values, numbers(c, "membership_values"));
  size_t at = 0;
  for (size_t i = 0; i < inner; ++i) {
    if (e.nodes[i].mode != Mode::Member) continue;
    for (; at < values.size() && !std::isnan(values[at]); ++at)
      e.nodes[i].members.push_back(values[at]);
    if (at++ >= values.size())
      return invalid_model("attribute 'membership_values' has fewer sets than there are nodes");
  }
  return {};
}

Status read_inner(const Call& c, Ensemble& e) {
  const auto* modes = c.attrs.get<HostTensor>("nodes_modes");
  if (modes == nullptr || modes->dtype() != DType::U8)
    return invalid_model("attribute 'nodes_modes' must be a tensor of uint8");
  const auto n = static_cast<size_t>(modes->count());
  const auto ints = [&](const char* name) {
    return c.attrs.get_ints(name, std::vector<int64_t>(n, 0));
  };
  const std::vector<int64_t> features = ints("nodes_featureids"),
                             missing = ints("nodes_missing_value_tracks_true"),
                             true_leaf = ints("nodes_trueleafs"),
                             false_leaf = ints("nodes_falseleafs"),
                             if_true = ints("nodes_truenodeids"),
                             if_false = ints("nodes_falsenodeids");
  RP_ASSIGN(const std::vector<double> splits, numbers(c, "nodes_splits"));
  RP_TRY(same_size(splits.size(), n, "nodes_splits"));
  for (const auto* list : {&features, &missing, &true_leaf, &false_leaf, &if_true, &if_false})
    RP_TRY(same_size(list->size(), n, "nodes_featureids, or another of the nodes,"));
  const auto branch = [&](int64_t id, bool leaf) {
    return id < 0 ? ~size_t{0} : static_cast<size_t>(id) + (leaf ? n : 0);
  };
  for (size_t i = 0; i < n; ++i) {
    const uint8_t mode = modes->data<uint8_t>()[i];
    if (mode >= static_cast<uint8_t>(Mode::Leaf))
      return invalid_model("attribute 'nodes_modes' has the unknown mode " + std::to_string(mode));
    TreeNode node;
    node.mode = static_cast<Mode>(mode);  // in the order of the standard
    node.feature = features[i];
    node.value = splits[i];
    node.missing_is_true = missing[i] != 0;
    node.if_true = branch(if_true[i], true_leaf[i] != 0);
    node.if_false = branch(if_false[i], false_leaf[i] != 0);
    e.nodes.push_back(std::move(node));
  }
  return read_members(c, e, n);
}

KernelResult tree_ensemble(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "samples"));
  Ensemble e;
  RP_TRY(read_inner(c, e));
  const size_t inner = e.nodes.size();
  RP_TRY(read_leaves(c, e));
  e.targets = c.attrs.get_int("n_targets", 1);
  const int64_t aggregate = c.attrs.get_int("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3)
    return invalid_model("attribute 'aggregate_function' is not in [0, 3]");
  constexpr Aggregate kAggregates[] = {Aggregate::Average, Aggregate::Sum, Aggregate::Min,
                                       Aggregate::Max};
  e.aggregate = kAggregates[aggregate];
  for (const int64_t root : c.attrs.get_ints("tree_roots")) {
    if (root < 0 || static_cast<size_t>(root) >= inner)
      return invalid_model("attribute 'tree_roots' names node " + std::to_string(root) +
                           ", which does not exist");
    e.roots.push_back(static_cast<size_t>(root));
  }
  const int64_t post = c.attrs.get_int("post_transform", 0);
  if (post < 0 || post > 4) return invalid_model("attribute 'post_transform' is not in [0, 4]");
  return regress(c, e, static_cast<PostTransform>(post), input(c, 0).dtype());
}

}  // namespace

Table ml_trees_table() {
  static constexpr Entry kTable[] = {{"TreeEnsemble", tree_ensemble},
                                     {"TreeEnsembleClassifier", tree_ensemble_classifier},
                                     {"TreeEnsembleRegressor", tree_ensemble_regressor}};
  return kTable;
}

}  // namespace reprise::host
