"""Elementwise operators of two and three operands."""

from __future__ import annotations

import torch

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..table import Row, row
from .common import compute_dtype, converted, is_float, promoted


def _scaled(g: Graph, value: Operand, alpha: Operand, dtype: torch.dtype) -> Value:
    scaled = g.scalar(value, dtype)
    if isinstance(alpha, (int, float)) and alpha == 1:
        return scaled
    return g.op("Mul", scaled, g.scalar(alpha, dtype))


@row("aten.add.Tensor", "aten.add.Scalar")
def _add(g: Graph, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    dtype = g.out.dtype
    if dtype == torch.bool:
        if alpha != 1:
            return (
                g.scalar(a, dtype)
                if not alpha
                else g.op("Or", *converted(g, (a, b), dtype))
            )
        return g.op("Or", *converted(g, (a, b), dtype))
    return g.op("Add", g.scalar(a, dtype), _scaled(g, b, alpha, dtype))


@row("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(g: Graph, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    dtype = g.out.dtype
    return g.op("Sub", g.scalar(a, dtype), _scaled(g, b, alpha, dtype))


@row("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(g: Graph, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    return _sub(g, b, a, alpha)


@row("aten.mul.Tensor", "aten.mul.Scalar")
def _mul(g: Graph, a: Operand, b: Operand) -> Value:
    op = "And" if g.out.dtype == torch.bool else "Mul"
    return g.op(op, *converted(g, (a, b), g.out.dtype))


@row("aten.addcmul.default")
def _addcmul(g: Graph, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    dtype = g.out.dtype
    product = g.op("Mul", *converted(g, (a, b), dtype))
    return g.op("Add", g.cast(x, dtype), _scaled(g, product, value, dtype))


@row("aten.addcdiv.default")
def _addcdiv(g: Graph, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    dtype = g.out.dtype
    quotient = g.op("Div", _scaled(g, a, value, dtype), g.cast(b, dtype))
    return g.op("Add", g.cast(x, dtype), quotient)


@row("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def _div(g: Graph, a: Operand, b: Operand) -> Value:
    return g.op("Div", *converted(g, (a, b), g.out.dtype))


def _signs_differ(g: Graph, a: Value, b: Value) -> Value:
    zero = g.scalar(0, a.dtype)
    return g.op("Xor", g.compare("Less", a, zero), g.compare("Less", b, zero))


def _not_zero(g: Graph, a: Value) -> Value:
    return g.logical_not(g.compare("Equal", a, g.scalar(0, a.dtype)))


def floor_divide_integers(g: Graph, a: Value, b: Value) -> Value:
    """Divides, and rounds down, which ONNX does not."""
    quotient = g.op("Div", a, b)
    if not a.dtype.is_signed:
        return quotient
    rest = g.op("Sub", a, g.op("Mul", quotient, b))
    down = g.op("And", _not_zero(g, rest), _signs_differ(g, rest, b))
    return g.op("Sub", quotient, g.cast(down, a.dtype))


def _floor_divide_floats(g: Graph, a: Value, b: Value) -> Value:
    """Rounds the exact quotient down, which floor(a / b) does not: a / b may be rounded up."""
    rest = g.op("Mod", a, b, fmod=1)
    quotient = g.op("Div", g.op("Sub", a, rest), b)
    down = g.op("And", _not_zero(g, rest), _signs_differ(g, rest, b))
    quotient = g.op("Sub", quotient, g.cast(down, a.dtype))
    floor = g.op("Floor", quotient)
    half = g.scalar(0.5, a.dtype)
    up = g.compare("Greater", g.op("Sub", quotient, floor), half)
    result = g.op("Add", floor, g.cast(up, a.dtype))
    plain = g.op("Div", a, b)
    zero = g.scalar(0, a.dtype)
    result = g.where(
        g.compare("Equal", quotient, zero), g.op("Mul", plain, zero), result
    )
    return g.where(g.compare("Equal", b, zero), plain, result)


def _truncate(g: Graph, x: Value) -> Value:
    negative = g.compare("Less", x, g.scalar(0, x.dtype))
    return g.where(negative, g.op("Ceil", x), g.op("Floor", x))


@row("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(
    g: Graph, a: Operand, b: Operand, rounding_mode: str | None = None
) -> Value:
    dtype = compute_dtype(g.out.dtype)
    x, y = converted(g, (a, b), dtype)
    if rounding_mode is None:
        return g.op("Div", x, y)
    if rounding_mode == "floor":
        divide = _floor_divide_floats if is_float(dtype) else floor_divide_integers
        return divide(g, x, y)
    quotient = g.op("Div", x, y)
    return _truncate(g, quotient) if is_float(dtype) else quotient


@row("aten.floor_divide.default", "aten.floor_divide.Scalar")
def _floor_divide(g: Graph, a: Operand, b: Operand) -> Value:
    return _div_mode(g, a, b, "floor")


@row("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def _remainder(g: Graph, a: Operand, b: Operand) -> Value:
    dtype = compute_dtype(g.out.dtype)
    x, y = converted(g, (a, b), dtype)
    if not is_float(dtype):
        return g.op("Mod", x, y, fmod=0)
    rest = g.op("Mod", x, y, fmod=1)
    adjust = g.op("And", _not_zero(g, rest), _signs_differ(g, rest, y))
    return g.where(adjust, g.op("Add", rest, y), rest)


@row("aten.fmod.Tensor", "aten.fmod.Scalar")
def _fmod(g: Graph, a: Operand, b: Operand) -> Value:
    return g.op("Mod", *converted(g, (a, b), compute_dtype(g.out.dtype)), fmod=1)


@row("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def _pow(g: Graph, a: Operand, b: Operand) -> Value:
    dtype = compute_dtype(g.out.dtype)
    x = g.scalar(a, dtype)
    if isinstance(b, (int, float)):
        if b == 2:
            return g.op("Mul", x, x)
        if b == 3:
            return g.op("Mul", g.op("Mul", x, x), x)
        if b == 1:
            return x
        if b == 0.5 and is_float(dtype):
            return g.op("Sqrt", x)
        if b == -1 and is_float(dtype):
            return g.op("Reciprocal", x)
    return g.op("Pow", x, g.scalar(b, dtype))


@row("aten.atan2.default")
def _atan2(g: Graph, a: Value, b: Value) -> Value:
    dtype = compute_dtype(g.out.dtype)
    y, x = converted(g, (a, b), dtype)
    zero, pi = g.scalar(0.0, dtype), g.scalar(torch.pi, dtype)

    def minus(value: Value) -> Value:
        below = g.compare("Less", g.op("Reciprocal", value), zero)
        none = g.op("And", g.compare("Equal", value, zero), below)
        return g.op("Or", g.compare("Less", value, zero), none)

    angle = g.op("Atan", g.op("Div", g.op("Abs", y), g.op("Abs", x)))
    both = g.op("And", *(g.op("IsInf", v, dtype=torch.bool) for v in (x, y)))
    angle = g.where(both, g.scalar(torch.pi / 4, dtype), angle)
    origin = g.op("And", g.compare("Equal", x, zero), g.compare("Equal", y, zero))
    angle = g.where(origin, zero, angle)
    angle = g.where(minus(x), g.op("Sub", pi, angle), angle)
    return g.where(minus(y), g.op("Neg", angle), angle)


def _extreme(op: str, bools: str) -> Row:
    def convert(g: Graph, a: Operand, b: Operand) -> Value:
        dtype = g.out.dtype
        return g.op(bools if dtype == torch.bool else op, *converted(g, (a, b), dtype))

    return convert


row("aten.maximum.default")(_extreme("Max", "Or"))
row("aten.minimum.default")(_extreme("Min", "And"))


def _extreme_of_numbers(op: str) -> Row:
    """A NaN loses against a number."""

    def convert(g: Graph, a: Operand, b: Operand) -> Value:
        dtype = g.out.dtype
        x, y = converted(g, (a, b), dtype)
        if not is_float(dtype):
            return g.op(op, x, y)
        best = g.op(op, x, y)
        best = g.where(g.op("IsNaN", y, dtype=torch.bool), x, best)
        return g.where(g.op("IsNaN", x, dtype=torch.bool), y, best)

    return convert


row("aten.fmax.default")(_extreme_of_numbers("Max"))
row("aten.fmin.default")(_extreme_of_numbers("Min"))

_COMPARISONS = {
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}  # fmt: skip


def _comparison(op: str, negated: bool = False) -> Row:
    def convert(g: Graph, a: Operand, b: Operand) -> Value:
        dtype = promoted(a, b)
        if dtype == torch.bool and op != "Equal":
            dtype = torch.uint8
        result = g.compare(op, *converted(g, (a, b), dtype))
        return g.logical_not(result) if negated else result

    return convert


for _name, _op in _COMPARISONS.items():
    row(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison(_op))
row("aten.ne.Tensor", "aten.ne.Scalar")(_comparison("Equal", negated=True))


def _logical(op: str) -> Row:
    def convert(g: Graph, a: Operand, b: Operand) -> Value:
        return g.op(op, *converted(g, (a, b), torch.bool))

    return convert


for _name, _op in {
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}.items():
    row(f"aten.{_name}.default")(_logical(_op))


def _bitwise(bools: str, integers: str) -> Row:
    def convert(g: Graph, a: Operand, b: Operand) -> Value:
        op = bools if g.out.dtype == torch.bool else integers
        return g.op(op, *converted(g, (a, b), g.out.dtype))

    return convert


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    row(*(f"aten.bitwise_{_name}.{o}" for o in ("Tensor", "Scalar", "Scalar_Tensor")))(
        _bitwise(_op, f"Bitwise{_op}")
    )


def _shift_operands(g: Graph, a: Operand, b: Operand) -> tuple[Value, Value, Value]:
    """Returns the number, 2 to the power of the shift, and whether the shift is too large."""
    dtype = g.out.dtype
    x, shift = g.scalar(a, dtype), g.cast(g.scalar(b, dtype), torch.int64)
    bits = torch.iinfo(dtype).bits
    zero, last = g.constant(torch.tensor(0)), g.constant(torch.tensor(bits - 1))
    outside = g.op(
        "Or", g.compare("Less", shift, zero), g.compare("Greater", shift, last)
    )
    inside = g.op("Min", g.op("Max", shift, zero), last)
    powers = torch.tensor([1 << i if i < 63 else -(1 << 63) for i in range(bits)])
    power = g.op("Gather", g.constant(powers.to(dtype)), inside, dtype=dtype, axis=0)
    return x, power, outside


@row(
    *(
        f"aten.bitwise_left_shift.{o}"
        for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    )
)
@row("aten.__lshift__.Tensor", "aten.__lshift__.Scalar")
def _left_shift(g: Graph, a: Operand, b: Operand) -> Value:
    x, power, outside = _shift_operands(g, a, b)
    return g.where(outside, g.scalar(0, x.dtype), g.op("Mul", x, power))


@row(
    *(
        f"aten.bitwise_right_shift.{o}"
        for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    )
)
@row("aten.__rshift__.Tensor", "aten.__rshift__.Scalar")
def _right_shift(g: Graph, a: Operand, b: Operand) -> Value:
    x, power, outside = _shift_operands(g, a, b)
    zero = g.scalar(0, x.dtype)
    negative = (
        g.compare("Less", x, zero)
        if x.dtype.is_signed
        else g.full(False, torch.bool, [])
    )
    sign = g.where(negative, g.scalar(-1, x.dtype), zero)
    # The highest power of a signed dtype is negative: only the sign is left then.
    top = g.compare("Less", power, zero) if x.dtype.is_signed else outside
    quotient = floor_divide_integers(g, x, g.where(top, g.scalar(1, x.dtype), power))
    return g.where(g.op("Or", outside, top), sign, quotient)


@row(
    "aten.where.self",
    "aten.where.ScalarSelf",
    "aten.where.ScalarOther",
    "aten.where.Scalar",
)
def _where(g: Graph, condition: Value, a: Operand, b: Operand) -> Value:
    x, y = converted(g, (a, b), g.out.dtype)
    return g.where(g.cast(condition, torch.bool), x, y)


@row("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(g: Graph, x: Value, mask: Value, value: Operand) -> Value:
    return g.where(mask, g.scalar(value, x.dtype), x)


@row("aten.clamp.default", "aten.clamp.Tensor")
def _clamp(
    g: Graph, x: Value, low: Operand | None = None, high: Operand | None = None
) -> Value:
    dtype = g.out.dtype
    if dtype == torch.bool:
        raise Unsupported("clamping bools is not supported")
    x = g.cast(x, dtype)
    if low is not None:
        x = g.op("Max", x, g.scalar(low, dtype))
    if high is not None:
        x = g.op("Min", x, g.scalar(high, dtype))
    return x


@row("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(g: Graph, x: Value, low: Operand) -> Value:
    return _clamp(g, x, low, None)


@row("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(g: Graph, x: Value, high: Operand) -> Value:
    return _clamp(g, x, None, high)


@row("aten.lerp.Scalar", "aten.lerp.Tensor")
def _lerp(g: Graph, start: Value, end: Value, weight: Operand) -> Value:
    dtype = compute_dtype(g.out.dtype)
    a, b, w = converted(g, (start, end, weight), dtype)
    return g.op("Add", a, g.op("Mul", w, g.op("Sub", b, a)))
