#include "runtime/run/host_values.h"

#include <cstring>

namespace reprise {

void HostValues::begin_run() {
  tensors_.clear();
  if (shared_.keeps_host_values) tensors_.resize(shared_.plan->buffers.size());
}

Status HostValues::place_late(const CurrentRun& run) {
  for (const plan::BufferId b : shared_.plan->buffers.ids()) {
    const plan::Buffer& buffer = shared_.plan->buffers[b];
    if (!shared_.uses[b].late || !shared_.uses[b].on_device || tensors_[b].placed) continue;
    if (!plan::is_bound(buffer.shape, run.symbols)) continue;
    RP_TRY(memory_.size_late(b, run.symbols));
    if (buffer.kind == plan::BufferKind::Output) {
      RP_TRY(io_.bind_output(static_cast<size_t>(buffer.index), run));
    } else {
      RP_TRY(memory_.place_own(b));
    }
    tensors_[b].placed = true;
  }
  return {};
}

Status HostValues::upload(plan::BufferId id, const HostTensor& value, CurrentRun& run) {
  if (!shared_.use(id).on_device) return {};
  if (shared_.use(id).late && !tensors_[id].placed) {
    return internal_error("tensor '" + shared_.plan->buffers[id].name +
                          "': no host call determines its size, so kernels cannot use it");
  }
  run.stats.bytes_copied += value.bytes().size();
  const RunMemory::Location& where = memory_.location(id);
  return shared_.session.device->upload(*where.buffer, where.offset, value.bytes());
}

Status HostValues::accept(plan::BufferId id, HostTensor value, CurrentRun& run) {
  RP_TRY(upload(id, value, run));
  tensors_[id].value = std::move(value);
  return {};
}

Result<HostTensor> HostValues::fetch(plan::BufferId id, CurrentRun& run) {
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  if (tensors_[id].value) return *tensors_[id].value;
  if (buffer.kind == plan::BufferKind::Weight) {
    RP_ASSIGN(tensors_[id].value, shared_.host_weight(id));
    return *tensors_[id].value;
  }
  const Binding* input = buffer.kind == plan::BufferKind::Input
                             ? run.io.inputs[static_cast<size_t>(buffer.index)]
                             : nullptr;
  if (input && input->host) return dense_tensor(*input, buffer.shape.size());
  RP_ASSIGN(auto dims, plan::eval_dims(shared_.io(), buffer.shape, run.symbols, buffer.name));
  RP_TRY(checked_element_count(dims, buffer.dtype).status());
  HostTensor t(buffer.dtype, std::move(dims));
  if (input && input->device && input->row_pitch == 0) {
    RP_TRY(check_room(*input, t.bytes().size(), "input"));
    RP_TRY(
        shared_.session.device->download(*input->device, input->device_offset, t.mutable_bytes()));
  } else {
    RP_TRY(read(id, t.mutable_bytes()));
  }
  run.stats.bytes_copied += t.bytes().size();
  // A launch that follows may give a state its next value.
  if (buffer.kind != plan::BufferKind::State) tensors_[id].value = t;
  return t;
}

// Reads the bytes of a buffer that launches or host calls wrote.
Status HostValues::read(plan::BufferId id, std::span<std::byte> out) {
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  if (out.empty()) return {};
  if (has(id)) {
    std::memcpy(out.data(), tensors_[id].value->bytes().data(), out.size());
    return {};
  }
  if (buffer.kind == plan::BufferKind::Output && shared_.use(id).last_segment >= 0) {
    const IoMemory::HostBound& output = io_.outputs()[static_cast<size_t>(buffer.index)];
    if (output.staged) {
      std::memcpy(out.data(), output.staging->mapped(), out.size());
      return {};
    }
  }
  const RunMemory::Location& where = memory_.location(id);
  if (!where.buffer)
    return internal_error("tensor '" + buffer.name + "' was not computed by any step");
  return shared_.session.device->download(*where.buffer, where.offset, out);
}

Status HostValues::deliver_to_device(plan::BufferId id, const SharedPlan::OutputSource& source,
                                     const Binding& b, CurrentRun& run) {
  if (source.alias_of.is_none() && shared_.use(id).on_device) return {};  // written in place
  RP_ASSIGN(const HostTensor value, fetch(id, run));
  RP_TRY(check_room(b, value.bytes().size(), "output"));
  run.stats.bytes_copied += value.bytes().size();
  return shared_.session.device->upload(*b.device, b.device_offset, value.bytes());
}

// Copies inputs that are returned as outputs, because delivering other outputs may overwrite the
// memory of the caller in which they are.
Status HostValues::keep_passed_through(CurrentRun& run) {
  if (tensors_.empty()) return {};
  for (const SharedPlan::OutputSource& source : shared_.of_output) {
    const plan::BufferId id = source.origin();
    auto& value = tensors_[id].value;
    const plan::Buffer& buffer = shared_.plan->buffers[id];
    if (!value && buffer.kind == plan::BufferKind::Input) {
      RP_ASSIGN(value, fetch(id, run));
    }
    if (value) value = value->detached();
  }
  return {};
}

Status HostValues::deliver_output(size_t output, CurrentRun& run, HostTensor& result) {
  const plan::Slot& slot = shared_.io().outputs[output];
  const SharedPlan::OutputSource& source = shared_.of_output[output];
  const plan::BufferId id = source.origin();
  const Binding* b = run.io.outputs[output];
  const plan::BufferKind kind = shared_.plan->buffers[id].kind;
  const bool computed = kind != plan::BufferKind::Input && kind != plan::BufferKind::Weight;
  if (!b && !tensors_.empty() && (!computed || has(id))) {
    RP_ASSIGN(const HostTensor value, fetch(id, run));
    result = value.detached();
    return {};
  }
  std::vector<int64_t> told;  // symbols with the values that host calls of this run determine
  const std::optional<std::vector<int64_t>>& known = memory_.output_dims(output);
  if (!known) {
    RP_ASSIGN(told, plan::eval_dims(shared_.io(), slot.shape, run.symbols, slot.name));
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
    RP_TRY(read(id, out));
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
Status HostValues::copy_states(CurrentRun& run) {
  for (const auto& [from, next] : shared_.state_copies) {
    RP_ASSIGN(const HostTensor value, fetch(from, run));
    const RunMemory::Location& where = memory_.location(next);
    run.stats.bytes_copied += value.bytes().size();
    RP_TRY(shared_.session.device->upload(*where.buffer, where.offset, value.bytes()));
  }
  return {};
}

Status HostValues::deliver(CurrentRun& run, std::vector<HostTensor>& results) {
  RP_TRY(copy_states(run));
  RP_TRY(keep_passed_through(run));
  results.resize(shared_.of_output.size());
  for (size_t o = 0; o < results.size(); ++o) RP_TRY(deliver_output(o, run, results[o]));
  return {};
}

}  // namespace reprise
