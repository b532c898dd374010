#!/usr/bin/env python3
"""Writes the cases of this folder: operators of com.microsoft, and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes.
"""

import math
from typing import Any

import experts
import layers
import numpy as np
import quantization
import sequences
import tensors
from writer import (
    BYTE,
    CASES,
    FLOAT,
    INT,
    TYPES,
    floats,
    lengths,
    numbers,
    quantized,
    write,
)

# Beside the writer's folder, which `writer` adds to the path.
from case_writer import archived  # isort: skip


def norms() -> None:
    x, skip, row, bias = floats(2, 3, 8), floats(2, 3, 8) * 2, floats(8), floats(8) + 1
    write(
        "simplified_norm", "SimplifiedLayerNormalization", [x, row], [FLOAT], domain=""
    )
    write(
        "simplified_norm_deviation",
        "SimplifiedLayerNormalization",
        [x, row],
        [FLOAT, FLOAT],
        domain="",
        epsilon=0.1,
    )
    op = "SkipLayerNormalization"
    write("skip_norm", op, [x, skip, row], [FLOAT])
    write(
        "skip_norm_all", op, [x, skip, row, bias, row], [FLOAT] + [None] * 2 + [FLOAT]
    )
    write("skip_norm_epsilon", op, [x, skip, row, bias], [FLOAT], epsilon=0.1)
    write("skip_norm_one_batch", op, [x, skip[:1], row, bias], [FLOAT])
    write("skip_norm_no_batch", op, [x, skip[0], row, bias], [FLOAT])
    op = "SkipSimplifiedLayerNormalization"
    write("skip_rms", op, [x, skip, row], [FLOAT])
    write(
        "skip_rms_sum",
        op,
        [x, skip, row, bias],
        [FLOAT, None, None, FLOAT],
        epsilon=1e-5,
    )


def embeddings() -> None:
    op = "EmbedLayerNormalization"
    ids, segments, positions = numbers(10, 2, 5), numbers(2, 2, 5), numbers(7, 2, 5)
    words, places, kinds = floats(10, 8), floats(7, 8), floats(2, 8)
    gamma, beta, mask = floats(8), floats(8), numbers(2, 2, 5)
    tables = [words, places, kinds, gamma, beta]
    write("embed", op, [ids, segments, *tables], [FLOAT, INT])
    write(
        "embed_mask",
        op,
        [ids, segments, *tables, mask],
        [FLOAT, INT],
        mask_index_type=1,
    )
    write(
        "embed_positions",
        op,
        [ids, segments, *tables, mask, positions],
        [FLOAT, INT, FLOAT],
    )
    one = [ids, None, words, places, None, gamma, beta, None, positions[:1]]
    write("embed_one_row", op, one, [FLOAT, INT], epsilon=0.01)


def activations() -> None:
    x, row = floats(2, 3, 8) * 3, floats(8)
    write("bias_gelu", "BiasGelu", [x, row], [FLOAT])
    # ONNX Runtime adds 1 to a tanh near -1 in float32, so larger numbers have an error of its own.
    write("fast_gelu", "FastGelu", [x / 3], [FLOAT])
    write("fast_gelu_bias", "FastGelu", [x / 4, row / 2], [FLOAT])
    write("quick_gelu", "QuickGelu", [x], [FLOAT])
    write("quick_gelu_alpha", "QuickGelu", [x], [FLOAT], alpha=-0.5)
    skip = floats(2, 3, 8)
    write("bias_add", "BiasAdd", [x, row, skip], [FLOAT], expected=[x + row + skip])
    left, right = np.split(x + row, 2, axis=-1)
    gelu = [
        v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in right.astype(float).ravel()
    ]
    split = left * np.array(gelu).reshape(right.shape)
    write(
        "bias_split_gelu",
        "BiasSplitGelu",
        [x, row],
        [FLOAT],
        expected=[split.astype(np.float32)],
    )


