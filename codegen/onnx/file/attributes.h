// Converts an AttributeProto to an Attr.
#pragma once

#include "codegen/onnx/file/tensor.h"
#include "runtime/operators/attrs.h"

namespace reprise::onnx {

/// The numbers of AttributeProto.AttributeType.
enum class AttrType : int32_t {
  Undefined = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  TypeProto = 13,
  TypeProtos = 14,
};

/// The declared type. Old files declare none; then it is that of the field that has a value.
AttrType type_of(const wire::Attribute& a);
/// Graphs and other types that an Attr cannot hold are errors. Messages name the attribute.
Result<Attr> to_attr(const wire::Attribute& a, const std::shared_ptr<const void>& owner,
                     ExternalData& external);
/// The reverse. Unsupported for expressions of sizes, which ONNX lacks.
Status set_attribute(const std::string& name, const Attr& value, wire::Attribute& to);
/// The tensor of attribute `name` of a Constant node (value, value_ints, ...). The own name of `a`
/// is ignored, as `a` may be an attribute of a function call.
Result<HostTensor> constant_of(const std::string& name, const wire::Attribute& a,
                               const std::shared_ptr<const void>& owner, ExternalData& external);

}  // namespace reprise::onnx
