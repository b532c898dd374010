// Fourier transforms, as matrix multiplications with roots of unity, and weights of mel filters.
#include <cmath>

#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"
#include "runtime/operators/root_of_unity.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// A transform of rows of complex numbers. Its results are the first `bins`; the last axis of
/// operands and results holds the real part, then the imaginary part unless all are real.
struct Transform {
  int64_t length = 0;  // N
  bool inverse = false;
  int64_t given = 0;  // the other elements of a row are 0
  int64_t bins = 0;
  bool real_input = false;
  /// The operand is the first half of a spectrum whose other half mirrors it; the result is real.
  bool mirrored = false;
};

/// Matrices with more elements are not worth their memory.
constexpr int64_t kMostMatrixElements = int64_t{1} << 20;
/// The longest transform of complex numbers with such a matrix.
constexpr int64_t kLongestMatrix = 512;
/// The lengths of matrices into which longer transforms are split, if they have such factors.
constexpr int64_t kShortMatrix = 16, kLongMatrix = 64;

/// [given * parts of an operand, bins * parts of a result]
HostTensor transform_matrix(const Transform& t, DType dtype, double scale) {
  const int64_t parts_in = t.real_input ? 1 : 2;
  const int64_t parts_out = t.mirrored ? 1 : 2;
  std::vector<double> m;
  for (int64_t i = 0; i < t.given; ++i) {
    // An element that is its own mirror image counts once, and its imaginary part not at all.
    const bool single = i == 0 || 2 * i == t.length;
    const double factor = scale * (t.mirrored && !single ? 2 : 1);
    for (int64_t part = 0; part < parts_in; ++part) {
      for (int64_t k = 0; k < t.bins; ++k) {
        const std::complex<double> root = root_of_unity((t.inverse ? i : -i) * k, t.length);
        const double re = root.real(), im = root.imag();
        // (a + b i) (re + im i) = (a re - b im) + (a im + b re) i
        const bool ignored = t.mirrored && single && part == 1;
        m.push_back(ignored ? 0 : factor * (part == 0 ? re : -im));
        if (parts_out == 2) m.push_back(factor * (part == 0 ? im : re));
      }
    }
  }
  return float_tensor(dtype, {t.given * parts_in, t.bins * parts_out}, m);
}

/// rows [M, given, parts] -> [M, bins, parts]
V by_matrix(OpBuilder& c, V rows, const Transform& t, double scale) {
  const Shape s = c.shape(rows);
  const V flat = c.reshape(rows, {s[0], s[1] * s[2]});
  const V y = c.op("MatMul", {flat, c.constant(transform_matrix(t, c.dtype(rows), scale))});
  return c.reshape(y, {s[0], Expr(t.bins), Expr(t.mirrored ? 1 : 2)});
}

/// The larger factor of N, if both of some pair are at most kLongestMatrix. Else 0.
int64_t large_factor(int64_t n) {
  for (int64_t f = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); f > 1; --f) {
    if (n % f == 0) return n / f <= kLongestMatrix ? n / f : 0;
  }
  return 0;
}

/// The factor P of N = P * Q. If P is at most kLongMatrix and Q is not, Q is split further. 0: N
/// has no such factors.
int64_t first_factor(int64_t n) {
  const int64_t large = large_factor(n);
  if (large > 0 && large <= kLongMatrix) return large;
  // A matrix of length P takes P multiplications for each number, so several short ones save more
  // than their launches cost.
  for (int64_t f = kLongMatrix; f >= kShortMatrix; --f) {
    if (n % f != 0) continue;
    const int64_t rest = n / f <= kLongMatrix ? n / f : first_factor(n / f);
    if (rest > 0 && rest <= kLongMatrix) return f;
  }
  return large;
}

/// z [.., 2] times (re + im i), where re and im broadcast to z.
V complex_product(OpBuilder& c, V z, V re, V im) {
  const int64_t last = std::ssize(c.shape(z)) - 1;
  const V a = c.slice_axis(z, last, 0, 1);
  const V b = c.slice_axis(z, last, 1, 1);
  return c.concat({c.sub(c.mul(a, re), c.mul(b, im)), c.add(c.mul(a, im), c.mul(b, re))}, last);
}

