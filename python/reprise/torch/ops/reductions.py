"""Reductions and cumulative operators."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graph import Graph, Operand, Value
from ..symbols import Size
from ..table import Row, row
from .common import compute_dtype, is_float, normal_axes, numel

Axes = "Sequence[int] | int | None"


def reduce(
    g: Graph, op: str, x: Value, axes: Sequence[int] | int | None, keep: bool
) -> Value:
    """Adds a reduction; a 0-d tensor is its own reduction."""
    if x.rank == 0:
        x, axes, keep = g.reshape(x, [1]), [0], False
    listed = normal_axes(axes, x.rank)
    if op in ("ArgMax", "ArgMin"):
        raise AssertionError("indices are found by arg_extreme")
    dims: list[Size] = [
        1 if i in listed else d
        for i, d in enumerate(x.shape)
        if keep or i not in listed
    ]
    return g.op(op, x, g.ints(listed), dims=dims, keepdims=int(keep))


@row("aten.sum.default", "aten.sum.dim_IntList")
def _sum(
    g: Graph,
    x: Value,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    **_: object,
) -> Value:
    wide = g.cast(x, compute_dtype(g.out.dtype))
    return reduce(g, "ReduceSum", wide, dim, keepdim)


@row("aten.mean.default", "aten.mean.dim")
def _mean(
    g: Graph,
    x: Value,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    **_: object,
) -> Value:
    wide = g.cast(x, compute_dtype(g.out.dtype))
    return reduce(g, "ReduceMean", wide, dim, keepdim)


@row("aten.prod.default", "aten.prod.dim_int")
def _prod(
    g: Graph, x: Value, dim: int | None = None, keepdim: bool = False, **_: object
) -> Value:
    wide = g.cast(x, compute_dtype(g.out.dtype))
    return reduce(g, "ReduceProd", wide, dim, keepdim)


def _extreme(op: str) -> Row:
    def convert(
        g: Graph, x: Value, dim: Sequence[int] | int = (), keepdim: bool = False
    ) -> Value:
        wide = g.cast(x, torch.uint8) if x.dtype == torch.bool else x
        return g.cast(reduce(g, op, wide, dim, keepdim), x.dtype)

    return convert


row("aten.amax.default", "aten.max.default")(_extreme("ReduceMax"))
row("aten.amin.default", "aten.min.default")(_extreme("ReduceMin"))


def _any_all(every: bool) -> Row:
    """All elements are true if none is false. The largest of no elements is not positive."""

    def convert(
        g: Graph,
        x: Value,
        dim: Sequence[int] | int | None = None,
        keepdim: bool = False,
    ) -> Value:
        truth = g.cast(x, torch.bool)
        if every:
            truth = g.op("Not", truth, dtype=torch.bool)
        found = reduce(g, "ReduceMax", g.cast(truth, torch.int32), dim, keepdim)
        zero = g.constant(torch.tensor(0, dtype=torch.int32))
        found = g.op("Greater", found, zero, dtype=torch.bool, dims=found.dims)
        return g.op("Not", found, dtype=torch.bool) if every else found

    return convert


row("aten.any.default", "aten.any.dim", "aten.any.dims")(_any_all(every=False))
row("aten.all.default", "aten.all.dim", "aten.all.dims")(_any_all(every=True))


def arg_extreme(g: Graph, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """Returns the index of the first greatest or least element; NaN is greater than any number."""
    if x.dtype == torch.bool:
        x = g.op("Cast", x, dtype=torch.uint8, dims=x.dims, to=2)
    if is_float(x.dtype):
        nan = g.op("IsNaN", x, dtype=torch.bool)
        limit = float("inf") if op == "ArgMax" else float("-inf")
        sign = 1.0 if op == "ArgMax" else -1.0
        # A NaN must beat infinity, too: it is the first element of rank 2.
        flags = g.cast(nan, torch.int32)
        any_nan = reduce(
            g, "ReduceMax", Value(flags.name, flags.dtype, x.dims), dim, True
        )
        first = g.where(
            g.cast(any_nan, torch.bool),
            g.op("Mul", g.cast(flags, x.dtype), g.scalar(sign, x.dtype)),
            g.where(nan, g.scalar(limit, x.dtype), x),
        )
        x = Value(first.name, first.dtype, x.dims)
    if dim is None or x.rank == 0:
        keep_dims = [1] * x.rank if keepdim else []
        flat = g.reshape(x, [numel(x.shape)])
        index = g.op(op, flat, dtype=torch.int64, axis=0, keepdims=0)
        return g.reshape(index, keep_dims)
    return g.op(op, x, dtype=torch.int64, axis=dim % x.rank, keepdims=int(keepdim))


@row("aten.argmax.default")
def _argmax(g: Graph, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return arg_extreme(g, "ArgMax", x, dim, keepdim)


@row("aten.argmin.default")
def _argmin(g: Graph, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return arg_extreme(g, "ArgMin", x, dim, keepdim)


@row("aten.max.dim")
def _max_dim(g: Graph, x: Value, dim: int, keepdim: bool = False) -> Sequence[Value]:
    index = arg_extreme(g, "ArgMax", x, dim, keepdim)
    return [_extreme("ReduceMax")(g, x, dim, keepdim), index]  # type: ignore[list-item]


@row("aten.min.dim")
def _min_dim(g: Graph, x: Value, dim: int, keepdim: bool = False) -> Sequence[Value]:
    index = arg_extreme(g, "ArgMin", x, dim, keepdim)
    return [_extreme("ReduceMin")(g, x, dim, keepdim), index]  # type: ignore[list-item]


def moments(
    g: Graph,
    x: Value,
    dim: Sequence[int] | int | None,
    correction: Operand | None,
    keep: bool,
) -> tuple[Value, Value]:
    """Returns variance and mean."""
    wide = g.cast(x, compute_dtype(x.dtype))
    axes = normal_axes(dim, x.rank)
    count = numel([x.shape[a] for a in axes]) if x.rank else 1
    mean = reduce(g, "ReduceMean", wide, axes, True)
    centred = g.op("Sub", wide, mean, dims=x.shape)
    squares = g.op("Mul", centred, centred, dims=x.shape)
    total = reduce(g, "ReduceSum", squares, axes, keep)
    less = 1 if correction is None else correction
    dtype = wide.dtype
    if isinstance(count, int) and isinstance(less, (int, float)):
        divisor = g.scalar(float(max(count - less, 0)), dtype)
    else:
        difference = g.op("Sub", g.scalar(count, dtype), g.scalar(less, dtype))
        divisor = g.op("Max", difference, g.scalar(0.0, dtype))
    variance = g.op("Div", total, divisor)
    small = mean if keep or x.rank == 0 else g.op("Squeeze", mean, g.ints(axes))
    return variance, small


@row("aten.var.correction")
def _var(
    g: Graph, x: Value, dim: Sequence[int] | None = None, *, correction: Operand | None = None,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    return moments(g, x, dim, correction, keepdim)[0]


@row("aten.std.correction")
def _std(
    g: Graph, x: Value, dim: Sequence[int] | None = None, *, correction: Operand | None = None,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    return g.op("Sqrt", moments(g, x, dim, correction, keepdim)[0])


@row("aten.var_mean.correction")
def _var_mean(
    g: Graph, x: Value, dim: Sequence[int] | None = None, *, correction: Operand | None = None,
    keepdim: bool = False,
) -> Sequence[Value]:  # fmt: skip
    return moments(g, x, dim, correction, keepdim)


def _cumulative(op: str) -> Row:
    def convert(g: Graph, x: Value, dim: int, **_: object) -> Value:
        wide = g.cast(x, compute_dtype(g.out.dtype))
        if x.rank == 0:
            return wide
        axis = g.constant(torch.tensor(dim % x.rank, dtype=torch.int64))
        return g.op(op, wide, axis)

    return convert


row("aten.cumsum.default")(_cumulative("CumSum"))


row("aten.cumprod.default")(_cumulative("CumProd"))


@row("aten.logsumexp.default")
def _logsumexp(g: Graph, x: Value, dim: Sequence[int], keepdim: bool = False) -> Value:
    wide = g.cast(x, compute_dtype(g.out.dtype))
    return reduce(g, "ReduceLogSumExp", wide, dim, keepdim)
