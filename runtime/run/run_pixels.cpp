// Inputs and outputs of a run that are images of the application, or rows with a pitch. They are
// copied on the device, in the submissions of the kernels that use them.
#include "runtime/run/run_state.h"

namespace reprise {

PixelCopy RunContext::pixel_copy(const Binding& b, const plan::Slot& slot, const Rows& rows,
                                 const HostBound& tensor) const {
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

Status RunContext::bind_pixels_in(size_t i, const Binding& b, const Rows& rows) {
  const plan::Slot& slot = s_.io().inputs[i];
  HostBound& input = inputs_[i];
  bool read = false;
  for (const plan::BufferId id : s_.of_input[i]) {
    if (!s_.use(id).on_device) continue;
    read = true;
    RP_TRY(ensure_device_memory(input, bytes_[id]).with_context("input '" + b.name + "'"));
    set_location(id, {input.device.get(), 0});
  }
  // The copy is a part of the first submission, so everything that reads the tensor must follow it.
  if (!read || s_.first_recorded != 0) {
    return unsupported("input '" + b.name +
                       "': the model reads it on the host, so it cannot be an image or rows with a "
                       "pitch on the device; pass the pixels in host memory");
  }
  if (!b.image) RP_TRY(check_room(b, rows.extent(), "input"));
  pixels_in_.push_back(pixel_copy(b, slot, rows, input));
  return {};
}

Status RunContext::bind_pixels_out(size_t o, const Binding& b) {
  const auto subject = [&] { return "output '" + b.name + "'"; };
  const plan::Slot& slot = s_.io().outputs[o];
  const auto& [id, alias_of] = s_.of_output[o];
  const auto& dims = outputs_[o].dims;
  const bool computed = !id.is_none() && alias_of.is_none() && s_.use(id).last_segment >= 0;
  if (!computed || s_.use(id).late || !dims) {
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
  RP_TRY(ensure_device_memory(output, bytes_[id]).with_context(subject()));
  set_location(id, {output.device.get(), 0});
  pixels_out_.emplace_back(static_cast<size_t>(s_.use(id).last_segment),
                           pixel_copy(b, slot, rows, output));
  return {};
}

// Gives the recording of a segment its copies. Copies of an earlier binding are dropped even if
// they look the same: the application may have replaced an image by another one with the same
// handle.
Status RunContext::set_pixels(size_t index, Recorded& r, uint64_t binding) {
  pixels_after_.clear();
  for (const auto& [segment, copy] : pixels_out_)
    if (segment == index) pixels_after_.push_back(copy);
  std::span<const PixelCopy> before;
  if (index == s_.first_recorded) before = pixels_in_;
  const bool any = !before.empty() || !pixels_after_.empty();
  if (r.copies_pixels && (!any || r.pixels_of != binding)) {
    RP_TRY(r.recording->set_pixels({}, {}));
    r.copies_pixels = false;
  }
  if (!any) return {};
  r.copies_pixels = true;
  r.pixels_of = binding;
  s_.base.totals.copies += before.size() + pixels_after_.size();
  return r.recording->set_pixels(before, pixels_after_);
}

}  // namespace reprise
