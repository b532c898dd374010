#include "runtime/package/stored_weights.h"

#include <algorithm>
#include <new>

#include "runtime/base/host_memory.h"
#include "runtime/base/low_bit.h"
#include "runtime/package/code_store.h"
#include "runtime/package/header.h"
#include "runtime/package/joined.h"

namespace reprise::package {
namespace {

constexpr std::align_val_t kAlignment{kWeightAlignment};

Status check_hash(const Package& p, size_t index, uint64_t hash) {
  if (index >= p.weight_hashes.size() || hash == p.weight_hashes[index]) return {};
  return corrupt_package("weight " + std::to_string(index) + " (" +
                         describe(p.weights[index].dtype(), p.weights[index].dims()) +
                         ") does not match its checksum: the package is damaged, or its file was "
                         "changed while it was open; compile it again");
}

bool is_joined(const Package& p, size_t index) {
  return p.parts.contains(static_cast<uint32_t>(index));
}

/// For messages. A package whose code was unpacked has no store.
std::string name_of(const Package& p) {
  return p.code ? p.code->package() : "package '" + p.model_name + "'";
}

}  // namespace

AlignedBytes::AlignedBytes(uint64_t size)
    : bytes_(static_cast<std::byte*>(::operator new(size, kAlignment)), size) {}

AlignedBytes::~AlignedBytes() {
  ::operator delete(bytes_.data(), kAlignment);
}

Status Source::copy_to(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset) return corrupt_package("is truncated");
  if (file_) return file_->read(offset, out);
  std::copy_n(memory_.data() + offset, out.size(), out.data());
  return {};
}

Result<Bytes> Source::copy(uint64_t offset, uint64_t size) const {
  if (offset > this->size() || size > this->size() - offset) return corrupt_package("is truncated");
  auto out = std::make_shared<const AlignedBytes>(size);
  RP_TRY(copy_to(offset, out->bytes()));
  return Bytes{out->bytes(), out};
}

bool Source::is_copied(uint64_t offset, uint64_t size) const {
  const bool inside = offset <= memory_.size() && size <= memory_.size() - offset;
  return file_ || !inside ||
         reinterpret_cast<uintptr_t>(memory_.data() + offset) % kWeightAlignment != 0;
}

Result<Bytes> Source::get(uint64_t offset, uint64_t size) const {
  if (is_copied(offset, size)) return copy(offset, size);
  return Bytes{memory_.subspan(offset, size), owner_};
}

Result<HostTensor> StoredWeights::read(const Package& package, size_t index) const {
  const Entry& e = entries_[index];
  const HostTensor& form = package.weights[index];
  if (e.scaled) {
    RP_ASSIGN(const HostTensor base, load(package, e.scaled->base));
    return scaled_tensor(base, e.scaled->axis, e.scaled->factors);
  }
  RP_ASSIGN(Bytes bytes, sources_[e.source].get(e.offset, e.size));
  if (e.packed) {
    HostTensor out(form.dtype(), form.dims());
    unpack_elements(form.dtype(), bytes.bytes, out.mutable_bytes());
    return out;
  }
  return HostTensor::borrow(form.dtype(), form.dims(), bytes.bytes, std::move(bytes.owner));
}

std::shared_ptr<const HostTensor> StoredWeights::known(size_t index) const {
  const std::lock_guard lock(mutex_);
  known_.resize(entries_.size());
  return known_[index].lock();
}

Status StoredWeights::read_pieces(const Package& package, size_t index, uint64_t unit,
                                  std::vector<std::byte>& scratch,
                                  const UseWeightPiece& use) const {
  const Entry& e = entries_[index];
  const HostTensor& form = package.weights[index];
  const uint64_t most = kPieceBytes / unit * unit, bits = e.packed ? bits_of(form.dtype()) : 8;
  if (most == 0 || most * bits % 8 != 0 || !can_read_at(package, index)) {
    RP_ASSIGN(const HostTensor weight, load(package, index));
    return use(0, weight.bytes());
  }
  scratch.resize(kPieceBytes);
  const uint64_t size = weight_bytes(form);
  PieceHash hash;
  for (uint64_t at = 0; at < size; at += most) {
    const auto bytes = std::span(scratch).first(std::min(most, size - at));
    RP_TRY(read_at(package, index, at, bytes));
    hash.add(bytes);
    RP_TRY(use(at, bytes));
  }
  return check(package, index, hash.plain());
}

bool StoredWeights::can_read_at(const Package& package, size_t index) const {
  const Entry& e = entries_[index];
  return !e.scaled && package.weights[index].bytes().empty() && !known(index) &&
         (e.packed || sources_[e.source].is_copied(e.offset, e.size));
}

