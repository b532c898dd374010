"""Functions as polynomials through values that PyTorch computes: I0, I1 and erfc.

Each function is smooth on a few ranges once its growth is divided out. There, a
polynomial through Chebyshev's nodes, whose values PyTorch computes in double, is as exact as
float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ..graph import Graph, Value
from .unary import formula

_Function = Callable[[torch.Tensor], Any]


@functools.lru_cache(maxsize=64)
def _coefficients(
    function: _Function, low: float, high: float, degree: int
) -> list[float]:
    """Returns Chebyshev coefficients of a function between two numbers."""
    angle = (
        math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1)
    )
    nodes = 0.5 * (high - low) * torch.cos(angle) + 0.5 * (high + low)
    values = function(nodes)
    table = torch.cos(
        torch.arange(degree + 1, dtype=torch.float64).unsqueeze(-1) * angle
    )
    found = (table @ values) * (2 / (degree + 1))
    found[0] /= 2
    return [float(c) for c in found]


def series(
    g: Graph, x: Value, function: _Function, low: float, high: float, degree: int
) -> Value:
    """Evaluates the polynomial by Clenshaw's recurrence; x is limited to the range."""
    x = g.op("Min", g.op("Max", x, g.scalar(low, x.dtype)), g.scalar(high, x.dtype))
    scaled = g.op("Mul", x, g.scalar(2 / (high - low), x.dtype))
    t = g.op("Sub", scaled, g.scalar((high + low) / (high - low), x.dtype))
    twice = g.op("Add", t, t)
    coefficients = _coefficients(function, low, high, degree)
    ahead = later = g.scalar(0.0, x.dtype)
    for c in reversed(coefficients[1:]):
        step = g.op("Sub", g.op("Mul", twice, ahead), later)
        ahead, later = g.op("Add", step, g.scalar(c, x.dtype)), ahead
    last = g.op("Sub", g.op("Mul", t, ahead), later)
    return g.op("Add", last, g.scalar(coefficients[0], x.dtype))


def _at_least(g: Graph, x: Value, limit: float) -> Value:
    return g.op("Max", x, g.scalar(limit, x.dtype))


def _far(g: Graph, x: Value, limit: float) -> Value:
    return g.compare("Greater", x, g.scalar(limit, x.dtype))


def _of_inverse(function: _Function, power: float) -> _Function:
    """The function of 1/z times x**power, with x = 1/z."""

    def of(z: torch.Tensor) -> Any:
        x = 1 / z.clamp(min=1e-6)
        return function(x) * x**power

    return of


_I0E_FAR = _of_inverse(torch.special.i0e, 0.5)
_I1E_FAR = _of_inverse(torch.special.i1e, 0.5)


def _scaled_i(g: Graph, x: Value, near: _Function, far: _Function) -> Value:
    """exp(-x) times a modified Bessel function of the first kind, for x >= 0."""
    inverse = g.op("Reciprocal", _at_least(g, x, 8.0))
    large = g.op("Mul", series(g, inverse, far, 0.0, 0.125, 12), g.op("Sqrt", inverse))
    return g.where(_far(g, x, 8.0), large, series(g, x, near, 0.0, 8.0, 24))


def _i1e_odd(g: Graph, x: Value) -> Value:
    size = g.op("Abs", x)
    return g.op("Mul", g.op("Sign", x), _scaled_i(g, size, torch.special.i1e, _I1E_FAR))


@formula("special_i0e", single=True)
def _i0e(g: Graph, x: Value) -> Value:
    return _scaled_i(g, g.op("Abs", x), torch.special.i0e, _I0E_FAR)


@formula("special_i1e", single=True)
def _i1e(g: Graph, x: Value) -> Value:
    return _i1e_odd(g, x)


@formula("i0", "special_i0", single=True)
def _i0(g: Graph, x: Value) -> Value:
    size = g.op("Abs", x)
    return g.op(
        "Mul", g.op("Exp", size), _scaled_i(g, size, torch.special.i0e, _I0E_FAR)
    )


@formula("special_i1", single=True)
def _i1(g: Graph, x: Value) -> Value:
    return g.op("Mul", g.op("Exp", g.op("Abs", x)), _i1e_odd(g, x))


def _erfcx_of(t: torch.Tensor) -> Any:
    """erfcx(x) with t = 2 / (2 + x)."""
    return torch.special.erfcx(2 / t.clamp(min=1e-9) - 2)


def erfcx_right(g: Graph, x: Value) -> Value:
    """exp(x * x) * erfc(x) for x >= 0."""
    two = g.scalar(2.0, x.dtype)
    t = g.op("Div", two, g.op("Add", two, x))
    return series(g, t, _erfcx_of, 0.0, 1.0, 24)


@formula("special_erfcx", single=True)
def _erfcx(g: Graph, x: Value) -> Value:
    right = erfcx_right(g, g.op("Abs", x))
    square = g.op("Exp", g.op("Mul", x, x))
    left = g.op("Sub", g.op("Add", square, square), right)
    return g.where(g.compare("Less", x, g.scalar(0.0, x.dtype)), left, right)


@formula("erfc", "special_erfc")
def _erfc(g: Graph, x: Value) -> Value:
    near = g.op("Sub", g.scalar(1.0, x.dtype), g.op("Erf", x))
    if x.dtype == torch.float64:
        return near  # The series below is as exact as float32.
    # Beyond 1/2, the difference would lose the digits of the tail.
    decay = g.op("Exp", g.op("Neg", g.op("Mul", x, x)))
    tail = g.op("Mul", decay, erfcx_right(g, g.op("Abs", x)))
    far = g.compare("Greater", x, g.scalar(0.5, x.dtype))
    return g.where(far, tail, near)
