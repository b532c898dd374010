#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"
#include "runtime/host/host_kernels.h"

namespace reprise::passes {

namespace {

/// Whether the value has no elements in any run.
bool is_empty(const graph::Value& v) {
  return !is_host_only(v.dtype) && v.has_shape && is_static(v.shape) &&
         element_count(v.shape).is_const(0);
}

/// Replaces empty outputs of the node by constants without data, so that nothing computes them.
/// Returns whether all outputs are empty.
bool replace_empty(graph::Graph& g, const graph::Node& n) {
  bool all = true;
  for (const graph::ValueId v : n.outputs) {
    if (v == graph::kNone) continue;
    const graph::Value& value = g.value(v);
    if (!is_empty(value)) {
      all = false;
      continue;
    }
    const std::string name = value.name;
    g.replace_uses(v, g.add_constant(name, HostTensor(value.dtype, static_dims(value.shape))));
  }
  return all;
}

}  // namespace

namespace {

/// Decomposes the chosen nodes, and the chosen ones among the nodes that replace them.
Status decompose_where(graph::Graph& g, bool (*chosen)(const graph::Node&)) {
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    graph::Node* n = it->get();
    if (!chosen(*n)) {
      ++it;
      continue;
    }
    if (replace_empty(g, *n)) {
      ++it;
      g.erase_node(n);
      continue;
    }
    const ops::OpDef* def = ops::find(*n);
    if (def == nullptr || def->decompose == nullptr) {
      ++it;
      continue;
    }
    // The rewriter inserts before the node. Continue at the first inserted node, so that a
    // decomposition may use operators that are decomposed themselves.
    const bool first = it == nodes.begin();
    const auto before = first ? it : std::prev(it);
    ops::Rewriter rw(g, *n);
    const Result<bool> decomposed = def->decompose(rw);
    if (!decomposed.ok()) return decomposed.status().about(n->origins);
    const bool replaced = *decomposed;
    if (!replaced) {
      ++it;
      continue;
    }
    g.erase_node(n);
    it = first ? nodes.begin() : std::next(before);
  }
  return {};
}

}  // namespace

Status decompose(graph::Graph& g) {
  return decompose_where(g, [](const graph::Node&) { return true; });
}

bool lacks_host_kernel(const graph::Node& n) {
  const ops::OpDef* def = ops::find(n);
  return def != nullptr && def->decompose != nullptr && host::find(n.op) == nullptr;
}

Status decompose_for_host(graph::Graph& g) {
  RP_TRY(decompose_where(g, lacks_host_kernel));
  // What only unpacked weights for these operators would keep a second copy of them.
  return dce(g);
}

}  // namespace reprise::passes
