#include <algorithm>
#include <cmath>

#include "runtime/host/ml/trees.h"

namespace reprise::host {

namespace {

/// The samples that walk through one tree after another, so that its nodes stay in the cache.
constexpr int64_t kSamples = 64;

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
    case Mode::Leaf:
      break;
  }
  return false;
}

const TreeNode& find_leaf(const Ensemble& e, uint32_t root, const double* sample) {
  const TreeNode* n = &e.nodes[root];
  if (e.is_plain) {
    while (n->mode != Mode::Leaf) n = &e.nodes[n->next[sample[n->feature] <= n->value ? 1 : 0]];
  } else {
    while (n->mode != Mode::Leaf) n = &e.nodes[n->next[takes_true(*n, sample[n->feature]) ? 1 : 0]];
  }
  return *n;
}

template <typename T>
void add(Aggregate how, T weight, T& score, uint8_t& given) {
  if (!given) {
    score = weight;
    given = 1;
  } else if (how == Aggregate::Min) {
    score = std::min(score, weight);
  } else if (how == Aggregate::Max) {
    score = std::max(score, weight);
  } else {
    score += weight;
  }
}

}  // namespace

template <typename T>
Result<TreeScores<T>> evaluate_trees(const Ensemble& e, const Samples& x) {
  if (x.features < e.features) {
    return invalid_input("a node reads feature " + std::to_string(e.features - 1) +
                         ", but the samples have " + std::to_string(x.features));
  }
  RP_ASSIGN(const int64_t count, checked_element_count(Dims{x.count, e.targets}, DType::F64));
  const auto size = static_cast<size_t>(count);
  TreeScores<T> out{std::vector<T>(size), std::vector<uint8_t>(size)};
  for (int64_t first = 0; first < x.count; first += kSamples) {
    const int64_t end = std::min(first + kSamples, x.count);
    for (const uint32_t root : e.roots) {
      for (int64_t i = first; i < end; ++i) {
        const TreeNode& leaf = find_leaf(e, root, x.values.data() + i * x.features);
        for (uint32_t w = leaf.next[0]; w < leaf.next[1]; ++w) {
          const auto at = static_cast<size_t>(i * e.targets + e.weights[w].target);
          add(e.aggregate, static_cast<T>(e.weights[w].weight), out.values[at], out.given[at]);
        }
      }
    }
  }
  if (e.aggregate == Aggregate::Average && !e.roots.empty()) {
    for (T& v : out.values) v /= static_cast<T>(e.roots.size());
  }
  return out;
}

template Result<TreeScores<float>> evaluate_trees(const Ensemble& e, const Samples& x);
template Result<TreeScores<double>> evaluate_trees(const Ensemble& e, const Samples& x);

}  // namespace reprise::host
