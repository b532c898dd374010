#include "runtime/host_plan/control_flow.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/host/control_flow_kind.h"
#include "runtime/host/support.h"

namespace reprise {
namespace {

using Tensors = std::vector<HostTensor>;
using Pointers = std::vector<const HostTensor*>;

Pointers pointers_to(const Tensors& tensors) {
  Pointers out;
  for (const HostTensor& t : tensors) out.push_back(&t);
  return out;
}

/// An empty tensor of the type of a body's output, to stack the results of no iterations. Dims that
/// do not follow from the caller's symbols are 0.
HostTensor none_of(const plan::Body& body, size_t output, std::span<const int64_t> symbols) {
  const plan::Slot& slot = body.io.outputs[output];
  const auto inherited = symbols.first(std::min(symbols.size(), body.inherited_symbols));
  std::vector<int64_t> dims;
  for (const Expr& e : slot.shape) {
    const Result<int64_t> value = e.eval(inherited);
    dims.push_back(value.ok() ? std::max<int64_t>(*value, 0) : 0);
  }
  return HostTensor::borrow(slot.dtype, std::move(dims), {}, nullptr);
}

Result<Tensors> run_if(const ControlFlowCall& c) {
  if (c.inputs.empty() || c.inputs[0] == nullptr) return invalid_model("it has no condition");
  RP_ASSIGN(const int64_t condition, scalar_of(*c.inputs[0], DType::Bool, "the condition"));
  return c.bodies.run(c.call, condition != 0 ? 0 : 1, {}, c.inputs, c.symbols, c.run);
}

/// The values that iterations pass on, and the results that are stacked, per output.
struct Iterations {
  Tensors carried;
  std::vector<Tensors> stacked;
};

/// Splits the results of one iteration.
Status take(Tensors results, size_t first, Iterations& it) {
  const size_t carried = it.carried.size();
  if (results.size() != first + carried + it.stacked.size())
    return internal_error("its body returns " + std::to_string(results.size()) + " values");
  for (size_t i = 0; i < carried; ++i) it.carried[i] = results[first + i].detached();
  for (size_t i = 0; i < it.stacked.size(); ++i)
    it.stacked[i].push_back(results[first + carried + i].detached());
  return {};
}

Result<Tensors> run_loop(const ControlFlowCall& c) {
  RP_ASSIGN(const plan::Body* const body, c.bodies.find(c.call, 0));
  const size_t passed = body->io.inputs.size() - body->captures.size();
  const size_t n_outputs = body->io.outputs.size();
  if (passed < 2 || n_outputs + 1 < passed || c.inputs.size() < passed)
    return invalid_model("its inputs do not fit its body");
  const size_t n_carried = passed - 2;
  const auto given = [&](size_t i) { return c.inputs[i] != nullptr; };
  int64_t trips = std::numeric_limits<int64_t>::max();
  int64_t condition = 1;
  if (given(0)) {
    RP_ASSIGN(trips, scalar_of(*c.inputs[0], DType::I64, "the number of iterations"));
  }
  if (given(1)) {
    RP_ASSIGN(condition, scalar_of(*c.inputs[1], DType::Bool, "the condition"));
  }
  Iterations it;
  for (size_t i = 0; i < n_carried; ++i) {
    if (!given(2 + i)) return invalid_model("input " + std::to_string(2 + i) + " is missing");
    it.carried.push_back(*c.inputs[2 + i]);
  }
  it.stacked.resize(n_outputs - 1 - n_carried);
  for (int64_t i = 0; i < trips && condition != 0; ++i) {
    const HostTensor number = HostTensor::from<int64_t>(DType::I64, {}, {i});
    const HostTensor going = HostTensor::from<uint8_t>(DType::Bool, {}, {1});
    Pointers inputs{&number, &going};
    for (const HostTensor& t : it.carried) inputs.push_back(&t);
    auto results = c.bodies.run(c.call, 0, inputs, c.inputs, c.symbols,
                                c.run.iteration(static_cast<uint64_t>(i)));
    if (!results.ok()) return results.status().with_context("iteration " + std::to_string(i));
    if (results->empty()) return internal_error("its body returns no condition");
    RP_ASSIGN(condition,
              scalar_of((*results)[0], DType::Bool, "the condition that the body returns"));
    RP_TRY(take(*std::move(results), 1, it));
  }
  Tensors out = std::move(it.carried);
  for (size_t i = 0; i < it.stacked.size(); ++i) {
    const Tensors& parts = it.stacked[i];
    const HostTensor like = parts.empty() ? none_of(*body, 1 + n_carried + i, c.symbols) : parts[0];
    RP_ASSIGN(HostTensor all, stack(parts, 0, parts.size(), like));
    out.push_back(std::move(all));
  }
  return out;
}

Result<std::vector<bool>> directions(const AttrMap& attrs, std::string_view name, size_t count) {
  const std::vector<int64_t> list = attrs.get_ints(name, std::vector<int64_t>(count, 0));
  if (list.size() != count)
    return invalid_model("attribute '" + std::string(name) + "' has " +
                         std::to_string(list.size()) + " elements instead of " +
                         std::to_string(count));
  std::vector<bool> out;
  out.reserve(list.size());
  for (const int64_t d : list) out.push_back(d != 0);
  return out;
}

/// `ranks[i]`: the rank of the tensor that axis i counts in.
Result<std::vector<size_t>> axes_of(const AttrMap& attrs, std::string_view name,
                                    std::span<const int64_t> ranks) {
  const std::vector<int64_t> list = attrs.get_ints(name, std::vector<int64_t>(ranks.size(), 0));
  if (list.size() != ranks.size())
    return invalid_model("attribute '" + std::string(name) + "' has " +
                         std::to_string(list.size()) + " elements instead of " +
                         std::to_string(ranks.size()));
  std::vector<size_t> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t axis = list[i] < 0 ? list[i] + ranks[i] : list[i];
    if (axis < 0 || axis >= ranks[i])
      return invalid_model("attribute '" + std::string(name) + "': axis " +
                           std::to_string(list[i]) + " of a tensor of rank " +
                           std::to_string(ranks[i]) + " does not exist");
    out.push_back(static_cast<size_t>(axis));
  }
  return out;
}

/// `inputs` are the states and the scanned tensors.
Result<ScanForm> scan_form(const ControlFlowCall& c, const plan::Body& body,
                           std::span<const HostTensor* const> inputs) {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) return invalid_model("input " + std::to_string(i) + " is missing");
    ranks.push_back(inputs[i]->rank());
  }
  return read_scan_form(c.call, body.io, body.captures.size(), ranks);
}

