// The operators of ai.onnx.ml, of tensors. Arithmetic decomposes to standard operators, tree
// ensembles to those of tree_ensembles.h; what looks values up runs on the host.
#include <algorithm>
#include <array>

#include "codegen/ops/ml/tree_ensembles.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = graph::ValueId;

constexpr std::string_view kDomain = "ai.onnx.ml";

template <typename T>
size_t length_of(const Attributes& attrs, std::string_view name) {
  const auto* list = attrs.get<std::vector<T>>(name);
  return list == nullptr ? 0 : list->size();
}

/// A list of floats along the last axis.
V floats(OpBuilder& b, std::string_view name, float fallback) {
  const auto* list = b.attrs().get<std::vector<float>>(name);
  const std::vector<float> values = list == nullptr ? std::vector<float>{fallback} : *list;
  return b.constant(HostTensor::from(DType::F32, {static_cast<int64_t>(values.size())}, values));
}

// --- inference

/// Samples are rows of features; one sample may have rank 1.
Result<Expr> sample_count(InferContext& ctx) {
  if (ctx.rank(0) == 1) return Expr(1);
  RP_TRY(require_rank(ctx, 0, 2));
  if (ctx.rank(0) > 2)
    return ctx.invalid("samples must have rank 1 or 2, not " + ctx.str(ctx.shape(0)));
  return ctx.shape(0)[0];
}

Status infer_floats(InferContext& ctx) {
  ctx.set_output(0, DType::F32, ctx.shape(0));
  return {};
}

Status infer_extractor(InferContext& ctx) {
  RP_TRY(require_int(ctx, 1));
  Shape out = ctx.shape(0);
  if (out.empty()) return ctx.invalid("the input must have an axis to extract features from");
  if (out.size() == 1) out.insert(out.begin(), Expr(1));
  out.back() = element_count(ctx.shape(1));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_vectorizer(InferContext& ctx) {
  Expr columns = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i)
    columns += ctx.shape(i).empty() ? 1 : ctx.shape(i).back();
  RP_ASSIGN(Expr rows, sample_count(ctx));
  ctx.set_output(0, DType::F32, {std::move(rows), std::move(columns)});
  return {};
}

Status infer_one_hot(InferContext& ctx) {
  const size_t count = length_of<int64_t>(ctx.attrs(), "cats_int64s") +
                       length_of<std::string>(ctx.attrs(), "cats_strings");
  Shape out = ctx.shape(0);
  out.emplace_back(static_cast<int64_t>(count));
  ctx.set_output(0, DType::F32, std::move(out));
  return {};
}

Status infer_label_encoder(InferContext& ctx) {
  const Attributes attrs = ctx.attrs();
  DType dtype = ctx.dtype(0) == DType::String ? DType::I64 : DType::String;  // of version 1
  if (attrs.has("values_strings")) dtype = DType::String;
  if (attrs.has("values_int64s")) dtype = DType::I64;
  if (attrs.has("values_floats")) dtype = DType::F32;
  if (const auto* t = attrs.get<HostTensor>("values_tensor")) dtype = t->dtype();
  ctx.set_output(0, dtype, ctx.shape(0));
  return {};
}

Status infer_category_mapper(InferContext& ctx) {
  ctx.set_output(0, ctx.dtype(0) == DType::String ? DType::I64 : DType::String, ctx.shape(0));
  return {};
}

Status infer_regressor(InferContext& ctx, std::string_view targets, DType dtype) {
  const int64_t count = ctx.attrs().get_int(targets);
  if (count < 1) {
    return ctx.invalid("attribute '" + std::string(targets) + "' = " + std::to_string(count) +
                       " must be at least 1");
  }
  RP_ASSIGN(Expr rows, sample_count(ctx));
  ctx.set_output(0, dtype, {std::move(rows), Expr(count)});
  return {};
}

Status infer_linear_regressor(InferContext& ctx) {
  RP_TRY(infer_regressor(ctx, "targets", DType::F32));
  const auto weights = static_cast<int64_t>(length_of<float>(ctx.attrs(), "coefficients"));
  const int64_t targets = ctx.attrs().get_int("targets");
  const Expr& features = ctx.shape(0).back();
  if (weights % targets != 0 || (features.is_const() && !features.is_const(weights / targets))) {
    return ctx.invalid("it has " + std::to_string(weights) + " coefficients for " +
                       std::to_string(targets) + " targets and samples " + ctx.str(ctx.shape(0)));
  }
  return {};
}

Status infer_tree_regressor(InferContext& ctx) {
  return infer_regressor(ctx, "n_targets", DType::F32);
}

