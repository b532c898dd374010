"""Bessel functions and their like, as polynomials through values that PyTorch computes.

Each function is smooth on a few ranges once its growth or its oscillation is divided out. There, a
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
from ..table import row
from .common import compute_dtype
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
_K0E_FAR = _of_inverse(torch.special.scaled_modified_bessel_k0, 0.5)
_K1E_FAR = _of_inverse(torch.special.scaled_modified_bessel_k1, 0.5)


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


@formula("i0", "special_i0", "special_modified_bessel_i0", single=True)
def _i0(g: Graph, x: Value) -> Value:
    size = g.op("Abs", x)
    return g.op(
        "Mul", g.op("Exp", size), _scaled_i(g, size, torch.special.i0e, _I0E_FAR)
    )


@formula("special_i1", "special_modified_bessel_i1", single=True)
def _i1(g: Graph, x: Value) -> Value:
    return g.op("Mul", g.op("Exp", g.op("Abs", x)), _i1e_odd(g, x))


def _k0_rest(x: torch.Tensor) -> Any:
    return torch.special.modified_bessel_k0(x) + torch.log(x / 2) * torch.special.i0(x)


def _k1_rest(x: torch.Tensor) -> Any:
    return x * torch.special.modified_bessel_k1(x) - x * torch.log(
        x / 2
    ) * torch.special.i1(x)


def _modified_k(g: Graph, x: Value, order: int, scaled: bool) -> Value:
    """A modified Bessel function of the second kind: infinite at 0, undefined below."""
    zero, two = g.scalar(0.0, x.dtype), g.scalar(0.5, x.dtype)
    inverse = g.op("Reciprocal", _at_least(g, x, 2.0))
    far = series(g, inverse, _K1E_FAR if order else _K0E_FAR, 0.0, 0.5, 20)
    large = g.op("Mul", far, g.op("Sqrt", inverse))
    small = g.op(
        "Min", g.op("Max", x, g.scalar(1e-30, x.dtype)), g.scalar(2.0, x.dtype)
    )
    logarithm = g.op("Log", g.op("Mul", small, two))
    growth = g.op("Exp", small)
    if order == 0:
        i = g.op("Mul", _scaled_i(g, small, torch.special.i0e, _I0E_FAR), growth)
        near = g.op(
            "Sub", series(g, small, _k0_rest, 0.0, 2.0, 12), g.op("Mul", logarithm, i)
        )
    else:
        i = g.op("Mul", _scaled_i(g, small, torch.special.i1e, _I1E_FAR), growth)
        rest = g.op("Div", series(g, small, _k1_rest, 0.0, 2.0, 12), small)
        near = g.op("Add", rest, g.op("Mul", logarithm, i))
    if scaled:
        near = g.op("Mul", near, growth)
    else:
        large = g.op("Mul", large, g.op("Exp", g.op("Neg", x)))
    value = g.where(_far(g, x, 2.0), large, near)
    value = g.where(g.compare("Equal", x, zero), g.scalar(float("inf"), x.dtype), value)
    return g.where(g.compare("Less", x, zero), g.scalar(float("nan"), x.dtype), value)


@formula("special_modified_bessel_k0", single=True)
def _k0(g: Graph, x: Value) -> Value:
    return _modified_k(g, x, 0, scaled=False)


@formula("special_modified_bessel_k1", single=True)
def _k1(g: Graph, x: Value) -> Value:
    return _modified_k(g, x, 1, scaled=False)


@formula("special_scaled_modified_bessel_k0", single=True)
def _k0e(g: Graph, x: Value) -> Value:
    return _modified_k(g, x, 0, scaled=True)


@formula("special_scaled_modified_bessel_k1", single=True)
def _k1e(g: Graph, x: Value) -> Value:
    return _modified_k(g, x, 1, scaled=True)


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


@row("aten.special_spherical_bessel_j0.default")
def _spherical_j0(g: Graph, x: Value) -> Value:
    dtype = compute_dtype(g.out.dtype)
    x = g.cast(x, dtype)
    zero = g.compare("Less", g.op("Abs", x), g.scalar(1e-4, dtype))
    one = g.scalar(1.0, dtype)
    quotient = g.op("Div", g.op("Sin", x), g.where(zero, one, x))
    return g.cast(g.where(zero, one, quotient), g.out.dtype)


def _phase(j: _Function, y: _Function, turn: float, sine: bool) -> _Function:
    """One of the two slow factors of J and Y, of z = 1 / x; `turn` is the phase at infinity."""

    def of(z: torch.Tensor) -> Any:
        x = 1 / z.clamp(min=1e-3)
        angle = x - turn
        scale = torch.sqrt(math.pi * x / 2)
        if sine:
            return scale * (y(x) * torch.cos(angle) - j(x) * torch.sin(angle))
        return scale * (j(x) * torch.cos(angle) + y(x) * torch.sin(angle))

    return of


_ORDERS = {
    0: (torch.special.bessel_j0, torch.special.bessel_y0, math.pi / 4),
    1: (torch.special.bessel_j1, torch.special.bessel_y1, 3 * math.pi / 4),
}
_SLOW = {
    o: (_phase(j, y, t, False), _phase(j, y, t, True))
    for o, (j, y, t) in _ORDERS.items()
}


def _oscillating(g: Graph, x: Value, order: int, second: bool) -> Value:
    """J or Y for x > 8: two slow factors times cosine and sine."""
    inverse = g.op("Reciprocal", _at_least(g, x, 8.0))
    slow = [series(g, inverse, f, 0.0, 0.125, 12) for f in _SLOW[order]]
    angle = g.op("Sub", x, g.scalar(_ORDERS[order][2], x.dtype))
    cosine, sine = g.op("Cos", angle), g.op("Sin", angle)
    if second:
        wave = g.op("Add", g.op("Mul", slow[0], sine), g.op("Mul", slow[1], cosine))
    else:
        wave = g.op("Sub", g.op("Mul", slow[0], cosine), g.op("Mul", slow[1], sine))
    scale = g.op("Sqrt", g.op("Mul", inverse, g.scalar(2 / math.pi, x.dtype)))
    return g.op("Mul", scale, wave)


def _bessel_j(g: Graph, x: Value, order: int) -> Value:
    size = g.op("Abs", x)
    near = series(g, size, _ORDERS[order][0], 0.0, 8.0, 24)
    value = g.where(
        _far(g, size, 8.0), _oscillating(g, size, order, second=False), near
    )
    return g.op("Mul", g.op("Sign", x), value) if order else value


@formula("special_bessel_j0", single=True)
def _j0(g: Graph, x: Value) -> Value:
    return _bessel_j(g, x, 0)


@formula("special_bessel_j1", single=True)
def _j1(g: Graph, x: Value) -> Value:
    return _bessel_j(g, x, 1)


def _y0_rest(x: torch.Tensor) -> Any:
    return torch.special.bessel_y0(x) - 2 / math.pi * torch.log(
        x
    ) * torch.special.bessel_j0(x)


def _y1_rest(x: torch.Tensor) -> Any:
    wave = 2 / math.pi * (torch.log(x) * torch.special.bessel_j1(x) * x - 1)
    return torch.special.bessel_y1(x) * x - wave


def _bessel_y(g: Graph, x: Value, order: int) -> Value:
    zero = g.scalar(0.0, x.dtype)
    small = g.op(
        "Min", g.op("Max", x, g.scalar(1e-30, x.dtype)), g.scalar(8.0, x.dtype)
    )
    first = series(g, small, _ORDERS[order][0], 0.0, 8.0, 24)
    wave = g.op("Mul", g.op("Log", small), first)
    factor = g.scalar(2 / math.pi, x.dtype)
    if order == 0:
        rest = series(g, small, _y0_rest, 0.0, 8.0, 24)
        near = g.op("Add", rest, g.op("Mul", factor, wave))
    else:
        inverse = g.op("Reciprocal", small)
        rest = g.op("Mul", series(g, small, _y1_rest, 0.0, 8.0, 24), inverse)
        near = g.op("Add", rest, g.op("Mul", factor, g.op("Sub", wave, inverse)))
    value = g.where(_far(g, x, 8.0), _oscillating(g, x, order, second=True), near)
    value = g.where(
        g.compare("Equal", x, zero), g.scalar(float("-inf"), x.dtype), value
    )
    return g.where(g.compare("Less", x, zero), g.scalar(float("nan"), x.dtype), value)


@formula("special_bessel_y0", single=True)
def _y0(g: Graph, x: Value) -> Value:
    return _bessel_y(g, x, 0)


@formula("special_bessel_y1", single=True)
def _y1(g: Graph, x: Value) -> Value:
    return _bessel_y(g, x, 1)
