// SequenceMap: a function of the standard, which becomes a Loop over the positions of the sequence.
#include "codegen/onnx/import.h"
#include "codegen/onnx/rewrites.h"

namespace reprise::onnx {

namespace {

wire::Node node_of(const char* op, const std::vector<std::string>& inputs,
                   const std::string& output) {
  wire::Node n;
  n.set_op_type(op);
  for (const std::string& name : inputs) n.add_input(name);
  n.add_output(output);
  return n;
}

/// The names that the loop adds. They differ from those of the model by the name of the result.
struct MapNames {
  std::string prefix;
  std::string at(const char* what) const { return prefix + "/map/" + what; }
  std::string at(const char* what, int i) const { return at(what) + std::to_string(i); }
};

/// The body of the Loop: takes the tensors at one position, and appends what the function returns.
wire::Graph loop_body(const wire::Graph& function, const std::vector<bool>& is_sequence,
                      const MapNames& names) {
  wire::Graph body;
  body.set_name(function.name());
  body.add_input()->set_name(names.at("position"));
  body.add_input()->set_name(names.at("condition"));
  for (int k = 0; k < function.input_size(); ++k) {
    const std::string from = names.at("input_", k);
    const std::string& to = function.input(k).name();
    *body.add_node() = is_sequence[static_cast<size_t>(k)]
                           ? node_of("SequenceAt", {from, names.at("position")}, to)
                           : node_of("Identity", {from}, to);
  }
  body.mutable_node()->MergeFrom(function.node());
  body.mutable_initializer()->MergeFrom(function.initializer());
  body.mutable_sparse_initializer()->MergeFrom(function.sparse_initializer());
  body.mutable_value_info()->MergeFrom(function.value_info());
  *body.add_node() = node_of("Identity", {names.at("condition")}, names.at("going"));
  body.add_output()->set_name(names.at("going"));
  for (int j = 0; j < function.output_size(); ++j) {
    const std::string before = names.at("sequence_", j), after = names.at("longer_", j);
    body.add_input()->set_name(before);
    *body.add_node() = node_of("SequenceInsert", {before, function.output(j).name()}, after);
    body.add_output()->set_name(after);
  }
  return body;
}

}  // namespace

bool is_sequence_map(const wire::Node& n, const std::string& domain) {
  return domain.empty() && n.op_type() == "SequenceMap";
}

Status add_sequence_map(Import& import, Scope& scope, const wire::Node& n) {
  const wire::Graph* function = nullptr;
  for (const wire::Attribute& a : n.attribute())
    if (a.name() == "body" && a.has_g()) function = &a.g();
  RP_ASSIGN(const std::vector<ValueId> inputs, import.nodes.inputs_of(scope, n));
  if (function == nullptr || function->input_size() != static_cast<int>(inputs.size()) ||
      n.output_size() < 1 || n.output_size() > function->output_size()) {
    return invalid_model("its inputs and outputs do not fit its body");
  }
  std::vector<bool> is_sequence;
  const MapNames names{n.output(0)};
  for (const ValueId v : inputs) {
    if (v == kNone) return invalid_model("one of its inputs is missing");
    const DType t = scope.graph->value(v).dtype;
    is_sequence.push_back(container_of(t) == Container::Sequence);
    scope.names.emplace(names.at("input_", static_cast<int>(is_sequence.size()) - 1), v);
  }
  if (inputs.empty() || !is_sequence[0]) return invalid_model("its first input is no sequence");
  RP_TRY(import.nodes.add(scope, node_of("SequenceLength", {n.input(0)}, names.at("length"))));
  // Tensors that the importer makes refer to the memory of the body.
  wire::Node& loop = import.model.keep(node_of("Loop", {names.at("length"), ""}, ""));
  loop.set_name(n.name());
  *loop.mutable_output() = n.output();
  wire::Attribute& body = *loop.add_attribute();
  body.set_name("body");
  for (int j = 0; j < function->output_size(); ++j) {
    wire::Node empty = node_of("SequenceEmpty", {}, names.at("empty_", j));
    wire::Attribute& dtype = *empty.add_attribute();
    dtype.set_name("dtype");
    dtype.set_i(function->output(j).type().tensor_type().elem_type());
    RP_TRY(import.nodes.add(scope, empty));
    loop.add_input(names.at("empty_", j));
  }
  *body.mutable_g() = loop_body(*function, is_sequence, names);
  return import.nodes.add(scope, loop);
}

}  // namespace reprise::onnx
