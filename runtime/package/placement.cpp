#include "runtime/package/placement.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/base/low_bit.h"
#include "runtime/package/header.h"

namespace reprise::package {
namespace {

/// Empty if the type has no such form, or if that would not give the same bytes again.
std::vector<std::byte> packed_form(const HostTensor& t) {
  if (!shares_bytes(t.dtype()) || t.count() == 0) return {};
  std::vector<std::byte> packed(packed_size(t.dtype(), static_cast<uint64_t>(t.count())));
  pack_elements(t.dtype(), t.bytes(), packed);
  std::vector<std::byte> again(t.bytes().size());
  unpack_elements(t.dtype(), packed, again);
  if (!std::ranges::equal(again, t.bytes())) packed.clear();
  return packed;
}

}  // namespace

Placement place(const Package& p) {
  Placement out;
  out.scaled = find_scaled(p);
  out.offsets.resize(p.weights.size());
  const auto has_parts = [&](size_t i) { return p.parts.contains(static_cast<uint32_t>(i)); };
  out.packed.resize(p.weights.size());
  for (size_t i = 0; i < p.weights.size(); ++i) {
    if (!has_parts(i)) out.packed[i] = packed_form(p.weights[i]);
  }
  for (const bool large : {false, true}) {
    for (size_t i = 0; i < p.weights.size(); ++i) {
      const uint64_t size = out.bytes(p.weights[i], i).size();
      if ((size >= kLargeWeight) != large || out.scaled[i] || has_parts(i)) continue;
      out.end = align_up(out.end, large ? kSegmentAlignment : kWeightAlignment);
      out.offsets[i] = out.end;
      out.order.push_back(i);
      out.end += size;
    }
  }
  return out;
}

}  // namespace reprise::package
