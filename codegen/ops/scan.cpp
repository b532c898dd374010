// Cumulative sums and products along an axis.
#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/op_builder.h"
#include "codegen/ops/support.h"

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

/// The axis becomes an attribute. 16-bit floats accumulate in float32.
Result<bool> scan(Rewriter& rw) {
  if (Attributes(rw.node()).has("axis")) return mark_core(rw);
  const InferContext ctx(rw.graph(), rw.node());
  const auto axis = ctx.constant_ints(1);
  if (!axis) return false;
  OpBuilder c(rw);
  AttrMap a;
  a.set("axis", (*axis)[0] < 0 ? (*axis)[0] + ctx.rank(0) : (*axis)[0]);
  a.set("exclusive", c.attrs().get_int("exclusive"));
  a.set("reverse", c.attrs().get_int("reverse"));
  const DType t = c.dtype(c.in(0));
  const auto result = c.op(rw.node().op, {c.cast(c.in(0), wide(t))}, std::move(a));
  c.replace(0, c.cast(result, t));
  return c.finish();
}

/// Combines the elements before this one, and this one unless the scan is exclusive. `start` is the
/// result for none.
Status scan_element(ElementContext& ctx, kernel::ScalarOp combine, double start) {
  kernel::Builder& b = ctx.builder();
  const Attributes attrs(ctx.node());
  const auto axis = static_cast<size_t>(attrs.get_int("axis"));
  const Expr skip = attrs.get_int("exclusive") != 0 ? 1 : 0;
  const bool reverse = attrs.get_int("reverse") != 0;
  const Expr at = ctx.index()[axis];
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  const int acc = b.local("acc", type);
  b.local_store(acc, b.constant(type, start));
  const Expr count = (reverse ? ctx.output_shape()[axis] - at : at + 1) - skip;
  Status status;
  ctx.loop(count, [&](const Expr& i) {
    Index index = ctx.index();
    index[axis] = reverse ? at + skip + i : i;
    auto v = ctx.input(0, index);
    if (v.ok()) {
      b.local_store(acc, b.scalar_op(combine, {b.local_load(acc), *v}));
    } else {
      status = v.status();
    }
  });
  ctx.set(b.local_load(acc));
  return status;
}

Status cumsum_element(ElementContext& ctx) {
  return scan_element(ctx, kernel::ScalarOp::Add, 0);
}
Status cumprod_element(ElementContext& ctx) {
  return scan_element(ctx, kernel::ScalarOp::Mul, 1);
}

double scan_reads(const graph::Graph& g, const graph::Node& n) {
  const Expr& d = g.value(n.inputs[0]).shape[static_cast<size_t>(Attributes(n).get_int("axis"))];
  return d.is_const() ? static_cast<double>(d.value()) / 2 + 1 : 512.0;
}

constexpr AttrDecl kScanAttrs[] = {{.name = "axis", .type = AttrType::Int, .internal = true},
                                   int_attr("exclusive", 0),
                                   int_attr("reverse", 0)};

constexpr OpDef scan_op(std::string_view name, Status (*element)(ElementContext&),
                        kernel::Sensitivity sensitivity) {
  return {.name = name,
          .infer = infer_scan,
          .decompose = scan,
          .lowering = Lowering::Element,
          .element = element,
          .max_inputs = 2,
          .attributes = kScanAttrs,
          .sensitivity = sensitivity,
          .layout = LayoutRole::Fixed,
          .reads_per_element = scan_reads};
}

}  // namespace

std::span<const OpDef> scan_ops() {
  static constexpr OpDef kOps[] = {
      scan_op("CumSum", cumsum_element, kernel::Sensitivity::RunningSum),
      scan_op("CumProd", cumprod_element, kernel::Sensitivity::Sum),
  };
  return kOps;
}

}  // namespace reprise::ops
