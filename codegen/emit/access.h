// What both emitters derive from a buffer access.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codegen/kernel/kernel.h"

namespace reprise::emit {

/// The proven alignment in bytes of a Load or Store of `lanes` consecutive elements: a power of
/// two, at least the element's size.
inline uint32_t proven_alignment(const kernel::BufferParam& b, const kernel::Inst& i,
                                 uint32_t lanes) {
  const auto element = static_cast<uint32_t>(kernel::byte_size(b.storage));
  if (lanes == 1) return element;
  const uint32_t proven = element * std::max(1U, i.align);
  const uint32_t power = proven & (0U - proven);
  return std::max(element, std::min(power, std::bit_floor(std::max(1U, b.align))));
}

}  // namespace reprise::emit
