// Matrix multiplications (MatMul and Gemm) and determinants (Det).
#include <algorithm>
#include <iterator>

#include "codegen/ops/math/product_sum.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/weight_parts.h"

namespace reprise::ops {

Result<Shape> matmul_shape(const InferContext& ctx, const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) {
    return ctx.invalid("cannot multiply a scalar: " + ctx.str(a) + " x " + ctx.str(b));
  }
  const Expr& inner_a = a.back();
  const Expr& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  const auto inner = ctx.unify(inner_a, inner_b, "inner dims");
  if (!inner.ok()) {
    return ctx.invalid("cannot multiply " + ctx.str(a) + " by " + ctx.str(b) + ": inner dims " +
                       inner_a.str(ctx.graph_symbols()) + " and " +
                       inner_b.str(ctx.graph_symbols()) + " differ");
  }
  const Shape batches[] = {Shape(a.begin(), a.end() - std::min<std::ptrdiff_t>(2, std::ssize(a))),
                           Shape(b.begin(), b.end() - std::min<std::ptrdiff_t>(2, std::ssize(b)))};
  RP_ASSIGN(Shape out, ctx.broadcast(batches));
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  return out;
}

namespace {

using V = OpBuilder::V;

Status infer_matmul(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0))) return ctx.invalid("needs numbers");
  RP_ASSIGN(Shape out, matmul_shape(ctx, ctx.shape(0), ctx.shape(1)));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Adds an axis of size 1 to operands that are vectors.
Result<bool> matmul(Rewriter& rw) {
  const Shape a = rw.input(0).shape;
  const Shape b = rw.input(1).shape;
  if (a.size() > 1 && b.size() > 1) return mark_core(rw);
  OpBuilder c(rw);
  c.replace(0, c.matmul(c.in(0), c.in(1), c.shape(rw.node().outputs[0])));
  return c.finish();
}

/// Columns of the right operand, or rows of the left one, give columns or rows of the result.
Result<bool> split_matmul(Rewriter& rw, int64_t most) {
  const Shape out = rw.graph().value(rw.node().outputs[0]).shape;
  for (const size_t operand : {size_t{1}, size_t{0}}) {
    const V weight = rw.node().inputs[operand];
    const size_t rank = rw.input(operand).shape.size();
    if (weight_bytes(rw.graph(), weight) <= most) continue;
    const size_t axis = operand == 1 ? rank - 1 : rank - 2;
    const std::vector<PartRange> ranges = part_ranges(rw.graph(), weight, axis, most);
    if (ranges.empty()) return false;
    OpBuilder c(rw);
    std::vector<V> parts;
    for (const PartRange& range : ranges) {
      std::vector<V> operands = rw.node().inputs.list();
      operands[operand] = part_of_weight(c, weight, axis, range);
      parts.push_back(c.op("MatMul", std::move(operands)));
    }
    c.replace(0, c.concat(std::move(parts), std::ssize(out) - (operand == 1 ? 1 : 2)));
    return c.finish();
  }
  return false;
}

/// Computes one output element in a plain loop, for shapes and dtypes without a tiled kernel.
Status matmul_element(ElementContext& ctx) {
  const Shape& a_shape = ctx.input_shape(0);
  const Shape& b_shape = ctx.input_shape(1);
  const Index& out = ctx.index();
  const Index batch(out.begin(), out.end() - 2);
  const Shape batches(ctx.output_shape().begin(), ctx.output_shape().end() - 2);
  const auto operand = [&](const Shape& s, const Expr& row, const Expr& column) {
    Index index = broadcast_index(ctx.graph(), batch, Shape(s.begin(), s.end() - 2), batches);
    index.push_back(row);
    index.push_back(column);
    return index;
  };
  ProductSum sum(ctx);
  Status status;
  ctx.loop(a_shape.back(), [&](const Expr& k) {
    const Status s =
        sum.add(operand(a_shape, out[out.size() - 2], k), operand(b_shape, k, out.back()));
    if (!s.ok()) status = s;
  });
  sum.finish();
  return status;
}