/// Scans the first `length` elements of sequences that are `whole` elements long; outputs are
/// padded with zeros to that length.
Result<Tensors> scan(const ControlFlowCall& c, const plan::Body& body, const ScanForm& f,
                     std::span<const HostTensor* const> inputs, size_t length, size_t whole) {
  Iterations it;
  for (size_t i = 0; i < f.states; ++i) it.carried.push_back(*inputs[i]);
  it.stacked.resize(f.outputs);
  for (size_t step = 0; step < length; ++step) {
    Tensors slices;
    for (size_t i = 0; i < f.scanned; ++i) {
      const size_t at = f.in_reversed[i] ? length - 1 - step : step;
      RP_ASSIGN(HostTensor slice, slice_at(*inputs[f.states + i], f.in_axes[i], at));
      slices.push_back(std::move(slice));
    }
    Pointers passed = pointers_to(it.carried);
    for (const HostTensor& s : slices) passed.push_back(&s);
    auto results = c.bodies.run(c.call, 0, passed, c.inputs, c.symbols, c.run.iteration(step));
    if (!results.ok()) return results.status().with_context("iteration " + std::to_string(step));
    RP_TRY(take(*std::move(results), 0, it));
  }
  Tensors out = std::move(it.carried);
  for (size_t i = 0; i < f.outputs; ++i) {
    Tensors& parts = it.stacked[i];
    const HostTensor like = parts.empty() ? none_of(body, f.states + i, c.symbols) : parts[0];
    if (f.out_reversed[i]) std::reverse(parts.begin(), parts.end());
    RP_ASSIGN(HostTensor all, stack(parts, f.out_axes[i], whole, like));
    out.push_back(std::move(all));
  }
  return out;
}

