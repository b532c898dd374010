"""Sorting and selection."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..errors import Unsupported
from ..graph import Graph, Value
from ..symbols import Size
from ..table import row
from .common import numel


def _top(g: Graph, x: Value, count: Size, dim: int, largest: bool) -> Sequence[Value]:
    if x.rank == 0:
        return [x, g.constant(torch.tensor(0))]
    wide = g.cast(x, torch.uint8) if x.dtype == torch.bool else x
    values, places = g.ops(
        "TopK", [wide, g.shape([count])], [wide.dtype, torch.int64], axis=dim % x.rank,
        largest=int(largest), sorted=1,
    )  # fmt: skip
    return [g.cast(values, x.dtype), places]


@row("aten.topk.default")
def _topk(
    g: Graph,
    x: Value,
    k: Size,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Sequence[Value]:
    return _top(g, x, k, dim, largest)


@row("aten.sort.default", "aten.sort.stable")
def _sort(
    g: Graph, x: Value, dim: int = -1, descending: bool = False, **options: object
) -> Sequence[Value]:
    size = x.shape[dim] if x.rank else 1
    return _top(g, x, size, dim, descending)


@row("aten.kthvalue.default")
def _kthvalue(
    g: Graph, x: Value, k: Size, dim: int = -1, keepdim: bool = False
) -> Sequence[Value]:
    if x.rank == 0:
        return [x, g.constant(torch.tensor(0))]
    axis = dim % x.rank
    values, places = _top(g, x, k, dim, largest=False)
    return [_line(g, v, axis, k - 1, keepdim) for v in (values, places)]


def _line(g: Graph, x: Value, axis: int, position: Size, keep: bool) -> Value:
    """Takes one line along an axis."""
    index = g.shape([position]) if keep else g.size(position)
    return g.op("Gather", x, index, axis=axis)


@row("aten.median.dim")
def _median_dim(g: Graph, x: Value, dim: int, keepdim: bool = False) -> Sequence[Value]:
    if x.rank == 0:
        return [x, g.constant(torch.tensor(0))]
    values, places = _kthvalue(g, x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not x.dtype.is_floating_point:
        return [values, places]
    nan = g.op("IsNaN", x, dtype=torch.bool, dims=x.dims)
    flags = g.cast(nan, torch.int32)
    axis = dim % x.rank
    first = g.op("ArgMax", flags, dtype=torch.int64, axis=axis, keepdims=int(keepdim))
    any_nan = g.op("ReduceMax", flags, g.ints([axis]), keepdims=int(keepdim))
    bad = g.cast(any_nan, torch.bool)
    undefined = g.scalar(float("nan"), x.dtype)
    return [g.where(bad, undefined, values), g.where(bad, first, places)]


@row("aten.median.default")
def _median(g: Graph, x: Value) -> Value:
    count = numel(x.shape)
    if not statically_known_true(count > 0):
        raise Unsupported("the median of nothing is not supported")
    return _median_dim(g, g.reshape(x, [count]), 0, False)[0]
