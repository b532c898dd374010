// Quantised operators of com.microsoft.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <cmath>
#include <string>

#include "codegen/ops/math/quantized.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/made_constants.h"
#include "codegen/ops/row/support.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

HostTensor unpacked(const HostTensor& packed, int64_t rows, int64_t columns, int64_t row_bytes,
                    int64_t bits) {
  const DType type = bits == 2 ? DType::U2 : bits == 4 ? DType::U4 : DType::U8;
  HostTensor out(DType::U8, {rows, columns});
  const auto count = static_cast<size_t>(columns);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
    unpack_elements(type, packed.bytes().subspan(r * static_cast<size_t>(row_bytes)),
                    out.mutable_bytes().subspan(r * count, count));
  return out;
}

namespace {

using V = OpBuilder::V;

/// The transpose of a matrix of bytes, less `zero`.
HostTensor transposed(const HostTensor& m, DType to, uint8_t zero) {
  constexpr size_t kBlock = 64;  // rows and columns that fit in the cache
  const auto rows = static_cast<size_t>(m.dims()[0]), columns = static_cast<size_t>(m.dims()[1]);
  HostTensor out(to, {m.dims()[1], m.dims()[0]});
  const auto* from = reinterpret_cast<const uint8_t*>(m.bytes().data());
  auto* const target = reinterpret_cast<uint8_t*>(out.mutable_bytes().data());
  for (size_t row = 0; row < rows; row += kBlock) {
    for (size_t column = 0; column < columns; column += kBlock) {
      for (size_t c = column; c < std::min(column + kBlock, columns); ++c) {
        for (size_t r = row; r < std::min(row + kBlock, rows); ++r)
          target[c * rows + r] = static_cast<uint8_t>(from[r * columns + c] - zero);
      }
    }
  }
  return out;
}

}  // namespace

HostTensor weight_columns(const HostTensor& packed, int64_t rows, int64_t columns,
                          int64_t row_bytes, int64_t bits, bool has_zeros) {
  std::string key = "columns";
  for (const int64_t v : {rows, columns, row_bytes, bits, int64_t{has_zeros}})
    key += " " + std::to_string(v);
  return MadeConstants::get(packed, key, [&] {
    const HostTensor numbers = unpacked(packed, rows, columns, row_bytes, bits);
    const bool nibbles = bits == 4;
    if (has_zeros) return transposed(numbers, nibbles ? DType::U4 : DType::U8, 0);
    const auto middle = static_cast<uint8_t>(1U << (bits - 1));
    return transposed(numbers, nibbles ? DType::I4 : DType::I8, middle);
  });
}

