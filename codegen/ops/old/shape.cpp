// Operators on shapes in versions of ONNX that take sizes as attributes, in the form of later
// versions.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "codegen/ops/old/versions.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using graph::kNone;
using V = OpBuilder::V;

/// The name of a type as TensorProto has it.
Result<bool> old_cast(Rewriter& rw) {
  Composer c(rw);
  std::string name = c.attrs().get_string("to");
  std::ranges::transform(name, name.begin(),
                         [](unsigned char x) { return static_cast<char>(std::toupper(x)); });
  constexpr std::string_view kNames[] = {"UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                         "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
                                         "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
  const auto* at = std::ranges::find(kNames, name);
  if (at == std::end(kNames) || at == kNames)
    c.refuse(Code::InvalidModel,
             "'to' is '" + c.attrs().get_string("to") + "', expected the name of a type");
  if (!c.ok()) return c.finish();
  c.replace(0, c.model("Cast", {c.in(0)}, attributes({{"to", int64_t{at - kNames}}}), 9));
  return c.finish();
}

Result<bool> old_concat(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Concat", rw.node().inputs.list(),
                       attributes({{"axis", c.attrs().get_int("axis")}})));
  return c.finish();
}

/// Whole numbers of a constant, which have the type of the data.
std::vector<int64_t> whole_numbers(Composer& c, size_t input, const std::string& what) {
  std::vector<int64_t> out;
  const auto numbers = constant_numbers(c.rewriter().input(input));
  if (!numbers) c.refuse(Code::Unsupported, what + " must be constant; make it an initialiser");
  for (const double x : numbers.value_or(std::vector<double>{})) {
    if (!(x >= 0 && x < 2147483648.0 && x == std::floor(x))) {
      c.refuse(Code::InvalidModel, what + " must be whole numbers");
      return out;
    }
    out.push_back(static_cast<int64_t>(x));
  }
  return out;
}

Result<bool> old_split(Rewriter& rw) {
  Composer c(rw);
  AttrMap a = c.given({"axis", "split"});
  if (c.has(1)) a.set("split", whole_numbers(c, 1, "split"));
  const size_t count = rw.node().outputs.size();
  const std::vector<V> parts = c.model_all("Split", {c.in(0)}, std::move(a), count, 2);
  for (size_t i = 0; i < count; ++i) {
    if (c.has_output(i)) c.replace(i, parts[i]);
  }
  return c.finish();
}

Result<bool> old_reshape(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Reshape", {c.in(0), c.ints(c.attrs().get_ints("shape"))}, {}, 5));
  return c.finish();
}

Result<bool> old_pad(Rewriter& rw) {
  Composer c(rw);
  AttrMap a = c.given({"mode", "value"});
  a.set("pads", c.attrs().get_ints("paddings"));
  c.replace(0, c.model("Pad", {c.in(0)}, std::move(a), 2));
  return c.finish();
}

/// Repeats one axis.
Result<bool> old_tile(Rewriter& rw) {
  Composer c(rw);
  const std::vector<int64_t> tiles = whole_numbers(c, 1, "tiles");
  const std::vector<int64_t> axis = whole_numbers(c, 2, "axis");
  std::vector<int64_t> repeats(c.shape(c.in(0)).size(), 1);
  if (c.ok() && (tiles.size() != 1 || axis.size() != 1 || axis[0] >= std::ssize(repeats)))
    c.refuse(Code::InvalidModel,
             "tiles and axis must be one number each, and axis one of the data");
  if (!c.ok()) return c.finish();
  repeats[static_cast<size_t>(axis[0])] = tiles[0];
  c.replace(0, c.model("Tile", {c.in(0), c.ints(repeats)}, {}, 6));
  return c.finish();
}

Result<bool> upsample(Rewriter& rw) {
  Composer c(rw);
  const std::string mode = c.attrs().get_string("mode");
  if (mode != "nearest" && mode != "bilinear")
    c.refuse(Code::InvalidModel, "mode is '" + mode + "', must be nearest or bilinear");
  if (c.shape(c.in(0)).size() != 4) c.refuse(Code::InvalidModel, "the input must have rank 4");
  const std::vector<float> scales{1, 1, c.attrs().get_float("height_scale"),
                                  c.attrs().get_float("width_scale")};
  c.replace(0, c.model("Upsample", {c.in(0)},
                       attributes({{"mode", std::string(mode == "nearest" ? "nearest" : "linear")},
                                   {"scales", scales}}),
                       7));
  return c.finish();
}

// --- Operators before version 10 -----------------------------------------------------------------

/// Cuts `border` (left, top, right, bottom) off an image, or takes `scale` (height, width) of it.
Result<bool> crop(Rewriter& rw) {
  Composer c(rw);
  const std::vector<int64_t> border = c.attrs().get_ints("border");
  const std::vector<int64_t> size = c.attrs().get_ints("scale");
  const Shape s = c.shape(c.in(0));
  bool fits = s.size() == 4 && border.size() == 4 && (size.empty() || size.size() == 2);
  for (const int64_t b : border) fits = fits && b >= 0;
  for (const int64_t b : size) fits = fits && b >= 0;
  if (!fits)
    c.refuse(Code::InvalidModel, "the input must have rank 4, and border four and scale two sizes");
  if (!c.ok()) return c.finish();
  const InferContext ctx(rw.graph(), rw.node());
  V y = c.in(0);
  for (size_t i = 0; i < 2; ++i) {
    const Expr& length = s[2 + i];
    const Expr begin = border[1 - i];
    const Expr taken = size.empty() ? length - begin - Expr(border[3 - i]) : Expr(size[i]);
    ctx.at_least(length, "the image", size.empty() ? begin + Expr(border[3 - i]) : begin + taken,
                 "the border");
    y = c.slice_axis(y, static_cast<int64_t>(2 + i), begin, taken);
  }
  c.replace(0, y);
  return c.finish();
}

