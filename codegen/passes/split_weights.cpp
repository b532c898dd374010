#include <algorithm>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/weight_parts.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

/// What people are told about a weight that is read in parts.
std::string note_of(const graph::Graph& g, const graph::Node& n, int64_t most) {
  graph::ValueId largest = graph::kNone;
  for (const graph::ValueId v : n.inputs) {
    if (v == graph::kNone || ops::weight_bytes(g, v) <= most) continue;
    largest = ops::weight_of(g, v);
    break;
  }
  const graph::Value& weight = g.value(largest);
  return "node '" + n.name + "' (" + n.op + ") reads '" + weight.name + "' in parts: it has " +
         std::to_string(weight.constant->bytes().size()) +
         " bytes, and buffers of the device at most " + std::to_string(most);
}

}  // namespace

/// Nodes whose operator cannot take its weight in parts are left alone: fusion keeps them on the
/// host.
Status split_weights(PassContext& context) {
  graph::Graph& g = context.graph();
  const int64_t most = context.option("bytes");
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    graph::Node* n = it->get();
    ++it;
    const ops::OpDef* def = ops::core_def(*n);
    if (def == nullptr || def->split == nullptr) continue;
    const auto is_large = [&](graph::ValueId v) {
      return v != graph::kNone && ops::weight_bytes(g, v) > most;
    };
    if (std::ranges::none_of(n->inputs, is_large)) continue;
    std::string note = note_of(g, *n, most);
    ops::Rewriter rw(g, *n);
    // A kernel may read a little more than the weight has: tiles are filled up.
    const auto split = def->split(rw, most - most / 16);
    if (!split.ok()) return split.status().about(n->origins);
    const bool replaced = *split;
    if (!replaced) continue;
    g.erase_node(n);
    g.notes.push_back(std::move(note));
  }
  return {};
}

}  // namespace reprise::passes
