"""Activation functions and what normalises along an axis."""

from __future__ import annotations

from ..graph import Graph, Value
from ..table import row
from .common import compute_dtype, is_float


@row("aten.gelu.default")
def _gelu(g: Graph, x: Value, approximate: str = "none") -> Value:
    return g.op("Gelu", x, approximate=approximate)


@row("aten.silu.default")
def _silu(g: Graph, x: Value) -> Value:
    return g.op("Mul", x, g.op("Sigmoid", x))


@row("aten.elu.default")
def _elu(
    g: Graph, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Value:
    dtype = compute_dtype(x.dtype)
    wide = g.cast(x, dtype)
    grown = g.op("Exp", g.op("Mul", wide, g.scalar(input_scale, dtype)))
    below = g.op(
        "Mul", g.op("Sub", grown, g.scalar(1.0, dtype)), g.scalar(alpha * scale, dtype)
    )
    above = g.op("Mul", wide, g.scalar(scale, dtype))
    return g.where(g.compare("Greater", wide, g.scalar(0.0, dtype)), above, below)


@row("aten.leaky_relu.default")
def _leaky_relu(g: Graph, x: Value, negative_slope: float = 0.01) -> Value:
    scaled = g.op("Mul", x, g.scalar(negative_slope, x.dtype))
    return g.where(g.compare("Greater", x, g.scalar(0, x.dtype)), x, scaled)


@row("aten.hardtanh.default")
def _hardtanh(g: Graph, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return g.op("Min", g.op("Max", x, g.scalar(low, x.dtype)), g.scalar(high, x.dtype))


@row("aten._softmax.default", "aten.softmax.int")
def _softmax(g: Graph, x: Value, dim: int, *_: object) -> Value:
    return _along(g, "Softmax", x, dim)


@row("aten._log_softmax.default", "aten.log_softmax.int")
def _log_softmax(g: Graph, x: Value, dim: int, *_: object) -> Value:
    return _along(g, "LogSoftmax", x, dim)


def _along(g: Graph, op: str, x: Value, dim: int) -> Value:
    dtype = g.out.dtype if is_float(g.out.dtype) else x.dtype
    rank = max(x.rank, 1)
    wide = g.cast(x, compute_dtype(dtype))
    if x.rank == 0:
        wide = g.op(op, g.reshape(wide, [1]), axis=0)
        return g.cast(g.reshape(wide, []), dtype)
    return g.cast(g.op(op, wide, axis=dim % rank), dtype)
