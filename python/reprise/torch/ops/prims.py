"""Operators of the namespace prims, into which some of PyTorch's decompositions lead."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Graph, Operand, Value
from ..symbols import Size
from ..table import find_row, row
from .common import compute_dtype, converted
from .reductions import moments, reduce

#: Rows of ATen with the same meaning.
_ELEMENTWISE = (

    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_not", "ceil",
    "clone", "cos", "cosh", "digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fmax",
    "fmin", "hypot", "lgamma", "log", "log10", "log1p", "log2", "maximum", "minimum", "neg", "real",
    "reciprocal", "round", "rsqrt", "sign", "signbit", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc",
)  # fmt: skip
_BINARY = (

    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmod", "ge", "gt", "le", "lt", "mul",
    "ne", "remainder", "sub",
)  # fmt: skip
_SAME = {
    **{name: f"{name}.default" for name in _ELEMENTWISE},
    **{name: f"{name}.Tensor" for name in _BINARY},
    "pow": "pow.Tensor_Tensor",
    "where": "where.self",
    "transpose": "permute.default",
    "view_of": "alias.default",
    "erf_inv": "erfinv.default",
}

for _name, _other in _SAME.items():
    _row = find_row(f"aten.{_other}")
    if _row is not None:
        row(f"prims.{_name}.default")(_row)

for _name in (
    "reshape",
    "squeeze",
    "expand_dims",
    "collapse_view",
    "collapse",
    "split_dim",
):
    _row = find_row("aten.view.default")
    assert _row is not None
    row(f"prims.{_name}.default")(_row)


@row("prims.broadcast_in_dim.default")
def _broadcast_in_dim(
    g: Graph, x: Value, shape: Sequence[Size], dimensions: Sequence[int]
) -> Value:
    inner: list[Size] = [1] * len(shape)
    for axis, dim in zip(dimensions, x.shape, strict=True):
        inner[axis] = dim
    return g.expand(g.reshape(x, inner), g.out.shape)


@row("prims.div.default")
def _div(g: Graph, a: Operand, b: Operand) -> Value:
    return g.op("Div", g.scalar(a, g.out.dtype), g.scalar(b, g.out.dtype))


@row("prims.sum.default")
def _sum(g: Graph, x: Value, dims: Sequence[int], **_: object) -> Value:
    return (
        reduce(g, "ReduceSum", g.cast(x, compute_dtype(g.out.dtype)), dims, False)
        if dims
        else x
    )


@row("prims.prod.default")
def _prod(g: Graph, x: Value, dims: Sequence[int], **_: object) -> Value:
    return (
        reduce(g, "ReduceProd", g.cast(x, compute_dtype(g.out.dtype)), dims, False)
        if dims
        else x
    )


@row("prims.amax.default")
def _amax(g: Graph, x: Value, dims: Sequence[int], **_: object) -> Value:
    return reduce(g, "ReduceMax", x, dims, False) if dims else x


@row("prims.amin.default")
def _amin(g: Graph, x: Value, dims: Sequence[int], **_: object) -> Value:
    return reduce(g, "ReduceMin", x, dims, False) if dims else x


@row("prims.var.default")
def _var(
    g: Graph, x: Value, dims: Sequence[int] | None, correction: float = 1, **_: object
) -> Value:
    return moments(g, x, dims, correction, False)[0]


@row("prims.rev.default")
def _rev(g: Graph, x: Value, dims: Sequence[int]) -> Value:
    flip = find_row("aten.flip.default")
    assert flip is not None
    result = flip(g, x, dims)
    assert isinstance(result, Value)
    return result


@row("prims.cat.default")
def _cat(g: Graph, tensors: Sequence[Value], dim: int) -> Value:
    return g.op("Concat", *tensors, axis=dim)


@row("prims.fma.default")
def _fma(g: Graph, a: Value, b: Value, c: Value) -> Value:
    """Rounds the product first, as eager PyTorch does in the optimisers that lead here."""
    x, y, z = converted(g, (a, b, c), g.out.dtype)
    return g.op("Add", g.op("Mul", x, y), z)


@row("prims.copy_strided.default")
def _copy_strided(g: Graph, x: Value, stride: Sequence[Size]) -> Value:
    """A copy; every result gets the strides that the graph states."""
    return x