Status StoredWeights::read_at(const Package& package, size_t index, uint64_t offset,
                              std::span<std::byte> out) const {
  const Entry& e = entries_[index];
  const Source& source = sources_[e.source];
  if (!e.packed) return source.copy_to(e.offset + offset, out).with_context(name_of(package));
  const DType dtype = package.weights[index].dtype();
  std::vector<std::byte> stored(packed_size(dtype, out.size()));
  RP_TRY(source.copy_to(e.offset + offset * bits_of(dtype) / 8, stored)
             .with_context(name_of(package)));
  unpack_elements(dtype, stored, out);
  return {};
}

Status StoredWeights::check(const Package& package, size_t index, uint64_t hash) const {
  return check_hash(package, index, hash).with_context(name_of(package));
}

Result<HostTensor> StoredWeights::load(const Package& package, size_t index) const {
  const HostTensor& given = package.weights[index];
  if (given.dtype() == DType::String) return given;
  if (!given.bytes().empty()) {
    RP_TRY(check_hash(package, index, hash_bytes(given.bytes())).with_context(name_of(package)));
    return given;
  }
  if (const auto held = known(index))
    return HostTensor::borrow(held->dtype(), held->dims(), held->bytes(), held);
  const HostMemoryPtr heap;
  const HostMemoryScope shared(heap);  // also with sessions of other devices
  auto tensor = read(package, index);
  if (!tensor.ok()) return tensor.status().with_context(name_of(package));
  RP_TRY(check_hash(package, index, hash_bytes(tensor->bytes())).with_context(name_of(package)));
  if (!tensor->keeps_bytes()) return tensor;  // the application does
  const auto held = std::make_shared<const HostTensor>(*std::move(tensor));
  const std::lock_guard lock(mutex_);
  known_[index] = held;
  return HostTensor::borrow(held->dtype(), held->dims(), held->bytes(), held);
}

Result<HostTensor> load_weight(const Package& p, size_t index) {
  if (index >= p.weights.size()) {
    return corrupt_package("segment " + std::to_string(index) + " of " +
                           std::to_string(p.weights.size()));
  }
  if (is_joined(p, index)) return load_joined(p, static_cast<uint32_t>(index));
  if (p.stored_weights) return p.stored_weights->load(p, index);
  RP_TRY(check_hash(p, index, hash_bytes(p.weights[index].bytes())));
  return p.weights[index];
}

Status read_weight(const Package& p, size_t index, uint64_t unit, std::vector<std::byte>& scratch,
                   const UseWeightPiece& use) {
  if (is_joined(p, index)) return read_joined(p, static_cast<uint32_t>(index), unit, scratch, use);
  if (p.stored_weights && index < p.weights.size())
    return p.stored_weights->read_pieces(p, index, unit, scratch, use);
  RP_ASSIGN(const HostTensor weight, load_weight(p, index));
  return use(0, weight.bytes());
}

Status verify_weights(const Package& p) {
  for (size_t i = 0; i < p.weights.size(); ++i) {
    if (!is_joined(p, i)) RP_TRY(load_weight(p, i).status());
  }
  return {};
}

Result<std::shared_ptr<const Package>> with_weights(std::shared_ptr<const Package> p) {
  if (!p->stored_weights) return p;
  auto out = std::make_shared<Package>(*p);
  for (size_t i = 0; i < p->weights.size(); ++i) {
    if (is_joined(*p, i)) continue;
    RP_ASSIGN(out->weights[i], load_weight(*p, i));
  }
  out->stored_weights = nullptr;
  return std::shared_ptr<const Package>(std::move(out));
}

void leave_in_files(Package& p, const platform::FileBytes& files) {
  constexpr uint64_t kLeastTogether = uint64_t{64} << 20;
  std::vector<Source> sources;
  std::vector<StoredWeights::Entry> entries(p.weights.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const auto place = files.find(p.weights[i].bytes());
    if (!place || p.weights[i].bytes().size() < kLargeWeight) continue;
    const auto same = [&](const Source& s) { return s.is(place->file); };
    auto source = std::ranges::find_if(sources, same);
    if (source == sources.end()) source = sources.emplace(source, place->file);
    bytes += p.weights[i].bytes().size();
    entries[i] = {place->offset,
                  p.weights[i].bytes().size(),
                  {},
                  false,
                  static_cast<uint32_t>(source - sources.begin())};
  }
  if (bytes < kLeastTogether || p.weight_hashes.size() != p.weights.size()) return;
  auto stored = std::make_shared<StoredWeights>(std::move(sources));
  for (size_t i = 0; i < p.weights.size(); ++i) {
    HostTensor& w = p.weights[i];
    if (entries[i].size > 0) w = HostTensor::borrow(w.dtype(), w.dims(), {}, nullptr);
    stored->add(std::move(entries[i]));
  }
  p.stored_weights = std::move(stored);
}

}  // namespace reprise::package
