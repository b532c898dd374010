#include "codegen/ops/index/binary_search.h"

#include <algorithm>
#include <bit>

#include "codegen/ops/row/shape_arith.h"

namespace reprise::ops {

using kernel::ScalarOp;
using kernel::Val;

namespace {

/// The steps that halve a line until nothing is left of it.
int64_t search_steps(const graph::Graph& g, const Expr& length) {
  const int64_t most = std::max<int64_t>(bounds(length, g.symbols).hi, 1);
  return std::bit_width(static_cast<uint64_t>(most));
}

}  // namespace

Result<Val> elements_before(ElementContext& ctx, const SortedLine& line, Val value, bool or_equal) {
  kernel::Builder& b = ctx.builder();
  const int low = b.local("low", kernel::kI32), high = b.local("high", kernel::kI32);
  b.local_store(low, b.i32(0));
  b.local_store(high, ctx.value(line.length));
  Status status;
  const auto step = [&]() -> Status {
    const Val from = b.local_load(low), to = b.local_load(high);
    const Val middle = b.scalar_op(ScalarOp::ShiftRight, {b.add(from, to), b.i32(1)});
    const Val open = b.lt(from, to);
    RP_ASSIGN(const Val element, ctx.guarded(open, value, [&] {
      Index at = line.before;
      at.push_back(ctx.opaque(middle, line.length));
      return ctx.input(line.input, at);
    }));
    const Val before = or_equal ? b.le(element, value) : b.lt(element, value);
    const Val moves = b.logical_and(open, before);
    b.local_store(low, b.select(moves, b.add(middle, b.i32(1)), from));
    b.local_store(high, b.select(b.logical_and(open, b.logical_not(before)), middle, to));
    return {};
  };
  ctx.loop(Expr(search_steps(ctx.graph(), line.length)), [&](const Expr&) {
    if (status.ok()) status = step();
  });
  RP_TRY(status);
  return Val(b.local_load(low));
}

double search_reads(const graph::Graph& g, const Expr& length) {
  return static_cast<double>(search_steps(g, length));
}

}  // namespace reprise::ops
