// Chooses the layout of regions of the graph: [N, C, spatial...] as in ONNX, or channels last. A
// region consists of values that operators require to have the same layout and that are computed
// equally well in either (elementwise operators, pools, concatenations, ...). Convolutions computed
// as GEMMs separate regions, because they read either layout through a view. The choice minimises
// the cost of conversions at the borders, including those of the model, which cancel their
// inverses.
#include "codegen/passes/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/graph/size_hint.h"
#include "codegen/ops/row/permutation.h"
#include "codegen/ops/row/window.h"
#include "codegen/passes/layout_choice.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;
using ops::AxisPermutation;
using ops::keeps_order;
using ops::permuted;
using ops::to_channels_first;
using ops::to_channels_last;

// --- Operators -----------------------------------------------------------------------------------

/// How an operator relates the layouts of its operands and its result.
enum class Role {
  Fixed,        // reads and writes the model's layout
  Agnostic,     // operands and result have the same layout
  Contraction,  // a convolution that may read one layout and write another
  Transpose,    // of any axes
};

bool is_weight(const Graph& g, ValueId v) {
  const Node* p = g.value(v).producer;
  return g.value(v).constant || (p != nullptr && ops::dequantizes(*p));
}

Role role_of_conv(const Graph& g, const Node& n) {
  const DType t = g.value(n.inputs[0]).dtype;
  const bool float_gemm = t == DType::F32 || t == DType::F16 || t == DType::BF16;
  if (ops::is_channels_last(n) || !float_gemm || !is_weight(g, n.inputs[1])) return Role::Fixed;
  const Shape& w = g.value(n.inputs[1]).shape;
  const int64_t group = ops::Attributes(n).get_int("group");
  const int64_t channels = w[0].value();
  switch (ops::conv_form(group, w[1].value(), channels / group)) {
    case ops::ConvForm::Gemm:
      return Role::Contraction;
    case ops::ConvForm::Depthwise:
      return channels % 4 == 0 ? Role::Agnostic : Role::Fixed;
    case ops::ConvForm::Grouped:
      return Role::Fixed;
  }
  return Role::Fixed;
}

bool is_conv(const Node& n) {
  const ops::OpDef* def = ops::core_def(n);
  return def != nullptr && def->lowering == ops::Lowering::Conv;
}

bool is_window(const Node& n) {
  return ops::layout_of(n) == ops::LayoutRole::Window;
}

bool is_regroup(const Node& n) {
  return ops::layout_of(n) == ops::LayoutRole::Regroup;
}

/// Whether axes 0 and 1 are unchanged.
bool keeps_channels(const Shape& in, const Shape& out) {
  return in.size() >= 3 && in[0] == out[0] && in[1] == out[1];
}

Role role_of(const Graph& g, const Node& n) {
  if (!ops::is_core(n) || n.outputs.size() != 1 || n.inputs.empty()) return Role::Fixed;
  for (ValueId v : n.inputs) {
    if (v == kNone || !g.value(v).has_shape) return Role::Fixed;
  }
  const Shape& in = g.value(n.inputs[0]).shape;
  const Shape& out = g.value(n.outputs[0]).shape;
  const ops::LayoutRole role = ops::layout_of(n);
  if (role == ops::LayoutRole::Permutation) return Role::Transpose;
  if (out.size() < 3) return Role::Fixed;
  const auto agnostic_if = [](bool agnostic) { return agnostic ? Role::Agnostic : Role::Fixed; };
  switch (role) {
    case ops::LayoutRole::Elementwise:
      return Role::Agnostic;
    case ops::LayoutRole::Axes:
      return agnostic_if(in.size() == out.size());
    case ops::LayoutRole::Regroup:
      return agnostic_if(keeps_channels(in, out));
    case ops::LayoutRole::Window:
      return is_conv(n) ? role_of_conv(g, n) : agnostic_if(!ops::is_channels_last(n));
    default:
      return Role::Fixed;
  }
}

// --- Regions and their prices --------------------------------------------------------------------

