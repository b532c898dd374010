// Which accesses to shared memory precede which in a kernel whose roles run side by side: vector
// clocks. A race is found wherever synchronisation allows one, not only in the order that ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::kernel {

/// An access: whose it is, and when by the clock of the agent.
struct Stamp {
  uint32_t agent = 0, lane = 0, time = 0;
};

/// What each subgroup knows to be over. Agents are subgroups; the products that a subgroup's team
/// computes asynchronously, whose time is the number of their group; signals, which stand for the
/// copies that count at them, and whose time is the number of the phase; and the stores of boxes
/// that a subgroup began, whose time is their number.
class Clocks {
 public:
  /// A lane that is not the same as any.
  static constexpr uint32_t kAnyLane = ~uint32_t{0};

  Clocks(uint32_t subgroups, uint32_t signals);
  uint32_t products(uint32_t subgroup) const { return subgroups_ + subgroup; }
  uint32_t copies(uint32_t signal) const { return 3 * subgroups_ + signal; }
  uint32_t stores(uint32_t subgroup) const { return 2 * subgroups_ + subgroup; }

  Stamp now(uint32_t subgroup, uint32_t lane) const {
    return {subgroup, lane, known_[subgroup][subgroup]};
  }
  /// Whether the access precedes what a lane of a subgroup does now.
  bool precedes(const Stamp& s, uint32_t subgroup, uint32_t lane) const {
    const bool own = s.agent == subgroup && s.lane == lane && lane != kAnyLane;
    return own || known_[subgroup][s.agent] > s.time;
  }
  /// The subgroup knows that the agent's accesses before a time are over.
  void learn(uint32_t subgroup, uint32_t agent, uint32_t time);
  /// These subgroups wait for each other.
  void meet(uint32_t first, uint32_t count);
  void meet(std::span<const uint32_t> subgroups);
  /// The subgroup arrives at a signal, whose phase completes, for which a subgroup then waits.
  void arrive(uint32_t subgroup, uint32_t signal);
  void complete(uint32_t signal);
  void await(uint32_t subgroup, uint32_t signal);
  /// Whether one that arrived at a signal knew of what a subgroup did.
  bool is_told(uint32_t signal, const Stamp& s) const { return arrived_[signal][s.agent] > s.time; }
  /// Whether one of these subgroups knows that an agent's accesses at a time are over.
  bool anyone_knows(uint32_t agent, uint32_t time, uint32_t first, uint32_t count) const;

 private:
  using Times = std::vector<uint32_t>;  // by agent: times before these are over
  static void join(Times& to, const Times& from);

  uint32_t subgroups_;
  std::vector<Times> known_;                // by subgroup
  std::vector<Times> arrived_, signalled_;  // by signal: in this phase, in all before
};

/// The accesses to one shared array, by units of a few elements.
class AccessLog {
 public:
  AccessLog(size_t elements, size_t unit) : unit_(unit), units_((elements + unit - 1) / unit) {}
  size_t unit() const { return unit_; }

  bool is_written(size_t element) const { return units_[element / unit_].written; }
  /// Log an access by `stamp` that a lane of a subgroup begins. False if it races with another.
  bool read(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup,
            uint32_t lane);
  bool write(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup,
             uint32_t lane);
  /// An asynchronous copy begins: the element has no value until it lands.
  bool begin(size_t element, const Stamp& stamp, const Clocks& clocks, uint32_t subgroup);
  void land(size_t element) { units_[element / unit_].written = true; }

 private:
  struct Unit {
    bool written = false, has_writer = false;
    Stamp writer;
    std::vector<Stamp> readers;  // since then, at most one for each agent and lane
  };
  size_t unit_;
  std::vector<Unit> units_;
};

}  // namespace reprise::kernel
