#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/permutation.h"
#include "codegen/passes/layout.h"
#include "runtime/host/host_kernels.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using ops::AxisPermutation;
using ops::permuted;
using ops::to_channels_first;
using ops::to_channels_last;

/// The position of an axis of [N, C, spatial...] with channels last.
int64_t moved(int64_t axis, size_t rank) {
  return axis == 0 ? 0 : axis == 1 ? static_cast<int64_t>(rank) - 1 : axis - 1;
}

std::vector<Expr> permuted_pads(const std::vector<Expr>& pads) {
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  const AxisPermutation perm = to_channels_last(pads.size() / 2);
  std::vector<Expr> out = permuted<Expr>({pads.begin(), pads.begin() + half}, perm);
  const std::vector<Expr> ends = permuted<Expr>({pads.begin() + half, pads.end()}, perm);
  out.insert(out.end(), ends.begin(), ends.end());
  return out;
}

/// Nothing for attributes that do not refer to axes of input 0 or the result.
std::optional<Attr> moved_attribute(const Attr& attr, ops::CoreForm form, size_t rank) {
  switch (form) {
    case ops::CoreForm::Axis:
      return moved(std::get<int64_t>(attr), rank);
    case ops::CoreForm::Axes: {
      auto axes = std::get<std::vector<int64_t>>(attr);
      for (int64_t& a : axes) a = moved(a, rank);
      std::sort(axes.begin(), axes.end());
      return axes;
    }
    case ops::CoreForm::Scales: {
      const auto& scales = std::get<std::vector<float>>(attr);
      return permuted(scales, to_channels_last(scales.size()));
    }
    case ops::CoreForm::Sizes:
    case ops::CoreForm::PerAxis: {
      const auto& exprs = std::get<std::vector<Expr>>(attr);
      return permuted(exprs, to_channels_last(exprs.size()));
    }
    case ops::CoreForm::Pads:
      return permuted_pads(std::get<std::vector<Expr>>(attr));
    default:
      return std::nullopt;
  }
}

/// Rewrites the attributes that refer to axes for channels last.
void move_attributes(Node& n, size_t rank) {
  const AttrMap before = n.attrs;
  const ops::OpDef* def = ops::core_def(n);
  for (const ops::AttrDecl& decl : def->attributes) {
    for (const auto& [name, value] : before) {
      if (name != decl.name) continue;
      if (auto attr = moved_attribute(value, decl.core, rank)) n.attrs.set(name, *std::move(attr));
    }
  }
  if (def->layout == ops::LayoutRole::Window) n.attrs.set("channels_last", int64_t{1});
}

class Rewrite {
 public:
  explicit Rewrite(Graph& g) : g_(g) {}

  /// `next` is the node after n, or null.
  Status node(Node& n, Node* next) {
    const ValueId out = n.outputs[0];
    const size_t rank = g_.value(out).shape.size();
    const size_t in_rank = g_.value(n.inputs[0]).shape.size();
    const bool regroups = ops::layout_of(n) == ops::LayoutRole::Regroup;
    const size_t operands = layout_operands(n).size();
    for (size_t i = 0; i < operands; ++i) {
      RP_ASSIGN(const ValueId v, channels_last(n.inputs[i], regroups ? in_rank : rank, n));
      g_.set_input(n, i, v);
    }
    move_attributes(n, in_rank);

    const Value& old = g_.value(out);
    const ValueId last =
        g_.add_value(old.name + "_last", old.dtype, permuted(old.shape, to_channels_last(rank)));
    last_[{out, rank}] = last;
    g_.set_output(n, 0, last);
    RP_TRY(ops::infer(g_, n));
    graph::NodeSpec back = ops::transpose_node(to_channels_first(rank));
    back.inputs = {last};
    back.outputs = {out};
    back.origins = n.origins;
    g_.add_node(std::move(back), next);
    return {};
  }

 private:
  /// v with channels last, as an operand of a node with `rank` axes.
  Result<ValueId> channels_last(ValueId v, size_t rank, Node& user) {
    const auto known = last_.find({v, rank});
    if (known != last_.end()) return known->second;
    if (element_count(g_.value(v).shape).is_const(1)) return v;
    RP_ASSIGN(ValueId out, with_rank(v, rank, user));
    RP_ASSIGN(out, transposed(out, to_channels_last(rank), user));
    last_[{v, rank}] = out;
    return out;
  }

  /// Adds leading axes of size 1 up to the rank.
  Result<ValueId> with_rank(ValueId v, size_t rank, Node& user) {
    Shape shape = g_.value(v).shape;
    if (shape.size() == rank) return v;
    shape.insert(shape.begin(), rank - shape.size(), Expr(1));
    if (g_.value(v).constant) {
      return g_.add_constant(g_.value(v).name, g_.value(v).constant->reshaped(static_dims(shape)));
    }
    return emit(ops::reshape_node(std::move(shape)), v, user, "_reshaped");
  }

  Result<ValueId> transposed(ValueId v, AxisPermutation perm, Node& user) {
    graph::NodeSpec n = ops::transpose_node(std::move(perm));
    const auto& constant = g_.value(v).constant;
    if (!constant) return emit(std::move(n), v, user, "_last");
    const std::vector<const HostTensor*> inputs{&*constant};
    RP_ASSIGN(auto out, host::find(n.op)({n.op, 0, n.attrs, inputs}));
    return g_.add_constant(g_.value(v).name + "_last", std::move(out[0]));
  }

  Result<ValueId> emit(graph::NodeSpec n, ValueId v, Node& user, const std::string& suffix) {
    n.inputs = {v};
    n.outputs = {g_.add_unknown(g_.value(v).name + suffix)};
    n.origins = user.origins;
    Node* added = g_.add_node(std::move(n), &user);
    RP_TRY(ops::infer(g_, *added));
    return added->outputs[0];
  }

  Graph& g_;
  /// The values with channels last, by original value and rank.
  std::map<std::pair<ValueId, size_t>, ValueId> last_;
};

}  // namespace

std::span<const ValueId> layout_operands(const Node& n) {
  const ops::OpDef* def = ops::core_def(n);
  const bool all =
      def != nullptr && (def->layout == ops::LayoutRole::Elementwise || def->concatenates);
  return std::span(n.inputs).first(all ? n.inputs.size() : 1);
}

Status make_channels_last(Graph& g, const std::vector<Node*>& nodes) {
  std::unordered_map<const Node*, Node*> next;
  const Node* before = nullptr;
  for (const auto& n : g.nodes()) {
    if (before != nullptr) next[before] = n.get();
    before = n.get();
  }
  Rewrite rewrite(g);
  for (Node* n : nodes) {
    const auto after = next.find(n);
    RP_TRY(rewrite.node(*n, after == next.end() ? nullptr : after->second));
  }
  return {};
}

}  // namespace reprise::passes
