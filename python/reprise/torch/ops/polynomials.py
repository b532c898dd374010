"""Orthogonal polynomials P(n, x) by their recurrences, and Hurwitz' zeta function.

The degree may differ between elements. A loop then computes one degree after another, as many as
the largest one, and each element keeps the value of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..graph import Graph, Value
from ..table import row
from .common import compute_dtype, is_float

#: Up to this degree the steps of a recurrence are written into the graph.
_MOST_STEPS = 32
_Function = Callable[[Graph, Value], Value]
#: From k as a float, x, P(k) and P(k - 1) to P(k + 1).
_Step = Callable[[Graph, Value, Value, Value, Value], Value]
#: From x and n as a float to P(n), for -1 < x < 1.
_Closed = Callable[[Graph, Value, Value], Value]


@dataclass(frozen=True)
class _Family:
    """Polynomials with P(0) = 1.

    `edges` are where the value is known: x, and the value of n as a float and (-1)**n. Beyond the
    degree `steps` and between -1 and 1, PyTorch uses the closed form. It refuses degrees beyond
    `limit`, one for float32 and one for float64.
    """

    first: _Function
    step: _Step
    edges: tuple[tuple[float, Callable[[Graph, Value, Value], Value]], ...] = ()
    closed: _Closed | None = None
    steps: int = 0
    limit: tuple[int, int] | None = None


def _number(g: Graph, value: float, like: Value) -> Value:
    return g.scalar(float(value), like.dtype)


def _twice(g: Graph, x: Value) -> Value:
    return g.op("Add", x, x)


def _plus(g: Graph, x: Value, number: float) -> Value:
    return g.op("Add", x, _number(g, number, x))


def _chebyshev_step(g: Graph, k: Value, x: Value, q: Value, p: Value) -> Value:
    return g.op("Sub", g.op("Mul", _twice(g, x), q), p)


def _hermite_step(g: Graph, k: Value, x: Value, q: Value, p: Value) -> Value:
    rest = g.op("Mul", _twice(g, k), p)
    return g.op("Sub", g.op("Mul", _twice(g, x), q), rest)


def _hermite_e_step(g: Graph, k: Value, x: Value, q: Value, p: Value) -> Value:
    return g.op("Sub", g.op("Mul", x, q), g.op("Mul", k, p))


def _laguerre_step(g: Graph, k: Value, x: Value, q: Value, p: Value) -> Value:
    factor = g.op("Add", _twice(g, k), g.op("Sub", _number(g, 1, x), x))
    rest = g.op("Sub", g.op("Mul", factor, q), g.op("Mul", k, p))
    return g.op("Div", rest, _plus(g, k, 1))


def _legendre_step(g: Graph, k: Value, x: Value, q: Value, p: Value) -> Value:
    factor = g.op("Mul", _plus(g, _twice(g, k), 1), x)
    rest = g.op("Sub", g.op("Mul", factor, q), g.op("Mul", k, p))
    return g.op("Div", rest, _plus(g, k, 1))


def _wave(g: Graph, op: str, angle: Value, times: Value) -> Value:
    return g.op(op, g.op("Mul", times, angle))


def _closed_t(g: Graph, x: Value, n: Value) -> Value:
    return _wave(g, "Cos", g.op("Acos", x), n)


def _closed_u(g: Graph, x: Value, n: Value) -> Value:
    angle = g.op("Acos", x)
    return g.op("Div", _wave(g, "Sin", angle, _plus(g, n, 1)), g.op("Sin", angle))


def _closed_half(op: str) -> _Closed:
    def closed(g: Graph, x: Value, n: Value) -> Value:
        angle = g.op("Acos", x)
        below = g.op(op, g.op("Mul", angle, _number(g, 0.5, x)))
        return g.op("Div", _wave(g, op, angle, _plus(g, n, 0.5)), below)

    return closed


def _one(g: Graph, n: Value, sign: Value) -> Value:
    return _number(g, 1, n)


def _sign(g: Graph, n: Value, sign: Value) -> Value:
    return sign


def _count(g: Graph, n: Value, sign: Value) -> Value:
    return _plus(g, n, 1)


def _signed_count(g: Graph, n: Value, sign: Value) -> Value:
    return g.op("Mul", sign, _plus(g, n, 1))


def _odd(g: Graph, n: Value, sign: Value) -> Value:
    return _plus(g, _twice(g, n), 1)


def _signed_odd(g: Graph, n: Value, sign: Value) -> Value:
    return g.op("Mul", sign, _odd(g, n, sign))


def _same(g: Graph, x: Value) -> Value:
    return x


_ENDS = ((1.0, _one), (-1.0, _sign))
_CHEBYSHEV = {
    "t": _Family(_same, _chebyshev_step, _ENDS, _closed_t, 6),
    "u": _Family(
        _twice, _chebyshev_step, ((1.0, _count), (-1.0, _signed_count)), _closed_u, 8
    ),
    "v": _Family(
        lambda g, x: _plus(g, _twice(g, x), -1), _chebyshev_step,
        ((1.0, _one), (-1.0, _signed_odd)), _closed_half("Cos"), 8,
    ),
    "w": _Family(
        lambda g, x: _plus(g, _twice(g, x), 1), _chebyshev_step,
        ((1.0, _odd), (-1.0, _sign)), _closed_half("Sin"), 8,
    ),
}  # fmt: skip
_OTHERS = {
    "hermite_polynomial_h": _Family(_twice, _hermite_step, limit=(128, 512)),
    "hermite_polynomial_he": _Family(_same, _hermite_e_step, limit=(128, 512)),
    "laguerre_polynomial_l": _Family(
        lambda g, x: g.op("Sub", _number(g, 1, x), x), _laguerre_step, ((0.0, _one),)
    ),
    "legendre_polynomial_p": _Family(_same, _legendre_step, _ENDS),
}


def _degree(g: Graph, n: Any) -> int | Value:
    """Returns the degree as an integer; what is no number is negative, which gives 0."""
    if not isinstance(n, Value):
        return int(n)
    if not is_float(n.dtype):
        return g.cast(n, torch.int64)
    fits = g.compare("Less", g.op("Abs", n), g.scalar(float(2**63), n.dtype))
    return g.cast(g.where(fits, n, g.scalar(-1.0, n.dtype)), torch.int64)


def _largest(g: Graph, n: Value, matters: Value | None) -> Value:
    """Returns how many steps after the first the largest degree takes."""
    if matters is not None:
        n = g.where(matters, n, g.constant(torch.tensor(0)))
    flat = g.op("Reshape", n, g.ints([-1]))
    most = g.op("ReduceMax", flat, g.ints([0]), keepdims=0)
    steps = g.op("Sub", most, g.constant(torch.tensor(1)))
    return g.op("Max", steps, g.constant(torch.tensor(0)))


def _recurrence(
    g: Graph, family: _Family, x: Value, n: int | Value, matters: Value | None
) -> Value:
    one = g.expand(g.scalar(1.0, x.dtype), g.out.shape)
    first = g.expand(family.first(g, x), g.out.shape)
    if isinstance(n, int) and n <= _MOST_STEPS:
        p, q = one, first
        for k in range(1, n):
            p, q = q, family.step(g, g.scalar(float(k), x.dtype), x, q, p)
        return q if n > 0 else one
    degree = g.constant(torch.tensor(n)) if isinstance(n, int) else n
    is_zero = g.compare("Less", degree, g.constant(torch.tensor(1)))
    start = g.where(is_zero, one, first)

    def body(number: Value, carried: list[Value]) -> tuple[None, list[Value]]:
        p, q, kept = carried
        k = g.op("Add", number, g.constant(torch.tensor(1)))
        found = family.step(g, g.cast(k, x.dtype), x, q, p)
        after = g.op("Add", k, g.constant(torch.tensor(1)))
        own = g.compare("Equal", degree, after)
        return None, [q, found, g.where(own, found, kept)]

    return g.loop(_largest(g, degree, matters), [one, first, start], body)[2]


def _evaluated(g: Graph, family: _Family, x: Value, n: int | Value) -> Value:
    degree = g.constant(torch.tensor(n)) if isinstance(n, int) else n
    real = g.cast(degree, x.dtype)
    one, size = g.scalar(1.0, x.dtype), g.op("Abs", x)
    far = None
    if family.closed is not None:
        beyond = g.compare("Greater", degree, g.constant(torch.tensor(family.steps)))
        far = g.op("And", beyond, g.compare("Less", size, one))
    near = None if far is None else g.logical_not(far)
    if family.limit is not None:
        most = family.limit[x.dtype == torch.float64]
        near = g.compare("LessOrEqual", degree, g.constant(torch.tensor(most)))
    few = isinstance(n, int) and n > 4 * _MOST_STEPS and family.limit is not None
    value = one if few else _recurrence(g, family, x, n, near)
    if family.limit is not None:
        assert near is not None
        value = g.where(near, value, g.scalar(float("nan"), x.dtype))
    if family.closed is not None and far is not None:
        inside = g.where(far, x, g.scalar(0.0, x.dtype))
        value = g.where(far, family.closed(g, inside, real), value)
    rest = g.op("Mod", degree, g.constant(torch.tensor(2)))
    odd = g.cast(rest, torch.bool)
    sign = g.where(odd, g.op("Neg", one), one)
    for place, known in family.edges:
        at = g.compare("Equal", x, g.scalar(place, x.dtype))
        value = g.where(at, known(g, real, sign), value)
    none = g.compare("Less", degree, g.constant(torch.tensor(0)))
    return g.where(none, g.scalar(0.0, x.dtype), value)


def _row(family: _Family, shifted: bool) -> Callable[..., Value]:
    def convert(g: Graph, x: Any, n: Any) -> Value:
        wide = g.scalar(x, compute_dtype(g.out.dtype))
        if any(d == 0 for d in g.out.shape):
            return g.full(0.0, g.out.dtype, g.out.shape)
        if shifted:
            wide = _plus(g, _twice(g, wide), -1)
        value = _evaluated(g, family, wide, _degree(g, n))
        return g.expand(value, g.out.shape)

    return convert


for _name, _found in _CHEBYSHEV.items():
    _shifted = _Family(_found.first, _found.step, _found.edges, _found.closed, 6)
    row(f"aten.special_chebyshev_polynomial_{_name}")(_row(_found, shifted=False))
    row(f"aten.special_shifted_chebyshev_polynomial_{_name}")(
        _row(_shifted, shifted=True)
    )
for _name, _found in _OTHERS.items():
    row(f"aten.special_{_name}")(_row(_found, shifted=False))


#: Bernoulli numbers B2, B4, ... over (2k)!, for the formula of Euler and Maclaurin.
_EULER = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)  # fmt: skip
_TERMS = 9


@row("aten.special_zeta")
def _zeta(g: Graph, s_operand: Any, q_operand: Any) -> Value:
    """Sums (q + k) ** -s until q + k > 9, and adds an approximation of the rest."""
    dtype = compute_dtype(g.out.dtype)
    s, q = g.scalar(s_operand, dtype), g.scalar(q_operand, dtype)
    if any(d == 0 for d in g.out.shape):
        return g.full(0.0, g.out.dtype, g.out.shape)
    zero, one = g.scalar(0.0, dtype), g.scalar(1.0, dtype)
    whole = g.compare("Equal", s, g.op("Floor", s))
    half = g.op("Mul", s, g.scalar(0.5, dtype))
    odd = g.op(
        "And", whole, g.logical_not(g.compare("Equal", half, g.op("Floor", half)))
    )

    def power(base: Value) -> Value:
        """base ** -s, where a negative base has a whole exponent."""
        size = g.op("Pow", g.op("Abs", base), g.op("Neg", s))
        minus = g.op("And", odd, g.compare("Less", base, zero))
        return g.where(minus, g.op("Neg", size), size)

    defined = g.op(
        "And", g.compare("Greater", s, one), g.compare("Greater", q, g.op("Floor", q))
    )
    defined = g.op("Or", defined, g.compare("Greater", q, zero))
    start = g.where(defined, q, one)
    first = g.expand(power(start), g.out.shape)
    begin = g.expand(start, g.out.shape)
    need = g.op("Ceil", g.op("Sub", g.scalar(float(_TERMS), dtype), begin))
    most = g.op(
        "ReduceMax", g.op("Reshape", need, g.ints([-1])), g.ints([0]), keepdims=0
    )
    steps = g.cast(g.op("Max", most, g.scalar(float(_TERMS), dtype)), torch.int64)
    steps = g.op("Add", steps, g.constant(torch.tensor(1)))

    def body(number: Value, carried: list[Value]) -> tuple[None, list[Value]]:
        place, last, total = carried
        early = g.compare("Less", number, g.constant(torch.tensor(_TERMS)))
        goes = g.op("Or", early, g.compare("LessOrEqual", place, g.scalar(9.0, dtype)))
        after = g.op("Add", place, one)
        term = power(after)
        grown = g.op("Add", total, term)
        return None, [
            g.where(goes, after, place), g.where(goes, term, last), g.where(goes, grown, total)
        ]  # fmt: skip

    place, last, total = g.loop(steps, [begin, first, first], body)
    tail = g.op("Div", g.op("Mul", last, place), g.op("Sub", s, one))
    total = g.op("Add", total, tail)
    total = g.op("Sub", total, g.op("Mul", last, g.scalar(0.5, dtype)))
    # Each term has the factor s (s + 1) ... of one more pair, over the place twice more.
    term = g.op("Div", g.op("Mul", last, s), place)
    square = g.op("Mul", place, place)
    for k, factor in enumerate(_EULER):
        total = g.op("Add", total, g.op("Mul", term, g.scalar(factor, dtype)))
        pair = g.op("Mul", *(_plus(g, s, 2 * k + i) for i in (1, 2)))
        term = g.op("Mul", g.op("Div", term, square), pair)
    return g.expand(_zeta_edges(g, s, q, total), g.out.shape)


def _zeta_edges(g: Graph, s: Value, q: Value, value: Value) -> Value:
    """The values at s <= 1 and q <= 0."""
    zero, one = g.scalar(0.0, s.dtype), g.scalar(1.0, s.dtype)
    nan, inf = g.scalar(float("nan"), s.dtype), g.scalar(float("inf"), s.dtype)
    for operand in (s, q):
        value = g.where(g.op("IsNaN", operand, dtype=torch.bool), nan, value)
    left = g.compare("LessOrEqual", q, zero)
    broken = g.logical_not(g.compare("Equal", s, g.op("Floor", s)))
    value = g.where(g.op("And", left, broken), nan, value)
    pole = g.op("And", left, g.compare("Equal", q, g.op("Floor", q)))
    value = g.where(pole, inf, value)
    value = g.where(g.compare("Less", s, one), nan, value)
    return g.where(g.compare("Equal", s, one), inf, value)
