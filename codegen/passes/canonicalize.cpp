#include <vector>

#include "codegen/ops/op.h"
#include "codegen/passes/pass.h"
#include "codegen/passes/permutation.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

bool is_core(const Node& n, std::string_view op) {
  return n.domain.empty() && n.op == op && n.opset == 0;
}

bool same_shape(const Value& a, const Value& b) {
  return a.has_shape && b.has_shape && a.shape == b.shape;
}

bool is_identity_perm(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool is_no_op(const Graph& g, const Node& n) {
  const Value& in = g.value(n.inputs[0]);
  const Value& out = g.value(n.outputs[0]);
  if (in.dtype != out.dtype || !same_shape(in, out)) return false;
  if (n.op == "Identity" || is_core(n, "Reshape") || is_core(n, "Expand")) return true;
  if (is_core(n, "Cast")) return true;
  if (is_core(n, "Transpose")) return is_identity_perm(n.attrs.get_ints("perm"));
  if (is_core(n, "Slice")) {
    for (const Expr& e : n.attrs.get_exprs("steps")) {
      if (!e.is_const(1)) return false;
    }
    for (const Expr& e : n.attrs.get_exprs("starts")) {
      if (!e.is_const(0)) return false;
    }
    return true;
  }
  if (is_core(n, "Concat")) return n.inputs.size() == 1;
  if (n.op.rfind("Reduce", 0) == 0 && n.opset == 0) return n.attrs.get_ints("axes").empty();
  return false;
}

void to_reshape(Graph& g, Node& n) {
  n.op = "Reshape";
  n.attrs = AttrMap{};
  n.attrs.set("shape", g.value(n.outputs[0]).shape);
}

/// Merges a view into the view it reads. Returns whether the node changed.
bool merge_views(Graph& g, Node& n) {
  Node* p = g.value(n.inputs[0]).producer;
  if (p == nullptr) return false;
  const auto both = [&](std::string_view op) { return is_core(n, op) && is_core(*p, op); };
  if (both("Transpose")) {
    const auto outer = n.attrs.get_ints("perm");
    const auto inner = p->attrs.get_ints("perm");
    std::vector<int64_t> perm(outer.size());
    for (size_t i = 0; i < outer.size(); ++i) perm[i] = inner[static_cast<size_t>(outer[i])];
    n.attrs.set("perm", perm);
  } else if (!both("Reshape") && !both("Expand")) {
    return false;
  }
  // Ranks may grow from Expand to Expand; broadcasting aligns at the end either way.
  n.inputs[0] = p->inputs[0];
  for (const std::string& o : p->origins) n.origins.push_back(o);
  return true;
}

}  // namespace

Status canonicalize(Graph& g) {
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    Node* n = it->get();
    ++it;
    if (!n->domain.empty() || n->inputs.empty() || n->inputs[0] == graph::kNone ||
        n->outputs.size() != 1) {
      continue;
    }
    const auto merge = [&] {
      while (merge_views(g, *n)) {
      }
    };
    merge();
    const Value& in = g.value(n->inputs[0]);
    if (is_core(*n, "Transpose") && in.has_shape &&
        keeps_order(n->attrs.get_ints("perm"), in.shape)) {
      to_reshape(g, *n);
    }
    if (is_core(*n, "Expand") && in.has_shape &&
        element_count(in.shape) == element_count(g.value(n->outputs[0]).shape) &&
        in.shape.size() <= g.value(n->outputs[0]).shape.size()) {
      to_reshape(g, *n);  // only adds dims of size 1
    }
    merge();
    if (is_no_op(g, *n) && !g.is_output(n->outputs[0])) {
      g.replace_uses(n->outputs[0], n->inputs[0]);
      g.erase_node(n);
    }
  }
  return dce(g);
}

}  // namespace reprise::passes
