// RNN, GRU and LSTM, for inference. A MatMul multiplies the inputs of all steps by W, and
// RecurrentSteps computes what depends on the state of the step before.
#include "runtime/operators/recurrent.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status require_rank_3(const InferContext& ctx, size_t i, const char* role) {
  if (ctx.rank(i) == 3) return {};
  return ctx.invalid(std::string(role) + " must have rank 3, has shape " + ctx.str(ctx.shape(i)));
}

/// The inputs of RNN, GRU and LSTM.
enum Input : uint8_t { kX, kW, kR, kB, kLengths, kH, kC, kP };

/// Requires an input to have a shape and a dtype, if it is given.
Status require_if_given(const InferContext& ctx, size_t i, const char* role, DType dtype,
                        const Shape& shape) {
  if (!ctx.has_input(i)) return {};
  if (ctx.dtype(i) != dtype)
    return ctx.invalid(std::string(role) + " must be " + std::string(name_of(dtype)) + ", is " +
                       std::string(name_of(ctx.dtype(i))));
  return require_shape(ctx, i, role, shape);
}

/// X [steps, batch, inputs], W [directions, gates * hidden, inputs], R [directions, gates * hidden,
/// hidden]. With layout = 1, the batch is the first axis of X, Y and the states.
template <RecurrentCell cell>
Status infer_recurrent(InferContext& ctx) {
  constexpr int64_t gates = gates_of(cell);
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
  RP_TRY(require_if_given(ctx, kB, "B", t, {directions, Expr(2 * gates) * hidden}));
  RP_TRY(require_if_given(ctx, kLengths, "sequence_lens", DType::I32, {batch}));
  RP_TRY(require_if_given(ctx, kH, "initial_h", t, state));
  RP_TRY(require_if_given(ctx, kC, "initial_c", t, state));
  RP_TRY(require_if_given(ctx, kP, "P", t, {directions, Expr(3) * hidden}));
  ctx.set_output(0, t,
                 batch_major ? Shape{batch, steps, directions, hidden}
                             : Shape{steps, directions, batch, hidden});
  ctx.set_output(1, t, state);
  ctx.set_output(2, t, state);
  return {};
}

/// X [steps, batch, directions * gates * hidden], the projections of the inputs by W, with W's
/// biases, and R. Optional: R's biases [directions, gates * hidden], lengths [batch], initial
/// states h and c [directions, batch, hidden], peepholes [directions, 3 * hidden].
Status infer_steps(InferContext& ctx) {
  RP_TRY(require_rank_3(ctx, 0, "X"));
  RP_TRY(require_rank_3(ctx, 1, "R"));
  const Shape& x = ctx.shape(0);
  const Expr& directions = ctx.shape(1)[0];
  const Expr& hidden = ctx.shape(1)[2];
  RP_TRY(ctx.unify(x[2], directions * ctx.shape(1)[1], "gates of X and R").status());
  const Shape state{directions, x[1], hidden};
  // The inputs of the layer without W.
  RP_TRY(require_if_given(ctx, kB - 1, "R's biases", DType::F32, {directions, ctx.shape(1)[1]}));
  RP_TRY(require_if_given(ctx, kLengths - 1, "the lengths", DType::I32, {x[1]}));
  RP_TRY(require_if_given(ctx, kH - 1, "the initial h", DType::F32, state));
  RP_TRY(require_if_given(ctx, kC - 1, "the initial c", DType::F32, state));
  RP_TRY(require_if_given(ctx, kP - 1, "peepholes", DType::F32, {directions, Expr(3) * hidden}));
  ctx.set_output(0, DType::F32, {x[0], directions, x[1], hidden});
  for (size_t i : {size_t{1}, size_t{2}}) ctx.set_output(i, DType::F32, state);
  return {};
}

using V = OpBuilder::V;

/// Whether the form without W, which devices compute, has the layer's meaning.
bool has_steps(OpBuilder& c, RecurrentCell cell) {
  const Shape r = c.shape(c.in(kR));
  const DType t = c.dtype(c.in(kX));
  return (t == DType::F32 || accumulate_dtype(t) != t) && is_static(r) && r[2].value() >= 1 &&
         recurrent_activations(c.node().attrs, cell, r[0].value()).ok();
}

