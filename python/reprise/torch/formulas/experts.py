"""Products of matrices whose rows belong to groups, as in mixtures of experts."""

from __future__ import annotations

import torch

from .registry import formula


def _groups(count: int, ends: torch.Tensor) -> torch.Tensor:
    """Returns the group of each row, given where groups end; rows after the last are in none."""
    return (torch.arange(count).unsqueeze(-1) >= ends).sum(-1)


def _rows_by_group(
    rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    """Multiplies each row [S, K] by the matrix [G, K, N] of its group, which one kernel reads there."""
    count = weights.shape[0]
    group = _groups(rows.shape[0], ends)
    weight = weights[group.clamp(max=count - 1)]
    result = (rows.unsqueeze(1) @ weight).squeeze(1)
    return torch.where((group < count).unsqueeze(-1), result, 0.0)


def _products_of_groups(
    left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    """Multiplies [M, S] by [S, N] for each group of places along S: [G, M, N]."""
    group = _groups(left.shape[1], ends)
    member = group == torch.arange(ends.shape[0]).unsqueeze(-1)
    return torch.where(member.unsqueeze(1), left, 0.0) @ right


@formula("_grouped_mm")
def _grouped_product(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    if bias is not None:
        return NotImplemented  # type: ignore[no-any-return]
    if offs is None:
        result = a @ b
    elif b.dim() == 3:
        result = _rows_by_group(a, b, offs)
    elif a.dim() == 3:
        result = _rows_by_group(b.T, a.transpose(1, 2), offs).T
    else:
        result = _products_of_groups(a, b, offs)
    return result.to(out_dtype or a.dtype)


@formula("transformers::grouped_mm_fallback")
def _grouped_fallback(
    rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    return _rows_by_group(rows, weights, ends)


@formula("transformers::grouped_mm_fallback_backward")
def _grouped_fallback_backward(
    rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        _rows_by_group(grad, weights.transpose(1, 2), ends),
        _products_of_groups(rows.T, grad, ends),
    )
