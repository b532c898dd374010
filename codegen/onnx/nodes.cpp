#include "codegen/onnx/nodes.h"

#include <span>
#include <utility>

#include "codegen/onnx/conditionals.h"
#include "codegen/onnx/determined.h"
#include "codegen/onnx/import.h"
#include "codegen/onnx/loops.h"
#include "codegen/onnx/rewrites.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/unsupported.h"

namespace reprise::onnx {

namespace {

/// Inlining may grow exponentially: ten levels of ten calls each are 10^10 nodes. Loops in loops
/// are imported twice at each level.
constexpr int64_t kMaxInlined = 100'000;

std::string operator_text(const std::string& op, const std::string& domain) {
  return domain.empty() ? op : domain + "::" + op;
}

}  // namespace

Status Nodes::add_all(Scope& scope, const NodeList& nodes) {
  RP_ASSIGN(const std::vector<int> order, topological_order(nodes));
  const int depth = ++lists_[scope.graph];
  Status status;
  for (size_t i = 0; i < order.size() && status.ok(); ++i) {
    const wire::Node& n = nodes[order[i]];
    const auto& before = scope.graph->nodes();
    const graph::Node* const last = before.empty() ? nullptr : before.back().get();
    status = add(scope, n).about(scope.frame->prefix + name_of_node(n));
    if (!status.ok()) status = import_.refusals.refuse(scope, n, status, last);
    if (status.ok() && depth == 1)
      status = import_.forks.end_after(scope, nodes, std::span(order).subspan(i + 1));
  }
  if (--lists_[scope.graph] == 0) lists_.erase(scope.graph);
  return status;
}

Status Nodes::add(Scope& scope, const wire::Node& n) {
  const bool inlined = !scope.frame->calls.empty() || scope.outer != nullptr;
  if (inlined && ++inlined_ > kMaxInlined) {
    return unsupported("the model's functions and bodies expand to more than " +
                       std::to_string(kMaxInlined) + " nodes");
  }
  for (const std::string& o : n.output()) {
    if (!o.empty() && scope.names.contains(o) && !scope.outer) {
      return invalid_model("value " + shown(o) + " is defined twice, the second time by " +
                           node_text(n));
    }
  }
  if (import_.forks.reads(scope, n)) return import_.forks.add(scope, n);
  const std::string domain = canonical_domain(n.domain());
  if (const wire::Function* f = import_.model.function_of(n, domain)) {
    return import_.functions.add_call(scope, n, *f);
  }
  if (import_.refusals.keeps_on() && import_.refusals.reads_refused(scope, n))
    return import_.refusals.omit(scope, n);
  if (domain.empty() && n.op_type() == "Constant") {
    return add_constant_node(scope, n).with_context(node_text(n));
  }
  if (domain.empty() && n.op_type() == "If") return add_if(import_, scope, n);
  if (domain.empty() && (n.op_type() == "Loop" || n.op_type() == "Scan"))
    return add_loop(import_, scope, n);
  if (is_sequence_map(n, domain))
    return add_sequence_map(import_, scope, n).with_context(node_text(n));
  if (is_flex_attention(n, domain)) return add_flex_attention(import_, scope, n);
  return add_operator(scope, n, domain);
}

Result<const wire::Attribute*> Nodes::actual(const Scope& scope, const wire::Attribute& a) {
  if (a.ref_attr_name().empty()) return &a;
  if (!scope.frame->attributes) {
    return invalid_model("attribute " + shown(a.name()) + " refers to " + shown(a.ref_attr_name()) +
                         ", but is not in a function");
  }
  auto it = scope.frame->attributes->find(a.ref_attr_name());
  return it == scope.frame->attributes->end() ? nullptr : it->second;
}

Status Nodes::add_constant_node(Scope& scope, const wire::Node& n) {
  if (n.attribute_size() != 1 || n.output_size() != 1 || n.input_size() != 0) {
    return invalid_model("a Constant has no inputs, one attribute and one output");
  }
  RP_ASSIGN(const wire::Attribute* a, actual(scope, n.attribute(0)));
  if (!a) return invalid_model("the function call gives no value for it");
  const std::string& form = n.attribute(0).name();
  RP_ASSIGN(HostTensor t, import_.model.constant(form, *a));
  return import_.names.add_constant(scope, n.output(0), std::move(t));
}

Result<std::vector<ValueId>> Nodes::inputs_of(Scope& scope, const wire::Node& n) {
  std::vector<ValueId> inputs;
  for (const std::string& name : n.input()) {
    const std::optional<ValueId> v = name.empty() ? kNone : import_.names.resolve(scope, name);
    if (!v) {
      return invalid_model(node_text(n) + " reads " + shown(name) +
                           ", which no node, input or initialiser defines");
    }
    inputs.push_back(*v);
  }
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  return inputs;
}

Status Nodes::set_attributes(Scope& scope, const wire::Node& n, graph::NodeSpec& node) {
  for (const wire::Attribute& a : n.attribute()) {
    RP_ASSIGN(const wire::Attribute* value, actual(scope, a));
    if (!value) continue;
    // Version 1 of many operators has it for memory planning. It has no meaning.
    if (a.name() == "consumed_inputs" && node.domain.empty() && node.opset < 6) continue;
    if (type_of(*value) == AttrType::Graph) {
      if (node.op == "Loop" || node.op == "Scan") continue;  // LoopBuilder imports it
      return unsupported("has a body, which only If, Loop and Scan may have");
    }
    if (node.attrs.has(a.name())) {
      return invalid_model("attribute " + shown(a.name()) + " is given twice");
    }
    RP_ASSIGN(Attr attr, import_.model.attribute(*value));
    node.attrs.set(a.name(), std::move(attr));
  }
  return {};
}

Status Nodes::check_outputs(Scope& scope, const wire::Node& n, const graph::Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId v = node.outputs[i];
    const std::string& name = n.output(static_cast<int>(i));
    if (v == kNone || name.empty()) continue;
    const graph::Value& value = scope.graph->value(v);
    if (value.dtype == DType::Invalid || !value.has_shape) {
      return internal_error(node_text(n) + ": inference left " + shown(name) + " without a type");
    }
    if (is_static(value.shape)) {
      const Status s = checked_element_count(static_dims(value.shape), value.dtype).status();
      RP_TRY(s.with_context(node_text(n) + ": output " + shown(name)));
    }
    RP_TRY(import_.names.check_declared(scope, name, v, node_text(n)));
  }
  return {};
}

