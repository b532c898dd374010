#!/usr/bin/env python3
"""Writes the cases of this folder: operators of com.microsoft, and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime. The tests read the files that it wrote, so it
only runs when a case changes.
"""

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import write_case

CASES = Path(__file__).resolve().parent / "cases"
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT32
TYPES = {"float32": FLOAT, "int32": INT}


def write(
    name: str, op: str, inputs: list[np.ndarray | None], outputs: list[int | None], **attrs: Any
) -> None:
    """`outputs` are the element types. None stands for an input or output that is omitted."""
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    domain = attrs.pop("domain", "com.microsoft")
    expected = attrs.pop("expected", None)
    node = helper.make_node(
        op,
        ["" if x is None else f"x{i}" for i, x in enumerate(inputs)],
        ["" if t is None else f"y{i}" for i, t in enumerate(outputs)],
        name=op,
        domain=domain,
        **attrs,
    )
    graph = helper.make_graph(
        [node],
        name,
        [
            helper.make_tensor_value_info(n, TYPES[str(x.dtype)], x.shape)
            for n, x in given.items()
        ],
        [
            helper.make_tensor_value_info(f"y{i}", t, None)
            for i, t in enumerate(outputs)
            if t is not None
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    write_case(CASES / name, model, given, expected)


def floats(*dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims) + len(dims)).standard_normal(dims).astype(np.float32)


def numbers(top: int, *dims: int) -> np.ndarray:
    return np.random.default_rng(top + sum(dims)).integers(0, top, dims).astype(np.int32)


def norms() -> None:
    x, skip, row, bias = floats(2, 3, 8), floats(2, 3, 8) * 2, floats(8), floats(8) + 1
    write("simplified_norm", "SimplifiedLayerNormalization", [x, row], [FLOAT], domain="")
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
    write("skip_norm_all", op, [x, skip, row, bias, row], [FLOAT] + [None] * 2 + [FLOAT])
    write("skip_norm_epsilon", op, [x, skip, row, bias], [FLOAT], epsilon=0.1)
    write("skip_norm_one_batch", op, [x, skip[:1], row, bias], [FLOAT])
    write("skip_norm_no_batch", op, [x, skip[0], row, bias], [FLOAT])
    op = "SkipSimplifiedLayerNormalization"
    write("skip_rms", op, [x, skip, row], [FLOAT])
    write("skip_rms_sum", op, [x, skip, row, bias], [FLOAT, None, None, FLOAT], epsilon=1e-5)


def embeddings() -> None:
    op = "EmbedLayerNormalization"
    ids, segments, positions = numbers(10, 2, 5), numbers(2, 2, 5), numbers(7, 2, 5)
    words, places, kinds = floats(10, 8), floats(7, 8), floats(2, 8)
    gamma, beta, mask = floats(8), floats(8), numbers(2, 2, 5)
    tables = [words, places, kinds, gamma, beta]
    write("embed", op, [ids, segments, *tables], [FLOAT, INT])
    write("embed_mask", op, [ids, segments, *tables, mask], [FLOAT, INT], mask_index_type=1)
    write("embed_positions", op, [ids, segments, *tables, mask, positions], [FLOAT, INT, FLOAT])
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
    gelu = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in right.astype(float).ravel()]
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
    write("fused_matmul_trans_b", op, [a, b.swapaxes(2, 3).copy()], [FLOAT], transB=1, alpha=2.0)
    rows = a.transpose(2, 0, 1, 3).copy()
    write("fused_matmul_batch_a", op, [rows, b], [FLOAT], transBatchA=1)
    columns = b.transpose(2, 0, 1, 3).copy()
    write("fused_matmul_batch_b", op, [a, columns], [FLOAT], transBatchB=1)
    both = a.transpose(3, 0, 1, 2).copy()
    write("fused_matmul_batch_and_trans", op, [both, b], [FLOAT], transBatchA=1, transA=1)
    write("fused_matmul_vector", op, [floats(5), b], [FLOAT], alpha=-1.0)


def main() -> None:
    shutil.rmtree(CASES, ignore_errors=True)
    norms()
    embeddings()
    activations()
    products()


if __name__ == "__main__":
    main()
