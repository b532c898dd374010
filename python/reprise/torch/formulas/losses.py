"""Formulas of losses that PyTorch computes in chunks to save memory; regions need no chunks."""

from __future__ import annotations

import contextlib
import importlib
import math
from typing import Any

import torch

from .registry import FORMULAS

with contextlib.suppress(ImportError):  # it registers the operators
    importlib.import_module("torch.nn.modules.linear_cross_entropy")


def _shares(
    target: torch.Tensor, weight: torch.Tensor | None, ignored: int, classes: int, dtype: torch.dtype
) -> torch.Tensor:  # fmt: skip
    """Returns how much each class of each row counts, [rows, classes]."""
    if target.is_floating_point():
        share = target.to(dtype)
    else:
        hit = target.unsqueeze(-1) == torch.arange(classes)
        share = (hit & (target != ignored).unsqueeze(-1)).to(dtype)
    return share if weight is None else share * weight.to(dtype)


def _logarithms(
    x: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    logits = x.to(dtype) @ matrix.to(dtype).t()
    return (logits if bias is None else logits + bias.to(dtype)).log_softmax(-1)


def _loss_and_gradients(
    x: torch.Tensor, matrix: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None,
    weight: torch.Tensor | None, reduction: str, ignored: int, smoothing: float, chunk: int,
    policy: str, acc_dtype: torch.dtype, retain: bool, *wanted: bool,
) -> Any:  # fmt: skip
    if smoothing or reduction not in ("mean", "sum") or len(wanted) != 3:
        return NotImplemented
    logs = _logarithms(x, matrix, bias, acc_dtype)
    share = _shares(target, weight, ignored, int(matrix.shape[0]), acc_dtype)
    if reduction == "mean":
        # Probabilities are averaged over rows, classes over their weights.
        if target.is_floating_point():
            share = share / max(int(x.shape[0]), 1)
        else:
            share = share / share.sum()
    loss = -(torch.where(share == 0, 0.0, share * logs)).sum()
    if reduction == "mean" and x.shape[0] == 0:
        loss = torch.full((), math.nan, dtype=acc_dtype)
    pull = logs.exp() * share.sum(-1, keepdim=True) - share
    none = torch.zeros((0, 0), dtype=x.dtype)
    return (
        loss.to(x.dtype),
        (pull @ matrix.to(acc_dtype)).to(x.dtype) if wanted[0] else none,
        (pull.t() @ x.to(acc_dtype)).to(x.dtype) if wanted[1] else none,
        pull.sum(0).to(x.dtype) if wanted[2] else none.reshape(0),
    )


def _losses(
    x: torch.Tensor, matrix: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None,
    weight: torch.Tensor | None, ignored: int, chunk: int, policy: str, acc_dtype: torch.dtype,
) -> Any:  # fmt: skip
    logs = _logarithms(x, matrix, bias, acc_dtype)
    share = _shares(target, weight, ignored, int(matrix.shape[0]), acc_dtype)
    return -(torch.where(share == 0, 0.0, share * logs)).sum(-1).to(x.dtype)


for _name, _formula in (
    ("_linear_cross_entropy_batch_chunked", _loss_and_gradients),
    ("_linear_cross_entropy_batch_chunked_no_reduction", _losses),
):
    _packet = getattr(torch.ops.torch_nn, _name, None)
    if _packet is not None:
        FORMULAS[_packet.default] = _formula
