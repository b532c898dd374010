"""Operators that move elements: views, joins, pads and their inverses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..results import memory_order
from ..symbols import Size, expression, static
from ..table import row
from .common import known, numel, positions

_END = 2**63 - 1


@row("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
@row(
    "aten._reshape_alias.default",
    "aten.unsqueeze.default",
    "aten.squeeze",
    "aten.flatten",
)
def _view(g: Graph, x: Value, *_: object, **__: object) -> Value:
    return g.reshape(x, g.out.shape)


@row("aten.expand.default", "aten.broadcast_to.default")
def _expand(g: Graph, x: Value, *_: object, **__: object) -> Value:
    return g.expand(x, g.out.shape)


@row("aten.copy.default")
def _copy(g: Graph, x: Value, source: Value, *_: object) -> Value:
    return g.expand(g.cast(source, x.dtype), x.shape)


@row("aten.permute.default")
def _permute(g: Graph, x: Value, dims: Sequence[int]) -> Value:
    return g.transpose(x, [d % max(x.rank, 1) for d in dims])


@row("aten.transpose.int", "aten.swapaxes.default")
def _transpose(g: Graph, x: Value, a: int, b: int) -> Value:
    perm = list(range(x.rank))
    if x.rank:
        perm[a], perm[b] = perm[b], perm[a]
    return g.transpose(x, perm)


@row("aten.t.default", "aten.numpy_T.default")
def _t(g: Graph, x: Value) -> Value:
    return g.transpose(x, list(reversed(range(x.rank))))


def _bound(value: Operand | None, size: Size, default: Size) -> Size:
    """Returns a bound of a slice in 0..size, as Python clips it."""
    if value is None:
        return default
    if isinstance(value, (Value, float, torch.SymFloat)):
        raise Unsupported("its bounds depend on data")
    if not static(value):
        return value
    bound = int(value)
    if not static(size):
        return bound if bound < _END else default
    last = int(size)
    return min(max(bound + last if bound < 0 else bound, 0), last)


@row("aten.slice.Tensor")
def _slice(
    g: Graph, x: Value, dim: int = 0, start: Operand | None = None, end: Operand | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    dim %= x.rank
    first = _bound(start, x.shape[dim], 0)
    last = _bound(end, x.shape[dim], x.shape[dim])
    return g.slice(x, dim, first, last, step)


@row("aten.select.int")
def _select(g: Graph, x: Value, dim: int, index: Operand) -> Value:
    if isinstance(index, (Value, float)):
        raise Unsupported("its index depends on data")
    position = (
        g.size(index)
        if isinstance(index, torch.SymInt)
        else g.constant(torch.tensor(index))
    )
    return g.op("Gather", x, position, axis=dim % x.rank)


@row("aten.split.Tensor", "aten.unsafe_split.Tensor")
def _split(g: Graph, x: Value, size: Size, dim: int = 0) -> Sequence[Value]:
    extent, part = known(x.shape[dim], "a dim"), known(size, "a size")
    if part == 0:
        return [x]
    sizes = [min(part, extent - at) for at in range(0, extent, part)] or [0]
    return _split_with_sizes(g, x, sizes, dim)


@row("aten.split_with_sizes.default", "aten.unsafe_split_with_sizes.default")
@row("aten.split_with_sizes_copy.default")
def _split_with_sizes(
    g: Graph, x: Value, sizes: Sequence[Size], dim: int = 0
) -> Sequence[Value]:
    outputs = [x.dtype] * len(sizes)
    return g.ops("Split", [x, g.shape(sizes)], outputs, axis=dim % x.rank)


@row("aten.unbind.int")
def _unbind(g: Graph, x: Value, dim: int = 0) -> Sequence[Value]:
    count = known(x.shape[dim], "the number of results")
    return [
        g.op("Gather", x, g.constant(torch.tensor(i)), axis=dim % x.rank)
        for i in range(count)
    ]


@row("aten.cat.default", "aten.concat.default")
def _cat(g: Graph, tensors: Sequence[Value], dim: int = 0) -> Value:
    # An empty list of one dim joins with anything.
    real = [
        t
        for t in tensors
        if not (t.rank == 1 and static(t.shape[0]) and t.shape[0] == 0)
    ]
    rank = len(g.out.shape)
    if not real:
        return g.full(0, g.out.dtype, g.out.shape)
    parts = [g.cast(t, g.out.dtype) for t in real]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=dim % rank)


@row("aten.stack.default")
def _stack(g: Graph, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % len(g.out.shape)
    parts = [g.unsqueeze(g.cast(t, g.out.dtype), [axis]) for t in tensors]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=axis)


@row("aten.repeat.default", "aten.tile.default")
def _repeat(g: Graph, x: Value, repeats: Sequence[Size]) -> Value:
    missing = len(repeats) - x.rank
    wide = g.reshape(x, [*([1] * missing), *x.shape]) if missing > 0 else x
    return g.op("Tile", wide, g.shape([*([1] * -missing), *repeats]))


@row("aten.flip.default")
def _flip(g: Graph, x: Value, dims: Sequence[int]) -> Value:
    if not dims or x.rank == 0:
        return x
    axes = [d % x.rank for d in dims]
    many = len(axes)
    return g.op(
        "Slice", x, g.ints([-1] * many), g.ints([-_END] * many), g.ints(axes),
        g.ints([-1] * many),
    )  # fmt: skip


@row("aten.constant_pad_nd.default")
def _constant_pad(g: Graph, x: Value, pad: Sequence[Size], value: Operand = 0) -> Value:
    rank = x.rank
    begin: list[Size] = [0] * rank
    end: list[Size] = [0] * rank
    for i in range(len(pad) // 2):
        begin[rank - 1 - i], end[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    fill = g.scalar(value, x.dtype)
    return g.op("Pad", x, g.shape([*begin, *end]), fill, mode="constant")


def _strided_places(
    g: Graph,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    offset: Size | None,
) -> torch.Tensor:
    """Returns which elements of the flat tensor a view by strides has."""
    base = g.fake
    dims = [known(s, "a dim") for s in size]
    start = known(offset or 0, "an offset")
    if base is not None and offset is None:
        start = known(base.storage_offset(), "an offset")
    if base is not None:
        start -= known(base.storage_offset(), "an offset")
    index = torch.tensor(start)
    for axis, (extent, step) in enumerate(zip(dims, stride, strict=True)):
        shape = [1] * len(dims)
        shape[axis] = extent
        index = index + torch.arange(extent).reshape(shape) * known(step, "a stride")
    if index.numel() and (int(index.max()) >= _known_numel(x) or int(index.min()) < 0):
        raise Unsupported("it views memory outside of the tensor")
    return index


def _is_whole(
    g: Graph,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    offset: Size | None,
) -> bool:
    """Whether a view has all elements of the tensor, in the order of memory."""
    base = g.fake
    begin = 0 if base is None else expression(base.storage_offset())
    if offset is not None and expression(offset) != begin:
        return False
    step = expression(1)
    for extent, own in zip(reversed(size), reversed(stride), strict=True):
        if expression(extent) != 1 and expression(own) != step:
            return False
        step *= expression(extent)
    return bool(step == expression(numel(x.shape)))


def _order_in_memory(g: Graph, x: Value) -> list[int]:
    """Returns the dims in the order of memory, in which the elements must be dense."""
    if g.fake is None:
        return list(range(x.rank))
    order = memory_order(g.fake)
    if not g.fake.permute(order).is_contiguous():
        raise Unsupported("it views a tensor whose elements are not dense in memory")
    return list(order)


@row("aten.as_strided.default", "aten.as_strided_copy.default")
def _as_strided(
    g: Graph,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    offset: Size | None = None,
) -> Value:
    """Gathers from the tensor as it lies in memory. Sizes may be symbols where it has all of it."""
    if _is_whole(g, x, size, stride, offset):
        return g.reshape(g.transpose(x, _order_in_memory(g, x)), size)
    index = _strided_places(g, x, size, stride, offset)
    flat = g.reshape(g.transpose(x, _order_in_memory(g, x)), [numel(x.shape)])
    return g.op("Gather", flat, g.constant(index), axis=0)


@row("aten.as_strided_scatter.default")
def _as_strided_scatter(
    g: Graph, x: Value, source: Value, size: Sequence[Size], stride: Sequence[Size],
    offset: Size | None = None,
) -> Value:  # fmt: skip
    index = _strided_places(g, x, size, stride, offset).reshape(-1)
    if len(set(index.tolist())) != index.numel():
        raise Unsupported("it writes an element several times")
    order = _order_in_memory(g, x)
    flat = g.reshape(g.transpose(x, order), [numel(x.shape)])
    lines = g.reshape(source, [index.numel()])
    written = _put_lines(g, flat, lines, 0, index.tolist())
    in_memory = g.reshape(written, [x.shape[a] for a in order])
    return g.transpose(in_memory, [order.index(a) for a in range(x.rank)])


def _known_numel(x: Value) -> int:
    return known(numel(x.shape), "a number of elements")


@row("aten.unfold.default")
def _unfold(g: Graph, x: Value, dim: int, size: int, step: int) -> Value:
    if x.rank == 0:
        return g.reshape(x, [1])
    dim %= x.rank
    first = g.op("Mul", positions(g, g.out.shape[dim]), g.scalar(step, torch.int64))
    index = g.op("Add", g.unsqueeze(first, [1]), g.constant(torch.arange(size)))
    windows = g.op("Gather", x, index, axis=dim)
    # The window's elements follow the windows; they belong at the end.
    rank = x.rank + 1
    perm = [a for a in range(rank) if a != dim + 1] + [dim + 1]
    return g.op("Transpose", windows, perm=perm)


@row("aten.diagonal.default")
def _diagonal(
    g: Graph, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    a, b = dim1 % x.rank, dim2 % x.rank
    rest = [i for i in range(x.rank) if i not in (a, b)]
    rows, columns = x.shape[a], x.shape[b]
    moved = g.transpose(x, [*rest, a, b])
    joined = g.reshape(moved, [*(x.shape[i] for i in rest), rows * columns])
    # Element n of the diagonal is in row n - min(offset, 0).
    at = positions(g, g.out.shape[-1])
    flat = g.op("Mul", at, g.scalar(columns + 1, torch.int64))
    first = max(offset, 0) - min(offset, 0) * columns
    flat = g.op("Add", flat, g.scalar(first, torch.int64))
    return g.op("Gather", joined, flat, axis=len(rest))


@row("aten.slice_scatter.default")
def _slice_scatter(
    g: Graph, x: Value, source: Value, dim: int = 0, start: Operand | None = None,
    end: Operand | None = None, step: int = 1,
) -> Value:  # fmt: skip
    dim %= x.rank
    extent = x.shape[dim]
    bound = _bound(start, extent, 0)
    if not (static(extent) and static(bound)):
        first_line = extent + bound if static(bound) and int(bound) < 0 else bound
        known_inside = (first_line >= 0, first_line <= extent)
        if not all(statically_known_true(b) for b in known_inside):
            raise Unsupported("its first line may be outside of the tensor")
        if step == 1:
            return _put_range(g, x, source, dim, first_line)
        return _put_every(g, x, source, dim, (first_line, step))
    first = known(bound, "a bound")
    last = known(_bound(end, extent, known(extent, "a dim")), "a bound")
    inside = list(range(first, last, step))
    if not inside:
        return x
    source = g.expand(source, [*x.shape[:dim], len(inside), *x.shape[dim + 1 :]])
    if step == 1:
        return _put_range(g, x, source, dim, first)
    return _put_lines(g, x, source, dim, inside)


def _put_range(g: Graph, x: Value, source: Value, dim: int, first: Size) -> Value:
    """Replaces the lines of `x` from the line `first` on by those of `source`."""
    last, extent = first + source.shape[dim], x.shape[dim]
    parts = [source]
    if expression(first) != 0:
        parts.insert(0, g.slice(x, dim, 0, first))
    if expression(last) != expression(extent):
        parts.append(g.slice(x, dim, last, extent))
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=dim)


def _put_every(
    g: Graph, x: Value, source: Value, dim: int, lines: tuple[Size, int]
) -> Value:
    """Replaces every `step`th line of `x` from the line `first` on by those of `source`."""
    first, step = lines
    width = g.scalar(step, torch.int64)
    after = g.op("Sub", positions(g, x.shape[dim]), g.scalar(first, torch.int64))
    number = g.op("Div", after, width)
    whole = g.compare("Equal", g.op("Mul", number, width), after)
    begun = g.compare("GreaterOrEqual", after, g.scalar(0, torch.int64))
    length = g.scalar(source.shape[dim], torch.int64)
    chosen = g.op("And", g.op("And", whole, begun), g.compare("Less", number, length))
    if not statically_known_true(source.shape[dim] > 0):
        # Gather needs a line that it can read, even if it is not chosen.
        dims = [*source.shape[:dim], source.shape[dim] + 1, *source.shape[dim + 1 :]]
        source = g.op("Concat", source, g.slice(x, dim, 0, 1), dims=dims, axis=dim)
    spread = _nearest_lines(g, source, number, dim)
    return g.where(g.unsqueeze(chosen, list(range(1, x.rank - dim))), spread, x)


def _nearest_lines(g: Graph, x: Value, number: Value, dim: int) -> Value:
    """Takes lines of `x`, the first or last one for numbers that are out of range."""
    last = g.scalar(x.shape[dim] - 1, torch.int64)
    inside = g.op("Min", g.op("Max", number, g.scalar(0, torch.int64)), last)
    return g.op("Gather", x, inside, axis=dim)


def _put_lines(
    g: Graph, x: Value, source: Value, dim: int, places: Sequence[int]
) -> Value:
    """Replaces the lines of `x` at places along `dim` by those of `source`, in order."""
    extent = known(x.shape[dim], "a dim")
    taken = torch.zeros(extent, dtype=torch.int64)
    mask = torch.zeros(extent, dtype=torch.bool)
    for number, place in enumerate(places):
        taken[place], mask[place] = number, True
    spread = g.op("Gather", source, g.constant(taken), axis=dim)
    shape = [1] * x.rank
    shape[dim] = extent
    return g.where(g.constant(mask.reshape(shape)), spread, x)


@row("aten.select_scatter.default")
def _select_scatter(g: Graph, x: Value, source: Value, dim: int, index: Size) -> Value:
    dim %= x.rank
    dims = [*x.shape[:dim], 1, *x.shape[dim + 1 :]]
    line = g.reshape(source, dims)
    if not static(index):
        places = g.expand(g.reshape(g.size(index), [1] * x.rank), dims)
        return g.op("ScatterElements", x, places, line, dims=x.dims, axis=dim)
    extent, place = x.shape[dim], known(index, "an index")
    if not static(extent):
        return _put_range(g, x, line, dim, place if place >= 0 else extent + place)
    return _put_lines(g, x, line, dim, [place % known(extent, "a dim")])


@row("aten.diagonal_scatter.default")
def _diagonal_scatter(
    g: Graph, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    a, b = dim1 % x.rank, dim2 % x.rank
    order = [*(i for i in range(x.rank) if i not in (a, b)), a, b]
    length = source.shape[-1]
    if static(length) and int(length) == 0:
        return x
    if not statically_known_true(length > 0):
        raise Unsupported("the diagonal may be empty")
    row_number, column_number = positions(g, x.shape[a]), positions(g, x.shape[b])
    moved_by = g.op("Sub", column_number, g.unsqueeze(row_number, [1]))
    chosen = g.compare("Equal", moved_by, g.scalar(offset, torch.int64))
    number = g.op("Add", row_number, g.scalar(min(offset, 0), torch.int64))
    spread = _nearest_lines(g, source, number, source.rank - 1)
    placed = g.where(chosen, g.unsqueeze(spread, [source.rank]), g.transpose(x, order))
    return g.transpose(placed, [order.index(i) for i in range(x.rank)])


@row("aten.tril.default")
def _tril(g: Graph, x: Value, diagonal: int = 0) -> Value:
    return _triangle(g, x, diagonal, upper=0)


@row("aten.triu.default")
def _triu(g: Graph, x: Value, diagonal: int = 0) -> Value:
    return _triangle(g, x, diagonal, upper=1)


def _triangle(g: Graph, x: Value, diagonal: int, upper: int) -> Value:
    return g.op("Trilu", x, g.constant(torch.tensor(diagonal)), upper=upper)
