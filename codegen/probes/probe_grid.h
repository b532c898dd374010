// Which workgroups of a launch a probe launches and interprets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace reprise {

inline constexpr uint32_t kInterpretedWorkgroups = 8;

uint64_t workgroup_count(const std::array<uint32_t, 3>& grid);
/// A grid of at most `n` of the first workgroups of a grid.
std::array<uint32_t, 3> first_workgroups(const std::array<uint32_t, 3>& grid, uint64_t n);
/// The workgroups to interpret, in this order: kInterpretedWorkgroups of them, the last and the
/// first among these, or all if there are no more than `all_up_to`.
std::vector<std::array<uint32_t, 3>> interpreted_workgroups(const std::array<uint32_t, 3>& grid,
                                                            uint64_t all_up_to);

}  // namespace reprise
