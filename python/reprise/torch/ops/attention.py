"""Attention of `scaled_dot_product_attention`: forward by one kernel, backward by three."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..errors import Unsupported
from ..graph import Graph, Value
from ..symbols import Size, expression, static
from ..table import row
from .common import compute_dtype, known


def _check(dropout: float, query: Value, key: Value) -> None:
    if dropout:
        raise Unsupported("attention with dropout is not one kernel")
    if expression(query.shape[1]) != expression(key.shape[1]):
        for count in (query.shape[1], key.shape[1]):
            known(count, "the number of heads")


@row("aten._scaled_dot_product_flash_attention_for_cpu.default")
def _attention(
    g: Graph, query: Value, key: Value, value: Value, dropout: float = 0.0,
    is_causal: bool = False, *, attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    """Returns the result and the logarithms of the sums of exponentials, which backward reads."""
    _check(dropout, query, key)
    size = query.shape[3]
    dtype = compute_dtype(query.dtype)  # so that 16 bits do not round the scores
    operands = [g.cast(v, dtype) for v in (query, key, value)]
    operands[0], factor = _scaled(g, operands[0], size, scale)
    after_mask = 2  # of the modes of the fourth output
    mask = None if attn_mask is None else g.cast(attn_mask, dtype)
    result, _, _, scores = g.ops(
        "Attention", [*operands, mask], [dtype] * 4,
        is_causal=int(is_causal), scale=factor, qk_matmul_output_mode=after_mask,
    )  # fmt: skip
    return result, _logarithm_of_sum(g, scores, query.shape[:3])


def _follows_from_sizes(scale: float | None, size: Size) -> bool:
    return scale is None and not static(size)


def _scaled(
    g: Graph, query: Value, size: Size, scale: float | None
) -> tuple[Value, float]:
    """Returns the query and the factor of the scores.

    The query is multiplied instead by what an attribute cannot hold: 64 bits, and what sizes decide.
    """
    if _follows_from_sizes(scale, size):
        root = g.op("Sqrt", g.cast(g.size(size), torch.float64))
        factor = g.cast(g.op("Reciprocal", root), query.dtype)
        return g.op("Mul", query, factor, dims=query.dims), 1.0
    number = float(scale) if scale is not None else 1 / math.sqrt(int(size))
    if query.dtype != torch.float64:
        return query, number
    exact = g.op("Mul", query, g.scalar(number, query.dtype), dims=query.dims)
    return exact, 1.0


def _logarithm_of_sum(g: Graph, scores: Value, dims: Sequence[Size]) -> Value:
    """Of the exponentials of each row, written as a softmax has them; 0 if all keys are hidden."""
    dtype, last = scores.dtype, g.ints([3])
    largest = g.op("ReduceMax", scores, last)
    total = g.op("ReduceSum", g.op("Exp", g.op("Sub", scores, largest)), last)
    sums = g.op("Add", g.op("Log", total), largest)
    hidden = g.compare("Equal", largest, g.scalar(-math.inf, dtype))
    return g.reshape(g.where(hidden, g.scalar(0.0, dtype), sums), dims)


@row("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def _attention_backward(
    g: Graph, grad: Value, query: Value, key: Value, value: Value, out: Value, logsumexp: Value,
    dropout: float, is_causal: bool, *, attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:  # fmt: skip
    """The weights are computed again from the scores and the logarithms of their sums."""
    _check(dropout, query, key)
    size = query.shape[3]
    dtype = compute_dtype(query.dtype)
    products = g.op("Mul", g.cast(grad, dtype), g.cast(out, dtype))
    shares = g.op("ReduceSum", products, g.ints([3]), keepdims=0)
    operands = [grad, query, key, value]
    if _follows_from_sizes(scale, size):  # 16 bits would round the multiplied query
        operands = [g.cast(v, dtype) for v in operands]
        attn_mask = None if attn_mask is None else g.cast(attn_mask, dtype)
    operands[1], factor = _scaled(g, operands[1], size, scale)
    of_query, of_key, of_value = g.ops(
        "AttentionGrad", [*operands, g.cast(logsumexp, dtype), shares, attn_mask],
        [v.dtype for v in operands[1:]], is_causal=int(is_causal), scale=factor,
    )  # fmt: skip
    of_query, _ = _scaled(g, of_query, size, scale)
    return [of_query, of_key, of_value]
