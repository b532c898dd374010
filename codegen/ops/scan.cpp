// Cumulative sums along an axis.
#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/op_builder.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

Status infer_cumsum(InferContext& ctx) {
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

Result<bool> cumsum(Rewriter& rw) {
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
  const auto sum = c.op("CumSum", {c.cast(c.in(0), wide(t))}, std::move(a));
  c.replace(0, c.cast(sum, t));
  return c.finish();
}

Status cumsum_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const Attributes attrs(ctx.node());
  const auto axis = static_cast<size_t>(attrs.get_int("axis"));
  const Expr skip = attrs.get_int("exclusive") != 0 ? 1 : 0;
  const bool reverse = attrs.get_int("reverse") != 0;
  const Expr at = ctx.index()[axis];
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  const int acc = b.local("acc", type);
  b.local_store(acc, b.constant(type, 0));
  const Expr count = (reverse ? ctx.output_shape()[axis] - at : at + 1) - skip;
  Status status;
  ctx.loop(count, [&](const Expr& i) {
    Index index = ctx.index();
    index[axis] = reverse ? at + skip + i : i;
    auto v = ctx.input(0, index);
    if (v.ok()) {
      b.local_store(acc, b.add(b.local_load(acc), *v));
    } else {
      status = v.status();
    }
  });
  ctx.set(b.local_load(acc));
  return status;
}

double cumsum_reads(const graph::Graph& g, const graph::Node& n) {
  const Expr& d = g.value(n.inputs[0]).shape[static_cast<size_t>(Attributes(n).get_int("axis"))];
  return d.is_const() ? static_cast<double>(d.value()) / 2 + 1 : 512.0;
}

constexpr AttrDecl kCumSumAttrs[] = {{.name = "axis", .type = AttrType::Int, .internal = true},
                                     int_attr("exclusive", 0),
                                     int_attr("reverse", 0)};

}  // namespace

std::span<const OpDef> scan_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "CumSum",
       .infer = infer_cumsum,
       .decompose = cumsum,
       .lowering = Lowering::Element,
       .element = cumsum_element,
       .max_inputs = 2,
       .attributes = kCumSumAttrs,
       .sensitivity = kernel::Sensitivity::RunningSum,
       .layout = LayoutRole::Fixed,
       .reads_per_element = cumsum_reads},
  };
  return kOps;
}

}  // namespace reprise::ops
