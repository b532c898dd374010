// Cumulative sums and products along an axis.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status infer_scan(InferContext& ctx) {
  if (ctx.attrs().has("axis")) {
    RP_ASSIGN([[maybe_unused]] const int64_t a, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  } else if (!ctx.has_input(1)) {
    return ctx.invalid("input 'axis' is missing");
  } else if (const auto axis = ctx.constant_ints(1)) {
    if (axis->size() != 1) {
      return ctx.invalid("axis must be one number, has " + std::to_string(axis->size()) +
                         " elements");
    }
    RP_ASSIGN([[maybe_unused]] const int64_t a, ctx.axis((*axis)[0], ctx.rank(0)));
  }
  return infer_same(ctx);
}

graph::ValueId scan_along(OpBuilder& c, graph::ValueId x, int64_t axis) {
  AttrMap a;
  a.set("axis", axis);
  a.set("exclusive", c.attrs().get_int("exclusive"));
  a.set("reverse", c.attrs().get_int("reverse"));
  return c.op(c.node().op, {x}, std::move(a));
}

/// The result for an axis that only a run knows: one of those for all axes.
graph::ValueId scan_along_any(OpBuilder& c, graph::ValueId x) {
  Shape one = c.shape(x);
  const auto rank = static_cast<int64_t>(one.size());
  one.insert(one.begin(), Expr(1));
  std::vector<graph::ValueId> all;
  for (int64_t axis = 0; axis < rank; ++axis) all.push_back(c.reshape(scan_along(c, x, axis), one));
  AttrMap a;
  a.set("axis", int64_t{0});
  return c.op("Gather", {c.concat(std::move(all), 0), c.reshape(c.in(1), {})}, std::move(a));
}

/// The axis becomes an attribute. 16-bit floats accumulate in float32.
Result<bool> scan(Rewriter& rw) {
  if (Attributes(rw.node()).has("axis")) return mark_core(rw);
  const InferContext ctx(rw.graph(), rw.node());
  const auto axis = ctx.constant_ints(1);
  const int64_t rank = ctx.rank(0);
  // For each axis, there is a tensor of the size of the result.
  constexpr int64_t kMostAxes = 4;
  if (!axis && !element_count(ctx.shape(1)).is_const(1))
    return rw.keep("its axis is known only in a run, and it may not be one number");
  if (!axis && (rank < 1 || rank > kMostAxes))
    return rw.keep("its axis is known only in a run, and kernels try at most " +
                   std::to_string(kMostAxes) + " axes");
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const graph::ValueId x = c.cast(c.in(0), accumulate_dtype(t));
  const graph::ValueId result =
      axis ? scan_along(c, x, (*axis)[0] + ((*axis)[0] < 0 ? rank : 0)) : scan_along_any(c, x);
  c.replace(0, c.cast(result, t));
  return c.finish();
}

constexpr AttrDecl kScanAttrs[] = {{.name = "axis", .type = AttrType::Int, .internal = true},
                                   int_attr("exclusive", 0),
                                   int_attr("reverse", 0)};

constexpr OpDef scan_op(std::string_view name, kernel::ScalarOp combine,
                        kernel::Sensitivity sensitivity) {
  return {.name = name,
          .infer = infer_scan,
          .decompose = scan,
          .lowering = Lowering::Scan,
          .max_inputs = 2,
          .attributes = kScanAttrs,
          .sensitivity = sensitivity,
          .layout = LayoutRole::Fixed,
          .combine = combine};
}

}  // namespace

std::span<const OpDef> scan_ops() {
  static constexpr OpDef kOps[] = {
      scan_op("CumSum", kernel::ScalarOp::Add, kernel::Sensitivity::RunningSum),
      scan_op("CumProd", kernel::ScalarOp::Mul, kernel::Sensitivity::Sum),
  };
  return kOps;
}

}  // namespace reprise::ops
