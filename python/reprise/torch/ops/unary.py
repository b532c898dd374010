"""Elementwise operators of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..table import Row, row
from .common import compute_dtype, is_float

#: Operators of ONNX with the meaning of ATen's, for floating-point numbers.
_DIRECT = {
    "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "log": "Log",
    "reciprocal": "Reciprocal", "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "special_erf": "Erf",
}  # fmt: skip
#: Operators of ONNX that also take integers, and leave them as they are where `True`.
_ANY_NUMBER = {
    "abs": ("Abs", False), "neg": ("Neg", False), "_neg_view": ("Neg", False),
    "ceil": ("Ceil", True), "floor": ("Floor", True), "relu": ("Relu", False),
}  # fmt: skip


def _direct(op: str) -> Row:
    def convert(g: Graph, x: Value) -> Value:
        return g.op(op, g.cast(x, g.out.dtype))

    return convert


def _any_number(op: str, integers_stay: bool) -> Row:
    def convert(g: Graph, x: Value) -> Value:
        if x.dtype == torch.bool or (integers_stay and not is_float(x.dtype)):
            return x
        if x.dtype == torch.uint8 and op in ("Neg",):
            return g.op("Sub", g.scalar(0, x.dtype), x)
        return g.op(op, x)

    return convert


for _name, _op in _DIRECT.items():
    row(f"aten.{_name}.default")(_direct(_op))
for _name, (_op, _stay) in _ANY_NUMBER.items():
    row(f"aten.{_name}.default")(_any_number(_op, _stay))

_Formula = Callable[[Graph, Value], Value]


def formula(*names: str, single: bool = False) -> Callable[[_Formula], _Formula]:
    """Makes a function of one float the row of operators; half precision computes in float32.

    A function that is `single` is as exact as float32, and refuses float64.
    """

    def register(function: _Formula) -> _Formula:
        def convert(g: Graph, x: Value) -> Value:
            if not is_float(g.out.dtype):
                raise Unsupported(f"its result has dtype {g.out.dtype}")
            dtype = compute_dtype(g.out.dtype)
            if single and dtype == torch.float64:
                raise Unsupported("its formula is not exact enough for float64")
            return g.cast(function(g, g.cast(x, dtype)), g.out.dtype)

        row(*(f"aten.{n}.default" for n in names))(convert)
        return function

    return register


def _times(g: Graph, x: Value, factor: float) -> Value:
    return g.op("Mul", x, g.scalar(factor, x.dtype))


@formula("rsqrt")
def _rsqrt(g: Graph, x: Value) -> Value:
    return g.op("Reciprocal", g.op("Sqrt", x))


@formula("log2")
def _log2(g: Graph, x: Value) -> Value:
    return _times(g, g.op("Log", x), 1 / math.log(2))


@formula("log10")
def _log10(g: Graph, x: Value) -> Value:
    return _times(g, g.op("Log", x), 1 / math.log(10))


@formula("exp2", "special_exp2")
def _exp2(g: Graph, x: Value) -> Value:
    return g.op("Pow", g.scalar(2.0, x.dtype), x)


@formula("log1p", "special_log1p")
def _log1p(g: Graph, x: Value) -> Value:
    # The quotient corrects the rounding of 1 + x.
    one = g.scalar(1.0, x.dtype)
    u = g.op("Add", x, one)
    rest = g.op("Sub", u, one)
    corrected = g.op("Mul", g.op("Log", u), g.op("Div", x, rest))
    infinite = g.op("IsInf", u, dtype=torch.bool)
    large = g.where(infinite, g.op("Log", u), corrected)
    return g.where(g.compare("Equal", u, one), x, large)


@formula("expm1", "special_expm1")
def _expm1(g: Graph, x: Value) -> Value:
    one = g.scalar(1.0, x.dtype)
    u = g.op("Exp", x)
    rest = g.op("Sub", u, one)
    corrected = g.op("Mul", rest, g.op("Div", x, g.op("Log", u)))
    far = g.compare("Greater", g.op("Abs", x), one)
    return g.where(g.compare("Equal", u, one), x, g.where(far, rest, corrected))


@formula("frac")
def _frac(g: Graph, x: Value) -> Value:
    return g.op("Sub", x, _trunc_float(g, x))


def _trunc_float(g: Graph, x: Value) -> Value:
    negative = g.compare("Less", x, g.scalar(0.0, x.dtype))
    return g.where(negative, g.op("Ceil", x), g.op("Floor", x))


@row("aten.trunc.default", "aten.fix.default")
def _trunc(g: Graph, x: Value) -> Value:
    return _trunc_float(g, x) if is_float(x.dtype) else x


@row("aten.round.default", "aten.round.decimals")
def _round(g: Graph, x: Value, decimals: int = 0) -> Value:
    if not is_float(x.dtype):
        return x
    if decimals == 0:
        return g.op("Round", x)
    scale = g.scalar(10.0 ** abs(decimals), x.dtype)
    first, second = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.op(second, g.op("Round", g.op(first, x, scale)), scale)


@row("aten.isnan.default")
def _isnan(g: Graph, x: Value) -> Value:
    if not is_float(x.dtype):
        return g.full(False, torch.bool, g.out.shape)
    return g.op("IsNaN", x, dtype=torch.bool)


@row("aten.isinf.default")
def _isinf(g: Graph, x: Value) -> Value:
    if not is_float(x.dtype):
        return g.full(False, torch.bool, g.out.shape)
    return g.op("IsInf", x, dtype=torch.bool)


@row("aten.sign.default")
def _sign(g: Graph, x: Value) -> Value:
    if x.dtype == torch.bool:
        return x
    if not is_float(x.dtype):
        return g.op("Sign", x)
    zero = g.scalar(0, x.dtype)
    above, below = g.compare("Greater", x, zero), g.compare("Less", x, zero)
    return g.op("Sub", g.cast(above, x.dtype), g.cast(below, x.dtype))  # 0 of a NaN


@row("aten.signbit.default")
def _signbit(g: Graph, x: Value) -> Value:
    if x.dtype == torch.bool or not x.dtype.is_signed:
        return g.full(False, torch.bool, g.out.shape)
    zero = g.scalar(0, x.dtype)
    negative = g.compare("Less", x, zero)
    if not is_float(x.dtype):
        return negative
    # 1 / -0 is negative infinity; the sign of a NaN is not visible to comparisons.
    below = g.compare("Less", g.op("Reciprocal", x), zero)
    return g.op("Or", negative, below)


@row("aten.angle.default")
def _angle(g: Graph, x: Value) -> Value:
    wide = g.cast(x, g.out.dtype)
    zero, pi = g.scalar(0.0, wide.dtype), g.scalar(math.pi, wide.dtype)
    angle = g.where(g.compare("Less", wide, zero), pi, zero)
    return g.where(g.op("IsNaN", wide, dtype=torch.bool), wide, angle)


@row("aten.bitwise_not.default")
def _bitwise_not(g: Graph, x: Value) -> Value:
    return g.op("Not" if x.dtype == torch.bool else "BitwiseNot", x)


@row("aten.logical_not.default")
def _logical_not(g: Graph, x: Value) -> Value:
    return g.logical_not(g.cast(x, torch.bool))


@row(

    "aten.clone.default", "aten.alias.default", "aten.detach.default",
    "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.positive.default",
    "aten.conj_physical.default", "aten._conj_physical.default", "aten.real.default",
    "aten.contiguous.default",
)  # fmt: skip
def _identity(g: Graph, x: Value, **_: object) -> Value:
    return x


@row("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")
def _to_copy(g: Graph, x: Operand, *_: object, **__: object) -> Value:
    if not isinstance(x, Value):  # a number that vmap has made a tensor
        return g.scalar(x, g.out.dtype)
    return _float_to_integer(g, x) if is_float(x.dtype) else x


def _float_to_integer(g: Graph, x: Value) -> Value:
    """Converts through int32 or int64, as the C++ conversion wraps for narrow integers."""
    if is_float(g.out.dtype) or g.out.dtype == torch.bool:
        return x
    if g.out.dtype in (torch.uint8, torch.int8, torch.int16):
        return g.cast(x, torch.int32)
    return x
