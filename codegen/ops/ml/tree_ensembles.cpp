#include "codegen/ops/ml/tree_ensembles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "runtime/operators/tree_ensemble.h"

namespace reprise::ops {

namespace {

using trees::Aggregate;
using trees::Ensemble;
using trees::Mode;
using trees::TreeNode;
using V = graph::ValueId;

constexpr int32_t kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;

/// The outcomes of a comparison that lead to the branch for true.
int32_t outcomes_of(const TreeNode& n) {
  const int32_t missing = n.missing_is_true ? kUnordered : 0;
  switch (n.mode) {
    case Mode::LessOrEqual:
      return kLess | kEqual | missing;
    case Mode::Less:
      return kLess | missing;
    case Mode::GreaterOrEqual:
      return kGreater | kEqual | missing;
    case Mode::Greater:
      return kGreater | missing;
    case Mode::Equal:
      return kEqual | missing;
    case Mode::NotEqual:
      return kLess | kGreater | kUnordered;
    case Mode::Member:
    case Mode::Leaf:
      break;
  }
  return 0;
}

bool is_float32(double v) {
  return std::isfinite(v) ? static_cast<double>(static_cast<float>(v)) == v : std::isinf(v);
}

/// The number of steps from each root to its deepest leaf, at most.
int64_t depth_of(const Ensemble& e) {
  std::vector<int64_t> below(e.nodes.size(), -1);  // steps below a node; -1: unknown
  int64_t depth = 0;
  for (const uint32_t root : e.roots) {
    std::vector<uint32_t> path{root};
    while (!path.empty()) {
      const uint32_t at = path.back();
      const TreeNode& n = e.nodes[at];
      if (n.mode == Mode::Leaf || below[at] >= 0) {
        below[at] = std::max<int64_t>(below[at], 0);
        path.pop_back();
        continue;
      }
      const int64_t left = below[n.next[0]], right = below[n.next[1]];
      if (left < 0) path.push_back(n.next[0]);
      if (right < 0) path.push_back(n.next[1]);
      if (left < 0 || right < 0) continue;
      below[at] = 1 + std::max(left, right);
      path.pop_back();
    }
    depth = std::max(depth, below[root]);
  }
  return depth;
}

/// Trees as tensors.
struct Tables {
  HostTensor nodes;    // I32 [M, 4]
  HostTensor roots;    // I32 [T]
  HostTensor weights;  // F32 [targets, leaves]
  int64_t depth = 0;
  bool complete = true;         // every leaf has a weight for every target
  std::vector<uint8_t> always;  // per target: whether every sample gets a weight for it
};

constexpr int64_t kDeepest = 4096;  // drivers limit loops
constexpr int64_t kMostNodes = int64_t{1} << 26;
constexpr int64_t kMostWeights = int64_t{1} << 26;  // with those of targets that a leaf lacks

/// The weights of each leaf for each target. False if a leaf has two for one target, or if sums
/// could overflow.
bool fill_weights(const Ensemble& e, const std::vector<uint32_t>& leaves, Tables& t) {
  const auto count = static_cast<int64_t>(leaves.size());
  t.weights = HostTensor(DType::F32, {e.targets, count});
  auto* const weights = t.weights.mutable_data<float>();
  std::fill_n(weights, t.weights.count(), 0.0F);
  std::vector<uint8_t> given(static_cast<size_t>(t.weights.count()), 0);
  double total = 0;
  for (int64_t leaf = 0; leaf < count; ++leaf) {
    const TreeNode& n = e.nodes[leaves[static_cast<size_t>(leaf)]];
    for (uint32_t w = n.next[0]; w < n.next[1]; ++w) {
      const auto at = static_cast<size_t>(e.weights[w].target * count + leaf);
      if (given[at] != 0) return false;
      given[at] = 1;
      weights[at] = static_cast<float>(e.weights[w].weight);
      total += std::fabs(e.weights[w].weight);
    }
  }
  for (const double b : e.base) total += std::fabs(b);
  t.complete = std::ranges::all_of(given, [](uint8_t g) { return g != 0; });
  // An upper bound: a sum has one weight of each tree.
  return total < static_cast<double>(std::numeric_limits<float>::max());
}

/// Whether some tree's leaves all have weights for the target.
std::vector<uint8_t> always_given(const Ensemble& e) {
  std::vector<uint8_t> out(static_cast<size_t>(e.targets), 0);
  for (const uint32_t root : e.roots) {
    std::vector<int64_t> count(static_cast<size_t>(e.targets), 0);
    std::vector<uint32_t> path{root};
    int64_t leaves = 0;
    while (!path.empty()) {
      const TreeNode& n = e.nodes[path.back()];
      path.pop_back();
      if (n.mode != Mode::Leaf) {
        path.insert(path.end(), std::begin(n.next), std::end(n.next));
        continue;
      }
      ++leaves;
      for (uint32_t w = n.next[0]; w < n.next[1]; ++w) ++count[e.weights[w].target];
      if (leaves > kMostNodes) return out;  // branches share leaves
    }
    for (size_t k = 0; k < out.size(); ++k) {
      if (count[k] == leaves) out[k] = 1;
    }
  }
  return out;
}

/// Nothing if float32 cannot represent the ensemble, or if it is too large.
std::optional<Tables> tables_of(const Ensemble& e) {
  const auto count = static_cast<int64_t>(e.nodes.size());
  if (count == 0 || e.roots.empty() || count > kMostNodes || e.features > kMostNodes) return {};
  std::vector<uint32_t> leaves, inner;
  for (uint32_t i = 0; i < e.nodes.size(); ++i) {
    const TreeNode& n = e.nodes[i];
    if (n.mode != Mode::Leaf && !is_float32(n.value)) return {};
    (n.mode == Mode::Leaf ? leaves : inner).push_back(i);
  }
  if (leaves.empty() || static_cast<int64_t>(leaves.size()) > kMostWeights / e.targets) return {};
  Tables t;
  t.depth = depth_of(e);
  if (t.depth > kDeepest || !fill_weights(e, leaves, t)) return {};
  t.always = always_given(e);
  std::vector<int32_t> number(e.nodes.size());
  for (size_t i = 0; i < leaves.size(); ++i) number[leaves[i]] = static_cast<int32_t>(i);
  for (size_t i = 0; i < inner.size(); ++i)
    number[inner[i]] = static_cast<int32_t>(leaves.size() + i);
  t.nodes = HostTensor(DType::I32, {count, 4});
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const TreeNode& n = e.nodes[i];
    const bool leaf = n.mode == Mode::Leaf;
    int32_t* const to = t.nodes.mutable_data<int32_t>() + int64_t{number[i]} * 4;
    to[0] = leaf ? 0 : static_cast<int32_t>(n.feature) * 16 + outcomes_of(n);
    to[1] = leaf ? 0 : std::bit_cast<int32_t>(static_cast<float>(n.value));
    to[2] = number[leaf ? i : n.next[0]];
    to[3] = number[leaf ? i : n.next[1]];
  }
  t.roots = HostTensor(DType::I32, {static_cast<int64_t>(e.roots.size())});
  for (size_t i = 0; i < e.roots.size(); ++i)
    t.roots.mutable_data<int32_t>()[i] = number[e.roots[i]];
  return t;
}

/// The samples as float32 [N, features]. Nothing for other types, which may have more digits, and
/// if the number of features is unknown or too small.
std::optional<V> samples(OpBuilder& c, const Ensemble& e) {
  const Shape shape = c.shape(c.in(0));
  if (c.dtype(c.in(0)) != DType::F32 || shape.empty() || !shape.back().is_const() ||
      shape.back().value() < std::max<int64_t>(e.features, 1))
    return {};
  return shape.size() == 1 ? c.reshape(c.in(0), {Expr(1), shape[0]}) : c.in(0);
}

/// The aggregated weights [N, targets], with base values.
V scores(OpBuilder& c, const Ensemble& e, Tables t, V x) {
  const int64_t trees = t.roots.count();
  AttrMap depth;
  depth.set("depth", t.depth);
  const V leaves =
      c.op("TreeLeaves", {x, c.constant(std::move(t.nodes)), c.constant(std::move(t.roots))},
           std::move(depth));
  AttrMap axis;
  axis.set("axis", int64_t{1});
  const V weights = c.op("Gather", {c.constant(std::move(t.weights)), leaves}, std::move(axis));
  const char* how = e.aggregate == Aggregate::Min   ? "ReduceMin"
                    : e.aggregate == Aggregate::Max ? "ReduceMax"
                                                    : "ReduceSum";
  V y = c.reduce(how, weights, {1});  // of [targets, trees, N]
  y = c.transpose(c.reshape(y, {Expr(e.targets), c.shape(x)[0]}), {1, 0});
  if (e.aggregate == Aggregate::Average) y = c.div(y, static_cast<double>(trees));
  if (e.base.empty()) return y;
  std::vector<double> base = e.base;
  base.resize(static_cast<size_t>(e.targets));
  return c.add(y, c.constant(float_tensor(DType::F32, {e.targets}, base)));
}

/// Whether the core form has the transform.
bool has_transform(const std::string& post) {
  return post == "NONE" || post == "LOGISTIC" || post == "SOFTMAX";
}

V transformed(OpBuilder& c, V y, const std::string& post) {
  if (post == "LOGISTIC") return c.op("Sigmoid", {y});
  if (post == "NONE") return y;
  const V e = c.op("Exp", {c.sub(y, c.reduce("ReduceMax", y, {1}))});
  return c.div(e, c.reduce("ReduceSum", e, {1}));
}

bool can_aggregate(const Ensemble& e, const Tables& t) {
  return t.complete || e.aggregate == Aggregate::Sum || e.aggregate == Aggregate::Average;
}

Result<bool> regression(OpBuilder& c, const Ensemble& e, const std::string& post) {
  if (!has_transform(post) || static_cast<int64_t>(e.base.size()) > e.targets) return false;
  const auto x = samples(c, e);
  if (!x) return c.ok() ? Result<bool>(false) : c.finish();
  std::optional<Tables> t = tables_of(e);
  if (!t || !can_aggregate(e, *t)) return false;
  c.replace(0, transformed(c, scores(c, e, std::move(*t), *x), post));
  return c.finish();
}

// --- classification

/// How the weights of one class alone decide between two; see the host kernel.
enum class Decision : uint8_t { Largest, Probability, Margin };

Decision decision_of(const Ensemble& e) {
  if (e.targets != 2 || e.weights.empty()) return Decision::Largest;
  const uint32_t only = e.weights[0].target;
  if (!std::ranges::all_of(e.weights, [&](const auto& w) { return w.target == only; }))
    return Decision::Largest;
  const bool positive = std::ranges::all_of(e.weights, [](const auto& w) { return w.weight >= 0; });
  return positive ? Decision::Probability : Decision::Margin;
}

/// The number of the class [N], as I64.
V class_of(OpBuilder& c, V y, const Ensemble& e, Decision decision) {
  if (decision == Decision::Largest) {
    AttrMap a;
    a.set("axis", int64_t{1});
    a.set("keepdims", int64_t{0});
    return c.op("ArgMax", {y}, std::move(a));
  }
  const V score = c.slice_axis(y, 1, Expr(int64_t{e.weights[0].target}), 1);
  const V limit = c.scalar(DType::F32, decision == Decision::Probability ? 0.5 : 0);
  const V above = c.cast(c.op("Greater", {score, limit}), DType::I64);
  return c.reshape(above, {c.shape(y)[0]});
}

/// The scores that the operator returns.
V probabilities(OpBuilder& c, V y, const Ensemble& e, Decision decision, const std::string& post) {
  if (decision == Decision::Largest || e.weights[0].target != 0) return transformed(c, y, post);
  const V score = c.slice_axis(y, 1, 0, 1);
  const V negative = c.sub(c.scalar(DType::F32, 0), score);
  if (post == "LOGISTIC") return c.op("Sigmoid", {c.concat({negative, score}, 1)});
  const bool margin = decision == Decision::Margin;
  return c.concat({margin ? negative : c.sub(c.scalar(DType::F32, 1), score), score}, 1);
}

/// Whether every class counts when the largest score decides.
bool all_classes_count(const Ensemble& e, const Tables& t) {
  if (e.targets <= 2) return true;
  for (size_t k = 0; k < t.always.size(); ++k) {
    if (t.always[k] == 0 && k >= e.base.size()) return false;
  }
  return true;
}

}  // namespace

