"""Airy's function, as polynomials near 0 and as its asymptotic expansions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..graph import Graph, Value
from .bessel import series
from .special import polynomial
from .unary import formula

#: Where the asymptotic expansions are as exact as float32.
_FAR = 6.0
_TERMS = 10


def _coefficients() -> list[float]:
    """The coefficients of the expansions in 1 / z, with z = 2/3 x**1.5."""
    return [
        math.gamma(3 * k + 0.5) / (54**k * math.factorial(k) * math.gamma(k + 0.5))
        for k in range(_TERMS)
    ]


def _decaying(x: torch.Tensor) -> torch.Tensor:
    """Ai(x) without its decay."""
    found: torch.Tensor = torch.special.airy_ai(x) * torch.exp(2 / 3 * x**1.5)
    return found


def _signed(coefficients: Sequence[float], step: int) -> list[float]:
    """Every other coefficient with alternating signs, the highest power first."""
    chosen = coefficients[step::2]
    return [c * (-1) ** i for i, c in enumerate(chosen)][::-1]


@formula("special_airy_ai", single=True)
def _airy_ai(g: Graph, x: Value) -> Value:
    size = g.op("Max", g.op("Abs", x), g.scalar(2.0, x.dtype))
    root = g.op("Sqrt", size)
    z = g.op("Mul", g.op("Mul", size, root), g.scalar(2 / 3, x.dtype))
    inverse = g.op("Reciprocal", z)
    inverse = g.op("Min", inverse, g.scalar(1.5 / _FAR**1.5, x.dtype))
    width = g.op("Sqrt", g.op("Mul", root, g.scalar(math.pi, x.dtype)))
    decay = g.op("Exp", g.op("Neg", z))
    terms = _coefficients()
    falling = [c * (-1) ** k for k, c in enumerate(terms)][::-1]
    right = g.op("Mul", polynomial(g, inverse, falling), g.scalar(0.5, x.dtype))
    right = g.op("Div", g.op("Mul", right, decay), width)
    angle = g.op("Sub", z, g.scalar(math.pi / 4, x.dtype))
    square = g.op("Mul", inverse, inverse)
    even = polynomial(g, square, _signed(terms, 0))
    odd = g.op("Mul", polynomial(g, square, _signed(terms, 1)), inverse)
    wave = g.op(
        "Add",
        g.op("Mul", g.op("Cos", angle), even),
        g.op("Mul", g.op("Sin", angle), odd),
    )
    left = g.op("Div", wave, width)
    value = series(g, x, torch.special.airy_ai, -2.0, 2.0, 18)
    middle = g.op("Mul", series(g, x, _decaying, 2.0, _FAR, 16), decay)
    low = series(g, x, torch.special.airy_ai, -_FAR, -2.0, 22)
    for limit, beyond, op in (
        (2.0, middle, "Greater"), (_FAR, right, "Greater"), (-2.0, low, "Less"),
        (-_FAR, left, "Less"),
    ):  # fmt: skip
        value = g.where(g.compare(op, x, g.scalar(limit, x.dtype)), beyond, value)
    special = g.op(
        "Or", g.op("IsInf", x, dtype=torch.bool), g.op("IsNaN", x, dtype=torch.bool)
    )
    return g.where(special, g.scalar(math.nan, x.dtype), value)
