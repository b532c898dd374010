#include "apps/generate/decoder_session.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace reprise::app {

namespace {

constexpr const char* kSampledIds = "sampled_ids";
constexpr std::string_view kSamplingPrefix = "sampling.";
constexpr int64_t kMostOnes = int64_t{1} << 26;  // of a mask, in memory on the device
constexpr uint64_t kPlace = 16;                  // bytes, to which bindings are aligned

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

Status read_result(const plan::Interface& io, DecoderInterface& out) {
  const plan::Slot* sampled = find_slot(io.outputs, kSampledIds);
  if (sampled != nullptr) {
    out.sampled = sampled->name;
    out.sampled_type = sampled->dtype;
    return {};
  }
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

/// Notes an input that is no cache.
Status read_input(const plan::Slot& slot, DecoderInterface& out) {
  if (slot.name.starts_with(kSamplingPrefix)) return {};  // the package has values for them
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
    return {Code::Unsupported,
            "the input '" + slot.name +
                "' is none that a language model has: input_ids, attention_mask, "
                "position_ids and caches whose names contain 'past'"};
  }
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
    RP_TRY(read_input(slot, out));
  }
  if (out.ids.empty()) return Status(Code::Unsupported, "the model has no input 'input_ids'");
  out.grows = std::ranges::any_of(io.states, [](const auto& state) { return state.grows(); });
  RP_TRY(read_result(io, out));
  return out;
}

Result<std::unique_ptr<DecoderSession>> DecoderSession::create(std::unique_ptr<Session> session,
                                                               int64_t capacity,
                                                               int64_t vocabulary) {
  if (capacity < 1) return Status(Code::Usage, "the capacity must be at least 1");
  std::unique_ptr<DecoderSession> out(new DecoderSession());
  RP_ASSIGN(out->io_, decoder_interface(session->io()));
  if (out->io_.vocabulary == 0) out->io_.vocabulary = vocabulary;
  out->session_ = std::move(session);
  out->capacity_ = capacity;
  RP_TRY(out->prepare());
  return out;
}

Status DecoderSession::prepare() {
  if (io_.grows) {
    RP_TRY(session_->limit_states("", capacity_));
    RP_TRY(session_->reserve_states("", capacity_));
  }
  RP_TRY(allocate_caches());
  return session_->device() == nullptr ? Status() : allocate_inputs();
}

Status DecoderSession::allocate_caches() {
  Device* device = session_->device();
  for (const CachePair& c : io_.caches) {
    if (device == nullptr) {
      host_past_.emplace_back(c.dtype, dims_at(c, 0));
      continue;
    }
    const uint64_t bytes = row_bytes(c) * static_cast<uint64_t>(capacity_);
    RP_ASSIGN(past_.emplace_back(), device->allocate_or_free_idle(bytes, MemoryUse::Device));
    RP_ASSIGN(present_.emplace_back(), device->allocate_or_free_idle(bytes, MemoryUse::Device));
    own_bytes_ += 2 * bytes;
  }
  return {};
}

Status DecoderSession::allocate_inputs() {
  Device& device = *session_->device();
  if (samples()) {
    RP_ASSIGN(sampled_, device.allocate_or_free_idle(2 * kPlace, MemoryUse::Readback));
    own_bytes_ += 2 * kPlace;
  }
  if (io_.mask.empty()) return {};
  if (capacity_ > kMostOnes)
    return {Code::Usage,
            "a capacity of " + std::to_string(capacity_) +
                " positions is more than this program takes: " + std::to_string(kMostOnes)};
  const HostTensor ones = integers(io_.mask_type, capacity_, 1, 0);
  RP_ASSIGN(ones_, device.allocate_or_free_idle(ones.bytes().size(), MemoryUse::Device));
  own_bytes_ += ones.bytes().size();
  return device.upload(*ones_, 0, ones.bytes());
}

Status DecoderSession::set_sampling(const SamplingOptions& o) {
  if (!samples()) return {Code::Usage, "the package does not sample"};
  sampling_.clear();
  const auto top_k = static_cast<int32_t>(std::min<int64_t>(o.top_k, INT32_MAX));
  const auto seed = static_cast<int32_t>(static_cast<uint32_t>(o.seed ^ (o.seed >> 32U)));
  const auto add = [&](DType type, const auto& value) {
    sampling_.push_back(HostTensor::from(type, {1}, std::vector{value}));
  };
  add(DType::F32, static_cast<float>(o.temperature));
  add(DType::I32, top_k);
  add(DType::F32, static_cast<float>(o.top_p));
  add(DType::I32, seed);
  Device* device = session_->device();
  if (device == nullptr) return {};
  if (!numbers_) {
    RP_ASSIGN(numbers_,
              device->allocate_or_free_idle(sampling_.size() * kPlace, MemoryUse::Device));
    own_bytes_ += sampling_.size() * kPlace;
  }
  for (size_t i = 0; i < sampling_.size(); ++i)
    RP_TRY(device->upload(*numbers_, i * kPlace, sampling_[i].bytes()));
  return {};
}

