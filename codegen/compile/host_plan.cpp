#include "codegen/compile/host_plan.h"

#include <algorithm>
#include <utility>

#include "codegen/ops/row/op.h"
#include "runtime/host/host_kernels.h"
#include "runtime/plan/plan.h"

namespace reprise {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

Status require_host_kernel(const Node& n) {
  if (ops::find(n) != nullptr && (!n.subgraphs.empty() || host::find(n.op) != nullptr)) return {};
  return unsupported("node '" + n.name + "' (" + n.op +
                     ") has neither a device nor a host kernel; replace the operator in the model")
      .about(n.origins);
}

/// The node of the model, of which a pass may have made several.
const std::string& model_node_of(const Node& n) {
  const bool own = std::ranges::find(n.origins, n.name) != n.origins.end();
  return own || n.origins.empty() ? n.name : n.origins.front();
}

}  // namespace

Result<plan::HostCall> host_call(const Node& n, PlanBuffers& buffers, BodyStore& bodies,
                                 std::string reason) {
  RP_TRY(require_host_kernel(n));
  plan::HostCall call;
  call.op = n.op;
  call.node = model_node_of(n);
  call.opset = n.opset;
  call.attrs = n.attrs;
  call.reason = std::move(reason);
  for (ValueId v : n.inputs) call.inputs.push_back(buffers.of(v));
  for (ValueId v : n.outputs) call.outputs.push_back(buffers.of(v));
  RP_ASSIGN(call.bodies, bodies.of(n));
  return call;
}

plan::Interface make_interface(const Graph& g, size_t states) {
  plan::Interface io;
  io.symbols = g.symbols;
  io.sources = g.symbol_sources;
  for (ValueId v : g.inputs)
    io.inputs.push_back({g.value(v).name, g.value(v).dtype, g.value(v).shape});
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const graph::Value& v = g.value(g.outputs[i]);
    io.outputs.push_back({g.output_name(i), v.dtype, v.shape});
  }
  io.guards.assign(g.guards.begin(), g.guards.end());
  const size_t end = io.inputs.size(), first = end - states;
  for (size_t i = first; i < end; ++i) io.states.push_back({std::move(io.inputs[i])});
  for (SymbolSource& source : io.sources) {
    const auto index = static_cast<size_t>(source.index);
    // Behind the inputs are the captures of a body.
    if (source.kind != SymbolSource::Kind::InputDim || index < first || index >= end) continue;
    source = {SymbolSource::Kind::StateLength, static_cast<int32_t>(index - first), 0, {}};
  }
  io.inputs.resize(first);
  io.outputs.resize(io.outputs.size() - states);
  return io;
}

namespace {

/// The shape that a buffer of a state has in a plan. Of a state that grows, the rows are first in
/// plans for devices.
Shape shape_of(const plan::StateSlot& state, plan::BufferKind kind, bool rows_first) {
  if (!state.grows()) return state.shape;
  const auto axis = static_cast<size_t>(state.axis);
  const Expr& length = state.shape[axis];
  if (kind == plan::BufferKind::NewRows) return state.rows_first(state.length_after - length);
  if (kind == plan::BufferKind::AllRows) return state.rows_first(state.length_after);
  if (kind == plan::BufferKind::State) return rows_first ? state.rows_first(length) : state.shape;
  Shape next = state.shape;
  next[axis] = state.length_after;
  return next;
}

}  // namespace

void adopt_interface(const plan::Interface& io, plan::Plan& p) {
  using Kind = plan::BufferKind;
  const bool rows_first =
      std::ranges::any_of(p.buffers, [](const plan::Buffer& b) { return b.kind == Kind::NewRows; });
  for (plan::Buffer& b : p.buffers) {
    const auto index = static_cast<size_t>(b.index);
    if (b.kind == Kind::Input) b.shape = io.inputs[index].shape;
    if (b.kind == Kind::Output) b.shape = io.outputs[index].shape;
    if (b.kind == Kind::State || b.kind == Kind::NextState || b.kind == Kind::NewRows ||
        b.kind == Kind::AllRows)
      b.shape = shape_of(io.states[index], b.kind, rows_first);
  }
}

Result<plan::Plan> build_host_plan(const Graph& g, WeightStore& weights, BodyStore& bodies,
                                   size_t states) {
  plan::Plan p;
  PlanBuffers buffers(g, p, weights, states);
  for (const auto& n : g.nodes()) {
    plan::Step step;
    RP_ASSIGN(step.what, host_call(*n, buffers, bodies, "reference"));
    p.steps.push_back(std::move(step));
  }
  plan::compute_hazards(p, g.symbol_sources);
  return p;
}

}  // namespace reprise
