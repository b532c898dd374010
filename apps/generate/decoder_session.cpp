#include "apps/generate/decoder_session.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace reprise::app {

namespace {

/// The name of the output that continues a cache: "past" becomes "present".
std::vector<std::string> present_names(const std::string& past) {
  std::vector<std::string> out;
  for (const std::string_view from : {"past_key_values", "past"}) {
    const size_t at = past.find(from);
    if (at == std::string::npos) continue;
    for (const std::string_view to : {"present", "present_key_values"})
      out.push_back(std::string(past).replace(at, from.size(), to));
  }
  return out;
}

const plan::Slot* find_slot(const std::vector<plan::Slot>& slots, const std::string& name) {
  const auto at = std::ranges::find(slots, name, &plan::Slot::name);
  return at == slots.end() ? nullptr : &*at;
}

/// The sizes of a slot, of which the batch is 1. -1 for those that vary.
std::vector<int64_t> sizes_of(const plan::Slot& slot) {
  std::vector<int64_t> dims;
  dims.reserve(slot.shape.size());
  for (const Expr& e : slot.shape) dims.push_back(e.is_const() ? e.value() : -1);
  if (!dims.empty() && dims[0] == -1) dims[0] = 1;
  return dims;
}

Result<std::optional<CachePair>> cache_of(const plan::Interface& io, const plan::Slot& past) {
  if (past.name.find("past") == std::string::npos) return std::optional<CachePair>();
  CachePair pair;
  pair.past = past.name;
  pair.dtype = past.dtype;
  for (const std::string& name : present_names(past.name)) {
    if (pair.present.empty() && find_slot(io.outputs, name) != nullptr) pair.present = name;
  }
  if (pair.present.empty())
    return Status(Code::Unsupported,
                  "the cache '" + past.name + "' has no output that continues it");
  pair.dims = sizes_of(past);
  if (std::ranges::count(pair.dims, -1) != 1)
    return Status(Code::Unsupported,
                  "the cache '" + past.name + "' must have one size that varies, its length");
  pair.axis = static_cast<size_t>(std::ranges::find(pair.dims, -1) - pair.dims.begin());
  return std::optional(std::move(pair));
}

Status read_logits(const plan::Interface& io, DecoderInterface& out) {
  const plan::Slot* logits = find_slot(io.outputs, "logits");
  if (logits == nullptr && !io.outputs.empty()) logits = io.outputs.data();
  if (logits == nullptr || logits->shape.size() != 3 || !logits->shape[2].is_const() ||
      (logits->dtype != DType::F32 && logits->dtype != DType::F16 && logits->dtype != DType::BF16))
    return {Code::Unsupported,
            "the model has no output 'logits' of floats [batch, positions, vocabulary]"};
  out.logits = logits->name;
  out.logits_type = logits->dtype;
  out.vocabulary = logits->shape[2].value();
  out.all_logits = !logits->shape[1].is_const(1);
  return {};
}

/// The bytes of a position of a cache.
uint64_t row_bytes(const CachePair& c) {
  uint64_t bytes = size_of(c.dtype);
  for (const int64_t d : c.dims) bytes *= d < 0 ? 1 : static_cast<uint64_t>(d);
  return bytes;
}

std::vector<int64_t> dims_at(const CachePair& c, int64_t length) {
  std::vector<int64_t> dims = c.dims;
  dims[c.axis] = length;
  return dims;
}

/// Integers [1, count] from `first` on, each `step` more than the one before.
HostTensor integers(DType dtype, int64_t count, int64_t first, int64_t step) {
  HostTensor t(dtype, {1, count});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t v = first + i * step;
    if (dtype == DType::I32)
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(v);
    else
      t.mutable_data<int64_t>()[i] = v;
  }
  return t;
}

}  // namespace

Result<DecoderInterface> decoder_interface(const plan::Interface& io) {
  DecoderInterface out;
  for (const plan::Slot& slot : io.inputs) {
    RP_ASSIGN(std::optional<CachePair> cache, cache_of(io, slot));
    if (cache) {
      out.caches.push_back(*std::move(cache));
      continue;
    }
    const bool integers = slot.dtype == DType::I64 || slot.dtype == DType::I32;
    const bool matrix = integers && slot.shape.size() == 2;
    if (slot.name == "input_ids" && matrix) {
      out.ids = slot.name;
      out.ids_type = slot.dtype;
    } else if (slot.name == "attention_mask" && matrix) {
      out.mask = slot.name;
      out.mask_type = slot.dtype;
    } else if (slot.name == "position_ids" && matrix) {
      out.positions = slot.name;
      out.positions_type = slot.dtype;
    } else {
      return Status(Code::Unsupported,
                    "the input '" + slot.name +
                        "' is none that a language model has: input_ids, attention_mask, "
                        "position_ids and caches whose names contain 'past'");
    }
  }
  if (out.ids.empty()) return Status(Code::Unsupported, "the model has no input 'input_ids'");
  RP_TRY(read_logits(io, out));
  return out;
}

Result<std::unique_ptr<DecoderSession>> DecoderSession::create(std::shared_ptr<Session> prefill,
                                                               std::shared_ptr<Session> step,
                                                               int64_t capacity) {
  if (capacity < 1) return Status(Code::Usage, "the capacity must be at least 1");
  std::unique_ptr<DecoderSession> out(new DecoderSession());
  RP_ASSIGN(out->prefill_io_, decoder_interface(prefill->io()));
  RP_ASSIGN(out->step_io_, decoder_interface(step->io()));
  out->prefill_ = std::move(prefill);
  out->step_ = std::move(step);
  out->capacity_ = capacity;
  RP_TRY(out->allocate_caches());
  return out;
}

