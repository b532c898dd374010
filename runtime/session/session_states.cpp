// States of a session by name, and files of them.
#include <algorithm>
#include <numeric>

#include "runtime/run/state_memory.h"
#include "runtime/session/session.h"

namespace reprise {

namespace {

std::string names_of(const std::vector<plan::StateSlot>& states) {
  std::string s;
  for (const plan::StateSlot& slot : states) s += (s.empty() ? "'" : ", '") + slot.name + "'";
  return s.empty() ? "it has none" : "its states are " + s;
}

Result<size_t> find_state(const std::vector<plan::StateSlot>& states, const std::string& name) {
  const auto it = std::ranges::find(states, name, &plan::StateSlot::name);
  if (it != states.end()) return static_cast<size_t>(it - states.begin());
  return invalid_input("the model has no state '" + name + "'; " + names_of(states));
}

Status check_value(const plan::StateSlot& slot, const HostTensor& value) {
  const std::vector<int64_t> dims = static_dims(slot.shape);
  if (value.dtype() == slot.dtype && value.dims() == dims) return {};
  return invalid_input("state '" + slot.name + "' is " + describe(slot.dtype, dims) +
                       ", but the given value is " + describe(value.dtype(), value.dims()));
}

std::vector<size_t> all_of(const std::vector<plan::StateSlot>& states) {
  std::vector<size_t> which(states.size());
  std::iota(which.begin(), which.end(), size_t{0});
  return which;
}

/// A package that has the values as states and computes nothing.
package::Package state_file(const package::Package& of, std::vector<HostTensor> values) {
  package::Package p;
  p.model_name = of.model_name;
  p.producer = of.producer;
  p.io.states = of.io.states;
  for (uint32_t s = 0; s < p.io.states.size(); ++s) {
    plan::StateSlot& slot = p.io.states[s];
    slot.initial = s;
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

Result<HostTensor> Session::read_state(const std::string& name) {
  RP_ASSIGN(const size_t s, find_state(io().states, name));
  RP_ASSIGN(std::vector<HostTensor> values, read_states(std::span(&s, 1)));
  return std::move(values[0]);
}

Status Session::copy_states_from(Session& other) {
  const std::vector<size_t> which = all_of(io().states);
  if (which.empty()) return {};
  RP_ASSIGN(const std::vector<HostTensor> values, other.read_states(which));
  return write_states(which, values);
}

Status Session::write_state(const std::string& name, const HostTensor& value) {
  RP_ASSIGN(const size_t s, find_state(io().states, name));
  RP_TRY(check_value(io().states[s], value));
  return write_states(std::span(&s, 1), std::span(&value, 1));
}

Status Session::save_states(const std::string& path) {
  if (io().states.empty()) return {Code::Usage, "the model has no states to save"};
  RP_ASSIGN(std::vector<HostTensor> values, read_states(all_of(io().states)));
  return package::write(state_file(package(), std::move(values)), path);
}

Status Session::load_states(const std::string& path) {
  RP_ASSIGN(const auto file, package::read(path));
  if (io().states.empty()) return {Code::Usage, "the model has no states to load"};
  auto values = values_in(*file, io().states);
  if (!values.ok()) return values.status().with_context("states in '" + path + "'");
  return write_states(all_of(io().states), *values);
}

Status Session::reset_states() {
  std::vector<HostTensor> values;
  for (const plan::StateSlot& slot : io().states) {
    RP_ASSIGN(HostTensor value, initial_state(package(), slot));
    values.push_back(std::move(value));
  }
  return write_states(all_of(io().states), values);
}

Result<std::vector<HostTensor>> Session::run_from_start(std::span<const Binding> inputs) {
  RP_TRY(reset_states());
  RP_ASSIGN(std::vector<HostTensor> results, run(inputs));
  RP_ASSIGN(std::vector<HostTensor> states, read_states(all_of(io().states)));
  std::ranges::move(states, std::back_inserter(results));
  return results;
}

}  // namespace reprise
