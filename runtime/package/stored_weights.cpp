#include "runtime/package/stored_weights.h"

#include <cstring>
#include <new>

#include "runtime/base/host_memory.h"
#include "runtime/package/code_store.h"
#include "runtime/package/header.h"

namespace reprise::package {
namespace {

constexpr std::align_val_t kAlignment{kWeightAlignment};

Status check_hash(const Package& p, size_t index, const HostTensor& weight) {
  if (index >= p.weight_hashes.size() || hash_bytes(weight.bytes()) == p.weight_hashes[index])
    return {};
  return corrupt_package("weight " + std::to_string(index) + " (" +
                         describe(weight.dtype(), weight.dims()) +
                         ") does not match its checksum: the package is damaged, or its file was "
                         "changed while it was open; compile it again");
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

Result<Bytes> Source::copy(uint64_t offset, uint64_t size) const {
  if (offset > this->size() || size > this->size() - offset) return corrupt_package("is truncated");
  auto out = std::make_shared<const AlignedBytes>(size);
  if (file_) {
    RP_TRY(file_->read(offset, out->bytes()));
  } else if (size > 0) {
    std::memcpy(out->bytes().data(), memory_.data() + offset, size);
  }
  return Bytes{out->bytes(), out};
}

Result<Bytes> Source::get(uint64_t offset, uint64_t size) const {
  const bool inside = offset <= memory_.size() && size <= memory_.size() - offset;
  if (file_ || !inside ||
      reinterpret_cast<uintptr_t>(memory_.data() + offset) % kWeightAlignment != 0)
    return copy(offset, size);
  return Bytes{memory_.subspan(offset, size), owner_};
}

Result<HostTensor> StoredWeights::read(const Package& package, size_t index) const {
  const Entry& e = entries_[index];
  const HostTensor& form = package.weights[index];
  if (e.scaled) {
    RP_ASSIGN(const HostTensor base, load(package, e.scaled->base));
    return scaled_tensor(base, e.scaled->axis, e.scaled->factors);
  }
  RP_ASSIGN(Bytes bytes, source_.get(e.offset, e.size));
  return HostTensor::borrow(form.dtype(), form.dims(), bytes.bytes, std::move(bytes.owner));
}

Result<HostTensor> StoredWeights::load(const Package& package, size_t index) const {
  if (package.weights[index].dtype() == DType::String) return package.weights[index];
  {
    const std::lock_guard lock(mutex_);
    known_.resize(entries_.size());
    if (const auto known = known_[index].lock())
      return HostTensor::borrow(known->dtype(), known->dims(), known->bytes(), known);
  }
  const HostMemoryPtr heap;
  const HostMemoryScope shared(heap);  // also with sessions of other devices
  auto tensor = read(package, index);
  if (!tensor.ok()) return tensor.status().with_context(name_of(package));
  RP_TRY(check_hash(package, index, *tensor).with_context(name_of(package)));
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
  if (p.stored_weights) return p.stored_weights->load(p, index);
  RP_TRY(check_hash(p, index, p.weights[index]));
  return p.weights[index];
}

Status verify_weights(const Package& p) {
  for (size_t i = 0; i < p.weights.size(); ++i) RP_TRY(load_weight(p, i).status());
  return {};
}

Result<std::shared_ptr<const Package>> with_weights(std::shared_ptr<const Package> p) {
  if (!p->stored_weights) return p;
  auto out = std::make_shared<Package>(*p);
  for (size_t i = 0; i < p->weights.size(); ++i) {
    RP_ASSIGN(out->weights[i], load_weight(*p, i));
  }
  out->stored_weights = nullptr;
  return std::shared_ptr<const Package>(std::move(out));
}

}  // namespace reprise::package