Status infer_tree_ensemble(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  return infer_regressor(ctx, "n_targets", ctx.dtype(0));
}

Status infer_classifier(InferContext& ctx, std::string_view ints, size_t columns) {
  RP_ASSIGN(const Expr rows, sample_count(ctx));
  const bool numbers = length_of<int64_t>(ctx.attrs(), ints) > 0;
  ctx.set_output(0, numbers ? DType::I64 : DType::String, {rows});
  ctx.set_output(1, DType::F32, {rows, Expr(static_cast<int64_t>(columns))});
  return {};
}

Status infer_tree_classifier(InferContext& ctx) {
  const size_t labels = length_of<int64_t>(ctx.attrs(), "classlabels_int64s") +
                        length_of<std::string>(ctx.attrs(), "classlabels_strings");
  return infer_classifier(ctx, "classlabels_int64s", labels);
}

Status infer_linear_classifier(InferContext& ctx) {
  const size_t labels = length_of<int64_t>(ctx.attrs(), "classlabels_ints") +
                        length_of<std::string>(ctx.attrs(), "classlabels_strings");
  const size_t weights = length_of<float>(ctx.attrs(), "coefficients");
  const Expr& features = ctx.shape(0).back();
  if (!features.is_const() || features.value() <= 0)
    return ctx.invalid("the number of features must be known, not " + ctx.str(ctx.shape(0)));
  const size_t rows = weights / static_cast<size_t>(features.value());
  const bool probit = ctx.attrs().get_string("post_transform") == "PROBIT";
  return infer_classifier(ctx, "classlabels_ints", rows == 1 && labels == 2 && !probit ? 2 : rows);
}

/// Support vectors without probabilities give a score for each pair of classes, or two scores.
Status infer_svm_classifier(InferContext& ctx) {
  const Attributes attrs = ctx.attrs();
  const size_t labels = length_of<int64_t>(attrs, "classlabels_ints") +
                        length_of<std::string>(attrs, "classlabels_strings");
  const std::vector<int64_t> vectors = attrs.get_ints("vectors_per_class");
  const bool is_linear = std::ranges::all_of(vectors, [](int64_t n) { return n == 0; });
  const bool pairs = !is_linear && length_of<float>(attrs, "prob_a") == 0 && labels > 2;
  return infer_classifier(ctx, "classlabels_ints", pairs ? labels * (labels - 1) / 2 : labels);
}

Status infer_svm_regressor(InferContext& ctx) {
  RP_ASSIGN(Expr rows, sample_count(ctx));
  ctx.set_output(0, DType::F32, {std::move(rows), Expr(1)});
  return {};
}

// --- decompositions

Result<bool> decompose_scaler(Rewriter& rw) {
  OpBuilder b(rw);
  const V x = b.cast(b.in(0), DType::F32);
  b.replace(0, b.mul(b.sub(x, floats(b, "offset", 0)), floats(b, "scale", 1)));
  return b.finish();
}

Result<bool> decompose_binarizer(Rewriter& rw) {
  OpBuilder b(rw);
  const V x = b.in(0);
  const V above = b.op(
      "Greater", {b.cast(x, DType::F32), b.scalar(DType::F32, b.attrs().get_float("threshold"))});
  b.replace(0, b.cast(above, b.dtype(x)));
  return b.finish();
}

Result<bool> decompose_imputer(Rewriter& rw) {
  OpBuilder b(rw);
  const V x = b.in(0);
  const bool integers = b.dtype(x) == DType::I64;
  V missing{};
  V imputed{};
  if (integers) {
    const auto* values = b.attrs().get<std::vector<int64_t>>("imputed_value_int64s");
    imputed = b.ints(values == nullptr ? std::vector<int64_t>{} : *values);
    missing = b.op("Equal", {x, b.ints({b.attrs().get_int("replaced_value_int64")})});
  } else {
    const float replaced = b.attrs().get_float("replaced_value_float");
    imputed = b.cast(floats(b, "imputed_value_floats", 0), b.dtype(x));
    missing = replaced != replaced ? b.op("IsNaN", {x})
                                   : b.op("Equal", {x, b.scalar(b.dtype(x), replaced)});
  }
  b.replace(0, b.where(missing, imputed, x));
  return b.finish();
}

