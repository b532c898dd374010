#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

HostTensor constant_of(const graph::Value& v) {
  std::vector<int64_t> dims = static_dims(v.shape);
  HostTensor t(v.dtype, dims);
  for (size_t i = 0; i < v.elements->size(); ++i) {
    const int64_t x = (*v.elements)[i].value();
    switch (v.dtype) {
      case DType::I64:
        t.mutable_data<int64_t>()[i] = x;
        break;
      case DType::I32:
        t.mutable_data<int32_t>()[i] = static_cast<int32_t>(x);
        break;
      case DType::Bool:
        t.mutable_data<uint8_t>()[i] = x != 0;
        break;
      default:
        break;
    }
  }
  return t;
}

}  // namespace

// If the contents of a value are known expressions, no device has to compute it. The value becomes
// a constant, or a ShapeValue that reads dims from the parameter block.
Status shape_values(graph::Graph& g) {
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end(); ++it) {
    graph::Node* n = it->get();
    const ops::OpDef* def = ops::find(*n);
    const bool known = def != nullptr && def->dims_only;
    if (known || n->outputs.size() != 1 || n->outputs[0] == graph::kNone) continue;
    const graph::ValueId out = n->outputs[0];
    const graph::Value& v = g.value(out);
    if (!v.elements || !v.has_shape || !is_static(v.shape) || v.shape.size() > 1) continue;
    if (v.dtype != DType::I64 && v.dtype != DType::I32 && v.dtype != DType::Bool) continue;
    bool constant = true;
    for (const Expr& e : *v.elements) constant &= e.is_const();
    if (constant && !g.is_output(out)) {
      g.replace_uses(out, g.add_constant(v.name, constant_of(v)));
      continue;
    }
    if (v.dtype == DType::Bool) continue;
    ops::become_shape_value(g, *n);
  }
  return dce(g);
}

}  // namespace reprise::passes
