#include "apps/bisect/package_graph.h"

#include <span>

#include "codegen/onnx/exporter.h"
#include "codegen/onnx/importer.h"
#include "runtime/weights/weights.h"

namespace reprise::app {

namespace {

using graph::ValueId;

/// Adds a value for each buffer of the plan.
Result<IdVector<plan::BufferId, ValueId>> add_values(const package::Package& p, graph::Graph& g) {
  IdVector<plan::BufferId, ValueId> out;
  // States become ordinary inputs and outputs.
  g.inputs.resize(p.io.inputs.size() + p.io.states.size());
  std::vector<ValueId> outputs(p.io.outputs.size() + p.io.states.size(), graph::kNone);
  const auto output = [&](const plan::Buffer& b) -> ValueId& {
    const size_t before = b.kind == plan::BufferKind::Output ? 0 : p.io.outputs.size();
    return outputs[before + static_cast<size_t>(b.index)];
  };
  for (const plan::Buffer& b : p.host_plan.buffers) {
    if (b.kind == plan::BufferKind::Weight) {
      RP_ASSIGN(HostTensor t, raw_weight(p, p.host_plan, b));
      out.push_back(g.add_constant(b.name, std::move(t)));
      continue;
    }
    out.push_back(g.add_value(b.name, b.dtype, b.shape));
    if (b.kind == plan::BufferKind::Input) g.inputs[static_cast<size_t>(b.index)] = out.back();
    if (b.kind == plan::BufferKind::State)
      g.inputs[p.io.inputs.size() + static_cast<size_t>(b.index)] = output(b) = out.back();
  }
  for (const plan::BufferId b : p.host_plan.buffers.ids()) {
    const plan::BufferKind kind = p.host_plan.buffers[b].kind;
    if (kind == plan::BufferKind::Output || kind == plan::BufferKind::NextState)
      output(p.host_plan.buffers[b]) = out[b];
  }
  for (const plan::Plan::Alias& a : p.host_plan.aliases)
    output(p.host_plan.buffers[a.output]) = out[a.from];
  g.set_outputs(std::move(outputs));
  return out;
}

}  // namespace

Result<std::unique_ptr<graph::Graph>> graph_of(const package::Package& package) {
  graph::Graph g;
  g.name = package.model_name;
  g.symbols = package.io.symbols;
  g.symbol_sources = package.io.sources;
  RP_ASSIGN(const auto values, add_values(package, g));
  const auto of = [&](const std::vector<plan::BufferId>& buffers) {
    std::vector<ValueId> out;
    out.reserve(buffers.size());
    for (const plan::BufferId b : buffers) out.push_back(b.is_none() ? graph::kNone : values[b]);
    return out;
  };
  onnx::Part part;
  for (const plan::Step& step : package.host_plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (call == nullptr) return invalid_model("the host plan holds a launch");
    graph::NodeSpec n;
    n.op = call->op;
    n.opset = call->opset;
    n.name = call->node;
    n.attrs = call->attrs;
    n.inputs = of(call->inputs);
    n.outputs = of(call->outputs);
    part.nodes.push_back(g.add_node(std::move(n)));
  }
  part.inputs = g.inputs;
  part.outputs = g.outputs;
  RP_ASSIGN(const std::string bytes, onnx::export_part(g, part));
  return onnx::import_bytes(std::as_bytes(std::span(bytes)));
}

}  // namespace reprise::app
