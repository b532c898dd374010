"""Operators of complex tensors, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..complexes import PARTS, Complex, as_complex, complex_row, pack, unpack
from ..errors import Unsupported
from ..graph import Graph, Value
from ..table import find_row
from .common import compute_dtype, known


def _times(g: Graph, a: Complex, b: Complex) -> Complex:
    real = g.op("Sub", g.op("Mul", a.real, b.real), g.op("Mul", a.imag, b.imag))
    imag = g.op("Add", g.op("Mul", a.real, b.imag), g.op("Mul", a.imag, b.real))
    return Complex(real, imag, a.dtype)


def _each(g: Graph, op: str, a: Complex, b: Value) -> Complex:
    return Complex(g.op(op, a.real, b), g.op(op, a.imag, b), a.dtype)


def _wide(g: Graph, operand: Any, dtype: torch.dtype) -> Complex:
    """The parts in the dtype in which formulas are computed."""
    value = as_complex(g, operand, dtype)
    part = compute_dtype(PARTS[dtype])
    return Complex(g.cast(value.real, part), g.cast(value.imag, part), dtype)


def _is_real(operand: Any) -> bool:
    return isinstance(operand, (Value, int, float))


def _part_of(g: Graph, operand: Any, dtype: torch.dtype) -> Value:
    return g.cast(g.scalar(operand, PARTS[dtype]), compute_dtype(PARTS[dtype]))


@complex_row("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def _add(g: Graph, a: Any, b: Any, alpha: Any = 1) -> Complex:
    op = "Sub" if g.target.startswith("aten.sub") else "Add"
    dtype = g.out.dtype
    x, y = _wide(g, a, dtype), _wide(g, b, dtype)
    if alpha != 1:
        y = _times(g, y, _wide(g, alpha, dtype))
    return Complex(g.op(op, x.real, y.real), g.op(op, x.imag, y.imag), dtype)


@complex_row("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(g: Graph, a: Any, b: Any, alpha: Any = 1) -> Complex:
    if alpha != 1:
        raise Unsupported("a factor of complex numbers is not supported")
    x, y = _wide(g, b, g.out.dtype), _wide(g, a, g.out.dtype)
    return Complex(
        g.op("Sub", x.real, y.real), g.op("Sub", x.imag, y.imag), g.out.dtype
    )


@complex_row("aten.mul.Tensor", "aten.mul.Scalar")
def _mul(g: Graph, a: Any, b: Any) -> Complex:
    # A real factor multiplies as 0i does: infinity times 0 is undefined there, too.
    return _times(g, _wide(g, a, g.out.dtype), _wide(g, b, g.out.dtype))


def _quotient(g: Graph, a: Complex, b: Complex) -> Complex:
    """Divides after scaling by the larger part of the divisor, so that no square overflows."""
    zero, one = g.scalar(0.0, b.real.dtype), g.scalar(1.0, b.real.dtype)
    scale = g.op("Max", g.op("Abs", b.real), g.op("Abs", b.imag))
    scale = g.where(g.compare("Equal", scale, zero), one, scale)
    scale = g.where(g.op("IsInf", scale, dtype=torch.bool), one, scale)
    c, d = g.op("Div", b.real, scale), g.op("Div", b.imag, scale)
    p, q = g.op("Div", a.real, scale), g.op("Div", a.imag, scale)
    size = g.op("Add", g.op("Mul", c, c), g.op("Mul", d, d))
    real = g.op("Add", g.op("Mul", p, c), g.op("Mul", q, d))
    imag = g.op("Sub", g.op("Mul", q, c), g.op("Mul", p, d))
    return Complex(g.op("Div", real, size), g.op("Div", imag, size), a.dtype)


@complex_row("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def _div(g: Graph, a: Any, b: Any) -> Complex:
    dtype = g.out.dtype
    if _is_real(b):
        return _each(g, "Div", _wide(g, a, dtype), _part_of(g, b, dtype))
    return _quotient(g, _wide(g, a, dtype), _wide(g, b, dtype))


@complex_row("aten.reciprocal.default")
def _reciprocal(g: Graph, x: Complex) -> Complex:
    return _quotient(g, _wide(g, 1.0, x.dtype), _wide(g, x, x.dtype))


#: The largest power that is computed as products.
_LARGEST_POWER = 8


@complex_row("aten.pow.Tensor_Scalar", "aten.square.default")
def _power(g: Graph, x: Complex, exponent: Any = 2) -> Complex:
    number = complex(exponent)
    count = int(number.real)
    if number != count or abs(count) > _LARGEST_POWER:
        raise Unsupported(
            f"the exponent of a complex number must be an integer of at most {_LARGEST_POWER}"
        )
    one = _wide(g, 1.0, g.out.dtype)
    if count == 0:
        return Complex(_broadcast(g, one.real), _broadcast(g, one.imag), g.out.dtype)
    factor = result = _wide(g, x, g.out.dtype)
    for _ in range(abs(count) - 1):
        result = _times(g, result, factor)
    return _quotient(g, one, result) if count < 0 else result


@complex_row(
    "aten._conj.default",
    "aten.conj_physical.default",
    "aten._conj_physical.default",
    "aten.conj.default",
)
def _conjugate(g: Graph, x: Any) -> Any:
    if isinstance(x, Value):
        return x
    value = as_complex(g, x, g.out.dtype)
    return Complex(value.real, g.op("Neg", value.imag), value.dtype)


@complex_row("aten.resolve_conj.default", "aten.resolve_neg.default")
def _same(g: Graph, x: Any) -> Any:
    return x


@complex_row("aten._neg_view.default")
def _negative(g: Graph, x: Complex) -> Complex:
    return Complex(g.op("Neg", x.real), g.op("Neg", x.imag), x.dtype)


@complex_row("aten.view_as_real.default", "aten.view_as_real_copy.default")
def _view_as_real(g: Graph, x: Complex) -> Value:
    return pack(g, x)


@complex_row("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def _view_as_complex(g: Graph, x: Value) -> Complex:
    return unpack(g, x, g.out.shape, g.out.dtype)


@complex_row("aten.real.default", "prims.real.default")
def _real(g: Graph, x: Complex) -> Value:
    return x.real


@complex_row("aten.imag.default", "prims.imag.default")
def _imag(g: Graph, x: Complex) -> Value:
    return x.imag


def _broadcast(g: Graph, value: Value) -> Value:
    return g.expand(value, g.out.shape)


@complex_row("aten.complex.default")
def _complex(g: Graph, real: Value, imag: Value) -> Complex:
    return Complex(_broadcast(g, real), _broadcast(g, imag), g.out.dtype)


@complex_row("aten.polar.default")
def _polar(g: Graph, size: Value, angle: Value) -> Complex:
    parts = [g.op("Mul", size, g.op(f, angle)) for f in ("Cos", "Sin")]
    return Complex(parts[0], parts[1], g.out.dtype)


@complex_row("aten._to_copy.default", "prims.convert_element_type.default")
def _to_copy(g: Graph, x: Any, *_: object, **__: object) -> Any:
    if g.out.dtype.is_complex:
        return as_complex(g, x, g.out.dtype)
    return x.real


@complex_row(
    "aten.full.default", "aten.full_like.default", "aten.new_full.default",
    "aten.scalar_tensor.default", "aten.fill.Scalar", "aten.fill.Tensor",
)  # fmt: skip
def _full(g: Graph, *args: Any, **__: object) -> Complex:
    value = args[0] if g.target.startswith("aten.scalar_tensor") else args[-1]
    if g.target.startswith("aten.full.") or not isinstance(value, (list, tuple)):
        number = as_complex(g, value, g.out.dtype)
        return Complex(
            _broadcast(g, number.real), _broadcast(g, number.imag), g.out.dtype
        )
    raise Unsupported("its value is not a number")


def _filled(value: float) -> Any:
    def convert(g: Graph, *_: object, **__: object) -> Complex:
        number = as_complex(g, value, g.out.dtype)
        return Complex(
            _broadcast(g, number.real), _broadcast(g, number.imag), g.out.dtype
        )

    return convert


complex_row(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
    "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default",
    "aten.empty_strided.default", "aten.new_empty_strided.default", "aten.zero.default",
    "aten.empty_permuted.default", "aten._efficientzerotensor.default",
)(_filled(0.0))  # fmt: skip
complex_row("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")(
    _filled(1.0)
)


@complex_row(
    "aten.where.self",
    "aten.where.ScalarSelf",
    "aten.where.ScalarOther",
    "aten.where.Scalar",
)
def _where(g: Graph, condition: Value, a: Any, b: Any) -> Complex:
    x, y = as_complex(g, a, g.out.dtype), as_complex(g, b, g.out.dtype)
    chosen = g.cast(condition, torch.bool)
    real, imag = g.where(chosen, x.real, y.real), g.where(chosen, x.imag, y.imag)
    return Complex(real, imag, g.out.dtype)


@complex_row("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(g: Graph, x: Complex, mask: Value, value: Any) -> Complex:
    y = as_complex(g, value, x.dtype)
    real, imag = g.where(mask, y.real, x.real), g.where(mask, y.imag, x.imag)
    return Complex(real, imag, x.dtype)


@complex_row("aten.constant_pad_nd.default")
def _constant_pad(g: Graph, x: Complex, pad: Sequence[int], value: Any = 0) -> Complex:
    row = find_row("aten.constant_pad_nd.default")
    assert row is not None
    number = complex(value)
    real, imag = row(g, x.real, pad, number.real), row(g, x.imag, pad, number.imag)
    assert isinstance(real, Value) and isinstance(imag, Value)
    return Complex(real, imag, x.dtype)


def _operand_dtype(a: Any, b: Any) -> torch.dtype:
    found = [v.dtype for v in (a, b) if isinstance(v, (Value, Complex))]
    dtype = found[0] if len(found) == 1 else torch.promote_types(*found)
    return dtype if dtype.is_complex else torch.complex64


@complex_row("aten.eq.Tensor", "aten.eq.Scalar", "aten.ne.Tensor", "aten.ne.Scalar")
def _equal(g: Graph, a: Any, b: Any) -> Value:
    dtype = _operand_dtype(a, b)
    x, y = as_complex(g, a, dtype), as_complex(g, b, dtype)
    same = g.op(
        "And", g.compare("Equal", x.real, y.real), g.compare("Equal", x.imag, y.imag)
    )
    return g.logical_not(same) if g.target.startswith("aten.ne") else same


def _magnitude(g: Graph, x: Complex) -> Value:
    row = find_row("aten.hypot.default")
    assert row is not None
    size = row(g, x.real, x.imag)
    assert isinstance(size, Value)
    return size


@complex_row("aten.abs.default")
def _abs(g: Graph, x: Complex) -> Value:
    return _magnitude(g, _wide(g, x, x.dtype))


@complex_row("aten.angle.default")
def _angle(g: Graph, x: Complex) -> Value:
    row = find_row("aten.atan2.default")
    assert row is not None
    angle = row(g, x.imag, x.real)
    assert isinstance(angle, Value)
    return angle


@complex_row("aten.sgn.default")
def _sgn(g: Graph, x: Complex) -> Complex:
    wide = _wide(g, x, x.dtype)
    metas, g.outs = g.outs, [type(g.out)(wide.real.dtype, g.out.shape)]
    size = _magnitude(g, wide)
    g.outs = metas
    zero = g.scalar(0.0, size.dtype)
    none = g.compare("Equal", size, zero)
    safe = g.where(none, g.scalar(1.0, size.dtype), size)
    return _each(g, "Div", wide, safe)


@complex_row("aten.exp.default")
def _exp(g: Graph, x: Complex) -> Complex:
    wide = _wide(g, x, x.dtype)
    growth = g.op("Exp", wide.real)
    parts = [g.op("Mul", growth, g.op(f, wide.imag)) for f in ("Cos", "Sin")]
    return Complex(parts[0], parts[1], x.dtype)


@complex_row("aten.mm.default", "aten.bmm.default", "aten.mv.default")
@complex_row("aten.matmul.default", "aten.dot.default")
def _matmul(g: Graph, a: Complex, b: Complex) -> Complex:
    rows = [(x, y) for x in (a.real, a.imag) for y in (b.real, b.imag)]
    rr, ri, ir, ii = (g.op("MatMul", x, y) for x, y in rows)
    return Complex(g.op("Sub", rr, ii), g.op("Add", ri, ir), a.dtype)


def _scale(mode: int, count: int, inverse: bool) -> float:
    """What the transform of ONNX, which divides by its length if it is inverse, lacks."""
    wanted = (1.0, 1 / math.sqrt(count), 1 / count)[mode]
    return wanted * count if inverse else wanted


def _scaled(g: Graph, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else g.op("Mul", x, g.scalar(factor, x.dtype))


def _transform(
    g: Graph, pairs: Value, axis: int, length: int | None, inverse: int = 0,
    onesided: int = 0,
) -> Value:  # fmt: skip
    wanted = None if length is None else g.constant(torch.tensor(length))
    place = g.constant(torch.tensor(axis))
    return g.op("DFT", pairs, wanted, place, inverse=inverse, onesided=onesided)


def _lengths(dims: Sequence[object], axes: Sequence[int]) -> list[int]:
    lengths = [known(dims[a], "the length of a transform") for a in axes]  # type: ignore[arg-type]
    if 0 in lengths:
        raise Unsupported("transforms of nothing are not supported")
    return lengths


@complex_row("aten._fft_c2c.default")
def _fft(g: Graph, x: Complex, dim: Sequence[int], mode: int, forward: bool) -> Complex:
    axes = [d % x.rank for d in dim] if x.rank else []
    if not axes:
        return x
    count = math.prod(_lengths(x.shape, axes))
    pairs = pack(g, _wide(g, x, x.dtype))
    for axis in axes:
        pairs = _transform(g, pairs, axis, None, inverse=int(not forward))
    pairs = _scaled(g, pairs, _scale(mode, count, not forward))
    return unpack(g, pairs, x.shape, x.dtype)


@complex_row("aten._fft_r2c.default")
def _fft_of_real(
    g: Graph, x: Value, dim: Sequence[int], mode: int, onesided: bool
) -> Complex:
    axes = [d % x.rank for d in dim]
    count = math.prod(_lengths(x.shape, axes))
    wide = g.cast(x, compute_dtype(x.dtype))
    pairs = g.unsqueeze(wide, [x.rank])
    pairs = _transform(g, pairs, axes[-1], None, onesided=int(onesided))
    for axis in axes[:-1]:
        pairs = _transform(g, pairs, axis, None)
    pairs = _scaled(g, pairs, _scale(mode, count, False))
    return unpack(g, pairs, g.out.shape, g.out.dtype)


@complex_row("aten._fft_c2r.default")
def _fft_to_real(
    g: Graph, x: Complex, dim: Sequence[int], mode: int, last: int
) -> Value:
    axes = [d % x.rank for d in dim]
    last = known(last, "the length of a transform")
    lengths = _lengths(x.shape, axes[:-1])
    if last == 0:
        raise Unsupported("transforms of nothing are not supported")
    pairs = pack(g, _wide(g, x, x.dtype))
    for axis in axes[:-1]:
        pairs = _transform(g, pairs, axis, None, inverse=1)
    real = _transform(g, pairs, axes[-1], last, inverse=1, onesided=1)
    real = _scaled(g, real, _scale(mode, math.prod(lengths) * last, True))
    return g.reshape(real, g.out.shape)
