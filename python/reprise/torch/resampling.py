"""Formulas of pooling, padding and interpolation: products with a matrix for each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .formulas import aten, formula


def _interpolation(
    size: int, out: int, mode: str, corners: bool | None, scale: float | None
) -> Any:
    """The matrix [out, size] of an interpolation along one axis, made by PyTorch itself."""
    identity = torch.eye(size).reshape(size, 1, size)
    if mode == "cubic":
        wide = identity.unsqueeze(-1).expand(size, 1, size, 2)
        made = aten.upsample_bicubic2d(wide, [out, 2], bool(corners), scale, None)
        return made[:, 0, :, 0].t()
    if mode == "linear":
        return aten.upsample_linear1d(identity, [out], bool(corners), scale)[:, 0].t()
    nearest = (
        aten._upsample_nearest_exact1d if mode == "exact" else aten.upsample_nearest1d
    )
    return nearest(identity, [out], scale)[:, 0].t()


def _upsample_backward(
    mode: str, rank: int, has_corners: bool
) -> Callable[..., torch.Tensor]:
    def gradient(
        grad: torch.Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        *rest: Any,
    ) -> torch.Tensor:
        corners = rest[0] if has_corners else None
        scales = list(rest[1:] if has_corners else rest) + [None] * rank
        result = grad
        for i in range(rank):
            axis = 2 + i
            matrix = _interpolation(
                int(input_size[axis]), int(output_size[i]), mode, corners, scales[i]
            ).to(grad.dtype)
            result = torch.matmul(result.movedim(axis, -1), matrix).movedim(-1, axis)
        return result

    return gradient


for _mode, _names, _corners in (
    (
        "nearest",
        ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
        False,
    ),
    ("exact", tuple(f"_upsample_nearest_exact{i}d" for i in (1, 2, 3)), False),
    (
        "linear",
        ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
        True,
    ),
    ("cubic", ("", "upsample_bicubic2d"), True),
):
    for _rank, _name in enumerate(_names, 1):
        if _name:
            formula(f"{_name}_backward")(_upsample_backward(_mode, _rank, _corners))


def _averaging(size: int, out: int, dtype: torch.dtype) -> torch.Tensor:
    """The matrix [out, size] of adaptive average pooling along one axis."""
    number, at = torch.arange(out).unsqueeze(-1), torch.arange(size)
    start = number * size // out
    end = ((number + 1) * size + out - 1) // out
    inside = ((at >= start) & (at < end)).to(dtype)
    return inside / (end - start).to(dtype)


@formula("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_average(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    rank = len(output_size)
    sizes = [int(s) for s in x.shape[-rank:]]
    outs = [int(s) for s in output_size]
    if all(s % o == 0 for s, o in zip(sizes, outs, strict=True)) and rank == 2:
        return aten.avg_pool2d(x, [s // o for s, o in zip(sizes, outs, strict=True)])  # type: ignore[no-any-return]
    result = x
    for i in range(rank):
        matrix = _averaging(sizes[i], outs[i], x.dtype)
        axis = i - rank
        result = torch.matmul(result.movedim(axis, -1), matrix.t()).movedim(-1, axis)
    return result


@formula("_adaptive_avg_pool2d_backward")
def _adaptive_average_2d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _adaptive_average_backward(grad, x, 2)


@formula("_adaptive_avg_pool3d_backward")
def _adaptive_average_3d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _adaptive_average_backward(grad, x, 3)


def _adaptive_average_backward(
    grad: torch.Tensor, x: torch.Tensor, rank: int
) -> torch.Tensor:
    result = grad
    for axis in range(-rank, 0):
        matrix = _averaging(int(x.shape[axis]), int(grad.shape[axis]), x.dtype)
        result = torch.matmul(result.movedim(axis, -1), matrix).movedim(-1, axis)
    return result


@formula("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    rank = len(output_size)
    sizes = [int(s) for s in x.shape[-rank:]]
    outs = [int(o) for o in output_size]
    if 0 in outs or 0 in sizes:
        return NotImplemented
    if any(s % o for s, o in zip(sizes, outs, strict=True)):
        return _adaptive_max_windows(x, sizes, outs)
    pool = aten.max_pool2d_with_indices if rank == 2 else aten.max_pool3d_with_indices
    return pool(x, [s // o for s, o in zip(sizes, outs, strict=True)])


def _window_places(size: int, out: int) -> torch.Tensor:
    """Which elements each window of an axis has; short windows repeat their first one."""
    number = torch.arange(out).unsqueeze(-1)
    start = number * size // out
    end = ((number + 1) * size + out - 1) // out
    longest = max(
        ((o + 1) * size + out - 1) // out - o * size // out for o in range(out)
    )
    at = start + torch.arange(longest)
    return torch.where(at < end, at, start)


def _adaptive_max_windows(x: torch.Tensor, sizes: list[int], outs: list[int]) -> Any:
    """Windows of different sizes: gathers their elements, and takes the largest of each."""
    rank, lead = len(sizes), list(x.shape[: -len(sizes)])
    places = [_window_places(s, o) for s, o in zip(sizes, outs, strict=True)]
    wide = x
    for i, place in enumerate(places):
        wide = wide.index_select(len(lead) + i, place.reshape(-1))
    split = [d for place in places for d in place.shape]
    first = len(lead)
    order = [*range(first), *(first + 2 * i for i in range(rank))]
    order += [first + 2 * i + 1 for i in range(rank)]
    windows = wide.reshape(lead + split).permute(order).reshape(*lead, *outs, -1)
    values, chosen = windows.max(-1)
    table = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for i, place in enumerate(places):
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = place.shape
        step = 1
        for s in sizes[i + 1 :]:
            step *= s
        table = table + (place * step).reshape(shape)
    flat = table.reshape(*outs, -1).expand(windows.shape)
    return values, flat.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _replication_backward(rank: int) -> Callable[..., torch.Tensor]:
    def gradient(
        grad: torch.Tensor, x: torch.Tensor, padding: Sequence[int]
    ) -> torch.Tensor:
        result = grad
        for i in range(rank):
            axis = -1 - i
            size = int(x.shape[axis])
            source = (torch.arange(int(grad.shape[axis])) - padding[2 * i]).clamp(
                0, size - 1
            )
            matrix = (source.unsqueeze(-1) == torch.arange(size)).to(grad.dtype)
            result = torch.matmul(result.movedim(axis, -1), matrix).movedim(-1, axis)
        return result

    return gradient


for _rank in (1, 2, 3):
    formula(f"replication_pad{_rank}d_backward")(_replication_backward(_rank))
