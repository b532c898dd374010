// Queries on kernels that both emitters share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::emit {

/// Calls fn(instruction) for every instruction of block `index` and of the blocks nested there.
/// Kernel::insts may have others, which are unused and unverified.
template <typename Fn>
void for_each_inst(const kernel::Kernel& k, int32_t index, const Fn& fn) {
  for (const int32_t n : k.blocks[static_cast<size_t>(index)].insts) {
    const kernel::Inst& i = k.insts[static_cast<size_t>(n)];
    fn(i);
    for (const int32_t b : i.blocks) for_each_inst(k, b, fn);
  }
}

inline bool is_float(kernel::Ty t) {
  return kernel::class_of(t) == kernel::kFloat;
}
inline bool is_signed(kernel::Ty t) {
  return kernel::class_of(t) == kernel::kSigned;
}

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
