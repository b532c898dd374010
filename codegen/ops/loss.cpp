// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. They run on the host: inference only.
#include "codegen/ops/families.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

/// Scores [N, C, d...] and targets [N, d...].
Status infer_loss(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_int(ctx, 1));
  RP_TRY(require_rank(ctx, 0, 2));
  if (ctx.rank(1) + 1 != ctx.rank(0)) {
    return ctx.invalid(
        "scores " + ctx.str(ctx.shape(0)) + " and targets " + ctx.str(ctx.shape(1)) +
        " do not match: targets must have all axes of the scores except the class axis");
  }
  Shape targets;
  for (size_t d = 0; d < ctx.shape(1).size(); ++d) {
    RP_ASSIGN(Expr dim, ctx.unify(ctx.shape(1)[d], ctx.shape(0)[d == 0 ? 0 : d + 1],
                                  "dims of scores and targets"));
    targets.push_back(std::move(dim));
  }
  const bool reduced = ctx.attrs().get_string("reduction") != "none";
  ctx.set_output(0, ctx.dtype(0), reduced ? Shape{} : std::move(targets));
  ctx.set_output(1, ctx.dtype(0), ctx.shape(0));
  return {};
}

constexpr AttrDecl kLossAttrs[] = {optional_attr("ignore_index", AttrType::Int),
                                   string_attr("reduction", "mean")};

}  // namespace

std::span<const OpDef> loss_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "NegativeLogLikelihoodLoss",
       .infer = infer_loss,
       .min_opset = 12,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kLossAttrs},
      {.name = "SoftmaxCrossEntropyLoss",
       .infer = infer_loss,
       .min_opset = 12,
       .min_inputs = 2,
       .max_inputs = 3,
       .max_outputs = 2,
       .attributes = kLossAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
