"""Convolutions and pooling of integers, whose windows are gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..graph import Graph, Value
from ..symbols import Size
from ..table import row
from .common import known, known_shape, numel


@dataclass(frozen=True)
class Windows:
    """How the windows of a convolution lie, for each spatial axis."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]


@dataclass(frozen=True)
class PoolWindows:
    """How the windows of a pooling operator lie, for each spatial axis."""

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    def places(self, axis: int, count: int) -> torch.Tensor:
        """Returns the positions [count, kernel] of the windows along an axis."""
        first = torch.arange(count).unsqueeze(-1) * self.stride[axis]
        steps = torch.arange(self.kernel[axis]) * self.dilation[axis]
        return first - self.padding[axis] + steps


def _padded(g: Graph, x: Value, axis: int, begin: int, end: int) -> Value:
    """Adds zeros along an axis; negative numbers take elements away."""
    rank, shape = x.rank, list(x.shape)
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = begin, end
    shape[axis] = shape[axis] + begin + end
    if begin == 0 and end == 0:
        return x
    return g.op("Pad", x, g.ints(pads), dims=shape)


def _windows(
    g: Graph, x: Value, kernel: Sequence[int], form: Windows, outputs: Sequence[int]
) -> Value:
    """Turns [N, C, spatial...] into [N, C, kernel..., outputs...]."""
    rank = len(kernel)
    for i in range(rank):
        places = torch.arange(kernel[i]).unsqueeze(-1) * form.dilation[i]
        places = places + torch.arange(outputs[i]) * form.stride[i]
        x = g.op("Gather", x, g.constant(places), axis=2 + 2 * i)
    order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
    return g.transpose(x, order)


def _spread(g: Graph, x: Value, axis: int, stride: int) -> Value:
    """Puts stride - 1 zeros between the elements of an axis."""
    size = known(x.shape[axis], "a dim")
    if stride == 1 or size == 0:
        return x
    shape = list(x.shape)
    wide = g.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    wide = _padded(g, wide, axis + 1, 0, stride - 1)
    shape[axis] = size * stride
    wide = g.reshape(wide, shape)
    return _padded(g, wide, axis, 0, 1 - stride)


