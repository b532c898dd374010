// Operators without a device form: inference only, they run on the host. Sizes that depend on data
// are fresh symbols. Control flow is refused by name.
#include "codegen/ops/families.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

Status infer_nonzero(InferContext& ctx) {
  ctx.set_output(0, DType::I64, {Expr(ctx.rank(0)), ctx.fresh_symbol(0, 1)});
  return {};
}

Status infer_topk(InferContext& ctx) {
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis", -1), ctx.rank(0)));
  const auto a = static_cast<size_t>(axis);
  std::optional<Expr> k;
  if (const auto* attr = ctx.attrs().get<int64_t>("k")) k = Expr(*attr);
  if (ctx.has_input(1)) {
    const auto e = ctx.elements(1);
    if (e && e->size() == 1) k = (*e)[0];
  } else if (!k) {
    return ctx.invalid("k is missing");
  }
  const Expr dim = ctx.shape(0)[a];
  if (k && !k->is_overflow() &&
      !may_equal(min_of(*k, dim, ctx.graph_symbols()), *k, ctx.graph_symbols())) {
    return ctx.invalid("k = " + k->str(ctx.graph_symbols()) + " is larger than the dim " +
                       dim.str(ctx.graph_symbols()));
  }
  Shape out = ctx.shape(0);
  out[a] = k ? *k : ctx.fresh_symbol(0, a);
  ctx.set_output(0, ctx.dtype(0), out);
  ctx.set_output(1, DType::I64, std::move(out));
  return {};
}

Status infer_unique(InferContext& ctx) {
  if (ctx.attrs().has("axis")) {
    RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis", 0), ctx.rank(0)));
    Shape out = ctx.shape(0);
    const Expr unique = ctx.fresh_symbol(0, static_cast<size_t>(axis));
    const Expr all = out[static_cast<size_t>(axis)];
    out[static_cast<size_t>(axis)] = unique;
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    ctx.set_output(1, DType::I64, {unique});
    ctx.set_output(2, DType::I64, {all});
    ctx.set_output(3, DType::I64, {unique});
    return {};
  }
  const Expr count = ctx.fresh_symbol(0, 0);
  ctx.set_output(0, ctx.dtype(0), {count});
  ctx.set_output(1, DType::I64, {count});
  ctx.set_output(2, DType::I64, {element_count(ctx.shape(0))});
  ctx.set_output(3, DType::I64, {count});
  return {};
}

Status infer_compress(InferContext& ctx) {
  if (!ctx.attrs().has("axis")) {
    ctx.set_output(0, ctx.dtype(0), {ctx.fresh_symbol(0, 0)});
    return {};
  }
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis", 0), ctx.rank(0)));
  Shape out = ctx.shape(0);
  out[static_cast<size_t>(axis)] = ctx.fresh_symbol(0, static_cast<size_t>(axis));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_scatter(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 1));
  if (ctx.dtype(2) != ctx.dtype(0)) return ctx.invalid("data and updates differ in dtype");
  if (ctx.node().op != "ScatterND" && ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("data " + ctx.str(ctx.shape(0)) + " and indices " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  return infer_same(ctx);
}

Status infer_reverse_sequence(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  return infer_same(ctx);
}

Status infer_non_max_suppression(InferContext& ctx) {
  ctx.set_output(0, DType::I64, {ctx.fresh_symbol(0, 0), Expr(3)});
  return {};
}

Status infer_max_unpool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  const auto kernel = ctx.attrs().get_ints("kernel_shape");
  const size_t n = ctx.shape(0).size() - 2;
  const auto strides = ctx.attrs().get_ints("strides", std::vector<int64_t>(n, 1));
  const auto pads = ctx.attrs().get_ints("pads", std::vector<int64_t>(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n) {
    return ctx.invalid("kernel_shape, strides and pads do not fit " + ctx.str(ctx.shape(0)));
  }
  Shape out = ctx.shape(0);
  const auto wanted = ctx.elements(2);
  if (ctx.has_input(2) && !wanted) {
    out = ctx.fresh_shape(0, out.size());
  } else if (wanted) {
    if (wanted->size() != out.size()) return ctx.invalid("output_shape has the wrong rank");
    out = *wanted;
  } else {
    for (size_t d = 0; d < n; ++d) {
      out[2 + d] =
          (out[2 + d] - 1) * Expr(strides[d]) + Expr(kernel[d]) - Expr(pads[d]) - Expr(pads[n + d]);
    }
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_control_flow(InferContext& ctx) {
  return ctx.error(Code::Unsupported,
                   "control flow is not supported yet; export the model for one branch, or fold "
                   "its condition with fixed inputs");
}

constexpr OpDef control_flow(std::string_view name) {
  return {.name = name,
          .infer = infer_control_flow,
          .attributes =
              "body else_branch num_scan_inputs scan_input_axes scan_input_directions "
              "scan_output_axes scan_output_directions then_branch",
          .min_inputs = 0,
          .max_inputs = kVariadic,
          .max_outputs = kVariadic};
}

}  // namespace

std::span<const OpDef> host_only_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "NonZero", .infer = infer_nonzero},
      {.name = "TopK",
       .infer = infer_topk,
       .attributes = "axis k largest sorted",
       .max_inputs = 2,
       .max_outputs = 2},
      {.name = "Unique", .infer = infer_unique, .attributes = "axis sorted", .max_outputs = 4},
      {.name = "Compress",
       .infer = infer_compress,
       .attributes = "axis",
       .min_inputs = 2,
       .max_inputs = 2},
      {.name = "Scatter",
       .infer = infer_scatter,
       .attributes = "axis",
       .min_inputs = 3,
       .max_inputs = 3},
      {.name = "ScatterElements",
       .infer = infer_scatter,
       .attributes = "axis reduction",
       .min_inputs = 3,
       .max_inputs = 3},
      {.name = "ScatterND",
       .infer = infer_scatter,
       .attributes = "reduction",
       .min_inputs = 3,
       .max_inputs = 3},
      {.name = "ReverseSequence",
       .infer = infer_reverse_sequence,
       .attributes = "batch_axis time_axis",
       .min_inputs = 2,
       .max_inputs = 2},
      {.name = "NonMaxSuppression",
       .infer = infer_non_max_suppression,
       .attributes = "center_point_box",
       .min_inputs = 2,
       .max_inputs = 5},
      {.name = "MaxUnpool",
       .infer = infer_max_unpool,
       .attributes = "kernel_shape pads strides",
       .min_inputs = 2,
       .max_inputs = 3},
      control_flow("If"),
      control_flow("Loop"),
      control_flow("Scan"),
  };
  return kOps;
}

}  // namespace reprise::ops
