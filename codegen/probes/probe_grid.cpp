#include "codegen/probes/probe_grid.h"

#include <algorithm>

#include "runtime/base/random.h"

namespace reprise {

uint64_t workgroup_count(const std::array<uint32_t, 3>& grid) {
  return uint64_t{grid[0]} * grid[1] * grid[2];
}

std::array<uint32_t, 3> first_workgroups(const std::array<uint32_t, 3>& grid, uint64_t n,
                                         uint32_t cluster) {
  std::array<uint32_t, 3> part{1, 1, 1};
  for (size_t axis = 0; axis < 3; ++axis) {
    const uint32_t whole = axis == 0 ? cluster : 1;
    part[axis] = static_cast<uint32_t>(std::clamp<uint64_t>(n, whole, grid[axis]));
    part[axis] -= part[axis] % whole;
    n /= part[axis];
  }
  return part;
}

std::vector<std::array<uint32_t, 3>> interpreted_workgroups(const std::array<uint32_t, 3>& grid,
                                                            uint64_t all_up_to, uint32_t cluster) {
  const uint64_t n = workgroup_count(grid) / cluster;
  std::vector<uint64_t> chosen;
  chosen.reserve(kInterpretedWorkgroups);
  const uint64_t most = std::max<uint64_t>(kInterpretedWorkgroups / cluster, 2);
  if (n <= most || n <= all_up_to / cluster) {
    for (uint64_t i = 0; i < n; ++i) chosen.push_back((i + n - 1) % n);  // the last one first
  } else {
    chosen = {n - 1, 0};
    uint64_t state = n;
    while (chosen.size() < most) {
      const uint64_t one = splitmix64(state) % n;
      if (std::find(chosen.begin(), chosen.end(), one) == chosen.end()) chosen.push_back(one);
    }
  }
  std::vector<std::array<uint32_t, 3>> out;
  out.reserve(chosen.size() * cluster);
  for (const uint64_t first : chosen)
    for (uint64_t i = first * cluster; i < (first + 1) * cluster; ++i)
      out.push_back({static_cast<uint32_t>(i % grid[0]),
                     static_cast<uint32_t>(i / grid[0] % grid[1]),
                     static_cast<uint32_t>(i / grid[0] / grid[1])});
  return out;
}

}  // namespace reprise
