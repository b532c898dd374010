"""Cases of layers that ONNX Runtime's optimiser fuses or moves to channels last."""

import math
from typing import Any

import numpy as np
from writer import BYTE, FLOAT, INT8, f32, floats, quantized, write


def convolutions() -> None:
    x, w, b = floats(2, 4, 7, 6), floats(6, 4, 3, 3), floats(6)
    op = "FusedConv"
    write("fused_conv", op, [x, w], [FLOAT], activation="Relu")
    write(
        "fused_conv_bias", op, [x, w, b], [FLOAT], activation="Tanh", pads=[1, 1, 1, 1]
    )
    added = floats(2, 6, 5, 4)
    write("fused_conv_sum", op, [x, w, b, added], [FLOAT], activation="Relu")
    write("fused_conv_sum_alone", op, [x, w, None, added], [FLOAT])
    for name, parameters in (
        ("LeakyRelu", [0.3]),
        ("Clip", [-0.5, 2.0]),
        ("HardSigmoid", [0.1, 0.6]),
    ):
        write(
            f"fused_conv_{name.lower()}",
            op,
            [x, w, b],
            [FLOAT],
            activation=name,
            activation_params=parameters,
            strides=[2, 1],
        )
    write(
        "fused_conv_sigmoid",
        op,
        [x, floats(8, 2, 2, 2)],
        [FLOAT],
        activation="Sigmoid",
        group=2,
    )
    write(
        "fused_conv_same", op, [x, w], [FLOAT], activation="Relu", auto_pad="SAME_UPPER"
    )
    write(
        "fused_conv_1d",
        op,
        [floats(2, 4, 9), floats(6, 4, 3)],
        [FLOAT],
        activation="Relu",
    )
    for signed in (False, True):
        q = quantized(signed, 2, 7, 6, 4)
        element = INT8 if signed else BYTE
        name = f"nhwc_max_pool_{'int8' if signed else 'uint8'}"
        write(name, "NhwcMaxPool", [q], [element], kernel_shape=[3, 2], strides=[2, 2])
        write(
            f"{name}_pads",
            "NhwcMaxPool",
            [q],
            [element],
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
        )
    channels_last()
    op = "ConvTransposeWithDynamicPads"
    pads = np.array([0, 1, 1, 0], np.int64)
    up = [floats(2, 4, 5, 5), floats(4, 3, 3, 3), pads, floats(3)]
    write("conv_transpose_pads", op, up, [FLOAT], strides=[2, 2], constants=[2])


