// The order of what one recording does, as edges: for backends that take a graph, where others take
// barriers between levels. Pure functions of a verified plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/bind.h"

namespace reprise::plan {

/// Which intermediate tensors may lie in the same memory.
struct ArenaReuse {
  enum class Kind : uint8_t {
    None,          // each has memory of its own
    Placed,        // those whose bytes overlap in `placement`, which stays as it is
    AnyPlacement,  // sizes vary: every two in the arena whose lifetimes do not overlap
  } kind = Kind::None;
  const ArenaPlacement* placement = nullptr;            // kNone as offset: memory of its own
  const IdVector<BufferId, uint64_t>* bytes = nullptr;  // only for Placed
};

struct OrderNode {
  enum class Kind : uint8_t {
    CopyIn,   // of model input `index` to where launches read it
    Launch,   // step `index`
    Join,     // does nothing: what follows waits for all that it waits for
    CopyOut,  // of model output `index`
  } kind = Kind::Launch;
  uint32_t index = 0;
  std::vector<uint32_t> after;  // earlier nodes
};

/// Copies in, launches by level, copies out, without edges: for devices that take barriers.
std::vector<OrderNode> segment_nodes(const Segment& segment, std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs);

/// Copies in, launches by level, copies out, with an edge wherever one must finish before another:
/// reads after writes, writes after reads and writes after writes of the same bytes, without those
/// that follow from others. Joins stand where many launches free memory that many others may take,
/// so that edges do not grow with the product of their numbers.
std::vector<OrderNode> segment_order(const Plan& plan, const Segment& segment,
                                     std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs, const ArenaReuse& reuse);

}  // namespace reprise::plan
