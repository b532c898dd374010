#include "runtime/run/io_memory.h"

#include <cstring>

namespace reprise {
namespace {

PixelCopy pixel_copy(const Binding& b, const plan::Slot& slot, const Rows& rows,
                     const IoMemory::HostBound& tensor) {
  PixelCopy c;
  c.tensor = tensor.device.get();
  if (b.image) {
    c.image = *b.image;
    c.format = slot.image;
    return c;
  }
  c.rows = b.device;
  c.rows_offset = b.device_offset;
  c.row_pitch = rows.pitch;
  c.row_bytes = rows.bytes;
  c.row_count = rows.count;
  return c;
}

}  // namespace

IoMemory::IoMemory(const SharedPlan& shared, RunMemory& memory)
    : shared_(shared),
      memory_(memory),
      inputs_(shared.io().inputs.size()),
      outputs_(shared.io().outputs.size()),
      uploaded_early_(inputs_.size()) {}

Status IoMemory::bind(CurrentRun& run) {
  pixels_in_.clear();
  pixels_out_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) RP_TRY(bind_input(i, run));
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const plan::BufferId id = shared_.of_output[o].buffer;
    if (!shared_.use(id).late) RP_TRY(bind_output(o, run));
  }
  return {};
}

Status IoMemory::ensure_device_memory(HostBound& tensor, uint64_t bytes) {
  if (tensor.device && tensor.device->size() < bytes) {
    ++generation_;
    // A mask of a cache that grows is longer in each step.
    const uint64_t more = bytes + bytes / 4;
    const SessionResources& session = shared_.session;
    if (session.own_states.grows() && more <= session.limits.max_buffer_bytes) {
      Status grown = memory_.grow(tensor.device, more, MemoryUse::Device);
      if (grown.code() != Code::OutOfMemory) return grown;
    }
  }
  return memory_.grow(tensor.device, bytes, MemoryUse::Device);
}

Status IoMemory::ensure_memory(HostBound& tensor, uint64_t bytes, MemoryUse staging) {
  RP_TRY(ensure_device_memory(tensor, bytes));
  tensor.staged = tensor.device->mapped() == nullptr;
  if (!tensor.staged) return {};
  return memory_.grow(tensor.staging, tensor.device->size(), staging);
}

Status IoMemory::bind_input(size_t i, CurrentRun& run) {
  const Binding& b = *run.io.inputs[i];
  HostBound& input = inputs_[i];
  input.staged = false;
  uploaded_early_[i] = false;
  Rows rows;  // dense; bodies have no others
  if (b.image || b.row_pitch != 0)
    rows = rows_of(run.io.dims(i), shared_.io().inputs[i].dtype, b.row_pitch);
  if (b.image || (b.device && !rows.dense())) return bind_pixels_in(i, b, rows);
  for (const plan::BufferId id : shared_.of_input[i]) {
    if (!shared_.use(id).on_device) continue;
    if (b.device) {
      RP_TRY(check_room(b, memory_.bytes(id), "input"));
      memory_.set_location(id, {b.device, b.device_offset});
      continue;
    }
    const Status made = ensure_memory(input, memory_.bytes(id), MemoryUse::Upload);
    if (!made.ok()) return made.with_context("input '" + b.name + "'");
    memory_.set_location(id, {input.device.get(), 0});
  }
  if (b.device || !input.device || shared_.of_input[i].empty()) return {};
  const auto bytes = b.host->bytes();
  if (bytes.empty()) return {};
  const CopyTimer timer(run);
  void* to = input.staged ? input.staging->mapped() : input.device->mapped();
  if (rows.dense()) {
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    pack_rows(rows, bytes.data(), static_cast<std::byte*>(to));
  }
  run.stats.bytes_copied += rows.dense() ? bytes.size() : rows.count * rows.bytes;
  return {};
}

Status IoMemory::upload_early(size_t input, const CurrentRun& run) {
  const HostBound& own = inputs_[input];
  if (!own.staged || shared_.first_recorded <= run.segment || uploaded_early_[input]) return {};
  RP_TRY(shared_.session.device->upload(*own.device.get(), 0, run.io.inputs[input]->host->bytes()));
  uploaded_early_[input] = true;
  return {};
}

