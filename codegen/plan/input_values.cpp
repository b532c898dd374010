#include "codegen/plan/input_values.h"

#include <algorithm>

namespace reprise {

namespace {

Result<plan::Slot*> slot_named(plan::Interface& io, const std::string& name) {
  const auto slot = std::ranges::find(io.inputs, name, &plan::Slot::name);
  if (slot != io.inputs.end()) return &*slot;
  return Status(Code::Usage, "the model has no input '" + name + "' that runs give");
}

}  // namespace

Status store_input_values(const CompileOptions& options, WeightStore& weights,
                          plan::Interface& io) {
  for (const OptionalInput& input : options.optional_inputs) {
    if (!input.value)
      return {Code::Usage,
              "the model gives input '" + input.name + "' no value, so runs cannot leave it out"};
    RP_ASSIGN(plan::Slot* const slot, slot_named(io, input.name));
    const HostTensor& value = *input.value;
    if (value.dtype() != slot->dtype || value.dims().size() != slot->shape.size())
      return invalid_model("input '" + input.name + "' is " + std::string(name_of(slot->dtype)) +
                           shape_str(slot->shape, io.symbols) + ", but its value in the model is " +
                           describe(value.dtype(), value.dims()));
    slot->initial = weights.add(value);
  }
  for (const auto& [name, values] : options.values) {
    RP_ASSIGN(plan::Slot* const slot, slot_named(io, name));
    slot->expected = values;
  }
  return {};
}

}  // namespace reprise
