// Optimisers of ai.onnx.preview.training, as formulas over the tensors that they update.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

constexpr std::string_view kTrainingDomain = "ai.onnx.preview.training";

/// Inputs: the learning rate R, the number of the step T, then lists of equal length: tensors X,
/// gradients, and `states` lists of states. Outputs: the lists of X and of the states, updated.
Status infer_optimiser(InferContext& ctx, size_t states) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_int(ctx, 1));
  for (size_t i = 0; i < 2; ++i) {
    if (element_count(ctx.shape(i)).is_const(1)) continue;
    return ctx.invalid("input '" + ctx.input(i).name + "' must be a scalar, has shape " +
                       ctx.str(ctx.shape(i)));
  }
  const size_t lists = states + 2;
  const size_t count = (ctx.input_count() - 2) / lists;
  if (2 + count * lists != ctx.input_count() || ctx.node().outputs.size() > count * (states + 1)) {
    return ctx.invalid("has " + std::to_string(ctx.input_count()) + " inputs and " +
                       std::to_string(ctx.node().outputs.size()) + " outputs, expected 2 and " +
                       std::to_string(lists) + " inputs and " + std::to_string(states + 1) +
                       " outputs for each tensor");
  }
  for (size_t i = 2; i < ctx.input_count(); ++i) {
    const size_t x = 2 + (i - 2) % count;
    RP_TRY(require_float(ctx, i));
    if (ctx.dtype(i) != ctx.dtype(x) || ctx.rank(i) != ctx.rank(x)) {
      return ctx.invalid("input '" + ctx.input(i).name + "' is " +
                         std::string(name_of(ctx.dtype(i))) + ctx.str(ctx.shape(i)) +
                         ", expected that of '" + ctx.input(x).name + "', " +
                         std::string(name_of(ctx.dtype(x))) + ctx.str(ctx.shape(x)));
    }
    for (size_t d = 0; d < ctx.shape(x).size(); ++d)
      RP_TRY(ctx.unify(ctx.shape(i)[d], ctx.shape(x)[d], "dims of tensors and gradients").status());
  }
  for (size_t i = 0; i < ctx.node().outputs.size(); ++i) {
    const size_t x = 2 + i % count;
    ctx.set_output(i, ctx.dtype(x), ctx.shape(x));
  }
  return {};
}
Status infer_one_state(InferContext& ctx) {
  return infer_optimiser(ctx, 1);
}
Status infer_two_states(InferContext& ctx) {
  return infer_optimiser(ctx, 2);
}

/// One tensor in an update, all in one dtype. The scalars have rank 0.
struct Update {
  V rate, step;
  V x, gradient;
  std::vector<V> states;
};

/// Replaces X and the states of every tensor by what `formula` returns, in this order.
template <typename Formula>
Result<bool> update_all(Rewriter& rw, size_t states, Formula formula) {
  OpBuilder c(rw);
  const size_t count = (rw.node().inputs.size() - 2) / (states + 2);
  for (size_t i = 0; i < count; ++i) {
    const DType t = c.dtype(c.in(2 + i));
    const auto list = [&](size_t k) {
      return c.cast(c.in(2 + k * count + i), accumulate_dtype(t));
    };
    Update u;
    u.rate = c.reshape(c.cast(c.in(0), accumulate_dtype(t)), {});
    u.step = c.reshape(c.cast(c.in(1), accumulate_dtype(t)), {});
    u.x = list(0);
    const double decay = c.attrs().get_float("norm_coefficient");
    u.gradient = c.add(c.mul(u.x, decay), list(1));
    for (size_t k = 0; k < states; ++k) u.states.push_back(list(2 + k));
    const std::vector<V> results = formula(c, u);
    for (size_t k = 0; k < results.size(); ++k) c.replace(k * count + i, c.cast(results[k], t));
  }
  return c.finish();
}

/// The state is the sum of the squares of all gradients so far.
std::vector<V> adagrad_update(OpBuilder& c, const Update& u) {
  const double decay = c.attrs().get_float("decay_factor");
  const double epsilon = c.attrs().get_float("epsilon");
  const V rate = c.div(u.rate, c.add(c.mul(u.step, decay), 1.0));
  const V squares = c.add(u.states[0], c.mul(u.gradient, u.gradient));
  const V scale = c.add(c.op("Sqrt", {squares}), epsilon);
  return {c.sub(u.x, c.div(c.mul(rate, u.gradient), scale)), squares};
}

