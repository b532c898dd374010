#include "codegen/onnx/file/attributes.h"

#include <algorithm>
#include <array>

#include "codegen/onnx/file/types.h"

namespace reprise::onnx {

AttrType type_of(const wire::Attribute& a) {
  if (a.type() != 0) return static_cast<AttrType>(a.type());
  if (a.has_f()) return AttrType::Float;
  if (a.has_i()) return AttrType::Int;
  if (a.has_s()) return AttrType::String;
  if (a.has_t()) return AttrType::Tensor;
  if (a.has_g()) return AttrType::Graph;
  if (a.floats_size()) return AttrType::Floats;
  if (a.ints_size()) return AttrType::Ints;
  if (a.strings_size()) return AttrType::Strings;
  if (a.has_sparse_tensor()) return AttrType::SparseTensor;
  return AttrType::Undefined;
}

Result<Attr> to_attr(const wire::Attribute& a, const std::shared_ptr<const void>& owner,
                     ExternalData& external) {
  switch (type_of(a)) {
    case AttrType::Float:
      return Attr(a.f());
    case AttrType::Int:
      return Attr(a.i());
    case AttrType::String:
      return Attr(a.s());
    case AttrType::Floats:
      return Attr(std::vector<float>(a.floats().begin(), a.floats().end()));
    case AttrType::Ints:
      return Attr(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case AttrType::Strings:
      return Attr(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    case AttrType::Tensor: {
      Result<HostTensor> t = to_host(a.t(), owner, external);
      if (!t.ok()) return t.status().with_context("attribute " + shown(a.name()));
      return Attr(*std::move(t));
    }
    case AttrType::TypeProto: {
      const Result<TypeForm> form = type_form(a.tp());
      if (!form.ok()) return form.status().with_context("attribute " + shown(a.name()));
      return Attr(std::string(name_of(form->dtype)));
    }
    case AttrType::Undefined:
      return invalid_model("attribute " + shown(a.name()) + " has neither type nor value");
    case AttrType::Graph:
    case AttrType::Tensors:
    case AttrType::Graphs:
    case AttrType::SparseTensor:
    case AttrType::SparseTensors:
    case AttrType::TypeProtos:
      return unsupported("attribute " + shown(a.name()) + " has type " + std::to_string(a.type()) +
                         ", which is not supported here");
  }
  return invalid_model("attribute " + shown(a.name()) + " has unknown type " +
                       std::to_string(a.type()));
}

namespace {

Result<HostTensor> string_tensor(std::vector<int64_t> dims, std::vector<std::string> strings) {
  HostTensor t(DType::String, std::move(dims));
  t.mutable_strings() = std::move(strings);
  return t;
}

struct ConstantForm {
  const char* name;
  AttrType type;
};
constexpr std::array<ConstantForm, 8> kForms{{{"value", AttrType::Tensor},
                                              {"sparse_value", AttrType::SparseTensor},
                                              {"value_int", AttrType::Int},
                                              {"value_float", AttrType::Float},
                                              {"value_string", AttrType::String},
                                              {"value_ints", AttrType::Ints},
                                              {"value_floats", AttrType::Floats},
                                              {"value_strings", AttrType::Strings}}};

}  // namespace

Result<HostTensor> constant_of(const std::string& name, const wire::Attribute& a,
                               const std::shared_ptr<const void>& owner, ExternalData& external) {
  const auto* form = std::find_if(kForms.begin(), kForms.end(),
                                  [&](const ConstantForm& f) { return name == f.name; });
  if (form == kForms.end()) {
    return invalid_model("attribute " + shown(name) + " is not an attribute of Constant");
  }
  if (type_of(a) != form->type) {
    return invalid_model("attribute " + shown(name) + " has type " +
                         std::to_string(static_cast<int32_t>(type_of(a))) + ", needs " +
                         std::to_string(static_cast<int32_t>(form->type)));
  }
  switch (form->type) {
    case AttrType::Tensor:
      return to_host(a.t(), owner, external);
    case AttrType::SparseTensor:
      return to_host(a.sparse_tensor(), owner, external);
    case AttrType::Int:
      return HostTensor::from<int64_t>(DType::I64, {}, {a.i()});
    case AttrType::Float:
      return HostTensor::from<float>(DType::F32, {}, {a.f()});
    case AttrType::String:
      return string_tensor({}, {a.s()});
    case AttrType::Ints:
      return HostTensor::from(DType::I64, {a.ints_size()},
                              std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case AttrType::Floats:
      return HostTensor::from(DType::F32, {a.floats_size()},
                              std::vector<float>(a.floats().begin(), a.floats().end()));
    default:
      return string_tensor({a.strings_size()},
                           std::vector<std::string>(a.strings().begin(), a.strings().end()));
  }
}

namespace {

class SetAttribute {
 public:
  explicit SetAttribute(wire::Attribute& to) : to_(to) {}

  Status operator()(int64_t v) {
    to_.set_i(v);
    return type(AttrType::Int);
  }
  Status operator()(float v) {
    to_.set_f(v);
    return type(AttrType::Float);
  }
  Status operator()(const std::string& v) {
    to_.set_s(v);
    return type(AttrType::String);
  }
  Status operator()(const std::vector<int64_t>& v) {
    for (const int64_t x : v) to_.add_ints(x);
    return type(AttrType::Ints);
  }
  Status operator()(const std::vector<float>& v) {
    for (const float x : v) to_.add_floats(x);
    return type(AttrType::Floats);
  }
  Status operator()(const std::vector<std::string>& v) {
    for (const std::string& x : v) to_.add_strings(x);
    return type(AttrType::Strings);
  }
  Status operator()(const HostTensor& v) {
    set_tensor(v, {}, *to_.mutable_t());
    return type(AttrType::Tensor);
  }
  Status operator()(const std::vector<Expr>&) {
    return unsupported("attribute '" + to_.name() + "' is an expression of sizes");
  }

 private:
  Status type(AttrType t) {
    to_.set_type(static_cast<int32_t>(t));
    return {};
  }
  wire::Attribute& to_;
};

}  // namespace

Status set_attribute(const std::string& name, const Attr& value, wire::Attribute& to) {
  to.set_name(name);
  return std::visit(SetAttribute(to), value);
}

}  // namespace reprise::onnx