Result<bool> decompose_tree_regressor(Rewriter& rw) {
  OpBuilder c(rw);
  const Attributes attrs = c.attrs();
  const int64_t targets = attrs.get_int("n_targets");
  Result<Ensemble> e = trees::read_trees(rw.node().attrs, "target", targets);
  if (!e.ok()) return false;  // the host kernel reports it
  const std::string how = attrs.get_string("aggregate_function");
  if (how != "SUM" && how != "AVERAGE" && how != "MIN" && how != "MAX") return false;
  e->aggregate = how == "AVERAGE" ? Aggregate::Average
                 : how == "MIN"   ? Aggregate::Min
                 : how == "MAX"   ? Aggregate::Max
                                  : Aggregate::Sum;
  if (!e->base.empty() && static_cast<int64_t>(e->base.size()) != targets) return false;
  return regression(c, *e, attrs.get_string("post_transform"));
}

Result<bool> decompose_tree_ensemble(Rewriter& rw) {
  OpBuilder c(rw);
  const Attributes attrs = c.attrs();
  Result<Ensemble> e = trees::read_trees_of_version_5(rw.node().attrs);
  const int64_t how = attrs.get_int("aggregate_function"), post = attrs.get_int("post_transform");
  if (!e.ok() || how < 0 || how > 3 || post < 0 || post > 2) return false;
  constexpr Aggregate kAggregates[] = {Aggregate::Average, Aggregate::Sum, Aggregate::Min,
                                       Aggregate::Max};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC"};
  e->aggregate = kAggregates[how];
  return regression(c, *e, kTransforms[post]);
}