/// 1 - factor^step
V remaining(OpBuilder& c, double factor, V step) {
  const V base = c.scalar(c.dtype(step), factor);
  return c.sub(c.scalar(c.dtype(step), 1), c.op("Pow", {base, step}));
}

/// The states are averages of the gradients and of their squares. After the first step the rate
/// makes up for averages that began at 0.
std::vector<V> adam_update(OpBuilder& c, const Update& u) {
  const double alpha = c.attrs().get_float("alpha");
  const double beta = c.attrs().get_float("beta");
  const double epsilon = c.attrs().get_float("epsilon");
  const double post = c.attrs().get_float("norm_coefficient_post");
  const V mean = c.add(c.mul(u.states[0], alpha), c.mul(u.gradient, 1 - alpha));
  const V squares = c.mul(u.gradient, u.gradient);
  const V spread = c.add(c.mul(u.states[1], beta), c.mul(squares, 1 - beta));
  const V first = c.op("LessOrEqual", {u.step, c.scalar(c.dtype(u.step), 0)});
  const V root = c.op("Sqrt", {remaining(c, beta, u.step)});
  const V corrected = c.div(c.mul(u.rate, root), remaining(c, alpha, u.step));
  const V rate = c.where(first, u.rate, corrected);
  const V scale = c.add(c.op("Sqrt", {spread}), epsilon);
  const V x = c.sub(u.x, c.mul(rate, c.div(mean, scale)));
  return {c.mul(x, 1 - post), mean, spread};
}

/// The state is the last change. The first gradient counts in full.
std::vector<V> momentum_update(OpBuilder& c, const Update& u) {
  const double alpha = c.attrs().get_float("alpha");
  const V one = c.scalar(c.dtype(u.step), 1);
  const V beta = c.scalar(c.dtype(u.step), c.attrs().get_float("beta"));
  const V later = c.op("Less", {c.scalar(c.dtype(u.step), 0), u.step});
  const V share = c.where(later, beta, one);
  const V change = c.add(c.mul(u.states[0], alpha), c.mul(share, u.gradient));
  const bool nesterov = c.attrs().get_string("mode") == "nesterov";
  const V direction = nesterov ? c.add(u.gradient, c.mul(change, alpha)) : change;
  return {c.sub(u.x, c.mul(u.rate, direction)), change};
}

Status infer_momentum(InferContext& ctx) {
  const std::string mode = ctx.attrs().get_string("mode");
  if (mode != "standard" && mode != "nesterov")
    return ctx.invalid("mode is '" + mode + "', must be standard or nesterov");
  return infer_one_state(ctx);
}

Result<bool> adagrad(Rewriter& rw) {
  return update_all(rw, 1, adagrad_update);
}
Result<bool> adam(Rewriter& rw) {
  return update_all(rw, 2, adam_update);
}
Result<bool> momentum(Rewriter& rw) {
  return update_all(rw, 1, momentum_update);
}

constexpr AttrDecl kAdagradAttrs[] = {float_attr("decay_factor", 0.0F),
                                      float_attr("epsilon", 1e-6F),
                                      float_attr("norm_coefficient", 0.0F)};
constexpr AttrDecl kAdamAttrs[] = {
    float_attr("alpha", 0.9F), float_attr("beta", 0.999F), float_attr("epsilon", 1e-6F),
    float_attr("norm_coefficient", 0.0F), float_attr("norm_coefficient_post", 0.0F)};
constexpr AttrDecl kMomentumAttrs[] = {
    required_attr("alpha", AttrType::Float), required_attr("beta", AttrType::Float),
    required_attr("mode", AttrType::String), required_attr("norm_coefficient", AttrType::Float)};

constexpr OpDef optimiser(std::string_view name, Status (*infer)(InferContext&),
                          Result<bool> (*decompose)(Rewriter&), int min_inputs,
                          std::span<const AttrDecl> attributes) {
  return {.name = name,
          .domain = kTrainingDomain,
          .infer = infer,
          .decompose = decompose,
          .min_inputs = min_inputs,
          .max_inputs = kVariadic,
          .max_outputs = kVariadic,
          .attributes = attributes};
}

}  // namespace

std::span<const OpDef> training_ops() {
  static constexpr OpDef kOps[] = {
      optimiser("Adagrad", infer_one_state, adagrad, 5, kAdagradAttrs),
      optimiser("Adam", infer_two_states, adam, 6, kAdamAttrs),
      optimiser("Momentum", infer_momentum, momentum, 5, kMomentumAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
