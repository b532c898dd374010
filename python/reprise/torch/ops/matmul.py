"""Matrix products and convolutions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..symbols import Size, static
from ..table import row
from .common import compute_dtype, is_float, known, numel
from .integers import Windows, convolve_integers


@row("aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.matmul.default")
@row("aten.dot.default", "aten.vdot.default")
def _matmul(g: Graph, a: Value, b: Value) -> Value:
    if a.dtype == torch.bool or (
        not is_float(a.dtype) and a.dtype not in (torch.int32, torch.int64)
    ):
        wide = g.op("MatMul", g.cast(a, torch.int32), g.cast(b, torch.int32))
        return g.cast(wide, g.out.dtype)
    return g.op("MatMul", a, b)


def _plus(g: Graph, product: Value, x: Value, beta: Operand, alpha: Operand) -> Value:
    dtype = g.out.dtype
    if alpha != 1:
        product = g.op("Mul", product, g.scalar(alpha, dtype))
    if isinstance(beta, (int, float)) and beta == 0:
        return g.expand(product, g.out.shape)
    if isinstance(beta, (torch.SymInt, torch.SymFloat)):
        # A factor of 0 removes infinities and NaN, too.
        factor, zero = g.scalar(beta, dtype), g.scalar(0, dtype)
        none = g.compare("Equal", factor, zero)
        x = g.where(none, zero, g.op("Mul", x, factor))
    elif beta != 1:
        x = g.op("Mul", x, g.scalar(beta, dtype))
    return g.op("Add", product, x)


@row("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def _addmm(
    g: Graph, x: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1
) -> Value:
    return _plus(g, _matmul(g, a, b), x, beta, alpha)


@row("aten.addbmm.default")
def _addbmm(
    g: Graph, x: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1
) -> Value:
    product = g.op("ReduceSum", _matmul(g, a, b), g.ints([0]), keepdims=0)
    return _plus(g, product, x, beta, alpha)


def _spatial(values: Sequence[int], rank: int) -> list[int]:
    listed = [known(v, "a parameter") for v in values]
    return listed * rank if len(listed) == 1 else listed


@row("aten.convolution.default")
def _convolution(
    g: Graph, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    rank = weight.rank - 2
    if x.rank != weight.rank:
        raise Unsupported("convolutions without a batch are not supported")
    pads = _spatial(padding, rank)
    strides, dilations = _spatial(stride, rank), _spatial(dilation, rank)
    if not is_float(x.dtype):
        extra = _spatial(output_padding, rank) if transposed else None
        return convolve_integers(
            g, (x, weight, bias), Windows(strides, pads, dilations), groups, extra
        )
    operands = [x, weight] if bias is None else [x, weight, bias]
    if not transposed:
        return g.op(
            "Conv", *operands, strides=strides, pads=[*pads, *pads], dilations=dilations,
            group=groups,
        )  # fmt: skip
    return g.op(
        "ConvTranspose", *operands, strides=strides, pads=[*pads, *pads], dilations=dilations,
        group=groups, output_padding=_spatial(output_padding, rank),
    )  # fmt: skip


@row("aten.convolution_backward.default")
def _convolution_backward(
    g: Graph, grad: Value, x: Value, weight: Value, bias_sizes: Sequence[int] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    rank = weight.rank - 2
    form = _Convolution(
        rank,
        _spatial(stride, rank),
        _spatial(padding, rank),
        _spatial(dilation, rank),
        groups,
    )
    results: list[Value | None] = [None, None, None]
    if transposed:
        if mask[0]:
            found = _forward(g, grad, weight, form)
            for i, extra in enumerate(_spatial(output_padding, rank)):
                if (
                    extra >= form.stride[i]
                ):  # the padding's gradient fills further windows
                    found = g.slice(found, 2 + i, 0, x.shape[2 + i])
            results[0] = found
        if mask[1]:
            results[1] = _weight_gradient(g, x, grad, weight, form)
    else:
        if mask[0]:
            results[0] = _input_gradient(g, grad, x, weight, form)
        if mask[1]:
            results[1] = _weight_gradient(g, grad, x, weight, form)
    if mask[2]:
        axes = [0, *range(2, grad.rank)]
        wide = g.cast(grad, compute_dtype(grad.dtype))
        total = g.op("ReduceSum", wide, g.ints(axes), keepdims=0)
        results[2] = g.cast(total, grad.dtype)
    return results


class _Convolution:
    """The parameters of a convolution over `rank` axes."""

    def __init__(
        self,
        rank: int,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        groups: int,
    ) -> None:
        self.rank, self.stride, self.padding = rank, stride, padding
        self.dilation, self.groups = dilation, groups


def _forward(g: Graph, x: Value, weight: Value, form: _Convolution) -> Value:
    return g.op(
        "Conv", x, weight, strides=form.stride, pads=[*form.padding, *form.padding],
        dilations=form.dilation, group=form.groups,
    )  # fmt: skip


def _input_gradient(
    g: Graph, grad: Value, x: Value, weight: Value, form: _Convolution
) -> Value:
    """The transposed convolution, with as much padding at the end as the forward one left over."""
    extra, cut = [], []
    for i in range(form.rank):
        window = form.dilation[i] * (known(weight.shape[2 + i], "a dim") - 1) + 1
        size = x.shape[2 + i]
        if static(size):
            extra.append((int(size) + 2 * form.padding[i] - window) % form.stride[i])
            continue
        # At most a stride less one is left over, and the result is cut.
        extra.append(form.stride[i] - 1)
        if form.stride[i] > 1:
            cut.append(2 + i)
    result = g.op(
        "ConvTranspose", grad, weight, strides=form.stride, pads=[*form.padding, *form.padding],
        dilations=form.dilation, group=form.groups, output_padding=extra,
    )  # fmt: skip
    for axis in cut:
        result = g.slice(result, axis, 0, x.shape[axis])
    return result


def _weight_gradient(
    g: Graph, narrow: Value, wide: Value, weight: Value, form: _Convolution
) -> Value:
    """Convolves the wide tensor with the narrow one; batch and channels change places.

    `wide` is the input of a convolution and `narrow` the gradient of its result (for a transposed
    one the other way around). Groups become parts of the batch, so that one convolution with
    `groups` groups computes all of them.
    """
    if not all(static(d) for v in (narrow, wide) for d in v.shape[2:]):
        return _weight_gradient_by_taps(g, narrow, wide, weight, form)
    batch = wide.shape[0]
    groups = form.groups
    pads = list(form.padding)
    ends = []
    for i in range(form.rank):
        taps = known(weight.shape[2 + i], "a dim")
        reach = form.stride[i] * (known(narrow.shape[2 + i], "a dim") - 1) + 1
        need = form.dilation[i] * (taps - 1) + reach
        ends.append(need - known(wide.shape[2 + i], "a dim") - pads[i])
    spatial = list(range(2, 2 + form.rank))
    image = _channels_to_batch(g, wide, batch, groups)
    filters = g.transpose(narrow, [1, 0, *spatial])
    if any(e < 0 for e in ends):
        for i, e in enumerate(ends):
            if e < 0:
                size = known(wide.shape[2 + i], "a dim")
                image = g.slice(image, 2 + i, 0, size + e)
        ends = [max(e, 0) for e in ends]
    result = g.op(
        "Conv", image, filters, strides=form.dilation, pads=[*pads, *ends],
        dilations=form.stride, group=groups,
    )  # fmt: skip
    return g.op("Transpose", result, perm=[1, 0, *spatial])


#: How many elements a filter may have along all axes, if sizes depend on the inputs.
_MOST_TAPS = 121


def _weight_gradient_by_taps(
    g: Graph, narrow: Value, wide: Value, weight: Value, form: _Convolution
) -> Value:
    """One product of matrices for each element of the filter: sizes depend on the inputs here."""
    taps = [known(d, "a dim") for d in weight.shape[2:]]
    if math.prod(taps) > _MOST_TAPS:
        raise Unsupported(
            f"the gradient of a filter of more than {_MOST_TAPS} elements for images whose size "
            "depends on an input's"
        )
    pads = [0, 0, *form.padding]
    padded = g.op("Pad", wide, g.ints([*pads, *pads]))
    rows = _by_group(g, narrow, narrow.shape, form.groups)
    columns = []
    for place in itertools.product(*(range(n) for n in taps)):
        part = padded
        for i, number in enumerate(place):
            begin = form.dilation[i] * number
            end = begin + form.stride[i] * (narrow.shape[2 + i] - 1) + 1
            part = g.slice(part, 2 + i, begin, end, form.stride[i])
        dims = [*wide.shape[:2], *narrow.shape[2:]]
        moved = g.transpose(_by_group(g, part, dims, form.groups), [0, 2, 1])
        product = g.op("MatMul", rows, moved)
        columns.append(g.reshape(product, [*weight.shape[:2], 1]))
    together = columns[0] if len(columns) == 1 else g.op("Concat", *columns, axis=2)
    return g.reshape(together, weight.shape)


def _by_group(g: Graph, x: Value, dims: Sequence[Size], groups: int) -> Value:
    """[N, G * C, ...] becomes [G, C, N * ...]."""
    places, per_group = numel(dims[2:]), dims[1] // groups
    split = g.reshape(x, [dims[0], groups, per_group, places])
    moved = g.op("Transpose", split, perm=[1, 2, 0, 3])
    return g.reshape(moved, [groups, per_group, dims[0] * places])


def _channels_to_batch(g: Graph, x: Value, batch: Size, groups: int) -> Value:
    """[N, G * C, ...] becomes [C, G * N, ...]."""
    spatial = x.shape[2:]
    per_group = x.shape[1] // groups
    split = g.reshape(x, [batch, groups, per_group, *spatial])
    tail = [3 + i for i in range(len(spatial))]
    moved = g.op("Transpose", split, perm=[2, 1, 0, *tail])
    return g.reshape(moved, [per_group, groups * batch, *spatial])


#: The degree of the Taylor polynomial of exp, for matrices whose norm is at most a half.
_DEGREE = {torch.float32: 9, torch.float64: 16}


@row("aten.linalg_matrix_exp.default")
def _matrix_exp(g: Graph, x: Value) -> Value:
    """Divides by a power of two, evaluates a polynomial, and squares as often as was halved."""
    dtype = compute_dtype(x.dtype)
    if dtype not in _DEGREE:
        raise Unsupported(f"exponentials of matrices of {dtype} are not supported")
    n = known(x.shape[-1], "a dim")
    if n == 0 or 0 in x.shape:
        return x
    wide = g.cast(x, dtype)
    last = x.rank - 1
    columns = g.op("ReduceSum", g.op("Abs", wide), g.ints([last - 1]), keepdims=1)
    norm = g.op("ReduceMax", columns, g.ints([last]), keepdims=1)
    # Numbers that are not finite stay what they are: no power of two makes them small.
    bounded = g.op("Min", norm, g.scalar(2.0**60, dtype))
    bounded = g.op("Max", bounded, g.scalar(0.5, dtype))
    power = g.op("Mul", g.op("Log", bounded), g.scalar(1 / math.log(2.0), dtype))
    exponent = g.op("Add", g.op("Ceil", power), g.scalar(1.0, dtype))
    halvings = g.cast(exponent, torch.int64)
    scaled = g.op("Div", wide, g.op("Pow", g.scalar(2.0, dtype), exponent))
    unit = g.constant(torch.eye(n, dtype=dtype))
    result = unit
    for k in range(_DEGREE[dtype], 0, -1):
        term = g.op("Mul", scaled, g.scalar(1.0 / k, dtype))
        result = g.op("Add", unit, g.op("MatMul", term, result))
    most = g.op("ReduceMax", g.op("Reshape", halvings, g.ints([-1])), keepdims=0)

    def square(number: Value, carried: list[Value]) -> tuple[None, list[Value]]:
        goes = g.compare("Less", number, halvings)
        return None, [g.where(goes, g.op("MatMul", carried[0], carried[0]), carried[0])]

    return g.loop(most, [g.expand(result, x.shape)], square)[0]
