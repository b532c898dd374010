#include "codegen/plan/states.h"

#include <algorithm>
#include <set>

namespace reprise {

namespace {

using graph::Graph;
using graph::ValueId;

std::string list(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& name : names) s += (s.empty() ? "'" : ", '") + name + "'";
  return s.empty() ? "none" : s;
}

Result<size_t> find(const std::vector<std::string>& names, const std::string& name,
                    const std::string& state, const char* kind) {
  const auto it = std::ranges::find(names, name);
  if (it != names.end()) return static_cast<size_t>(it - names.begin());
  std::string message = "state '" + state + "': the model has no " + kind + " '" + name;
  return Status(Code::Usage,
                message.append("'; its ").append(kind).append("s are ").append(list(names)));
}

/// Moves the listed entries to the end.
template <typename T>
std::vector<T> moved_to_end(const std::vector<T>& all, const std::vector<size_t>& last) {
  std::vector<T> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (std::ranges::find(last, i) == last.end()) out.push_back(all[i]);
  for (const size_t i : last) out.push_back(all[i]);
  return out;
}

std::string type_of(const Graph& g, ValueId v) {
  const graph::Value& value = g.value(v);
  return std::string(name_of(value.dtype)) + shape_str(value.shape, g.symbols);
}

Status check_input(const Graph& g, ValueId v) {
  const graph::Value& value = g.value(v);
  if (is_host_only(value.dtype))
    return invalid_model("a state must be a tensor of numbers, not " +
                         std::string(name_of(value.dtype)));
  if (is_static(value.shape)) return {};
  return invalid_model("a state must have a fixed shape, but it is " + type_of(g, v) +
                       "; fix its shape with --shape");
}

}  // namespace

Status order_states(Graph& g, const std::vector<StateOption>& states) {
  std::vector<std::string> inputs, outputs;
  for (const ValueId v : g.inputs) inputs.push_back(g.value(v).name);
  for (size_t i = 0; i < g.outputs.size(); ++i) outputs.push_back(g.output_name(i));
  std::vector<size_t> last_inputs, last_outputs;
  std::set<size_t> seen_inputs, seen_outputs;
  for (const StateOption& s : states) {
    RP_ASSIGN(const size_t i, find(inputs, s.input, s.input, "input"));
    RP_ASSIGN(const size_t o, find(outputs, s.output, s.input, "output"));
    if (!seen_inputs.insert(i).second)
      return {Code::Usage, "state '" + s.input + "' is listed twice"};
    if (!seen_outputs.insert(o).second)
      return {Code::Usage, "output '" + s.output + "' is the next value of two states"};
    if (s.axis < 0) RP_TRY(check_input(g, g.inputs[i]).with_context("state '" + s.input + "'"));
    last_inputs.push_back(i);
    last_outputs.push_back(o);
  }
  // The sizes of states are fixed, or those of other inputs, but for the lengths of those that
  // grow.
  std::vector<size_t> numbers(inputs.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  const std::vector<size_t> order = moved_to_end(numbers, last_inputs);
  for (SymbolSource& source : g.symbol_sources) {
    if (source.kind != SymbolSource::Kind::InputDim) continue;
    const auto at = std::ranges::find(order, static_cast<size_t>(source.index));
    source.index = static_cast<int32_t>(at - order.begin());
  }
  g.inputs = moved_to_end(g.inputs, last_inputs);
  g.output_names = moved_to_end(outputs, last_outputs);
  const auto& listed = g.outputs;
  g.set_outputs(moved_to_end(std::vector<ValueId>(listed.begin(), listed.end()), last_outputs));
  return {};
}

namespace {

/// The graph has the rows first: those before a run, and those that it appends.
Status finish_growing(const Graph& g, const StateOption& s, ValueId v, ValueId rows,
                      plan::StateSlot& slot) {
  Shape before = g.value(v).shape, added = g.value(rows).shape;
  const auto axis = static_cast<size_t>(s.axis);
  if (s.initial) return invalid_model("it grows, so that it cannot have an initial value");
  if (g.value(v).dtype != g.value(rows).dtype || before.size() != added.size() ||
      !std::equal(before.begin() + 1, before.end(), added.begin() + 1))
    return invalid_model("it is " + type_of(g, v) + " with rows first, but its new rows are " +
                         type_of(g, rows));
  slot.name = s.input;
  slot.axis = s.axis;
  slot.length_after = before[0] + added[0];
  slot.shape.assign(before.begin() + 1, before.end());
  slot.shape.insert(slot.shape.begin() + static_cast<ptrdiff_t>(axis), before[0]);
  return {};
}

}  // namespace

Status finish_states(const Graph& g, const std::vector<StateOption>& states, WeightStore& weights,
                     plan::Interface& io) {
  for (size_t s = 0; s < states.size(); ++s) {
    const ValueId v = g.inputs[g.inputs.size() - states.size() + s];
    const ValueId next = g.outputs[g.outputs.size() - states.size() + s];
    const std::string where = "state '" + states[s].input + "'";
    if (states[s].axis >= 0) {
      RP_TRY(finish_growing(g, states[s], v, next, io.states[s]).with_context(where));
      continue;
    }
    if (g.value(v).dtype != g.value(next).dtype || g.value(v).shape != g.value(next).shape) {
      return invalid_model(where + " is " + type_of(g, v) + ", but its next value '" +
                           states[s].output + "' is " + type_of(g, next) +
                           "; both must have the same type and shape");
    }
    if (!states[s].initial) continue;
    const HostTensor& initial = *states[s].initial;
    if (initial.dtype() != g.value(v).dtype || initial.dims() != static_dims(g.value(v).shape)) {
      return invalid_model(where + " is " + type_of(g, v) + ", but its initial value is " +
                           describe(initial.dtype(), initial.dims()));
    }
    io.states[s].initial = weights.add(initial);
  }
  return {};
}

}  // namespace reprise