/// The length of the scanned axes, which must agree.
Result<size_t> sequence_length(const ScanForm& f, std::span<const HostTensor* const> inputs) {
  std::optional<int64_t> length;
  for (size_t i = 0; i < f.scanned; ++i) {
    const int64_t own = inputs[f.states + i]->dims()[f.in_axes[i]];
    if (length && *length != own) {
      return invalid_input("the scanned inputs have " + std::to_string(*length) + " and " +
                           std::to_string(own) + " elements");
    }
    length = own;
  }
  return static_cast<size_t>(*length);
}

/// Scan of opset 8: axis 0 of every tensor is the batch, and each element of the batch is scanned
/// on its own, for as many steps as input 0 says, if it is given.
Result<Tensors> scan_batch(const ControlFlowCall& c, const plan::Body& body,
                           std::span<const HostTensor* const> inputs, const HostTensor* lengths) {
  if (inputs.empty() || inputs[0] == nullptr || inputs[0]->rank() == 0)
    return invalid_model("its inputs have no batch axis");
  const int64_t batch = inputs[0]->dims()[0];
  if (lengths != nullptr && (lengths->dtype() != DType::I64 || lengths->count() != batch))
    return invalid_input("the sequence lengths must be one int64 for each element of the batch");
  std::vector<Tensors> results;  // per output, per element of the batch
  for (int64_t b = 0; b < batch; ++b) {
    Tensors own;
    for (const HostTensor* t : inputs) {
      if (t == nullptr || t->rank() == 0 || t->dims()[0] != batch)
        return invalid_input("its inputs have batches of different sizes");
      RP_ASSIGN(HostTensor one, slice_at(*t, 0, static_cast<size_t>(b)));
      own.push_back(std::move(one));
    }
    const Pointers passed = pointers_to(own);
    RP_ASSIGN(const ScanForm f, scan_form(c, body, passed));
    RP_ASSIGN(const size_t whole, sequence_length(f, passed));
    const int64_t length =
        lengths != nullptr ? lengths->data<int64_t>()[b] : static_cast<int64_t>(whole);
    if (length < 0 || static_cast<uint64_t>(length) > whole)
      return invalid_input("a sequence length of " + std::to_string(length) + " is not in [0, " +
                           std::to_string(whole) + "]");
    const ControlFlowCall sample{c.call, c.inputs, c.symbols, c.bodies,
                                 c.run.iteration(static_cast<uint64_t>(b))};
    RP_ASSIGN(Tensors one, scan(sample, body, f, passed, static_cast<size_t>(length), whole));
    results.resize(one.size());
    for (size_t i = 0; i < one.size(); ++i) results[i].push_back(std::move(one[i]));
  }
  if (results.empty()) return invalid_input("the batch is empty");
  Tensors out;
  for (const Tensors& parts : results) {
    RP_ASSIGN(HostTensor all, stack(parts, 0, parts.size(), parts[0]));
    out.push_back(std::move(all));
  }
  return out;
}

Result<Tensors> run_scan(const ControlFlowCall& c) {
  RP_ASSIGN(const plan::Body* const body, c.bodies.find(c.call, 0));
  const size_t passed = body->io.inputs.size() - body->captures.size();
  const size_t first = c.call.opset == 8 ? 1 : 0;
  if (c.inputs.size() < first + passed) return invalid_model("its inputs do not fit its body");
  const auto inputs = c.inputs.subspan(first, passed);
  if (c.call.opset == 8) return scan_batch(c, *body, inputs, c.inputs[0]);
  RP_ASSIGN(const ScanForm f, scan_form(c, *body, inputs));
  RP_ASSIGN(const size_t length, sequence_length(f, inputs));
  return scan(c, *body, f, inputs, length, length);
}

}  // namespace

