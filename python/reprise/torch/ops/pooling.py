"""Pooling and its gradients, and sampling at positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graph import Graph, Value
from ..table import row
from .common import compute_dtype, is_float, known, known_shape, numel
from .integers import PoolWindows, largest_integers, sum_integers


class _Windows:
    """The windows of a pooling operator over the last `rank` axes."""

    def __init__(
        self, rank: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int] = (1,),
    ) -> None:  # fmt: skip
        def spread(values: Sequence[int]) -> list[int]:
            listed = [known(v, "a parameter") for v in values]
            return listed * rank if len(listed) == 1 else listed

        self.rank = rank
        self.kernel, self.padding = spread(kernel), spread(padding)
        self.dilation = spread(dilation)
        self.stride = spread(stride) if stride else list(self.kernel)

    def end_padding(self, inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
        """Returns the padding at the end that gives exactly the outputs.

        It is 0 where the last window leaves elements over: they are fewer than a stride.
        """
        ends = []
        for i in range(self.rank):
            window = self.dilation[i] * (self.kernel[i] - 1) + 1
            need = (outputs[i] - 1) * self.stride[i] + window
            ends.append(max(need - inputs[i] - self.padding[i], 0))
        return ends


def _batched(g: Graph, x: Value, rank: int) -> Value:
    """Gives a tensor the dims [N * C, 1, ...]."""
    spatial = x.shape[x.rank - rank :]
    lines = numel(x.shape[: x.rank - rank])
    return g.reshape(x, [lines, 1, *spatial])


def _max_pool(g: Graph, x: Value, windows: _Windows) -> Sequence[Value]:
    rank = windows.rank
    sizes = [known(d, "a dim") for d in x.shape[x.rank - rank :]]
    outputs = [known(d, "a dim") for d in g.out.shape[len(g.out.shape) - rank :]]
    ends = windows.end_padding(sizes, outputs)
    if not is_float(x.dtype):
        form = PoolWindows(
            windows.kernel, windows.stride, windows.padding, windows.dilation
        )
        lines = numel(x.shape[: x.rank - rank])
        found = largest_integers(g, g.reshape(x, [lines, *sizes]), form, outputs)
        return [g.reshape(v, g.out.shape) for v in found]
    values, places = g.ops(
        "MaxPool", [_batched(g, x, rank)], [x.dtype, torch.int64], kernel_shape=windows.kernel,
        strides=windows.stride, pads=[*windows.padding, *ends], dilations=windows.dilation,
    )  # fmt: skip
    inside = g.op("Mod", places, g.constant(torch.tensor(numel(sizes))))
    return [g.reshape(values, g.out.shape), g.reshape(inside, g.out.shape)]


@row("aten.max_pool2d_with_indices.default")
def _max_pool2d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Sequence[Value]:  # fmt: skip
    return _max_pool(g, x, _Windows(2, kernel, stride, padding, dilation))


@row("aten.max_pool3d_with_indices.default")
def _max_pool3d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Sequence[Value]:  # fmt: skip
    return _max_pool(g, x, _Windows(3, kernel, stride, padding, dilation))


@row("aten.max_pool2d_with_indices_backward.default")
@row("aten.max_pool3d_with_indices_backward.default")
@row(
    "aten.adaptive_max_pool2d_backward.default",
    "aten.adaptive_max_pool3d_backward.default",
)
def _max_pool_backward(g: Graph, grad: Value, x: Value, *rest: object) -> Value:
    indices = rest[-1]
    assert isinstance(indices, Value)
    rank = 3 if "3d" in g.target else 2
    shape = known_shape(x)
    lines = numel(shape[: len(shape) - rank])
    plane = numel(shape[len(shape) - rank :])
    outputs = numel(grad.shape[grad.rank - rank :])
    zeros = g.full(0, grad.dtype, [lines, plane])
    total = g.op(
        "ScatterElements", zeros, g.reshape(indices, [lines, outputs]),
        g.reshape(grad, [lines, outputs]), axis=1, reduction="add",
    )  # fmt: skip
    return g.reshape(total, shape)


def _counts(
    windows: _Windows, sizes: Sequence[int], outputs: Sequence[int], count_padding: bool
) -> torch.Tensor:
    """Returns by how many elements each window of an average divides."""
    total = torch.ones([1] * windows.rank)
    for axis in range(windows.rank):
        start = (
            torch.arange(outputs[axis]) * windows.stride[axis] - windows.padding[axis]
        )
        end = start + windows.kernel[axis]
        limit = sizes[axis] + (windows.padding[axis] if count_padding else 0)
        first = start if count_padding else start.clamp(min=0)
        number = (end.clamp(max=limit) - first).to(torch.float32)
        shape = [1] * windows.rank
        shape[axis] = outputs[axis]
        total = total * number.reshape(shape)
    return total


def _average(
    g: Graph, x: Value, windows: _Windows, count_padding: bool, divisor: int | None
) -> Value:
    """Sums the windows by a convolution with ones, and divides by what PyTorch counts."""
    rank = windows.rank
    sizes = [known(d, "a dim") for d in x.shape[x.rank - rank :]]
    outputs = [known(d, "a dim") for d in g.out.shape[len(g.out.shape) - rank :]]
    dtype = compute_dtype(x.dtype)
    if not dtype.is_floating_point:
        form = PoolWindows(windows.kernel, windows.stride, windows.padding, (1,) * rank)
        lines = numel(x.shape[: x.rank - rank])
        total = sum_integers(g, g.reshape(x, [lines, *sizes]), form, outputs)
        by = _divisor(g, windows, (sizes, outputs), count_padding, divisor, dtype)
        return g.reshape(g.op("Div", total, by), g.out.shape)
    ends = windows.end_padding(sizes, outputs)
    image = _batched(g, g.cast(x, dtype), rank)
    ones = g.constant(torch.ones([1, 1, *windows.kernel], dtype=dtype))
    total = g.op(
        "Conv", image, ones, strides=windows.stride,
        pads=[*windows.padding, *ends],
    )  # fmt: skip
    mean = g.op(
        "Div",
        total,
        _divisor(g, windows, (sizes, outputs), count_padding, divisor, dtype),
    )
    return g.cast(g.reshape(mean, g.out.shape), x.dtype)


def _divisor(
    g: Graph, windows: _Windows, sizes: tuple[list[int], list[int]], count_padding: bool,
    divisor: int | None, dtype: torch.dtype,
) -> Value:  # fmt: skip
    if divisor is not None:
        return g.scalar(divisor, dtype)
    return g.constant(_counts(windows, sizes[0], sizes[1], count_padding).to(dtype))


@row("aten.avg_pool1d.default")
def _avg_pool1d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
) -> Value:  # fmt: skip
    return _average(g, x, _Windows(1, kernel, stride, padding), count_include_pad, None)


@row("aten.avg_pool2d.default")
def _avg_pool2d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:  # fmt: skip
    windows = _Windows(2, kernel, stride, padding)
    return _average(g, x, windows, count_include_pad, divisor_override)


@row("aten.avg_pool3d.default")
def _avg_pool3d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:  # fmt: skip
    windows = _Windows(3, kernel, stride, padding)
    return _average(g, x, windows, count_include_pad, divisor_override)


@row("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(
    g: Graph, grad: Value, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    rank = 3 if "3d" in g.target else 2
    windows = _Windows(rank, kernel, stride, padding)
    sizes = [known(d, "a dim") for d in x.shape[x.rank - rank :]]
    outputs = [known(d, "a dim") for d in grad.shape[grad.rank - rank :]]
    dtype = compute_dtype(grad.dtype)
    divisor = _divisor(
        g, windows, (sizes, outputs), count_include_pad, divisor_override, dtype
    )
    share = g.op("Div", _batched(g, g.cast(grad, dtype), rank), divisor)
    ones = g.constant(torch.ones([1, 1, *windows.kernel], dtype=dtype))
    spread = g.op("ConvTranspose", share, ones, strides=windows.stride)
    for i in range(rank):
        # The result covers the padding, and may end before the input does.
        reach = (outputs[i] - 1) * windows.stride[i] + windows.kernel[i]
        missing = windows.padding[i] + sizes[i] - reach
        if missing > 0:
            pads = [0] * (2 * (rank + 2))
            pads[rank + 2 + 2 + i] = missing
            spread = g.op("Pad", spread, g.ints(pads))
        spread = g.slice(
            spread, 2 + i, windows.padding[i], windows.padding[i] + sizes[i]
        )
    return g.cast(g.reshape(spread, x.shape), grad.dtype)


@row("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def _grid_sampler(
    g: Graph,
    x: Value,
    grid: Value,
    interpolation: int,
    padding: int,
    align_corners: bool,
) -> Value:
    dtype = compute_dtype(x.dtype)
    sampled = g.op(
        "GridSample", g.cast(x, dtype), g.cast(grid, dtype),
        mode=("linear", "nearest", "cubic")[interpolation],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=int(align_corners),
    )  # fmt: skip
    if x.rank == 4 and (interpolation == 2 or (interpolation, padding) == (0, 0)):
        # PyTorch's weights are NaN at positions that are not finite.
        away = g.op("Sub", grid, grid)
        flags = g.cast(g.op("IsNaN", away, dtype=torch.bool), torch.int32)
        worst = g.op("ReduceMax", flags, g.ints([3]), keepdims=0)
        undefined = g.cast(g.unsqueeze(worst, [1]), torch.bool)
        sampled = g.where(undefined, g.scalar(float("nan"), dtype), sampled)
    return g.cast(sampled, x.dtype)