/// Divides rows by their norm, if it is not 0.
Result<bool> decompose_normalizer(Rewriter& rw) {
  OpBuilder b(rw);
  const V x = b.cast(b.in(0), DType::F32);
  const std::vector<int64_t> axes{static_cast<int64_t>(b.shape(x).size()) - 1};
  const std::string kind = b.attrs().get_string("norm");
  V norm{};
  if (kind == "MAX") {
    norm = b.reduce("ReduceMax", x, axes);
  } else if (kind == "L1") {
    norm = b.reduce("ReduceSum", b.op("Abs", {x}), axes);
  } else if (kind == "L2") {
    norm = b.op("Sqrt", {b.reduce("ReduceSum", b.mul(x, x), axes)});
  } else {
    return invalid_model("attribute 'norm' is '" + kind + "'; expected MAX, L1 or L2");
  }
  const V zero = b.op("Equal", {norm, b.scalar(DType::F32, 0)});
  b.replace(0, b.where(zero, x, b.div(x, norm)));
  return b.finish();
}

Result<bool> decompose_vectorizer(Rewriter& rw) {
  OpBuilder b(rw);
  std::vector<V> parts;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) {
    const V x = b.cast(b.in(i), DType::F32);
    const Shape shape = b.shape(x);
    parts.push_back(shape.size() == 2 ? x : b.reshape(x, {Expr(1), element_count(shape)}));
  }
  b.replace(0, b.concat(std::move(parts), 1));
  return b.finish();
}

Result<bool> decompose_extractor(Rewriter& rw) {
  OpBuilder b(rw);
  V x = b.in(0);
  const Shape shape = b.shape(x);
  if (shape.size() == 1) x = b.reshape(x, {Expr(1), shape[0]});
  const V indices = b.reshape(b.in(1), {element_count(b.shape(b.in(1)))});
  AttrMap attrs;
  attrs.set("axis", static_cast<int64_t>(b.shape(x).size()) - 1);
  b.replace(0, b.op("Gather", {x, indices}, std::move(attrs)));
  return b.finish();
}

/// Scores of other transforms than these are computed on the host.
Result<bool> decompose_linear_regressor(Rewriter& rw) {
  OpBuilder b(rw);
  const Attributes attrs = b.attrs();
  const std::string post = attrs.get_string("post_transform");
  V x = b.cast(b.in(0), DType::F32);
  const Shape shape = b.shape(x);
  if (shape.size() == 1) x = b.reshape(x, {Expr(1), shape[0]});
  const int64_t targets = attrs.get_int("targets");
  const auto* weights = attrs.get<std::vector<float>>("coefficients");
  const auto* bias = attrs.get<std::vector<float>>("intercepts");
  const auto features = static_cast<int64_t>(weights->size()) / targets;
  const V matrix = b.constant(HostTensor::from(DType::F32, {targets, features}, *weights));
  V y = b.op("MatMul", {x, b.transpose(matrix, {1, 0})});
  if (bias != nullptr) y = b.add(y, floats(b, "intercepts", 0));
  if (post == "LOGISTIC") {
    y = b.op("Sigmoid", {y});
  } else if (post != "NONE") {
    return unsupported("attribute 'post_transform' = '" + post +
                       "' is not supported; use NONE or LOGISTIC, and apply others outside");
  }
  b.replace(0, y);
  return b.finish();
}

constexpr AttrDecl kScaler[] = {optional_attr("offset", AttrType::Floats),
                                optional_attr("scale", AttrType::Floats)};
constexpr AttrDecl kBinarizer[] = {float_attr("threshold", 0)};
constexpr AttrDecl kImputer[] = {optional_attr("imputed_value_floats", AttrType::Floats),
                                 optional_attr("imputed_value_int64s", AttrType::Ints),
                                 float_attr("replaced_value_float", 0),
                                 int_attr("replaced_value_int64", 0)};
constexpr AttrDecl kNormalizer[] = {string_attr("norm", "MAX")};
constexpr AttrDecl kVectorizer[] = {optional_attr("inputdimensions", AttrType::Ints)};
constexpr AttrDecl kOneHot[] = {optional_attr("cats_int64s", AttrType::Ints),
                                optional_attr("cats_strings", AttrType::Strings),
                                int_attr("zeros", 1)};
constexpr AttrDecl kCategories[] = {
    optional_attr("cats_int64s", AttrType::Ints), optional_attr("cats_strings", AttrType::Strings),
    int_attr("default_int64", -1), string_attr("default_string", "_Unused")};
constexpr AttrDecl kLabels[] = {optional_attr("classes_strings", AttrType::Strings),
                                float_attr("default_float", -0.0F),
                                int_attr("default_int64", -1),
                                string_attr("default_string", "_Unused"),
                                optional_attr("default_tensor", AttrType::Tensor),
                                optional_attr("keys_floats", AttrType::Floats),
                                optional_attr("keys_int64s", AttrType::Ints),
                                optional_attr("keys_strings", AttrType::Strings),
                                optional_attr("keys_tensor", AttrType::Tensor),
                                optional_attr("values_floats", AttrType::Floats),
                                optional_attr("values_int64s", AttrType::Ints),
                                optional_attr("values_strings", AttrType::Strings),
                                optional_attr("values_tensor", AttrType::Tensor)};