Status DecoderSession::truncate(int64_t length) {
  if (length < 0 || length > length_)
    return {Code::Usage,
            "there are " + std::to_string(length_) + " positions, not " + std::to_string(length)};
  if (io_.grows) {
    RP_TRY(session_->truncate_states("", length));
  } else if (length == 0) {
    return restart();
  } else if (!io_.caches.empty()) {
    return {Code::Unsupported,
            "the caches of this package are no states that grow, so they cannot be cut"};
  }
  length_ = length;
  last_sampled_ = -1;
  return {};
}

Status DecoderSession::restart() {
  if (!session_->io().states.empty()) RP_TRY(session_->reset_states());
  for (size_t i = 0; i < host_past_.size(); ++i)
    host_past_[i] = HostTensor(io_.caches[i].dtype, dims_at(io_.caches[i], 0));
  length_ = 0;
  last_sampled_ = -1;
  return {};
}

Result<KeptCaches> DecoderSession::keep() {
  if (!io_.grows)
    return Status(Code::Unsupported,
                  "the caches of this package are no states that grow, so they cannot be kept");
  KeptCaches out;
  out.length = length_;
  for (const plan::StateSlot& state : session_->io().states) {
    if (!state.grows()) continue;
    RP_ASSIGN(out.values.emplace_back(), session_->read_state(state.name));
  }
  return out;
}

Status DecoderSession::restore(const KeptCaches& kept) {
  RP_TRY(restart());
  size_t next = 0;
  Status written;
  for (const plan::StateSlot& state : session_->io().states) {
    if (!state.grows() || !written.ok()) continue;
    written = next == kept.values.size() ? Status(Code::Usage, "the caches are of another model")
                                         : session_->write_state(state.name, kept.values[next++]);
  }
  if (!written.ok()) {
    RP_TRY(restart());
    return written;
  }
  length_ = kept.length;
  return {};
}

void DecoderSession::make_inputs(std::span<const int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  ids_ = HostTensor(io_.ids_type, {1, count});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (io_.ids_type == DType::I32)
      ids_.mutable_data<int32_t>()[i] = static_cast<int32_t>(ids[i]);
    else
      ids_.mutable_data<int64_t>()[i] = ids[i];
  }
  if (!io_.mask.empty() && !ones_) mask_ = integers(io_.mask_type, length_ + count, 1, 0);
  if (!io_.positions.empty()) positions_ = integers(io_.positions_type, count, length_, 1);
}

void DecoderSession::bind_host(const std::string& name, const HostTensor& t) {
  if (name.empty()) return;
  Binding& b = inputs_.emplace_back();
  b.name = name;
  b.host = &t;
}

