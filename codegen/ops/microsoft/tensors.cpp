// Operators of com.microsoft that move, choose or compare elements, written in operators of ONNX.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <string>

#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using graph::kNone;
using V = OpBuilder::V;

// --- Operators that ONNX has, too ----------------------------------------------------------------

Result<bool> identity(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Identity", {c.in(0)}));
  return c.finish();
}

Result<bool> trilu(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Trilu", {c.in(0), c.input(1)}, c.given({"upper"})));
  return c.finish();
}

Result<bool> gather_nd(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("GatherND", {c.in(0), c.cast(c.in(1), DType::I64)}));
  return c.finish();
}

Result<bool> grid_sample(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("GridSample", {c.in(0), c.in(1)},
                       c.given({"align_corners", "mode", "padding_mode"}), 16));
  return c.finish();
}

Result<bool> torch_embedding(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Gather", {c.in(0), c.in(1)}));
  return c.finish();
}

/// One number of rank 0 or 1, as a scalar.
V scalar_of(Composer& c, V v, const std::string& what) {
  if (v == kNone || !c.ok()) return v;
  if (!element_count(c.shape(v)).is_const(1))
    c.refuse(Code::InvalidModel, what + " must be one number");
  return c.reshape(v, {});
}

Result<bool> range(Rewriter& rw) {
  Composer c(rw);
  const V start = scalar_of(c, c.in(0), "start"), limit = scalar_of(c, c.in(1), "limit");
  const V delta = c.has(2) ? scalar_of(c, c.in(2), "delta") : c.scalar(c.dtype(c.in(0)), 1);
  c.replace(0, c.model("Range", {start, limit, delta}));
  return c.finish();
}

Result<bool> pad(Rewriter& rw) {
  Composer c(rw);
  const V pads = c.reshape(c.in(1), {element_count(c.shape(c.in(1)))});
  const V value = scalar_of(c, c.input(2), "value");
  c.replace(0, c.model("Pad", {c.in(0), pads, value}, c.given({"mode"}), 13));
  return c.finish();
}

Result<bool> expand_dims(Rewriter& rw) {
  Composer c(rw);
  const std::vector<int64_t> axis = c.constant_ints(1, "axis");
  if (c.ok() && axis.size() != 1) c.refuse(Code::InvalidModel, "axis must be one number");
  c.replace(0, c.model("Unsqueeze", {c.in(0), c.ints(axis)}));
  return c.finish();
}

/// All windows of `size` elements along an axis, each as the last axis of the result.
Result<bool> unfold(Rewriter& rw) {
  Composer c(rw);
  const Shape s = c.shape(c.in(0));
  const auto rank = std::ssize(s);
  const int64_t given = c.attrs().get_int("dim"), dim = given < 0 ? given + rank : given;
  const int64_t size = c.attrs().get_int("size"), step = c.attrs().get_int("step");
  if (dim < 0 || dim >= rank || size < 1 || step < 1)
    c.refuse(Code::InvalidModel, "dim must be an axis, and size and step at least 1");
  if (!c.ok()) return c.finish();
  const Expr& length = s[static_cast<size_t>(dim)];
  const InferContext ctx(rw.graph(), rw.node());
  ctx.at_least(length, "dimension " + std::to_string(dim), size, "the window");
  const Expr count = Expr::floordiv(length - size, step) + 1;
  const V starts = c.mul(c.reshape(c.range(count), {count, 1}), static_cast<double>(step));
  const V at = c.add(starts, c.reshape(c.range(size), {1, size}));
  const V windows = c.model("Gather", {c.in(0), at}, attributes({{"axis", dim}}));
  std::vector<int64_t> order = iota(0, rank + 1);
  order.erase(order.begin() + dim + 1);
  order.push_back(dim + 1);
  c.replace(0, c.transpose(windows, order));
  return c.finish();
}

// --- Numbers -------------------------------------------------------------------------------------

/// Whether no element is NaN (unless isinf_only) or infinite (unless isnan_only).
Result<bool> all_finite(Rewriter& rw) {
  Composer c(rw);
  const bool nan = c.attrs().get_int("isinf_only") == 0;
  const bool inf = c.attrs().get_int("isnan_only") == 0;
  if (!nan && !inf) c.refuse(Code::InvalidModel, "isinf_only and isnan_only exclude each other");
  V found = kNone;
  for (const V x : rw.node().inputs.list()) {
    for (const char* test : {"IsNaN", "IsInf"}) {
      if (!(std::string(test) == "IsNaN" ? nan : inf)) continue;
      const V hits = c.cast(c.model(test, {x}), DType::I32);
      const V any = c.model("ReduceMax", {hits}, attributes({{"keepdims", int64_t{0}}}), 13);
      // An empty tensor has the smallest number as its maximum.
      const V hit = c.op("Greater", {any, c.scalar(DType::I32, 0)});
      found = found == kNone ? hit : c.model("Or", {found, hit});
    }
  }
  c.replace(0, c.model("Not", {found}));
  return c.finish();
}

