"""Operators that read or write at indices in tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..checks import Check
from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..symbols import Size
from ..table import row
from .arithmetic import floor_divide_integers
from .common import compute_dtype, known, numel


def _wide_index(g: Graph, index: Value) -> Value:
    return g.cast(index, torch.int64)


def _places(g: Graph, index: Value, size: Size) -> Value:
    """Returns indices of an operator that refuses negative ones, which ONNX counts from the end.

    They become too large, which is an error of the run.
    """
    wide = _wide_index(g, index)
    negative = g.compare("Less", wide, g.constant(torch.tensor(0)))
    return Value(g.where(negative, g.size(size), wide).name, wide.dtype, index.dims)


@row("aten.embedding.default")
def _embedding(g: Graph, weight: Value, indices: Value, *_: object) -> Value:
    return g.op("Gather", weight, _places(g, indices, weight.shape[0]), axis=0)


@row("aten.embedding_dense_backward.default")
def _embedding_backward(
    g: Graph, grad: Value, indices: Value, count: Size, padding: int, scale: bool
) -> Value:
    width = grad.shape[-1]
    lines = numel(indices.shape)
    flat = g.reshape(_wide_index(g, indices), [lines, 1])
    rows = g.reshape(grad, [lines, width])
    if scale:
        rows = _scaled_by_frequency(g, rows, flat, count)
    if padding >= 0:
        padded = g.compare("Equal", flat, g.constant(torch.tensor(padding)))
        rows = g.where(padded, g.scalar(0, rows.dtype), rows)
    zeros = g.full(0, grad.dtype, [count, width])
    return g.op("ScatterND", zeros, flat, rows, reduction="add")


def _scaled_by_frequency(g: Graph, rows: Value, index: Value, count: Size) -> Value:
    """Divides each row by how often its index occurs."""
    dtype, dims = rows.dtype, rows.dims
    ones = g.full(1, torch.int64, index.shape)
    zeros = g.full(0, torch.int64, [count, 1])
    numbers = g.op("ScatterND", zeros, index, ones, reduction="add")
    number = g.op("Gather", numbers, g.reshape(index, index.shape[:1]), axis=0)
    wide = compute_dtype(dtype)
    share = g.op("Div", g.scalar(1, wide), g.cast(number, wide))
    scaled = g.cast(g.op("Mul", g.cast(rows, wide), share), dtype)
    return Value(scaled.name, dtype, dims)


@row("aten.gather.default")
def _gather(g: Graph, x: Value, dim: int, index: Value, **_: object) -> Value:
    if numel(index.shape) == 0:  # its rank may be another one
        return g.full(0, x.dtype, index.shape)
    if x.rank == 0 or index.rank == 0:
        flat = g.reshape(x, [1] if x.rank == 0 else x.shape)
        places = g.reshape(index, [numel(index.shape)])
        found = g.op("GatherElements", flat, _places(g, places, numel(x.shape)), axis=0)
        return g.reshape(found, g.out.shape)
    dim %= x.rank
    return g.op("GatherElements", x, _places(g, index, x.shape[dim]), axis=dim)


@row("aten.index_select.default")
def _index_select(g: Graph, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return x
    dim %= x.rank
    places = g.reshape(_places(g, index, x.shape[dim]), [numel(index.shape)])
    return g.op("Gather", x, places, axis=dim)


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add",
               "multiply": "mul"}  # fmt: skip


def _scatter_elements(
    g: Graph, x: Value, dim: int, index: Value, source: Value, reduction: str
) -> Value:
    """Scatters along one axis. A source may be larger than the indices."""
    if numel(index.shape) == 0:  # its rank may be another one
        return x
    if x.rank == 0 or index.rank == 0 or source.rank == 0:
        x1, i1, s1 = (
            Value(g.reshape(v, [numel(v.shape)]).name, v.dtype, (numel(v.shape),))
            for v in (x, index, source)
        )
        return g.reshape(_scatter_elements(g, x1, 0, i1, s1, reduction), x.shape)
    for axis, (have, want) in enumerate(zip(source.shape, index.shape, strict=True)):
        if have is not want and have != want:
            source = Value(
                g.slice(source, axis, 0, want).name, source.dtype, source.dims
            )
    dim %= x.rank
    return g.op(
        "ScatterElements", x, _places(g, index, x.shape[dim]), g.cast(source, x.dtype),
        axis=dim, reduction=reduction,
    )  # fmt: skip


@row("aten.scatter.src", "aten.scatter.reduce")
def _scatter_src(
    g: Graph, x: Value, dim: int, index: Value, source: Value, *, reduce: str = "none"
) -> Value:
    return _scatter_elements(g, x, dim, index, source, _REDUCTIONS.get(reduce, "none"))


@row("aten.scatter.value", "aten.scatter.value_reduce")
def _scatter_value(
    g: Graph, x: Value, dim: int, index: Value, value: Operand, *, reduce: str = "none"
) -> Value:
    source = g.full(value, x.dtype, index.shape)
    return _scatter_elements(g, x, dim, index, source, _REDUCTIONS.get(reduce, "none"))


@row("aten.scatter_add.default")
def _scatter_add(g: Graph, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter_elements(g, x, dim, index, source, "add")


@row("aten.scatter_reduce.two")
def _scatter_reduce(
    g: Graph, x: Value, dim: int, index: Value, source: Value, reduce: str, *,
    include_self: bool = True,
) -> Value:  # fmt: skip
    if reduce == "mean":
        return _scatter_mean(g, x, dim, index, source, include_self)
    if not include_self:
        blank = g.full(_neutral(reduce, x.dtype), x.dtype, index.shape)
        x = Value(
            _scatter_elements(g, x, dim, index, blank, "none").name, x.dtype, x.dims
        )
    return _scatter_elements(g, x, dim, index, source, _REDUCTIONS[reduce])


def _neutral(reduce: str, dtype: torch.dtype) -> float | int:
    """Returns the number that a reduction leaves out of account."""
    if reduce in ("sum", "prod"):
        return 0 if reduce == "sum" else 1
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _scatter_mean(
    g: Graph, x: Value, dim: int, index: Value, source: Value, include_self: bool
) -> Value:
    one, zero = g.scalar(1, x.dtype), g.scalar(0, x.dtype)
    ones = g.full(1, x.dtype, index.shape)
    counts = g.full(int(include_self), x.dtype, x.shape)
    counts = _scatter_elements(g, counts, dim, index, ones, "add")
    if not include_self:
        touched = g.compare("Greater", counts, zero)
        x = Value(g.where(touched, zero, x).name, x.dtype, x.dims)
    total = _scatter_elements(g, x, dim, index, source, "add")
    counts = g.op("Max", counts, one)
    if x.dtype.is_floating_point:
        return g.op("Div", total, counts)
    return floor_divide_integers(g, total, counts)


def _joint_index(
    g: Graph, x: Value, indices: Sequence[Value | None]
) -> tuple[list[int], Value, list[Size]]:
    """Returns the indexed axes, their indices as one tensor with a last dim, and its other dims."""
    axes = [a for a, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for i in given):
        raise Unsupported("indices given by a mask have a number that depends on data")
    shape: list[Size] = list(torch.broadcast_shapes(*(tuple(i.shape) for i in given)))  # type: ignore[no-untyped-call]
    parts = []
    for index in given:
        wide = _wide_index(g, index)
        parts.append(g.reshape(g.expand(wide, shape), [*shape, 1]))
    joint = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=len(shape))
    return axes, joint, shape


@row("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(g: Graph, x: Value, indices: Sequence[Value | None]) -> Value:
    axes, joint, shape = _joint_index(g, x, indices)
    if len(axes) == 1:
        flat = g.reshape(joint, shape)
        return g.op("Gather", x, flat, axis=axes[0])
    rest = [a for a in range(x.rank) if a not in axes]
    front = g.transpose(x, [*axes, *rest])
    found = g.op("GatherND", front, joint)
    # PyTorch puts the indexed dims where the first of them was if they are neighbours.
    if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0] > 0:
        count, before = len(shape), axes[0]
        order = [*range(count, count + before), *range(count)]
        order += range(count + before, count + len(rest))
        return g.op("Transpose", found, perm=order)
    return found


@row("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(
    g: Graph,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value:
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype == torch.bool:
        before = list(indices).index(given[0])
        return _masked_put(g, x, given[0], values, (before, accumulate))
    axes, joint, shape = _joint_index(g, x, indices)
    rest = [a for a in range(x.rank) if a not in axes]
    order = [*axes, *rest]
    front = g.transpose(x, order)
    neighbours = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if neighbours else 0
    count = len(shape)
    kept = [x.shape[a] for a in rest]
    # `values` broadcasts to the result of reading at the same indices.
    wide = g.expand(g.cast(values, x.dtype), [*kept[:before], *shape, *kept[before:]])
    if before:
        total = count + len(rest)
        wide = g.transpose(
            wide,
            [
                *range(before, before + count),
                *range(before),
                *range(before + count, total),
            ],
        )
    reduction = "add" if accumulate else "none"
    written = g.op("ScatterND", front, joint, wide, reduction=reduction)
    back = [order.index(a) for a in range(x.rank)]
    return (
        written
        if back == list(range(x.rank))
        else g.op("Transpose", written, perm=back)
    )


def _masked_put(
    g: Graph, x: Value, mask: Value, values: Value, form: tuple[int, bool]
) -> Value:
    """Writes where a mask over the dims after the first ones holds, or adds there.

    `values` broadcasts to what reading by the mask gives, where one dim stands for those of the
    mask. If it is not 1, its elements go to the places of the mask in order.
    """
    before, accumulate = form
    after = x.rank - before - mask.rank
    dims = [1] * (before + 1 + after - values.rank) + list(values.shape)
    count, tail = known(dims[before], "the number of values"), [1] * after
    wide = g.reshape(g.cast(values, x.dtype), dims)
    ones = [1] * mask.rank
    where = g.reshape(mask, [*mask.shape, *tail])
    if numel(mask.shape) == 0:
        return x
    if count == 1:
        wide = g.reshape(wide, [*dims[:before], *ones, *dims[before + 1 :]])
    else:
        flat = g.reshape(mask, [numel(mask.shape)])
        axis = g.constant(torch.tensor(0))
        number = g.op("CumSum", g.cast(flat, torch.int64), axis, dims=flat.dims)
        total = g.op("ReduceMax", number, g.ints([0]), dims=[], keepdims=0)
        fits = g.op(
            "Equal", total, g.scalar(count, torch.int64), dtype=torch.bool, dims=[]
        )
        message = "index_put: the mask does not have as many places as there are values"
        g.checks.append(Check(torch.ops.aten._assert_async.msg, (fits, message), {}))
        if count == 0:
            return x
        place = g.op("Sub", number, g.scalar(1, torch.int64))
        last = g.scalar(count - 1, torch.int64)
        place = g.op("Min", g.op("Max", place, g.scalar(0, torch.int64)), last)
        taken = g.op("Gather", wide, g.reshape(place, mask.shape), axis=before)
        wide = Value(taken.name, x.dtype)
    return g.where(where, g.op("Add", x, wide) if accumulate else wide, x)


def _lines_index(
    g: Graph, x: Value, dim: int, index: Value
) -> tuple[Value, Value, list[int]]:
    """Moves `dim` to the front and returns the tensor, the indices with a last dim, the order."""
    dim %= max(x.rank, 1)
    order = [dim, *(a for a in range(x.rank) if a != dim)]
    places = g.reshape(_places(g, index, x.shape[dim]), [numel(index.shape), 1])
    return g.transpose(x, order), places, order


@row("aten.index_add.default")
def _index_add(
    g: Graph, x: Value, dim: int, index: Value, source: Value, *, alpha: Operand = 1
) -> Value:
    return _write_lines(g, x, dim, index, source, alpha, "add")


@row("aten.index_copy.default")
def _index_copy(g: Graph, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _write_lines(g, x, dim, index, source, 1, "none")


def _write_lines(
    g: Graph,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    alpha: Operand,
    reduction: str,
) -> Value:
    if alpha != 1:
        dims = source.dims
        scaled = g.op("Mul", source, g.scalar(alpha, source.dtype))
        source = Value(scaled.name, scaled.dtype, dims)
    if x.rank == 0:
        one = g.reshape(x, [1])
        line = g.reshape(source, [numel(source.shape)])
        places = g.reshape(_places(g, index, 1), [numel(index.shape), 1])
        return g.reshape(g.op("ScatterND", one, places, line, reduction=reduction), [])
    front, places, order = _lines_index(g, x, dim, index)
    if source.rank == 0:
        source = g.reshape(source, [1] * x.rank)
    lines = g.transpose(source, order)
    written = g.op("ScatterND", front, places, lines, reduction=reduction)
    return g.op("Transpose", written, perm=[order.index(a) for a in range(x.rank)])