constexpr AttrDecl kLinearRegressor[] = {
    required_attr("coefficients", AttrType::Floats), optional_attr("intercepts", AttrType::Floats),
    string_attr("post_transform", "NONE"), int_attr("targets", 1)};
constexpr AttrDecl kLinearClassifier[] = {optional_attr("classlabels_ints", AttrType::Ints),
                                          optional_attr("classlabels_strings", AttrType::Strings),
                                          required_attr("coefficients", AttrType::Floats),
                                          optional_attr("intercepts", AttrType::Floats),
                                          int_attr("multi_class", 0),
                                          string_attr("post_transform", "NONE")};

/// A table of attributes that begins with those of another.
template <size_t A, size_t B>
constexpr std::array<AttrDecl, A + B> joined(const AttrDecl (&first)[A],
                                             const AttrDecl (&rest)[B]) {
  std::array<AttrDecl, A + B> out{};
  std::copy(first, first + A, out.begin());
  std::copy(rest, rest + B, out.begin() + A);
  return out;
}

constexpr AttrDecl kSvmClassifier[] = {optional_attr("classlabels_ints", AttrType::Ints),
                                       optional_attr("classlabels_strings", AttrType::Strings),
                                       required_attr("coefficients", AttrType::Floats),
                                       optional_attr("kernel_params", AttrType::Floats),
                                       string_attr("kernel_type", "LINEAR"),
                                       string_attr("post_transform", "NONE"),
                                       optional_attr("prob_a", AttrType::Floats),
                                       optional_attr("prob_b", AttrType::Floats),
                                       required_attr("rho", AttrType::Floats),
                                       optional_attr("support_vectors", AttrType::Floats),
                                       optional_attr("vectors_per_class", AttrType::Ints)};
constexpr AttrDecl kSvmRegressor[] = {required_attr("coefficients", AttrType::Floats),
                                      optional_attr("kernel_params", AttrType::Floats),
                                      string_attr("kernel_type", "LINEAR"),
                                      int_attr("n_supports", 0),
                                      int_attr("one_class", 0),
                                      string_attr("post_transform", "NONE"),
                                      required_attr("rho", AttrType::Floats),
                                      optional_attr("support_vectors", AttrType::Floats)};

constexpr AttrDecl kTreeNodes[] = {optional_attr("base_values", AttrType::Floats),
                                   optional_attr("base_values_as_tensor", AttrType::Tensor),
                                   required_attr("nodes_falsenodeids", AttrType::Ints),
                                   required_attr("nodes_featureids", AttrType::Ints),
                                   optional_attr("nodes_hitrates", AttrType::Floats),
                                   optional_attr("nodes_hitrates_as_tensor", AttrType::Tensor),
                                   optional_attr("nodes_missing_value_tracks_true", AttrType::Ints),
                                   required_attr("nodes_modes", AttrType::Strings),
                                   required_attr("nodes_nodeids", AttrType::Ints),
                                   required_attr("nodes_treeids", AttrType::Ints),
                                   required_attr("nodes_truenodeids", AttrType::Ints),
                                   optional_attr("nodes_values", AttrType::Floats),
                                   optional_attr("nodes_values_as_tensor", AttrType::Tensor),
                                   string_attr("post_transform", "NONE")};
constexpr AttrDecl kTargets[] = {string_attr("aggregate_function", "SUM"),
                                 required_attr("n_targets", AttrType::Int),
                                 required_attr("target_ids", AttrType::Ints),
                                 required_attr("target_nodeids", AttrType::Ints),
                                 required_attr("target_treeids", AttrType::Ints),
                                 optional_attr("target_weights", AttrType::Floats),
                                 optional_attr("target_weights_as_tensor", AttrType::Tensor)};
constexpr AttrDecl kClasses[] = {required_attr("class_ids", AttrType::Ints),
                                 required_attr("class_nodeids", AttrType::Ints),
                                 required_attr("class_treeids", AttrType::Ints),
                                 optional_attr("class_weights", AttrType::Floats),
                                 optional_attr("class_weights_as_tensor", AttrType::Tensor),
                                 optional_attr("classlabels_int64s", AttrType::Ints),
                                 optional_attr("classlabels_strings", AttrType::Strings)};
