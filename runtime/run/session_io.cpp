#include "runtime/run/session_io.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/run/shared_images.h"

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

Status unknown_name(const std::string& kind, const std::string& name,
                    const std::vector<plan::Slot>& declared) {
  const char* hint =
      kind == "input"
          ? " (one to which the model gives a value is a constant, unless it is compiled "
            "as an optional input)"
          : "";
  return invalid_input("the model has no " + kind + " '" + name + "'; its " + kind + "s are " +
                       names_of(declared) + hint);
}

std::span<const int64_t> dims_of(const Binding& b) {
  return b.host ? std::span<const int64_t>(b.host->dims()) : std::span<const int64_t>(b.dims);
}

/// The dims of a slot that has this image.
std::span<const int64_t> dims_of(const plan::Slot& slot, const DeviceImage& image,
                                 std::array<int64_t, 3>& dims) {
  const bool planes = slot.image == ImageFormat::Nv12;
  dims = {planes ? int64_t{image.height / 2} * 3 : int64_t{image.height}, image.width,
          slot.image == ImageFormat::R8 ? 1 : 4};
  return std::span(dims).first(planes ? 2 : 3);
}

/// As for ONNX Runtime, a tensor of one element is a scalar where the model has one.
std::span<const int64_t> dims_for(const plan::Slot& slot, const Binding& b) {
  const std::span<const int64_t> dims = dims_of(b);
  const bool one = std::ranges::all_of(dims, [](int64_t d) { return d == 1; });
  return slot.shape.empty() && one ? std::span<const int64_t>() : dims;
}

HostTensor without_pitch(const Binding& b) {
  if (b.row_pitch == 0) return *b.host;
  HostTensor t(b.host->dtype(), b.host->dims());
  pack_rows(rows_of(t.dims(), t.dtype(), b.row_pitch), b.host->bytes().data(),
            t.mutable_bytes().data());
  return t;
}

template <typename T>
std::vector<int64_t> integers_of(const HostTensor& t) {
  const T* first = t.data<T>();
  return {first, first + t.count()};
}

/// The elements of a small tensor of integers. Nothing for other dtypes.
std::optional<std::vector<int64_t>> elements_of(const HostTensor& t) {
  if (t.dtype() == DType::I64) return integers_of<int64_t>(t);
  if (t.dtype() == DType::I32) return integers_of<int32_t>(t);
  if (t.dtype() == DType::Bool) return integers_of<uint8_t>(t);
  return std::nullopt;
}

std::string list_of(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "[" + text + "]";
}

/// Whether an input has the elements for which the model was compiled.
Status check_expected(const plan::Slot& slot, const Binding& b) {
  if (slot.expected.empty()) return {};
  const std::string subject = "input '" + slot.name + "'";
  const std::string wanted = "was compiled for the values " + list_of(slot.expected);
  if (!b.host)
    return invalid_input(subject + " " + wanted + "; pass it in host memory, where it is compared");
  const auto given = elements_of(without_pitch(b));
  if (given == slot.expected) return {};
  return invalid_input(subject + " is " + (given ? list_of(*given) : "not of integers") + ", but " +
                       wanted + "; compile the model for other values, or without values");
}

constexpr uint64_t kMostPitch = uint64_t{1} << 32;

Status check_input_rows(const std::string& name, std::span<const int64_t> dims, DType dtype,
                        uint64_t pitch) {
  if (pitch == 0) return {};
  if (is_host_only(dtype) || is_container(dtype) || dims.empty())
    return invalid_input("input '" + name + "' has no rows, but a row pitch");
  return check_pitch("input", name, rows_of(dims, dtype, pitch));
}

Status pitch_too_large(const char* subject, const std::string& name, uint64_t pitch) {
  return invalid_input(std::string(subject) + " '" + name + "' has a row pitch of " +
                       std::to_string(pitch) + " bytes, the most is " + std::to_string(kMostPitch));
}

