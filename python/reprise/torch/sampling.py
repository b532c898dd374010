"""The gradients of sampling at positions: the elements that each sample reads, with weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .formulas import formula

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
    """An element that samples read along one axis: its place, weight, and the weight's slope."""

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


def _taps(position: torch.Tensor, axis: _Axis, interpolation: int) -> list[_Tap]:
    place, factor = axis.place(position)
    if interpolation == _CUBIC:
        begin = torch.floor(place)
        t = place - begin
        found = []
        for step in (-1, 0, 1, 2):
            away, sign = (step - t, -1.0) if step > 0 else (t - step, 1.0)
            weight, slope = _cubic(away, near=step in (0, 1))
            at, _ = axis.inside(begin + step)
            found.append(_Tap(_whole(at), weight, slope * sign * factor))
        return found
    place, turn = axis.inside(place)
    if interpolation == _NEAREST:
        return [
            _Tap(
                _whole(place.round()), torch.ones_like(place), torch.zeros_like(place)
            )
        ]
    begin = torch.floor(place)
    slope = torch.ones_like(place) * turn * factor
    first, t = _whole(begin), place - begin
    return [_Tap(first, 1 - t, -slope), _Tap(first + 1, t, slope)]


def _product(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return result


@formula("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sampler_backward(
    grad_output: torch.Tensor, input: torch.Tensor, grid: torch.Tensor,
    interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    rank = input.dim() - 2
    sizes = [int(s) for s in input.shape[2:]]
    batch, channels = input.shape[:2]
    plane = _product(sizes)  # type: ignore[arg-type]
    if 0 in input.shape or 0 in grid.shape:
        return NotImplemented
    wide = torch.float32 if input.itemsize < 4 else input.dtype
    image = input.reshape(batch, channels, plane).to(wide)
    pull = grad_output.reshape(batch, channels, -1).to(wide)
    positions = grid.reshape(batch, -1, rank).to(wide)
    axes = [_Axis(s, padding_mode, align_corners) for s in sizes]
    # The last coordinate of a position belongs to the first axis.
    taps = [
        _taps(positions[..., rank - 1 - i], axes[i], interpolation_mode)
        for i in range(rank)
    ]
    to_input = torch.zeros_like(image)
    to_grid = [torch.zeros_like(positions[..., 0]) for _ in range(rank)]
    for chosen in itertools.product(*taps):
        flat = torch.zeros_like(chosen[0].place)
        inside = torch.ones_like(flat, dtype=torch.bool)
        for tap, size in zip(chosen, sizes, strict=True):
            inside = inside & (tap.place >= 0) & (tap.place < size)
            flat = flat * size + tap.place.clamp(0, size - 1)
        spread = flat.unsqueeze(1).expand_as(pull)
        weight = torch.where(inside, _product([t.weight for t in chosen]), 0.0)
        if output_mask[0]:
            share = pull * weight.unsqueeze(1)
            to_input = to_input.scatter_add(2, spread, share)
        if output_mask[1] and interpolation_mode != _NEAREST:
            value = (image.gather(2, spread) * pull).sum(1)
            for i in range(rank):
                slope = _product(
                    [t.slope if j == i else t.weight for j, t in enumerate(chosen)]
                )
                to_grid[i] = to_grid[i] + torch.where(inside, value * slope, 0.0)
    first = to_input.reshape(input.shape).to(input.dtype) if output_mask[0] else None
    second = torch.stack(to_grid[::-1], -1).reshape(grid.shape).to(grid.dtype)
    return first, second if output_mask[1] else None
