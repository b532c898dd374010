#include "codegen/ops/math/product_sum.h"

namespace reprise::ops {

using kernel::Val;

ProductSum::ProductSum(ElementContext& ctx)
    : ctx_(ctx),
      b_(ctx.builder()),
      result_(ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype)),
      type_(result_ == kernel::kF16 ? kernel::kF32 : result_),
      local_(b_.local("acc", type_)) {
  b_.local_store(local_, b_.constant(type_, 0));
}

Result<Val> ProductSum::added(Val old, const Index& left, const Index& right) {
  RP_ASSIGN(Val x, ctx_.input(0, left));
  RP_ASSIGN(Val y, ctx_.input(1, right));
  if (b_.type(x) != type_) x = b_.convert(x, type_.ty);
  if (b_.type(y) != type_) y = b_.convert(y, type_.ty);
  return b_.add(old, b_.mul(x, y));
}

Status ProductSum::add(const Index& left, const Index& right) {
  RP_ASSIGN(const Val sum, added(b_.local_load(local_), left, right));
  b_.local_store(local_, sum);
  return {};
}

Status ProductSum::add_where(Val inside, const Index& left, const Index& right) {
  const Val old = b_.local_load(local_);
  RP_ASSIGN(const Val sum, ctx_.guarded(inside, old, [&] { return added(old, left, right); }));
  b_.local_store(local_, sum);
  return {};
}

void ProductSum::finish() {
  const Val sum = b_.local_load(local_);
  ctx_.set(type_ == result_ ? sum : b_.convert(sum, result_.ty));
}

}  // namespace reprise::ops