constexpr auto kTreeRegressor = joined(kTreeNodes, kTargets);
constexpr auto kTreeClassifier = joined(kTreeNodes, kClasses);
constexpr AttrDecl kTreeEnsemble[] = {
    int_attr("aggregate_function", 1),
    required_attr("leaf_targetids", AttrType::Ints),
    required_attr("leaf_weights", AttrType::Tensor),
    optional_attr("membership_values", AttrType::Tensor),
    int_attr("n_targets", 1),
    required_attr("nodes_falseleafs", AttrType::Ints),
    required_attr("nodes_falsenodeids", AttrType::Ints),
    required_attr("nodes_featureids", AttrType::Ints),
    optional_attr("nodes_hitrates", AttrType::Tensor),
    optional_attr("nodes_missing_value_tracks_true", AttrType::Ints),
    required_attr("nodes_modes", AttrType::Tensor),
    required_attr("nodes_splits", AttrType::Tensor),
    required_attr("nodes_trueleafs", AttrType::Ints),
    required_attr("nodes_truenodeids", AttrType::Ints),
    int_attr("post_transform", 0),
    required_attr("tree_roots", AttrType::Ints)};

constexpr AttrDecl kTreeLeaves[] = {required_attr("depth", AttrType::Int)};

constexpr OpDef kOps[] = {
    {.name = "ArrayFeatureExtractor",
     .domain = kDomain,
     .infer = infer_extractor,
     .decompose = decompose_extractor,
     .min_inputs = 2,
     .max_inputs = 2},
    {.name = "Binarizer",
     .domain = kDomain,
     .infer = infer_same,
     .decompose = decompose_binarizer,
     .attributes = kBinarizer},
    {.name = "CategoryMapper",
     .domain = kDomain,
     .infer = infer_category_mapper,
     .attributes = kCategories},
    {.name = "FeatureVectorizer",
     .domain = kDomain,
     .infer = infer_vectorizer,
     .decompose = decompose_vectorizer,
     .max_inputs = kVariadic,
     .attributes = kVectorizer},
    {.name = "Imputer",
     .domain = kDomain,
     .infer = infer_same,
     .decompose = decompose_imputer,
     .attributes = kImputer},
    {.name = "LabelEncoder",
     .domain = kDomain,
     .infer = infer_label_encoder,
     .attributes = kLabels},
    {.name = "LinearClassifier",
     .domain = kDomain,
     .infer = infer_linear_classifier,
     .max_outputs = 2,
     .attributes = kLinearClassifier},
    {.name = "LinearRegressor",
     .domain = kDomain,
     .infer = infer_linear_regressor,
     .decompose = decompose_linear_regressor,
     .attributes = kLinearRegressor},
    {.name = "Normalizer",
     .domain = kDomain,
     .infer = infer_floats,
     .decompose = decompose_normalizer,
     .attributes = kNormalizer},
    {.name = "OneHotEncoder", .domain = kDomain, .infer = infer_one_hot, .attributes = kOneHot},
    {.name = "Scaler",
     .domain = kDomain,
     .infer = infer_floats,
     .decompose = decompose_scaler,
     .attributes = kScaler},
    {.name = "SVMClassifier",
     .domain = kDomain,
     .infer = infer_svm_classifier,
     .max_outputs = 2,
     .attributes = kSvmClassifier},
    {.name = "SVMRegressor",
     .domain = kDomain,
     .infer = infer_svm_regressor,
     .attributes = kSvmRegressor},
    {.name = "TreeEnsemble",
     .domain = kDomain,
     .infer = infer_tree_ensemble,
     .decompose = decompose_tree_ensemble,
     .attributes = kTreeEnsemble},
    {.name = "TreeEnsembleClassifier",
     .domain = kDomain,
     .infer = infer_tree_classifier,
     .decompose = decompose_tree_classifier,
     .max_outputs = 2,
     .attributes = kTreeClassifier},
    {.name = "TreeEnsembleRegressor",
     .domain = kDomain,
     .infer = infer_tree_regressor,
     .decompose = decompose_tree_regressor,
     .attributes = kTreeRegressor},
    {.name = "TreeLeaves",
     .infer = infer_tree_leaves,
     .lowering = Lowering::Element,
     .element = tree_leaves_element,
     .min_inputs = 3,
     .max_inputs = 3,
     .attributes = kTreeLeaves,
     .sensitivity = kernel::Sensitivity::Decision,
     .layout = LayoutRole::Fixed,
     .reads_per_element = tree_leaves_reads},
};

}  // namespace

std::span<const OpDef> ml_ops() {
  return kOps;
}

}  // namespace reprise::ops