double matmul_reads(const graph::Graph& g, const graph::Node& n) {
  const Expr& k = g.value(n.inputs[0]).shape.back();
  return k.is_const() ? static_cast<double>(k.value()) : 1024.0;
}

Shape matmul_contracted(const graph::Graph& g, const graph::Node& n) {
  const Shape& b = g.value(n.inputs[1]).shape;
  return {b[b.size() - 2]};
}

ChannelAxes matmul_channels(const graph::Graph& g, const graph::Node& n) {
  return {g.value(n.outputs[0]).shape.size() - 1, g.value(n.inputs[1]).shape.size() - 1};
}

Status check_core_matmul(const graph::Graph& g, const graph::Node& n) {
  const bool matrices = std::ranges::all_of(n.inputs, [&](graph::ValueId v) {
    return v != graph::kNone && g.value(v).shape.size() >= 2;
  });
  return matrices ? Status{}
                  : internal_error("the inputs of a core MatMul must have rank 2 or more");
}

// --- Gemm ----------------------------------------------------------------------------------------

Status infer_gemm(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  if (ctx.rank(0) != 2 || ctx.rank(1) != 2) {
    return ctx.invalid("inputs must be matrices, have shapes " + ctx.str(ctx.shape(0)) + " and " +
                       ctx.str(ctx.shape(1)));
  }
  Shape a = ctx.shape(0);
  Shape b = ctx.shape(1);
  if (ctx.attrs().get_int("transA") != 0) std::swap(a[0], a[1]);
  if (ctx.attrs().get_int("transB") != 0) std::swap(b[0], b[1]);
  RP_ASSIGN(Shape out, matmul_shape(ctx, a, b));
  if (ctx.has_input(2)) {
    RP_TRY(broadcast_shape(ctx, ctx.shape(2), out, "C"));
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// alpha * A B + beta * C. kNone if the host computes it. Scaled parts may leave the range of 16
/// bits although the sum does not, so they have the dtype of sums.
V gemm_of(OpBuilder& c) {
  const double alpha = c.attrs().get_float("alpha");
  const double beta = c.attrs().get_float("beta");
  const DType t = c.dtype(c.in(0));
  // For integers, devices support only a scale of 1, because others may be fractions.
  if (!is_float(t) && (alpha != 1 || beta != 1)) return graph::kNone;
  const bool adds = c.has(2) && beta != 0;
  const DType product = alpha != 1 ? accumulate_dtype(t) : t;
  const DType sum = adds && beta != 1 ? accumulate_dtype(t) : product;
  const auto operand = [&](size_t i, const char* transposed) {
    const V m = c.cast(c.in(i), product);
    return c.attrs().get_int(transposed) != 0 ? c.transpose(m, {1, 0}) : m;
  };
  V y = c.op("MatMul", {operand(0, "transA"), operand(1, "transB")});
  if (alpha != 1) y = c.mul(y, alpha);
  if (adds) {
    const V added = c.cast(c.in(2), sum);
    y = c.add(c.cast(y, sum), beta == 1 ? added : c.mul(added, beta));
  }
  return c.cast(y, t);
}

Result<bool> gemm(Rewriter& rw) {
  OpBuilder c(rw);
  const V y = gemm_of(c);
  if (y == graph::kNone && c.ok()) return rw.keep("the scales of integers may be fractions");
  c.replace(0, y);
  return c.finish();
}

// --- FusedGemm of com.microsoft ------------------------------------------------------------------

constexpr std::string_view kActivations[] = {"", "Relu", "Tanh", "Sigmoid", "LeakyRelu"};

Status infer_fused_gemm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  const std::string activation = ctx.attrs().get_string("activation");
  if (std::ranges::find(kActivations, activation) == std::end(kActivations))
    return ctx.error(Code::Unsupported,
                     "activation '" + activation + "'; known: Relu, Tanh, Sigmoid, LeakyRelu");
  return infer_gemm(ctx);
}

Result<bool> fused_gemm(Rewriter& rw) {
  OpBuilder c(rw);
  V y = gemm_of(c);
  const std::string activation = c.attrs().get_string("activation");
  if (activation == "LeakyRelu") {
    y = c.leaky_relu(y, c.attrs().get_float("activation_alpha"));
  } else if (!activation.empty()) {
    y = c.op(activation, {y});
  }
  c.replace(0, y);
  return c.finish();
}

// --- Det -----------------------------------------------------------------------------------------

Status infer_det(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 2));
  const Shape& s = ctx.shape(0);
  RP_TRY(ctx.unify(s[s.size() - 2], s.back(), "rows and columns").status());
  ctx.set_output(0, ctx.dtype(0), Shape(s.begin(), s.end() - 2));
  return {};
}

