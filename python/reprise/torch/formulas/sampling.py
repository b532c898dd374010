"""Sampling: gradients of samples at positions, random draws, and pooling of random windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .registry import aten, formula

_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_LINEAR, _NEAREST, _CUBIC = 0, 1, 2


@dataclass(frozen=True)
class _Axis:
    """How positions from -1 to 1 become places along one axis."""

    size: int
    padding: int
    corners: bool

    def place(self, position: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Returns the place without regard to the edges, and its derivative."""
        if self.corners:
            return (position + 1) / 2 * (self.size - 1), (self.size - 1) / 2
        return ((position + 1) * self.size - 1) / 2, self.size / 2

    def inside(self, place: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Applies the padding to places; returns the derivative as well."""
        factor: Any = 1.0
        if self.padding == _REFLECTION:
            low, high = (
                (0.0, self.size - 1.0) if self.corners else (-0.5, self.size - 0.5)
            )
            if low == high:
                return torch.zeros_like(place), 0.0
            span = high - low
            offset = place - low
            factor = torch.where(offset < 0, -1.0, 1.0)
            offset = offset.abs()
            turns = torch.floor(offset / span)
            rest = offset - turns * span
            odd = turns - 2 * torch.floor(turns / 2) == 1
            place = torch.where(odd, span - rest, rest) + low
            factor = torch.where(odd, -factor, factor)
        if self.padding != _ZEROS:
            kept = (place > 0) & (place < self.size - 1)
            place = place.clamp(0, self.size - 1)
            factor = torch.where(kept, factor, 0.0)
        return place, factor


@dataclass(frozen=True)
class _Tap:
    """What samples read along one axis: places, weights, and the slopes of weights."""

    place: torch.Tensor
    weight: torch.Tensor
    slope: torch.Tensor


def _whole(place: torch.Tensor) -> torch.Tensor:
    """Returns places as integers; what is no number, or too large, is outside."""
    sane = place.abs() < 1e9
    return torch.where(sane, place, -100.0).to(torch.int64)


_A = -0.75  # of the cubic convolution


def _cubic(distance: torch.Tensor, near: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The weight at a distance, and its derivative."""
    d = distance
    if near:
        weight = ((_A + 2) * d - (_A + 3)) * d * d + 1
        return weight, (3 * (_A + 2) * d - 2 * (_A + 3)) * d
    weight = ((_A * d - 5 * _A) * d + 8 * _A) * d - 4 * _A
    return weight, (3 * _A * d - 10 * _A) * d + 8 * _A


def _taps(position: torch.Tensor, axis: _Axis, interpolation: int) -> _Tap:
    """Returns the elements of all samples along an axis; the last dim has those of one sample."""
    place, factor = axis.place(position)
    place = place.unsqueeze(-1)
    if interpolation == _CUBIC:
        begin = torch.floor(place)
        t = place - begin
        at, _ = axis.inside(begin + torch.arange(-1, 3))
        # The elements lie at distances of 1 + t, t, 1 - t and 2 - t.
        parts = [
            _cubic(1 + t, False), _cubic(t, True), _cubic(1 - t, True), _cubic(2 - t, False)
        ]  # fmt: skip
        slopes = [s if i < 2 else -s for i, (_, s) in enumerate(parts)]
        weight = torch.cat([w for w, _ in parts], -1)
        return _Tap(_whole(at), weight, torch.cat(slopes, -1) * factor)
    place, turn = axis.inside(place)
    if interpolation == _NEAREST:
        none = torch.zeros_like(place)
        return _Tap(_whole(place.round()), torch.ones_like(place), none)
    begin = torch.floor(place)
    slope = torch.ones_like(place) * turn * factor
    first, t = _whole(begin), place - begin
    return _Tap(
        first + torch.arange(2), torch.cat([1 - t, t], -1), torch.cat([-slope, slope], -1)
    )  # fmt: skip


def _product(parts: Sequence[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return result


def _spread(values: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """[N, samples, elements] gets one dim for the elements of each axis."""
    shape = [1] * rank
    shape[axis] = int(values.shape[-1])
    return values.reshape([*values.shape[:2], *shape])


@formula("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sampler_backward(
    grad_output: torch.Tensor, input: torch.Tensor, grid: torch.Tensor,
    interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    rank = input.dim() - 2
    sizes = [int(s) for s in input.shape[2:]]
    batch, channels = (int(s) for s in input.shape[:2])
    if 0 in input.shape or 0 in grid.shape:
        return NotImplemented
    wide = torch.float32 if input.itemsize < 4 else input.dtype
    image = input.reshape(batch, channels, -1).to(wide)
    pull = grad_output.reshape(batch, channels, -1, 1).to(wide)
    positions = grid.reshape(batch, -1, rank).to(wide)
    samples = int(positions.shape[1])
    # The last coordinate of a position belongs to the first axis.
    taps = [
        _taps(
            positions[..., rank - 1 - i],
            _Axis(sizes[i], padding_mode, align_corners),
            interpolation_mode,
        )
        for i in range(rank)
    ]
    flat: Any = 0
    inside: Any = True
    for i, tap in enumerate(taps):
        place = _spread(tap.place, i, rank)
        inside = inside & (place >= 0) & (place < sizes[i])
        flat = flat * sizes[i] + place.clamp(0, sizes[i] - 1)
    weights = [_spread(t.weight, i, rank) for i, t in enumerate(taps)]
    places = flat.reshape(batch, 1, -1).expand(batch, channels, -1)
    first = second = None
    if output_mask[0]:
        weight = torch.where(inside, _product(weights), 0.0)
        share = pull * weight.reshape(batch, 1, samples, -1)
        total = torch.zeros_like(image)
        total = total.scatter_add(2, places, share.reshape(batch, channels, -1))
        first = total.reshape(input.shape).to(input.dtype)
    if output_mask[1]:
        if interpolation_mode == _NEAREST:
            return first, torch.zeros_like(grid)
        value = image.gather(2, places).reshape(batch, channels, samples, -1)
        value = (value * pull).sum(1).reshape(flat.shape)
        found = []
        for i, tap in enumerate(taps):
            slope = _spread(tap.slope, i, rank)
            others = [w for j, w in enumerate(weights) if j != i]
            part = torch.where(inside, value * _product([slope, *others]), 0.0)
            found.append(part.reshape(batch, samples, -1).sum(-1))
        second = torch.stack(found[::-1], -1).reshape(grid.shape).to(grid.dtype)
    return first, second


@formula("multinomial")
def _multinomial(
    weights: torch.Tensor, num_samples: int, replacement: bool = False, *,
    generator: torch.Generator | None = None,
) -> Any:  # fmt: skip
    """Draws by the distribution function, or without replacement the largest w / exponential."""
    if generator is not None or weights.dim() == 0:
        return NotImplemented
    wide = weights.to(torch.float32 if weights.itemsize < 4 else weights.dtype)
    sane = (wide.isfinite() & (wide >= 0)).all() & (wide.sum(-1) > 0).all()
    aten._assert_async.msg(
        sane, "multinomial: weights must be finite, not negative, not all 0"
    )
    blank = torch.zeros_like(wide)
    if not replacement and num_samples > 1:
        scores = wide / aten.exponential(blank)
        return scores.topk(num_samples, -1).indices
    share = wide.cumsum(-1)
    draws = aten.uniform(torch.zeros([*wide.shape[:-1], num_samples], dtype=wide.dtype))
    draws = draws * share[..., -1:]
    places = (share.unsqueeze(-2) <= draws.unsqueeze(-1)).sum(-1)
    last = (share < share[..., -1:]).sum(-1, keepdim=True)
    return torch.minimum(places, last)


def _starts(samples: torch.Tensor, size: int, kernel: int, count: int) -> torch.Tensor:
    """Returns where the windows of fractional pooling begin, [N, C, count].

    Each step is rounded to the dtype of the samples, as PyTorch does.
    """
    last = torch.full([*samples.shape, 1], size - kernel, dtype=torch.int64)
    if count == 1:
        return last
    dtype, wide = samples.dtype, torch.promote_types(samples.dtype, torch.float32)

    def rounded(value: torch.Tensor) -> torch.Tensor:
        return value.to(dtype).to(wide)

    room, steps = (
        rounded(torch.full([1], float(n))) for n in (size - kernel, count - 1)
    )
    step, sample = rounded(room / steps), samples.to(wide).unsqueeze(-1)
    moved = rounded(rounded(torch.arange(count - 1) + sample) * step)
    first = rounded(sample * step)
    return torch.cat([moved.to(torch.int64) - first.to(torch.int64), last], -1)


@formula("fractional_max_pool2d", "fractional_max_pool3d")
def _fractional_pool(
    x: torch.Tensor, kernel_size: Sequence[int], output_size: Sequence[int],
    random_samples: torch.Tensor,
) -> Any:  # fmt: skip
    rank = len(output_size)
    sizes, lead = [int(s) for s in x.shape[-rank:]], list(x.shape[:-rank])
    if 0 in sizes:
        return NotImplemented
    batch = random_samples.shape[:2]
    flat: Any = 0
    for i in range(rank):
        # In two dimensions, the first sample belongs to the last axis.
        sample = random_samples[..., rank - 1 - i if rank == 2 else i].to(x.dtype)
        begin = _starts(sample, sizes[i], int(kernel_size[i]), int(output_size[i]))
        place = begin.unsqueeze(-1) + torch.arange(int(kernel_size[i]))
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = place.shape[-2:]
        flat = flat * sizes[i] + place.reshape([*batch, *shape])
    outs = [int(o) for o in output_size]
    count, taps = math.prod(outs), math.prod(int(k) for k in kernel_size)
    table = flat.reshape([*batch, count, taps])
    lines = x.reshape([*batch, 1, math.prod(sizes)])
    lines = lines.expand([*batch, count, math.prod(sizes)])
    values, chosen = lines.gather(-1, table).max(-1, keepdim=True)
    places = table.gather(-1, chosen)
    return values.reshape([*lead, *outs]), places.reshape([*lead, *outs])


@formula("fractional_max_pool2d_backward", "fractional_max_pool3d_backward")
def _fractional_pool_backward(
    grad: torch.Tensor, x: torch.Tensor, kernel_size: Sequence[int], output_size: Sequence[int],
    indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    rank = len(output_size)
    lead = list(x.shape[:-rank])
    plane, count = (math.prod(t.shape[-rank:]) for t in (x, grad))
    blank = torch.zeros_like(x).reshape([*lead, plane])
    places, rows = (t.reshape([*lead, count]) for t in (indices, grad))
    return blank.scatter_add(-1, places, rows).reshape(x.shape)
