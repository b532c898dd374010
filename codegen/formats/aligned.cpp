#include "codegen/formats/aligned.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reprise::formats {

HostTensor aligned_tensor(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (bytes.empty() || address % size_of(dtype) == 0)
    return HostTensor::borrow(dtype, std::move(dims), bytes, std::move(owner));
  HostTensor copy(dtype, std::move(dims));
  std::ranges::copy(bytes, copy.mutable_bytes().begin());
  return copy;
}

}  // namespace reprise::formats
