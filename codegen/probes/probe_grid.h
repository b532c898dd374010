// Which workgroups of a launch a probe launches and interprets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace reprise {

inline constexpr uint32_t kInterpretedWorkgroups = 8;

uint64_t workgroup_count(const std::array<uint32_t, 3>& grid);
/// A grid of at most `n` (or one cluster) of the first workgroups of a grid of whole clusters.
std::array<uint32_t, 3> first_workgroups(const std::array<uint32_t, 3>& grid, uint64_t n,
                                         uint32_t cluster);
/// The workgroups to interpret, in this order: kInterpretedWorkgroups of them, the last and the
/// first among these, or all if there are no more than `all_up_to`. Whole clusters.
std::vector<std::array<uint32_t, 3>> interpreted_workgroups(const std::array<uint32_t, 3>& grid,
                                                            uint64_t all_up_to, uint32_t cluster);

}  // namespace reprise
