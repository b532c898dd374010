// Operators on strings. They run on the host.
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status require_strings(const InferContext& ctx, size_t i) {
  if (ctx.dtype(i) == DType::String) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' must be of strings, not of " +
                     std::string(name_of(ctx.dtype(i))));
}

Status infer_string_concat(InferContext& ctx) {
  RP_TRY(require_strings(ctx, 0));
  RP_TRY(require_strings(ctx, 1));
  const Shape shapes[] = {ctx.shape(0), ctx.shape(1)};
  RP_ASSIGN(Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, DType::String, std::move(out));
  return {};
}

Status infer_match(InferContext& ctx) {
  RP_TRY(require_strings(ctx, 0));
  ctx.set_output(0, DType::Bool, ctx.shape(0));
  return {};
}

Status infer_normalizer(InferContext& ctx) {
  RP_TRY(require_strings(ctx, 0));
  Shape out = ctx.shape(0);
  const bool row = out.size() == 2 && (!out[0].is_const() || out[0].is_const(1));
  if (out.size() != 1 && !row)
    return ctx.invalid("the input must be [C] or [1,C], not " + ctx.str(ctx.shape(0)));
  const size_t axis = out.size() - 1;
  out[0] = Expr(1);
  out[axis] = ctx.fresh_symbol(0, axis);
  ctx.set_output(0, DType::String, std::move(out));
  return {};
}

Status infer_string_split(InferContext& ctx) {
  RP_TRY(require_strings(ctx, 0));
  Shape out = ctx.shape(0);
  out.push_back(ctx.fresh_symbol(0, out.size()));
  ctx.set_output(0, DType::String, std::move(out));
  ctx.set_output(1, DType::I64, ctx.shape(0));
  return {};
}

Status infer_text_vectorizer(InferContext& ctx) {
  if (ctx.dtype(0) != DType::String) RP_TRY(require_int(ctx, 0));
  Shape out = ctx.shape(0);
  if (out.empty() || out.size() > 2)
    return ctx.invalid("the input must be [C] or [N,C], not " + ctx.str(ctx.shape(0)));
  int64_t columns = 0;
  for (const int64_t i : ctx.attrs().get_ints("ngram_indexes")) {
    if (i < 0 || i >= INT32_MAX) {
      return ctx.invalid("attribute 'ngram_indexes' has the entry " + std::to_string(i) +
                         "; expected 0 to " + std::to_string(INT32_MAX - 1));
    }
    columns = std::max(columns, i + 1);
  }
  out.back() = Expr(columns);
  ctx.set_output(0, DType::F32, std::move(out));
  return {};
}

/// The result has an axis of tokens also if there are no texts, which ONNX Runtime omits, because
/// the rank of a value does not depend on its dims.
Status infer_tokenizer(InferContext& ctx) {
  RP_TRY(require_strings(ctx, 0));
  Shape out = ctx.shape(0);
  if (out.empty() || out.size() > 2)
    return ctx.invalid("the input must be [C] or [N,C], not " + ctx.str(out));
  out.push_back(ctx.fresh_symbol(0, out.size()));
  ctx.set_output(0, DType::String, std::move(out));
  return {};
}

constexpr AttrDecl kNormalizer[] = {
    string_attr("case_change_action", "NONE"), int_attr("is_case_sensitive", 0),
    optional_attr("locale", AttrType::String), optional_attr("stopwords", AttrType::Strings)};
constexpr AttrDecl kPattern[] = {required_attr("pattern", AttrType::String)};
constexpr AttrDecl kSplit[] = {string_attr("delimiter", ""),
                               optional_attr("maxsplit", AttrType::Int)};
constexpr AttrDecl kTokenizer[] = {
    int_attr("mark", 0), required_attr("mincharnum", AttrType::Int), string_attr("pad_value", ""),
    optional_attr("separators", AttrType::Strings), string_attr("tokenexp", "")};
constexpr AttrDecl kVectorizer[] = {required_attr("max_gram_length", AttrType::Int),
                                    required_attr("max_skip_count", AttrType::Int),
                                    required_attr("min_gram_length", AttrType::Int),
                                    required_attr("mode", AttrType::String),
                                    required_attr("ngram_counts", AttrType::Ints),
                                    required_attr("ngram_indexes", AttrType::Ints),
                                    optional_attr("pool_int64s", AttrType::Ints),
                                    optional_attr("pool_strings", AttrType::Strings),
                                    optional_attr("weights", AttrType::Floats)};

}  // namespace

std::span<const OpDef> string_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "RegexFullMatch", .infer = infer_match, .attributes = kPattern},
      {.name = "StringConcat", .infer = infer_string_concat, .min_inputs = 2, .max_inputs = 2},
      {.name = "StringNormalizer", .infer = infer_normalizer, .attributes = kNormalizer},
      {.name = "StringSplit", .infer = infer_string_split, .max_outputs = 2, .attributes = kSplit},
      {.name = "Tokenizer",
       .domain = kMicrosoft,
       .infer = infer_tokenizer,
       .attributes = kTokenizer},
      {.name = "TfIdfVectorizer", .infer = infer_text_vectorizer, .attributes = kVectorizer},
  };
  return kOps;
}

}  // namespace reprise::ops