/// Whoever makes a HostTensor may have left out its bytes.
Status check_bytes(const std::string& name, const HostTensor& t, uint64_t pitch) {
  if (is_host_only(t.dtype()) || is_container(t.dtype())) return {};
  RP_ASSIGN(const int64_t count, checked_element_count(t.dims(), t.dtype()));
  uint64_t needs = static_cast<uint64_t>(count) * size_of(t.dtype());
  if (pitch != 0) needs = rows_of(t.dims(), t.dtype(), pitch).extent();
  if (t.bytes().size() >= needs) return {};
  return invalid_input("input '" + name + "' " + describe(t.dtype(), t.dims()) + " needs " +
                       std::to_string(needs) + " bytes, its value has " +
                       std::to_string(t.bytes().size()));
}

Status check_device(const char* kind, const Binding& b, const Device* device) {
  if (device && device->owns(*b.device) && b.device_offset % kBindingAlignment == 0) return {};
  const std::string subject = std::string(kind) + " '" + b.name + "'";
  if (!device)
    return invalid_input(subject + " is device memory, but the session runs on the host");
  if (!device->owns(*b.device)) {
    return invalid_input(subject + " is memory of another device than the session's, " +
                         device->info().id + "; create it on the same device");
  }
  return invalid_input(subject + ": the offset " + std::to_string(b.device_offset) +
                       " in device memory is not a multiple of 16");
}

template <typename Extent>
std::string name_of(const Extent& e) {
  return (e.written ? "output '" : "input '") + e.binding->name + "'";
}

// `known` has the rank and the dims of each tensor, one tensor after another.
bool same_dims(std::span<const std::span<const int64_t>> dims, std::span<const int64_t> known) {
  for (const auto& d : dims) {
    if (known.size() <= d.size() || known[0] != static_cast<int64_t>(d.size())) return false;
    if (!std::equal(d.begin(), d.end(), known.begin() + 1)) return false;
    known = known.subspan(d.size() + 1);
  }
  return known.empty();
}

}  // namespace

Status check_items(const HostTensor& t) {
  const DType held = item_type_of(t.dtype());
  const auto& items = t.items();
  const bool map = held == DType::Invalid;
  const bool strings = container_of(t.dtype()) == Container::StringMap;
  const DType expected[] = {strings ? DType::String : DType::I64, element_of(t.dtype())};
  const size_t most = map ? 2 : is_optional(t.dtype()) ? 1 : items.size();
  if (items.size() > most || (map && items.size() != most))
    return invalid_input("it has " + std::to_string(items.size()) + " items, not " +
                         std::to_string(most));
  for (size_t i = 0; i < items.size(); ++i) {
    const DType wanted = map ? expected[i] : held;
    const bool shaped = !map || (items[i].rank() == 1 && items[i].count() == items[0].count());
    if (items[i].dtype() != wanted || !shaped) {
      return invalid_input("item " + std::to_string(i) + " is " +
                           describe(items[i].dtype(), items[i].dims()) + ", expected " +
                           std::string(name_of(wanted)) + (shaped ? "" : ", as long as the keys"));
    }
    if (is_container(wanted))
      RP_TRY(check_items(items[i]).with_context("item " + std::to_string(i)));
  }
  return {};
}

IoBinder::IoBinder(const plan::Interface& io)
    : io_(io), grows_(std::ranges::any_of(io.states, &plan::StateSlot::grows)) {
  for (size_t i = 0; i < io.inputs.size(); ++i) inputs_.emplace(io.inputs[i].name, i);
  for (size_t i = 0; i < io.outputs.size(); ++i) outputs_.emplace(io.outputs[i].name, i);
  input_sizes_ = sizes_of(io.inputs);
  output_sizes_ = sizes_of(io.outputs);
}

std::vector<IoBinder::Size> IoBinder::sizes_of(const std::vector<plan::Slot>& slots) {
  std::vector<Size> sizes(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    sizes[i].element = size_of(slots[i].dtype);
    sizes[i].count = element_count(slots[i].shape);
    sizes[i].count.collect_symbols(sizes[i].symbols);
  }
  return sizes;
}

