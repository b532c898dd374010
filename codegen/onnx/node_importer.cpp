#include "codegen/onnx/node_importer.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/onnx/import.h"

namespace reprise::onnx {

namespace {

Status write_body(const NodeBody& from, wire::Graph& to);

Status write_node(const NodeText& from, wire::Node& to) {
  to.set_op_type(from.op);
  to.set_domain(from.domain);
  to.set_name(from.name);
  for (const std::string& name : from.inputs) to.add_input(name);
  for (const std::string& name : from.outputs) to.add_output(name);
  for (const auto& [name, value] : from.attrs)
    RP_TRY(set_attribute(name, value, *to.add_attribute()));
  for (const auto& [name, body] : from.bodies) {
    wire::Attribute& a = *to.add_attribute();
    a.set_name(name);
    a.set_type(static_cast<int32_t>(AttrType::Graph));
    RP_TRY(write_body(*body, *a.mutable_g()));
  }
  return {};
}

Status write_body(const NodeBody& from, wire::Graph& to) {
  to.set_name(from.name);
  for (const std::string& name : from.inputs) to.add_input()->set_name(name);
  for (const std::string& name : from.outputs) to.add_output()->set_name(name);
  for (const NodeText& n : from.nodes) RP_TRY(write_node(n, *to.add_node()));
  return {};
}

}  // namespace

struct NodeImporter::State {
  State(Graph& g, std::map<std::string, int64_t> opsets)
      : import(std::make_shared<const wire::Model>(), ExternalData(), "", options) {
    frame.opsets = std::move(opsets);
    scope.graph = &g;
    scope.frame = &frame;
  }

  /// Removes what an attempt to add a node has left in the graph.
  void undo(const wire::Node& n, const graph::Node* last, size_t guards) {
    Graph& g = *scope.graph;
    while (!g.nodes().empty() && g.nodes().back().get() != last)
      g.erase_node(g.nodes().back().get());
    g.guards.resize(std::min(guards, g.guards.size()));
    for (const std::string& name : n.output()) scope.names.erase(name);
  }

  ImportOptions options;
  Import import;
  Frame frame;
  Scope scope;
};

NodeImporter::NodeImporter(Graph& g, std::map<std::string, int64_t> opsets)
    : state_(std::make_unique<State>(g, std::move(opsets))) {}

NodeImporter::~NodeImporter() = default;

Status NodeImporter::define(const std::string& name, ValueId v) {
  return state_->import.names.define(state_->scope, name, v);
}

Status NodeImporter::add(const NodeText& n, int64_t version) {
  const std::string domain = canonical_domain(n.domain);
  if (version != 0 && domain.empty()) RP_TRY(check_default_opset(version));
  wire::Node node;
  RP_TRY(write_node(n, node).with_context("node " + shown(name_of_node(node))));
  const wire::Node& kept = state_->import.model.keep(std::move(node));
  const std::map<std::string, int64_t> opsets = state_->frame.opsets;
  if (version != 0) state_->frame.opsets[domain] = version;
  Graph& g = *state_->scope.graph;
  const graph::Node* const last = g.nodes().empty() ? nullptr : g.nodes().back().get();
  const size_t guards = g.guards.size();
  Status added = state_->import.nodes.add(state_->scope, kept).about(name_of_node(kept));
  state_->frame.opsets = opsets;
  if (!added.ok()) state_->undo(kept, last, guards);
  return added;
}

ValueId NodeImporter::find(const std::string& name) const {
  const auto at = state_->scope.names.find(name);
  return at == state_->scope.names.end() ? kNone : at->second;
}

Status NodeImporter::finish(const std::vector<std::string>& outputs) {
  return state_->import.forks.end(state_->scope, {outputs.begin(), outputs.end()});
}

std::vector<std::string> NodeImporter::take_notes() {
  return state_->import.notes.take();
}

}  // namespace reprise::onnx
