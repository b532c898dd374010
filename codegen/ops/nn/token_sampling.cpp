// SampleTokens: the choice of a token from logits, as language models generate text. It becomes
// SampleRows, which chooses from scores (runtime/operators/sampling.h), and operators that compute
// the scores: biases, penalties for tokens that were chosen before, and the mask of a grammar.
#include "codegen/ops/nn/token_sampling.h"

#include <limits>

#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;
using enum SampleInput;

constexpr int64_t kWordBits = 32;  // of the mask

bool is_float_input(size_t i) {
  return i != kTopK && i != kSeed && i != kStep && i != kRecent && i != kAllowed;
}

/// An input with a number for each row, or one for all of them.
Status require_numbers(InferContext& ctx, size_t i, const Expr& rows) {
  if (!ctx.has_input(i)) return {};
  RP_TRY(is_float_input(i) ? require_float(ctx, i) : require_int(ctx, i));
  const Shape& s = ctx.shape(i);
  if (s.empty() || (s.size() <= 2 && element_count(s).is_const(1))) return {};
  const bool fits = (s.size() == 1 || (s.size() == 2 && s[1].is_const(1)));
  if (fits) return ctx.unify(s[0], rows, "rows of '" + ctx.input(i).name + "'").status();
  return ctx.invalid("input '" + ctx.input(i).name + "' must have a number for each of the " +
                     rows.str(ctx.graph_symbols()) + " rows, or one for all, has shape " +
                     ctx.str(s));
}

/// A matrix with a line for each row, or one for all of them.
Status require_lines(InferContext& ctx, size_t i, const Shape& expected) {
  if (!ctx.has_input(i)) return {};
  const Shape& s = ctx.shape(i);
  if (s.size() != 2)
    return ctx.invalid("input '" + ctx.input(i).name + "' must be a matrix, has shape " +
                       ctx.str(s));
  if (!s[0].is_const(1)) RP_TRY(ctx.unify(s[0], expected[0], "rows").status());
  return ctx.unify(s[1], expected[1], "columns of '" + ctx.input(i).name + "'").status();
}

Status infer_sample_tokens(InferContext& ctx) {
  RP_TRY(require_float(ctx, kLogits));
  if (ctx.rank(kLogits) != 2)
    return ctx.invalid("the logits must be [rows, tokens], not " + ctx.str(ctx.shape(kLogits)));
  const Expr rows = ctx.shape(kLogits)[0], size = ctx.shape(kLogits)[1];
  for (const size_t i :
       {kTemperature, kTopK, kTopP, kMinP, kSeed, kStep, kRepetition, kPresence, kFrequency})
    RP_TRY(require_numbers(ctx, i, rows));
  if (ctx.has_input(kRecent)) {
    RP_TRY(require_int(ctx, kRecent));
    RP_TRY(require_rank(ctx, kRecent, 1));
    RP_TRY(require_lines(ctx, kRecent, {rows, ctx.shape(kRecent).back()}));
  }
  if (ctx.has_input(kBias)) {
    RP_TRY(require_float(ctx, kBias));
    RP_TRY(require_lines(ctx, kBias, {rows, size}));
  }
  if (ctx.has_input(kAllowed)) {
    RP_TRY(require_int(ctx, kAllowed));
    if (size_of(ctx.dtype(kAllowed)) != 4)
      return ctx.invalid("the words of the mask must be int32 or uint32");
    RP_TRY(require_lines(ctx, kAllowed, {rows, Expr::ceildiv(size, kWordBits)}));
  }
  RP_ASSIGN(const DType t, dtype_attr_or(ctx, "dtype", DType::I64));
  if (t != DType::I64 && t != DType::I32)
    return ctx.invalid("attribute 'dtype' must be int32 or int64");
  ctx.set_output(0, t, {rows});
  return {};
}

/// Writes the scores of the tokens.
class Scores {
 public:
  explicit Scores(OpBuilder& c) : c_(c) {
    const Shape s = c.shape(c.in(kLogits));
    rows_ = s[0];
    size_ = s[1];
  }

  V compute() {
    V z = c_.in(kLogits);
    const bool changes = c_.has(kBias) || c_.has(kAllowed) || c_.has(kRecent);
    if (changes) z = c_.cast(z, DType::F32);
    if (c_.has(kBias)) z = c_.add(z, c_.cast(c_.in(kBias), DType::F32));
    if (c_.has(kRecent)) z = penalised(z);
    if (c_.has(kAllowed))
      z = c_.where(allowed(), z, c_.scalar(DType::F32, -std::numeric_limits<double>::infinity()));
    return z;
  }

