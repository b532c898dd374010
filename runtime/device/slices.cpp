#include "runtime/device/slices.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {
namespace {

// Slices are made shorter than they may become, so that a launch whose time varies a little is not
// cut again and again.
constexpr double kMargin = 1.1;

// How a launch is cut whose time is unknown: one that takes 30 s would not keep the device for the
// 2 s that watchdogs allow. Small grids are not worth the submissions.
constexpr uint32_t kUnmeasuredPieces = 16;
constexpr uint64_t kSmallGrid = 64;  // workgroups

size_t longest_axis(const Command& c) {
  return static_cast<size_t>(std::ranges::max_element(c.grid) - c.grid.begin());
}

uint32_t most_pieces(const Command& c, bool cuts_launches) {
  if (!cuts_launches || c.kind != Command::Kind::Dispatch) return 1;
  return std::max(c.grid[longest_axis(c)], 1U);
}

uint32_t unmeasured_pieces(const Command& c) {
  const uint64_t groups = uint64_t{c.grid[0]} * c.grid[1] * c.grid[2];
  return static_cast<uint32_t>(std::clamp<uint64_t>(groups / kSmallGrid, 1, kUnmeasuredPieces));
}

/// Appends the launch in pieces of about the same number of workgroups.
void append_pieces(const Command& launch, uint32_t pieces, std::vector<Command>& out) {
  const size_t axis = longest_axis(launch);
  const uint64_t count = launch.grid[axis];
  for (uint64_t p = 0; p < pieces; ++p) {
    const auto begin = static_cast<uint32_t>(count * p / pieces);
    const auto end = static_cast<uint32_t>(count * (p + 1) / pieces);
    Command piece = launch;
    piece.first[axis] = begin;
    piece.grid[axis] = end - begin;
    out.push_back(std::move(piece));
  }
}

}  // namespace

std::vector<double> Slices::by_launch(std::span<const double> of_pieces) const {
  std::vector<double> out(pieces.size(), 0);
  size_t at = 0;
  for (size_t launch = 0; launch < pieces.size(); ++launch) {
    for (uint32_t p = 0; p < pieces[launch] && at < of_pieces.size(); ++p)
      out[launch] += of_pieces[at++];
  }
  return out;
}

Slices slices_of(std::vector<Command> commands, std::span<const double> ns, uint64_t most_ns,
                 bool cuts_launches) {
  const double most = static_cast<double>(most_ns) / kMargin;
  Slices out;
  double sum = 0;
  for (Command& c : commands) {
    if (!c.is_dispatch()) {
      out.commands.push_back(std::move(c));
      continue;
    }
    const size_t launch = out.pieces.size();
    const bool known = launch < ns.size();
    const uint32_t most_of_it = most_pieces(c, cuts_launches);
    const double wanted =
        known ? std::max(std::ceil(ns[launch] / most), 1.0) : unmeasured_pieces(c);
    const auto pieces = static_cast<uint32_t>(std::min<double>(wanted, most_of_it));
    const double each = known ? ns[launch] / pieces : most;
    const size_t begin = out.commands.size();
    append_pieces(c, pieces, out.commands);
    for (size_t i = begin; i < out.commands.size(); ++i) {
      const bool is_first = launch == 0 && i == begin;
      if (!is_first && sum + each > most) {
        out.cuts.push_back(i);
        sum = 0;
      }
      sum += each;
    }
    out.pieces.push_back(pieces);
    out.max_pieces.push_back(most_of_it);
  }
  return out;
}

bool are_too_long(const Slices& slices, std::span<const double> ns, uint64_t most_ns) {
  const auto most = static_cast<double>(most_ns);
  size_t cut = 0, launch = 0, piece = 0, in_part = 0;
  double sum = 0;
  for (size_t i = 0; i < slices.commands.size(); ++i) {
    if (cut < slices.cuts.size() && slices.cuts[cut] == i) {
      ++cut;
      in_part = 0;
      sum = 0;
    }
    if (!slices.commands[i].is_dispatch()) continue;
    const uint32_t pieces = slices.pieces[launch];
    sum += ns[launch] / pieces;
    ++in_part;
    if (sum > most && (in_part > 1 || pieces < slices.max_pieces[launch])) return true;
    if (++piece == pieces) {
      piece = 0;
      ++launch;
    }
  }
  return false;
}

}  // namespace reprise
