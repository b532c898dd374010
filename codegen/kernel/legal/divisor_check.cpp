#include "codegen/kernel/legal/divisor_check.h"

namespace reprise::kernel {

void check_divisor(Builder& b, ScalarOp op, Val divisor) {
  const bool divides = op == ScalarOp::Div || op == ScalarOp::Rem || op == ScalarOp::Mod;
  const Type type = b.type(divisor);
  if (!divides || (class_of(type.ty) & kInt) == 0) return;
  const Val zero = b.constant({type.ty, 1}, 0);
  Val any = b.boolean(false);
  for (int lane = 0; lane < type.lanes; ++lane) {
    const Val one = type.lanes == 1 ? divisor : b.extract(divisor, lane);
    any = b.logical_or(any, b.eq(one, zero));
  }
  b.set_error(any, ErrorCode::DivisionByZero);
}

}  // namespace reprise::kernel