 private:
  /// The numbers of the rows as a column.
  V column(size_t i) {
    const V v = c_.cast(c_.in(i), DType::F32);
    return c_.reshape(v, {element_count(c_.shape(v)), 1});
  }
  /// How often each token is among the recent ones.
  V counts() {
    const V recent = c_.cast(c_.in(kRecent), DType::I32);
    const Shape s = c_.shape(recent);
    const V at = c_.reshape(recent, {s[0], 1, s[1]});
    const V token = c_.reshape(c_.positions(size_), {1, size_, 1});
    const V equal = c_.cast(c_.op("Equal", {at, token}), DType::F32);
    return c_.reshape(c_.reduce("ReduceSum", equal, {2}), {s[0], size_});
  }
  V penalised(V z) {
    const V count = counts();
    const V zero = c_.scalar(DType::F32, 0);
    const V found = c_.op("Greater", {count, zero});
    if (c_.has(kRepetition)) {
      const V factor = column(kRepetition);
      const V lower = c_.where(c_.op("Less", {z, zero}), c_.mul(z, factor), c_.div_rn(z, factor));
      z = c_.where(found, lower, z);
    }
    if (c_.has(kFrequency)) z = c_.sub(z, c_.mul(count, column(kFrequency)));
    if (c_.has(kPresence)) z = c_.where(found, c_.sub(z, column(kPresence)), z);
    return z;
  }
  /// The bits of the mask.
  V allowed() {
    const V words = c_.cast(c_.in(kAllowed), DType::U32);
    const Shape s = c_.shape(words);
    const V bit = c_.cast(c_.reshape(c_.positions(kWordBits), {1, 1, kWordBits}), DType::U32);
    const V shifted = c_.op("ShiftRight", {c_.reshape(words, {s[0], s[1], 1}), bit});
    const V one = c_.op("BitAnd", {shifted, c_.scalar(DType::U32, 1)});
    const V line = c_.slice_axis(c_.reshape(one, {s[0], s[1] * kWordBits}), 1, 0, size_);
    return c_.cast(line, DType::Bool);
  }

  OpBuilder& c_;
  Expr rows_, size_;
};

Result<bool> sample_tokens(Rewriter& rw) {
  OpBuilder c(rw);
  std::vector<V> inputs{Scores(c).compute()};
  const auto number = [&](size_t i, DType t, double fallback) {
    V v = c.has(i) ? c.cast(c.in(i), t) : c.scalar(t, fallback);
    inputs.push_back(c.reshape(v, {element_count(c.shape(v))}));
  };
  number(kTemperature, DType::F32, 1);
  number(kTopK, DType::I32, 0);
  number(kTopP, DType::F32, 1);
  number(kMinP, DType::F32, 0);
  number(kSeed, DType::I32, 0);
  number(kStep, DType::I32, 0);
  c.replace_cast(0, c.op("SampleRows", std::move(inputs)));
  return c.finish();
}

Status infer_sample_rows(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  if (ctx.rank(0) != 2) return ctx.invalid("the scores must be [rows, tokens]");
  for (size_t i = kTemperature; i <= kStep; ++i) {
    RP_TRY(require_numbers(ctx, i, ctx.shape(0)[0]));
    const DType t = is_float_input(i) ? DType::F32 : DType::I32;
    if (ctx.rank(i) == 1 && ctx.dtype(i) == t) continue;
    return ctx.invalid("input " + std::to_string(i) + " must be a vector of " +
                       std::string(name_of(t)));
  }
  ctx.set_output(0, DType::I32, {ctx.shape(0)[0]});
  return {};
}

constexpr AttrDecl kSampleAttrs[] = {optional_attr("dtype", AttrType::Int, CoreForm::Absent)};

}  // namespace

graph::NodeSpec sampling_node(DType ids) {
  graph::NodeSpec n;
  n.op = "SampleTokens";
  n.domain = kOwnDomain;
  n.opset = 1;
  n.attrs.set("dtype", dtype_to_onnx(ids));
  return n;
}

std::span<const OpDef> token_sampling_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "SampleTokens",
       .domain = kOwnDomain,
       .infer = infer_sample_tokens,
       .decompose = sample_tokens,
       .max_inputs = kSampleInputs,
       .attributes = kSampleAttrs},
      {.name = "SampleRows",
       .infer = infer_sample_rows,
       .lowering = Lowering::Kernel,
       .kernel = "sample",
       .min_inputs = kStep + 1,
       .max_inputs = kStep + 1,
       .sensitivity = kernel::Sensitivity::Decision,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
