// Elements of matrices: what an invocation holds, and conversions.
#include "codegen/interpreter/run.h"

namespace reprise::kernel {

/// A MatrixGet or MatrixSet.
void Interpreter::held_element(const Step& s, const Active& active) {
  const HeldElement e = HeldElement::of(s.inst->imm);
  const MatrixVar& m = k_.matrices[e.matrix];
  const bool team = m.scope == MmaScope::Team;
  const uint32_t holders = team ? kTeamSubgroups * subgroup_size_ : subgroup_size_;
  for (const uint32_t n : active.list) {
    if (team && !is_finished(s, e.matrix, n)) return;
    const uint32_t within = n % holders, lane = within % subgroup_size_;
    std::vector<double>& values = matrices_.of(e.matrix, (n - within) / subgroup_size_);
    if (values.empty())
      return violate(s.id, n, "uses an element of " + m.name + " before it is written");
    const uint32_t row = within / subgroup_size_ * HeldPlaces::kRows + HeldPlaces::first_row(lane) +
                         HeldPlaces::row(e.slot);
    double& element = values[size_t{row} * m.columns + HeldPlaces::first_column(lane) +
                             HeldPlaces::column(e.slot)];
    if (s.inst->op == Op::MatrixGet) {
      s.out.set(n, bits_of(element, Ty::F32));
    } else {
      element = number_of(s.in[0].get(n), Ty::F32);
    }
  }
}

void Interpreter::convert_matrix(const Step& s, uint32_t n) {
  const MatrixConversion c = MatrixConversion::of(s.inst->imm);
  const MatrixVar &left = k_.matrices[c.left], &sum = k_.matrices[c.sum];
  const std::vector<double>& from = matrices_.of(c.sum, n / subgroup_size_);
  if (from.empty()) return violate(s.id, n, "converts " + sum.name + " before it is written");
  std::vector<double>& to = matrices_.of(c.left, n / subgroup_size_);
  to.clear();
  for (uint32_t r = 0; r < left.rows; ++r)
    for (uint32_t k = 0; k < left.columns; ++k)
      to.push_back(rounded(from[size_t{r} * sum.columns + c.column + k], left.type));
}

}  // namespace reprise::kernel