Status IoBinder::place(std::span<const Binding> given, bool is_input,
                       std::vector<const Binding*>& slots) const {
  const std::string kind = is_input ? "input" : "output";
  const auto& names = is_input ? inputs_ : outputs_;
  const auto& declared = is_input ? io_.inputs : io_.outputs;
  slots.assign(declared.size(), nullptr);
  for (const Binding& b : given) {
    const auto it = names.find(b.name);
    if (it == names.end()) return unknown_name(kind, b.name, declared);
    if (slots[it->second]) return invalid_input(kind + " '" + b.name + "' is given twice");
    slots[it->second] = &b;
  }
  return {};
}

Status IoBinder::check_input(const plan::Slot& slot, const Binding& b, const Device* device) const {
  const auto subject = [&] { return "input '" + slot.name + "'"; };
  if (b.image) return check_image(slot, b, device, false);
  if (!b.host && !b.device) return invalid_input(subject() + " has neither host nor device memory");
  if (b.host && b.device) return invalid_input(subject() + " has both host and device memory");
  if (b.device) RP_TRY(check_device("input", b, device));
  const DType given = b.host ? b.host->dtype() : b.dtype.value_or(slot.dtype);
  if (given != slot.dtype) {
    return invalid_input(subject() + " is " + describe(given, dims_of(b)) + ", expected " +
                         std::string(name_of(slot.dtype)) + " " +
                         shape_str(slot.shape, io_.symbols));
  }
  if (b.host && is_container(slot.dtype)) RP_TRY(check_items(*b.host).with_context(subject()));
  for (const int64_t d : dims_of(b)) {
    if (d < 0) return invalid_input(subject() + " has a negative dimension, " + std::to_string(d));
  }
  RP_TRY(check_input_rows(b.name, dims_for(slot, b), slot.dtype, b.row_pitch));
  if (b.host) RP_TRY(check_bytes(b.name, *b.host, b.row_pitch));
  RP_TRY(check_expected(slot, b));
  if (b.device && !rows_of(dims_for(slot, b), slot.dtype, b.row_pitch).dense())
    return device->check_rows().with_context(subject());
  return {};
}

Status IoBinder::check_image(const plan::Slot& slot, const Binding& b, const Device* device,
                             bool written) const {
  const std::string subject = (written ? "output '" : "input '") + b.name + "'";
  if (b.host || b.device || !b.host_output.empty())
    return invalid_input(subject + " has both an image and memory");
  if (slot.image == ImageFormat::None) {
    return invalid_input(subject + " is " + std::string(name_of(slot.dtype)) + " " +
                         shape_str(slot.shape, io_.symbols) +
                         ", not an image; name it as one when the model is compiled");
  }
  if (!device) {
    return invalid_input(subject +
                         " is a VkImage, but the session runs on the host; pass the pixels");
  }
  return device->check_image(*b.image, slot.image, written).with_context(subject);
}

Status IoBinder::check_output(const plan::Slot& slot, const Binding& b,
                              const Device* device) const {
  const auto subject = [&] { return "output '" + b.name + "'"; };
  if (b.host) return invalid_input(subject() + ": host tensors are for inputs; bind its bytes");
  if (is_host_only(slot.dtype)) {
    return unsupported(subject() + " is of type " + std::string(name_of(slot.dtype)) +
                       ", which cannot be written to bound memory");
  }
  if (b.image) return check_image(slot, b, device, true);
  if (b.row_pitch > kMostPitch) return pitch_too_large("output", b.name, b.row_pitch);
  if (!b.device) return {};
  RP_TRY(check_device("output", b, device));
  return b.row_pitch == 0 ? Status() : device->check_rows().with_context(subject());
}

Status IoBinder::check_disjoint(std::vector<BoundIo::Extent>& extents) {
  using Extent = BoundIo::Extent;
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  const Extent* last = nullptr;          // the extent so far that ends last
  const Extent* last_written = nullptr;  // the same among outputs
  for (const Extent& e : extents) {
    const Extent* other = e.written ? last : last_written;
    if (other && e.begin < other->end) {
      return invalid_input(name_of(e) + " shares memory with " + name_of(*other) +
                           "; bind memory of its own to every output");
    }
    if (!last || e.end > last->end) last = &e;
    if (e.written && (!last_written || e.end > last_written->end)) last_written = &e;
  }
  return {};
}

