#include <algorithm>

#include "tests/ptx/machine/warp.h"

namespace reprise::test::ptx {

const char* BusyRegisters::access(const Instruction& i) {
  const auto is_busy = [&](uint32_t s) { return s != Instruction::kNone && group_[s] != 0; };
  if (busy_ != 0) {
    if (std::any_of(i.to.begin(), i.to.end(), is_busy))
      return "a write to a register of a wgmma that was not awaited";
    const bool reads = std::any_of(i.from.begin(), i.from.end(), is_busy);
    if (reads && (!i.moves || i.to.size() != 1 || i.from.size() != 1))
      return "a read of a register of a wgmma that was not awaited";
    if (reads) {
      const uint32_t from = i.from[0], to = i.to[0];
      group_[to] = group_[from];
      touched_[to] = touched_[from];
      multiplier_[to] = multiplier_[from];
      ++busy_;
      return nullptr;
    }
  }
  for (const uint32_t s : i.to)
    if (s != Instruction::kNone) touched_[s] = fences_ + 1;
  for (const uint32_t s : i.from)
    if (s != Instruction::kNone) touched_[s] = fences_ + 1;
  return nullptr;
}

const char* BusyRegisters::use(std::span<const uint32_t> slots, uint32_t group,
                               const Instruction& i) {
  if (fences_ == 0) return "a wgmma before any wgmma.fence";
  multiplier_.resize(group_.size());
  for (const uint32_t s : slots) {
    if (touched_[s] == fences_ + 1)
      return "a register that was accessed after the last wgmma.fence";
    const bool is_sum = std::find(i.to.begin(), i.to.end(), s) != i.to.end();
    const bool same = is_sum && multiplier_[s] != nullptr && multiplier_[s]->number == i.number &&
                      multiplier_[s]->detail == i.detail;
    if (group_[s] != 0 && !same) return "a register of a wgmma of another shape, not awaited";
    if (group_[s] == 0) ++busy_;
    group_[s] = group;
    multiplier_[s] = is_sum ? &i : nullptr;
  }
  return nullptr;
}

void BusyRegisters::release(uint32_t group) {
  if (busy_ == 0) return;
  for (uint32_t& g : group_) {
    if (g == 0 || g > group) continue;
    g = 0;
    --busy_;
  }
}

}  // namespace reprise::test::ptx