Status Nodes::add_operator(Scope& scope, const wire::Node& n, const std::string& domain) {
  if (ops::find(domain, n.op_type()) == nullptr) return unknown_operator(scope, n, domain);
  auto opset = scope.frame->opsets.find(domain);
  if (opset == scope.frame->opsets.end()) {
    return invalid_model(node_text(n) + " is in domain " +
                         shown(domain.empty() ? "ai.onnx" : domain) +
                         ", for which the model imports no opset");
  }
  graph::NodeSpec node;
  node.op = std::string(ops::find(domain, n.op_type(), opset->second)->name);
  node.domain = domain;
  node.opset = opset->second;
  if (!n.name().empty()) node.name = scope.frame->prefix + n.name();
  RP_ASSIGN(node.inputs, inputs_of(scope, n));
  RP_TRY(set_attributes(scope, n, node).with_context(node_text(n)));
  int outputs = n.output_size();
  while (outputs > 0 && n.output(outputs - 1).empty()) --outputs;
  if (outputs == 0) return invalid_model(node_text(n) + " has no outputs");
  for (int i = 0; i < outputs; ++i) {
    const std::string& name = n.output(i);
    const ValueId v = name.empty() ? kNone : scope.graph->add_unknown(scope.name_in_graph(name));
    node.outputs.push_back(v);
    if (v != kNone) scope.names.insert_or_assign(name, v);
  }
  graph::Node* added = scope.graph->add_node(std::move(node));
  Status inferred = ops::infer(*scope.graph, *added);
  if (inferred.code() == Code::Unsupported && determine_operands(*scope.graph, *added))
    inferred = ops::infer(*scope.graph, *added);
  types_failed_ = !inferred.ok();
  RP_TRY(inferred);
  determine_results(*scope.graph, *added);
  return check_outputs(scope, n, *added);
}

void Nodes::collect_unknown(const NodeList& nodes, std::set<std::string>& out) const {
  for (const wire::Node& n : nodes) {
    const std::string domain = canonical_domain(n.domain());
    const bool special = (domain.empty() && (n.op_type() == "Constant" || n.op_type() == "If")) ||
                         is_flex_attention(n, domain) || is_sequence_map(n, domain);
    if (!special && !import_.model.function_of(n, domain) && !ops::find(domain, n.op_type())) {
      out.insert(operator_text(n.op_type().substr(0, 200), domain.substr(0, 200)));
    }
    for (const wire::Attribute& a : n.attribute()) {
      if (a.has_g()) collect_unknown(a.g().node(), out);
    }
  }
}

Status Nodes::unknown_operator(const Scope& scope, const wire::Node& n, const std::string& domain) {
  std::string reason = "is not supported";
  if (const ops::Unsupported* known = ops::find_unsupported(domain, n.op_type())) {
    reason.append(": ").append(known->reason).append("; ").append(known->advice);
  } else {
    reason +=
        "; export the model with other operators, define it as a model-local function, or add it "
        "to codegen/ops (docs/architecture.md says how)";
  }
  if (import_.refusals.keeps_on()) return unsupported("the operator " + reason);
  const auto opset = scope.frame->opsets.find(domain);
  const std::string version =
      opset == scope.frame->opsets.end() ? "" : ", version " + std::to_string(opset->second);
  std::string message = "node " + shown(scope.frame->prefix + name_of_node(n)) + " (" +
                        n.op_type().substr(0, 200) + ", domain " +
                        shown(domain.empty() ? "ai.onnx" : domain) + version + ") of " +
                        import_.model.where() + " " + reason;
  std::set<std::string> others;
  collect_unknown(import_.model.proto().graph().node(), others);
  others.erase(operator_text(n.op_type().substr(0, 200), domain.substr(0, 200)));
  const char* separator = "; the model also needs: ";
  for (const std::string& other : others) {
    message += separator + other;
    separator = ", ";
  }
  return unsupported(std::move(message));
}

bool Nodes::expands_too_far() const {
  return inlined_ > kMaxInlined;
}

bool Nodes::is_fault_of_types(const Status& s) const {
  return types_failed_ && s.code() == Code::InvalidModel;
}

}  // namespace reprise::onnx
