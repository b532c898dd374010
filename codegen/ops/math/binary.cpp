// Arithmetic on two or more inputs with broadcasting.
#include <cmath>
#include <limits>

#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;
using V = OpBuilder::V;

using Operands = std::span<const Expr>;

std::optional<Expr> sum_of(const ContentsContext&, Operands x) {
  return x[0] + x[1];
}
std::optional<Expr> difference(const ContentsContext&, Operands x) {
  return x[0] - x[1];
}
std::optional<Expr> product_of(const ContentsContext&, Operands x) {
  return x[0] * x[1];
}
std::optional<Expr> least(const ContentsContext& ctx, Operands x) {
  Expr min = x[0];
  for (const Expr& e : x.subspan(1)) min = min_of(min, e, ctx.graph_symbols());
  return min;
}
std::optional<Expr> greatest(const ContentsContext& ctx, Operands x) {
  Expr max = x[0];
  for (const Expr& e : x.subspan(1)) max = max_of(max, e, ctx.graph_symbols());
  return max;
}
std::optional<Expr> quotient(const ContentsContext& ctx, Operands x) {
  return truncated_div(x[0], x[1], ctx.graph_symbols());
}
std::optional<Expr> modulo(const ContentsContext& ctx, Operands x) {
  const Bounds divisor = bounds(x[1], ctx.graph_symbols());
  if (divisor.lo <= 0 && divisor.hi >= 0) return std::nullopt;
  if (ctx.attrs().get_int("fmod") == 0) return Expr::mod(x[0], x[1]);
  const auto q = truncated_div(x[0], x[1], ctx.graph_symbols());
  return q ? std::optional(x[0] - *q * x[1]) : std::nullopt;
}
std::optional<Expr> power(const ContentsContext&, Operands x) {
  if (!x[1].is_const() || x[1].value() < 0 || x[1].value() > 4) return std::nullopt;
  Expr p = 1;
  for (int64_t i = 0; i < x[1].value(); ++i) p *= x[0];
  return p;
}

Status infer_arithmetic(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0))) {
    return ctx.invalid("inputs are " + std::string(name_of(ctx.dtype(0))) + ", expected numbers");
  }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < ctx.input_count(); ++i) shapes.push_back(ctx.shape(i));
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, ctx.dtype(0), out);
  return {};
}

Status infer_mod(InferContext& ctx) {
  if (is_float(ctx.dtype(0)) && ctx.opset() < 28 && ctx.attrs().get_int("fmod") == 0) {
    return ctx.invalid("fmod is 0, must be 1 for floating-point inputs before opset 28");
  }
  return infer_arithmetic(ctx);
}

Status infer_pow(InferContext& ctx) {
  for (size_t i = 0; i < 2; ++i) {
    if (!is_float(ctx.dtype(i)) && !is_int(ctx.dtype(i))) {
      return ctx.invalid("input " + std::to_string(i) + " is " +
                         std::string(name_of(ctx.dtype(i))) + ", expected numbers");
    }
  }
  const Shape shapes[] = {ctx.shape(0), ctx.shape(1)};
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, ctx.dtype(0), out);
  return {};
}

Status infer_bits(InferContext& ctx) {
  RP_TRY(require_int(ctx, 0));
  return infer_arithmetic(ctx);
}

Result<bool> mod(Rewriter& rw) {
  OpBuilder c(rw);
  const bool truncated = c.attrs().get_int("fmod") != 0;
  rw.node().attrs = {};
  if (!truncated) return mark_core(rw);
  c.replace(0, c.op(is_float(c.dtype(c.in(0))) ? "Fmod" : "Rem", {c.in(0), c.in(1)}));
  return c.finish();
}

/// op(a, op(b, ...)), associated from the left; the core form has two operands.
Result<bool> variadic(Rewriter& rw, const char* op) {
  graph::Node& n = rw.node();
  if (n.inputs.size() == 2 && n.op == op) return mark_core(rw);
  OpBuilder c(rw);
  V acc = c.in(0);
  for (size_t i = 1; i < n.inputs.size(); ++i) acc = c.op(op, {acc, c.in(i)});
  if (n.op == "Mean") acc = c.div(acc, static_cast<double>(n.inputs.size()));
  c.replace(0, acc);
  return c.finish();
}
Result<bool> variadic_min(Rewriter& rw) {
  return variadic(rw, "Min");
}
Result<bool> variadic_max(Rewriter& rw) {
  return variadic(rw, "Max");
}
Result<bool> variadic_sum(Rewriter& rw) {
  return variadic(rw, "Add");
}

