#include "codegen/onnx/functions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/onnx/import.h"

namespace reprise::onnx {

namespace {

constexpr size_t kMaxDepth = 64;  // of nested calls; bounds our recursion

/// "in function 'f' called by node 'a' (f)" for the outermost and the innermost of nested calls.
std::string context_of(const std::vector<std::string>& calls) {
  std::string text = calls.back();
  if (calls.size() > 2)
    text += ": " + std::to_string(calls.size() - 2) + " more nested call" +
            (calls.size() == 3 ? "" : "s");
  return calls.size() == 1 ? text : text + ": " + calls.front();
}

}  // namespace

Result<std::map<std::string, const wire::Attribute*>> Functions::bind_attributes(
    const Scope& scope, const wire::Node& n, const wire::Function& f) {
  std::map<std::string, const wire::Attribute*> bound;
  for (const wire::Attribute& a : f.attribute_proto()) bound[a.name()] = &a;
  for (const wire::Attribute& a : n.attribute()) {
    RP_ASSIGN(const wire::Attribute* value, import_.nodes.actual(scope, a));
    if (!value) continue;
    if (type_of(*value) == AttrType::Graph) {
      return unsupported("attribute " + shown(a.name()) + " passes a body to a function");
    }
    bound[a.name()] = value;
  }
  return bound;
}

Status Functions::add_call(Scope& scope, const wire::Node& n, const wire::Function& f) {
  Frame frame;
  frame.calls = scope.frame->calls;
  if (std::find(frame.calls.begin(), frame.calls.end(), &f) != frame.calls.end()) {
    return invalid_model(node_text(n) + ": function " + shown(f.name()) + " calls itself");
  }
  frame.calls.push_back(&f);
  if (frame.calls.size() > kMaxDepth) {
    return unsupported(node_text(n) + ": function calls are nested more than " +
                       std::to_string(kMaxDepth) + " deep");
  }
  if (n.input_size() > f.input_size() || n.output_size() > f.output_size()) {
    return invalid_model(node_text(n) + " has " + std::to_string(n.input_size()) + " inputs and " +
                         std::to_string(n.output_size()) + " outputs, but function " +
                         shown(f.name()) + " has " + std::to_string(f.input_size()) + " and " +
                         std::to_string(f.output_size()));
  }
  Result<std::map<std::string, int64_t>> opsets = read_opsets(f.opset_import());
  if (!opsets.ok()) return opsets.status().with_context("function " + shown(f.name()));
  frame.opsets = *std::move(opsets);
  frame.opsets.insert(scope.frame->opsets.begin(), scope.frame->opsets.end());
  auto attributes = bind_attributes(scope, n, f);
  if (!attributes.ok()) return attributes.status().with_context(node_text(n));
  frame.attributes = &*attributes;
  std::string call = n.name();
  for (int i = 0; call.empty() && i < n.output_size(); ++i) call = n.output(i);
  frame.prefix = scope.frame->prefix + (call.empty() ? n.op_type() : call) + "/";

  Scope body;
  body.graph = scope.graph;
  body.frame = &frame;
  RP_ASSIGN(std::vector<ValueId> inputs, import_.nodes.inputs_of(scope, n));
  inputs.resize(static_cast<size_t>(f.input_size()), kNone);
  for (int i = 0; i < f.input_size(); ++i) {
    // An input that the call omits is defined as kNone, so that the body can pass it on.
    RP_TRY(import_.names.define(body, f.input(i), inputs[static_cast<size_t>(i)])
               .with_context(node_text(n)));
  }
  for (int i = 0; i < n.output_size(); ++i) {
    if (!n.output(i).empty()) body.renamed.emplace(f.output(i), scope.name_in_graph(n.output(i)));
  }
  const Status added = import_.nodes.add_all(body, f.node());
  if (!added.ok()) {
    failed_calls_.push_back("in function " + shown(f.name()) + " called by " + node_text(n));
    return frame.calls.size() > 1 ? added : added.with_context(context_of(failed_calls_));
  }
  for (int i = 0; i < n.output_size(); ++i) {
    const std::string& name = n.output(i);
    if (name.empty()) continue;
    const std::optional<ValueId> v = import_.names.resolve(body, f.output(i));
    if (!v || *v == kNone) {
      return invalid_model(node_text(n) + ": function " + shown(f.name()) +
                           " does not define its output " + shown(f.output(i)));
    }
    RP_TRY(import_.names.check_declared(scope, name, *v, node_text(n)));
    scope.names.insert_or_assign(name, *v);
  }
  return {};
}

}  // namespace reprise::onnx