Status IoMemory::bind_output(size_t i, const CurrentRun& run) {
  const plan::BufferId id = shared_.of_output[i].buffer;
  const Binding* b = run.io.outputs[i];
  HostBound& output = outputs_[i];
  output.staged = false;
  if (b && (b->image || (b->device && b->row_pitch != 0))) return bind_pixels_out(i, *b);
  if (id.is_none() || !shared_.use(id).on_device) return {};
  if (b && b->device) {
    RP_TRY(check_room(*b, memory_.bytes(id), "output"));
    memory_.set_location(id, {b->device, b->device_offset});
    return {};
  }
  const Status made = ensure_memory(output, memory_.bytes(id), MemoryUse::Readback);
  if (!made.ok()) return made.with_context("output '" + shared_.io().outputs[i].name + "'");
  memory_.set_location(id, {output.device.get(), 0});
  return {};
}

Status IoMemory::bind_pixels_in(size_t i, const Binding& b, const Rows& rows) {
  const plan::Slot& slot = shared_.io().inputs[i];
  HostBound& input = inputs_[i];
  bool read = false;
  for (const plan::BufferId id : shared_.of_input[i]) {
    if (!shared_.use(id).on_device) continue;
    read = true;
    RP_TRY(ensure_device_memory(input, memory_.bytes(id)).with_context("input '" + b.name + "'"));
    memory_.set_location(id, {input.device.get(), 0});
  }
  // The copy is a part of the first submission, so everything that reads the tensor must follow it.
  if (!read || shared_.first_recorded != 0) {
    return unsupported("input '" + b.name +
                       "': the model reads it on the host, so it cannot be an image or rows with a "
                       "pitch on the device; pass the pixels in host memory");
  }
  if (!b.image) RP_TRY(check_room(b, rows.extent(), "input"));
  pixels_in_.push_back(pixel_copy(b, slot, rows, input));
  return {};
}

Status IoMemory::bind_pixels_out(size_t o, const Binding& b) {
  const auto subject = [&] { return "output '" + b.name + "'"; };
  const plan::Slot& slot = shared_.io().outputs[o];
  const auto& [id, alias_of] = shared_.of_output[o];
  const auto& dims = memory_.output_dims(o);
  const bool computed = !id.is_none() && alias_of.is_none() && shared_.use(id).last_segment >= 0;
  if (!computed || shared_.use(id).late || !dims) {
    return unsupported(subject() +
                       ": no kernel computes it, or its size depends on data, so it cannot be an "
                       "image or rows with a pitch on the device; bind host memory");
  }
  const Rows rows = rows_of(*dims, slot.dtype, b.row_pitch);
  const int64_t height = slot.image == ImageFormat::Nv12 ? (*dims)[0] / 3 * 2 : (*dims)[0];
  if (b.image && (b.image->height != height || b.image->width != (*dims)[1])) {
    return invalid_input(subject() + " has " + std::to_string((*dims)[1]) + " x " +
                         std::to_string(height) + " pixels, the VkImage " +
                         std::to_string(b.image->width) + " x " + std::to_string(b.image->height));
  }
  if (!b.image) RP_TRY(check_rows(b, rows, rows.bytes * rows.count));
  HostBound& output = outputs_[o];
  RP_TRY(ensure_device_memory(output, memory_.bytes(id)).with_context(subject()));
  memory_.set_location(id, {output.device.get(), 0});
  pixels_out_.emplace_back(static_cast<size_t>(shared_.use(id).last_segment),
                           pixel_copy(b, slot, rows, output));
  return {};
}

uint64_t IoMemory::held_bytes() const {
  uint64_t bytes = 0;
  for (const HostBound& input : inputs_) bytes += input.device.bytes();
  for (const HostBound& output : outputs_) bytes += output.device.bytes();
  return bytes;
}

}  // namespace reprise
