#include "codegen/families/nodes.h"

namespace reprise::families {

using builder::kOmitted;

Nodes::Values Nodes::all(const char* op, Values inputs, AttrMap attrs, size_t outputs) {
  Values none(outputs, kOmitted);
  if (!ok()) return none;
  builder::OnnxNode n;
  n.op = op;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.outputs = outputs;
  return take(b_.node(n), std::move(none));
}

Nodes::Value Nodes::op(const char* op, Values inputs, AttrMap attrs) {
  return all(op, std::move(inputs), std::move(attrs), 1)[0];
}

Nodes::Value Nodes::core(const builder::CoreNode& n) {
  if (!ok()) return kOmitted;
  return take(b_.core(n), Values{kOmitted})[0];
}

Nodes::Value Nodes::constant(const std::string& name, HostTensor t) {
  if (!ok()) return kOmitted;
  return take(b_.constant(name, std::move(t)));
}

Nodes::Value Nodes::number(float v) {
  return constant("", HostTensor::from<float>(DType::F32, {}, {v}));
}

Nodes::Value Nodes::sizes(const std::vector<Expr>& dims, bool scalar) {
  if (!ok()) return kOmitted;
  return take(b_.sizes(dims, scalar));
}

Nodes::Value Nodes::reshape(Value v, const std::vector<Expr>& dims) {
  return op("Reshape", {v, sizes(dims)});
}

Nodes::Value Nodes::transpose(Value v, const std::vector<int64_t>& perm) {
  AttrMap a;
  a.set("perm", perm);
  return op("Transpose", {v}, std::move(a));
}

}  // namespace reprise::families
