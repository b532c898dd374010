"""Special functions, as formulas of elementary ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..graph import Graph, Operand, Value
from ..table import row
from .common import compute_dtype, converted
from .unary import formula


def polynomial(g: Graph, x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluates a polynomial whose highest coefficient comes first."""
    total = g.scalar(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        total = g.op("Add", g.op("Mul", total, x), g.scalar(c, x.dtype))
    return total


def _erfinv_of(g: Graph, x: Value, w: Value) -> Value:
    """Giles' approximation, with w = -log((1 - x) * (1 + x))."""
    near = polynomial(
        g, g.op("Sub", w, g.scalar(2.5, x.dtype)),
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941],
    )  # fmt: skip
    far = polynomial(
        g, g.op("Sub", g.op("Sqrt", w), g.scalar(3.0, x.dtype)),
        [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682],
    )  # fmt: skip
    small = g.compare("Less", w, g.scalar(5.0, x.dtype))
    return g.op("Mul", g.where(small, near, far), x)


@formula("erfinv", "special_erfinv", single=True)
def _erfinv(g: Graph, x: Value) -> Value:
    one = g.scalar(1.0, x.dtype)
    w = g.op("Neg", g.op("Log", g.op("Mul", g.op("Sub", one, x), g.op("Add", one, x))))
    edge = g.compare("Equal", g.op("Abs", x), one)
    return g.where(edge, g.op("Div", x, g.scalar(0.0, x.dtype)), _erfinv_of(g, x, w))


#: Lanczos' approximation of the gamma function with g = 7.
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip


def _log_gamma_right(g: Graph, x: Value) -> Value:
    """log(gamma(x)) for x >= 0.5."""
    one = g.scalar(1.0, x.dtype)
    z = g.op("Sub", x, one)
    series = g.scalar(_LANCZOS[0], x.dtype)
    for i, c in enumerate(_LANCZOS[1:], 1):
        term = g.op(
            "Div", g.scalar(c, x.dtype), g.op("Add", z, g.scalar(float(i), x.dtype))
        )
        series = g.op("Add", series, term)
    t = g.op("Add", z, g.scalar(7.5, x.dtype))
    power = g.op("Mul", g.op("Add", z, g.scalar(0.5, x.dtype)), g.op("Log", t))
    head = g.op(
        "Sub", g.op("Add", g.scalar(0.5 * math.log(2 * math.pi), x.dtype), power), t
    )
    return g.op("Add", head, g.op("Log", series))


@formula("lgamma", "special_gammaln")
def _lgamma(g: Graph, x: Value) -> Value:
    half = g.scalar(0.5, x.dtype)
    one, pi = g.scalar(1.0, x.dtype), g.scalar(math.pi, x.dtype)
    left = g.compare("Less", x, half)
    mirrored = g.where(left, g.op("Sub", one, x), x)
    value = _log_gamma_right(g, mirrored)
    # sin(pi x) from the distance to the next integer, which is exact.
    distance = g.op("Sub", x, g.op("Round", x))
    sine = g.op("Abs", g.op("Sin", g.op("Mul", pi, distance)))
    reflected = g.op("Sub", g.op("Log", g.op("Div", pi, sine)), value)
    result = g.where(left, reflected, value)
    infinite = g.op("IsInf", x, dtype=torch.bool)
    return g.where(infinite, g.op("Abs", x), result)


def _digamma_right(g: Graph, x: Value) -> Value:
    """The derivative of log(gamma(x)) for x > 0: six steps up, then the asymptotic series."""
    total = g.scalar(0.0, x.dtype)
    for i in range(6):
        shifted = g.op("Add", x, g.scalar(float(i), x.dtype))
        total = g.op("Sub", total, g.op("Reciprocal", shifted))
    y = g.op("Add", x, g.scalar(6.0, x.dtype))
    inverse = g.op("Reciprocal", y)
    square = g.op("Mul", inverse, inverse)
    series = polynomial(g, square, [1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0.0])
    value = g.op("Sub", g.op("Log", y), g.op("Mul", inverse, g.scalar(0.5, x.dtype)))
    return g.op("Add", total, g.op("Sub", value, series))


