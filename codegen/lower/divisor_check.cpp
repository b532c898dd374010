#include "codegen/lower/divisor_check.h"

namespace reprise::lower {

void check_divisor(kernel::Builder& b, kernel::ScalarOp op, kernel::Val divisor) {
  using kernel::ScalarOp;
  const bool divides = op == ScalarOp::Div || op == ScalarOp::Rem || op == ScalarOp::Mod;
  const kernel::Type type = b.type(divisor);
  if (!divides || (kernel::class_of(type.ty) & kernel::kInt) == 0) return;
  const kernel::Val zero = b.constant({type.ty, 1}, 0);
  kernel::Val any = b.boolean(false);
  for (int lane = 0; lane < type.lanes; ++lane) {
    const kernel::Val one = type.lanes == 1 ? divisor : b.extract(divisor, lane);
    any = b.logical_or(any, b.eq(one, zero));
  }
  b.set_error(any, kernel::ErrorCode::DivisionByZero);
}

}  // namespace reprise::lower
