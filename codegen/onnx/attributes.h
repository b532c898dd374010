// AttributeProto -> Attr.
#pragma once

#include "codegen/onnx/tensor.h"
#include "runtime/base/attrs.h"

namespace reprise::onnx {

/// Numbers of AttributeProto.AttributeType.
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

/// The declared type, or for old files, which have none, that of the field that is filled.
AttrType type_of(const wire::Attribute& a);
/// Graphs and other types that no Attr holds are errors. Messages name the attribute.
Result<Attr> to_attr(const wire::Attribute& a, const std::shared_ptr<const void>& owner,
                     ExternalData& external);
/// The tensor that attribute `name` of a Constant node (value, value_ints, ...) stands for; the
/// attribute's own name does not matter, for it may come from a function call.
Result<HostTensor> constant_of(const std::string& name, const wire::Attribute& a,
                               const std::shared_ptr<const void>& owner, ExternalData& external);

}  // namespace reprise::onnx
