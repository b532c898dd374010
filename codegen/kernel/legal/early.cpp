// Kernels that may begin while the launches before them still run. Until they await these, they may
// compute with parameters and prepare shared memory.
#include <algorithm>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {
namespace {

/// Whether the instruction, or one in its blocks, accesses buffers.
bool accesses(const Kernel& k, int32_t id) {
  const Inst& i = k.insts[static_cast<size_t>(id)];
  if (accesses_buffers(i.op)) return true;
  return std::any_of(i.blocks.begin(), i.blocks.end(), [&](int32_t block) {
    return std::ranges::any_of(k.blocks[static_cast<size_t>(block)].insts,
                               [&](int32_t inner) { return accesses(k, inner); });
  });
}

}  // namespace

void begin_early(Kernel& k) {
  std::vector<int32_t>& body = k.blocks[0].insts;
  const auto first = std::ranges::find_if(body, [&](int32_t id) { return accesses(k, id); });
  body.insert(first, static_cast<int32_t>(k.insts.size()));
  k.insts.push_back({Op::AwaitLaunches, {}, 0, {}, {}, 1});
}

}  // namespace reprise::kernel
