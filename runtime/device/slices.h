// How the commands of a recording are cut, so that no submission keeps the device for long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise {

/// The launches of a recording as dispatches, and the parts that these are submitted in.
struct Slices {
  std::vector<Command> commands;
  std::vector<size_t> cuts;          // a part begins at each of these commands; ascending
  std::vector<uint32_t> pieces;      // by launch: the number of its dispatches, which are in a row
  std::vector<uint32_t> max_pieces;  // by launch: the most that it can have

  /// The sums over the pieces of each launch. `of_pieces`: one number for each dispatch.
  std::vector<double> by_launch(std::span<const double> of_pieces) const;
};

/// Slices of about `most_ns`. `ns` are the times of the launches, uncut, or empty: then each of
/// them is a part, and one with a large grid is several. A launch that takes longer becomes several
/// dispatches, along the longest axis of its grid, if `cuts_launches` (Device::cuts_launches) and
/// if the grid is known.
Slices slices_of(std::vector<Command> commands, std::span<const double> ns, uint64_t most_ns,
                 bool cuts_launches);

/// Whether slices would be shorter if they were made again for these times of the launches.
bool are_too_long(const Slices& slices, std::span<const double> ns, uint64_t most_ns);

}  // namespace reprise