// Kernels and host calls assume that tensors do not share memory. Outputs in host memory are
// written last, so they may be where an input was.
Status IoBinder::check_overlaps(BoundIo& bound) const {
  const auto bytes = [&](const Size& size, uint64_t room) {
    for (const SymbolId s : size.symbols)
      if (bound.symbols[static_cast<size_t>(s)] == plan::kUnbound) return room;
    const auto count = size.count.eval(bound.symbols);
    if (!count.ok() || *count <= 0) return uint64_t{0};
    return std::min(room, static_cast<uint64_t>(*count) * size.element);
  };
  auto& device = bound.device_;
  auto& host = bound.host_;
  device.clear();
  host.clear();
  const auto add = [&](const Binding& b, const Size& size, bool written) {
    if ((!b.device && !written) || b.image) return;
    const uint64_t offset = b.device ? std::min(b.device_offset, b.device->size()) : 0;
    const uint64_t room = b.device ? b.device->size() - offset : b.host_output.size();
    const uint64_t used = b.row_pitch == 0 ? bytes(size, room) : room;
    const uint64_t begin =
        b.device ? b.device->address() + offset : reinterpret_cast<uint64_t>(b.host_output.data());
    const BoundIo::Extent extent{begin, begin + used, written, &b};
    if (extent.begin < extent.end) (b.device ? device : host).push_back(extent);
  };
  for (size_t o = 0; o < bound.outputs.size(); ++o)
    if (bound.outputs[o]) add(*bound.outputs[o], output_sizes_[o], true);
  if (device.empty() && host.size() < 2) return {};
  if (!device.empty()) {
    for (size_t i = 0; i < bound.inputs.size(); ++i) add(*bound.inputs[i], input_sizes_[i], false);
  }
  RP_TRY(check_disjoint(device));
  return check_disjoint(host);
}

Status IoBinder::bind_symbols(std::span<const int64_t> lengths, BoundIo& bound) const {
  if (bound.has_symbols_ && same_dims(bound.dims_, bound.dims_of_symbols_) &&
      std::ranges::equal(lengths, bound.lengths_))
    return {};
  bound.has_symbols_ = false;
  bound.lengths_.assign(lengths.begin(), lengths.end());
  bound.dims_of_symbols_.clear();
  RP_TRY(plan::bind_symbols(io_, bound.dims_, lengths, bound.symbols));
  for (const auto& d : bound.dims_) {
    bound.dims_of_symbols_.push_back(static_cast<int64_t>(d.size()));
    bound.dims_of_symbols_.insert(bound.dims_of_symbols_.end(), d.begin(), d.end());
  }
  bound.has_symbols_ = true;
  return {};
}

Status IoBinder::load_defaults(const package::Package& package) {
  default_values_.assign(io_.inputs.size(), std::nullopt);
  defaults_.assign(io_.inputs.size(), {});
  for (size_t i = 0; i < io_.inputs.size(); ++i) {
    const plan::Slot& slot = io_.inputs[i];
    if (slot.initial == plan::Slot::kNone) continue;
    auto value = package::load_weight(package, slot.initial);
    if (!value.ok())
      return value.status().with_context("input '" + slot.name + "': the value of the model");
    default_values_[i] = *std::move(value);
    defaults_[i].name = slot.name;
    defaults_[i].host = &*default_values_[i];
  }
  return {};
}

Status IoBinder::add_input(size_t i, const Device* device, BoundIo& bound) const {
  const plan::Slot& slot = io_.inputs[i];
  const Binding* given = bound.inputs[i];
  const bool left_out = !given || (!given->host && !given->device && !given->image);
  if (left_out && i < defaults_.size() && defaults_[i].host) bound.inputs[i] = &defaults_[i];
  if (!bound.inputs[i]) {
    return invalid_input("input '" + slot.name + "' (" + std::string(name_of(slot.dtype)) + " " +
                         shape_str(slot.shape, io_.symbols) + ") is missing");
  }
  RP_TRY(check_input(slot, *bound.inputs[i], device));
  const DeviceImage* image = bound.inputs[i]->image;
  bound.dims_.push_back(image ? dims_of(slot, *image, bound.image_dims_[i])
                              : dims_for(slot, *bound.inputs[i]));
  return {};
}

