#include "codegen/kernel/check/verify_uniformity.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace reprise::kernel {

namespace {

/// Finds barriers that some invocations of a workgroup, or of a role, might not reach, and
/// operations of subgroups and teams that some of their invocations might not reach, or reach with
/// another operand. A value is uniform if its operands are. A local is uniform if every store to it
/// has a uniform value and is in uniform control flow. Locals are assumed uniform first, and the
/// analysis iterates to a fixed point.
class Uniformity {
 public:
  enum class Within { Workgroup, Role, Team, Subgroup };
  Uniformity(const Kernel& k, Within within)
      : k_(k), within_(within), varying_(k.insts.size()), varying_local_(k.locals.size()) {}

  Status run() {
    do {
      changed_ = false;
      divergent_ = -1;
      block(0, true);
    } while (changed_);
    if (divergent_ < 0) return {};
    const Inst& divergent = k_.insts[static_cast<size_t>(divergent_)];
    const bool item = divergent.op == Op::SelectItem;
    const bool matrix = within_ == Within::Workgroup && is_matrix(divergent, MmaScope::Workgroup);
    const std::string what = item ? "an item that may differ within a workgroup"
                             : matrix
                                 ? "an operation on a matrix that may differ within a workgroup"
                                 : reason();
    return internal_error("kernel '" + k_.name + "': %" + std::to_string(divergent_) + ": " + what);
  }

 private:
  void block(int32_t index, bool uniform) {
    for (int32_t id : k_.blocks[static_cast<size_t>(index)].insts) instruction(id, uniform);
  }

  void instruction(int32_t id, bool uniform) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    bool varying = varies(i);
    if (i.op == Op::LocalStore && (varying || !uniform) && !varying_local_[i.imm]) {
      varying_local_[i.imm] = true;
      changed_ = true;
    }
    // All subgroups of a role reach an instruction, perhaps with different operands.
    const bool differs = varying && within_ != Within::Role;
    if (needs_uniform(i) && (!uniform || differs) && divergent_ < 0) divergent_ = id;
    varying_[static_cast<size_t>(id)] = varying;
    const bool divides = i.op == Op::Roles && within_ == Within::Workgroup;
    for (int32_t b : i.blocks) block(b, uniform && !varying && !divides);
  }

  const char* reason() const {
    switch (within_) {
      case Within::Workgroup:
        return "a barrier under control flow that may differ within a workgroup";
      case Within::Role:
        return "an operation under control flow that may differ within a role";
      case Within::Team:
        return "an operation of a team that may differ within it";
      case Within::Subgroup:
        return "an operation on a matrix that may differ within a subgroup";
    }
    return "";
  }

  bool needs_uniform(const Inst& i) const {
    const bool of_team = i.op == Op::TeamMulAdd || i.op == Op::MatrixCommit ||
                         i.op == Op::MatrixAwait || is_matrix(i, MmaScope::Team) ||
                         is_barrier(i, BarrierScope::Team);
    const bool of_signal = i.op == Op::BoxCopy || i.op == Op::Arrive || i.op == Op::Await;
    const bool of_store = i.op == Op::BoxStore || i.op == Op::BoxDrain;
    switch (within_) {
      case Within::Workgroup:
        return is_barrier(i, BarrierScope::Workgroup) || i.op == Op::SelectItem ||
               i.op == Op::Roles || is_matrix(i, MmaScope::Workgroup);
      case Within::Role:
        return of_team || of_signal || is_barrier(i, BarrierScope::Cluster);
      case Within::Team:
        return of_team;
      case Within::Subgroup:
        return of_signal || of_store || uses_matrix(i);
    }
    return false;
  }

  static bool is_barrier(const Inst& i, BarrierScope scope) {
    return i.op == Op::Barrier && i.imm == static_cast<uint64_t>(scope);
  }
  /// All that hold a matrix do this together; elements are read and replaced by one invocation.
  static bool uses_matrix(const Inst& i) {
    return i.op == Op::MatrixZero || i.op == Op::MatrixLoad || i.op == Op::MatrixStore ||
           i.op == Op::MatrixMulAdd || i.op == Op::MatrixConvert;
  }
  bool is_matrix(const Inst& i, MmaScope scope) const {
    return uses_matrix(i) && k_.matrices[matrix_of(i)].scope == scope;
  }

  bool varies(const Inst& i) const {
    const bool operands = std::any_of(i.args.begin(), i.args.end(),
                                      [&](Val v) { return varying_[static_cast<size_t>(v.id)]; });
    if (i.op == Op::Builtin) return varies(static_cast<Builtin>(i.imm & 0xffU));
    if (i.op == Op::Load) return operands || k_.buffers[i.imm].access != Access::Read;
    if (i.op == Op::LocalLoad) return operands || varying_local_[i.imm];
    return operands || i.op == Op::Subgroup || i.op == Op::MatrixGet;
  }

  bool varies(Builtin b) const {
    if (b == Builtin::WorkgroupId || b == Builtin::ClusterRank || b == Builtin::SubgroupSize)
      return false;
    if (b == Builtin::SubgroupIndex) return within_ != Within::Subgroup;
    if (b == Builtin::TeamIndex) return within_ != Within::Subgroup && within_ != Within::Team;
    return true;
  }

  const Kernel& k_;
  Within within_;
  std::vector<bool> varying_, varying_local_;
  bool changed_ = false;
  int32_t divergent_ = -1;
};

}  // namespace

Status verify_uniformity(const Kernel& k) {
  RP_TRY(Uniformity(k, Uniformity::Within::Workgroup).run());
  if (!k.roles.empty()) {
    RP_TRY(Uniformity(k, Uniformity::Within::Role).run());
    RP_TRY(Uniformity(k, Uniformity::Within::Team).run());
  }
  const bool subgroups = !k.matrices.empty() || !k.roles.empty();
  return subgroups ? Uniformity(k, Uniformity::Within::Subgroup).run() : Status();
}

}  // namespace reprise::kernel
