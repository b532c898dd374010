#include "codegen/onnx/import.h"

#include <utility>

#include "codegen/onnx/inputs.h"

namespace reprise::onnx {

Import::Import(const std::shared_ptr<const wire::Model>& proto, ExternalData external,
               std::string file, const ImportOptions& o)
    : options(o),
      model(proto, std::move(external), std::move(file)),
      refusals(*this, o.refusals),
      names(*this),
      nodes(*this),
      functions(*this),
      forks(*this) {}

Status Import::define_inputs(Scope& scope) {
  Graph& g = *scope.graph;
  for (ValueId v : g.inputs) {
    const std::string name = g.value(v).name;
    const auto values = options.values.find(name);
    ValueId known = v;
    if (values != options.values.end()) {
      RP_ASSIGN(HostTensor t, known_value(g.value(v), values->second));
      known = g.add_constant(name + "_value", std::move(t));
    }
    RP_TRY(names.define(scope, name, known));
  }
  return {};
}

Result<std::unique_ptr<Graph>> Import::run() {
  RP_TRY(model.read_header(notes));
  const wire::Graph& source = model.proto().graph();
  auto g = std::make_unique<Graph>();
  g->name = source.name();
  for (const wire::Entry& e : model.proto().metadata_props())
    g->metadata.emplace_back(e.key(), e.value());
  Frame frame;
  RP_ASSIGN(frame.opsets, model.opsets());
  std::vector<std::string> refused_inputs;
  RP_TRY(add_inputs(*g, source, options, refused_inputs));
  Scope scope;
  scope.graph = g.get();
  scope.frame = &frame;
  RP_TRY(define_inputs(scope));
  for (const std::string& name : refused_inputs) {
    RP_TRY(names.define(scope, name, g->add_unknown(name)));
  }
  RP_TRY(names.add_initialisers(scope, source));
  names.add_declared(scope, source);
  scope.source = &source;
  RP_TRY(nodes.add_all(scope, source.node()));
  const Status ended = forks.end(scope, output_names(source));
  if (!ended.ok()) RP_TRY(refusals.refuse_model(ended));
  RP_TRY(names.set_outputs(scope, source));
  if (refusals.keeps_on() && !refusals.empty()) Refusals::keep_what_is_left(*g);
  g->notes = notes.take();
  return g;
}

}  // namespace reprise::onnx