namespace {

/// A quantised tensor is three inputs: the integers, their scale, and their zero point, which may
/// be omitted.
Status check_quantized(const InferContext& ctx, size_t i) {
  const DType t = ctx.dtype(i);
  if (t != DType::I8 && t != DType::U8)
    return ctx.invalid("input '" + ctx.input(i).name + "' is " + std::string(name_of(t)) +
                       ", expected int8 or uint8");
  return {};
}

/// The scale and the zero point of a result are one number each. Returns the result's dtype.
Result<DType> quantized_result(const InferContext& ctx, size_t scale, DType otherwise) {
  RP_TRY(require_float(ctx, scale));
  for (size_t i = scale; i <= scale + 1; ++i) {
    if (!ctx.has_input(i) || element_count(ctx.shape(i)).is_const(1)) continue;
    return ctx.error(
        Code::Unsupported,
        "input '" + ctx.input(i).name + "' must be one number, has shape " + ctx.str(ctx.shape(i)));
  }
  if (!ctx.has_input(scale + 1)) return otherwise;
  RP_TRY(check_quantized(ctx, scale + 1));
  return ctx.dtype(scale + 1);
}

/// Scale and zero point of operand i are one number each.
Status check_operand(const InferContext& ctx, size_t i) {
  RP_TRY(check_quantized(ctx, i));
  RP_ASSIGN(const DType zero, quantized_result(ctx, i + 1, ctx.dtype(i)));
  if (zero == ctx.dtype(i)) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' and its zero point differ in dtype");
}

V zero_or_none(OpBuilder& c, size_t i) {
  return c.has(i) ? c.reshape(c.in(i), {}) : graph::kNone;
}

/// (q - zero point) * scale of the inputs i, i + 1 and i + 2.
V dequantized(OpBuilder& c, size_t i) {
  const V q = centered(c, c.in(i), zero_or_none(c, i + 2));
  return c.mul(c.cast(q, DType::F32), c.cast(c.reshape(c.in(i + 1), {}), DType::F32));
}

/// Quantises y with the inputs `scale` and `scale` + 1.
V quantized(OpBuilder& c, V y, size_t scale) {
  const DType to = c.dtype(c.node().outputs[0]);
  const V q = c.op("Round", {c.div_rn(y, c.cast(c.reshape(c.in(scale), {}), DType::F32))});
  const V zero = zero_or_none(c, scale + 1);
  return c.cast(zero == graph::kNone ? q : c.add(q, c.cast(zero, DType::F32)), to);
}

// --- QLinearAdd, QLinearMul ----------------------------------------------------------------------

Status infer_binary(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {3, 4, 6}));
  RP_TRY(check_operand(ctx, 0));
  RP_TRY(check_operand(ctx, 3));
  RP_ASSIGN(const DType to, quantized_result(ctx, 6, ctx.dtype(0)));
  const Shape shapes[] = {ctx.shape(0), ctx.shape(3)};
  RP_ASSIGN(Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, to, std::move(out));
  return {};
}

Result<bool> add(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, quantized(c, c.add(dequantized(c, 0), dequantized(c, 3)), 6));
  return c.finish();
}

Result<bool> mul(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, quantized(c, c.mul(dequantized(c, 0), dequantized(c, 3)), 6));
  return c.finish();
}

// --- QLinearSigmoid, QLinearLeakyRelu, QLinearGlobalAveragePool ----------------------------------

Status infer_unary(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {3}));
  RP_TRY(check_operand(ctx, 0));
  RP_ASSIGN(const DType to, quantized_result(ctx, 3, ctx.dtype(0)));
  ctx.set_output(0, to, ctx.shape(0));
  return {};
}

Result<bool> sigmoid(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, quantized(c, c.op("Sigmoid", {dequantized(c, 0)}), 3));
  return c.finish();
}

Result<bool> leaky_relu(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = dequantized(c, 0);
  c.replace(0, quantized(c, c.leaky_relu(x, c.attrs().get_float("alpha")), 3));
  return c.finish();
}

std::vector<int64_t> pooled_axes(const Attributes& attrs, int64_t rank) {
  return attrs.get_int("channels_last") != 0 ? iota(1, rank - 1) : iota(2, rank);
}

Status infer_average(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {3}));
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(check_operand(ctx, 0));
  RP_ASSIGN(const DType to, quantized_result(ctx, 3, ctx.dtype(0)));
  Shape out = ctx.shape(0);
  for (const int64_t axis : pooled_axes(ctx.attrs(), ctx.rank(0)))
    out[static_cast<size_t>(axis)] = 1;
  ctx.set_output(0, to, std::move(out));
  return {};
}

Result<bool> average(Rewriter& rw) {
  OpBuilder c(rw);
  const auto rank = std::ssize(c.shape(c.in(0)));
  c.replace(0, quantized(c, c.mean(dequantized(c, 0), pooled_axes(c.attrs(), rank)), 3));
  return c.finish();
}

// --- QGemm ---------------------------------------------------------------------------------------

