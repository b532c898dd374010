// Operators with random results. They run on the host.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status infer_random(InferContext& ctx) {
  RP_ASSIGN(const DType t, dtype_attr_or(ctx, "dtype", DType::F32));
  Shape out;
  for (const int64_t d : ctx.attrs().get_ints("shape")) {
    if (d < 0) return ctx.invalid("attribute 'shape' has the negative dim " + std::to_string(d));
    out.emplace_back(d);
  }
  ctx.set_output(0, t, std::move(out));
  return {};
}

Status infer_random_like(InferContext& ctx) {
  RP_ASSIGN(const DType t, dtype_attr_or(ctx, "dtype", ctx.dtype(0)));
  ctx.set_output(0, t, ctx.shape(0));
  return {};
}

Status infer_bernoulli(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  return infer_random_like(ctx);
}

Status infer_multinomial(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  if (ctx.rank(0) != 2)
    return ctx.invalid("the input must be [batch, classes], not " + ctx.str(ctx.shape(0)));
  RP_ASSIGN(const DType t, dtype_attr_or(ctx, "dtype", DType::I32));
  ctx.set_output(0, t, {ctx.shape(0)[0], Expr(ctx.attrs().get_int("sample_size"))});
  return {};
}

constexpr AttrDecl kNormal[] = {optional_attr("dtype", AttrType::Int), float_attr("mean", 0),
                                float_attr("scale", 1), optional_attr("seed", AttrType::Float),
                                optional_attr("shape", AttrType::Ints)};
constexpr AttrDecl kUniform[] = {optional_attr("dtype", AttrType::Int), float_attr("high", 1),
                                 float_attr("low", 0), optional_attr("seed", AttrType::Float),
                                 optional_attr("shape", AttrType::Ints)};
constexpr AttrDecl kBernoulli[] = {optional_attr("dtype", AttrType::Int),
                                   optional_attr("seed", AttrType::Float)};
constexpr AttrDecl kMultinomial[] = {optional_attr("dtype", AttrType::Int),
                                     int_attr("sample_size", 1),
                                     optional_attr("seed", AttrType::Float)};

constexpr OpDef random_op(std::string_view name, std::span<const AttrDecl> attributes) {
  return {.name = name,
          .infer = infer_random,
          .min_inputs = 0,
          .max_inputs = 0,
          .attributes = attributes,
          .random = true};
}

constexpr OpDef random_like(std::string_view name, std::span<const AttrDecl> attributes) {
  return {.name = name, .infer = infer_random_like, .attributes = attributes, .random = true};
}

}  // namespace

std::span<const OpDef> random_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Bernoulli", .infer = infer_bernoulli, .attributes = kBernoulli, .random = true},
      {.name = "Multinomial",
       .infer = infer_multinomial,
       .attributes = kMultinomial,
       .random = true},
      random_op("RandomNormal", kNormal),
      random_like("RandomNormalLike", kNormal),
      random_op("RandomUniform", kUniform),
      random_like("RandomUniformLike", kUniform),
  };
  return kOps;
}

}  // namespace reprise::ops
