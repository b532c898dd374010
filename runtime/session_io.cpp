#include "runtime/session_io.h"

namespace reprise {
namespace {

constexpr uint64_t kBindingAlignment = 16;

std::string names_of(const std::vector<plan::Slot>& slots) {
  std::string s;
  for (const plan::Slot& slot : slots) {
    s += s.empty() ? "'" : ", '";
    s += slot.name;
    s += "'";
  }
  return s.empty() ? "none" : s;
}

std::span<const int64_t> dims_of(const Binding& b) {
  return b.host ? std::span<const int64_t>(b.host->dims()) : std::span<const int64_t>(b.dims);
}

}  // namespace

IoBinder::IoBinder(const plan::Interface& io) : io_(io) {
  for (size_t i = 0; i < io.inputs.size(); ++i) inputs_.emplace(io.inputs[i].name, i);
  for (size_t i = 0; i < io.outputs.size(); ++i) outputs_.emplace(io.outputs[i].name, i);
}

Status IoBinder::place(std::span<const Binding> given, bool is_input,
                       std::vector<const Binding*>& slots) const {
  const std::string kind = is_input ? "input" : "output";
  const auto& names = is_input ? inputs_ : outputs_;
  const auto& declared = is_input ? io_.inputs : io_.outputs;
  slots.assign(declared.size(), nullptr);
  for (const Binding& b : given) {
    const auto it = names.find(b.name);
    if (it == names.end()) {
      return invalid_input("the model has no " + kind + " '" + b.name + "'; its " + kind +
                           "s are " + names_of(declared));
    }
    if (slots[it->second]) return invalid_input(kind + " '" + b.name + "' is given twice");
    slots[it->second] = &b;
  }
  return {};
}

Status IoBinder::check_input(const plan::Slot& slot, const Binding& b, bool on_device) const {
  const std::string who = "input '" + slot.name + "'";
  if (!b.host && !b.device) return invalid_input(who + " has neither host nor device memory");
  if (b.host && b.device) return invalid_input(who + " has both host and device memory");
  if (b.device && !on_device)
    return invalid_input(who + " is device memory, but the session runs on the host");
  if (b.device && b.device_offset % kBindingAlignment != 0) {
    return invalid_input(who + ": the offset " + std::to_string(b.device_offset) +
                         " in device memory is not a multiple of 16");
  }
  if (b.host && b.host->dtype() != slot.dtype) {
    return invalid_input(who + " is " + describe(b.host->dtype(), b.host->dims()) + ", expected " +
                         std::string(name_of(slot.dtype)) + " " +
                         shape_str(slot.shape, io_.symbols));
  }
  for (const int64_t d : dims_of(b)) {
    if (d < 0) return invalid_input(who + " has a negative dimension, " + std::to_string(d));
  }
  return {};
}

Status IoBinder::check_output(const Binding& b, bool on_device) const {
  const std::string who = "output '" + b.name + "'";
  if (b.host) return invalid_input(who + ": host tensors are for inputs; bind its bytes");
  if (!b.device) return {};
  if (!on_device) return invalid_input(who + " is device memory, but the session runs on the host");
  if (b.device_offset % kBindingAlignment != 0) {
    return invalid_input(who + ": the offset " + std::to_string(b.device_offset) +
                         " in device memory is not a multiple of 16");
  }
  return {};
}

Result<BoundIo> IoBinder::bind(std::span<const Binding> inputs, std::span<const Binding> outputs,
                               bool on_device) const {
  BoundIo bound;
  RP_TRY(place(inputs, true, bound.inputs));
  RP_TRY(place(outputs, false, bound.outputs));
  std::vector<std::span<const int64_t>> dims;
  dims.reserve(io_.inputs.size());
  for (size_t i = 0; i < io_.inputs.size(); ++i) {
    const plan::Slot& slot = io_.inputs[i];
    if (!bound.inputs[i]) {
      return invalid_input("input '" + slot.name + "' (" + std::string(name_of(slot.dtype)) + " " +
                           shape_str(slot.shape, io_.symbols) + ") is missing");
    }
    RP_TRY(check_input(slot, *bound.inputs[i], on_device));
    dims.push_back(dims_of(*bound.inputs[i]));
  }
  for (const Binding* b : bound.outputs)
    if (b) RP_TRY(check_output(*b, on_device));
  RP_ASSIGN(bound.symbols, plan::bind_symbols(io_, dims));
  return bound;
}

Status check_room(const Binding& b, uint64_t bytes, const char* what) {
  uint64_t room = b.host_output.size();
  if (b.device) room = b.device->size() - std::min(b.device_offset, b.device->size());
  if (bytes <= room) return {};
  return invalid_input(std::string(what) + " '" + b.name + "' needs " + std::to_string(bytes) +
                       " bytes, the memory bound to it has " + std::to_string(room));
}

HostTensor shape_only(DType dtype, std::vector<int64_t> dims) {
  return HostTensor::borrow(dtype, std::move(dims), {}, nullptr);
}

}  // namespace reprise