void DecoderSession::bind_caches() {
  for (size_t i = 0; i < io_.caches.size(); ++i) {
    const CachePair& c = io_.caches[i];
    if (!host_past_.empty()) {
      bind_host(c.past, host_past_[i]);
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
}

void DecoderSession::bind_inputs(std::span<const int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  if (sampled_ && count == 1 && ids[0] == last_sampled_ && io_.ids_type == io_.sampled_type) {
    Binding& b = inputs_.emplace_back();
    b.name = io_.ids;
    b.device = sampled_.get();
    b.device_offset = second_place_ ? kPlace : 0;
    b.dims = {1, 1};
  } else {
    bind_host(io_.ids, ids_);
  }
  bind_host(io_.positions, positions_);
  if (ones_) {
    Binding& b = inputs_.emplace_back();
    b.name = io_.mask;
    b.device = ones_.get();
    b.dims = {1, length_ + count};
  } else {
    bind_host(io_.mask, mask_);
  }
  constexpr const char* kNumbers[] = {"sampling.temperature", "sampling.top_k", "sampling.top_p",
                                      "sampling.seed"};
  for (size_t i = 0; i < sampling_.size(); ++i) {
    if (!numbers_) {
      bind_host(kNumbers[i], sampling_[i]);
      continue;
    }
    Binding& b = inputs_.emplace_back();
    b.name = kNumbers[i];
    b.device = numbers_.get();
    b.device_offset = i * kPlace;
    b.dims = {1};
  }
}

void DecoderSession::bind_result(int64_t count) {
  if (sampled_) {
    Binding& b = outputs_.emplace_back();
    b.name = io_.sampled;
    b.device = sampled_.get();
    b.device_offset = second_place_ ? 0 : kPlace;
    return;
  }
  if (samples()) return;  // on the host
  const auto rows = static_cast<size_t>(io_.all_logits ? count : 1);
  logits_bytes_.resize(rows * static_cast<size_t>(io_.vocabulary) * size_of(io_.logits_type));
  Binding& logits = outputs_.emplace_back();
  logits.name = io_.logits;
  logits.host_output = logits_bytes_;
}

std::span<const float> DecoderSession::last_logits(int64_t count) {
  const auto vocabulary = static_cast<size_t>(io_.vocabulary);
  const size_t first = io_.all_logits ? static_cast<size_t>(count - 1) * vocabulary : 0;
  logits_.resize(vocabulary);
  const std::byte* at = logits_bytes_.data() + first * size_of(io_.logits_type);
  if (io_.logits_type == DType::F32) {
    std::memcpy(logits_.data(), at, vocabulary * sizeof(float));
    return logits_;
  }
  for (size_t i = 0; i < vocabulary; ++i) {
    uint16_t bits;
    std::memcpy(&bits, at + i * 2, 2);
    logits_[i] = io_.logits_type == DType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  return logits_;
}

Status DecoderSession::check(std::span<const int64_t> ids) const {
  const auto count = static_cast<int64_t>(ids.size());
  if (count == 0) return {Code::Usage, "there are no ids"};
  if (count > capacity_ - length_)
    return {Code::InvalidInput, std::to_string(length_ + count) +
                                    " positions exceed the capacity of " +
                                    std::to_string(capacity_) + "; raise --capacity"};
  for (const int64_t id : ids) {
    const int64_t most = vocabulary() > 0 ? vocabulary() : int64_t{INT32_MAX};
    if (id >= 0 && id < most) continue;
    return {Code::InvalidInput, "the id " + std::to_string(id) + " is none of the " +
                                    std::to_string(most) + " of the model"};
  }
  return {};
}

const HostTensor& DecoderSession::result(const std::string& name) const {
  const auto& outputs = session_->io().outputs;
  const auto at = std::ranges::find(outputs, name, &plan::Slot::name);
  return results_[static_cast<size_t>(at - outputs.begin())];
}

Status DecoderSession::run(std::span<const int64_t> ids) {
  RP_TRY(check(ids));
  const auto count = static_cast<int64_t>(ids.size());
  inputs_.clear();
  outputs_.clear();
  make_inputs(ids);
  bind_inputs(ids);
  bind_caches();
  bind_result(count);
  RunStats stats;
  RP_TRY(session_->run_into(inputs_, outputs_, results_, &stats));
  copied_ = stats.bytes_copied;
  length_ += count;
  if (host_past_.empty()) {
    past_.swap(present_);
  } else {
    for (size_t i = 0; i < io_.caches.size(); ++i) host_past_[i] = result(io_.caches[i].present);
  }
  return {};
}

Result<std::span<const float>> DecoderSession::advance(std::span<const int64_t> ids) {
  if (samples()) return Status(Code::Usage, "the package has no logits, because it samples");
  RP_TRY(run(ids));
  return last_logits(std::ssize(ids));
}

Result<int64_t> DecoderSession::sample(std::span<const int64_t> ids) {
  if (!samples()) return Status(Code::Usage, "the package does not sample");
  RP_TRY(run(ids));
  second_place_ = !second_place_;
  RP_ASSIGN(last_sampled_, sampled_id());
  if (last_sampled_ < 0)
    return Status(Code::InvalidInput, "no token can be chosen: all logits are NaN or -infinity");
  return last_sampled_;
}

Result<int64_t> DecoderSession::sampled_id() {
  std::array<std::byte, sizeof(int64_t)> bytes{};
  const auto used = std::span(bytes).first(size_of(io_.sampled_type));
  if (sampled_) {
    RP_TRY(session_->device()->download(*sampled_, second_place_ ? kPlace : 0, used));
    copied_ += used.size();
  } else {
    std::ranges::copy(result(io_.sampled).bytes().first(used.size()), used.begin());
  }
  if (io_.sampled_type == DType::I64) return std::bit_cast<int64_t>(bytes);
  int32_t id = 0;
  std::memcpy(&id, bytes.data(), sizeof id);
  return int64_t{id};
}

DecoderStats DecoderSession::stats() const {
  const SessionStats s = session_->stats();
  return {s.submits, s.dispatches, s.device_bytes + own_bytes_};
}

}  // namespace reprise::app
