// A dense row-major tensor in host memory. Values own their bytes (shared, copy on write by
// callers).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace reprise {

/// Product of dims. Fails on a negative dim or when the product or its bytes pass 2^40.
Result<int64_t> checked_element_count(std::span<const int64_t> dims, DType dtype);

class HostTensor {
 public:
  HostTensor() = default;
  /// Zero-initialised. Sizes must have been checked with checked_element_count.
  HostTensor(DType dtype, std::vector<int64_t> dims);
  /// A view of memory kept alive by `owner` (a mapped file, a protobuf). Read-only.
  static HostTensor borrow(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner);
  /// The same, without an owner, in a tensor that keeps the memory it has for dims.
  void borrow_again(DType dtype, std::span<const int64_t> dims, std::span<const std::byte> bytes);
  template <typename T>
  static HostTensor from(DType dtype, std::vector<int64_t> dims, const std::vector<T>& v) {
    HostTensor t(dtype, std::move(dims));
    if (!v.empty()) std::memcpy(t.mutable_bytes().data(), v.data(), v.size() * sizeof(T));
    return t;
  }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Only for owned tensors that are not shared yet.
  std::span<std::byte> mutable_bytes() { return {storage_->data(), storage_->size()}; }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(storage_->data());
  }
  /// Same bytes under other dims of equal count.
  HostTensor reshaped(std::vector<int64_t> dims) const;
  /// The same values in bytes that live as long as the tensor: a copy when they are borrowed from
  /// memory that nothing keeps alive.
  HostTensor detached() const;

  // String tensors only (host only).
  const std::vector<std::string>& strings() const { return *strings_; }
  std::vector<std::string>& mutable_strings() { return *strings_; }

 private:
  DType dtype_ = DType::Invalid;
  std::vector<int64_t> dims_;
  int64_t count_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<std::vector<std::byte>> storage_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

/// "float32[2,3]"
std::string describe(DType dtype, std::span<const int64_t> dims);

}  // namespace reprise
