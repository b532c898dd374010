"""Operators that read or change the bits of floating-point numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..dtypes import elem_type
from ..errors import Unsupported
from ..graph import Graph, Value
from ..table import row
from .common import compute_dtype, known_shape, normal_axes

#: For each dtype: integers of the same size, bits of the fraction, bits of the exponent.
_FORMS = {
    torch.float16: (torch.int16, 10, 5),
    torch.bfloat16: (torch.int16, 7, 8),
    torch.float32: (torch.int32, 23, 8),
    torch.float64: (torch.int64, 52, 11),
}


def _bits(g: Graph, x: Value) -> Value:
    """Returns the bits of floats as signed integers, of 32 bits at least."""
    integer = _FORMS[x.dtype][0]
    bits = g.op("BitCast", x, dtype=integer, to=elem_type(integer))
    return g.cast(bits, torch.int32) if integer == torch.int16 else bits


def _floats(g: Graph, bits: Value, dtype: torch.dtype) -> Value:
    exact = g.cast(bits, _FORMS[dtype][0])
    return g.op("BitCast", exact, dtype=dtype, to=elem_type(dtype))


@row("aten.frexp.Tensor")
def _frexp(g: Graph, x: Value) -> Sequence[Value]:
    """Splits x into a fraction from 0.5 to 1 and a power of two."""
    dtype = compute_dtype(x.dtype)
    _, fraction, exponent = _FORMS[dtype]
    wide = g.cast(x, dtype)
    most, bias = (1 << exponent) - 1, (1 << (exponent - 1)) - 2
    sign = 1 << (fraction + exponent)
    bits = _bits(g, wide)
    negative = g.compare("Less", bits, g.scalar(0, bits.dtype))
    size = g.op("BitwiseAnd", bits, g.scalar(sign - 1, bits.dtype))
    zero = g.compare("Equal", size, g.scalar(0, bits.dtype))
    special = g.compare("GreaterOrEqual", size, g.scalar(most << fraction, bits.dtype))
    # Of numbers below the smallest normal one, which devices may take as 0, the bits are an integer
    # times the smallest number. As a float, that integer is a normal number.
    small = g.compare("Less", size, g.scalar(1 << fraction, bits.dtype))
    size = g.where(small, _bits(g, g.cast(size, dtype)), size)
    low = g.op("BitwiseAnd", size, g.scalar((1 << fraction) - 1, bits.dtype))
    half = g.op("BitwiseOr", low, g.scalar(bias << fraction, bits.dtype))
    part = _floats(g, half, dtype)
    part = g.where(negative, g.op("Neg", part), part)
    power = g.op("Div", size, g.scalar(1 << fraction, bits.dtype))
    shift = g.where(
        small, g.scalar(2 * bias + fraction, bits.dtype), g.scalar(bias, bits.dtype)
    )
    none = g.op("Or", special, zero)
    number = g.where(none, g.scalar(0, bits.dtype), g.op("Sub", power, shift))
    return [
        g.cast(g.where(none, wide, part), x.dtype),
        g.cast(number, torch.int32),
    ]


@row("aten.nextafter.default")
def _nextafter(g: Graph, a: Value, b: Value) -> Value:
    """The next number in a direction: floats of one sign are in the order of their bits."""
    dtype = g.out.dtype
    x, y = (_bits(g, g.cast(v, dtype)) for v in (a, b))
    _, fraction, exponent = _FORMS[dtype]
    sign = -(1 << (fraction + exponent))
    mask = g.scalar(-sign - 1, x.dtype)
    zero, one = g.scalar(0, x.dtype), g.scalar(1, x.dtype)

    def ordered(bits: Value) -> Value:
        size = g.op("BitwiseAnd", bits, mask)
        negative = g.compare("Less", bits, zero)
        return g.where(negative, g.op("Neg", size), size)

    first, second = ordered(x), ordered(y)
    up = g.compare("Less", first, second)
    moved = g.where(up, g.op("Add", first, one), g.op("Sub", first, one))
    size = g.op("Abs", moved)
    # Where the order is reversed, 0 becomes -0.
    below = g.op("Or", g.compare("Less", moved, zero), g.compare("Less", first, zero))
    back = g.where(below, g.op("BitwiseOr", size, g.scalar(sign, x.dtype)), size)
    bits = g.where(g.compare("Equal", first, second), y, back)
    limit = g.scalar(((1 << exponent) - 1) << fraction, x.dtype)
    sizes = [g.op("BitwiseAnd", v, mask) for v in (x, y)]
    nan = g.op("Or", *(g.compare("Greater", s, limit) for s in sizes))
    result = _floats(g, bits, dtype)
    return g.where(nan, g.scalar(math.nan, dtype), result)


@row("aten.hash_tensor.default")
def _hash(
    g: Graph, x: Value, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
) -> Value:
    """Combines the bits of all elements, as doubles or 64-bit integers, by exclusive or."""
    if mode != 0:
        raise Unsupported(f"hashes of mode {mode} are not supported")
    if x.dtype.is_floating_point:
        bits = _bits(g, g.cast(x, torch.float64))
    else:
        bits = g.cast(x, torch.int64)
    shape = known_shape(x) or [1]
    axes = normal_axes(list(dim), x.rank) or [0]
    rest = [a for a in range(len(shape)) if a not in axes]
    count = math.prod(shape[a] for a in axes)
    lines = g.transpose(g.reshape(bits, shape), [*rest, *axes])
    lines = g.reshape(lines, [math.prod(shape[a] for a in rest), count])
    if count == 0:
        return g.full(0, g.out.dtype, g.out.shape)
    while count > 1:
        half = count // 2
        joined = g.op(
            "BitwiseXor", g.slice(lines, 1, 0, half), g.slice(lines, 1, half, 2 * half)
        )
        if count % 2:
            joined = g.op("Concat", joined, g.slice(lines, 1, count - 1, count), axis=1)
        lines, count = joined, half + count % 2
    return g.reshape(g.cast(lines, torch.uint64), g.out.shape)
