// Tree ensembles of ai.onnx.ml with random trees.
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

/// Random trees as lists with an entry for each node. The first node of a tree is its root.
struct Trees {
  struct Node {
    int64_t tree, id, feature, if_true = 0, if_false = 0;
    int64_t missing;
    float value;
    int64_t mode;  // as TreeEnsemble numbers them; 7: a leaf
  };
  std::vector<Node> nodes;
  int64_t features = 1;

  size_t grow(Maker& m, int64_t tree, int64_t depth, int64_t modes) {
    const size_t at = nodes.size();
    int64_t id = 0;
    for (const Node& n : nodes) id += n.tree == tree ? 1 : 0;
    // Whole and half numbers, which inputs have as well.
    nodes.push_back({tree, id, m.rng.in(0, features - 1), 0, 0, m.rng.in(0, 1),
                     static_cast<float>(m.rng.in(-4, 4)) / 2, m.rng.in(0, modes - 1)});
    if (depth == 0 || m.rng.chance(0.15)) {
      nodes[at].mode = 7;
      return at;
    }
    const int64_t yes = nodes[grow(m, tree, depth - 1, modes)].id;
    const int64_t no = nodes[grow(m, tree, depth - 1, modes)].id;
    nodes[at].if_true = yes;
    nodes[at].if_false = no;
    return at;
  }
};

Trees some_trees(Maker& m, V x) {
  Trees t;
  t.features = m.shape(x).back().value();
  // Trees of one mode are usual, and have a path of their own.
  const int64_t modes = m.rng.chance(0.4) ? 1 : 6, count = m.rng.in(1, 4);
  for (int64_t i = 0; i < count; ++i) t.grow(m, i, m.rng.in(0, 4), modes);
  return t;
}

/// Samples: [N, features], now and then one alone.
V samples(Maker& m) {
  const int64_t features = m.rng.in(1, 6);
  const V x = m.typed(DType::F32, 2, 2);
  if (m.rng.chance(0.4) && m.shape(x)[1].is_const() && m.least(x, 1) > 0) return x;
  return m.fresh(DType::F32, m.rng.chance(0.1) ? Shape{features} : Shape{m.random_dim(), features});
}

template <typename T, typename F>
std::vector<T> list(const Trees& t, const F& of) {
  std::vector<T> out;
  for (const Trees::Node& n : t.nodes) out.push_back(static_cast<T>(of(n)));
  return out;
}

float weight(Maker& m, bool positive) {
  return static_cast<float>(positive ? m.rng.real(0, 0.5) : m.rng.real(-1, 1));
}

