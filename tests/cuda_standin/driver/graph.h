// Graphs as an application builds them, and what becomes of them when they are instantiated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "backends/cuda/api.h"
#include "tests/cuda_standin/driver/handles.h"
#include "tests/cuda_standin/driver/memory.h"
#include "tests/cuda_standin/driver/module.h"
#include "tests/cuda_standin/driver/settings.h"
#include "tests/cuda_standin/driver/stream.h"

namespace reprise::standin {

struct KernelWork {
  std::shared_ptr<Function> function;
  std::array<uint32_t, 3> grid{1, 1, 1}, workgroup{1, 1, 1};
  std::vector<std::byte> block;  // as it was at the call
};

struct CopyWork {
  uint64_t from = 0, to = 0;  // addresses of device or host
  size_t bytes = 0;
  bool from_host = false, to_host = false;
};

struct RecordWork {
  std::shared_ptr<Event> event;
};

/// A node that others wait for.
struct EmptyWork {};

/// What a node does. Never changes: an update makes another one.
struct Work {
  std::variant<KernelWork, CopyWork, RecordWork, EmptyWork> what;
  bool enabled = true;
  std::string name() const;
};
using WorkPtr = std::shared_ptr<const Work>;

struct Graph;
struct Node : Object {
  using Handle = cuda::CUgraphNode;
  static constexpr Kind kKind = Kind::Node;
  Node() : Object(kKind) {}
  uint64_t graph = 0;
  uint32_t index = 0;
};

/// Dependencies: of node n, all before n.
using After = std::vector<std::vector<uint32_t>>;

struct Graph : Object {
  using Handle = cuda::CUgraph;
  static constexpr Kind kKind = Kind::Graph;
  Graph() : Object(kKind) {}
  std::vector<WorkPtr> work;
  std::vector<uint64_t> nodes;  // handles
  After after;
  After programmatic;  // those of `after` that only the end of the kernel's own wait follows
};

/// Which nodes come before which, by all paths.
class Ancestors {
 public:
  explicit Ancestors(const After& after);
  bool ordered(uint32_t a, uint32_t b) const { return before(a, b) || before(b, a); }
  /// Whether a path leads from `a` to `b`.
  bool before(uint32_t a, uint32_t b) const {
    return (bits_[size_t{b} * words_ + a / 64] >> (a % 64) & 1U) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

/// An order that the dependencies allow.
std::vector<uint32_t> choose_order(const After& after, Order order, uint64_t seed);

/// What a node reads and writes, of allocations.
struct Touch {
  std::shared_ptr<Allocation> allocation;
  bool reads = false, writes = false;
  uint64_t address = 0;
};
/// A pointer that is in no live allocation is in `problem`.
std::vector<Touch> touches(const Work& work, const Allocations& memory, std::string& problem);

/// What follows from the nodes' parameters: computed again when they or the allocations change.
struct Analysis {
  std::string race;  // two nodes that no path orders, and what they share; empty: none
  /// Allocations whose contents no node sees before another has written them.
  std::vector<std::shared_ptr<Allocation>> overwritten;
  /// Of those, the ones that no node reads: what they hold is for the host.
  std::vector<std::shared_ptr<Allocation>> results;
  std::vector<std::shared_ptr<Allocation>> touched;
  std::vector<uint64_t> lowest;  // parallel to `touched`: the lowest address that nodes are given
};
Analysis analyse(const std::vector<WorkPtr>& work, const Ancestors& ancestors,
                 const Allocations& memory);

struct Exec : Object {
  using Handle = cuda::CUgraphExec;
  static constexpr Kind kKind = Kind::Exec;
  Exec() : Object(kKind) {}
  std::vector<WorkPtr> work;           // guarded by the driver's mutex
  std::map<uint64_t, uint32_t> nodes;  // by the handle of the graph's node
  uint64_t version = 0, launches = 0;
  After after;
  std::vector<bool> early, triggers;     // by node: edges to it, or from it, are programmatic
  std::unique_ptr<Ancestors> ancestors;  // null in graphs that are too large for it

  std::mutex running;  // one launch at a time, as in CUDA; guards the following
  std::shared_ptr<const Analysis> analysis;
  uint64_t analysed_version = 0, analysed_generation = 0;
};

}  // namespace reprise::standin
