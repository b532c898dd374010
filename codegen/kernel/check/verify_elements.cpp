#include "codegen/kernel/check/verify_elements.h"

namespace reprise::kernel {
namespace {

bool is_half(Ty t) {
  return t == Ty::F16 || t == Ty::BF16;
}

/// The fault of a matrix whose elements are in the places that HeldPlaces says.
std::string place_fault(const Kernel& k, const MatrixVar& m) {
  const uint32_t rows =
      m.scope == MmaScope::Team ? kTeamSubgroups * HeldPlaces::kRows : HeldPlaces::kRows;
  if (k.required_subgroup_size != HeldPlaces::kSubgroup)
    return "names elements of '" + m.name + "' in subgroups of " +
           std::to_string(k.required_subgroup_size) + ", not 32";
  if (m.use != MatrixUse::Sum) return "'" + m.name + "' is no sum";
  if (m.scope == MmaScope::Workgroup)
    return "names elements of '" + m.name + "', which the workgroup holds";
  const bool whole = m.rows == rows && m.columns % HeldPlaces::kColumns == 0;
  return whole ? ""
               : "names elements of '" + m.name + "' of " + std::to_string(m.rows) + "x" +
                     std::to_string(m.columns);
}

std::string held_fault(const Kernel& k, const Inst& i) {
  const HeldElement e = HeldElement::of(i.imm);
  const bool get = i.op == Op::MatrixGet;
  if (i.args.size() != (get ? 0U : 1U)) return "wrong number of operands";
  if (e.matrix >= k.matrices.size()) return "no such matrix";
  const Type value = get ? i.type : k.insts[static_cast<size_t>(i.args[0].id)].type;
  if (value != kF32 || (!get && i.type != Type{})) return "an element is " + str(value);
  const MatrixVar& m = k.matrices[e.matrix];
  if (std::string fault = place_fault(k, m); !fault.empty()) return fault;
  return e.slot < HeldPlaces::slots(m.columns)
             ? ""
             : "'" + m.name + "' has no slot " + std::to_string(e.slot);
}

std::string conversion_fault(const Kernel& k, const Inst& i) {
  const MatrixConversion c = MatrixConversion::of(i.imm);
  if (!i.args.empty() || i.type != Type{}) return "malformed matrix_convert";
  if (c.left >= k.matrices.size() || c.sum >= k.matrices.size()) return "no such matrix";
  const MatrixVar &left = k.matrices[c.left], &sum = k.matrices[c.sum];
  if (std::string fault = place_fault(k, sum); !fault.empty()) return fault;
  if (left.use != MatrixUse::Left || left.scope != sum.scope || !is_half(left.type) ||
      left.rows != sum.rows)
    return "'" + left.name + "' is no left operand like '" + sum.name + "'";
  // So that both have an element in the same invocation.
  const bool whole = left.columns == 2 * HeldPlaces::kColumns && c.column % left.columns == 0;
  return whole && c.column + left.columns <= sum.columns
             ? ""
             : "'" + sum.name + "' has no such columns from " + std::to_string(c.column) + " on";
}

}  // namespace

std::string element_fault(const Kernel& k, const Inst& i) {
  return i.op == Op::MatrixConvert ? conversion_fault(k, i) : held_fault(k, i);
}

bool is_left_of_team(const MatrixVar& m) {
  return m.use == MatrixUse::Left && is_half(m.type) && m.rows == TeamOperands::kRows &&
         m.columns * static_cast<uint32_t>(byte_size(m.type)) == TeamOperands::kBytes;
}

bool stores_sum_to(Ty array) {
  return array == Ty::F32 || is_half(array);
}

}  // namespace reprise::kernel
