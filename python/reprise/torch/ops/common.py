"""What the families of rows share: promotion of dtypes, axes, and the dtype to compute with."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..symbols import Size, static

_NARROW = (torch.float16, torch.bfloat16)


def promoted(*operands: Operand) -> torch.dtype:
    """Returns the dtype in which PyTorch compares or combines operands."""
    samples: list[torch.Tensor | int | float | bool] = []
    for operand in operands:
        if isinstance(operand, Value):
            rank = 0 if operand.dims is None else operand.rank
            samples.append(torch.empty([1] * rank, dtype=operand.dtype, device="meta"))
        else:
            if isinstance(operand, torch.SymInt):
                operand = 0
            samples.append(0.0 if isinstance(operand, torch.SymFloat) else operand)
    if len(samples) == 1:
        return torch.result_type(samples[0], samples[0])
    dtype = torch.result_type(samples[0], samples[1])
    for sample in samples[2:]:
        dtype = torch.promote_types(dtype, torch.result_type(sample, sample))
    return dtype


def converted(g: Graph, operands: Sequence[Operand], dtype: torch.dtype) -> list[Value]:
    """Returns operands as tensors of one dtype."""
    return [g.scalar(o, dtype) for o in operands]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which formulas of several steps are computed, as PyTorch's CPU does."""
    return torch.float32 if dtype in _NARROW else dtype


def is_float(dtype: torch.dtype) -> bool:
    """Returns whether a dtype is one of floating-point numbers."""
    return dtype.is_floating_point


def normal_axes(axes: Sequence[int] | int | None, rank: int) -> list[int]:
    """Returns axes as numbers from 0, all of them if none are given."""
    if axes is None or (not isinstance(axes, int) and len(axes) == 0):
        return list(range(rank))
    listed = [axes] if isinstance(axes, int) else list(axes)
    return sorted(a % rank if rank else 0 for a in listed)


def known(size: Size, what: str) -> int:
    """Returns a size as a number, or refuses one that only a run knows."""
    if not static(size):
        raise Unsupported(f"{what} depends on an input's size")
    return int(size)


def known_shape(value: Value) -> list[int]:
    """Returns a shape as numbers, or refuses one that only a run knows."""
    return [known(d, "a dim") for d in value.shape]


def numel(dims: Sequence[Size]) -> Size:
    """Returns the number of elements."""
    total: Size = 1
    for d in dims:
        total = total * d
    return total


def positions(g: Graph, size: Size) -> Value:
    """Returns 0, 1, ... up to a size, as int64."""
    if static(size):
        return g.constant(torch.arange(int(size)))
    zero, one = (g.constant(torch.tensor(i)) for i in (0, 1))
    return g.op("Range", zero, g.size(size), one, dims=(size,))