Status infer_gemm(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {3, 4}));
  RP_TRY(check_operand(ctx, 0));
  RP_TRY(check_quantized(ctx, 3));
  if (ctx.rank(0) != 2 || ctx.rank(3) != 2)
    return ctx.invalid("A and B must be matrices, have shapes " + ctx.str(ctx.shape(0)) + " and " +
                       ctx.str(ctx.shape(3)));
  Shape a = ctx.shape(0), b = ctx.shape(3);
  if (ctx.attrs().get_int("transA") != 0) std::swap(a[0], a[1]);
  if (ctx.attrs().get_int("transB") != 0) std::swap(b[0], b[1]);
  RP_ASSIGN(Shape out, matmul_shape(ctx, a, b));
  for (const size_t i : {size_t{4}, size_t{5}}) {
    if (!ctx.has_input(i) || element_count(ctx.shape(i)).is_const(1)) continue;
    const bool fits = ctx.rank(i) == 1 && ctx.unify(ctx.shape(i)[0], out[1], "columns of B").ok();
    if (!fits)
      return ctx.invalid("input '" + ctx.input(i).name + "' must be one number or one per column");
  }
  if (ctx.has_input(6) && ctx.dtype(6) != DType::I32)
    return ctx.invalid("C is " + std::string(name_of(ctx.dtype(6))) + ", expected int32");
  DType to = DType::F32;
  if (ctx.has_input(7)) {
    RP_ASSIGN(to, quantized_result(ctx, 7, ctx.dtype(0)));
  }
  ctx.set_output(0, to, std::move(out));
  return {};
}

/// One number as a scalar, or one per column.
V per_column(OpBuilder& c, size_t i) {
  if (!c.has(i)) return graph::kNone;
  return element_count(c.shape(c.in(i))).is_const(1) ? c.reshape(c.in(i), {}) : c.in(i);
}

/// alpha * scales * ((A - zero) (B - zero) + C), where C has the scale of A times that of B.
Result<bool> gemm(Rewriter& rw) {
  OpBuilder c(rw);
  const graph::ValueId out = rw.node().outputs[0];
  V a = centered(c, c.in(0), zero_or_none(c, 2));
  V zero = per_column(c, 5);
  const bool trans_b = c.attrs().get_int("transB") != 0;
  const bool rows = trans_b && zero != graph::kNone && c.shape(zero).size() == 1;
  if (rows) zero = c.reshape(zero, {c.shape(zero)[0], 1});
  V b = centered(c, c.in(3), zero);
  if (c.attrs().get_int("transA") != 0) a = c.transpose(a, {1, 0});
  if (trans_b) b = c.transpose(b, {1, 0});
  V sum = c.matmul(a, b, c.shape(out));
  if (c.has(6)) sum = c.add(sum, c.in(6));
  V factor =
      c.mul(c.cast(c.reshape(c.in(1), {}), DType::F32), c.cast(per_column(c, 4), DType::F32));
  factor = c.mul(factor, c.attrs().get_float("alpha"));
  const V y = c.mul(c.cast(sum, DType::F32), factor);
  c.replace(0, c.has(7) ? quantized(c, y, 7) : y);
  return c.finish();
}

// --- MatMulNBits ---------------------------------------------------------------------------------

// Inputs of MatMulNBits.
enum : size_t { kA, kPacked, kScales, kZeroPoints, kGroups, kPackedBias };

