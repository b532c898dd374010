// CHECK=bytes: every access of every kernel. It has to lie within what the node was given, and
// nothing may touch the same bytes that no path orders before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_standin/driver/graph.h"

namespace reprise::standin {

/// One launch of a graph; or, without ancestors, a single kernel or copy.
class ByteCheck {
 public:
  ByteCheck(const std::vector<WorkPtr>* work, const Ancestors* ancestors)
      : work_(work), ancestors_(ancestors) {}

  /// The node that runs next, whether its kernel awaits those before it itself, and what it may
  /// access: its touches, and its error word.
  void begin(uint32_t node, bool early, const Work& work, const std::vector<Touch>& touched,
             const Allocations& memory);
  /// For copies.
  void range(uint64_t address, size_t bytes, uint32_t kind);
  /// What is wrong so far; empty: nothing.
  const std::string& problem() const { return problem_.message(); }
  /// From inside a kernel: ends its workgroup when the access is wrong.
  static void access(test::Shim* shim, uint64_t address, uint64_t bytes, uint32_t kind);

 private:
  /// Of four bytes: the node that wrote them last, plus one, and who has read them since.
  struct Cell {
    uint32_t writer = 0, readers = 0;
  };
  struct Allowed {
    uint64_t begin, end;
    const Allocation* allocation;
    std::vector<Cell>* cells;  // null where nothing of the graph writes, or order is not looked at
  };
  bool check(uint64_t address, uint64_t bytes, uint32_t kind);
  bool order(Cell& cell, uint64_t address, uint32_t kind);
  bool ordered(uint32_t earlier) const {
    return earlier == node_ || ancestors_->before(earlier, node_);
  }
  uint32_t with_reader(uint32_t readers);
  std::string describe(uint64_t address, uint64_t bytes, uint32_t kind) const;

  const std::vector<WorkPtr>* work_;
  const Ancestors* ancestors_;
  uint32_t node_ = 0;
  bool early_ = false;
  std::string name_;
  std::vector<Allowed> allowed_;
  std::vector<std::shared_ptr<Allocation>> held_;
  std::map<const Allocation*, std::vector<Cell>> cells_;
  /// Sets of readers by number, each ordered; and what becomes of one with this node.
  std::vector<std::vector<uint32_t>> reader_sets_{{}};
  std::map<std::vector<uint32_t>, uint32_t> set_numbers_{{{}, 0}};
  std::map<uint32_t, uint32_t> next_set_;
  Status problem_;
};

}  // namespace reprise::standin