Result<bool> decompose_tree_classifier(Rewriter& rw) {
  OpBuilder c(rw);
  const Attributes attrs = c.attrs();
  const std::vector<int64_t> labels = attrs.get_ints("classlabels_int64s");
  const std::string post = attrs.get_string("post_transform");
  const auto targets = static_cast<int64_t>(labels.size());
  if (labels.empty() || attrs.has("classlabels_strings") || !has_transform(post)) return false;
  const Result<Ensemble> e = trees::read_trees(rw.node().attrs, "class", targets);
  if (!e.ok()) return false;
  const auto x = samples(c, *e);
  if (!x) return c.ok() ? Result<bool>(false) : c.finish();
  Ensemble used = *e;
  used.base.resize(std::min(used.base.size(), labels.size()));
  std::optional<Tables> t = tables_of(used);
  if (!t || !all_classes_count(used, *t)) return false;
  const Decision decision = decision_of(used);
  const V y = scores(c, used, std::move(*t), *x);
  if (c.has_output(0)) {
    AttrMap axis;
    axis.set("axis", int64_t{0});
    c.replace(0, c.op("Gather", {c.ints(labels), class_of(c, y, used, decision)}, std::move(axis)));
  }
  if (c.has_output(1)) c.replace(1, probabilities(c, y, used, decision, post));
  return c.finish();
}

