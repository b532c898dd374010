"""Cases of weights of few bits in blocks, of mixtures of experts, and of attention."""

from typing import Any

import numpy as np
from writer import FLOAT, f32, floats, lengths, outcome, quantized, write


def halves(packed: np.ndarray) -> np.ndarray:
    """The numbers of four bits in rows of bytes."""
    rows = packed.reshape(packed.shape[0], -1)
    return (
        np.stack([rows & 15, rows >> 4], -1).reshape(packed.shape[0], -1).astype(float)
    )


def tables() -> None:
    op = "GatherBlockQuantized"
    index = np.array([[1, 6, 0], [3, 3, 2]], np.int64)
    for bits, block in ((4, 16), (8, 32), (2, 16)):
        blocks = 64 // block
        data, scales = (
            quantized(False, 7, 64 * bits // 8),
            np.abs(floats(7, blocks)) * 0.1,
        )
        zeros = quantized(False, 7, -(-blocks * bits // 8))
        attrs: dict[str, Any] = {
            "bits": bits,
            "block_size": block,
            "constants": [0, 2, 3],
        }
        name = f"gather_blocks_{bits}"
        write(name, op, [data, index, scales], [FLOAT], **attrs)
        write(f"{name}_zeros", op, [data, index, scales, zeros], [FLOAT], **attrs)
    op = "MatMulBnb4"
    for kind in (0, 1):
        for k, n in ((64, 5), (40, 3)):
            blocks = -(-k * n // 16)
            some = [floats(3, k), quantized(False, k * n // 2), np.abs(floats(blocks))]
            attrs = {
                "K": k,
                "N": n,
                "block_size": 16,
                "quant_type": kind,
                "constants": [1, 2],
            }
            write(f"bnb4_{kind}_{k}", op, some, [FLOAT], **attrs)
    k, n, block = 64, 6, 16
    weight, scales = quantized(False, n, 4, 8), np.abs(floats(n, 4)) * 0.1
    groups = (
        np.random.default_rng(3).permutation(np.arange(k) // block).astype(np.int32)
    )
    attrs = {"K": k, "N": n, "bits": 4, "block_size": block}
    op = "MatMulNBits"
    some = [floats(3, k), weight, scales, None, groups]
    write("nbits_groups", op, some, [FLOAT], constants=[1, 2, 4], **attrs)
    # ONNX Runtime's CPU kernel leaves the zero points out if there are groups.
    x, zeros = floats(3, k), quantized(False, n, 2)
    w = (halves(weight) - halves(zeros)[:, groups].astype(float)) * scales[:, groups]
    some, y = [x, weight, scales, zeros, groups], [f32(x @ w.T)]
    write(
        "nbits_groups_zeros",
        op,
        some,
        [FLOAT],
        constants=[1, 2, 3, 4],
        expected=y,
        **attrs,
    )


def experts() -> None:
    tokens, hidden, inner, count = 5, 8, 6, 4
    x, router = floats(tokens, hidden), floats(tokens, count) * 2
    first, second = floats(count, inner, hidden) / 3, floats(count, hidden, inner) / 3
    b1, b2 = floats(count, inner), floats(count, hidden)
    op = "MoE"
    some: list[np.ndarray | None] = [x, router, first, b1, second, b2]
    for kind in ("relu", "gelu", "silu", "identity"):
        write(f"moe_{kind}", op, some, [FLOAT], k=2, activation_type=kind)
    batch = x[:4].reshape(2, 2, hidden).copy()
    some = [batch, router[:4], first, None, second]
    write("moe_normalised", op, some, [FLOAT], k=3, normalize_routing_weights=1)
    wide, bias = floats(count, 2 * inner, hidden) / 3, floats(count, 2 * inner)
    gates: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}
    some = [x, router, wide, bias, second, b2]
    write("moe_swiglu", op, some, [FLOAT], **gates)
    more: dict[str, Any] = {
        "activation_alpha": 1.702,
        "activation_beta": 1.0,
        "swiglu_limit": 0.7,
    }
    write("moe_swiglu_limit", op, some, [FLOAT], **gates, **more)


def mixture(
    x: np.ndarray,
    router: np.ndarray,
    first: np.ndarray,
    scales: list[np.ndarray],
    bias: np.ndarray,
    second: np.ndarray,
) -> np.ndarray:
    """The two best experts with SwiGLU, and weights of 8 bits in blocks of 16."""
    w1 = (first.astype(float) - 128) * np.repeat(scales[0], 16, 2)
    w2 = (second.astype(float) - 128) * np.repeat(scales[1], 16, 2)
    out = np.zeros(x.shape)
    for token, (row, logits) in enumerate(
        zip(x.astype(float), router.astype(float), strict=True)
    ):
        best = np.argsort(-logits)[:2]
        share = np.exp(logits[best]) / np.exp(logits[best]).sum()
        for expert, weight in zip(best, share, strict=True):
            h = w1[expert] @ row + bias[expert]
            gate, linear = h[::2], h[1::2]
            out[token] += weight * (w2[expert] @ (gate / (1 + np.exp(-gate)) * linear))
    return f32(out)


def quantized_experts() -> None:
    tokens, hidden, inner, count = 5, 32, 16, 4
    x, router = floats(tokens, hidden), floats(tokens, count) * 2
    op = "QMoE"
    for bits in (4, 8):
        packed = 8 // bits
        first = quantized(False, count, 2 * inner, hidden // packed)
        second = quantized(False, count, hidden, inner // packed)
        fixed = [2, 3, 5, 6]
        attrs: dict[str, Any] = {
            "k": 2,
            "expert_weight_bits": bits,
            "activation_type": "swiglu",
            "swiglu_fusion": 1,
            "weights_prepacked": 0,
            "normalize_routing_weights": 1,
        }
        scale = 0.02 if bits == 4 else 0.002
        columns = [
            np.abs(floats(count, 2 * inner)) * scale,
            np.abs(floats(count, hidden)) * scale,
        ]
        some = [x, router, first, columns[0], None, second, columns[1]]
        write(
            f"qmoe_{bits}",
            op,
            some,
            [FLOAT],
            constants=fixed,
            accuracy_level=1,
            **attrs,
        )
        blocks = [
            np.abs(floats(count, 2 * inner, hidden // 16)) * scale,
            np.abs(floats(count, hidden, inner // 16)) * scale,
        ]
        bias = floats(count, 2 * inner)
        some = [x, router, first, blocks[0], bias, second, blocks[1]]
        # ONNX Runtime rounds what it multiplies by blocks of 8 bits to 8 bits as well.
        y = None if bits == 4 else [mixture(x, router, first, blocks, bias, second)]
        attrs |= {"block_size": 16, "expected": y}
        write(f"qmoe_{bits}_blocks", op, some, [FLOAT], constants=fixed, **attrs)


def normalised(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The RMS norm of each head."""
    parts = x.astype(float).reshape(*x.shape[:2], -1, weight.size)
    square = (parts**2).mean(-1, keepdims=True) + 0.1
    return f32((parts / np.sqrt(square) * weight).reshape(x.shape))


def grouped_query() -> None:
    batch, rows, size = 2, 3, 16
    op, outputs = "GroupQueryAttention", [FLOAT, FLOAT, FLOAT]
    heads: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "constants": [6]}

    def new(count: int, n: int) -> list[np.ndarray]:
        return [floats(count, n, 64), floats(count, n, 32), floats(count, n, 32) + 1]

    def cache(count: int, n: int) -> list[np.ndarray | None]:
        return [floats(count, 2, n, size), floats(count, 2, n, size) - 1]

    total, prompt, ends = np.array(7, np.int32), np.array(rows, np.int32), lengths(6, 6)
    some = [*new(batch, rows), None, None, lengths(2, 2), prompt]
    write("grouped_smooth", op, some, outputs, smooth_softmax=1, **heads)
    some = [
        *new(batch, 1),
        *cache(batch, 6),
        ends,
        total,
        None,
        None,
        None,
        None,
        floats(4),
    ]
    write("grouped_sink", op, some, outputs, **heads)
    some = [
        *new(1, rows),
        *cache(1, 4),
        lengths(6),
        total,
        None,
        None,
        None,
        None,
        floats(4) * 3,
    ]
    write(
        "grouped_sink_window",
        op,
        some,
        outputs,
        local_window_size=3,
        scale=0.2,
        **heads,
    )
    norms = [np.abs(floats(16)), np.abs(floats(16)) + 1]
    fresh, rest = new(batch, 1), [*cache(batch, 6), ends, total]
    # ONNX Runtime normalises on GPUs only; on a CPU, it takes what is normalised already.
    some = [
        normalised(fresh[0], norms[0]),
        normalised(fresh[1], norms[1]),
        fresh[2],
        *rest,
    ]
    y = outcome(op, some, outputs, **heads)
    some = [*fresh, *rest, *[None] * 7, *norms]
    write("grouped_norms", op, some, outputs, qk_norm_epsilon=0.1, expected=y, **heads)
    some = [*new(batch, rows), None, None, lengths(2, 2), prompt]
    write("grouped_all", op, some, outputs, causal=0, **heads)


def write_all() -> None:
    tables()
    experts()
    quantized_experts()
    grouped_query()