bool has_layout(const Value& v) {
  return !v.constant && v.has_shape && v.shape.size() >= 3;
}

double bytes_of(const Graph& g, const Value& v) {
  return static_cast<double>(size_of(v.dtype)) * graph::count_hint(g, v.shape);
}

class Regions {
 public:
  explicit Regions(const Graph& g) : g_(g), parent_(g.values().size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (const auto& n : g.nodes()) roles_[n.get()] = role_of(g, *n);
    for (const auto& n : g.nodes()) {
      if (role(n.get()) == Role::Agnostic) unite(*n);
    }
    for (size_t v = 0; v < parent_.size(); ++v) parent_[v] = root(v);
    for (const auto& n : g.nodes()) find_anchors(*n);
    prices_.resize(parent_.size());
    for (const auto& n : g.nodes()) price_node(*n);
    for (const ValueId v : g.values().ids()) price_value(v);
  }

  /// For each value, whether its channels are last.
  IdVector<ValueId, bool> choose() const {
    // Most values belong to no region with a choice. Leaving them out keeps the cut small.
    std::vector<size_t> number(parent_.size(), 0);
    std::vector<LayoutRegion> regions;
    for (const size_t r : anchored_) {
      number[r] = regions.size();
      regions.push_back(prices_[r]);
    }
    std::vector<LayoutBorder> borders;
    for (const LayoutBorder& b : borders_) borders.push_back({number[b.a], number[b.b], b.price});
    const std::vector<bool> last = choose_layouts(regions, borders);
    IdVector<ValueId, bool> out;
    for (const ValueId v : g_.values().ids()) out.push_back(anchored(v) && last[number[region(v)]]);
    return out;
  }

 private:
  Role role(const Node* n) const { return n == nullptr ? Role::Fixed : roles_.at(n); }
  const Value& value(ValueId v) const { return g_.value(v); }

