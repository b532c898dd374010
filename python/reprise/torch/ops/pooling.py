"""Pooling and its gradients, and sampling at positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..graph import Graph, Value
from ..symbols import Size, static
from ..table import row
from .common import compute_dtype, is_float, known, numel
from .integers import PoolWindows, largest_integers, sum_integers


class _Windows:
    """The windows of a pooling operator over the last `rank` axes."""

    def __init__(
        self, rank: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int] = (1,), ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        def spread(values: Sequence[int]) -> list[int]:
            listed = [known(v, "a parameter") for v in values]
            return listed * rank if len(listed) == 1 else listed

        self.rank, self.ceil_mode = rank, ceil_mode
        self.kernel, self.padding = spread(kernel), spread(padding)
        self.dilation = spread(dilation)
        self.stride = spread(stride) if stride else list(self.kernel)

    def attributes(
        self, inputs: Sequence[Size], outputs: Sequence[Size]
    ) -> dict[str, Any]:
        """Returns the attributes of ONNX that give windows of these numbers."""
        found: dict[str, Any] = {"kernel_shape": self.kernel, "strides": self.stride}
        if all(static(s) for s in [*inputs, *outputs]):
            ends = self.end_padding([int(s) for s in inputs], [int(s) for s in outputs])
            return {**found, "pads": [*self.padding, *ends]}
        ceil = int(self.ceil_mode)
        return {**found, "pads": self.padding * 2, "ceil_mode": ceil}

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
    sizes, outputs = x.shape[x.rank - rank :], g.out.shape[len(g.out.shape) - rank :]
    if not is_float(x.dtype):
        form = PoolWindows(
            windows.kernel, windows.stride, windows.padding, windows.dilation
        )
        lines = numel(x.shape[: x.rank - rank])
        counts = [known(d, "a dim") for d in outputs]
        found = largest_integers(g, g.reshape(x, [lines, *sizes]), form, counts)
        return [g.reshape(v, g.out.shape) for v in found]
    values, places = g.ops(
        "MaxPool", [_batched(g, x, rank)], [x.dtype, torch.int64], dilations=windows.dilation,
        **windows.attributes(sizes, outputs),
    )  # fmt: skip
    inside = g.op("Mod", places, g.size(numel(sizes)))
    return [g.reshape(values, g.out.shape), g.reshape(inside, g.out.shape)]


@row("aten.max_pool2d_with_indices.default")
def _max_pool2d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Sequence[Value]:  # fmt: skip
    return _max_pool(g, x, _Windows(2, kernel, stride, padding, dilation, ceil_mode))


@row("aten.max_pool3d_with_indices.default")
def _max_pool3d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Sequence[Value]:  # fmt: skip
    return _max_pool(g, x, _Windows(3, kernel, stride, padding, dilation, ceil_mode))


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
    shape = x.shape
    lines, plane = numel(shape[: x.rank - rank]), numel(shape[x.rank - rank :])
    outputs = numel(grad.shape[grad.rank - rank :])
    zeros = g.full(0, grad.dtype, [lines, plane])
    total = g.op(
        "ScatterElements", zeros, g.reshape(indices, [lines, outputs]),
        g.reshape(grad, [lines, outputs]), axis=1, reduction="add",
    )  # fmt: skip
    return g.reshape(total, shape)


def _counts(
    g: Graph, windows: _Windows, sizes: Sequence[Size], outputs: Sequence[Size],
    count_padding: bool,
) -> Value:  # fmt: skip
    """Returns by how many elements each window of an average divides, in float32."""
    total: Value | None = None
    zero, one = g.constant(torch.tensor(0)), g.constant(torch.tensor(1))
    for axis in range(windows.rank):
        padding, stride = windows.padding[axis], windows.stride[axis]
        number = g.op("Range", zero, g.size(outputs[axis]), one, dims=[outputs[axis]])
        start = g.op("Mul", number, g.constant(torch.tensor(stride)))
        start = g.op("Sub", start, g.constant(torch.tensor(padding)))
        end = g.op("Add", start, g.constant(torch.tensor(windows.kernel[axis])))
        limit = g.size(sizes[axis] + (padding if count_padding else 0))
        first = start if count_padding else g.op("Max", start, zero)
        count = g.cast(g.op("Sub", g.op("Min", end, limit), first), torch.float32)
        shape: list[Size] = [1] * windows.rank
        shape[axis] = outputs[axis]
        part = g.reshape(count, shape)
        total = part if total is None else g.op("Mul", total, part)
    assert total is not None
    return total


@dataclass(frozen=True)
class _Average:
    """An average over windows: whether padding counts, or the number by which it divides."""

    windows: _Windows
    count_padding: bool
    divisor: int | None = None

    def divisors(
        self, g: Graph, sizes: Sequence[Size], outputs: Sequence[Size], dtype: torch.dtype
    ) -> Value:  # fmt: skip
        """Returns by what the sum of each window is divided."""
        if self.divisor is not None:
            return g.scalar(self.divisor, dtype)
        return g.cast(
            _counts(g, self.windows, sizes, outputs, self.count_padding), dtype
        )


def _average(g: Graph, x: Value, form: _Average) -> Value:
    """Sums the windows by a convolution with ones, and divides by what PyTorch counts."""
    windows, rank = form.windows, form.windows.rank
    sizes, outputs = x.shape[x.rank - rank :], g.out.shape[len(g.out.shape) - rank :]
    dtype = compute_dtype(x.dtype)
    if not dtype.is_floating_point:
        places = PoolWindows(
            windows.kernel, windows.stride, windows.padding, (1,) * rank
        )
        lines = numel(x.shape[: x.rank - rank])
        counts = [known(d, "a dim") for d in outputs]
        total = sum_integers(g, g.reshape(x, [lines, *sizes]), places, counts)
        by = form.divisors(g, sizes, outputs, dtype)
        return g.reshape(g.op("Div", total, by), g.out.shape)
    image = _batched(g, g.cast(x, dtype), rank)
    attributes = windows.attributes(sizes, outputs)
    ones = g.constant(torch.ones([1, 1, *windows.kernel], dtype=dtype))
    if not attributes.pop("ceil_mode", 0):
        total = g.op("Conv", image, ones, **attributes)
    else:  # A convolution does not round the number of windows up.
        spare = [
            p + s - 1 for p, s in zip(windows.padding, windows.stride, strict=True)
        ]
        attributes["pads"] = [*windows.padding, *spare]
        total = g.op("Conv", image, ones, **attributes)
        for i in range(rank):
            total = g.slice(total, 2 + i, 0, outputs[i])
    mean = g.op("Div", total, form.divisors(g, sizes, outputs, dtype))
    return g.cast(g.reshape(mean, g.out.shape), x.dtype)


@row("aten.avg_pool1d.default")
def _avg_pool1d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
) -> Value:  # fmt: skip
    return _average(
        g,
        x,
        _Average(
            _Windows(1, kernel, stride, padding, ceil_mode=ceil_mode), count_include_pad
        ),
    )


@row("aten.avg_pool2d.default")
def _avg_pool2d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:  # fmt: skip
    windows = _Windows(2, kernel, stride, padding, ceil_mode=ceil_mode)
    return _average(g, x, _Average(windows, count_include_pad, divisor_override))


@row("aten.avg_pool3d.default")
def _avg_pool3d(
    g: Graph, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:  # fmt: skip
    windows = _Windows(3, kernel, stride, padding, ceil_mode=ceil_mode)
    return _average(g, x, _Average(windows, count_include_pad, divisor_override))


@row("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(
    g: Graph, grad: Value, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    rank = 3 if "3d" in g.target else 2
    windows = _Windows(rank, kernel, stride, padding)
    sizes, outputs = x.shape[x.rank - rank :], grad.shape[grad.rank - rank :]
    dtype = compute_dtype(grad.dtype)
    form = _Average(windows, count_include_pad, divisor_override)
    divisor = form.divisors(g, sizes, outputs, dtype)
    share = g.op("Div", _batched(g, g.cast(grad, dtype), rank), divisor)
    ones = g.constant(torch.ones([1, 1, *windows.kernel], dtype=dtype))
    spread = g.op("ConvTranspose", share, ones, strides=windows.stride)
    # The result covers the padding, and may end less than a stride before the input does.
    pads = [0] * (2 * (rank + 2))
    for i in range(rank):
        reach = (outputs[i] - 1) * windows.stride[i] + windows.kernel[i]
        missing = windows.padding[i] + sizes[i] - reach
        at_most = windows.stride[i] - 1
        pads[rank + 4 + i] = max(int(missing), 0) if static(missing) else at_most
    spread = g.op("Pad", spread, g.ints(pads)) if any(pads) else spread
    for i in range(rank):
        start = windows.padding[i]
        spread = g.slice(spread, 2 + i, start, start + sizes[i])
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
