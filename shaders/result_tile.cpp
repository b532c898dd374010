#include "shaders/result_tile.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::SubgroupOp;
using kernel::Ty;
using kernel::Val;

bool has_cpu_subgroups(const TargetFacts& device) {
  return device.cpu_type() && device.subgroup_shuffle() && device.subgroup_size() == kCpuLanes;
}

Status store_rows(ResultTile& result, Val row, int rows, Val vec,
                  const std::function<Val(int row)>& four) {
  kernel::Builder& b = result.builder();
  for (int r = 0; r < rows; ++r) {
    const Val at = b.add(row, b.i32(r));
    const auto body = [&] { return result.store(at, vec, four(r)); };
    RP_TRY(r == 0 ? body() : result.guard_row(at, body));
  }
  return {};
}

// They pass through a local array (workarounds::kSharedStores).
Status store_chunk(ResultTile& result, Val first, Val vec, Val end, int count,
                   const std::function<Val(int row)>& four) {
  kernel::Builder& b = result.builder();
  if (count == 1) return result.guard_row(first, [&] { return result.store(first, vec, four(0)); });
  const int staged = b.local("staged", kernel::vec(kernel::kF32, 4), static_cast<uint32_t>(count));
  for (int i = 0; i < count; ++i) b.local_store(staged, four(i), b.i32(i));
  Status status;
  result.loop(end, count,
              [&](Val i) { status = result.store(b.add(first, i), vec, b.local_load(staged, i)); });
  return status;
}

Val lane_of(kernel::Builder& b) {
  return b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
}

Val broadcast(kernel::Builder& b, Val v, int lane) {
  return b.subgroup(SubgroupOp::Shuffle, v, b.u32(static_cast<uint64_t>(lane)));
}

}  // namespace reprise::shaders
