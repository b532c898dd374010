#include "runtime/run/row_memory.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/bind.h"

namespace reprise {
namespace {

constexpr int64_t kPage = 256;          // rows
constexpr uint64_t kRowAlignment = 16;  // what kernels rely on

/// A tensor [outer, rows, inner].
struct Blocks {
  uint64_t outer = 1, rows = 1, inner = 1;  // inner: bytes

  Blocks(std::span<const int64_t> dims, int32_t axis, DType dtype) : inner(size_of(dtype)) {
    for (size_t a = 0; a < dims.size(); ++a) {
      const auto n = static_cast<uint64_t>(dims[a]);
      const auto at = static_cast<int32_t>(a);
      (at < axis ? outer : at == axis ? rows : inner) *= n;
    }
  }
  /// Calls f(at in [outer, length, inner], at in [outer, rows, inner], at in [rows, outer, inner])
  /// for each block of the first `length` rows.
  template <typename F>
  void for_each(uint64_t length, F&& f) const {
    for (uint64_t o = 0; o < outer && inner > 0; ++o)
      for (uint64_t r = 0; r < length; ++r)
        f((o * length + r) * inner, (o * rows + r) * inner, (r * outer + o) * inner);
  }
};

std::string count_of(int64_t rows) {
  return std::to_string(rows) + (rows == 1 ? " row" : " rows");
}

}  // namespace

Status check_reserve(const std::string& name, const StateRows& rows, int64_t wanted) {
  if (wanted >= 0 && wanted <= rows.limit) return {};
  return {Code::Usage, "state '" + name + "' may have 0 to " + std::to_string(rows.limit) +
                           " rows, not " + std::to_string(wanted)};
}

Status check_change(const std::string& name, const StateRows& rows, RowChange change,
                    int64_t wanted) {
  const std::string has = "state '" + name + "' has " + count_of(rows.length) + ", ";
  if (change == RowChange::Truncate && (wanted < 0 || wanted > rows.length))
    return {Code::Usage, has + "so that it cannot be truncated to " + std::to_string(wanted)};
  if (change == RowChange::Limit && wanted < rows.length)
    return {Code::Usage,
            has + "more than the limit of " + std::to_string(wanted) + "; truncate it first"};
  return change == RowChange::Reserve ? check_reserve(name, rows, wanted) : Status();
}

Status check_rows(const plan::StateSlot& slot, const StateRows& rows, std::span<const int64_t> dims,
                  int64_t length) {
  const int64_t before = dims[static_cast<size_t>(slot.axis)];
  const auto subject = [&] { return "state '" + slot.name + "' "; };
  if (before != rows.length)
    return {Code::Usage, subject() + "has " + count_of(rows.length) +
                             ", and another of the same length " + std::to_string(before) +
                             "; truncate both to the same length"};
  if (length < before)
    return invalid_input(subject() + "would shrink from " + count_of(before) + " to " +
                         std::to_string(length));
  if (length > rows.limit)
    return invalid_input(subject() + "would have " + count_of(length) +
                         " after the run, and its limit is " + std::to_string(rows.limit) +
                         "; truncate it, or set another limit");
  if (before == 0 || std::ranges::equal(dims, rows.dims)) return {};
  return invalid_input(subject() + "has the value " + describe(slot.dtype, rows.dims) +
                       ", but the inputs need " + describe(slot.dtype, dims) +
                       "; pass inputs of the same sizes, or truncate it to 0 rows");
}

HostTensor first_rows(const HostTensor& value, int32_t axis, int64_t length) {
  std::vector<int64_t> dims = value.dims();
  const Blocks blocks(dims, axis, value.dtype());
  dims[static_cast<size_t>(axis)] = length;
  HostTensor out(value.dtype(), std::move(dims));
  blocks.for_each(static_cast<uint64_t>(length), [&](uint64_t to, uint64_t from, uint64_t) {
    std::memcpy(out.mutable_bytes().data() + to, value.bytes().data() + from, blocks.inner);
  });
  return out;
}

RowMemory::RowMemory(Device& device, const plan::StateSlot& slot) : device_(&device), slot_(&slot) {
  for (const Expr& e : slot.shape) rows_.dims.push_back(e.is_const() ? e.value() : 0);
  rows_.dims[static_cast<size_t>(slot.axis)] = 1;
  set_dims(rows_.dims);
  set_length(0);
}

void RowMemory::set_dims(std::span<const int64_t> dims) {
  rows_.dims.assign(dims.begin(), dims.end());
  const Blocks blocks(dims, slot_->axis, slot_->dtype);
  row_bytes_ = blocks.outer * blocks.inner;
  rows_.capacity = row_bytes_ == 0 ? 0 : static_cast<int64_t>(bytes() / row_bytes_);
}

void RowMemory::set_length(int64_t length) {
  rows_.length = length;
  rows_.dims[static_cast<size_t>(slot_->axis)] = length;
}

Status RowMemory::begin(std::span<const int64_t> dims, int64_t length) {
  RP_TRY(check_rows(*slot_, rows_, dims, length));
  if (rows_.length == 0) set_dims(dims);
  if (row_bytes_ % kRowAlignment != 0)
    return invalid_model("state '" + slot_->name + "' has rows of " + std::to_string(row_bytes_) +
                         " bytes, which is no multiple of 16");
  next_ = length;
  const bool stays = length == rows_.length || claim(rows_.length);
  return grow(std::max(length, std::min(reserved_, rows_.limit)), length, stays);
}

/// Whether this state may write rows from here on, behind which only its own are then.
bool RowMemory::claim(int64_t from) const {
  if (!memory_) return true;
  const std::lock_guard lock(memory_->mutex);
  if (!is_shared()) memory_->kept = 0;
  const bool free = memory_->last == nullptr || memory_->last == this;
  if (is_shared() && (from < memory_->kept || !free)) return false;
  memory_->last = this;
  return true;
}

std::unique_ptr<RowMemory> RowMemory::fork(int64_t length) const {
  auto out = std::make_unique<RowMemory>(*device_, *slot_);
  out->rows_.limit = rows_.limit;
  out->reserved_ = reserved_;
  if (length == 0 || !memory_) return out;
  out->memory_ = memory_;
  out->set_dims(rows_.dims);
  out->set_length(length);
  const std::lock_guard lock(memory_->mutex);
  memory_->kept = std::max(memory_->kept, length);
  if (memory_->last == this && rows_.length <= memory_->kept) memory_->last = nullptr;
  return out;
}

void RowMemory::leave() {
  if (!memory_) return;
  const std::lock_guard lock(memory_->mutex);
  if (memory_->last == this) memory_->last = nullptr;
}

void RowMemory::replace(std::unique_ptr<DeviceBuffer> buffer) {
  auto memory = std::make_shared<SharedRows>();
  memory->buffer = std::move(buffer);
  memory->last = this;
  leave();
  memory_ = std::move(memory);
}

/// Memory for at least `at_least` rows of so many bytes; for `rows` of them, and more, if there is
/// enough. Null if the rows can stay in the present memory and that suffices.
Result<std::unique_ptr<DeviceBuffer>> RowMemory::larger(uint64_t row_bytes, int64_t rows,
                                                        int64_t at_least, bool stays) const {
  stays = stays && memory_;
  const int64_t capacity = row_bytes == 0 || !stays ? 0 : static_cast<int64_t>(bytes() / row_bytes);
  if (stays && (rows <= capacity || row_bytes == 0)) return std::unique_ptr<DeviceBuffer>();
  const std::string what =
      "memory for " + count_of(at_least) + " of the state '" + slot_->name + "'";
  const auto most =
      static_cast<int64_t>(std::min<uint64_t>(device_->info().facts.max_buffer_bytes, INT64_MAX) /
                           std::max<uint64_t>(row_bytes, 1));
  if (at_least > most)
    return Status(Code::OutOfMemory, what + ": a buffer of the device can have " + count_of(most));
  if (rows > most) rows = at_least;  // a reservation for which no device memory suffices
  const int64_t bound = std::min(most, rows_.limit);
  int64_t wanted = std::min(std::max(rows, capacity + capacity / 2), bound);
  wanted += std::min(bound - wanted, (kPage - wanted % kPage) % kPage);
  const auto allocate = [&](int64_t n) {
    return device_->allocate_or_free_idle(
        plan::readable_bytes(static_cast<uint64_t>(n) * row_bytes), MemoryUse::Device);
  };
  auto made = allocate(wanted);
  if (!made.ok() && made.status().code() == Code::OutOfMemory && at_least < wanted) {
    if (at_least <= capacity && stays) return std::unique_ptr<DeviceBuffer>();
    made = allocate(at_least);
  }
  if (!made.ok()) return made.status().with_context(what);
  return made;
}

Status RowMemory::grow(int64_t rows, int64_t at_least, bool stays) {
  RP_ASSIGN(auto made, larger(row_bytes_, rows, at_least, stays));
  if (!made) return {};
  if (rows_.length > 0) RP_TRY(move_to(*made));
  replace(std::move(made));
  rows_.capacity = row_bytes_ == 0 ? 0 : static_cast<int64_t>(bytes() / row_bytes_);
  return {};
}

/// Copies the valid rows on the device.
Status RowMemory::move_to(DeviceBuffer& buffer) const {
  constexpr uint64_t kTimeout = 60'000'000'000;
  RP_ASSIGN(const auto blocks, device_->allocate(16, MemoryUse::Upload));
  RecordingDesc desc;
  desc.blocks = blocks.get();
  desc.once = true;
  Command& copy = desc.commands.emplace_back();
  copy.kind = Command::Kind::Copy;
  copy.src = memory_->buffer.get();
  copy.dst = &buffer;
  copy.bytes = end();
  RP_ASSIGN(const auto recording, device_->record(std::move(desc)));
  RP_TRY(recording->submit());
  return recording->wait(kTimeout);
}

Status RowMemory::change(RowChange change, int64_t rows) {
  RP_TRY(check_change(slot_->name, rows_, change, rows));
  if (change == RowChange::Truncate) set_length(rows);
  if (change == RowChange::Limit) rows_.limit = rows;
  if (change == RowChange::Reserve) {
    if (row_bytes_ > 0) RP_TRY(grow(rows, rows, true));
    reserved_ = rows;
  }
  return {};
}

Result<HostTensor> RowMemory::read() const {
  HostTensor value(slot_->dtype, rows_.dims), dense(slot_->dtype, rows_.dims);
  if (dense.bytes().empty()) return value;
  RP_TRY(device_->download(*memory_->buffer, 0, dense.mutable_bytes()));
  const Blocks blocks(rows_.dims, slot_->axis, slot_->dtype);
  blocks.for_each(blocks.rows, [&](uint64_t to, uint64_t, uint64_t from) {
    std::memcpy(value.mutable_bytes().data() + to, dense.bytes().data() + from, blocks.inner);
  });
  return value;
}

Result<RowMemory::Rewrite> RowMemory::prepare(const HostTensor& value) const {
  const int64_t length = value.dims()[static_cast<size_t>(slot_->axis)];
  RP_TRY(check_reserve(slot_->name, rows_, length));
  const Blocks blocks(value.dims(), slot_->axis, slot_->dtype);
  Rewrite out;
  out.dense = HostTensor(slot_->dtype, value.dims());
  blocks.for_each(blocks.rows, [&](uint64_t from, uint64_t, uint64_t to) {
    std::memcpy(out.dense.mutable_bytes().data() + to, value.bytes().data() + from, blocks.inner);
  });
  if (length == 0) return out;
  RP_ASSIGN(out.larger, larger(blocks.outer * blocks.inner, length, length, !is_shared()));
  return out;
}

Status RowMemory::write(Rewrite rewrite) {
  const std::vector<int64_t>& dims = rewrite.dense.dims();
  DeviceBuffer* const to = rewrite.larger ? rewrite.larger.get() : buffer();
  Status done;
  if (!rewrite.dense.bytes().empty()) {
    if (!rewrite.larger) claim(0);  // nobody else has the memory
    done = device_->upload(*to, 0, rewrite.dense.bytes());
  }
  if (done.ok()) {
    if (rewrite.larger) replace(std::move(rewrite.larger));
    const int64_t length = dims[static_cast<size_t>(slot_->axis)];
    if (length > 0) set_dims(dims);
    set_length(length);
  } else if (!rewrite.larger) {
    set_length(0);  // some of the old rows may be gone
  }
  return done;
}

}  // namespace reprise
