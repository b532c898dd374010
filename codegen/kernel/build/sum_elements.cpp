#include "codegen/kernel/build/sum_elements.h"

namespace reprise::kernel {

SumElements::SumElements(Builder& b, MmaScope scope) : b_(b) {
  const Value lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
  constexpr int kSharers = HeldPlaces::kRowSharers;
  Value first = lane / kSharers;
  if (scope == MmaScope::Team) {
    const Value subgroup = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32);
    first = first + subgroup % int64_t{kTeamSubgroups} * int64_t{HeldPlaces::kRows};
  }
  for (uint32_t which = 0; which < HeldPlaces::kRowsHeld; ++which)
    rows_[which] = first + int64_t{HeldPlaces::row(2 * which)};
  first_column_ = lane % kSharers * 2;
}

void SumElements::map(int matrix, const Map& f) const {
  // A map that cannot fail.
  (void)try_map(matrix, [&](const Place& place, const Value& element) -> Result<Value> {
    return f(place, element);
  });
}

Status SumElements::try_map(int matrix, const TryMap& f) const {
  for (uint32_t slot = 0; slot < slots(matrix); ++slot) {
    const Place place{HeldPlaces::which_row(slot), column(slot), slot};
    RP_ASSIGN(const Value element, f(place, b_.matrix_get(matrix, slot)));
    b_.matrix_set(matrix, slot, element);
  }
  return {};
}

RowValues SumElements::fold(std::span<const int> matrices, const Combine& combine) const {
  RowValues out;
  for (const int m : matrices) {
    for (uint32_t slot = 0; slot < slots(m); ++slot) {
      Value& row = out[HeldPlaces::which_row(slot)];
      const Value element = b_.matrix_get(m, slot);
      row = row ? combine(row, element) : element;
    }
  }
  for (Value& row : out) row = fold_shared(row, combine);
  return out;
}

Value SumElements::fold_shared(Value own, const Combine& combine) const {
  for (uint32_t mask = 1; mask < HeldPlaces::kRowSharers; mask *= 2)
    own = combine(own, b_.subgroup(SubgroupOp::ShuffleXor, own, b_.u32(mask)));
  return own;
}

}  // namespace reprise::kernel