  size_t root(size_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  size_t region(ValueId v) const { return parent_[v.index()]; }

  void unite(const Node& n) {
    const ValueId out = n.outputs[0];
    for (ValueId v : layout_operands(n)) {
      const bool same_rank = value(v).shape.size() == value(out).shape.size();
      if (has_layout(value(v)) && (same_rank || is_regroup(n)))
        parent_[root(v.index())] = root(out.index());
    }
  }

  /// Marks the regions with a convolution or pool. Others have no layout to choose.
  void find_anchors(const Node& n) {
    const bool anchor =
        role(&n) == Role::Contraction || (role(&n) == Role::Agnostic && is_window(n));
    if (!anchor) return;
    anchored_.insert(region(n.inputs[0]));
    anchored_.insert(region(n.outputs[0]));
  }
  bool anchored(ValueId v) const { return has_layout(value(v)) && anchored_.count(region(v)) != 0; }

  /// The reader of v for which a view of it costs the most.
  Reader reader_of(ValueId v, int depth = 0) const {
    Reader most = g_.is_output(v) ? Reader::Output : Reader::Contraction;
    for (const Node* u : g_.users(v)) most = std::max(most, reader_at(*u, depth));
    return most;
  }
  Reader reader_at(const Node& n, int depth = 0) const {
    constexpr int kDeep = 8;
    const ops::OpDef* def = ops::find(n);
    const ops::Lowering how = def == nullptr ? ops::Lowering::None : def->lowering;
    if (how == ops::Lowering::MatMul || how == ops::Lowering::Conv) return Reader::Contraction;
    const bool view = how == ops::Lowering::View && depth < kDeep;
    return view ? reader_of(n.outputs[0], depth + 1) : Reader::Kernel;
  }

  /// The price of transposing v, whose elements have the shape `from`.
  double price(ValueId v, const Shape& from, const AxisPermutation& perm, Reader reader) const {
    return keeps_order(perm, from) ? 0 : conversion_price(bytes_of(g_, value(v)), reader);
  }
  /// The price of converting v between the two layouts.
  double price(ValueId v, Reader reader) const {
    const Shape& s = value(v).shape;
    return price(v, s, to_channels_last(s.size()), reader);
  }

  void price_node(const Node& n) {
    const ValueId in = n.inputs.empty() ? kNone : n.inputs[0];
    switch (role(&n)) {
      case Role::Fixed:
        return;
      case Role::Transpose:
        return price_transpose(n);
      case Role::Contraction:
        borders_.push_back({region(in), region(n.outputs[0]), price(in, Reader::Contraction)});
        return;
      case Role::Agnostic:
        break;
    }
    LayoutRegion& at = prices_[region(n.outputs[0])];
    if (is_conv(n)) {
      const Shape& w = value(n.inputs[1]).shape;
      const int64_t taps = element_count(w).value() / w[0].value();
      at.last += depthwise_price(bytes_of(g_, value(n.outputs[0])), static_cast<double>(taps));
    }
    for (ValueId v : layout_operands(n)) {
      const size_t rank = value(v).shape.size();
      const bool tied = rank == value(n.outputs[0]).shape.size() || is_regroup(n);
      if (value(v).constant || tied || rank == 0) continue;
      at.last += conversion_price(bytes_of(g_, value(v)), Reader::Kernel);
    }
  }

  /// Adds the price of a transpose to one of the regions that it separates.
  void price_transpose(const Node& n) {
    const ValueId in = n.inputs[0];
    const ValueId out = n.outputs[0];
    const AxisPermutation perm = *ops::permutation_of(n);
    const Reader reader = reader_of(out);
    const Shape& shape = value(in).shape;
    const size_t rank = shape.size();
    const double as_it_is = price(in, shape, perm, reader);
    if (anchored(in)) {
      const AxisPermutation last = to_channels_last(rank);
      const AxisPermutation merged = permuted(to_channels_first(rank), perm);
      prices_[region(in)].first += as_it_is;
      prices_[region(in)].last += price(in, permuted(shape, last), merged, reader);
    } else if (anchored(out)) {
      const AxisPermutation merged = permuted(perm, to_channels_last(rank));
      prices_[region(out)].first += as_it_is;
      prices_[region(out)].last += price(in, shape, merged, reader);
    }
  }

  /// Adds the prices of conversions after a producer, or before readers, without a choice of
  /// layout.
  void price_value(ValueId v) {
    if (!anchored(v)) return;
    const Node* producer = value(v).producer;
    const Role made_by = role(producer);
    LayoutRegion& at = prices_[region(v)];
    bool leaves = g_.is_output(v);
    Reader enters = Reader::Contraction;
    Reader left = leaves ? Reader::Output : Reader::Contraction;
    for (const Node* u : g_.users(v)) {
      if (role(u) == Role::Agnostic) enters = Reader::Kernel;
      if (role(u) != Role::Fixed) continue;
      leaves = true;
      left = std::max(left, reader_at(*u));
    }
    const bool counted = made_by == Role::Transpose && !anchored(producer->inputs[0]);
    const bool fixed = made_by == Role::Fixed || (made_by == Role::Transpose && !counted);
    if (fixed) at.last += price(v, enters);
    if (leaves) at.last += price(v, left);
  }

  const Graph& g_;
  std::map<const Node*, Role> roles_;
  std::vector<size_t> parent_;        // union-find over values: the root represents the region
  std::set<size_t> anchored_;         // regions
  std::vector<LayoutRegion> prices_;  // by the root of a region
  std::vector<LayoutBorder> borders_;
};

}  // namespace

Status layout(Graph& g) {
  const IdVector<ValueId, bool> last = Regions(g).choose();
  if (std::find(last.begin(), last.end(), true) == last.end()) return {};
  std::vector<Node*> nodes;
  for (const auto& n : g.nodes()) {
    const Role role = role_of(g, *n);
    const bool chosen =
        (role == Role::Agnostic || role == Role::Contraction) && last[n->outputs[0]];
    if (chosen) nodes.push_back(n.get());
  }
  RP_TRY(make_channels_last(g, nodes));
  return canonicalize(g);
}

}  // namespace reprise::passes