/// K and N of the weight, and how it is packed: rows of blocks along K, each with its own scale.
struct Packing {
  int64_t k = 0, n = 0, bits = 0, block = 0;
  int64_t blocks() const { return (k + block - 1) / block; }
  int64_t block_bytes() const { return block * bits / 8; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

Result<Packing> packing_of(const InferContext& ctx) {
  Packing p;
  p.k = ctx.attrs().get_int("K");
  p.n = ctx.attrs().get_int("N");
  p.bits = ctx.attrs().get_int("bits");
  p.block = ctx.attrs().get_int("block_size");
  if (p.bits != 2 && p.bits != 4 && p.bits != 8)
    return ctx.error(Code::Unsupported,
                     "bits is " + std::to_string(p.bits) + "; 2, 4 and 8 are supported");
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (p.k < 1 || p.n < 1 || p.k >= kLargest || p.n >= kLargest || p.block < 16 ||
      p.block >= kLargest || (p.block & (p.block - 1)) != 0)
    return ctx.invalid("K, N and block_size are " + std::to_string(p.k) + ", " +
                       std::to_string(p.n) + " and " + std::to_string(p.block) +
                       "; the block size must be a power of two of at least 16");
  return p;
}

Status require_count(const InferContext& ctx, size_t i, int64_t count) {
  if (!ctx.has_input(i) || element_count(ctx.shape(i)).is_const(count)) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' has shape " + ctx.str(ctx.shape(i)) +
                     ", expected " + std::to_string(count) + " elements");
}

Status infer_matmul_nbits(InferContext& ctx) {
  RP_ASSIGN(const Packing p, packing_of(ctx));
  RP_TRY(require_float(ctx, kA));
  RP_TRY(require_rank(ctx, kA, 1));
  RP_TRY(require_float(ctx, kScales));
  if (ctx.dtype(kPacked) != DType::U8)
    return ctx.invalid("B is " + std::string(name_of(ctx.dtype(kPacked))) + ", expected uint8");
  for (const size_t i : {kPacked, kZeroPoints}) {
    if (!ctx.has_input(i) || ctx.dtype(i) != DType::U8 || ctx.input(i).contents() != nullptr)
      continue;
    return ctx.error(Code::Unsupported, "input '" + ctx.input(i).name +
                                            "' must be constant, so that it is unpacked "
                                            "once; make it an initialiser");
  }
  RP_TRY(require_count(ctx, kPacked, p.n * p.blocks() * p.block_bytes()));
  RP_TRY(require_count(ctx, kScales, p.n * p.blocks()));
  if (ctx.has_input(kZeroPoints)) {
    const bool packed = ctx.dtype(kZeroPoints) == DType::U8;
    if (!packed) RP_TRY(require_float(ctx, kZeroPoints));
    RP_TRY(require_count(ctx, kZeroPoints, p.n * (packed ? p.zero_bytes() : p.blocks())));
  }
  if (ctx.has_input(kGroups)) {
    RP_TRY(require_int(ctx, kGroups));
    // ONNX Runtime pads it to whole blocks.
    const Expr count = element_count(ctx.shape(kGroups));
    if (!count.is_const() || count.value() < p.k)
      return ctx.invalid("g_idx has shape " + ctx.str(ctx.shape(kGroups)) + ", expected " +
                         std::to_string(p.k) + " groups");
  }
  RP_TRY(require_count(ctx, kPackedBias, p.n));
  RP_ASSIGN(Shape out, matmul_shape(ctx, ctx.shape(kA), {Expr(p.k), Expr(p.n)}));
  ctx.set_output(0, ctx.dtype(kA), std::move(out));
  return {};
}

/// Zero points [N, blocks], as bytes or as given.
V zeros_of(OpBuilder& c, const Packing& p) {
  if (!c.has(kZeroPoints))
    return c.expand(c.scalar(DType::U8, std::ldexp(1.0, static_cast<int>(p.bits) - 1)),
                    {p.n, p.blocks()});
  if (c.dtype(c.in(kZeroPoints)) != DType::U8)
    return c.reshape(c.in(kZeroPoints), {p.n, p.blocks()});
  const HostTensor& packed = *c.rewriter().input(kZeroPoints).contents();
  return c.constant(unpacked(packed, p.n, p.blocks(), p.zero_bytes(), p.bits));
}

/// The weight if each of the K numbers of a row names its group.
V regrouped(OpBuilder& c, const Packing& p, V q, V scales) {
  const V flat = c.reshape(c.in(kGroups), {element_count(c.shape(c.in(kGroups)))});
  const V groups = c.slice_axis(flat, 0, 0, p.k);
  const DType t = accumulate_dtype(c.dtype(scales));
  const auto spread = [&](V v) {
    AttrMap a;
    a.set("axis", int64_t{1});
    return c.cast(c.op("Gather", {v, groups}, std::move(a)), t);
  };
  return c.mul(c.sub(c.cast(q, t), spread(zeros_of(c, p))), spread(scales));
}

/// The weight [K, N], whose numbers are in blocks along K with integer zero points. In memory, a
/// number has a byte; packed operands of 4 bits have half of one. Scales lie along N as well, so
/// that kernels load those of neighbouring columns at once.
V blocked_weight(OpBuilder& c, const Packing& p, V scales) {
  Rewriter& rw = c.rewriter();
  AttrMap a;
  a.set("axis", int64_t{0});
  a.set("block_size", p.block);
  const bool has_zeros = c.has(kZeroPoints);
  std::vector<V> inputs{c.constant(weight_columns(*rw.input(kPacked).contents(), p.n, p.k,
                                                  p.blocks() * p.block_bytes(), p.bits, has_zeros)),
                        c.transpose(scales, {1, 0})};
  if (has_zeros) {
    inputs.push_back(c.constant(weight_columns(*rw.input(kZeroPoints).contents(), p.n, p.blocks(),
                                               p.zero_bytes(), p.bits, true)));
  }
  return c.op("DequantizeLinear", std::move(inputs), std::move(a));
}

/// The weight [K, N] as numbers of the scale's dtype.
V weight(OpBuilder& c, const Packing& p) {
  const V scales = c.reshape(c.in(kScales), {p.n, p.blocks()});
  const bool blocked = !c.has(kZeroPoints) || c.dtype(c.in(kZeroPoints)) == DType::U8;
  if (!c.has(kGroups) && blocked) return blocked_weight(c, p, scales);
  const HostTensor numbers = unpacked(*c.rewriter().input(kPacked).contents(), p.n, p.k,
                                      p.blocks() * p.block_bytes(), p.bits);
  if (c.has(kGroups)) return c.transpose(regrouped(c, p, c.constant(numbers), scales), {1, 0});
  const V zeros = c.reshape(c.in(kZeroPoints), {p.n, p.blocks()});
  const DType t = accumulate_dtype(c.dtype(scales));
  const V zero = c.cast(repeat_blocks(c, zeros, 1, p.block, p.k), t);
  const V centered = c.sub(c.cast(c.constant(numbers), t), zero);
  return c.transpose(c.mul(centered, c.cast(repeat_blocks(c, scales, 1, p.block, p.k), t)), {1, 0});
}

Result<bool> matmul_nbits(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Packing p, packing_of(ctx));
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(kA));
  const V b = c.cast(weight(c, p), t);
  V y = c.matmul(c.in(kA), b, c.shape(rw.node().outputs[0]));
  if (c.has(kPackedBias)) y = c.add(y, c.cast(c.reshape(c.in(kPackedBias), {p.n}), t));
  c.replace(0, y);
  return c.finish();
}