/// The attributes of the two older operators. `prefix`: "class" or "target".
AttrMap by_ids(Maker& m, const Trees& t, const std::string& prefix, int64_t targets) {
  using Node = Trees::Node;
  static const std::vector<std::string> kModes{
      "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "", "LEAF"};
  std::vector<std::string> modes;
  for (const Node& n : t.nodes) modes.push_back(kModes[static_cast<size_t>(n.mode)]);
  AttrMap a = attr("nodes_modes", modes);
  a.set("nodes_treeids", list<int64_t>(t, [](const Node& n) { return n.tree; }));
  a.set("nodes_nodeids", list<int64_t>(t, [](const Node& n) { return n.id; }));
  a.set("nodes_featureids", list<int64_t>(t, [](const Node& n) { return n.feature; }));
  a.set("nodes_truenodeids", list<int64_t>(t, [](const Node& n) { return n.if_true; }));
  a.set("nodes_falsenodeids", list<int64_t>(t, [](const Node& n) { return n.if_false; }));
  a.set("nodes_values", list<float>(t, [](const Node& n) { return n.value; }));
  if (m.rng.chance(0.5))
    a.set("nodes_missing_value_tracks_true",
          list<int64_t>(t, [](const Node& n) { return n.missing; }));
  std::vector<int64_t> trees, ids, of;
  std::vector<float> weights;
  const bool all = m.rng.chance(0.6), positive = m.rng.chance(0.5);
  const int64_t only = m.rng.in(0, targets - 1);
  for (const Node& n : t.nodes) {
    for (int64_t k = 0; n.mode == 7 && k < targets; ++k) {
      if (!all && k != only) continue;
      trees.push_back(n.tree);
      ids.push_back(n.id);
      of.push_back(k);
      weights.push_back(weight(m, positive));
    }
  }
  a.set(prefix + "_treeids", trees);
  a.set(prefix + "_nodeids", ids);
  a.set(prefix + "_ids", of);
  a.set(prefix + "_weights", weights);
  if (m.rng.chance(0.3)) {
    std::vector<float> base;
    for (int64_t k = 0; k < targets; ++k) base.push_back(weight(m, false));
    a.set("base_values", base);
  }
  if (m.rng.chance(0.6))
    a.set("post_transform", m.rng.pick(std::vector<std::string>{"NONE", "LOGISTIC", "SOFTMAX",
                                                                "SOFTMAX_ZERO", "PROBIT"}));
  return a;
}

bool tree_regressor(Maker& m) {
  const V x = samples(m);
  const int64_t targets = m.rng.in(1, 3);
  AttrMap a = by_ids(m, some_trees(m, x), "target", targets);
  a.set("n_targets", targets);
  if (m.rng.chance(0.6))
    a.set("aggregate_function",
          m.rng.pick(std::vector<std::string>{"SUM", "AVERAGE", "MIN", "MAX"}));
  return m.add("TreeEnsembleRegressor", {x}, std::move(a), 1, 3);
}

bool tree_classifier(Maker& m) {
  const V x = samples(m);
  const int64_t classes = m.rng.in(1, 4);
  AttrMap a = by_ids(m, some_trees(m, x), "class", classes);
  std::vector<int64_t> labels;
  for (int64_t k = 0; k < classes; ++k) labels.push_back(10 * k + m.rng.in(-4, 4));
  a.set("classlabels_int64s", labels);
  return m.add("TreeEnsembleClassifier", {x}, std::move(a), 2, 3);
}

/// Lists of inner nodes and of leaves, each with numbers of its own.
bool tree_ensemble(Maker& m) {
  const V x = samples(m);
  const Trees t = some_trees(m, x);
  const int64_t targets = m.rng.in(1, 3);
  std::vector<int64_t> number, roots;  // of a node among the inner nodes, or of a leaf
  int64_t inner = 0, leaves = 0;
  for (const Trees::Node& n : t.nodes) number.push_back(n.mode == 7 ? leaves++ : inner++);
  if (inner == 0) return false;
  const auto find = [&](int64_t tree, int64_t id) {
    size_t i = 0;
    while (t.nodes[i].tree != tree || t.nodes[i].id != id) ++i;
    return i;
  };
  std::vector<int64_t> lists[6], of;
  std::vector<uint8_t> modes;
  std::vector<float> splits, weights;
  for (size_t i = 0; i < t.nodes.size(); ++i) {
    const Trees::Node& n = t.nodes[i];
    if (n.mode == 7) {
      of.push_back(m.rng.in(0, targets - 1));
      weights.push_back(weight(m, false));
      if (n.id == 0) return false;  // a root cannot be a leaf
      continue;
    }
    if (n.id == 0) roots.push_back(number[i]);
    const size_t yes = find(n.tree, n.if_true), no = find(n.tree, n.if_false);
    const int64_t values[] = {n.feature,
                              n.missing,
                              number[yes],
                              number[no],
                              t.nodes[yes].mode == 7 ? 1 : 0,
                              t.nodes[no].mode == 7 ? 1 : 0};
    for (size_t k = 0; k < 6; ++k) lists[k].push_back(values[k]);
    modes.push_back(static_cast<uint8_t>(n.mode));
    splits.push_back(n.value);
  }
  static constexpr const char* kNames[] = {"nodes_featureids",  "nodes_missing_value_tracks_true",
                                           "nodes_truenodeids", "nodes_falsenodeids",
                                           "nodes_trueleafs",   "nodes_falseleafs"};
  AttrMap a = attr("n_targets", targets);
  for (size_t k = 0; k < 6; ++k) a.set(kNames[k], lists[k]);
  a.set("nodes_modes", HostTensor::from(DType::U8, {inner}, modes));
  a.set("nodes_splits", HostTensor::from(DType::F32, {inner}, splits));
  a.set("leaf_targetids", of);
  a.set("leaf_weights", HostTensor::from(DType::F32, {leaves}, weights));
  a.set("tree_roots", roots);
  a.set("aggregate_function", m.rng.in(0, 3));
  a.set("post_transform", m.rng.in(0, 2));
  return m.add("TreeEnsemble", {x}, std::move(a), 1, 5);
}

}  // namespace

std::span<const Recipe> ml_recipes() {
  static constexpr Recipe kRecipes[] = {{"TreeEnsemble", tree_ensemble},
                                        {"TreeEnsembleClassifier", tree_classifier},
                                        {"TreeEnsembleRegressor", tree_regressor}};
  return kRecipes;
}

}  // namespace reprise::fuzz