def products() -> None:
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    op = "FusedMatMul"
    write("fused_matmul", op, [a, b], [FLOAT], alpha=0.25)
    write("fused_matmul_trans_a", op, [a.swapaxes(2, 3).copy(), b], [FLOAT], transA=1)
    write(
        "fused_matmul_trans_b",
        op,
        [a, b.swapaxes(2, 3).copy()],
        [FLOAT],
        transB=1,
        alpha=2.0,
    )
    rows = a.transpose(2, 0, 1, 3).copy()
    write("fused_matmul_batch_a", op, [rows, b], [FLOAT], transBatchA=1)
    columns = b.transpose(2, 0, 1, 3).copy()
    write("fused_matmul_batch_b", op, [a, columns], [FLOAT], transBatchB=1)
    both = a.transpose(3, 0, 1, 2).copy()
    write(
        "fused_matmul_batch_and_trans", op, [both, b], [FLOAT], transBatchA=1, transA=1
    )
    write("fused_matmul_vector", op, [floats(5), b], [FLOAT], alpha=-1.0)

    op = "FusedGemm"
    m, n, row = floats(4, 5), floats(5, 6), floats(6)
    write("fused_gemm", op, [m, n, row], [FLOAT], activation="Relu", alpha=0.5)
    write("fused_gemm_tanh", op, [m.T.copy(), n], [FLOAT], activation="Tanh", transA=1)
    write(
        "fused_gemm_leaky",
        op,
        [m, n.T.copy(), row],
        [FLOAT],
        activation="LeakyRelu",
        activation_alpha=0.25,
        transB=1,
        beta=2.0,
    )


def quantized_operators() -> None:
    # The order of operations in float32 decides which way a tie is rounded. These scales avoid ties.
    def scale(x: float) -> np.ndarray:
        return np.array(x, np.float32)

    for signed in (False, True):
        kind = np.int8 if signed else np.uint8
        name = "int8" if signed else "uint8"
        x, y = quantized(signed, 2, 3, 4), quantized(signed, 3, 1)
        zero, other = np.array(3, kind), np.array(7, kind)
        element = TYPES[name]
        both = [x, scale(0.0213), zero, y, scale(0.0317), other]
        write(
            f"qlinear_add_{name}",
            "QLinearAdd",
            [*both, scale(0.0571), other],
            [element],
        )
        write(f"qlinear_mul_{name}", "QLinearMul", [*both, scale(0.1), zero], [element])
        one = [x, scale(0.05), zero]
        write(
            f"qlinear_sigmoid_{name}",
            "QLinearSigmoid",
            [*one, scale(1 / 256), other],
            [element],
        )
        write(
            f"qlinear_leaky_{name}",
            "QLinearLeakyRelu",
            [*one, scale(0.07), other],
            [element],
            alpha=0.1,
        )
        for last in (0, 1):
            write(
                f"qlinear_average_{name}_{last}",
                "QLinearGlobalAveragePool",
                [
                    quantized(signed, 2, 3, 4, 5),
                    scale(0.0513),
                    zero,
                    scale(0.0207),
                    other,
                ],
                [element],
                channels_last=last,
            )
    a, b, row = quantized(False, 3, 8), quantized(True, 5, 8), numbers(900, 5)
    left = [a, scale(0.02), np.array(120, np.uint8)]
    scales, zeros = (
        (np.arange(5) * 0.01 + 0.01).astype(np.float32),
        np.arange(5).astype(np.int8),
    )
    right = [b, scale(0.03), np.array(-4, np.int8)]
    result = [scale(0.05), np.array(9, np.uint8)]
    write("qgemm", "QGemm", [*left, *right, row, *result], [BYTE], transB=1)
    write("qgemm_floats", "QGemm", [*left, *right], [FLOAT], transB=1, alpha=0.5)
    columns = [b, scales, zeros]
    write(
        "qgemm_columns",
        "QGemm",
        [*left, *columns, row, *result],
        [BYTE],
        transB=1,
        constants=[3, 4, 5],
    )


