// Collects the weights of a package while its plans are built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise {

/// The raw tensors of a package, shared by all its plans.
class WeightStore {
 public:
  explicit WeightStore(package::Package& p) : package_(p) {}
  /// The index of the segment with this tensor. Adds one if there is none.
  uint32_t add(const HostTensor& t) { return add(t, true); }
  /// The index of a segment with these elements in any dims: buffers of plans have their own.
  uint32_t add_elements(const HostTensor& t) { return add(t, false); }
  /// The index of a segment with the elements of a constant, and of those with its parts.
  uint32_t add_elements(const graph::Value& v);

 private:
  uint32_t add(const HostTensor& t, bool same_dims);

  package::Package& package_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
  std::map<std::pair<std::vector<int64_t>, std::vector<uint32_t>>, uint32_t> by_parts_;
  /// By address and size of memory that the package keeps alive: all variants use the same tensors,
  /// so that most of them need not be hashed.
  std::map<std::pair<const std::byte*, size_t>, uint32_t> by_memory_;
};

}  // namespace reprise
