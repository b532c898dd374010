// Copies a kernel through a Builder, instruction by instruction, so that a pass replaces what it
// wants and gets folding and sharing for free.
#pragma once

#include <functional>
#include <span>

#include "codegen/kernel/builder.h"

namespace reprise::kernel {

class Rebuilder {
 public:
  /// The source must verify and outlive the rebuilder; `to` starts with the interface it shall
  /// have.
  Rebuilder(const Kernel& from, Builder to);
  virtual ~Rebuilder() = default;

  /// The new kernel. What is dead in it stays: see remove_dead().
  Result<Kernel> run();

 protected:
  /// Writes the replacement of one instruction; `args` are its operands' replacements. The default
  /// copies. If and For are copied by the rebuilder itself.
  virtual Val rewrite(const Inst& inst, std::span<const Val> args);
  /// Called before an If or For is written.
  virtual void branch(const Inst&) {}
  Val copy(const Inst& inst, std::span<const Val> args);
  /// The replacement of an instruction that is copied already.
  Val mapped(Val v) const { return map_[static_cast<size_t>(v.id)]; }
  /// Reports what the target cannot do; run() then returns the first.
  void fail(Status status);

  const Kernel& from_;
  Builder to_;

 private:
  void block(int32_t index);
  void instruction(int32_t id);
  void copy_matrix(const Inst& inst, std::span<const Val> args);

  std::vector<Val> map_;
  Status status_;
};

/// Drops instructions without effect, and locals' stores that nothing loads; renumbers the rest in
/// order. Constants come first, in the order of their use, so that kernels of equal structure() are
/// equal.
void remove_dead(Kernel& k);

}  // namespace reprise::kernel
