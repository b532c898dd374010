// Branches of an If whose types do not fit, in themselves or with the nodes that follow. A model
// may have them if no run takes them, so the error belongs to a run that does.
#include <algorithm>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/conditionals.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

/// The dims of a value of another body. Those that only that body knows become symbols of this one.
Shape dims_elsewhere(const Graph& outer, const Shape& dims, Graph& body, ValueId result) {
  Shape out;
  for (const Expr& d : dims) {
    const bool known = std::ranges::all_of(d.symbols(), [&](SymbolId s) {
      const auto at = static_cast<size_t>(s);
      return at < outer.symbols.size() && outer.symbol_sources[at].index != kNone.number();
    });
    if (known) {
      out.push_back(d);
      continue;
    }
    const auto axis = static_cast<int32_t>(out.size());
    Symbol s;
    s.name = body.value(result).name + "_dim" + std::to_string(axis);
    out.push_back(Expr::symbol(body.add_symbol(
        std::move(s), {SymbolSource::Kind::HostOutput, result.number(), axis, {}})));
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<Graph>> failing_body(const Graph& outer, const Graph& other,
                                            const std::vector<ValueId>& results, const Status& why,
                                            Notes& notes) {
  auto body = std::make_shared<Graph>();
  share_symbols(outer, *body);
  graph::NodeSpec node;
  node.op = "InvalidBranch";
  node.opset = 1;
  node.attrs.set("message", why.message());
  for (const ValueId v : results) {
    const graph::Value& like = other.value(v);
    const ValueId out = body->add_unknown(like.name);
    graph::Value& made = body->value(out);
    made.dtype = like.dtype;
    made.items = items_outside(outer, like.items);
    made.shape = dims_elsewhere(outer, like.shape, *body, out);
    made.has_shape = true;
    node.outputs.push_back(out);
  }
  graph::Node* added = body->add_node(std::move(node));
  RP_TRY(ops::infer(*body, *added));
  body->set_outputs(added->outputs);
  for (const ValueId v : added->outputs) body->output_names.push_back(body->value(v).name);
  notes.add(why.message() + "; a run that takes this branch fails");
  return body;
}

}  // namespace reprise::onnx
