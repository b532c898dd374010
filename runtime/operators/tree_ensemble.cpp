// Reads tree ensembles from the attributes of the three operators.
// https://onnx.ai/onnx/operators/index_ai_onnx_ml.html
#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>

#include "runtime/base/compare.h"
#include "runtime/operators/tree_ensemble.h"

namespace reprise::trees {

namespace {

/// A list of floats, which newer versions may give as a tensor "NAME_as_tensor".
Result<std::vector<double>> numbers(const AttrMap& attrs, const std::string& name) {
  const auto* t = attrs.get<HostTensor>(name + "_as_tensor");
  if (t == nullptr) t = attrs.get<HostTensor>(name);
  if (t != nullptr && !is_float(t->dtype()))
    return invalid_model("attribute '" + name + "' must be a tensor of floats");
  if (t != nullptr) return to_double(*t);
  const auto* list = attrs.get<std::vector<float>>(name);
  return list == nullptr ? std::vector<double>() : std::vector<double>(list->begin(), list->end());
}

Status same_size(size_t found, size_t expected, const std::string& name) {
  if (found == expected) return {};
  return invalid_model("attribute '" + name + "' has " + std::to_string(found) +
                       " elements instead of " + std::to_string(expected));
}

Result<Mode> mode_of(const std::string& name) {
  static const std::map<std::string, Mode, std::less<>> kModes{{"BRANCH_LEQ", Mode::LessOrEqual},
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

Result<uint32_t> feature_of(int64_t feature) {
  if (feature >= 0 && feature < UINT32_MAX) return static_cast<uint32_t>(feature);
  return invalid_model("a node reads feature " + std::to_string(feature));
}

Status check_count(size_t nodes) {
  if (nodes < UINT32_MAX) return {};
  return unsupported("a tree ensemble with " + std::to_string(nodes) + " nodes is too large");
}

/// The weights of leaves, in the order of the attributes.
struct GivenWeight {
  uint32_t node;
  int64_t target;
  double weight;
};

/// Gives each leaf the range of its weights, whose order stays as it is.
Status place_weights(const std::vector<GivenWeight>& given, Ensemble& e) {
  std::vector<uint32_t> count(e.nodes.size());
  for (const GivenWeight& w : given) ++count[w.node];
  uint32_t at = 0;
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    TreeNode& n = e.nodes[i];
    if (n.mode != Mode::Leaf) continue;
    n.next[0] = n.next[1] = at;
    at += count[i];
  }
  e.weights.resize(at);
  for (const GivenWeight& w : given) {
    TreeNode& n = e.nodes[w.node];
    if (n.mode != Mode::Leaf) continue;
    if (w.target < 0 || w.target >= e.targets) {
      return invalid_model("a leaf has a weight for target " + std::to_string(w.target) + " of " +
                           std::to_string(e.targets));
    }
    e.weights[n.next[1]++] = {static_cast<uint32_t>(w.target), w.weight};
  }
  return {};
}

/// Follows every branch from a root. Fails if one leads back to a node above it.
Status check_branches(const Ensemble& e, uint32_t root, std::vector<uint8_t>& state) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint32_t> path{root};
  while (!path.empty()) {
    const uint32_t at = path.back();
    const TreeNode& n = e.nodes[at];
    const bool first = state[at] == kNew;
    if (!first || n.mode == Mode::Leaf) {
      state[at] = kDone;
      path.pop_back();
      continue;
    }
    state[at] = kOpen;
    for (const uint32_t next : n.next) {
      if (next >= e.nodes.size())
        return invalid_model("a branch leads to a node that does not exist");
      if (state[next] == kOpen) return invalid_model("the branches of a tree form a cycle");
      if (state[next] == kNew) path.push_back(next);
    }
  }
  return {};
}

/// Checks the trees, and derives what evaluation needs to know of them.
Status finish(Ensemble& e) {
  std::vector<uint8_t> state(e.nodes.size());
  for (const uint32_t root : e.roots) RP_TRY(check_branches(e, root, state));
  e.is_plain = true;
  for (const TreeNode& n : e.nodes) {
    if (n.mode == Mode::Leaf) continue;
    e.features = std::max(e.features, n.feature + 1);
    e.is_plain = e.is_plain && n.mode == Mode::LessOrEqual && !n.missing_is_true;
  }
  return {};
}

/// The nodes of the two older operators, by the ids of their trees and of themselves.
class Nodes {
 public:
  Status read(const AttrMap& attrs, Ensemble& e);
  Status read_weights(const AttrMap& attrs, const std::string& prefix, Ensemble& e) const;

