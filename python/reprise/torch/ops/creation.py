"""Operators that make tensors from numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph import Graph, Operand, Value
from ..symbols import Size, static
from ..table import row
from .common import compute_dtype, is_float, positions


@row("aten.full.default")
def _full(g: Graph, dims: Sequence[Size], value: Operand, **_: object) -> Value:
    return g.full(value, g.out.dtype, g.out.shape)


@row("aten.full_like.default")
def _full_like(g: Graph, x: Value, value: Operand, **_: object) -> Value:
    return g.full(value, g.out.dtype, g.out.shape)


@row("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default")
@row("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default")
@row(
    "aten.empty_strided.default", "aten.new_empty_strided.default", "aten.zero.default"
)
@row("aten.empty_permuted.default", "aten._efficientzerotensor.default")
def _zeros(g: Graph, *_: object, **__: object) -> Value:
    return g.full(0, g.out.dtype, g.out.shape)


@row("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(g: Graph, *_: object, **__: object) -> Value:
    return g.full(1, g.out.dtype, g.out.shape)


@row("aten.new_full.default")
def _new_full(
    g: Graph, x: Value, dims: Sequence[Size], value: Operand, **_: object
) -> Value:
    return g.full(value, g.out.dtype, g.out.shape)


@row("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(g: Graph, x: Value, value: Operand) -> Value:
    return g.full(value, g.out.dtype, g.out.shape)


@row("aten.scalar_tensor.default")
def _scalar_tensor(g: Graph, value: Operand, **_: object) -> Value:
    return g.scalar(value, g.out.dtype)


def _constant(g: Graph, value: torch.Tensor) -> Value:
    return g.constant(value.to(g.out.dtype))


@row(
    "aten.arange.default",
    "aten.arange.start",
    "aten.arange.start_step",
    "prims.iota.default",
)
def _arange(g: Graph, *bounds: Operand, **options: Any) -> Value:
    start: Any
    end: Any
    if "start" in options:  # prims.iota(length, *, start, step, dtype)
        start, step = options["start"], options["step"]
        length: Size = g.out.shape[0]
        end = start + length * step
    elif len(bounds) == 1:
        start, end, step = 0, bounds[0], 1
    else:
        start, end = bounds[0], bounds[1]
        step = bounds[2] if len(bounds) > 2 else options.get("step", 1)
    parts = (start, end, step)
    if all(isinstance(p, (int, float)) for p in parts) and static(g.out.shape[0]):
        return _constant(g, torch.arange(start, end, step, dtype=g.out.dtype))
    if is_float(g.out.dtype):
        return _range_of_floats(g, start, step)
    wide = [g.scalar(p, torch.int64) for p in parts]
    return g.cast(g.op("Range", *wide), g.out.dtype)


def _range_of_floats(g: Graph, start: Operand, step: Operand) -> Value:
    """Returns a range whose length depends on an input's size."""
    number = positions(g, g.out.shape[0])
    exact = all(isinstance(p, (int, torch.SymInt)) for p in (start, step))
    dtype = torch.int64 if exact else compute_dtype(g.out.dtype)
    scaled = g.op("Mul", g.cast(number, dtype), g.scalar(step, dtype))
    return g.cast(g.op("Add", scaled, g.scalar(start, dtype)), g.out.dtype)


@row("aten.eye.default", "aten.eye.m")
def _eye(g: Graph, *_: object, **__: object) -> Value:
    if all(static(d) for d in g.out.shape):
        rows, columns = (int(d) for d in g.out.shape)
        return _constant(g, torch.eye(rows, columns))
    row_number, column_number = (positions(g, d) for d in g.out.shape)
    same = g.compare("Equal", g.unsqueeze(row_number, [1]), column_number)
    return g.cast(same, g.out.dtype)