Status DecoderSession::allocate_caches() {
  Device* device = prefill_->device();
  for (const CachePair& c : prefill_io_.caches) {
    if (device == nullptr) {
      host_past_.emplace_back(c.dtype, dims_at(c, 0));
      continue;
    }
    const uint64_t bytes = row_bytes(c) * static_cast<uint64_t>(capacity_);
    RP_ASSIGN(past_.emplace_back(), device->allocate_or_free_idle(bytes, MemoryUse::Device));
    RP_ASSIGN(present_.emplace_back(), device->allocate_or_free_idle(bytes, MemoryUse::Device));
    cache_bytes_ += 2 * bytes;
  }
  return {};
}

void DecoderSession::make_inputs(const DecoderInterface& io, std::span<const int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  ids_ = HostTensor(io.ids_type, {1, count});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (io.ids_type == DType::I32)
      ids_.mutable_data<int32_t>()[i] = static_cast<int32_t>(ids[i]);
    else
      ids_.mutable_data<int64_t>()[i] = ids[i];
  }
  if (!io.mask.empty()) mask_ = integers(io.mask_type, length_ + count, 1, 0);
  if (!io.positions.empty()) positions_ = integers(io.positions_type, count, length_, 1);
}

Status DecoderSession::bind(const DecoderInterface& io, int64_t count) {
  inputs_.clear();
  outputs_.clear();
  const auto input = [&](const std::string& name, const HostTensor& t) {
    if (name.empty()) return;
    inputs_.emplace_back().name = name;
    inputs_.back().host = &t;
  };
  input(io.ids, ids_);
  input(io.mask, mask_);
  input(io.positions, positions_);
  for (size_t i = 0; i < io.caches.size(); ++i) {
    const CachePair& c = io.caches[i];
    if (!host_past_.empty()) {
      input(c.past, host_past_[i]);
      continue;
    }
    Binding& past = inputs_.emplace_back();
    past.name = c.past;
    past.device = past_[i].get();
    past.dims = dims_at(c, length_);
    past.dtype = c.dtype;
    Binding& present = outputs_.emplace_back();
    present.name = c.present;
    present.device = present_[i].get();
  }
  const auto rows = static_cast<size_t>(io.all_logits ? count : 1);
  logits_bytes_.resize(rows * static_cast<size_t>(io.vocabulary) * size_of(io.logits_type));
  Binding& logits = outputs_.emplace_back();
  logits.name = io.logits;
  logits.host_output = logits_bytes_;
  return {};
}

std::span<const float> DecoderSession::last_logits(const DecoderInterface& io, int64_t count) {
  const auto vocabulary = static_cast<size_t>(io.vocabulary);
  const size_t first = io.all_logits ? static_cast<size_t>(count - 1) * vocabulary : 0;
  logits_.resize(vocabulary);
  const std::byte* at = logits_bytes_.data() + first * size_of(io.logits_type);
  if (io.logits_type == DType::F32) {
    std::memcpy(logits_.data(), at, vocabulary * sizeof(float));
    return logits_;
  }
  for (size_t i = 0; i < vocabulary; ++i) {
    uint16_t bits;
    std::memcpy(&bits, at + i * 2, 2);
    logits_[i] = io.logits_type == DType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  return logits_;
}

Result<std::span<const float>> DecoderSession::advance(std::span<const int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  if (count == 0) return Status(Code::Usage, "there are no ids");
  if (count > capacity_ - length_)
    return Status(Code::InvalidInput, std::to_string(length_ + count) +
                                          " positions exceed the capacity of " +
                                          std::to_string(capacity_) + "; raise --capacity");
  for (const int64_t id : ids) {
    if (id >= 0 && id < vocabulary()) continue;
    return Status(Code::InvalidInput, "the id " + std::to_string(id) + " is none of the " +
                                          std::to_string(vocabulary()) + " of the model");
  }
  Session& session = count == 1 ? *step_ : *prefill_;
  const DecoderInterface& io = count == 1 ? step_io_ : prefill_io_;
  make_inputs(io, ids);
  RP_TRY(bind(io, count));
  RunStats stats;
  RP_TRY(session.run_into(inputs_, outputs_, results_, &stats));
  copied_ = stats.bytes_copied;
  length_ += count;
  if (host_past_.empty()) {
    past_.swap(present_);
  } else {
    for (size_t i = 0; i < io.caches.size(); ++i) {
      const auto& outputs = session.io().outputs;
      const auto at = std::ranges::find(outputs, io.caches[i].present, &plan::Slot::name);
      host_past_[i] = results_[static_cast<size_t>(at - outputs.begin())];
    }
  }
  return last_logits(io, count);
}

DecoderStats DecoderSession::stats() const {
  const auto add = [](DecoderStats& to, const SessionStats& s) {
    to.submits += s.submits;
    to.dispatches += s.dispatches;
    to.device_bytes += s.device_bytes;
  };
  DecoderStats out;
  out.device_bytes = cache_bytes_;
  add(out, prefill_->stats());
  if (step_ != prefill_) add(out, step_->stats());
  return out;
}

}  // namespace reprise::app
