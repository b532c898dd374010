// The types of values as a model declares them.
#pragma once

#include <string>

#include "codegen/onnx/file/file.h"
#include "runtime/base/dtype.h"

namespace reprise::onnx {

/// The tensor type in a type, and the container around it, if any. `dtype` is that of the value;
/// Invalid if the tensor type does not say its elements.
struct TypeForm {
  DType dtype = DType::Invalid;
  const wire::TensorType* tensor = nullptr;  // never null in a result
};
Result<TypeForm> type_form(const wire::Type& type);
/// Whether the type is that of a tensor or of a container.
bool says_type(const wire::Type& type);
/// "float32[batch,3]", "seq(float32)[?,3]"
std::string type_text(const wire::Type& type);

}  // namespace reprise::onnx
