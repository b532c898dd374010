#include "runtime/base/join.h"

#include <utility>

namespace reprise {

uint64_t rows_before(std::span<const int64_t> dims, size_t axis) {
  uint64_t rows = 1;
  for (size_t d = 0; d < axis; ++d) rows *= static_cast<uint64_t>(dims[d]);
  return rows;
}

HostTensor join(std::span<const HostTensor> parts, std::vector<int64_t> dims, size_t axis) {
  const uint64_t rows = rows_before(dims, axis);
  HostTensor out(parts[0].dtype(), std::move(dims));
  std::byte* to = out.mutable_bytes().data();
  for (uint64_t row = 0; row < rows; ++row) {
    for (const HostTensor& part : parts) {
      const auto line =
          part.bytes().subspan(row * (part.bytes().size() / rows), part.bytes().size() / rows);
      std::memcpy(to, line.data(), line.size());
      to += line.size();
    }
  }
  return out;
}

}  // namespace reprise
