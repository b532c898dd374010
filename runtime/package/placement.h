// Where and how the file has the weights of a package. Internal to runtime/package.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/package/package.h"
#include "runtime/package/scaled.h"

namespace reprise::package {

struct Placement {
  std::vector<uint64_t> offsets;               // per weight, from Header::weights_offset
  std::vector<size_t> order;                   // weights by offset
  std::vector<std::optional<Scaled>> scaled;   // per weight: set if its bytes are not in the file
  std::vector<std::vector<std::byte>> packed;  // per weight: its bytes, if elements share them
  uint64_t end = 0;

  /// The bytes of the file for a weight that is not scaled.
  std::span<const std::byte> bytes(const HostTensor& weight, size_t index) const {
    return packed[index].empty() ? weight.bytes() : std::span(packed[index]);
  }
};

/// Places small weights first, close together, and then large ones, each at a page boundary.
/// Elements of less than a byte share bytes.
Placement place(const Package& p);

}  // namespace reprise::package
