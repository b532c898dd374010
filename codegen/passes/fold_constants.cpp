#include <set>

#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"
#include "runtime/host/host_kernels.h"
#include "runtime/operators/eval_attrs.h"

namespace reprise::passes {

namespace {

// A larger folded constant would cost more in the package than it saves in a run.
constexpr int64_t kMaxElements = int64_t{1} << 24;

// Views of large weights stay views, because a second copy of the data would only enlarge the
// package. Kernels read through views, or pack through them when a session loads.
constexpr int64_t kMaxView = int64_t{1} << 12;

bool is_large_view(const graph::Graph& g, const graph::Node& n) {
  const ops::OpDef* def = ops::find(n);
  if (def == nullptr || def->lowering != ops::Lowering::View || n.inputs.empty()) return false;
  return n.inputs[0] != graph::kNone && g.value(n.inputs[0]).constant &&
         g.value(n.inputs[0]).constant->count() > kMaxView;
}

/// The nodes that compute weights of convolutions by views. Such a weight is packed from one
/// constant and not read through views.
std::set<const graph::Node*> convolution_weights(const graph::Graph& g) {
  std::set<const graph::Node*> out;
  for (const auto& n : g.nodes()) {
    const ops::OpDef* conv = ops::core_def(*n);
    if (conv == nullptr || conv->lowering != ops::Lowering::Conv) continue;
    const graph::Node* p = g.value(n->inputs[1]).producer;
    while (p != nullptr && !p->inputs.empty() && p->inputs[0] != graph::kNone) {
      const ops::OpDef* def = ops::find(*p);
      if (def == nullptr || def->lowering != ops::Lowering::View) break;
      out.insert(p);
      p = g.value(p->inputs[0]).producer;
    }
  }
  return out;
}

bool foldable(const graph::Graph& g, const graph::Node& n) {
  // The pass quantized-weights keeps these in 8 bits.
  if (ops::dequantizes(n)) return false;
  // Kernels compute these positions and everything derived from them: see OpBuilder::positions().
  if (ops::Attributes(n).has("computed")) return false;
  if (!n.subgraphs.empty() || ops::is_random(n)) return false;
  for (graph::ValueId v : n.inputs) {
    if (v != graph::kNone && !g.value(v).constant) return false;
  }
  for (graph::ValueId v : n.outputs) {
    if (v == graph::kNone) continue;
    const graph::Value& out = g.value(v);
    if (g.is_output(v) || !out.has_shape || is_container(out.dtype)) return false;
    // A slice of a constant may have a dynamic size.
    if (!is_static(out.shape) || element_count(out.shape).value() > kMaxElements) return false;
  }
  return true;
}

}  // namespace

Status fold_constants(graph::Graph& g) {
  const std::set<const graph::Node*> weights = convolution_weights(g);
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    graph::Node* n = it->get();
    ++it;
    if (!foldable(g, *n) || (is_large_view(g, *n) && weights.count(n) == 0)) continue;
    const host::Kernel kernel = host::find(n->op);
    if (kernel == nullptr) continue;
    const Result<AttrMap> attrs = eval_attrs(n->attrs, {});
    if (!attrs.ok()) continue;  // they depend on sizes of the run
    std::vector<const HostTensor*> inputs;
    for (graph::ValueId v : n->inputs) {
      inputs.push_back(v == graph::kNone ? nullptr : &*g.value(v).constant);
    }
    host::Call call{n->op, n->opset, *attrs, inputs, n->outputs.size()};
    const graph::ValueId first = n->outputs.front();
    if (first != graph::kNone && is_static(g.value(first).shape)) {
      call.output_dims = static_dims(g.value(first).shape);
    }
    auto results = kernel(call);
    if (!results.ok())
      return results.status()
          .with_context("node '" + n->name + "' (" + n->op + ")")
          .about(n->origins);
    for (size_t i = 0; i < n->outputs.size(); ++i) {
      const graph::ValueId out = n->outputs[i];
      if (out == graph::kNone) continue;
      const HostTensor& t = (*results)[i];
      // Inference determined the shapes of constants, so a mismatch is a bug.
      if (t.dtype() != g.value(out).dtype) {
        return internal_error("node '" + n->name + "' (" + n->op + "): folded to " +
                              std::string(name_of(t.dtype())) + ", inferred " +
                              std::string(name_of(g.value(out).dtype)))
            .about(n->origins);
      }
      g.replace_uses(out, g.add_constant(g.value(out).name, t));
    }
    g.erase_node(n);
  }
  return {};
}

}  // namespace reprise::passes