def convolve_integers(
    g: Graph, operands: tuple[Value, Value, Value | None], form: Windows, groups: int,
    output_padding: Sequence[int] | None,
) -> Value:  # fmt: skip
    """A convolution as a product of matrices; transposed if there is a padding of outputs."""
    x, weight, bias = operands
    rank = weight.rank - 2
    kernel = known_shape(weight)[2:]
    outputs = [known(d, "a dim") for d in g.out.shape[2:]]
    channels = known(x.shape[1], "a dim")
    if output_padding is not None:
        for i in range(rank):
            x = _spread(g, x, 2 + i, form.stride[i])
            reach = form.dilation[i] * (kernel[i] - 1) - form.padding[i]
            x = _padded(g, x, 2 + i, reach, reach + output_padding[i])
        weight = _transposed_weight(g, weight, groups)
        form = Windows([1] * rank, [0] * rank, form.dilation)
    else:
        for i in range(rank):
            x = _padded(g, x, 2 + i, form.padding[i], form.padding[i])
    columns = _windows(g, x, kernel, form, outputs)
    batch: Size = x.shape[0]
    taps, places = numel(kernel), numel(outputs)
    columns = g.reshape(
        columns, [batch, groups, channels // groups * int(taps), places]
    )
    made = known(weight.shape[0], "a dim")
    matrix = g.reshape(
        weight, [1, groups, made // groups, channels // groups * int(taps)]
    )
    result = g.reshape(g.op("MatMul", matrix, columns), g.out.shape)
    if bias is None:
        return result
    return g.op("Add", result, g.reshape(bias, [made, *([1] * rank)]))


def _transposed_weight(g: Graph, weight: Value, groups: int) -> Value:
    """[C, O / groups, kernel...] becomes [O, C / groups, kernel...], with the kernel reversed."""
    shape = known_shape(weight)
    rank = len(shape) - 2
    axes = list(range(2, 2 + rank))
    far = -(2**63 - 1)
    flipped = g.op(
        "Slice", weight, g.ints([-1] * rank), g.ints([far] * rank), g.ints(axes),
        g.ints([-1] * rank),
    )  # fmt: skip
    split = g.reshape(flipped, [groups, shape[0] // groups, *shape[1:]])
    moved = g.op("Transpose", split, perm=[0, 2, 1, *range(3, 3 + rank)])
    return g.reshape(moved, [groups * shape[1], shape[0] // groups, *shape[2:]])


def sum_integers(
    g: Graph, x: Value, form: PoolWindows, outputs: Sequence[int]
) -> Value:
    """Sums the windows of [N, spatial...]; padding counts as 0."""
    for i, count in enumerate(outputs):
        axis, size = 1 + i, known(x.shape[1 + i], "a dim")
        places = form.places(i, count)
        inside = (places >= 0) & (places < size)
        taken = g.op("Gather", x, g.constant(places.clamp(0, size - 1)), axis=axis)
        shape = [1, *([1] * i), *places.shape, *([1] * (len(outputs) - 1 - i))]
        mask = g.constant(inside.reshape(shape))
        taken = g.where(mask, taken, g.scalar(0, x.dtype))
        dims = list(x.shape)
        dims[axis] = count
        x = g.op("ReduceSum", taken, g.ints([axis + 1]), dims=dims, keepdims=0)
    return x


def largest_integers(
    g: Graph, x: Value, form: PoolWindows, outputs: Sequence[int]
) -> list[Value]:
    """Returns the largest element of each window of [N, spatial...], and its place."""
    rank, sizes = len(outputs), known_shape(x)[1:]
    tables = []
    for i, count in enumerate(outputs):
        places = form.places(i, count)
        inside = (places >= 0) & (places < sizes[i])
        # Padding repeats the first element inside, so it is never chosen before it.
        first = places.gather(-1, inside.to(torch.int64).argmax(-1, keepdim=True))
        tables.append(torch.where(inside, places, first))
    flat = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for i, places in enumerate(tables):
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = places.shape
        step = 1
        for size in sizes[i + 1 :]:
            step *= size
        flat = flat + (places * step).reshape(shape)
    flat = flat.reshape(*outputs, -1)
    lines = x.shape[0]
    plane = int(numel(sizes))
    windows = g.op("Gather", g.reshape(x, [lines, plane]), g.constant(flat), axis=1)
    last = rank + 1
    chosen = g.op("ArgMax", windows, dtype=torch.int64, axis=last, keepdims=1)
    values = g.op("GatherElements", windows, chosen, axis=last)
    table = g.expand(g.constant(flat.unsqueeze(0)), [lines, *flat.shape])
    return [values, g.op("GatherElements", table, chosen, axis=last)]


@row("aten.gcd.default")
def _gcd(g: Graph, a: Value, b: Value) -> Value:
    """Euclid's algorithm on all elements, until the last of them is done."""
    dtype = g.out.dtype
    zero, one = g.scalar(0, dtype), g.scalar(1, dtype)
    if 0 in g.out.shape:
        return g.full(0, dtype, g.out.shape)
    signed = dtype.is_signed
    x, y = (g.cast(v, dtype) for v in (a, b))
    x, y = (g.expand(g.op("Abs", v) if signed else v, g.out.shape) for v in (x, y))

    def unfinished(value: Value) -> Value:
        flags = g.cast(g.cast(value, torch.bool), torch.int32)
        flat = g.op("Reshape", flags, g.ints([-1]))
        most = g.op("ReduceMax", flat, g.ints([0]), keepdims=0)
        return g.cast(most, torch.bool)

    def body(number: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        rest, found = carried
        goes = g.cast(rest, torch.bool)
        divisor = g.where(goes, rest, one)
        after = g.where(goes, g.op("Mod", found, divisor, fmod=1), zero)
        kept = g.where(goes, rest, found)
        return unfinished(after), [after, kept]

    return g.loop(None, [x, y], body, unfinished(x))[1]
