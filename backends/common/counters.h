// Counters of driver calls, which any thread may increment.
#pragma once

#include <atomic>

#include "runtime/device/backend.h"

namespace reprise {

struct AtomicCounters {
  std::atomic<uint64_t> submits = 0, dispatches = 0, barriers = 0, copies = 0;
  std::atomic<uint64_t> recordings = 0, kernels = 0, allocations = 0;

  Counters read() const {
    Counters c;
    c.submits = submits;
    c.dispatches_recorded = dispatches;
    c.barriers_recorded = barriers;
    c.copies_recorded = copies;
    c.recordings = recordings;
    c.pipelines_created = kernels;
    c.allocations = allocations;
    return c;
  }
};

}  // namespace reprise
