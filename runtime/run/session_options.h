// How a session runs a package.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/host_memory.h"
#include "runtime/base/log.h"

namespace reprise {

class SharedArena;

struct SessionOptions {
  unsigned max_in_flight = 2;  // 1 if the package has states
  bool timestamps = false;     // measure the device time of each launch
  bool fullgraph = false;      // refuse a plan with host calls (Code::Unsupported; names the nodes)
  bool replay = true;          // false: record again on each run (mode "default")
  /// How many plans for some sizes (package::Variant::plans), for each run in flight, keep their
  /// recordings and parameter blocks. Another one replaces that which was used longest ago. At
  /// least 1.
  unsigned max_recorded = 8;
  /// create() launches every kernel without work, those of all plans included. A driver that
  /// compiles a kernel when it is first launched then does so in create() and not in the first run.
  bool warm_up = false;
  /// create() runs the probes of the package's kernels. If one fails, create() takes the next
  /// variant that fits the device and whose kernels pass, or else the host plan. `log` and
  /// variant_notes() say why. A package without probes is used unchecked.
  bool check_kernels = false;
  /// Folder that keeps verdicts, so that kernels are checked again only on another device or
  /// driver. Empty: verdicts are not kept.
  std::string cache_dir = {};
  Log log = {};
  /// Give each intermediate tensor its own allocation of its exact size instead of a place in the
  /// arena, for tools that watch allocations.
  bool isolate_tensors = false;
  /// Time limit of one run; 0: default_timeout_ns(). If host kernels or control flow divide the run
  /// into several submissions, it applies to all of these together, and to all host kernels
  /// together. It ends loops between two iterations, on the host between two of their nodes.
  uint64_t timeout_ns = 0;
  /// If not 0, a run on a device is a sequence of submissions of about this length, by measurement,
  /// so that other users of the device have their turn in between. A launch that takes longer is
  /// several submissions (runtime/device/slices.h), or one if the device cannot cut it. Where the
  /// device has no timestamps, each launch is one. The next part is submitted by AsyncRun::ended()
  /// or wait() when the part before it has ended. The time limit is that of each part.
  uint64_t slice_ns = 0;
  /// Where runs have the tensors that they make on the host: results that are not bound, values of
  /// host kernels, and the states of a session on the host. Null: on the heap.
  HostMemoryPtr host_memory = {};
  /// Memory for intermediate tensors that other sessions on the device use as well; null: own
  /// memory. Runs of these sessions take turns, so max_in_flight is 1. Bodies of control flow have
  /// memory of their own.
  std::shared_ptr<SharedArena> arena = {};
  /// Operators with random results draw other numbers in each run; sessions with the same seed draw
  /// the same. A node's attribute `seed` makes its numbers the same in all runs and sessions.
  uint64_t seed = 0;
};

}  // namespace reprise
