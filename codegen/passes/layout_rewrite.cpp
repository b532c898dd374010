#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "codegen/ops/op.h"
#include "codegen/passes/layout.h"
#include "runtime/host/host_kernels.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

enum class Kind {
  Axis,     // an axis
  Axes,     // a set of them
  PerAxis,  // a number or expression for each
  Pads,     // begins, then ends
};

struct Attribute {
  std::string_view op, name;
  Kind kind;
};

constexpr auto kAttributes = std::to_array<Attribute>({
    {"Concat", "axis", Kind::Axis},
    {"Expand", "shape", Kind::PerAxis},
    {"Pad", "pads", Kind::Pads},
    {"ReduceMax", "axes", Kind::Axes},
    {"ReduceMin", "axes", Kind::Axes},
    {"ReduceProd", "axes", Kind::Axes},
    {"ReduceSum", "axes", Kind::Axes},
    {"Reshape", "shape", Kind::PerAxis},
    {"Resize", "scales", Kind::PerAxis},
    {"Resize", "sizes", Kind::PerAxis},
    {"Slice", "starts", Kind::PerAxis},
    {"Slice", "steps", Kind::PerAxis},
});

/// Where an axis of [N, C, spatial...] is with channels last.
int64_t moved(int64_t axis, size_t rank) {
  return axis == 0 ? 0 : axis == 1 ? static_cast<int64_t>(rank) - 1 : axis - 1;
}

std::vector<Expr> permuted_pads(const std::vector<Expr>& pads) {
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  const Permutation perm = to_channels_last(pads.size() / 2);
  std::vector<Expr> out = permuted<Expr>({pads.begin(), pads.begin() + half}, perm);
  const std::vector<Expr> ends = permuted<Expr>({pads.begin() + half, pads.end()}, perm);
  out.insert(out.end(), ends.begin(), ends.end());
  return out;
}

Attr moved_attribute(const Attr& attr, Kind kind, size_t rank) {
  switch (kind) {
    case Kind::Axis:
      return moved(std::get<int64_t>(attr), rank);
    case Kind::Axes: {
      auto axes = std::get<std::vector<int64_t>>(attr);
      for (int64_t& a : axes) a = moved(a, rank);
      std::sort(axes.begin(), axes.end());
      return axes;
    }
    case Kind::PerAxis:
      if (const auto* scales = std::get_if<std::vector<float>>(&attr))
        return permuted(*scales, to_channels_last(scales->size()));
      return permuted(std::get<std::vector<Expr>>(attr),
                      to_channels_last(std::get<std::vector<Expr>>(attr).size()));
    case Kind::Pads:
      return permuted_pads(std::get<std::vector<Expr>>(attr));
  }
  return attr;
}

class Rewrite {
 public:
  explicit Rewrite(Graph& g) : g_(g) {}

  /// `next`: the node after n, if there is one.
  Status node(Node& n, Node* next) {
    const ValueId out = n.outputs[0];
    const size_t rank = g_.value(out).shape.size();
    const size_t in_rank = g_.value(n.inputs[0]).shape.size();
    const bool window = is_window(n);
    // Others have one operand, and numbers.
    const size_t operands = window || (has_axes(n) && n.op != "Concat") ? 1 : n.inputs.size();
    for (size_t i = 0; i < operands; ++i) {
      const size_t wanted = n.op == "Reshape" ? in_rank : rank;
      RP_ASSIGN(n.inputs[i], channels_last(n.inputs[i], wanted, n));
    }
    for (const Attribute& a : kAttributes) {
      if (n.op != a.op || !n.attrs.has(a.name)) continue;
      const std::string name(a.name);
      n.attrs.set(name, moved_attribute(attribute(n, name), a.kind, in_rank));
    }
    if (window) n.attrs.set("channels_last", int64_t{1});

    const Value& old = g_.value(out);
    const ValueId last =
        g_.add_value(old.name + "_last", old.dtype, permuted(old.shape, to_channels_last(rank)));
    last_[{out, rank}] = last;
    n.outputs[0] = last;
    g_.value(last).producer = &n;
    RP_TRY(ops::infer(g_, n));
    Node back;
    back.op = "Transpose";
    back.inputs = {last};
    back.outputs = {out};
    back.attrs.set("perm", to_channels_first(rank));
    back.origins = n.origins;
    g_.add_node(std::move(back), next);
    return {};
  }

 private:
  static Attr attribute(const Node& n, const std::string& name) {
    const auto at = std::find_if(n.attrs.begin(), n.attrs.end(),
                                 [&](const auto& entry) { return entry.first == name; });
    return at->second;
  }

  /// v with channels last, as an operand of a node that works on `rank` axes.
  Result<ValueId> channels_last(ValueId v, size_t rank, Node& user) {
    const auto known = last_.find({v, rank});
    if (known != last_.end()) return known->second;
    if (element_count(g_.value(v).shape).is_const(1)) return v;
    RP_ASSIGN(ValueId out, with_rank(v, rank, user));
    RP_ASSIGN(out, transposed(out, to_channels_last(rank), user));
    last_[{v, rank}] = out;
    return out;
  }

  /// Leading axes of size 1 make up the rank.
  Result<ValueId> with_rank(ValueId v, size_t rank, Node& user) {
    Shape shape = g_.value(v).shape;
    if (shape.size() == rank) return v;
    shape.insert(shape.begin(), rank - shape.size(), Expr(1));
    if (g_.value(v).constant) {
      return g_.add_constant(g_.value(v).name, g_.value(v).constant->reshaped(static_dims(shape)));
    }
    Node n;
    n.op = "Reshape";
    n.attrs.set("shape", std::vector<Expr>(shape));
    return emit(std::move(n), v, user, "_reshaped");
  }

  Result<ValueId> transposed(ValueId v, Permutation perm, Node& user) {
    Node n;
    n.op = "Transpose";
    n.attrs.set("perm", std::move(perm));
    const auto& constant = g_.value(v).constant;
    if (!constant) return emit(std::move(n), v, user, "_last");
    const std::vector<const HostTensor*> inputs{&*constant};
    RP_ASSIGN(auto out, host::find(n.op)({n.op, 0, n.attrs, inputs}));
    return g_.add_constant(g_.value(v).name + "_last", std::move(out[0]));
  }

  Result<ValueId> emit(Node n, ValueId v, Node& user, const std::string& suffix) {
    n.inputs = {v};
    n.outputs = {g_.add_unknown(g_.value(v).name + suffix)};
    n.origins = user.origins;
    Node* added = g_.add_node(std::move(n), &user);
    RP_TRY(ops::infer(g_, *added));
    return added->outputs[0];
  }

  Graph& g_;
  /// By value and rank, the same with channels last.
  std::map<std::pair<ValueId, size_t>, ValueId> last_;
};

}  // namespace

bool is_window(const Node& n) {
  return n.op == "Conv" || n.op == "MaxPool" || n.op == "AveragePool";
}

bool has_axes(const Node& n) {
  return std::any_of(kAttributes.begin(), kAttributes.end(),
                     [&](const Attribute& a) { return n.op == a.op && n.attrs.has(a.name); });
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
