#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

#define SCHEDULE(name) const Schedule& name##_schedule();
#include "shaders/gemm_schedules.inc"
#undef SCHEDULE

namespace {

struct Table {
  std::vector<const Schedule*> rows{
#define SCHEDULE(name) &name##_schedule(),
#include "shaders/gemm_schedules.inc"
#undef SCHEDULE
  };
  bool read = false;
};

Table& table() {
  static Table all;
  return all;
}

}  // namespace

std::span<const Schedule* const> schedules() {
  static const bool read = table().read = true;
  (void)read;
  return table().rows;
}

Status add_schedules(std::span<const Schedule* const> more) {
  if (table().read) return {Code::Usage, "schedules must be added before the first compilation"};
  table().rows.insert(table().rows.end(), more.begin(), more.end());
  return {};
}

std::vector<Tile> candidates(const GemmSize& size, const TargetFacts& device) {
  std::vector<Tile> all;
  for (const Schedule* s : schedules()) {
    for (Tile t : s->tiles(size, device)) {
      t.schedule = s;
      all.push_back(t);
    }
  }
  // Among tiles of equal cost, prefer the one in which more invocations share loads, so that the
  // order of the table does not matter.
  std::stable_sort(all.begin(), all.end(), [](const Tile& a, const Tile& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.unit > b.unit;
  });
  const auto whole =
      std::find_if(all.begin(), all.end(), [](const Tile& t) { return t.splits == 1; });
  if (all.begin() < whole && whole < all.end()) std::rotate(all.begin() + 1, whole, whole + 1);
  return all;
}

plan::Packing columns_in_tiles(const plan::MatrixShape& b, int64_t bits, const Tile& tile) {
  return bits != 0 ? plan::in_tiles_of_nibbles(b, tile.columns) : plan::in_tiles(b, tile.columns);
}

plan::Packing Schedule::packing(const plan::MatrixShape& b, int64_t bits, const Tile& tile) const {
  return columns_in_tiles(b, bits, tile);
}

Result<BlockScale> Gemm::load_b_scale(const Column&, Value, int64_t) {
  return internal_error("B has no scales");
}

Result<std::vector<Values>> Gemm::load_b_octet(std::span<const Column>, Value,
                                               std::span<const Val>) {
  return internal_error("B has no blocks of integers");
}

double gpu_time(double workgroups, double invocations, double steps, double work, double latency) {
  // A step takes at least its latency, however few invocations there are. More invocations than a
  // core has lanes, or more workgroups than cores, take turns.
  const GpuCosts& gpu = kGpuCosts;
  const double turns = std::ceil(workgroups / gpu.cores) * invocations / gpu.lanes;
  // Converted to the unit of CPU-type devices, a register of 8 lanes.
  return steps * std::max(latency, work * turns) * gpu.cores * gpu.lanes / kCpuLanes;
}

double tiles_of(const GemmSize& size, double rows, double columns) {
  return size.batch * std::ceil(size.m / rows) * std::ceil(size.n / columns);
}

double prologue_instructions(const GemmSize& size, double a_loads, double b_loads) {
  return (a_loads * size.a_prologue + b_loads * size.b_prologue) * size.unrolled / 4;
}

void add_with_splits(std::vector<Tile>& out, Tile tile, const GemmSize& size, double workgroups,
                     const std::function<double(int splits)>& time_of) {
  constexpr int kMaxSplits = 16;
  constexpr double kMinBlocks = 4;   // of one part
  constexpr double kWorkgroup = 64;  // of the launch that adds
  const GpuCosts& gpu = kGpuCosts;
  tile.cost = time_of(1);
  out.push_back(tile);
  if (!size.constant_result) return;
  Tile best = tile;
  const double adding_workgroups = std::ceil(size.batch * size.m * size.n / 4 / kWorkgroup);
  for (int n = 2; n <= kMaxSplits; n *= 2) {
    if (workgroups * n > 2 * gpu.cores || size.k / tile.step / n < kMinBlocks) break;
    const double adding = gpu_time(adding_workgroups, kWorkgroup, n + gpu.launch, gpu.load);
    const double cost = gpu.second_launch_gain * (time_of(n) + adding);
    if (best.splits > 1 && cost >= best.cost) continue;
    best.splits = n;
    best.cost = cost;
  }
  if (best.splits > 1) out.push_back(best);
}

std::vector<Index> gemm_rows(Gemm& gemm, Value first, int count) {
  std::vector<Index> out;
  out.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out.push_back(gemm.row(first + i));
  return out;
}

std::vector<Column> gemm_columns(Gemm& gemm, Value first, int count) {
  std::vector<Column> out;
  out.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out.push_back(gemm.column(first + i));
  return out;
}

Result<std::vector<Values>> load_a_rows(Gemm& gemm, const std::vector<Index>& rows,
                                        const KStep& step) {
  std::vector<Values> out;
  for (const Index& row : rows) {
    RP_ASSIGN(Values x, gemm.load_a(row, step));
    out.push_back(std::move(x));
  }
  return out;
}

std::string Tile::describe() const {
  std::string s(schedule->name());
  s += " " + std::to_string(rows) + "x" + std::to_string(columns);
  if (matrix) s += "x" + std::to_string(step);
  if (matrix.scope == MmaScope::Workgroup) s += " of a workgroup";
  if (stages > 0) s += ", " + std::to_string(stages) + " stages";
  if (slices > 1) s += " in " + std::to_string(slices) + " slices";
  if (splits > 1) s += ", K split in " + std::to_string(splits);
  if (cluster_rows > 1) s += ", rows over a cluster of " + std::to_string(cluster_rows);
  if (cluster_parts > 1) s += ", K split over a cluster of " + std::to_string(cluster_parts);
  return s;
}

}  // namespace reprise::shaders