Status IoBinder::bind(std::span<const Binding> inputs, std::span<const Binding> outputs,
                      const Device* device, BoundIo& bound) const {
  static std::atomic<uint64_t> bindings = 0;
  bound.binding = ++bindings;
  RP_TRY(place(inputs, true, bound.inputs));
  RP_TRY(place(outputs, false, bound.outputs));
  bound.dims_.clear();
  bound.image_dims_.resize(io_.inputs.size());
  for (size_t i = 0; i < io_.inputs.size(); ++i) RP_TRY(add_input(i, device, bound));
  for (size_t o = 0; o < io_.outputs.size(); ++o) {
    const Binding* b = bound.outputs[o];
    if (b) RP_TRY(check_output(io_.outputs[o], *b, device));
  }
  RP_TRY(check_shared_images(bound.inputs, bound.outputs));
  if (grows_) return {};
  RP_TRY(bind_symbols({}, bound));
  return check_overlaps(bound);
}

Status IoBinder::bind_lengths(std::span<const int64_t> lengths, BoundIo& bound) const {
  if (!grows_) return {};
  RP_TRY(bind_symbols(lengths, bound));
  return check_overlaps(bound);
}

Status check_room(const Binding& b, uint64_t bytes, const char* what) {
  uint64_t room = b.host_output.size();
  if (b.device) room = b.device->size() - std::min(b.device_offset, b.device->size());
  if (bytes <= room) return {};
  return invalid_input(std::string(what) + " '" + b.name + "' needs " + std::to_string(bytes) +
                       " bytes, the memory bound to it has " + std::to_string(room));
}

Rows rows_of(std::span<const int64_t> dims, DType dtype, uint64_t pitch) {
  Rows rows;
  if (dims.empty()) return rows;
  rows.count = static_cast<uint64_t>(dims[0]);
  rows.bytes = size_of(dtype);
  for (const int64_t d : dims.subspan(1)) rows.bytes *= static_cast<uint64_t>(d);
  rows.pitch = pitch == 0 ? rows.bytes : pitch;
  return rows;
}

Status check_pitch(const char* subject, const std::string& name, const Rows& rows) {
  if (rows.pitch > kMostPitch) return pitch_too_large(subject, name, rows.pitch);
  if (rows.count == 0) return {};
  if (rows.pitch < rows.bytes) {
    return invalid_input(std::string(subject) + " '" + name + "' has a row pitch of " +
                         std::to_string(rows.pitch) + " bytes, but its rows have " +
                         std::to_string(rows.bytes));
  }
  if (rows.count - 1 <= (UINT64_MAX - rows.bytes) / std::max(rows.pitch, uint64_t{1})) return {};
  return invalid_input(std::string(subject) + " '" + name + "' has " + std::to_string(rows.count) +
                       " rows at a pitch of " + std::to_string(rows.pitch) +
                       " bytes, which is more than any memory has");
}

Status check_rows(const Binding& b, const Rows& rows, uint64_t bytes) {
  if (b.row_pitch == 0) return check_room(b, bytes, "output");
  RP_TRY(check_pitch("output", b.name, rows));
  return check_room(b, rows.extent(), "output");
}

void pack_rows(const Rows& rows, const std::byte* from, std::byte* dense) {
  for (uint64_t i = 0; i < rows.count && rows.bytes > 0; ++i)
    std::memcpy(dense + i * rows.bytes, from + i * rows.pitch, rows.bytes);
}

void unpack_rows(const Rows& rows, const std::byte* dense, std::byte* to) {
  for (uint64_t i = 0; i < rows.count && rows.bytes > 0; ++i)
    std::memcpy(to + i * rows.pitch, dense + i * rows.bytes, rows.bytes);
}

HostTensor dense_tensor(const Binding& b, size_t rank) {
  HostTensor t = without_pitch(b);
  return t.dims().size() == rank ? t : t.reshaped({});
}

}  // namespace reprise