V padded_rows(OpBuilder& c, V rows, int64_t length) {
  const Shape s = c.shape(rows);
  if (s[1].is_const(length)) return rows;
  AttrMap a;
  a.set("mode", "constant");
  a.set("pads", std::vector<Expr>{0, 0, 0, 0, Expr(length) - s[1], 0});
  return c.op("Pad", {rows}, std::move(a));
}

/// The whole spectrum of a real signal, from its first half.
V with_mirror_image(OpBuilder& c, V half, const Transform& t) {
  half = padded_rows(c, half, t.length / 2 + 1);
  const Shape s = c.shape(half);
  const int64_t mirrored = t.length - t.length / 2 - 1;
  const V mirror =
      c.slice(half, {0, Expr(mirrored), 0}, {1, -1, 1}, {s[0], Expr(mirrored), Expr(2)});
  const V sign = c.constant(float_tensor(c.dtype(half), {2}, {1, -1}));
  // The imaginary parts of the elements that are their own mirror images do not count.
  std::vector<double> counts(static_cast<size_t>(t.length / 2 + 1) * 2, 1);
  counts[1] = 0;
  if (t.length % 2 == 0) counts.back() = 0;
  const V counted =
      c.where(c.op("Equal", {c.constant(float_tensor(c.dtype(half), {t.length / 2 + 1, 2}, counts)),
                             c.scalar(c.dtype(half), 0)}),
              c.scalar(c.dtype(half), 0), half);
  return c.concat({counted, c.mul(mirror, sign)}, 1);
}

/// N = P * Q. With n = Q p + q and k = r + P s, the transform is one of length P over p, a factor
/// of W_N^(q r), and one of length Q over q. The latter may be split in the same way.
V by_two_factors(OpBuilder& c, V rows, const Transform& t, double scale) {
  const int64_t p = first_factor(t.length);
  const int64_t q = t.length / p;
  const DType dtype = c.dtype(rows);
  rows = t.mirrored ? with_mirror_image(c, rows, t) : padded_rows(c, rows, t.length);
  const Expr m = c.shape(rows)[0];
  const Expr parts = c.shape(rows)[2];
  const V columns = c.transpose(c.reshape(rows, {m, Expr(p), Expr(q), parts}), {0, 2, 1, 3});
  const Transform over_p{p, t.inverse, p, p, t.real_input, false};
  V z = by_matrix(c, c.reshape(columns, {m * Expr(q), Expr(p), parts}), over_p, scale);
  z = c.reshape(z, {m, Expr(q), Expr(p), Expr(2)});
  std::vector<double> re, im;
  for (int64_t i = 0; i < q; ++i) {
    for (int64_t r = 0; r < p; ++r) {
      const std::complex<double> root = root_of_unity((t.inverse ? i : -i) * r, t.length);
      re.push_back(root.real());
      im.push_back(root.imag());
    }
  }
  z = complex_product(c, z, c.constant(float_tensor(dtype, {q, p, 1}, re)),
                      c.constant(float_tensor(dtype, {q, p, 1}, im)));
  z = c.reshape(c.transpose(z, {0, 2, 1, 3}), {m * Expr(p), Expr(q), Expr(2)});
  const Transform over_q{q, t.inverse, q, q, false, false};
  const bool split = p <= kLongMatrix && q > kLongMatrix;
  z = split ? by_two_factors(c, z, over_q, 1) : by_matrix(c, z, over_q, 1);
  z = c.reshape(z, {m, Expr(p), Expr(q), Expr(2)});
  z = c.reshape(c.transpose(z, {0, 2, 1, 3}), {m, Expr(t.length), Expr(2)});
  z = c.slice_axis(z, 1, 0, Expr(t.bins));
  return t.mirrored ? c.slice_axis(z, 2, 0, 1) : z;
}

bool fits_matrix(const Transform& t) {
  const int64_t most = kLongestMatrix * 4;
  return t.given <= most && t.bins <= most && 4 * t.given * t.bins <= kMostMatrixElements;
}