/// Distances of each pair of rows.
Result<bool> distances(Rewriter& rw) {
  Composer c(rw);
  const std::string metric = c.attrs().get_string("metric");
  if (metric != "euclidean" && metric != "sqeuclidean")
    c.refuse(Code::Unsupported,
             "the metric '" + metric + "'; supported are euclidean and sqeuclidean");
  const Shape a = c.shape(c.in(0)), b = c.shape(c.in(1));
  if (a.size() != 2 || b.size() != 2) c.refuse(Code::InvalidModel, "A and B must be matrices");
  if (!c.ok()) return c.finish();
  RP_TRY(InferContext(rw.graph(), rw.node()).unify(a[1], b[1], "columns of A and B").status());
  const V difference =
      c.model("Sub", {c.reshape(c.in(0), {a[0], 1, a[1]}), c.reshape(c.in(1), {1, b[0], b[1]})});
  const V square =
      c.reshape(c.reduce("ReduceSum", c.mul(difference, difference), {2}), {a[0], b[0]});
  c.replace(0, metric == "euclidean" ? c.op("Sqrt", {square}) : square);
  return c.finish();
}

/// The product of complex numbers, whose parts are the last axis.
V complex_product(Composer& c, bool conjugate) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Shape s = c.shape(c.in(i));
    if (s.empty() || !s.back().is_const(2))
      c.refuse(Code::InvalidModel, "the last dim of A and B must be 2");
  }
  if (!c.ok()) return kNone;
  const auto part = [&](size_t i, int64_t which) {
    const V v = c.in(i);
    return c.slice_axis(v, std::ssize(c.shape(v)) - 1, which, 1);
  };
  const auto mul = [&](V a, V b) { return c.model("Mul", {a, b}); };
  const V imaginary = conjugate ? c.op("Neg", {part(1, 1)}) : part(1, 1);
  const V real = c.sub(mul(part(0, 0), part(1, 0)), mul(part(0, 1), imaginary));
  const V rest = c.add(mul(part(0, 0), imaginary), mul(part(0, 1), part(1, 0)));
  return c.concat({real, rest}, c.ok() ? std::ssize(c.shape(real)) - 1 : 0);
}

Result<bool> complex_mul(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, complex_product(c, false));
  return c.finish();
}

Result<bool> complex_mul_conj(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, complex_product(c, true));
  return c.finish();
}

// --- Inverse -------------------------------------------------------------------------------------

/// The elements of matrices, each a tensor over the batch.
using Elements = std::vector<std::vector<V>>;

/// The determinant of m without the rows and columns that are crossed out.
V minor_of(Composer& c, const Elements& m, const std::vector<size_t>& rows,
           const std::vector<size_t>& columns) {
  if (rows.empty()) return kNone;
  if (rows.size() == 1) return m[rows[0]][columns[0]];
  V sum = kNone;
  const std::vector<size_t> below(rows.begin() + 1, rows.end());
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<size_t> others = columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const V term = c.mul(m[rows[0]][columns[i]], minor_of(c, m, below, others));
    sum = i == 0 ? term : i % 2 == 0 ? c.add(sum, term) : c.sub(sum, term);
  }
  return sum;
}

std::vector<size_t> without(size_t count, size_t left_out) {
  std::vector<size_t> out;
  for (size_t i = 0; i < count; ++i) {
    if (i != left_out) out.push_back(i);
  }
  return out;
}

