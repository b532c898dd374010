#include "runtime/session/state_file.h"

#include <algorithm>
#include <numeric>

#include "runtime/run/state_memory.h"

namespace reprise {

namespace {

std::string names_of(const std::vector<plan::StateSlot>& states) {
  std::string s;
  for (const plan::StateSlot& slot : states) s += (s.empty() ? "'" : ", '") + slot.name + "'";
  return s.empty() ? "it has none" : "its states are " + s;
}

/// A package that has the values as states and computes nothing.
package::Package package_of(const package::Package& of, std::vector<HostTensor> values) {
  package::Package p;
  p.model_name = of.model_name;
  p.producer = of.producer;
  p.io.states = of.io.states;
  for (uint32_t s = 0; s < p.io.states.size(); ++s) {
    plan::StateSlot& slot = p.io.states[s];
    slot.initial = s;
    slot.axis = -1;  // the file has the rows that are valid
    slot.shape.assign(values[s].dims().begin(), values[s].dims().end());
    p.host_plan.buffers.push_back(
        {slot.name, plan::BufferKind::State, static_cast<int32_t>(s), slot.dtype, slot.shape});
  }
  p.weights = std::move(values);
  return p;
}

/// The values of `states` in a file.
Result<std::vector<HostTensor>> values_in(const package::Package& file,
                                          const std::vector<plan::StateSlot>& states) {
  for (const plan::StateSlot& own : file.io.states) {
    if (std::ranges::find(states, own.name, &plan::StateSlot::name) == states.end())
      return invalid_input("it has the state '" + own.name + "', which the model lacks; " +
                           names_of(states));
  }
  std::vector<HostTensor> values;
  for (const plan::StateSlot& slot : states) {
    const auto it = std::ranges::find(file.io.states, slot.name, &plan::StateSlot::name);
    if (it == file.io.states.end())
      return invalid_input("it lacks the state '" + slot.name + "': it belongs to another model");
    RP_ASSIGN(HostTensor value, initial_state(file, *it));
    RP_TRY(check_value(slot, value));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

Result<size_t> find_state(const std::vector<plan::StateSlot>& states, const std::string& name) {
  const auto it = std::ranges::find(states, name, &plan::StateSlot::name);
  if (it != states.end()) return static_cast<size_t>(it - states.begin());
  return invalid_input("the model has no state '" + name + "'; " + names_of(states));
}

Status check_value(const plan::StateSlot& slot, const HostTensor& value) {
  std::vector<int64_t> dims = value.dims();
  const bool fits = dims.size() == slot.shape.size();
  dims.resize(slot.shape.size(), -1);
  for (size_t a = 0; a < dims.size(); ++a)
    if (slot.shape[a].is_const()) dims[a] = slot.shape[a].value();
  if (value.dtype() == slot.dtype && fits && value.dims() == dims) return {};
  return invalid_input("state '" + slot.name + "' is " + describe(slot.dtype, dims) +
                       ", but the given value is " + describe(value.dtype(), value.dims()));
}

std::vector<size_t> all_of(const std::vector<plan::StateSlot>& states) {
  std::vector<size_t> which(states.size());
  std::iota(which.begin(), which.end(), size_t{0});
  return which;
}

Status write_state_file(const package::Package& of, std::vector<HostTensor> values,
                        const std::string& path) {
  return package::write(package_of(of, std::move(values)), path);
}

Result<std::vector<HostTensor>> read_state_file(const std::string& path,
                                                const std::vector<plan::StateSlot>& states) {
  RP_ASSIGN(const auto file, package::read(path));
  if (states.empty()) return Status(Code::Usage, "the model has no states to load");
  auto values = values_in(*file, states);
  if (!values.ok()) return values.status().with_context("states in '" + path + "'");
  return values;
}

}  // namespace reprise
