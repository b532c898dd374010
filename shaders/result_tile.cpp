#include "shaders/result_tile.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::SubgroupOp;
using kernel::Ty;

bool has_cpu_subgroups(const TargetFacts& device) {
  return device.cpu_type() && device.subgroup_shuffle() && device.subgroup_size() == kCpuLanes;
}

Result<Value> ResultTile::stored_form(Value, Value, Value) {
  return internal_error("the result has no view");
}

Status store_rows(ResultTile& result, Value row, int rows, Value vec,
                  const std::function<Value(int row)>& four) {
  const kernel::Builder& b = *row.builder;
  const size_t before = b.instruction_count();
  RP_TRY(result.store(row, vec, four(0)));
  if (rows > 2 && b.instruction_count() - before > kMaxUnrolledEpilogue) {
    const Value end = min(result.row_count() - row, rows) - 1;
    return store_chunk(result, row + 1, vec, end, rows - 1, [&](int r) { return four(r + 1); });
  }
  for (int r = 1; r < rows; ++r) {
    const Value at = row + r;
    RP_TRY(result.guard_row(at, [&] { return result.store(at, vec, four(r)); }));
  }
  return {};
}

// The loop reads its rows from a local array (workarounds::kSharedStores).
Status store_chunk(ResultTile& result, Value first, Value vec, Value end, int count,
                   const std::function<Value(int row)>& four) {
  kernel::Builder& b = *first.builder;
  if (count == 1) return result.guard_row(first, [&] { return result.store(first, vec, four(0)); });
  const int staged = b.local("staged", kernel::vec(kernel::kF32, 4), static_cast<uint32_t>(count));
  for (int i = 0; i < count; ++i) b.local_store(staged, four(i), b.i32(i));
  return result.loop(
      end, count, [&](Value i) { return result.store(first + i, vec, b.local_load(staged, i)); });
}

LocalGrid::LocalGrid(kernel::Builder& b, const std::string& name, kernel::Type type, int rows,
                     int columns, std::optional<double> start)
    : b_(b), rows_(rows), columns_(columns) {
  for (int i = 0; i < rows * columns; ++i) {
    locals_.push_back(b.local(name + std::to_string(i), type));
    if (start) b.local_store(locals_.back(), b.constant(type, *start));
  }
}

Value multiply_add(kernel::Builder& b, Val x, Val y, Val total, bool fma) {
  return fma ? b.fma(x, y, total) : b.add(total, b.mul(x, y));
}

Value local_index(kernel::Builder& b) {
  return b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
}

Value lane_of(kernel::Builder& b) {
  return b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
}

Value broadcast(kernel::Builder& b, Val v, int lane) {
  return b.subgroup(SubgroupOp::Shuffle, v, b.u32(static_cast<uint64_t>(lane)));
}

}  // namespace reprise::shaders