/// Whether the transform has a decomposition.
bool is_short(const Transform& t) {
  if (t.length < 1 || t.given < 1) return false;
  return fits_matrix(t) ||
         (t.length <= kLongestMatrix * kLongestMatrix && first_factor(t.length) > 0);
}

constexpr const char* kVaryingLength =
    "kernels need the length of a transform when they are compiled; --shape fixes it";

std::string without_factors(const Transform& t) {
  return "the length " + std::to_string(t.length) + " is not a product of factors of at most " +
         std::to_string(kLongestMatrix);
}

/// rows [M, given, parts] -> [M, bins, parts]
V transformed(OpBuilder& c, V rows, const Transform& t) {
  const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
  return fits_matrix(t) ? by_matrix(c, rows, t, scale) : by_two_factors(c, rows, t, scale);
}

/// Whether the last axis holds real numbers only. It has 1 or 2 elements.
Result<bool> holds_real(const InferContext& ctx) {
  const Expr& parts = ctx.shape(0).back();
  if (parts.is_const(1) || parts.is_const(2)) return parts.is_const(1);
  return ctx.error(Code::Unsupported, "the last dim of " + ctx.str(ctx.shape(0)) +
                                          " must be 1 (real) or 2 (complex numbers)");
}

/// The only element of a scalar input. Nothing if it depends on data.
std::optional<Expr> scalar_input(const InferContext& ctx, size_t i) {
  const auto e = ctx.elements(i);
  return e && e->size() == 1 ? std::optional((*e)[0]) : std::nullopt;
}

// --- DFT -----------------------------------------------------------------------------------------

/// The axis: an attribute before opset 20, since then an input. Nothing if it depends on data.
Result<std::optional<int64_t>> dft_axis(const InferContext& ctx) {
  int64_t axis = ctx.attrs().get_or<int64_t>("axis", ctx.opset() < 20 ? 1 : -2);
  if (ctx.has_input(2)) {
    const auto given = ctx.constant_ints(2);
    if (!given || given->size() != 1) return std::optional<int64_t>();
    axis = (*given)[0];
  }
  RP_ASSIGN(const int64_t a, ctx.axis(axis, ctx.rank(0)));
  if (a == ctx.rank(0) - 1)
    return ctx.invalid("axis " + std::to_string(axis) + " is the axis of the complex numbers");
  return std::optional(a);
}

/// The length of the signal. Nothing if it depends on data.
std::optional<Expr> dft_length(const InferContext& ctx, int64_t axis) {
  if (ctx.has_input(1)) return scalar_input(ctx, 1);
  const Expr& dim = ctx.shape(0)[static_cast<size_t>(axis)];
  const bool mirrored = ctx.attrs().get_int("inverse") != 0 && ctx.attrs().get_int("onesided") != 0;
  return mirrored ? Expr(2) * (dim - 1) : dim;
}

