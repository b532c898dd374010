"""Formulas of pooling, padding and interpolation, one axis after another.

An element that is not finite must not spoil results that do not read it, so sums are of windows
and not products with matrices of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..symbols import Size, is_always, quotient
from .registry import aten, formula


@dataclass(frozen=True)
class _Windows:
    """Which places of an axis each element of a result reads: up to `longest` from `first` on."""

    first: torch.Tensor
    last: torch.Tensor
    longest: Size

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what each window reads, [windows, longest], and which of that counts.

        Short windows repeat their first element, which then does not count.
        """
        first = self.first.unsqueeze(-1)
        at = first + torch.arange(self.longest)
        inside = at <= self.last.unsqueeze(-1)
        return torch.where(inside, at, first), inside

    def total(
        self, x: torch.Tensor, axis: int, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns the sums of windows, weighted by [windows, longest].

        An element that is not finite affects only the windows that read it with a weight.
        """
        places, counts = self.places()
        moved = x.movedim(axis, -1)
        read = moved.index_select(-1, places.reshape(-1))
        read = read.reshape([*moved.shape[:-1], *places.shape])
        if weights is not None:
            read, counts = read * weights, counts & (weights != 0)
        return torch.where(counts, read, 0).sum(-1).movedim(-1, axis)


def _taps(mode: str, corners: bool | None, scale: float) -> Callable[[int], range]:
    """Returns which elements an element of an interpolation reads, or one more on each side."""
    before, after = {"cubic": (1, 2), "linear": (0, 1)}.get(mode, (0, 0))

    def read(number: int) -> range:
        place = number * scale
        if mode == "exact" or (mode in ("linear", "cubic") and not corners):
            place = (number + 0.5) * scale - (0.0 if mode == "exact" else 0.5)
        begin = math.floor(place)
        return range(begin - before - 1, begin + after + 2)

    return read


def _readers(matrix: torch.Tensor, read: Callable[[int], range]) -> _Windows:
    """Returns which results, the rows of an interpolation's matrix, read each element."""
    out, size = (int(d) for d in matrix.shape)
    first, last = [out] * size, [-1] * size
    for number in range(out):
        for at in read(number):
            clamped = min(max(at, 0), size - 1)
            first[clamped] = min(first[clamped], number)
            last[clamped] = max(last[clamped], number)
    longest = max(b - a + 1 for a, b in zip(first, last, strict=True))
    reads = (matrix != 0).to(torch.int32)
    last_one = out - 1 - reads.flip(0).argmax(0)
    return _Windows(reads.argmax(0), last_one, max(longest, 1))


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


def _step(size: int, out: int, corners: bool | None, scale: float | None) -> float:
    """How far the elements that two neighbours read are apart."""
    if corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale else size / out


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
            axis, out = 2 + i, int(output_size[i])
            size = int(input_size[axis])
            matrix = _interpolation(size, out, mode, corners, scales[i]).to(grad.dtype)
            taps = _taps(mode, corners, _step(size, out, corners, scales[i]))
            readers = _readers(matrix, taps)
            weights = matrix.t().gather(1, readers.places()[0])
            result = readers.total(result, axis, weights)
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


def _pool_windows(size: Any, out: Any) -> _Windows:
    """The windows of adaptive pooling along one axis, of sizes that are ints or SymInts."""
    number = torch.arange(out)
    first = number * size // out
    last = ((number + 1) * size + out - 1) // out - 1
    longest = 1 if is_always(out, 0) else size // out + 2  # at most
    if isinstance(size, int) and isinstance(out, int):
        longest = max(
            (((o + 1) * size + out - 1) // out - o * size // out for o in range(out)),
            default=1,
        )
    return _Windows(first, last, longest)


def _lengths(size: Size, out: Size, axis: int, dtype: torch.dtype) -> torch.Tensor:
    """The lengths of these windows, which broadcast along an axis that is counted from the end."""
    windows = _pool_windows(size, out)
    lengths = (windows.last - windows.first + 1).to(dtype)
    return lengths.reshape([-1] + [1] * (-1 - axis))


@formula("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_average(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    rank, outs = len(output_size), list(output_size)
    if all(is_always(o, 1) for o in outs):
        return x.mean(list(range(-rank, 0)), keepdim=True)
    sizes = list(x.shape[-rank:])
    windows = [quotient(s, o) for s, o in zip(sizes, outs, strict=True)]
    if rank == 2 and None not in windows:
        return aten.avg_pool2d(x, windows)  # type: ignore[no-any-return]
    result = x
    for i in range(rank):
        axis = i - rank
        total = _pool_windows(sizes[i], outs[i]).total(result, axis)
        result = total / _lengths(sizes[i], outs[i], axis, x.dtype)
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
        size, out = x.shape[axis], grad.shape[axis]
        share = result / _lengths(size, out, axis, x.dtype)
        # The windows that have an element are those of pooling in the other direction.
        result = _pool_windows(out, size).total(share, axis)
    return result


@formula("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    rank, outs = len(output_size), list(output_size)
    sizes = list(x.shape[-rank:])
    if any(is_always(n, 0) for n in [*outs, *sizes]):
        return NotImplemented
    windows = [quotient(s, o) for s, o in zip(sizes, outs, strict=True)]
    if None in windows:
        form = torch._prims_common.suggest_memory_format(x)
        found = _adaptive_max_windows(x, sizes, outs)
        return tuple(t.contiguous(memory_format=form) for t in found)
    pool = aten.max_pool2d_with_indices if rank == 2 else aten.max_pool3d_with_indices
    return pool(x, windows)


def _adaptive_max_windows(x: torch.Tensor, sizes: list[Any], outs: list[Any]) -> Any:
    """Windows of different sizes: gathers their elements, and takes the largest of each."""
    rank, lead = len(sizes), list(x.shape[: -len(sizes)])
    places = [_pool_windows(s, o).places()[0] for s, o in zip(sizes, outs, strict=True)]
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
        step = math.prod(sizes[i + 1 :])
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