def packed_weights() -> None:
    for bits, block, k, n in (
        (4, 16, 40, 6),
        (4, 32, 64, 8),
        (8, 16, 32, 5),
        (2, 16, 32, 8),
    ):
        blocks = -(-k // block)
        weight = quantized(False, n, blocks, block * bits // 8)
        scales = np.abs(floats(n, blocks)) * 0.1
        zeros = quantized(False, n, -(-blocks * bits // 8))
        attrs: dict[str, Any] = {"K": k, "N": n, "bits": bits, "block_size": block}
        x = floats(3, k)
        name = f"nbits_{bits}_{block}"
        op = "MatMulNBits"
        write(name, op, [x, weight, scales], [FLOAT], constants=[1, 2], **attrs)
        some = [x, weight, scales, zeros]
        write(f"{name}_zeros", op, some, [FLOAT], constants=[1, 2, 3], **attrs)
        if bits != 4:
            continue
        numbers_of_zeros = np.abs(floats(n, blocks)) * 8
        some = [x, weight, scales, numbers_of_zeros]
        write(f"{name}_float_zeros", op, some, [FLOAT], constants=[1, 2, 3], **attrs)
        some = [x, weight, scales, zeros, None, floats(n)]
        write(f"{name}_bias", op, some, [FLOAT], constants=[1, 2, 3, 5], **attrs)


def attention() -> None:
    op = "Attention"
    x, weights, bias = floats(2, 3, 8), floats(8, 24) / 3, floats(24) / 3
    qkv = [x, weights, bias]
    lengths = np.array([2, 3], np.int32)
    keys = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    rows = np.tril(np.ones((2, 3, 3), np.int32))
    past = floats(2, 2, 2, 4, 4)
    write("attention", op, qkv, [FLOAT], num_heads=2)
    write("attention_scale", op, [x, weights, bias], [FLOAT], num_heads=4, scale=0.3)
    write("attention_causal", op, qkv, [FLOAT], num_heads=2, unidirectional=1)
    write("attention_lengths", op, [*qkv, lengths], [FLOAT], num_heads=2)
    write("attention_keys", op, [*qkv, keys], [FLOAT], num_heads=2)
    write(
        "attention_soft", op, [*qkv, keys], [FLOAT], num_heads=2, mask_filter_value=-1.0
    )
    write("attention_rows", op, [*qkv, rows], [FLOAT], num_heads=2)
    both = [FLOAT, FLOAT]
    write("attention_past", op, [*qkv, None, past], both, num_heads=2, unidirectional=1)
    scores = floats(1, 2, 3, 3)
    write("attention_bias", op, [*qkv, None, None, scores], [FLOAT], num_heads=2)
    sizes = [8, 8, 4]
    some = [x, floats(8, 20) / 3, floats(20)]
    write("attention_sizes", op, some, [FLOAT], num_heads=2, qkv_hidden_sizes=sizes)
    ends_and_starts = np.array([2, 3, 0, 1], np.int32)
    write("attention_starts", op, [*qkv, ends_and_starts], [FLOAT], num_heads=2)


def multi_head() -> None:
    batch, rows, keys, heads, size = 2, 3, 5, 2, 8
    q, k, v = (
        floats(batch, rows, 16),
        floats(batch, keys, 16),
        floats(batch, keys, 16) + 1,
    )
    own = [
        floats(batch, rows, 16),
        floats(batch, rows, 16) + 1,
        floats(batch, rows, 16) - 1,
    ]
    past = [floats(batch, heads, 4, size), floats(batch, heads, 4, size) + 1]
    mask = numbers(2, batch, keys)
    mask[:, 0] = 1
    op = "MultiHeadAttention"
    write("heads", op, [q, k, v], [FLOAT], num_heads=heads)
    write("heads_v_size", op, [q, k, v[:, :, :8]], [FLOAT], num_heads=heads)
    write("heads_bias", op, [q, k, v, floats(48)], [FLOAT], num_heads=heads)
    write("heads_lengths", op, [q, k, v, None, lengths(5, 2)], [FLOAT], num_heads=heads)
    write("heads_mask", op, [q, k, v, None, mask], [FLOAT], num_heads=heads)
    scores = floats(batch, heads, rows, keys)
    write(
        "heads_scores",
        op,
        [q, k, v, None, None, scores],
        [FLOAT],
        num_heads=heads,
        scale=0.3,
    )
    write("heads_causal", op, own, [FLOAT], num_heads=heads, unidirectional=1)
    write(
        "heads_past",
        op,
        [*own, None, None, None, *past],
        [FLOAT, FLOAT, FLOAT],
        num_heads=heads,
        unidirectional=1,
    )
    split = [floats(batch, heads, keys, size), floats(batch, heads, keys, size) + 1]
    write("heads_split", op, [q, *split], [FLOAT], num_heads=heads)


def grouped_query() -> None:
    batch, rows, size = 2, 3, 16
    op, outputs = "GroupQueryAttention", [FLOAT, FLOAT, FLOAT]
    heads: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "constants": [6]}

    def new(count: int, n: int) -> list[np.ndarray | None]:
        return [floats(count, n, 64), floats(count, n, 32), floats(count, n, 32) + 1]

    def cache(count: int, n: int) -> list[np.ndarray | None]:
        return [floats(count, 2, n, size), floats(count, 2, n, size) - 1]

    angles = [floats(16, size // 2), floats(16, size // 2) + 1]
    total = np.array(7, np.int32)
    prompt = np.array(rows, np.int32)
    ends = lengths(6, 6)
    write(
        "grouped_prompt",
        op,
        [*new(batch, rows), None, None, lengths(2, 2), prompt],
        outputs,
        **heads,
    )
    write(
        "grouped_token",
        op,
        [*new(batch, 1), *cache(batch, 6), ends, total],
        outputs,
        **heads,
    )
    rotated = [*cache(batch, 6), ends, total, *angles]
    write(
        "grouped_rotary", op, [*new(batch, 1), *rotated], outputs, do_rotary=1, **heads
    )
    packed = floats(batch, 1, 128)
    write(
        "grouped_packed",
        op,
        [packed, None, None, *rotated],
        outputs,
        do_rotary=1,
        **heads,
    )
    one = [*new(1, rows), *cache(1, 4), lengths(6), total]
    write(
        "grouped_window",
        op,
        one,
        outputs,
        local_window_size=3,
        scale=0.2,
        softcap=5.0,
        **heads,
    )
    scores = [None, None, None, floats(1, 4, rows, 7)]
    write("grouped_scores", op, [*one, *scores], outputs, **heads)
    write(
        "grouped_rotary_pairs",
        op,
        [*one, *angles],
        outputs,
        do_rotary=1,
        rotary_interleaved=1,
        **heads,
    )


def rotary() -> None:
    op = "RotaryEmbedding"
    x, cos, sin = floats(2, 3, 32), floats(16, 8), floats(16, 8) + 1
    each = np.arange(6).reshape(2, 3)
    write("rotary", op, [x, each, cos, sin], [FLOAT])
    write("rotary_offset", op, [x, np.array([2]), cos, sin], [FLOAT], interleaved=1)
    write("rotary_heads", op, [floats(2, 4, 3, 16), np.array([1]), cos, sin], [FLOAT])
    part = [cos[:, :2].copy(), sin[:, :2].copy()]
    write(
        "rotary_part",
        op,
        [x, np.array([1]), *part],
        [FLOAT],
        num_heads=2,
        rotary_embedding_dim=4,
    )


def main() -> None:
    with archived(CASES):
        norms()
        embeddings()
        activations()
        products()
        quantized_operators()
        packed_weights()
        attention()
        multi_head()
        grouped_query()
        rotary()
        layers.write_all()
        quantization.write_all()
        tensors.write_all()
        experts.write_all()
        sequences.write_all()


if __name__ == "__main__":
    main()
