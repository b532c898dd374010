#include "codegen/plan/weight_store.h"

#include <cstring>
#include <span>

namespace reprise {

uint32_t WeightStore::add(const HostTensor& t, bool same_dims) {
  const std::span<const std::byte> bytes = t.bytes();
  const auto same = [&](uint32_t index) {
    const HostTensor& w = package_.weights[index];
    return w.dtype() == t.dtype() &&
           (same_dims || t.dtype() == DType::String ? w.dims() == t.dims()
                                                    : w.count() == t.count());
  };
  const auto known = by_memory_.find({bytes.data(), bytes.size()});
  if (known != by_memory_.end() && same(known->second)) return known->second;
  const uint64_t hash = package::hash_bytes(bytes);
  auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const std::span<const std::byte> other = package_.weights[it->second].bytes();
    if (!same(it->second) || other.size() != bytes.size()) continue;
    if (bytes.empty() || std::memcmp(bytes.data(), other.data(), bytes.size()) == 0)
      return it->second;
  }
  const auto index = static_cast<uint32_t>(package_.weights.size());
  package_.weights.push_back(t);
  package_.weight_hashes.push_back(hash);
  by_hash_.emplace(hash, index);
  const std::span<const std::byte> kept = package_.weights.back().bytes();
  by_memory_.emplace(std::pair(kept.data(), kept.size()), index);
  return index;
}

uint32_t WeightStore::add_elements(const graph::Value& v) {
  if (!v.joined) return add_elements(*v.constant);
  package::WeightParts parts{static_cast<uint32_t>(v.joined->axis), {}};
  for (const HostTensor& part : v.joined->parts) parts.segments.push_back(add_elements(part));
  std::vector<int64_t> form = v.constant->dims();
  form.push_back(static_cast<int64_t>(parts.axis));
  const auto [at, is_new] = by_parts_.try_emplace({std::move(form), parts.segments});
  if (!is_new) return at->second;
  at->second = static_cast<uint32_t>(package_.weights.size());
  package_.weights.push_back(*v.constant);
  package_.weight_hashes.push_back(0);
  package_.parts.emplace(at->second, std::move(parts));
  return at->second;
}

}  // namespace reprise