/// A sum of 16-bit floats may overflow although their mean does not, so it is computed in fp32.
Result<bool> variadic_mean(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  if (accumulate_dtype(t) == t) return variadic(rw, "Add");
  V acc = c.cast(c.in(0), accumulate_dtype(t));
  for (size_t i = 1; i < rw.node().inputs.size(); ++i)
    acc = c.add(acc, c.cast(c.in(i), accumulate_dtype(t)));
  c.replace(0, c.cast(c.div(acc, static_cast<double>(rw.node().inputs.size())), t));
  return c.finish();
}

/// The exponent, if it is a single constant that keeps the shape of the output.
std::optional<double> constant_exponent(Rewriter& rw) {
  const graph::Value& y = rw.input(1);
  if (y.contents() == nullptr || y.contents()->count() != 1 ||
      y.shape.size() > rw.input(0).shape.size()) {
    return std::nullopt;
  }
  const auto v = constant_numbers(y);
  return v ? std::optional((*v)[0]) : std::nullopt;
}

/// x^e as products and roots, which is at least as accurate as Pow. Roots differ from Pow at
/// -infinity and in the sign of zero; both cases are corrected here.
V special_power(OpBuilder& c, V x, double e) {
  const DType t = c.dtype(x);
  if (e == 1) return x;
  if (e == 2 || e == 3 || e == 4) {
    const V square = c.mul(x, x);
    return e == 2 ? square : c.mul(square, e == 3 ? x : square);
  }
  if (!is_float(t)) return graph::kNone;
  if (e == -1) return c.op("Reciprocal", {x});
  if (e != 0.5 && e != -0.5) return graph::kNone;
  const double inf = std::numeric_limits<double>::infinity();
  const V at_infinity = c.op("Equal", {x, c.scalar(t, -inf)});
  const V root = c.op(e > 0 ? "Sqrt" : "Rsqrt", {c.add(x, 0.0)});
  return c.where(at_infinity, c.scalar(t, e > 0 ? inf : 0), root);
}

/// The type in which kernels compute a power of integers. It holds the values of both, and the low
/// bits of the power are those of the result. Invalid: kernels have no such type.
DType power_type(DType base, DType exponent) {
  if (base == DType::U64 || exponent == DType::U64) return DType::Invalid;
  const bool negative = is_signed_int(exponent), has_sign = is_signed_int(base);
  const size_t room = size_of(base) + (has_sign == negative ? 1 : 0);
  if ((has_sign || !negative) && size_of(exponent) < room) return base;
  const auto is_wide = [](DType t) { return size_of(t) > 4 || t == DType::U32; };
  return is_wide(base) || is_wide(exponent) ? DType::I64 : DType::I32;
}

Result<bool> pow(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = c.in(0);
  const DType t = c.dtype(x);
  if (const auto e = constant_exponent(rw)) {
    const V v = special_power(c, x, *e);
    if (v != graph::kNone || !c.ok()) {
      c.replace(0, v);
      return c.finish();
    }
  }
  const DType exponent = c.dtype(c.in(1));
  if (is_int(t) && is_float(exponent))
    return rw.keep("the power of an integer by a float needs float64");
  const DType common = is_float(t) ? t : power_type(t, exponent);
  if (common == DType::Invalid) return false;
  if (exponent == t) return mark_core(rw);
  c.replace(0, c.cast(c.op("Pow", {c.cast(x, common), c.cast(c.in(1), common)}), t));
  return c.finish();
}

Result<bool> bit_shift(Rewriter& rw) {
  OpBuilder c(rw);
  const bool left = c.attrs().get_string("direction") == "LEFT";
  c.replace(0, c.op(left ? "ShiftLeft" : "ShiftRight", {c.in(0), c.in(1)}));
  return c.finish();
}

