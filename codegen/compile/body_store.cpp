#include "codegen/compile/body_store.h"

#include <algorithm>

#include "codegen/compile/host_plan.h"
#include "codegen/passes/pass.h"

namespace reprise {

plan::Interface body_interface(const graph::Graph& body) {
  plan::Interface io = make_interface(body);
  for (const graph::ValueId v : body.captures) {
    if (v == graph::kNone) continue;
    const graph::Value& value = body.value(v);
    io.inputs.push_back({value.name, value.dtype, value.shape});
  }
  return io;
}

std::vector<uint32_t> captured_inputs(const graph::Node& n, const graph::Graph& body) {
  const size_t first = n.inputs.size() - body.captures.size();
  std::vector<uint32_t> out;
  for (size_t i = 0; i < body.captures.size(); ++i) {
    if (body.captures[i] != graph::kNone) out.push_back(static_cast<uint32_t>(first + i));
  }
  return out;
}

Result<std::vector<uint32_t>> BodyStore::of(const graph::Node& n) {
  std::vector<uint32_t> out;
  for (const auto& [label, body] : n.subgraphs) {
    RP_ASSIGN(const uint32_t index, add(n, label, body));
    out.push_back(index);
  }
  return out;
}

Result<uint32_t> BodyStore::add(const graph::Node& n, const std::string& label,
                                const std::shared_ptr<graph::Graph>& body) {
  if (const auto known = known_.find(body); known != known_.end()) return known->second;
  plan::Body out;
  out.name = label + " of node '" + n.name + "'";
  const std::unique_ptr<graph::Graph> own = body->clone();
  RP_TRY(passes::decompose_for_host(*own).with_context(out.name));
  auto plan = build_host_plan(*own, weights_, *this);
  if (!plan.ok()) return plan.status().with_context(out.name);
  out.plan = *std::move(plan);
  out.io = body_interface(*own);
  // The caller, or the shape of an input, gives every symbol its value.
  for (SymbolSource& s : out.io.sources) {
    if (s.kind == SymbolSource::Kind::InputDim)
      s = {SymbolSource::Kind::HostOutput, graph::kNone.number(), 0, {}};
  }
  out.captures = captured_inputs(n, *own);
  out.inherited_symbols = own->inherited_symbols;
  const auto index = static_cast<uint32_t>(package_.bodies.size());
  package_.bodies.push_back(std::move(out));
  known_.emplace(body, index);
  return index;
}

}  // namespace reprise
