#include "codegen/interpreter/clocks.h"

#include <algorithm>
#include <numeric>

namespace reprise::kernel {

Clocks::Clocks(uint32_t subgroups, uint32_t signals)
    : subgroups_(subgroups),
      known_(subgroups, Times(3 * subgroups + signals)),
      arrived_(signals, Times(3 * subgroups + signals)),
      signalled_(arrived_) {
  // What a subgroup does is not over, so its times begin after those that are.
  for (uint32_t s = 0; s < subgroups; ++s) known_[s][s] = 1;
}

void Clocks::join(Times& to, const Times& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
}

void Clocks::learn(uint32_t subgroup, uint32_t agent, uint32_t time) {
  known_[subgroup][agent] = std::max(known_[subgroup][agent], time);
}

void Clocks::meet(uint32_t first, uint32_t count) {
  std::vector<uint32_t> subgroups(count);
  std::iota(subgroups.begin(), subgroups.end(), first);
  meet(subgroups);
}

void Clocks::meet(std::span<const uint32_t> subgroups) {
  if (subgroups.empty()) return;
  Times all(known_[subgroups[0]].size());
  for (const uint32_t s : subgroups) {
    ++known_[s][s];
    join(all, known_[s]);
  }
  for (const uint32_t s : subgroups) known_[s] = all;
}

void Clocks::arrive(uint32_t subgroup, uint32_t signal) {
  ++known_[subgroup][subgroup];
  join(arrived_[signal], known_[subgroup]);
}

void Clocks::complete(uint32_t signal) {
  ++arrived_[signal][copies(signal)];
  join(signalled_[signal], arrived_[signal]);
}

void Clocks::await(uint32_t subgroup, uint32_t signal) {
  // What a subgroup knows of itself includes accesses that are not over: its own time stays.
  join(known_[subgroup], signalled_[signal]);
}

bool Clocks::anyone_knows(uint32_t agent, uint32_t time, uint32_t first, uint32_t count) const {
  const auto some = std::span(known_).subspan(first, count);
  return std::ranges::any_of(some, [&](const Times& t) { return t[agent] > time; });
}

bool AccessLog::read(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup,
                     uint32_t lane) {
  Unit& u = units_[element / unit_];
  const bool alone = !u.has_writer || clocks.precedes(u.writer, subgroup, lane);
  const auto same = [&](const Stamp& s) { return s.agent == stamp.agent && s.lane == stamp.lane; };
  const auto known = std::ranges::find_if(u.readers, same);
  if (known != u.readers.end()) {
    known->time = stamp.time;
  } else {
    u.readers.push_back(stamp);
  }
  return alone;
}

bool AccessLog::write(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup,
                      uint32_t lane) {
  Unit& u = units_[element / unit_];
  const auto before = [&](const Stamp& s) { return clocks.precedes(s, subgroup, lane); };
  const bool alone = (!u.has_writer || before(u.writer)) && std::ranges::all_of(u.readers, before);
  u.readers.clear();
  u.writer = stamp;
  u.has_writer = u.written = true;
  return alone;
}

bool AccessLog::begin(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup) {
  const bool alone = write(element, stamp, clocks, subgroup, Clocks::kAnyLane);
  units_[element / unit_].written = false;
  return alone;
}

}  // namespace reprise::kernel