constexpr AttrDecl kLeakyAttrs[] = {float_attr("alpha", 0.01F)};
constexpr AttrDecl kAverageAttrs[] = {required_attr("channels_last", AttrType::Int)};
constexpr AttrDecl kGemmAttrs[] = {float_attr("alpha", 1.0F), int_attr("transA", 0),
                                   int_attr("transB", 0)};
constexpr AttrDecl kNBitsAttrs[] = {
    required_attr("K", AttrType::Int), required_attr("N", AttrType::Int),
    int_attr("accuracy_level", 0), int_attr("bits", 4), required_attr("block_size", AttrType::Int)};

}  // namespace

std::span<const OpDef> microsoft_quantized_ops() {
  static constexpr OpDef kOps[] = {
      microsoft_row("QLinearAdd", infer_binary, add, {2, 8}),
      microsoft_row("QLinearMul", infer_binary, mul, {2, 8}),
      microsoft_row("QLinearSigmoid", infer_unary, sigmoid, {2, 5}),
      microsoft_row("QLinearLeakyRelu", infer_unary, leaky_relu, {2, 5}, kLeakyAttrs),
      microsoft_row("QLinearGlobalAveragePool", infer_average, average, {2, 5}, kAverageAttrs),
      microsoft_row("QGemm", infer_gemm, gemm, {2, 9}, kGemmAttrs),
      microsoft_row("MatMulNBits", infer_matmul_nbits, matmul_nbits, {3, 6}, kNBitsAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