/// Cramer's rule for matrices of up to four rows.
Result<bool> inverse(Rewriter& rw) {
  constexpr int64_t kMostRows = 4;
  Composer c(rw);
  const Shape s = c.shape(c.in(0));
  const auto rank = std::ssize(s);
  if (rank < 2 || !s.back().is_const() || s[s.size() - 2] != s.back()) {
    c.refuse(Code::InvalidModel, "the matrices must be square, of a constant size");
  } else if (s.back().value() > kMostRows) {
    c.refuse(Code::Unsupported,
             "matrices of " + std::to_string(s.back().value()) + " rows; at most 4 are supported");
  }
  if (!c.ok()) return c.finish();
  const DType t = c.dtype(c.in(0));
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  const auto n = static_cast<size_t>(s.back().value());
  Elements m(n, std::vector<V>(n));
  for (size_t i = 0; i < n; ++i) {
    const V row = c.slice_axis(x, rank - 2, static_cast<int64_t>(i), 1);
    for (size_t j = 0; j < n; ++j)
      m[i][j] = c.slice_axis(row, rank - 1, static_cast<int64_t>(j), 1);
  }
  const V scale = c.op("Reciprocal", {minor_of(c, m, without(n, n), without(n, n))});
  std::vector<V> rows;
  for (size_t i = 0; i < n; ++i) {
    std::vector<V> row;
    for (size_t j = 0; j < n; ++j) {
      // The cofactor of element (j, i).
      const V minor = minor_of(c, m, without(n, j), without(n, i));
      V e = minor == kNone ? scale : c.mul(minor, scale);
      if ((i + j) % 2 == 1) e = c.op("Neg", {e});
      row.push_back(e);
    }
    rows.push_back(c.concat(std::move(row), rank - 1));
  }
  c.replace(0, c.cast(c.concat(std::move(rows), rank - 2), t));
  return c.finish();
}

// --- CropAndResize -------------------------------------------------------------------------------

/// Where the samples of each box lie along one axis of an image: [boxes, size], in pixels.
struct Samples {
  V at = kNone, inside = kNone;
};

Samples samples_of(Composer& c, V boxes, int64_t first, int64_t size, const Expr& pixels) {
  const Expr count = c.shape(boxes)[0];
  const V last = c.expr_value(pixels - 1, DType::F32);
  const V start = c.slice_axis(boxes, 1, first, 1), end = c.slice_axis(boxes, 1, first + 2, 1);
  Samples out;
  if (size == 1) {
    out.at = c.mul(c.mul(c.add(start, end), 0.5), last);
  } else {
    const V step = c.div(c.mul(c.sub(end, start), last), static_cast<double>(size - 1));
    const V index = c.reshape(c.positions(size), {1, size});
    const V between = c.add(c.mul(start, last), c.mul(c.cast(index, DType::F32), step));
    // The last sample lies on the border, whatever rounding makes of the sum.
    const V at_end = c.op("Equal", {index, c.scalar(DType::I32, static_cast<double>(size - 1))});
    out.at = c.where(at_end, c.mul(end, last), between);
  }
  out.at = c.expand(out.at, {count, size});
  const V low = c.op("GreaterOrEqual", {out.at, c.scalar(DType::F32, 0)});
  out.inside = c.op("And", {low, c.op("LessOrEqual", {out.at, last})});
  return out;
}

/// Reads pixels of an image [batch, height, width, channels].
class Crop {
 public:
  Crop(Composer& c, int64_t height, int64_t width)
      : c_(c), image_(c.transpose(c.in(0), {0, 2, 3, 1})), height_(height), width_(width) {
    boxes_ = c.shape(c.in(1))[0];
    batch_ = spread(c.cast(c.in(2), DType::I64), {boxes_, 1, 1});
  }

  /// The pixels at rounded rows [boxes, height] and columns [boxes, width].
  V pixels(V rows, V columns) {
    const V indices = c_.concat({batch_, spread(index(rows, 1), {boxes_, height_, 1}),
                                 spread(index(columns, 2), {boxes_, 1, width_})},
                                3);
    return c_.model("GatherND", {image_, indices});
  }

  V of_rows(V v) { return c_.reshape(v, {boxes_, height_, 1, 1}); }
  V of_columns(V v) { return c_.reshape(v, {boxes_, 1, width_, 1}); }

 private:
  /// Positions outside of the image are not used, but must not be read.
  V index(V at, size_t axis) {
    const V most = c_.expr_value(c_.shape(image_)[axis] - 1, DType::I64);
    return c_.max(c_.min(c_.cast(at, DType::I64), most), 0.0);
  }
  V spread(V v, Shape to) {
    to.emplace_back(1);
    return c_.expand(c_.reshape(v, to), {boxes_, height_, width_, 1});
  }

  Composer& c_;
  V image_, batch_ = kNone;
  Expr boxes_;
  int64_t height_, width_;
};