Status infer_dft(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(holds_real(ctx).status());
  const bool inverse = ctx.attrs().get_int("inverse") != 0;
  const bool onesided = ctx.attrs().get_int("onesided") != 0;
  RP_ASSIGN(const auto axis, dft_axis(ctx));
  Shape out = ctx.shape(0);
  if (axis) {
    const auto a = static_cast<size_t>(*axis);
    const auto length = dft_length(ctx, *axis);
    if (length && bounds(*length, ctx.graph_symbols()).hi < 1)
      return ctx.invalid("dft_length is " + length->str(ctx.graph_symbols()) +
                         ", must be positive");
    const bool half = onesided && !inverse;
    out[a] = !length ? ctx.fresh_symbol(0, a) : half ? Expr::floordiv(*length, 2) + 1 : *length;
  } else {
    out = ctx.fresh_shape(0, out.size());
  }
  out.back() = onesided && inverse ? 1 : 2;
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// The axes with `axis` moved before the last one, and the inverse permutation.
std::pair<std::vector<int64_t>, std::vector<int64_t>> rows_along(int64_t axis, int64_t rank) {
  std::vector<int64_t> there = iota(0, rank);
  there.erase(there.begin() + axis);
  there.insert(there.end() - 1, axis);
  std::vector<int64_t> back(there.size());
  for (size_t i = 0; i < there.size(); ++i)
    back[static_cast<size_t>(there[i])] = static_cast<int64_t>(i);
  return {std::move(there), std::move(back)};
}

Result<bool> dft(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto axis, dft_axis(ctx));
  RP_ASSIGN(const bool real, holds_real(ctx));
  if (!axis) return rw.keep("its axis is known only in a run");
  const Expr dim = ctx.shape(0)[static_cast<size_t>(*axis)];
  const auto length = dft_length(ctx, *axis);
  if (!length || !length->is_const() || !dim.is_const()) return rw.keep(kVaryingLength);
  OpBuilder c(rw);
  Transform t;
  t.length = length->value();
  t.inverse = c.attrs().get_int("inverse") != 0;
  const bool onesided = c.attrs().get_int("onesided") != 0;
  t.mirrored = onesided && t.inverse;
  t.real_input = real;
  t.given = std::min(dim.value(), t.mirrored ? t.length / 2 + 1 : t.length);
  t.bins = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  if (t.mirrored && real) return rw.keep("half of a spectrum without imaginary parts has no use");
  if (!is_short(t)) return rw.keep(without_factors(t));
  const DType dtype = c.dtype(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const auto rank = static_cast<int64_t>(out.size());
  const auto [there, back] = rows_along(*axis, rank);
  V x = c.slice_axis(c.cast(c.in(0), accumulate_dtype(dtype)), *axis, 0, Expr(t.given));
  x = c.transpose(x, there);
  Shape moved = c.shape(x);
  const Expr rows = product(moved, 0, moved.size() - 2);
  x = transformed(c, c.reshape(x, {rows, Expr(t.given), moved.back()}), t);
  moved[moved.size() - 2] = Expr(t.bins);
  moved.back() = out.back();
  c.replace(0, c.cast(c.transpose(c.reshape(x, moved), back), dtype));
  return c.finish();
}

// --- STFT ----------------------------------------------------------------------------------------

/// The length of a frame: input 3, or that of the window, or that of the signal. Nothing if it
/// depends on data.
std::optional<Expr> frame_length(const InferContext& ctx) {
  if (ctx.has_input(3)) return scalar_input(ctx, 3);
  return ctx.has_input(2) ? ctx.shape(2)[0] : ctx.shape(0)[1];
}

/// Whether the signal is real. ONNX requires the last dim. ONNX Runtime also takes real signals
/// without it, and exported models rely on that.
Result<bool> signal_is_real(const InferContext& ctx) {
  if (ctx.rank(0) == 2) return true;
  return holds_real(ctx);
}

/// The signal [batch, length, parts], or [batch, length] if it is real, gives
/// [batch, frames, bins, 2].
Status infer_stft(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  if (ctx.rank(0) != 2 && ctx.rank(0) != 3) {
    return ctx.invalid("signal must be [batch, length, 1 or 2] or [batch, length], has shape " +
                       ctx.str(ctx.shape(0)));
  }
  RP_TRY(signal_is_real(ctx).status());
  if (ctx.has_input(2)) {
    if (ctx.rank(2) != 1)
      return ctx.invalid("window must be a vector, has shape " + ctx.str(ctx.shape(2)));
    if (ctx.dtype(2) != ctx.dtype(0))
      return ctx.invalid(
          "signal and window differ in dtype: " + std::string(name_of(ctx.dtype(0))) + " and " +
          std::string(name_of(ctx.dtype(2))));
  }
  const auto length = frame_length(ctx);
  const auto step = scalar_input(ctx, 1);
  if (step && bounds(*step, ctx.graph_symbols()).hi < 1)
    return ctx.invalid("frame_step is " + step->str(ctx.graph_symbols()) + ", must be positive");
  if (length && ctx.has_input(2))
    RP_TRY(ctx.unify(ctx.shape(2)[0], *length, "the window and frame_length").status());
  const Expr& signal = ctx.shape(0)[1];
  if (length) ctx.at_least(signal, "the signal", *length, "a frame");
  Expr frames;
  if (length && step && bounds(*step, ctx.graph_symbols()).lo > 0) {
    frames = Expr::floordiv(signal - *length, *step) + 1;
  } else {
    frames = ctx.fresh_symbol(0, 1);
  }
  const bool onesided = ctx.attrs().get_int("onesided") != 0;
  const Expr bins = !length    ? ctx.fresh_symbol(0, 2)
                    : onesided ? Expr::floordiv(*length, 2) + 1
                               : *length;
  ctx.set_output(0, ctx.dtype(0), {ctx.shape(0)[0], frames, bins, 2});
  return {};
}

Result<bool> stft(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto length = frame_length(ctx);
  const auto step = scalar_input(ctx, 1);
  if (!length || !length->is_const()) return rw.keep(kVaryingLength);
  if (!step || !step->is_const()) return rw.keep("its frame_step is known only in a run");
  OpBuilder c(rw);
  Transform t;
  t.length = t.given = length->value();
  RP_ASSIGN(t.real_input, signal_is_real(ctx));
  t.bins = c.attrs().get_int("onesided") != 0 ? t.length / 2 + 1 : t.length;
  if (!is_short(t)) return rw.keep(without_factors(t));
  const DType dtype = c.dtype(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const Shape& given = ctx.shape(0);
  const V x = c.cast(c.reshape(c.in(0), {given[0], given[1], Expr(t.real_input ? 1 : 2)}),
                     accumulate_dtype(dtype));
  const V first = c.mul(c.positions(out[1]), static_cast<double>(step->value()));
  const V within = c.positions(*length);
  AttrMap a;
  a.set("axis", int64_t{1});
  V frames = c.op("Gather", {x, c.add(c.along_axis(first, 0, 2), c.along_axis(within, 1, 2))}, a);
  if (c.has(2)) {
    frames = c.mul(frames, c.along_axis(c.cast(c.in(2), accumulate_dtype(dtype)), 2, 4));
  }
  const V rows = c.reshape(frames, {out[0] * out[1], *length, c.shape(x)[2]});
  c.replace(0, c.cast(c.reshape(transformed(c, rows, t), out), dtype));
  return c.finish();
}

// --- MelWeightMatrix -----------------------------------------------------------------------------

/// [dft_length / 2 + 1, num_mel_bins]
Status infer_mel_weights(InferContext& ctx) {
  RP_ASSIGN(const DType t, dtype_attr(ctx, "output_datatype"));
  for (size_t i = 0; i < 5; ++i) {
    if (element_count(ctx.shape(i)).is_const(1)) continue;
    return ctx.invalid("input '" + ctx.input(i).name + "' must be a scalar, has shape " +
                       ctx.str(ctx.shape(i)));
  }
  const auto bins = scalar_input(ctx, 0);
  const auto length = scalar_input(ctx, 1);
  ctx.set_output(0, t,
                 {length ? Expr::floordiv(*length, 2) + 1 : ctx.fresh_symbol(0, 0),
                  bins ? *bins : ctx.fresh_symbol(0, 1)});
  return {};
}

constexpr AttrDecl kDftAttrs[] = {optional_attr("axis", AttrType::Int), int_attr("inverse", 0),
                                  int_attr("onesided", 0)};
constexpr AttrDecl kStftAttrs[] = {int_attr("onesided", 1)};
constexpr AttrDecl kMelAttrs[] = {int_attr("output_datatype", 1)};

}  // namespace

std::span<const OpDef> signal_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "DFT",
       .infer = infer_dft,
       .decompose = dft,
       .max_inputs = 3,
       .attributes = kDftAttrs},
      {.name = "STFT",
       .infer = infer_stft,
       .decompose = stft,
       .min_inputs = 2,
       .max_inputs = 4,
       .attributes = kStftAttrs},
      {.name = "MelWeightMatrix",
       .infer = infer_mel_weights,
       .min_inputs = 5,
       .max_inputs = 5,
       .attributes = kMelAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