Status infer_bit_shift(InferContext& ctx) {
  const std::string d = ctx.attrs().get_string("direction");
  if (d != "LEFT" && d != "RIGHT")
    return ctx.invalid("direction is '" + d + "', must be 'LEFT' or 'RIGHT'");
  return infer_bits(ctx);
}

Result<bool> renamed(Rewriter& rw, const char* op) {
  OpBuilder c(rw);
  c.replace(0, c.op(op, rw.node().inputs));
  return c.finish();
}
Result<bool> bitwise_and(Rewriter& rw) {
  return renamed(rw, "BitAnd");
}
Result<bool> bitwise_or(Rewriter& rw) {
  return renamed(rw, "BitOr");
}
Result<bool> bitwise_xor(Rewriter& rw) {
  return renamed(rw, "BitXor");
}
Result<bool> bitwise_not(Rewriter& rw) {
  return renamed(rw, "BitNot");
}

constexpr AttrDecl kModAttrs[] = {int_attr("fmod", 0)};
constexpr AttrDecl kBitShiftAttrs[] = {required_attr("direction", AttrType::String)};

constexpr OpDef arithmetic(std::string_view name, ScalarOp row, void (*contents)(ContentsContext&),
                           HostRounding host_rounding) {
  return {.name = name,
          .infer = infer_arithmetic,
          .contents = contents,
          .decompose = mark_core,
          .lowering = Lowering::Scalar,
          .row = row,
          .min_opset = 7,
          .min_inputs = 2,
          .max_inputs = 2,
          .host_rounding = host_rounding,
          .layout = LayoutRole::Elementwise};
}

constexpr OpDef bits(std::string_view name, Result<bool> (*decompose)(Rewriter&), int arity) {
  return {.name = name,
          .infer = infer_bits,
          .decompose = decompose,
          .min_inputs = arity,
          .max_inputs = arity};
}

}  // namespace

graph::NodeSpec sum_node() {
  graph::NodeSpec n;
  n.op = "Add";
  return n;
}

// NOLINTNEXTLINE(readability-function-size): a table
std::span<const OpDef> binary_ops() {
  static constexpr OpDef kOps[] = {
      arithmetic("Add", ScalarOp::Add, elementwise<sum_of>, HostRounding::Sum),
      arithmetic("Sub", ScalarOp::Sub, elementwise<difference>, HostRounding::Sum),
      arithmetic("Mul", ScalarOp::Mul, elementwise<product_of>, HostRounding::Sum),
      arithmetic("Div", ScalarOp::Div, elementwise<quotient>, HostRounding::Never),
      {.name = "Mod",
       .infer = infer_mod,
       .contents = elementwise<modulo>,
       .decompose = mod,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Mod,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kModAttrs,
       .layout = LayoutRole::Elementwise},
      {.name = "Pow",
       .infer = infer_pow,
       .contents = elementwise<power>,
       .decompose = pow,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Pow,
       .min_opset = 7,
       .min_inputs = 2,
       .max_inputs = 2,
       .layout = LayoutRole::Elementwise},
      {.name = "Min",
       .infer = infer_arithmetic,
       .contents = elementwise<least>,
       .decompose = variadic_min,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Min,
       .max_inputs = kVariadic,
       .layout = LayoutRole::Elementwise},
      {.name = "Max",
       .infer = infer_arithmetic,
       .contents = elementwise<greatest>,
       .decompose = variadic_max,
       .lowering = Lowering::Scalar,
       .row = ScalarOp::Max,
       .max_inputs = kVariadic,
       .layout = LayoutRole::Elementwise},
      {.name = "Sum",
       .infer = infer_arithmetic,
       .decompose = variadic_sum,
       .max_inputs = kVariadic},
      {.name = "Mean",
       .infer = infer_arithmetic,
       .decompose = variadic_mean,
       .max_inputs = kVariadic},
      {.name = "BitShift",
       .infer = infer_bit_shift,
       .decompose = bit_shift,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kBitShiftAttrs},
      bits("BitwiseAnd", bitwise_and, 2),
      bits("BitwiseOr", bitwise_or, 2),
      bits("BitwiseXor", bitwise_xor, 2),
      bits("BitwiseNot", bitwise_not, 1),
  };
  return kOps;
}

}  // namespace reprise::ops