@formula("digamma", "special_digamma", "special_psi")
def _digamma(g: Graph, x: Value) -> Value:
    zero, one, pi = (g.scalar(v, x.dtype) for v in (0.0, 1.0, math.pi))
    left = g.compare("Less", x, g.scalar(0.5, x.dtype))
    value = _digamma_right(g, g.where(left, g.op("Sub", one, x), x))
    distance = g.op("Sub", x, g.op("Round", x))
    angle = g.op("Mul", pi, distance)
    cotangent = g.op("Div", pi, g.op("Tan", angle))
    result = g.where(left, g.op("Sub", value, cotangent), value)
    pole = g.op("And", g.compare("Equal", distance, zero), g.compare("Less", x, zero))
    undefined = g.scalar(float("nan"), x.dtype)
    at_zero = g.op("Neg", g.op("Reciprocal", x))
    result = g.where(g.compare("Equal", x, zero), at_zero, result)
    return g.where(pole, undefined, result)


@row("aten.hypot.default")
def _hypot(g: Graph, a: Value, b: Value) -> Value:
    x, y = (g.op("Abs", v) for v in converted(g, (a, b), compute_dtype(g.out.dtype)))
    large, small = g.op("Max", x, y), g.op("Min", x, y)
    zero = g.compare("Equal", large, g.scalar(0.0, x.dtype))
    ratio = g.op("Div", small, g.where(zero, g.scalar(1.0, x.dtype), large))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), g.scalar(1.0, x.dtype)))
    infinite = g.op("Or", *(g.op("IsInf", v, dtype=torch.bool) for v in (x, y)))
    return g.where(infinite, g.scalar(float("inf"), x.dtype), g.op("Mul", large, root))


@row("aten.copysign.Tensor", "aten.copysign.Scalar")
def _copysign(g: Graph, a: Operand, b: Operand) -> Value:
    x, y = converted(g, (a, b), compute_dtype(g.out.dtype))
    zero = g.scalar(0.0, x.dtype)
    minus = g.op(
        "And",
        g.compare("Equal", y, zero),
        g.compare("Less", g.op("Reciprocal", y), zero),
    )
    negative = g.op("Or", g.compare("Less", y, zero), minus)
    size = g.op("Abs", x)
    return g.where(negative, g.op("Neg", size), size)


@formula("special_ndtri", single=True)
def _ndtri(g: Graph, p: Value) -> Value:
    """The quantile of the normal distribution, by the approximation of erfinv."""
    one, two = g.scalar(1.0, p.dtype), g.scalar(2.0, p.dtype)
    product = g.op("Mul", p, g.op("Sub", one, p))
    w = g.op("Neg", g.op("Log", g.op("Mul", g.scalar(4.0, p.dtype), product)))
    x = g.op("Sub", g.op("Mul", two, p), one)
    root = g.op("Mul", _erfinv_of(g, x, w), g.scalar(math.sqrt(2.0), p.dtype))
    edge = g.compare("Equal", g.op("Abs", x), one)
    return g.where(edge, g.op("Div", x, g.scalar(0.0, p.dtype)), root)


#: Bernoulli numbers B2, B4, ... over (2k)!, for the formula of Euler and Maclaurin.
_EULER = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
_ZETA_TERMS = 16


def _zeta_of_integer(g: Graph, s: int, q: Value) -> Value:
    """The sum of (q + k)**-s over k = 0, 1, ..., for an integer s > 1."""

    def power(x: Value, n: int) -> Value:
        result = x
        for _ in range(n - 1):
            result = g.op("Mul", result, x)
        return result

    total = g.scalar(0.0, q.dtype)
    for k in range(_ZETA_TERMS):
        term = g.op("Reciprocal", power(g.op("Add", q, g.scalar(float(k), q.dtype)), s))
        total = g.op("Add", total, term)
    w = g.op("Reciprocal", g.op("Add", q, g.scalar(float(_ZETA_TERMS), q.dtype)))
    head = g.op("Div", power(w, s - 1), g.scalar(float(s - 1), q.dtype))
    total = g.op("Add", total, head)
    last = power(w, s)
    total = g.op("Add", total, g.op("Mul", last, g.scalar(0.5, q.dtype)))
    factor = float(s)
    last = g.op("Mul", last, w)
    for k, c in enumerate(_EULER):
        total = g.op("Add", total, g.op("Mul", last, g.scalar(c * factor, q.dtype)))
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2)
        last = g.op("Mul", g.op("Mul", last, w), w)
    return total


@row("aten.polygamma.default", "aten.special_polygamma.default")
def _polygamma(g: Graph, n: int, x: Value) -> Value:
    dtype = compute_dtype(g.out.dtype)
    wide = g.cast(x, dtype)
    if n == 0:
        return g.cast(_digamma(g, wide), g.out.dtype)
    sign = 1.0 if n % 2 else -1.0
    zeta = _zeta_of_integer(g, n + 1, wide)
    return g.cast(
        g.op("Mul", zeta, g.scalar(sign * math.factorial(n), dtype)), g.out.dtype
    )
