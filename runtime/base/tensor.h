// A dense, row-major tensor in host memory, or a container of such tensors. Copies of a tensor
// share its bytes, so a caller must not write to a tensor that it has copied.
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

/// The product of the dims. Fails on a negative dim, and if the product or its bytes exceed 2^40.
Result<int64_t> checked_element_count(std::span<const int64_t> dims, DType dtype);

class HostTensor {
 public:
  HostTensor() = default;
  /// The elements are zero, where HostMemoryScope says. The dims must have passed
  /// checked_element_count().
  HostTensor(DType dtype, std::vector<int64_t> dims);
  /// A read-only view of memory that `owner` keeps alive, such as a mapped file or a protobuf.
  static HostTensor borrow(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner);
  /// Makes this tensor a view without an owner, and reuses the memory of its dims.
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
  /// Requires a tensor that owns its bytes and was not copied.
  std::span<std::byte> mutable_bytes() { return {storage_.get(), bytes_.size()}; }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(storage_.get());
  }
  /// The same bytes with other dims of equal count.
  HostTensor reshaped(std::vector<int64_t> dims) const;
  /// Whether the bytes live as long as the tensor.
  bool keeps_bytes() const { return storage_ || owner_; }
  /// The same values in bytes that live as long as the tensor. Copies them if they are borrowed
  /// from memory that nothing keeps alive.
  HostTensor detached() const;

  /// A sequence, an optional or a map. A map has two items, its keys and its values, which have
  /// rank 1; the items of an optional are the one that it has, if it has one.
  static HostTensor container(DType type, std::vector<HostTensor> items);
  /// What a container holds; nothing for a tensor.
  const std::vector<HostTensor>& items() const;

  // Require a tensor of DType::String, which only the host supports.
  const std::vector<std::string>& strings() const { return *strings_; }
  std::vector<std::string>& mutable_strings() { return *strings_; }

 private:
  DType dtype_ = DType::Invalid;
  std::vector<int64_t> dims_;
  int64_t count_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<std::byte[]> storage_;
  std::shared_ptr<const void> owner_;  // of a container: its items
  std::shared_ptr<std::vector<std::string>> strings_;
};

/// "float32[2,3]"
std::string describe(DType dtype, std::span<const int64_t> dims);

}  // namespace reprise