// --- TreeLeaves

Status infer_tree_leaves(InferContext& ctx) {
  const bool ranks = ctx.rank(0) == 2 && ctx.rank(1) == 2 && ctx.rank(2) == 1;
  if (!ranks || ctx.dtype(0) != DType::F32 || ctx.dtype(1) != DType::I32 ||
      ctx.dtype(2) != DType::I32 || !ctx.shape(1)[1].is_const(4))
    return ctx.invalid("expected float32 [N, features], int32 [nodes, 4] and int32 [trees]");
  ctx.set_output(0, DType::I32, {ctx.shape(2)[0], ctx.shape(0)[0]});
  return {};
}

Status tree_leaves_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const Expr count = ctx.input_shape(1)[0], features = ctx.input_shape(0)[1];
  // The tables are right, but nothing may read outside of memory if a file is damaged.
  const auto within = [&](kernel::Val v, const Expr& bound) {
    const kernel::Val last = b.sub(ctx.value(bound), b.i32(1));
    return ctx.opaque(b.max(b.min(v, last), b.i32(0)), bound);
  };
  const int at = b.local("node", kernel::kI32);
  RP_ASSIGN(const kernel::Val root, ctx.input(2, {ctx.index()[0]}));
  b.local_store(at, root);
  Status status;
  const auto step = [&]() -> Status {
    const Expr node = within(b.local_load(at), count);
    std::vector<kernel::Val> words;
    for (int i = 0; i < 4; ++i) {
      RP_ASSIGN(const kernel::Val word, ctx.input(1, {node, i}));
      words.push_back(word);
    }
    const kernel::Val feature = b.scalar_op(kernel::ScalarOp::ShiftRight, {words[0], b.i32(4)});
    RP_ASSIGN(const kernel::Val x, ctx.input(0, {ctx.index()[1], within(feature, features)}));
    const kernel::Val value = b.bitcast(words[1], kernel::kF32);
    const kernel::Val not_less = b.select(b.lt(value, x), b.i32(kGreater), b.i32(kUnordered));
    const kernel::Val not_equal = b.select(b.lt(x, value), b.i32(kLess), not_less);
    const kernel::Val outcome = b.select(b.eq(x, value), b.i32(kEqual), not_equal);
    const kernel::Val among = b.scalar_op(kernel::ScalarOp::BitAnd, {words[0], outcome});
    b.local_store(at, b.select(b.eq(among, b.i32(0)), words[2], words[3]));
    return {};
  };
  ctx.loop(Attributes(ctx.node()).get_int("depth"), [&](const Expr&) {
    if (status.ok()) status = step();
  });
  RP_TRY(status);
  ctx.set(b.local_load(at));
  return {};
}

double tree_leaves_reads(const graph::Graph& g, const graph::Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &roots = g.value(n.inputs[2]).shape;
  if (!x[1].is_const() || !roots[0].is_const() || x[1].value() == 0) return 1;
  const auto depth = static_cast<double>(Attributes(n).get_int("depth"));
  return std::max(
      1.0, depth * static_cast<double>(roots[0].value()) / static_cast<double>(x[1].value()));
}

}  // namespace reprise::ops
