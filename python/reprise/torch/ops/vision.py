"""Operators of torchvision."""

from __future__ import annotations

import torch

from ..errors import Unsupported
from ..graph import Graph, Value
from ..table import row
from .common import known


@row("torchvision.roi_align.default")
def _roi_align(
    g: Graph, x: Value, regions: Value, scale: float, height: int, width: int,
    samples: int, aligned: bool,
) -> Value:  # fmt: skip
    count = regions.shape[0]
    image = g.cast(g.slice(regions, 1, 0, 1), torch.int64)
    return g.op(
        "RoiAlign", x, g.slice(regions, 1, 1, 5), g.reshape(image, [count]),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=known(height, "the height"), output_width=known(width, "the width"),
        sampling_ratio=max(samples, 0), spatial_scale=scale,
    )  # fmt: skip


@row("torchvision.deform_conv2d.default")
def _deform_conv(
    g: Graph, x: Value, weight: Value, offset: Value, mask: Value, bias: Value,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> Value:  # fmt: skip
    if len({v.dtype for v in (x, weight, offset, bias)}) > 1:
        raise Unsupported("operands of different dtypes are not supported")
    operands = [x, weight, offset, bias, *([mask] if use_mask else [])]
    return g.op(
        "DeformConv", *operands, strides=[stride_h, stride_w], pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w], group=groups, offset_group=offset_groups,
    )  # fmt: skip
