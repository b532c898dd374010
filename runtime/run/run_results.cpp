// The values of buffers on the host, and the results of a run.
#include <cstring>

#include "runtime/host_plan/host_step.h"
#include "runtime/run/run_state.h"

namespace reprise {

// Returns the value of any buffer as a host tensor.
Result<HostTensor> RunContext::fetch(plan::BufferId id, Run& run) {
  const plan::Buffer& buffer = s_.plan->buffers[id];
  if (run.buffers[id].host) return *run.buffers[id].host;
  if (buffer.kind == plan::BufferKind::Weight) {
    RP_ASSIGN(run.buffers[id].host, s_.host_weight(id));
    return *run.buffers[id].host;
  }
  const Binding* input = buffer.kind == plan::BufferKind::Input
                             ? run.io.inputs[static_cast<size_t>(buffer.index)]
                             : nullptr;
  if (input && input->host) return dense_tensor(*input, buffer.shape.size());
  RP_ASSIGN(auto dims, plan::eval_dims(s_.io(), buffer.shape, run.symbols, buffer.name));
  RP_TRY(checked_element_count(dims, buffer.dtype).status());
  HostTensor t(buffer.dtype, std::move(dims));
  if (input && input->device && input->row_pitch == 0) {
    RP_TRY(check_room(*input, t.bytes().size(), "input"));
    RP_TRY(s_.base.device->download(*input->device, input->device_offset, t.mutable_bytes()));
  } else {
    RP_TRY(read(id, t.mutable_bytes(), run));
  }
  run.stats.bytes_copied += t.bytes().size();
  // A launch that follows may give a state its next value.
  if (buffer.kind != plan::BufferKind::State) run.buffers[id].host = t;
  return t;
}

// Reads the bytes of a buffer that launches or host calls wrote.
Status RunContext::read(plan::BufferId id, std::span<std::byte> out, Run& run) {
  const plan::Buffer& buffer = s_.plan->buffers[id];
  if (out.empty()) return {};
  if (!run.buffers.empty() && run.buffers[id].host) {
    std::memcpy(out.data(), run.buffers[id].host->bytes().data(), out.size());
    return {};
  }
  if (buffer.kind == plan::BufferKind::Output && s_.use(id).last_segment >= 0) {
    const HostBound& output = outputs_[static_cast<size_t>(buffer.index)];
    if (output.staged) {
      std::memcpy(out.data(), output.staging->mapped(), out.size());
      return {};
    }
  }
  const Location& where = buffers_[id].location;
  if (!where.buffer)
    return internal_error("tensor '" + buffer.name + "' was not computed by any step");
  return s_.base.device->download(*where.buffer, where.offset, out);
}

Status RunContext::deliver_to_device(plan::BufferId id, const SessionShared::OutputSource& source,
                                     const Binding& b, Run& run) {
  if (source.alias_of.is_none() && s_.use(id).on_device) return {};  // written in place
  RP_ASSIGN(const HostTensor value, fetch(id, run));
  RP_TRY(check_room(b, value.bytes().size(), "output"));
  run.stats.bytes_copied += value.bytes().size();
  return s_.base.device->upload(*b.device, b.device_offset, value.bytes());
}

// Copies inputs that are returned as outputs, because delivering other outputs may overwrite the
// memory of the caller in which they are.
Status RunContext::keep_passed_through(Run& run) {
  if (run.buffers.empty()) return {};
  for (const SessionShared::OutputSource& source : s_.of_output) {
    const plan::BufferId id = source.origin();
    auto& value = run.buffers[id].host;
    const plan::Buffer& buffer = s_.plan->buffers[id];
    if (!value && buffer.kind == plan::BufferKind::Input) {
      RP_ASSIGN(value, fetch(id, run));
    }
    if (value) value = value->detached();
  }
  return {};
}

Status RunContext::deliver(size_t output, Run& run, HostTensor& result) {
  const plan::Slot& slot = s_.io().outputs[output];
  const SessionShared::OutputSource& source = s_.of_output[output];
  const plan::BufferId id = source.origin();
  const Binding* b = run.io.outputs[output];
  const plan::BufferKind kind = s_.plan->buffers[id].kind;
  const bool computed = kind != plan::BufferKind::Input && kind != plan::BufferKind::Weight;
  if (!b && !run.buffers.empty() && (!computed || run.buffers[id].host)) {
    RP_ASSIGN(const HostTensor value, fetch(id, run));
    result = value.detached();
    return {};
  }
  std::vector<int64_t> told;  // symbols with the values that host calls of this run determine
  const std::optional<std::vector<int64_t>>& known = outputs_[output].dims;
  if (!known) {
    RP_ASSIGN(told, plan::eval_dims(s_.io(), slot.shape, run.symbols, slot.name));
  }
  const std::vector<int64_t>& dims = known ? *known : told;
  if (b && b->image) {  // copied on the device
    result.borrow_again(slot.dtype, dims, {});
    return {};
  }
  if (b && b->device) {
    RP_TRY(deliver_to_device(id, source, *b, run));
    result.borrow_again(slot.dtype, dims, {});
    return {};
  }
  RP_ASSIGN(const int64_t count, checked_element_count(dims, slot.dtype));
  const size_t bytes = static_cast<size_t>(count) * size_of(slot.dtype);
  const Rows rows = rows_of(dims, slot.dtype, b ? b->row_pitch : 0);
  HostTensor dense;
  if (b && !rows.dense()) dense = HostTensor(slot.dtype, dims);
  if (b) {
    RP_TRY(check_rows(*b, rows, bytes));
    result.borrow_again(slot.dtype, dims, {});
  } else {
    result = HostTensor(slot.dtype, dims);
  }
  const std::span<std::byte> out = !b             ? result.mutable_bytes()
                                   : rows.dense() ? b->host_output.first(bytes)
                                                  : dense.mutable_bytes();
  if (computed) {
    RP_TRY(read(id, out, run));
  } else {
    RP_ASSIGN(const HostTensor value, fetch(id, run));
    if (!out.empty()) std::memcpy(out.data(), value.bytes().data(), out.size());
  }
  if (!dense.bytes().empty()) unpack_rows(rows, dense.bytes().data(), b->host_output.data());
  run.stats.bytes_copied += bytes;
  return {};
}

// Values that another step or the host has under another name. They are rare, so they pass through
// the host.
Status RunContext::copy_states(Run& run) {
  for (const auto& [from, next] : s_.state_copies) {
    RP_ASSIGN(const HostTensor value, fetch(from, run));
    const Location& where = buffers_[next].location;
    run.stats.bytes_copied += value.bytes().size();
    RP_TRY(s_.base.device->upload(*where.buffer, where.offset, value.bytes()));
  }
  return {};
}

// The places of states change roles after each run.
void RunContext::bind_states() {
  for (size_t s = 0; s < s_.of_state.size(); ++s) {
    const auto& [current, next] = s_.of_state[s];
    const StateMemory& states = s_.base.states;
    set_location(current, {states.current(s).buffer, states.current(s).offset});
    if (!next.is_none()) set_location(next, {states.next(s).buffer, states.next(s).offset});
  }
}

}  // namespace reprise
