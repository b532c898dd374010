#include "codegen/onnx/file/types.h"

#include "codegen/onnx/file/tensor.h"

namespace reprise::onnx {

namespace {

/// The container that holds values of a kind, as a sequence or as an optional. None if there is no
/// such container.
Container around(Container inner, bool sequence) {
  switch (inner) {
    case Container::None:
      return sequence ? Container::Sequence : Container::Optional;
    case Container::Sequence:
      return sequence ? Container::None : Container::OptionalSequence;
    case Container::IntMap:
      return sequence ? Container::SequenceOfIntMaps : Container::None;
    case Container::StringMap:
      return sequence ? Container::SequenceOfStringMaps : Container::None;
    default:
      return Container::None;
  }
}

Status unknown_container() {
  return unsupported(
      "has a type that is neither a tensor, nor a sequence, an optional or a map of tensors, nor "
      "a sequence of maps or an optional sequence");
}

Result<TypeForm> map_form(const wire::MapType& type) {
  RP_ASSIGN(TypeForm form, type_form(type.value_type()));
  RP_ASSIGN(const DType key, dtype_of(type.key_type()));
  if (is_container(form.dtype)) return unknown_container();
  if (key != DType::I64 && key != DType::String) {
    return unsupported("is a map from " + std::string(name_of(key)) +
                       "; maps from int64 and strings are supported");
  }
  form.dtype =
      in_container(key == DType::I64 ? Container::IntMap : Container::StringMap, form.dtype);
  return form;
}

}  // namespace

Result<TypeForm> type_form(const wire::Type& type) {
  if (type.has_map_type()) return map_form(type.map_type());
  if (type.has_sequence_type() || type.has_optional_type()) {
    const bool sequence = type.has_sequence_type();
    RP_ASSIGN(TypeForm form, type_form(sequence ? type.sequence_type().elem_type()
                                                : type.optional_type().elem_type()));
    const Container container = around(container_of(form.dtype), sequence);
    if (container == Container::None) return unknown_container();
    form.dtype = in_container(container, element_of(form.dtype));
    return form;
  }
  if (type.has_opaque_type() || type.has_sparse_tensor_type()) return unknown_container();
  TypeForm form;
  form.tensor = &type.tensor_type();
  RP_ASSIGN(form.dtype, dtype_of(form.tensor->elem_type()));
  return form;
}

bool says_type(const wire::Type& type) {
  return type.has_tensor_type() || type.has_sequence_type() || type.has_optional_type() ||
         type.has_map_type();
}

std::string type_text(const wire::Type& type) {
  const Result<TypeForm> form = type_form(type);
  const wire::TensorType& tensor = form.ok() ? *form->tensor : type.tensor_type();
  std::string s(form.ok() ? name_of(form->dtype)
                          : "data type " + std::to_string(tensor.elem_type()));
  if (!tensor.has_shape()) return s + " of unknown shape";
  s += "[";
  const char* separator = "";
  for (const wire::Dimension& d : tensor.shape().dim()) {
    s += separator;
    separator = ",";
    s += d.has_dim_value()       ? std::to_string(d.dim_value())
         : d.dim_param().empty() ? "?"
                                 : d.dim_param().substr(0, 200);
  }
  return s + "]";
}

}  // namespace reprise::onnx
