// The rules of views, signals, roles and the matrices of teams.
#pragma once

#include <string>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

class RoleRules {
 public:
  explicit RoleRules(const Kernel& k) : k_(k) {}

  /// The fault of the kernel's tables; empty if there is none.
  std::string interface() const;
  /// The fault of an instruction, wherever it is.
  std::string shape(const Inst& i) const;
  /// The fault of where an instruction is: in the block of a role, or of none.
  std::string place(const Inst& i, const Role* role) const;
  static bool is_sum(const MatrixVar& m);

 private:
  std::string views() const;
  std::string roles() const;
  std::string box_copy(const Inst& i) const;
  std::string box_store(const Inst& i) const;
  /// The fault of a box in memory or in a shared array; `coordinates` is an argument.
  std::string box(const Inst& i, size_t coordinates, Access access) const;
  std::string signal(const Inst& i) const;
  std::string remote_fault(const Inst& i, const Role* role) const;
  bool copied_to(uint64_t shared) const;
  std::string team_product(const Inst& i) const;
  std::string team_operand(const TeamOperand& o) const;
  std::string held_operand(const TeamOperand& o) const;
  Type type(Val v) const { return k_.insts[static_cast<size_t>(v.id)].type; }
  bool is_index(Val v) const { return type(v) == kI32 || type(v) == kU32; }

  const Kernel& k_;
};

}  // namespace reprise::kernel
