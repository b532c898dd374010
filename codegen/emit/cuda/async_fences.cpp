#include "codegen/emit/cuda/async_fences.h"

namespace reprise::emit {
namespace {

using kernel::Inst;
using kernel::Op;

class AsyncFences {
 public:
  explicit AsyncFences(const kernel::Kernel& k) : k_(k) {
    for (const Inst& i : k.insts) {
      if (i.op == Op::BoxStore) read_.insert(kernel::BoxAccess::of(i.imm).shared);
      if (i.op != Op::TeamMulAdd) continue;
      const auto p = kernel::TeamOperands::of(i.imm);
      if (!p.held) read_.insert(p.left.shared);
      read_.insert(p.right.shared);
    }
  }

  std::set<int32_t> find() {
    if (!read_.empty()) block(0, false);
    return std::move(found_);
  }

 private:
  /// `stored`: whether a store may precede the block. Returns whether one may precede its end.
  bool block(int32_t index, bool stored) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      if (i.op == Op::SharedStore) stored |= read_.contains(i.imm);
      if (i.op == Op::MatrixStore) stored |= read_.contains(kernel::MatrixAccess::of(i.imm).shared);
      if (i.op == Op::Barrier || i.op == Op::Arrive) {
        if (stored) found_.insert(id);
        stored = false;
      }
      // A loop may not run at all, and its end precedes its beginning.
      bool after = stored;
      for (const int32_t b : i.blocks) after |= block(b, stored);
      if (i.op == Op::For && after && !stored) block(i.blocks[0], true);
      stored = after;
    }
    return stored;
  }

  const kernel::Kernel& k_;
  std::set<uint64_t> read_;  // shared arrays that boxes are stored from, or that products read
  std::set<int32_t> found_;
};

}  // namespace

std::set<int32_t> async_fences(const kernel::Kernel& k) {
  return AsyncFences(k).find();
}

}  // namespace reprise::emit