/// The projections of the inputs of all steps by W, with its biases.
V projections(OpBuilder& c, V x) {
  const Shape w = c.shape(c.in(kW));
  const Expr rows = w[0] * w[1];
  const V matrix = c.transpose(c.reshape(c.cast(c.in(kW), DType::F32), {rows, w[2]}), {1, 0});
  const V y = c.op("MatMul", {x, matrix});
  if (!c.has(kB)) return y;
  const V bias = c.slice_axis(c.cast(c.in(kB), DType::F32), 1, 0, w[1]);
  return c.add(y, c.reshape(bias, {rows}));
}

AttrMap steps_attributes(const graph::Node& n, RecurrentCell cell) {
  AttrMap a = n.attrs;
  a.erase("layout");
  a.erase("hidden_size");
  a.set("cell", static_cast<int64_t>(cell));
  return a;
}

template <RecurrentCell cell>
Result<bool> recurrent(Rewriter& rw) {
  OpBuilder c(rw);
  if (!has_steps(c, cell))
    return rw.keep(
        "devices compute layers of floats of up to 32 bits, of fixed size, with the "
        "activations of ONNX");
  const bool batch_major = c.attrs().get_int("layout") != 0;
  const auto order = [&](V v) { return batch_major ? c.transpose(v, {1, 0, 2}) : v; };
  const auto given = [&](size_t i) {
    return c.has(i) ? c.cast(c.in(i), DType::F32) : graph::kNone;
  };
  const auto state = [&](size_t i) { return c.has(i) ? order(given(i)) : graph::kNone; };
  const Expr rows = c.shape(c.in(kR))[1];
  std::vector<V> inputs{projections(c, order(given(kX))),
                        given(kR),
                        c.has(kB) ? c.slice_axis(given(kB), 1, rows, rows) : graph::kNone,
                        c.has(kLengths) ? c.in(kLengths) : graph::kNone,
                        state(kH),
                        state(kC),
                        given(kP)};
  while (inputs.back() == graph::kNone) inputs.pop_back();
  if (!c.ok()) return c.finish();
  constexpr size_t count = cell == RecurrentCell::Lstm ? 3 : 2;
  RP_ASSIGN(const std::vector<V> out, rw.emit_all("RecurrentSteps", std::move(inputs),
                                                  steps_attributes(c.node(), cell), count));
  c.replace_cast(0, batch_major ? c.transpose(out[0], {2, 0, 1, 3}) : out[0]);
  for (size_t i = 1; i < count; ++i) {
    if (c.has_output(i)) c.replace_cast(i, order(out[i]));
  }
  return c.finish();
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
constexpr AttrDecl kStepsAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                    optional_attr("activation_beta", AttrType::Floats),
                                    optional_attr("activations", AttrType::Strings),
                                    required_attr("cell", AttrType::Int),
                                    float_attr("clip", 0.0F),
                                    string_attr("direction", "forward"),
                                    int_attr("input_forget", 0),
                                    int_attr("linear_before_reset", 0)};

}  // namespace

std::span<const OpDef> recurrent_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "RNN",
       .infer = infer_recurrent<RecurrentCell::Rnn>,
       .decompose = recurrent<RecurrentCell::Rnn>,
       .min_inputs = 3,
       .max_inputs = 6,
       .max_outputs = 2,
       .attributes = kRnnAttrs},
      {.name = "GRU",
       .infer = infer_recurrent<RecurrentCell::Gru>,
       .decompose = recurrent<RecurrentCell::Gru>,
       .min_inputs = 3,
       .max_inputs = 6,
       .max_outputs = 2,
       .attributes = kGruAttrs},
      {.name = "LSTM",
       .infer = infer_recurrent<RecurrentCell::Lstm>,
       .decompose = recurrent<RecurrentCell::Lstm>,
       .min_inputs = 3,
       .max_inputs = 8,
       .max_outputs = 3,
       .attributes = kLstmAttrs},
      {.name = "RecurrentSteps",
       .infer = infer_steps,
       .lowering = Lowering::Kernel,
       .kernel = "recurrent",
       .min_inputs = 2,
       .max_inputs = 7,
       .max_outputs = 3,
       .attributes = kStepsAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