Result<bool> crop_and_resize(Rewriter& rw) {
  Composer c(rw);
  const std::vector<int64_t> size = c.constant_ints(3, "crop_size");
  const std::string mode = c.attrs().get_string("mode");
  const Shape x = c.shape(c.in(0)), boxes = c.shape(c.in(1)), batches = c.shape(c.in(2));
  if (mode != "bilinear" && mode != "nearest")
    c.refuse(Code::InvalidModel, "mode is '" + mode + "', must be bilinear or nearest");
  if (x.size() != 4 || boxes.size() != 2 || !boxes[1].is_const(4) || batches.size() != 1 ||
      size.size() != 2 || size[0] < 1 || size[1] < 1 || c.dtype(c.in(0)) != DType::F32)
    c.refuse(Code::InvalidModel,
             "X must be float32 of rank 4, rois [boxes, 4], and crop_size two positive sizes");
  if (!c.ok()) return c.finish();
  RP_TRY(InferContext(rw.graph(), rw.node()).unify(boxes[0], batches[0], "boxes").status());
  Crop crop(c, size[0], size[1]);
  const Samples rows = samples_of(c, c.in(1), 0, size[0], x[2]);
  const Samples columns = samples_of(c, c.in(1), 1, size[1], x[3]);
  V y = kNone;
  if (mode == "nearest") {
    // roundf rounds halves away from zero. Positions that count are not negative.
    const auto nearest = [&](V at) { return c.op("Floor", {c.add(at, 0.5)}); };
    y = crop.pixels(nearest(rows.at), nearest(columns.at));
  } else {
    const V top = c.op("Floor", {rows.at}), bottom = c.op("Ceil", {rows.at});
    const V left = c.op("Floor", {columns.at}), right = c.op("Ceil", {columns.at});
    const auto mix = [&](V a, V b, V share) { return c.add(a, c.mul(c.sub(b, a), share)); };
    const V across = crop.of_columns(c.sub(columns.at, left));
    y = mix(mix(crop.pixels(top, left), crop.pixels(top, right), across),
            mix(crop.pixels(bottom, left), crop.pixels(bottom, right), across),
            crop.of_rows(c.sub(rows.at, top)));
  }
  const V inside = c.op("And", {crop.of_rows(rows.inside), crop.of_columns(columns.inside)});
  const V otherwise = c.scalar(DType::F32, c.attrs().get_float("extrapolation_value"));
  c.replace(0, c.transpose(c.where(inside, y, otherwise), {0, 3, 1, 2}));
  return c.finish();
}

constexpr AttrDecl kTriluAttrs[] = {int_attr("upper", 1)};
constexpr AttrDecl kGridAttrs[] = {int_attr("align_corners", 0), string_attr("mode", "bilinear"),
                                   string_attr("padding_mode", "zeros")};
constexpr AttrDecl kPadAttrs[] = {string_attr("mode", "constant")};
constexpr AttrDecl kUnfoldAttrs[] = {int_attr("dim", -1), required_attr("size", AttrType::Int),
                                     int_attr("step", 1)};
constexpr AttrDecl kFiniteAttrs[] = {int_attr("isinf_only", 0), int_attr("isnan_only", 0)};
constexpr AttrDecl kDistanceAttrs[] = {string_attr("metric", "sqeuclidean")};
constexpr AttrDecl kCropAttrs[] = {float_attr("extrapolation_value", 0.0F),
                                   string_attr("mode", "bilinear")};

}  // namespace

std::span<const OpDef> microsoft_tensors_ops() {
  static constexpr OpDef kOps[] = {
      composed_row("SampleOp", identity, {1, 1}),
      renamed(composed_row("ContribTrilu", trilu, {1, 2}, kTriluAttrs), "Trilu"),
      renamed(composed_row("ContribGatherND", gather_nd, {2, 2}), "GatherND"),
      renamed(composed_row("ContribGridSample", grid_sample, {2, 2}, kGridAttrs), "GridSample"),
      composed_row("TorchEmbedding", torch_embedding, {2, 4}),
      renamed(composed_row("ContribRange", range, {2, 3}), "Range"),
      renamed(composed_row("ContribPad", pad, {2, 3}, kPadAttrs), "Pad"),
      composed_row("ExpandDims", expand_dims, {2, 2}),
      composed_row("UnfoldTensor", unfold, {1, 1}, kUnfoldAttrs),
      composed_row("IsAllFinite", all_finite, {1, kVariadic}, kFiniteAttrs),
      composed_row("CDist", distances, {2, 2}, kDistanceAttrs),
      composed_row("ComplexMul", complex_mul, {2, 2}),
      composed_row("ComplexMulConj", complex_mul_conj, {2, 2}),
      composed_row("Inverse", inverse, {1, 1}),
      composed_row("CropAndResize", crop_and_resize, {4, 4}, kCropAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
