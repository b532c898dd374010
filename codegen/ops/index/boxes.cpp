// NonMaxSuppression. How many boxes it selects depends on data. On a device it is
//
//   rows, count = SelectBoxes(...)   as many rows as there may be, of which `count` are selected
//   size = CountedRows(count)        on the host: gives the number of rows, a symbol, its value
//   result = Slice(rows)             so many of them
//
// so that a run reads back one number.
#include "codegen/ops/index/boxes.h"

#include "codegen/ops/row/counted_rows.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status require_dtype(const InferContext& ctx, size_t i, const std::string& what, DType expected) {
  if (!ctx.has_input(i) || ctx.dtype(i) == expected) return {};
  return ctx.invalid(what + " '" + ctx.input(i).name + "' is " +
                     std::string(name_of(ctx.dtype(i))) + ", expected " +
                     std::string(name_of(expected)));
}

Status check_boxes(const InferContext& ctx) {
  for (size_t i = 0; i < 2; ++i)
    if (ctx.rank(i) != 3)
      return ctx.invalid("boxes " + ctx.str(ctx.shape(0)) + " and scores " + ctx.str(ctx.shape(1)) +
                         " must have 3 axes");
  RP_TRY(require_shape(ctx, 0, "boxes", {ctx.shape(1)[0], ctx.shape(1)[2], Expr(4)}));
  RP_TRY(require_dtype(ctx, 2, "the number of boxes", DType::I64));
  for (const size_t i : {3, 4}) RP_TRY(require_dtype(ctx, i, "the threshold", DType::F32));
  return {};
}

Status infer_non_max_suppression(InferContext& ctx) {
  RP_TRY(check_boxes(ctx));
  ctx.set_output(0, DType::I64, {ctx.fresh_symbol(0, 0), Expr(3)});
  return {};
}

/// Whether input i has one element, so that it is not treated as omitted.
bool is_scalar(const InferContext& ctx, size_t i) {
  return element_count(ctx.shape(i)).is_const(1);
}

Status infer_select_boxes(InferContext& ctx) {
  RP_TRY(check_boxes(ctx));
  RP_TRY(require_dtype(ctx, 0, "the boxes", DType::F32));
  RP_TRY(require_dtype(ctx, 1, "the scores", DType::F32));
  for (size_t i = 2; i < 5; ++i)
    if (ctx.has_input(i) && !is_scalar(ctx, i))
      return ctx.invalid("'" + ctx.input(i).name + "' must have one element");
  const std::vector<Expr> most = ctx.attrs().get_exprs("most");
  if (most.size() != 1) return ctx.error(Code::Internal, "attribute 'most' must have one element");
  const Shape& scores = ctx.shape(1);
  ctx.set_output(0, DType::I64, {scores[0] * scores[1] * most[0], Expr(3)});
  ctx.set_output(1, DType::I32, {Expr(1)});
  return {};
}

/// The most boxes that a class may select. Nothing if kernels have no room for so many.
std::optional<Expr> most_selected(const InferContext& ctx) {
  const Expr boxes = ctx.shape(0)[1];
  const std::span<const Symbol> symbols = ctx.graph_symbols();
  Expr most = boxes;
  if (const auto limit = ctx.elements(2); limit && limit->size() == 1)
    most = min_of((*limit)[0], boxes, symbols);
  const Bounds range = bounds(most, symbols);
  if (most.is_overflow() || range.lo < 0 || range.hi < 1 || range.hi > kMaxSelectedBoxes)
    return std::nullopt;
  return most;
}

Result<bool> non_max_suppression(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (ctx.dtype(0) != DType::F32 || ctx.dtype(1) != DType::F32) return false;
  for (size_t i = 2; i < 5; ++i)
    if (ctx.has_input(i) && !is_scalar(ctx, i)) return false;
  if (!ctx.has_input(2)) return false;  // selects nothing
  const std::optional<Expr> most = most_selected(ctx);
  if (!most)
    return rw.keep("more than " + std::to_string(kMaxSelectedBoxes) +
                   " boxes of a class may be selected, for which kernels have no room" +
                   range_advice(rw.graph(), ctx.shape(0)[1]));
  const graph::ValueId result = rw.node().outputs[0];
  const Expr rows = rw.graph().value(result).shape[0];
  if (!rows.as_symbol()) return false;

  AttrMap a;
  a.set("center_point_box", ctx.attrs().get_int("center_point_box"));
  a.set("most", std::vector<Expr>{*most});
  std::vector<graph::ValueId> inputs = rw.node().inputs.list();
  if (ctx.elements(2)) inputs[2] = graph::kNone;
  RP_ASSIGN(const auto selected, rw.emit_all("SelectBoxes", std::move(inputs), std::move(a), 2));
  RP_TRY(give_size(rw, selected[1], rows));
  OpBuilder b(rw);
  const graph::ValueId cut = b.slice(selected[0], {0, 0}, {1, 1}, {rows, Expr(3)});
  b.replace(0, cut);
  return b.finish();
}

constexpr AttrDecl kNonMaxSuppressionAttrs[] = {int_attr("center_point_box", 0)};
constexpr AttrDecl kSelectBoxesAttrs[] = {int_attr("center_point_box", 0),
                                          core_attr("most", CoreForm::Exprs)};

}  // namespace

std::span<const OpDef> box_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "NonMaxSuppression",
       .infer = infer_non_max_suppression,
       .decompose = non_max_suppression,
       .min_inputs = 2,
       .max_inputs = 5,
       .attributes = kNonMaxSuppressionAttrs},
      {.name = "SelectBoxes",
       .infer = infer_select_boxes,
       .lowering = Lowering::Kernel,
       .kernel = "sort",
       .min_inputs = 2,
       .max_inputs = 5,
       .max_outputs = 2,
       .attributes = kSelectBoxesAttrs,
       .sensitivity = kernel::Sensitivity::Decision,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
