// The state of a cluster of workgroups whose roles run side by side. A workgroup without others is
// a cluster of one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codegen/interpreter/clocks.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// A counter of a Signal.
struct SignalState {
  uint32_t phase = 0, arrived = 0;
  uint64_t bytes = 0;          // of copies that have not landed
  std::vector<Stamp> copiers;  // when copies of this phase began, by the clocks of subgroups
  uint32_t copied = 0;         // the phase after that of the last copy; 0: there was none
  int32_t copier = 0;          // the instruction of the last copy
  uint32_t where = 0;          // and an invocation that executed it
};

/// A copy of a box that has not landed.
struct BoxInFlight {
  uint32_t rank = 0;                // of the workgroup that gets it
  uint32_t shared = 0, signal = 0;  // the signal's counter, over all signals
  size_t at = 0;
  std::vector<uint64_t> values;
  uint64_t bytes = 0;
};

/// A store of a box that has not happened.
struct StoreInFlight {
  uint32_t rank = 0;  // of the workgroup that stores it
  int32_t instruction = 0;
  uint32_t where = 0;  // the first invocation of the subgroup
  size_t at = 0;       // in the shared array
  std::array<int32_t, 4> coordinates{};
};

/// The stores of boxes of a subgroup. They are numbered from 0.
struct BoxStores {
  uint32_t begun = 0, drained = 0;
  int32_t last = 0;  // the instruction of the last one
};

/// The asynchronous products of a team. Groups are numbered from 0.
struct TeamState {
  uint32_t open = 0;               // the group that the next product belongs to
  uint32_t finished = 0;           // those below are
  uint32_t used = 0;               // the group after that of the last product
  int32_t last = 0;                // the instruction of the last product
  std::vector<uint32_t> matrices;  // by matrix: the group after that of its last product
};

/// The last access of a subgroup to the shared memory of another workgroup.
struct Visit {
  bool exists = false;
  Stamp stamp;
  int32_t instruction = 0;
  uint32_t where = 0;  // an invocation that executed it
};

/// Subgroups, teams and counters are numbered through the cluster, one workgroup after another.
struct RoleState {
  /// `each`: the subgroups of a workgroup.
  RoleState(const Kernel& k, uint32_t each);

  uint32_t counter(uint32_t rank, size_t signal, uint32_t index) const {
    return rank * counters + first_counter[signal] + index;
  }
  AccessLog& log(uint32_t rank, size_t array) { return arrays[rank * shared + array]; }
  Visit& visit(uint32_t subgroup, uint32_t rank) { return visits[subgroup * cluster + rank]; }

  uint32_t cluster;                      // workgroups
  uint32_t subgroups, counters, shared;  // of a workgroup
  Clocks clocks;
  std::vector<AccessLog> arrays;        // by workgroup and array
  std::vector<uint32_t> first_counter;  // by signal
  std::vector<SignalState> signals;     // by counter
  std::vector<Visit> visits;            // by subgroup and visited workgroup
  std::vector<TeamState> teams;
  std::vector<BoxInFlight> boxes;          // oldest first
  std::vector<StoreInFlight> stores;       // likewise
  std::vector<BoxStores> subgroup_stores;  // by subgroup
  uint64_t random = 0;
};

}  // namespace reprise::kernel