Result<bool> dynamic_slice(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Slice", rw.node().inputs.list(), {}, 10));
  return c.finish();
}

/// The shape of a fill: an attribute, or that of the input or its contents, with `extra_shape`.
Shape filled_shape(Composer& c) {
  const InferContext ctx(c.rewriter().graph(), c.rewriter().node());
  Shape out = exprs_of(c.attrs().get_ints("shape"));
  if (c.has(0) && c.attrs().get_int("input_as_shape") != 0) {
    const auto elements = ctx.elements(0);
    if (!elements)
      c.refuse(Code::Unsupported, "the shape depends on data; make the input an initialiser");
    out = elements.value_or(Shape{});
  } else if (c.has(0)) {
    out = c.shape(c.in(0));
  }
  const Shape extra = exprs_of(c.attrs().get_ints("extra_shape"));
  if (c.has(0)) out.insert(out.end(), extra.begin(), extra.end());
  return out;
}

Result<bool> constant_fill(Rewriter& rw) {
  Composer c(rw);
  const DType t = dtype_from_onnx(c.attrs().get_int("dtype"));
  if (!is_float(t) && !is_int(t) && t != DType::Bool)
    c.refuse(Code::Unsupported, "dtype is " + std::string(name_of(t)));
  if (!c.ok()) return c.finish();
  const V value = c.scalar(t, static_cast<double>(c.attrs().get_float("value")));
  c.replace(0, c.expand(value, filled_shape(c)));
  return c.finish();
}

Result<bool> given_tensor_fill(Rewriter& rw) {
  Composer c(rw);
  const Shape to = filled_shape(c);
  const auto values = c.attrs().get_or<std::vector<float>>("values", {});
  const auto count = static_cast<int64_t>(values.size());
  if (!is_static(to) || !element_count(to).is_const(count))
    c.refuse(Code::InvalidModel, "there are " + std::to_string(count) + " values for the shape " +
                                     InferContext(rw.graph(), rw.node()).str(to));
  if (!c.ok()) return c.finish();
  c.replace(0, c.constant(HostTensor::from<float>(DType::F32, static_dims(to), values)));
  return c.finish();
}

constexpr AttrDecl kCastAttrs[] = {required_attr("to", AttrType::String)};
constexpr AttrDecl kOldConcatAttrs[] = {int_attr("axis", 1)};
constexpr AttrDecl kOldSplitAttrs[] = {int_attr("axis", 0), optional_attr("split", AttrType::Ints)};
constexpr AttrDecl kReshapeAttrs[] = {optional_attr("shape", AttrType::Ints)};
constexpr AttrDecl kOldPadAttrs[] = {string_attr("mode", "constant"),
                                     required_attr("paddings", AttrType::Ints),
                                     float_attr("value", 0.0F)};
constexpr AttrDecl kUpsampleAttrs[] = {required_attr("height_scale", AttrType::Float),
                                       string_attr("mode", "nearest"),
                                       required_attr("width_scale", AttrType::Float)};
constexpr AttrDecl kOldCropAttrs[] = {required_attr("border", AttrType::Ints),
                                      optional_attr("scale", AttrType::Ints)};
constexpr AttrDecl kFillAttrs[] = {
    int_attr("dtype", 1), optional_attr("extra_shape", AttrType::Ints),
    int_attr("input_as_shape", 0), optional_attr("shape", AttrType::Ints),
    float_attr("value", 0.0F)};
constexpr AttrDecl kGivenAttrs[] = {
    optional_attr("extra_shape", AttrType::Ints), int_attr("input_as_shape", 0),
    optional_attr("shape", AttrType::Ints), optional_attr("values", AttrType::Floats)};

}  // namespace

std::span<const OpDef> old_shape_ops() {
  static constexpr OpDef kOps[] = {
      old_row({"CastBefore6", "Cast", 5}, old_cast, {1, 1}, kCastAttrs),
      old_row({"ConcatBefore4", "Concat", 3}, old_concat, {1, kVariadic}, kOldConcatAttrs),
      old_row({"SplitBefore2", "Split", 1}, old_split, {1, 2, kVariadic}, kOldSplitAttrs),
      old_row({"ReshapeBefore5", "Reshape", 4}, old_reshape, {1, 1}, kReshapeAttrs),
      old_row({"PadBefore2", "Pad", 1}, old_pad, {1, 1}, kOldPadAttrs),
      old_row({"TileBefore6", "Tile", 5}, old_tile, {3, 3}),
      old_row({"UpsampleBefore7", "Upsample", 6}, upsample, {1, 1}, kUpsampleAttrs),
      old_row({"Crop", "", 0}, crop, {1, 1}, kOldCropAttrs),
      old_row({"DynamicSlice", "", 0}, dynamic_slice, {3, 4}),
      old_row({"ConstantFill", "", 0}, constant_fill, {0, 1}, kFillAttrs),
      old_row({"GivenTensorFill", "", 0}, given_tensor_fill, {0, 1}, kGivenAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
