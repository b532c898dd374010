// Copies a kernel through a Builder, instruction by instruction. A rewrite overrides what it wants
// to replace, and the builder folds constants and reuses equal instructions.
#pragma once

#include <functional>
#include <span>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

class Rebuilder {
 public:
  /// `from` must verify and outlive the rebuilder. `to` must already have the interface of the new
  /// kernel.
  Rebuilder(const Kernel& from, Builder to);
  virtual ~Rebuilder() = default;

  /// Returns the new kernel. It may contain dead instructions: see remove_dead().
  Result<Kernel> run();

 protected:
  /// Writes the replacement of one instruction. `args` are the replacements of its operands. The
  /// default copies it. The rebuilder itself copies If and For.
  virtual Val rewrite(const Inst& inst, std::span<const Val> args);
  /// Called before an If or For is written.
  virtual void branch(const Inst&) {}
  Val copy(const Inst& inst, std::span<const Val> args);
  /// The replacement of an instruction that has been copied.
  Val mapped(Val v) const { return map_[static_cast<size_t>(v.id)]; }
  /// Reports an error; run() returns the first one.
  void fail(Status status);

  const Kernel& from_;
  Builder to_;

 private:
  void block(int32_t index);
  void instruction(int32_t id);
  void roles(const Inst& inst);
  void copy_statement(const Inst& inst, std::span<const Val> args);

  std::vector<Val> map_;
  Status status_;
};

/// Removes instructions without effect, and stores to locals that nothing loads, and renumbers the
/// rest in order. Constants come first, in the order of their first use, so that kernels of equal
/// structure() are equal.
void remove_dead(Kernel& k);

}  // namespace reprise::kernel
