// The order of the commands of a recording as edges, for backends that take a graph. Other backends
// take barriers between levels. All functions are pure functions of a verified plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/bind.h"

namespace reprise::plan {

/// Which intermediate tensors may share memory.
struct ArenaReuse {
  enum class Kind : uint8_t {
    None,          // none: each has its own memory
    Placed,        // those whose bytes overlap in `placement`, which does not change
    AnyPlacement,  // any two in the arena whose lifetimes do not overlap, because sizes vary
  } kind = Kind::None;
  const ArenaPlacement* placement = nullptr;  // offset kNone: the tensor has its own memory
  const IdVector<BufferId, uint64_t>* bytes = nullptr;  // only for Placed
};

struct OrderNode {
  enum class Kind : uint8_t {
    CopyIn,   // copies model input `index` to the memory that launches read
    Launch,   // step `index`
    Join,     // does nothing; nodes after it thereby wait for all nodes before it
    CopyOut,  // copies model output `index` to staging memory
  } kind = Kind::Launch;
  uint32_t index = 0;
  std::vector<uint32_t> after;  // earlier nodes
  /// A launch that may begin before the launches in `after` have ended, once all their workgroups
  /// have begun: its kernel awaits their end (KernelCode::early).
  bool early = false;
};

/// The nodes of a segment without edges, for devices that take barriers: copies in, launches by
/// level, copies out. `inputs` and `outputs` are the model inputs and outputs to copy.
std::vector<OrderNode> segment_nodes(const Segment& segment, std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs);

/// The same nodes with an edge for every hazard (read after write, write after read, or write after
/// write of the same bytes) that does not follow from other edges. If many launches free memory
/// that many others may reuse, a join between them keeps the number of edges from growing with the
/// product of their numbers.
std::vector<OrderNode> segment_order(const Plan& plan, const Segment& segment,
                                     std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs, const ArenaReuse& reuse);

}  // namespace reprise::plan