Result<HostTensor> slice_at(const HostTensor& t, size_t axis, size_t i) {
  const auto at = static_cast<int64_t>(axis);
  RP_ASSIGN(const HostTensor out, host::slice_of(t, at, static_cast<int64_t>(i), 1));
  return out.reshaped(host::without(out.dims(), at));
}

Result<HostTensor> stack(const std::vector<HostTensor>& parts, size_t axis, size_t length,
                         const HostTensor& like) {
  std::vector<int64_t> dims = like.dims();
  if (is_container(like.dtype())) return invalid_model("it stacks values that are no tensors");
  if (axis > dims.size()) return invalid_model("it stacks along an axis that does not exist");
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<int64_t>(length));
  RP_ASSIGN(HostTensor out, host::allocate(like.dtype(), std::move(dims)));
  const host::AxisSplit to = host::split_at(out.dims(), static_cast<int64_t>(axis));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dims() != like.dims() || parts[i].dtype() != like.dtype()) {
      return invalid_input("iteration " + std::to_string(i) + " returns " +
                           describe(parts[i].dtype(), parts[i].dims()) + ", the first one " +
                           describe(like.dtype(), like.dims()) +
                           "; the results of all iterations are stacked, so their shapes must be "
                           "equal");
    }
    for (int64_t o = 0; o < to.outer; ++o) {
      const int64_t at = (o * to.size + static_cast<int64_t>(i)) * to.inner;
      host::copy_block(out, at, parts[i], o * to.inner, to.inner);
    }
  }
  return out;
}

Result<ScanForm> read_scan_form(const plan::HostCall& call, const plan::Interface& io,
                                size_t captures, std::span<const int64_t> ranks) {
  ScanForm f;
  const int64_t scanned = call.attrs.get_int("num_scan_inputs", 0);
  const size_t passed = io.inputs.size() - captures;
  if (scanned < 1 || static_cast<uint64_t>(scanned) > passed || ranks.size() != passed)
    return invalid_model("its inputs do not fit its body and 'num_scan_inputs'");
  f.scanned = static_cast<size_t>(scanned);
  f.states = passed - f.scanned;
  if (io.outputs.size() < f.states) return invalid_model("its body returns too few values");
  f.outputs = io.outputs.size() - f.states;
  const auto in_ranks = ranks.subspan(f.states);
  std::vector<int64_t> out_ranks;
  for (size_t i = 0; i < f.outputs; ++i)
    out_ranks.push_back(static_cast<int64_t>(io.outputs[f.states + i].shape.size()) + 1);
  const bool first_version = call.opset == 8;
  const char* in_directions = first_version ? "directions" : "scan_input_directions";
  RP_ASSIGN(f.in_axes, axes_of(call.attrs, "scan_input_axes", in_ranks));
  RP_ASSIGN(f.out_axes, axes_of(call.attrs, "scan_output_axes", out_ranks));
  RP_ASSIGN(f.in_reversed, directions(call.attrs, in_directions, f.scanned));
  RP_ASSIGN(f.out_reversed, directions(call.attrs, "scan_output_directions", f.outputs));
  return f;
}

Result<int64_t> scalar_of(const HostTensor& t, DType dtype, const std::string& what) {
  if (t.dtype() != dtype || t.count() != 1) {
    return invalid_input(what + " must be one " + std::string(name_of(dtype)) + ", not " +
                         describe(t.dtype(), t.dims()));
  }
  return dtype == DType::Bool ? int64_t{t.data<uint8_t>()[0] != 0} : t.data<int64_t>()[0];
}

bool is_control_flow(const plan::HostCall& call) {
  return host::control_flow_of(call.op) != host::ControlFlow::None;
}

Result<std::vector<HostTensor>> run_control_flow(const ControlFlowCall& c) {
  switch (host::control_flow_of(c.call.op)) {
    case host::ControlFlow::If:
      return run_if(c);
    case host::ControlFlow::Loop:
      return run_loop(c);
    case host::ControlFlow::Scan:
      return run_scan(c);
    case host::ControlFlow::None:
      break;
  }
  return internal_error("it has no bodies");
}

}  // namespace reprise
