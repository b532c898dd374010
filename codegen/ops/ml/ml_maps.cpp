// Operators of ai.onnx.ml on maps. They run on the host.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

constexpr std::string_view kMlDomain = "ai.onnx.ml";

/// The keys of an attribute that is a list: its length and whether they are strings. Nothing unless
/// one of both lists is given.
struct Keys {
  int64_t count = 0;
  bool strings = false;
};

Result<Keys> keys_of(const InferContext& ctx, std::string_view integers, std::string_view strings) {
  const Attributes attrs = ctx.attrs();
  if (const auto* list = attrs.get<std::vector<std::string>>(strings))
    return Keys{static_cast<int64_t>(list->size()), true};
  if (const auto* list = attrs.get<std::vector<int64_t>>(integers))
    return Keys{static_cast<int64_t>(list->size()), false};
  return ctx.invalid("it needs the attribute '" + std::string(integers) + "' or '" +
                     std::string(strings) + "'");
}

Status require_map(const InferContext& ctx, bool strings) {
  const Container wanted = strings ? Container::StringMap : Container::IntMap;
  if (container_of(ctx.dtype(0)) == wanted) return {};
  return ctx.invalid("input '" + ctx.input(0).name + "' must be a map from " +
                     (strings ? "strings" : "int64") + ", not " +
                     std::string(name_of(ctx.dtype(0))));
}

Status infer_zip_map(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_ASSIGN(const Keys labels, keys_of(ctx, "classlabels_int64s", "classlabels_strings"));
  const Shape& shape = ctx.shape(0);
  if (shape.empty() || shape.size() > 2)
    return ctx.invalid("the scores must be [N,C] or [C], not " + ctx.str(shape));
  RP_TRY(ctx.unify(shape.back(), Expr(labels.count), "the number of class labels").status());
  ctx.set_container(
      0,
      in_container(labels.strings ? Container::SequenceOfStringMaps : Container::SequenceOfIntMaps,
                   ctx.dtype(0)),
      {});
  return {};
}

Status infer_dict_vectorizer(InferContext& ctx) {
  RP_ASSIGN(const Keys keys, keys_of(ctx, "int64_vocabulary", "string_vocabulary"));
  RP_TRY(require_map(ctx, keys.strings));
  ctx.set_output(0, element_of(ctx.dtype(0)), {Expr(1), Expr(keys.count)});
  return {};
}

Status infer_cast_map(InferContext& ctx) {
  RP_TRY(require_map(ctx, false));
  const std::string to = ctx.attrs().get_string("cast_to");
  const std::string form = ctx.attrs().get_string("map_form");
  const DType t = to == "TO_FLOAT"    ? DType::F32
                  : to == "TO_STRING" ? DType::String
                  : to == "TO_INT64"  ? DType::I64
                                      : DType::Invalid;
  if (t == DType::Invalid)
    return ctx.invalid("attribute 'cast_to' is '" + to + "', not TO_FLOAT, TO_STRING or TO_INT64");
  if (form != "DENSE" && form != "SPARSE")
    return ctx.invalid("attribute 'map_form' is '" + form + "', not DENSE or SPARSE");
  const int64_t most = ctx.attrs().get_int("max_map");
  if (form == "SPARSE" && most < 1) return ctx.invalid("attribute 'max_map' must be positive");
  ctx.set_output(0, t, {Expr(1), form == "SPARSE" ? Expr(most) : ctx.fresh_symbol(0, 1)});
  return {};
}

constexpr AttrDecl kZipMap[] = {optional_attr("classlabels_int64s", AttrType::Ints),
                                optional_attr("classlabels_strings", AttrType::Strings)};
constexpr AttrDecl kDictVectorizer[] = {optional_attr("int64_vocabulary", AttrType::Ints),
                                        optional_attr("string_vocabulary", AttrType::Strings)};
constexpr AttrDecl kCastMap[] = {string_attr("cast_to", "TO_FLOAT"),
                                 string_attr("map_form", "DENSE"), int_attr("max_map", 1)};

}  // namespace

std::span<const OpDef> ml_map_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "CastMap",
       .domain = kMlDomain,
       .infer = infer_cast_map,
       .attributes = kCastMap,
       .containers = true},
      {.name = "DictVectorizer",
       .domain = kMlDomain,
       .infer = infer_dict_vectorizer,
       .attributes = kDictVectorizer,
       .containers = true},
      {.name = "ZipMap",
       .domain = kMlDomain,
       .infer = infer_zip_map,
       .attributes = kZipMap,
       .containers = true},
  };
  return kOps;
}

}  // namespace reprise::ops