def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """x [N, H, W, C] and w [M, C, kH, kW], without pads."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (1, 2))
    return f32(np.einsum("nhwcij,mcij->nhwm", windows.astype(float), w))


def channels_last() -> None:
    """ONNX Runtime has these on GPUs only."""
    x, w, b, added = (
        floats(2, 6, 5, 3),
        floats(4, 3, 3, 2),
        floats(4),
        floats(2, 4, 4, 4),
    )
    y = conv(x, w) + b
    last = w.transpose(0, 2, 3, 1).copy()
    write("nhwc_conv", "NhwcConv", [x, last, b], [FLOAT], expected=[y])
    op = "NhwcFusedConv"
    relu = np.maximum(y + added, 0)
    write(
        "nhwc_fused_conv",
        op,
        [x, w, b, added],
        [FLOAT],
        activation="Relu",
        expected=[relu],
    )


def norms() -> None:
    """Group normalisation, which ONNX Runtime has on GPUs only."""
    x, gamma, beta, skip, bias = (
        floats(2, 3, 4, 6),
        floats(6),
        floats(6) + 1,
        floats(2, 6),
        floats(6),
    )

    def norm(v: np.ndarray, silu: bool) -> np.ndarray:
        groups = v.astype(float).reshape(2, 12, 3, 2)
        centred = groups - groups.mean((1, 3), keepdims=True)
        y = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)
        y = y.reshape(v.shape) * gamma + beta
        return f32(y / (1 + np.exp(-y)) if silu else y)

    first = x.transpose(0, 3, 1, 2).copy()
    attrs: dict[str, Any] = {"groups": 3, "epsilon": 1e-5}
    op = "GroupNorm"
    three = [x, gamma, beta]
    write(
        "group_norm",
        op,
        three,
        [FLOAT],
        activation=0,
        expected=[norm(x, False)],
        **attrs,
    )
    write(
        "group_norm_silu",
        op,
        three,
        [FLOAT],
        activation=1,
        expected=[norm(x, True)],
        **attrs,
    )
    y = norm(x, True).transpose(0, 3, 1, 2)
    three = [first, gamma, beta]
    write(
        "group_norm_first",
        op,
        three,
        [FLOAT],
        activation=1,
        channels_last=0,
        expected=[y],
        **attrs,
    )
    total = x + skip[:, None, None] + bias
    op = "SkipGroupNorm"
    both = [norm(total, True), total]
    some = [x, gamma, beta, skip, bias]
    write(
        "skip_group_norm",
        op,
        some,
        [FLOAT, FLOAT],
        activation=1,
        expected=both,
        **attrs,
    )
    total = x + floats(2, 3, 4, 6)
    some = [x, gamma, beta, floats(2, 3, 4, 6)]
    y = norm(total, False)
    write(
        "skip_group_norm_full", op, some, [FLOAT], activation=0, expected=[y], **attrs
    )
    gate = floats(2, 3, 8)
    op = "GatedRMSNorm"
    write("gated_norm", op, [floats(2, 3, 8) + 1, floats(4), gate], [FLOAT])
    some = [floats(2, 3, 8), floats(8), gate]
    write("gated_norm_sigmoid", op, some, [FLOAT], activation="sigmoid", epsilon=0.1)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    return f32(e / e.sum(-1, keepdims=True))


def elementwise() -> None:
    x, row = floats(2, 3, 4, 5), floats(5)
    mask = floats(2, 1, 1, 5)
    op = "BiasSoftmax"
    y = softmax(x + mask)
    write(
        "bias_softmax",
        op,
        [x, mask],
        [FLOAT],
        axis=3,
        is_inner_broadcast=1,
        expected=[y],
    )
    y = softmax((x + floats(4, 5)).reshape(2, 3, 20)).reshape(x.shape)
    some = [x, floats(4, 5)]
    write(
        "bias_softmax_outer",
        op,
        some,
        [FLOAT],
        axis=2,
        is_inner_broadcast=0,
        expected=[y],
    )
    residual, ratio, training = floats(2, 3, 4, 5) * 2, f32(0.5), np.array(False)
    for op in ("BiasDropout", "BitmaskBiasDropout"):
        name = op.lower()
        write(name, op, [x, row], [FLOAT], expected=[x + row])
        some = [x, row, residual, ratio, training]
        write(
            f"{name}_residual",
            op,
            some,
            [FLOAT],
            constants=[4],
            expected=[x + row + residual],
        )
    write("bitmask_dropout", "BitmaskDropout", [x, ratio], [FLOAT], expected=[x])
    write("gelu", "Gelu", [x], [FLOAT])
    write("scaled_silu", "ScaledSiLU", [x], [FLOAT], alpha=0.5)
    write("scaled_silu_scale", "ScaledSiLU", [x, f32(1.5)], [FLOAT])
    op = "SwiGLU"
    more: dict[str, Any] = {
        "activation_alpha": 1.702,
        "activation_beta": 1.0,
        "limit": 1.0,
    }
    write(
        "swiglu",
        op,
        [x, residual],
        [FLOAT],
        expected=[f32(x / (1 + np.exp(-x)) * residual)],
    )
    gate, up = np.minimum(x[..., :2], 1), np.clip(x[..., 2:4], -1, 1)
    y = f32(gate / (1 + np.exp(-1.702 * gate)) * (up + 1))
    write("swiglu_halves", op, [x[..., :4].copy()], [FLOAT], expected=[y], **more)


def products() -> None:
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    right = b.swapaxes(2, 3).copy()
    write(
        "transpose_matmul", "TransposeMatMul", [a, right], [FLOAT], transB=1, alpha=0.5
    )
    op = "FusedMatMulActivation"
    y = np.maximum(f32(0.5) * (a @ b), 0)
    write(
        "matmul_relu",
        op,
        [a, right],
        [FLOAT],
        transB=1,
        alpha=0.5,
        activation="Relu",
        expected=[y],
    )
    y = a @ b
    y = np.where(y < 0, y * f32(0.3), y)
    write(
        "matmul_leaky",
        op,
        [a, b],
        [FLOAT],
        activation="LeakyRelu",
        activation_alpha=0.3,
        expected=[y],
    )
    y = (floats(4, 5) @ floats(5, 6) + floats(6)).astype(float)
    y = y * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    some = [floats(4, 5), floats(5, 6), floats(6)]
    write("gemm_fast_gelu", "GemmFastGelu", some, [FLOAT], expected=[f32(y)])


def write_all() -> None:
    convolutions()
    norms()
    elementwise()
    products()
