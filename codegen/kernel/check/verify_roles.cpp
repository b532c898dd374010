#include "codegen/kernel/check/verify_roles.h"

#include <algorithm>
#include <bit>

#include "codegen/kernel/check/verify_elements.h"

namespace reprise::kernel {
namespace {

constexpr uint32_t kSubgroupSize = 32;
constexpr uint32_t kMostRoles = 2;  // blocks of an instruction
constexpr uint32_t kLeastRegisters = 24, kMostRegisters = 256, kAllRegisters = 65536;
constexpr uint32_t kMostArrivals = (1U << 20U) - 1;
constexpr uint64_t kMostProducts = 7;  // groups of unfinished multiplications
constexpr uint64_t kMostStores = 7;    // unfinished stores of boxes

/// What the first index of a box, and of an operand, is a multiple of, in bytes.
uint32_t box_alignment(Swizzle s) {
  return s == Swizzle::None ? 128 : 8 * span_of(s);
}

}  // namespace

bool RoleRules::is_sum(const MatrixVar& m) {
  return m.use == MatrixUse::Sum && m.type == Ty::F32 && m.rows == TeamOperands::kRows &&
         m.columns > 0 && m.columns % 8 == 0 && m.columns <= 256;
}

std::string RoleRules::interface() const {
  if (!k_.views.empty() && k_.items != 1) return "views of several items";
  const bool size =
      k_.cluster != 0 && k_.cluster <= kMostCluster && std::has_single_bit(k_.cluster);
  if (!size || (k_.cluster != 1 && k_.roles.empty()))
    return "a cluster of " + std::to_string(k_.cluster) +
           (size ? " without roles"
                 : ", which is no power of 2 up to " + std::to_string(kMostCluster));
  if (std::string problem = views(); !problem.empty()) return problem;
  for (const Signal& s : k_.signals) {
    if (s.count == 0 || s.arrivals == 0 || s.arrivals > kMostArrivals)
      return "signal '" + s.name + "' of " + std::to_string(s.arrivals) + " arrivals";
  }
  return k_.roles.empty() ? "" : roles();
}

std::string RoleRules::views() const {
  for (const View& v : k_.views) {
    const Status s = verify_view(v.tensor, k_.buffers.size(), k_.scalars.size());
    if (!s.ok()) return "view '" + v.name + "': " + s.message();
    const BufferParam& b = k_.buffers[v.tensor.buffer];
    if (b.access == Access::ReadWrite)
      return "view '" + v.name + "' of a buffer that is read and written";
    if (static_cast<uint32_t>(byte_size(b.storage)) != v.tensor.element_bytes)
      return "view '" + v.name + "': types differ";
    if (b.align < TensorView::kAlignment) return "view '" + v.name + "' is not aligned";
    std::vector<uint32_t> scalars = v.tensor.dims;
    scalars.insert(scalars.end(), v.tensor.strides.begin(), v.tensor.strides.end());
    scalars.push_back(v.tensor.first);
    for (const uint32_t n : scalars)
      if (k_.scalars[n].type != Ty::I32) return "view '" + v.name + "': a size is no i32";
  }
  return "";
}

/// Teams divide the workgroup, and their registers fit a device.
std::string RoleRules::roles() const {
  uint32_t teams = 0, registers = 0;
  size_t counted = 0;
  if (k_.roles.size() > kMostRoles) return "more than two roles";
  for (const Role& r : k_.roles) {
    if (r.teams == 0 || r.subgroups == 0 || r.subgroups > r.teams * kTeamSubgroups)
      return "role '" + r.name + "' of " + std::to_string(r.subgroups) + " subgroups";
    teams += r.teams;
    if (r.registers == 0) continue;
    ++counted;
    registers += r.teams * kTeamSubgroups * kSubgroupSize * r.registers;
    if (r.registers % 8 != 0 || r.registers < kLeastRegisters || r.registers > kMostRegisters)
      return "role '" + r.name + "' of " + std::to_string(r.registers) + " registers";
  }
  if (registers > kAllRegisters)
    return "the roles need " + std::to_string(registers) + " registers, of " +
           std::to_string(kAllRegisters);
  if (counted != 0 && counted != k_.roles.size()) return "a role has no registers";
  for (const MatrixVar& m : k_.matrices)
    if (m.scope != MmaScope::Team) return "matrix '" + m.name + "' of a subgroup, with roles";
  const bool divided = k_.required_subgroup_size == kSubgroupSize && k_.workgroup[1] == 1 &&
                       k_.workgroup[2] == 1 &&
                       k_.workgroup[0] == teams * kTeamSubgroups * kSubgroupSize;
  return divided ? "" : "the roles do not divide the workgroup";
}

std::string RoleRules::shape(const Inst& i) const {
  if (i.type != Type{}) return "a statement has no value";
  switch (i.op) {
    case Op::Roles:
      return i.args.empty() && !k_.roles.empty() && i.blocks.size() == k_.roles.size()
                 ? ""
                 : "a block for each role is missing";
    case Op::BoxCopy:
      return box_copy(i);
    case Op::BoxStore:
      return box_store(i);
    case Op::BoxDrain:
      return i.args.empty() && i.imm <= kMostStores ? "" : "malformed box_drain";
    case Op::Arrive:
    case Op::Await:
      return signal(i);
    case Op::TeamMulAdd:
      return team_product(i);
    case Op::MatrixCommit:
      return i.args.empty() ? "" : "malformed matrix_commit";
    case Op::MatrixAwait:
      return i.args.empty() && i.imm <= kMostProducts ? "" : "malformed matrix_await";
    default:
      return "unknown operation";
  }
}

bool RoleRules::copied_to(uint64_t shared) const {
  if (k_.views.empty()) return false;
  return std::ranges::any_of(k_.insts, [&](const Inst& i) {
    return i.op == Op::BoxCopy && BoxAccess::of(i.imm).shared == shared;
  });
}

std::string RoleRules::box_copy(const Inst& i) const {
  if (BoxAccess::of(i.imm).signal >= k_.signals.size()) return "no such signal";
  if (i.args.size() != 3 || !is_index(i.args[1])) return "malformed copy of a box";
  if (BoxAccess::of(i.imm).ranks >> k_.cluster != 0)
    return "copies to a workgroup beyond the cluster of " + std::to_string(k_.cluster);
  return box(i, 2, Access::Read);
}

std::string RoleRules::box_store(const Inst& i) const {
  if (i.args.size() != 2) return "malformed store of a box";
  return box(i, 1, Access::Write);
}

std::string RoleRules::box(const Inst& i, size_t coordinates, Access access) const {
  const BoxAccess a = BoxAccess::of(i.imm);
  if (a.view >= k_.views.size()) return "no such view";
  if (a.shared >= k_.shared.size()) return "no such shared array";
  const TensorView& v = k_.views[a.view].tensor;
  const std::string name = "view '" + k_.views[a.view].name + "'";
  const Type at = type(i.args[coordinates]);
  if (!is_index(i.args[0]) || at.ty != Ty::I32 || at.lanes < std::min<size_t>(v.rank(), 4))
    return access == Access::Read ? "malformed copy of a box" : "malformed store of a box";
  if (v.rank() > 4) return name + " of five dimensions";
  if (v.element_bytes > 4) return name + " of elements of 8 bytes";
  if (k_.buffers[v.buffer].access != access)
    return name +
           (access == Access::Read ? " of a buffer that is written" : " of a buffer that is read");
  const SharedArray& s = k_.shared[a.shared];
  if (s.type != k_.buffers[v.buffer].storage) return name + ": types differ";
  if (s.swizzle != v.swizzle) return name + " and '" + s.name + "' have different swizzles";
  if (v.box_elements() > s.count) return "a box of " + name + " is larger than '" + s.name + "'";
  if (i.align * v.element_bytes % box_alignment(s.swizzle) != 0)
    return "the index in '" + s.name + "' is not proven a multiple of " +
           std::to_string(box_alignment(s.swizzle)) + " bytes";
  return "";
}

std::string RoleRules::signal(const Inst& i) const {
  const bool waits = i.op == Op::Await;
  if (i.imm >= k_.signals.size()) return "no such signal";
  const bool whole = i.args.size() == (waits ? 2U : 1U) || is_remote(i);
  if (!whole || !is_index(i.args[0])) return "malformed signal";
  return !waits || type(i.args[1]) == kI32 ? "" : "the parity is " + str(type(i.args[1]));
}

std::string RoleRules::team_operand(const TeamOperand& o) const {
  if (o.shared >= k_.shared.size()) return "no such shared array";
  const SharedArray& s = k_.shared[o.shared];
  if (s.type != Ty::F16 && s.type != Ty::BF16) return "'" + s.name + "' of other elements";
  if (s.swizzle != Swizzle::B128) return "'" + s.name + "' has no swizzle of 128";
  const bool apart = o.group > 0 && o.group < 256;
  return o.along_k || apart ? "" : "'" + s.name + "': its groups of lines overlap";
}

std::string RoleRules::held_operand(const TeamOperand& o) const {
  if (o.shared >= k_.matrices.size()) return "no such matrix";
  const MatrixVar& m = k_.matrices[o.shared];
  const bool left = m.scope == MmaScope::Team && is_left_of_team(m);
  return left ? "" : "'" + m.name + "' is no left operand of a team";
}

std::string RoleRules::team_product(const Inst& i) const {
  const TeamOperands p = TeamOperands::of(i.imm);
  if (i.args.size() != (p.held ? 1U : 2U) || !is_index(i.args[0]) || !is_index(i.args.back()))
    return "malformed multiplication of a team";
  if (p.count == 0 || size_t{p.sum} + p.count > k_.matrices.size()) return "no such matrix";
  const MatrixVar& first = k_.matrices[p.sum];
  for (uint32_t n = p.sum; n < uint32_t{p.sum} + p.count; ++n) {
    const MatrixVar& m = k_.matrices[n];
    if (m.scope != MmaScope::Team || m.use != MatrixUse::Sum || m.columns != first.columns)
      return "'" + m.name + "' is no sum like those beside it";
  }
  if (first.columns * p.count > 256) return "the sums have more than 256 columns";
  if (std::string problem = team_operand(p.right); !problem.empty()) return problem;
  if (std::string problem = p.held ? held_operand(p.left) : team_operand(p.left); !problem.empty())
    return problem;
  const Ty left = p.held ? k_.matrices[p.left.shared].type : k_.shared[p.left.shared].type;
  return left == k_.shared[p.right.shared].type ? "" : "the operands have different types";
}

/// The fault of an instruction that needs a cluster.
std::string RoleRules::remote_fault(const Inst& i, const Role* role) const {
  const bool meets = i.op == Op::Barrier && i.imm == static_cast<uint64_t>(BarrierScope::Cluster);
  const bool spreads = i.op == Op::BoxCopy && BoxAccess::of(i.imm).ranks != 0;
  if (!is_remote(i) && !meets && !spreads) return "";
  if (k_.cluster == 1) return "needs a cluster";
  if (!is_remote(i)) return "";
  if (role == nullptr) return "accesses another workgroup in no role";
  const Inst& rank = k_.insts[static_cast<size_t>(i.args[kRemoteRank].id)];
  if (rank.type != kI32) return "the rank of a workgroup is " + str(rank.type);
  return rank.op == Op::Const && rank.imm >= k_.cluster
             ? "accesses a workgroup beyond the cluster of " + std::to_string(k_.cluster)
             : "";
}

std::string RoleRules::place(const Inst& i, const Role* role) const {
  if (std::string problem = remote_fault(i, role); !problem.empty()) return problem;
  const bool whole = role != nullptr && role->subgroups == role->teams * kTeamSubgroups;
  switch (i.op) {
    case Op::BoxCopy:
    case Op::BoxStore:
    case Op::BoxDrain:
    case Op::Arrive:
    case Op::Await:
      return role != nullptr ? "" : "is in no role";
    case Op::TeamMulAdd:
    case Op::MatrixCommit:
    case Op::MatrixAwait:
      return whole ? "" : "is in no role of whole teams";
    case Op::MatrixStore:
      if (copied_to(MatrixAccess::of(i.imm).shared))
        return "stores to an array that boxes are copied to";
      [[fallthrough]];
    case Op::MatrixZero:
    case Op::MatrixGet:
    case Op::MatrixSet:
    case Op::MatrixConvert:
      return whole || k_.matrices[matrix_of(i)].scope != MmaScope::Team
                 ? ""
                 : "is in no role of whole teams";
    case Op::Barrier: {
      const bool team = i.imm == static_cast<uint64_t>(BarrierScope::Team);
      if (team) return whole ? "" : "is in no role of whole teams";
      if (i.imm == static_cast<uint64_t>(BarrierScope::Cluster))
        return role != nullptr ? "" : "is in no role";
      return role == nullptr ? "" : "waits for other roles";
    }
    case Op::SharedStore:
      if (copied_to(i.imm)) return "stores to an array that boxes are copied to";
      return role != nullptr || k_.shared[i.imm].swizzle == Swizzle::None ? "" : "is in no role";
    case Op::SelectItem:
      return role == nullptr ? "" : "is in a role";
    case Op::AsyncCopy:
      return k_.roles.empty() ? "" : "copies elements in a kernel with roles";
    default:
      return "";
  }
}

}  // namespace reprise::kernel
