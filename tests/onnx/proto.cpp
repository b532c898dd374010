#include "tests/onnx/proto.h"

namespace reprise::onnx::test {

void set_value(wire::ValueInfo& v, const std::string& name, int type,
               std::initializer_list<Dim> dims) {
  v.set_name(name);
  wire::TensorType* t = v.mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  t->mutable_shape();
  for (const Dim& d : dims) {
    wire::Dimension* out = t->mutable_shape()->add_dim();
    if (d.value != INT64_MIN) {
      out->set_dim_value(d.value);
    } else if (!d.param.empty()) {
      out->set_dim_param(d.param);
    }
  }
}

void set_tensor(wire::Tensor& t, const std::string& name, int type, std::vector<int64_t> dims) {
  t.set_name(name);
  t.set_data_type(type);
  for (int64_t d : dims) t.add_dims(d);
}

void add_float(wire::Graph& g, const std::string& name, const std::vector<float>& v) {
  wire::Tensor& t = *g.add_initializer();
  set_tensor(t, name, kFloat, {static_cast<int64_t>(v.size())});
  t.set_raw_data(std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)));
}

void add_int64(wire::Graph& g, const std::string& name, const std::vector<int64_t>& v) {
  wire::Tensor& t = *g.add_initializer();
  set_tensor(t, name, kInt64, {static_cast<int64_t>(v.size())});
  for (int64_t x : v) t.add_int64_data(x);
}

wire::Attribute* attribute(wire::Node* n, const std::string& name, int type) {
  wire::Attribute* a = n->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}

wire::Node* fill(wire::Node* n, const std::string& op, std::vector<std::string> in,
                 std::vector<std::string> out, const std::string& name) {
  n->set_op_type(op);
  n->set_name(name);
  for (std::string& s : in) n->add_input(std::move(s));
  for (std::string& s : out) n->add_output(std::move(s));
  return n;
}

Model::Model(int64_t version) {
  proto.set_ir_version(8);
  proto.mutable_graph()->set_name("g");
  opset("", version);
}

Model& Model::opset(const std::string& domain, int64_t version) {
  wire::OpsetImport* o = proto.add_opset_import();
  o->set_domain(domain);
  o->set_version(version);
  return *this;
}

Model& Model::input(const std::string& name, int type, std::initializer_list<Dim> dims) {
  set_value(*graph().add_input(), name, type, dims);
  return *this;
}

Model& Model::output(const std::string& name, int type, std::initializer_list<Dim> dims) {
  set_value(*graph().add_output(), name, type, dims);
  return *this;
}

Model& Model::output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

wire::Node* Model::node(const std::string& op, std::vector<std::string> in,
                        std::vector<std::string> out, const std::string& name) {
  return fill(graph().add_node(), op, std::move(in), std::move(out), name);
}

Model relu_model() {
  Model m;
  m.input("x", kFloat, {2, 3}).output("y", kFloat, {2, 3}).node("Relu", {"x"}, {"y"}, "r");
  return m;
}

Result<std::unique_ptr<graph::Graph>> import(const std::string& bytes, const ImportOptions& o) {
  return import_bytes(std::as_bytes(std::span(bytes)), o);
}

std::string imported(const Model& m, const ImportOptions& o) {
  auto g = import(m.bytes(), o);
  if (!g.ok()) return g.status().message();
  const Status s = graph::verify(**g, false);
  return s.ok() ? graph::print(**g) : s.message();
}

}  // namespace reprise::onnx::test