/// The determinant of the rows from `row` on and of these columns, by the elements of its first
/// row.
V minor_of(OpBuilder& c, const std::vector<std::vector<V>>& m, size_t row,
           const std::vector<size_t>& columns) {
  if (columns.size() == 1) return m[row][columns[0]];
  V sum = graph::kNone;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<size_t> others = columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const V term = c.mul(m[row][columns[i]], minor_of(c, m, row + 1, others));
    sum = i == 0 ? term : i % 2 == 0 ? c.add(sum, term) : c.sub(sum, term);
  }
  return sum;
}

/// Formulas up to three rows. Larger matrices need pivots and run on the host.
Result<bool> det(Rewriter& rw) {
  constexpr int64_t kMostRows = 3;
  OpBuilder c(rw);
  const Shape shape = c.shape(c.in(0));
  const Expr& n = shape.back();
  if (!n.is_const() || n.value() > kMostRows) return false;
  const Shape out = c.shape(rw.node().outputs[0]);
  const DType t = c.dtype(c.in(0));
  if (n.is_const(0)) {
    c.replace(0, c.expand(c.scalar(t, 1), out));
    return c.finish();
  }
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  const int64_t rank = std::ssize(shape);
  std::vector<std::vector<V>> elements;
  std::vector<size_t> columns;
  for (int64_t i = 0; i < n.value(); ++i) {
    columns.push_back(static_cast<size_t>(i));
    const V row = c.slice_axis(x, rank - 2, Expr(i), 1);
    std::vector<V>& line = elements.emplace_back();
    for (int64_t j = 0; j < n.value(); ++j) {
      line.push_back(c.reshape(c.slice_axis(row, rank - 1, Expr(j), 1), out));
    }
  }
  c.replace(0, c.cast(minor_of(c, elements, 0, columns), t));
  return c.finish();
}

constexpr AttrDecl kFusedGemmAttrs[] = {string_attr("activation", ""),
                                        float_attr("activation_alpha", 0.01F),
                                        float_attr("activation_beta", 0.0F),
                                        float_attr("activation_gamma", 0.0F),
                                        float_attr("alpha", 1.0F),
                                        float_attr("beta", 1.0F),
                                        int_attr("transA", 0),
                                        int_attr("transB", 0)};
constexpr AttrDecl kGemmAttrs[] = {float_attr("alpha", 1.0F), float_attr("beta", 1.0F),
                                   int_attr("transA", 0), int_attr("transB", 0)};

}  // namespace

std::span<const OpDef> matmul_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "MatMul",
       .infer = infer_matmul,
       .decompose = matmul,
       .lowering = Lowering::MatMul,
       .element = matmul_element,
       .min_inputs = 2,
       .max_inputs = 2,
       .check_core = check_core_matmul,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Layer,
       .quantized_input = 1,
       .layout = LayoutRole::Fixed,
       .reads_per_element = matmul_reads,
       .contracted = matmul_contracted,
       .split = split_matmul,
       .channels = matmul_channels},
      {.name = "Gemm",
       .infer = infer_gemm,
       .decompose = gemm,
       .min_opset = 7,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kGemmAttrs,
       .host_rounding = HostRounding::Layer,
       .quantized_input = 1},
      {.name = "FusedGemm",
       .domain = kMicrosoft,
       .infer = infer_fused_gemm,
       .decompose = fused_gemm,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kFusedGemmAttrs},
      {.name = "Det", .infer = infer_det, .decompose = det, .min_opset = 11},
  };
  return kOps;
}

}  // namespace reprise::ops