 private:
  struct Id {
    int64_t tree, node;
    friend auto operator<=>(const Id&, const Id&) = default;  // NOLINT(modernize-use-nullptr)
  };
  auto id_of() const {
    return [this](uint32_t i) { return ids_[i]; };
  }
  Status sort();
  Result<uint32_t> find(Id id) const {
    const auto at = std::ranges::lower_bound(sorted_, id, {}, id_of());
    if (at != sorted_.end() && ids_[*at] == id) return *at;
    return invalid_model("tree " + std::to_string(id.tree) + " has no node " +
                         std::to_string(id.node));
  }
  Status link(const AttrMap& attrs, Ensemble& e);

  std::vector<Id> ids_;
  // Not a hash table, because a hostile file could choose ids that collide.
  std::vector<uint32_t> sorted_;  // the nodes by their ids
};

Status Nodes::sort() {
  sorted_.resize(ids_.size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::ranges::sort(sorted_, {}, id_of());
  const auto twice = std::ranges::adjacent_find(sorted_, {}, id_of());
  if (twice == sorted_.end()) return {};
  return invalid_model("tree " + std::to_string(ids_[*twice].tree) + " has two nodes " +
                       std::to_string(ids_[*twice].node));
}

Status Nodes::read(const AttrMap& attrs, Ensemble& e) {
  const auto* modes = attrs.get<std::vector<std::string>>("nodes_modes");
  if (modes == nullptr) return invalid_model("attribute 'nodes_modes' is missing");
  const size_t n = modes->size();
  RP_TRY(check_count(n));
  const std::vector<int64_t> trees = attrs.get_ints("nodes_treeids");
  const std::vector<int64_t> ids = attrs.get_ints("nodes_nodeids");
  const std::vector<int64_t> features = attrs.get_ints("nodes_featureids");
  const std::vector<int64_t> missing =
      attrs.get_ints("nodes_missing_value_tracks_true", std::vector<int64_t>(n, 0));
  RP_ASSIGN(const std::vector<double> values, numbers(attrs, "nodes_values"));
  RP_TRY(same_size(trees.size(), n, "nodes_treeids"));
  RP_TRY(same_size(ids.size(), n, "nodes_nodeids"));
  RP_TRY(same_size(features.size(), n, "nodes_featureids"));
  RP_TRY(same_size(values.size(), n, "nodes_values"));
  RP_TRY(same_size(missing.size(), n, "nodes_missing_value_tracks_true"));
  e.nodes.resize(n);
  ids_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    TreeNode& node = e.nodes[i];
    RP_ASSIGN(node.mode, mode_of((*modes)[i]));
    if (node.mode != Mode::Leaf) {
      RP_ASSIGN(node.feature, feature_of(features[i]));
    }
    node.value = values[i];
    node.missing_is_true = missing[i] != 0;
    ids_[i] = {trees[i], ids[i]};
  }
  RP_TRY(sort());
  return link(attrs, e);
}

Status Nodes::link(const AttrMap& attrs, Ensemble& e) {
  const size_t n = e.nodes.size();
  const std::vector<int64_t> if_true = attrs.get_ints("nodes_truenodeids");
  const std::vector<int64_t> if_false = attrs.get_ints("nodes_falsenodeids");
  RP_TRY(same_size(if_true.size(), n, "nodes_truenodeids"));
  RP_TRY(same_size(if_false.size(), n, "nodes_falsenodeids"));
  std::vector<bool> is_child(n, false);
  for (size_t i = 0; i < n; ++i) {
    TreeNode& node = e.nodes[i];
    if (node.mode == Mode::Leaf) continue;
    RP_ASSIGN(node.next[1], find({ids_[i].tree, if_true[i]}));
    RP_ASSIGN(node.next[0], find({ids_[i].tree, if_false[i]}));
    is_child[node.next[0]] = is_child[node.next[1]] = true;
  }
  for (size_t i = 0; i < n; ++i)
    if (!is_child[i]) e.roots.push_back(static_cast<uint32_t>(i));
  return {};
}

Status Nodes::read_weights(const AttrMap& attrs, const std::string& prefix, Ensemble& e) const {
  const std::vector<int64_t> targets = attrs.get_ints(prefix + "_ids");
  const std::vector<int64_t> trees = attrs.get_ints(prefix + "_treeids");
  const std::vector<int64_t> node_ids = attrs.get_ints(prefix + "_nodeids");
  RP_ASSIGN(const std::vector<double> weights, numbers(attrs, prefix + "_weights"));
  RP_TRY(check_count(targets.size()));
  RP_TRY(same_size(trees.size(), targets.size(), prefix + "_treeids"));
  RP_TRY(same_size(node_ids.size(), targets.size(), prefix + "_nodeids"));
  RP_TRY(same_size(weights.size(), targets.size(), prefix + "_weights"));
  std::vector<GivenWeight> given(targets.size());
  for (size_t i = 0; i < given.size(); ++i) {
    RP_ASSIGN(given[i].node, find({trees[i], node_ids[i]}));
    given[i].target = targets[i];
    given[i].weight = weights[i];
  }
  return place_weights(given, e);
}

// --- TreeEnsemble

/// A node that tests membership in a set becomes a chain of nodes that test equality: `at` is the
/// first of them, and the others are added.
void expand_members(const std::vector<double>& members, uint32_t at, Ensemble& e) {
  e.nodes[at].mode = Mode::Equal;
  e.nodes[at].value = members.empty() ? std::nan("") : members[0];
  const uint32_t if_false = e.nodes[at].next[0];
  for (size_t i = 1; i < members.size(); ++i) {
    TreeNode next = e.nodes[at];
    next.value = members[i];
    next.next[0] = if_false;
    e.nodes[at].next[0] = static_cast<uint32_t>(e.nodes.size());
    at = e.nodes[at].next[0];
    e.nodes.push_back(next);
  }
}

/// The sets of Mode::Member are in one list, each ending with NaN.
Status read_members(const AttrMap& attrs, Ensemble& e, size_t inner) {
  RP_ASSIGN(const std::vector<double> values, numbers(attrs, "membership_values"));
  RP_TRY(check_count(e.nodes.size() + values.size()));
  auto at = values.begin();
  for (size_t i = 0; i < inner; ++i) {
    if (e.nodes[i].mode != Mode::Member) continue;
    const auto end = std::find_if(at, values.end(), [](double v) { return std::isnan(v); });
    if (end == values.end())
      return invalid_model("attribute 'membership_values' has fewer sets than there are nodes");
    expand_members({at, end}, static_cast<uint32_t>(i), e);
    at = end + 1;
  }
  return {};
}

/// A node, or a leaf, which follow the nodes. Nothing has the number UINT32_MAX.
uint32_t branch(int64_t id, bool is_leaf, size_t inner) {
  const auto limit = static_cast<int64_t>(UINT32_MAX);
  if (id < 0 || id >= limit) return UINT32_MAX;
  const int64_t at = id + (is_leaf ? static_cast<int64_t>(inner) : 0);
  return static_cast<uint32_t>(std::min(at, limit));
}

Status read_inner(const AttrMap& attrs, Ensemble& e) {
  const auto* modes = attrs.get<HostTensor>("nodes_modes");
  if (modes == nullptr || modes->dtype() != DType::U8)
    return invalid_model("attribute 'nodes_modes' must be a tensor of uint8");
  const auto n = static_cast<size_t>(modes->count());
  RP_TRY(check_count(n));
  enum List : size_t { kFeature, kMissing, kTrueLeaf, kFalseLeaf, kIfTrue, kIfFalse, kLists };
  constexpr const char* kNames[kLists] = {"nodes_featureids",  "nodes_missing_value_tracks_true",
                                          "nodes_trueleafs",   "nodes_falseleafs",
                                          "nodes_truenodeids", "nodes_falsenodeids"};
  std::array<std::vector<int64_t>, kLists> lists;
  for (size_t k = 0; k < kLists; ++k) {
    lists[k] = attrs.get_ints(kNames[k], std::vector<int64_t>(n, 0));
    RP_TRY(same_size(lists[k].size(), n, kNames[k]));
  }
  RP_ASSIGN(const std::vector<double> splits, numbers(attrs, "nodes_splits"));
  RP_TRY(same_size(splits.size(), n, "nodes_splits"));
  e.nodes.resize(n);
  for (size_t i = 0; i < n; ++i) {
    TreeNode& node = e.nodes[i];
    const uint8_t mode = modes->data<uint8_t>()[i];
    if (mode >= static_cast<uint8_t>(Mode::Leaf))
      return invalid_model("attribute 'nodes_modes' has the unknown mode " + std::to_string(mode));
    node.mode = static_cast<Mode>(mode);
    RP_ASSIGN(node.feature, feature_of(lists[kFeature][i]));
    node.value = splits[i];
    node.missing_is_true = lists[kMissing][i] != 0;
    node.next[1] = branch(lists[kIfTrue][i], lists[kTrueLeaf][i] != 0, n);
    node.next[0] = branch(lists[kIfFalse][i], lists[kFalseLeaf][i] != 0, n);
  }
  return {};
}

/// The leaves follow the inner nodes.
Status read_leaves(const AttrMap& attrs, Ensemble& e) {
  const std::vector<int64_t> targets = attrs.get_ints("leaf_targetids");
  RP_ASSIGN(const std::vector<double> weights, numbers(attrs, "leaf_weights"));
  RP_TRY(same_size(weights.size(), targets.size(), "leaf_weights"));
  const size_t inner = e.nodes.size();
  RP_TRY(check_count(inner + targets.size()));
  e.nodes.resize(inner + targets.size());
  std::vector<GivenWeight> given;
  for (size_t i = 0; i < targets.size(); ++i)
    given.push_back({static_cast<uint32_t>(inner + i), targets[i], weights[i]});
  return place_weights(given, e);
}

}  // namespace

Result<Ensemble> read_trees(const AttrMap& attrs, const std::string& prefix, int64_t targets) {
  Ensemble e;
  e.targets = targets;
  Nodes nodes;
  RP_TRY(nodes.read(attrs, e));
  RP_TRY(nodes.read_weights(attrs, prefix, e));
  RP_ASSIGN(e.base, numbers(attrs, "base_values"));
  RP_TRY(finish(e));
  return e;
}

Result<Ensemble> read_trees_of_version_5(const AttrMap& attrs) {
  Ensemble e;
  e.targets = attrs.get_int("n_targets", 1);
  if (e.targets < 1) return invalid_model("attribute 'n_targets' must be at least 1");
  RP_TRY(read_inner(attrs, e));
  const size_t inner = e.nodes.size();
  RP_TRY(read_leaves(attrs, e));
  RP_TRY(read_members(attrs, e, inner));
  for (const int64_t root : attrs.get_ints("tree_roots")) {
    if (root < 0 || static_cast<size_t>(root) >= inner)
      return invalid_model("attribute 'tree_roots' names node " + std::to_string(root) +
                           ", which does not exist");
    e.roots.push_back(static_cast<uint32_t>(root));
  }
  RP_TRY(finish(e));
  return e;
}

}  // namespace reprise::trees
