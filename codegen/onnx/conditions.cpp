// Conditions of If and Loop that follow from constants.
#include "codegen/onnx/builder.h"
#include "codegen/onnx/determined.h"

namespace reprise::onnx {

std::optional<bool> known_condition(const Graph& g, ValueId condition) {
  const graph::Value& v = g.value(condition);
  if (v.elements && v.elements->size() == 1 && v.elements->front().is_const()) {
    return v.elements->front().value() != 0;
  }
  Determined constants(g, {});
  const HostTensor* known = constants.value(condition);
  if (known == nullptr || known->dtype() != DType::Bool || known->count() != 1) return std::nullopt;
  return known->data<uint8_t>()[0] != 0;
}

}  // namespace reprise::onnx
