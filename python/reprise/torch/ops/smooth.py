"""Interpolation whose filter grows as the image shrinks: a product with a matrix for each axis."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import Unsupported
from ..graph import Graph, Value
from ..symbols import Size
from ..table import Row, row
from .common import compute_dtype, is_float, known


def _smooth_weights(
    size: int, out: int, cubic: bool, corners: bool, scale: float | None
) -> list[list[float]]:
    """The matrix [out, size] of an interpolation whose filter grows as the image shrinks."""
    if corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1 / scale if scale else size / out
    wide = max(step, 1.0)
    reach = (2.0 if cubic else 1.0) * wide
    rows = []
    for i in range(out):
        centre = step * (i + 0.5)
        first = max(int(centre - reach + 0.5), 0)
        last = min(int(centre + reach + 0.5), size)
        row = [0.0] * size
        for j in range(first, last):
            row[j] = _filter((j - centre + 0.5) / wide, cubic)
        total = sum(row)
        rows.append([w / total if total else w for w in row])
    return rows


def _filter(x: float, cubic: bool) -> float:
    d = abs(x)
    if not cubic:
        return max(1.0 - d, 0.0)
    a = -0.5
    if d < 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


#: Whether the filter is cubic, whether corners are aligned, and the scales of both axes.
_Options = tuple[bool, bool, tuple[float | None, float | None]]


def _smooth(
    g: Graph, x: Value, sizes: Sequence[Size], outs: Sequence[Size], options: _Options
) -> Value:
    """Applies the matrices to the last two axes; their transposes if `x` is a gradient."""
    if not is_float(x.dtype):
        raise Unsupported("smooth interpolation of integers is not supported")
    cubic, corners, scales = options
    backward = g.target.split(".")[1].endswith("_backward")
    dtype = compute_dtype(x.dtype)
    result = g.cast(x, dtype)
    for i in range(2):
        size, out = known(sizes[i], "a dim"), known(outs[i], "a dim")
        weights = _smooth_weights(size, out, cubic, corners, scales[i])
        matrix = torch.tensor(weights, dtype=dtype).reshape(out, size)
        if backward:
            matrix = matrix.t()
        if i == 0:
            result = g.op("MatMul", g.constant(matrix.contiguous()), result)
        else:
            result = g.op("MatMul", result, g.constant(matrix.t().contiguous()))
    return g.cast(result, x.dtype)


def _forward(cubic: bool) -> Row:
    def convert(
        g: Graph, x: Value, output_size: Sequence[Size], corners: bool,
        scale_h: float | None = None, scale_w: float | None = None,
    ) -> Value:  # fmt: skip
        options = (cubic, corners, (scale_h, scale_w))
        return _smooth(g, x, x.shape[2:], output_size, options)

    return convert


def _backward(cubic: bool) -> Row:
    def convert(
        g: Graph, grad: Value, output_size: Sequence[Size], input_size: Sequence[Size],
        corners: bool, scale_h: float | None = None, scale_w: float | None = None,
    ) -> Value:  # fmt: skip
        options = (cubic, corners, (scale_h, scale_w))
        return _smooth(g, grad, input_size[2:], output_size, options)

    return convert


for _name, _cubic in (("bilinear2d", False), ("bicubic2d", True)):
    row(f"aten._upsample_{_name}_aa.default")(_forward(_cubic))
    row(f"aten._upsample_{_name}_aa_backward.default")(_backward(_cubic))
