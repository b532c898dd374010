// plan::Packing, written down once more.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/packing.h"

namespace reprise::test {

/// The bytes of a packed weight without those that fill its last word: each packed element looks
/// for its raw one.
inline std::vector<std::byte> packed_by_definition(const plan::Packing& p, const HostTensor& raw) {
  const auto size = static_cast<int64_t>(size_of(raw.dtype()));
  const int64_t bits = p.bits == 0 ? 8 * size : p.bits;
  std::vector<std::byte> out(static_cast<size_t>(p.count() * bits / 8));
  for (int64_t to = 0; to < p.count(); ++to) {
    std::vector<int64_t> index(p.dims.size());
    int64_t rest = to;
    for (size_t i = p.parts.size(); i > 0; --i) {
      const plan::Packing::Part& part = p.parts[i - 1];
      index[static_cast<size_t>(part.axis)] += rest % part.size * part.step;
      rest /= part.size;
    }
    int64_t from = 0;
    bool inside = true;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      inside = inside && index[axis] < p.dims[axis];
      from = from * p.dims[axis] + index[axis];
    }
    if (!inside) continue;
    const std::byte* const element = raw.bytes().data() + from * size;
    std::byte* const place = out.data() + to * bits / 8;
    if (p.bits == 0) {
      std::copy_n(element, size, place);
    } else {
      *place |= (*element & static_cast<std::byte>((1 << bits) - 1)) << (to * bits % 8);
    }
  }
  return out;
}

}  // namespace reprise::test
