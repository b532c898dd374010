// RNN, GRU and LSTM. They run on the host: inference only.
#include "codegen/ops/families.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

Status require_rank_3(const InferContext& ctx, size_t i, const char* role) {
  if (ctx.rank(i) == 3) return {};
  return ctx.invalid(std::string(role) + " must have rank 3, has shape " + ctx.str(ctx.shape(i)));
}

/// X [steps, batch, inputs], W [directions, gates * hidden, inputs], R [directions, gates * hidden,
/// hidden]. With layout = 1, the batch is the first axis of X, Y and the states.
Status infer_recurrent(InferContext& ctx, int64_t gates) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank_3(ctx, 0, "X"));
  RP_TRY(require_rank_3(ctx, 1, "W"));
  RP_TRY(require_rank_3(ctx, 2, "R"));
  const bool batch_major = ctx.attrs().get_int("layout") != 0;
  const Expr directions = ctx.attrs().get_string("direction") == "bidirectional" ? 2 : 1;
  const Expr hidden = ctx.shape(2)[2];
  if (ctx.attrs().has("hidden_size")) {
    RP_TRY(ctx.unify(ctx.attrs().get_int("hidden_size"), hidden, "hidden_size and R").status());
  }
  for (size_t i : {size_t{1}, size_t{2}}) {
    RP_TRY(ctx.unify(ctx.shape(i)[0], directions, "directions").status());
    RP_TRY(ctx.unify(ctx.shape(i)[1], Expr(gates) * hidden, "gates of W and R").status());
  }
  RP_TRY(ctx.unify(ctx.shape(0)[2], ctx.shape(1)[2], "inputs of X and W").status());
  const Expr& steps = ctx.shape(0)[batch_major ? 1 : 0];
  const Expr& batch = ctx.shape(0)[batch_major ? 0 : 1];
  const DType t = ctx.dtype(0);
  const Shape state =
      batch_major ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  ctx.set_output(0, t,
                 batch_major ? Shape{batch, steps, directions, hidden}
                             : Shape{steps, directions, batch, hidden});
  ctx.set_output(1, t, state);
  ctx.set_output(2, t, state);
  return {};
}

Status infer_rnn(InferContext& ctx) {
  return infer_recurrent(ctx, 1);
}
Status infer_gru(InferContext& ctx) {
  return infer_recurrent(ctx, 3);
}
Status infer_lstm(InferContext& ctx) {
  return infer_recurrent(ctx, 4);
}

constexpr AttrDecl kRnnAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                  optional_attr("activation_beta", AttrType::Floats),
                                  optional_attr("activations", AttrType::Strings),
                                  float_attr("clip", 0.0F),
                                  string_attr("direction", "forward"),
                                  optional_attr("hidden_size", AttrType::Int),
                                  int_attr("layout", 0)};
constexpr AttrDecl kGruAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                  optional_attr("activation_beta", AttrType::Floats),
                                  optional_attr("activations", AttrType::Strings),
                                  float_attr("clip", 0.0F),
                                  string_attr("direction", "forward"),
                                  optional_attr("hidden_size", AttrType::Int),
                                  int_attr("layout", 0),
                                  int_attr("linear_before_reset", 0)};
constexpr AttrDecl kLstmAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                   optional_attr("activation_beta", AttrType::Floats),
                                   optional_attr("activations", AttrType::Strings),
                                   float_attr("clip", 0.0F),
                                   string_attr("direction", "forward"),
                                   optional_attr("hidden_size", AttrType::Int),
                                   int_attr("input_forget", 0),
                                   int_attr("layout", 0)};

}  // namespace

std::span<const OpDef> recurrent_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "RNN",
       .infer = infer_rnn,
       .min_inputs = 3,
       .max_inputs = 6,
       .max_outputs = 2,
       .attributes = kRnnAttrs},
      {.name = "GRU",
       .infer = infer_gru,
       .min_inputs = 3,
       .max_inputs = 6,
       .max_outputs = 2,
       .attributes = kGruAttrs},
      {.name = "LSTM",
       .infer = infer_lstm,
       .min_inputs = 3,
       .max_inputs = 8,
       .max_outputs = 3,
       .attributes = kLstmAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
