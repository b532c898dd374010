#!/usr/bin/env python3
"""Writes the cases of this folder: FlexAttention, and what ONNX's reference makes of it.

Run it with a Python that has onnx 1.22 or later. The tests read cases.tar.xz, which it wrote.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, helper, parser
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, write_case

CASES = Path(__file__).resolve().parent / "cases"

BIAS = """
bias (float[B,H,L,S] scores) => (float[B,H,L,S] changed) <float half = {0.5}> {
    changed = Add (scores, half)
}
"""
CAUSAL = """
causal (float[B,H,L,S] scores) => (float[B,H,L,S] changed)
<int64 zero = {0}, int64 one = {1}, int64[2] column = {-1, 1}, float hidden = {-10000.0}> {
    dims = Shape (scores)
    row_axis = Constant <value: tensor = int64 {2}> ()
    key_axis = Constant <value: tensor = int64 {3}> ()
    rows = Gather <axis: int = 0> (dims, row_axis)
    keys = Gather <axis: int = 0> (dims, key_axis)
    row_range = Range (zero, rows, one)
    row = Reshape (row_range, column)
    key = Range (zero, keys, one)
    visible = LessOrEqual (key, row)
    changed = Where (visible, scores, hidden)
}
"""
CAPPED = """
capped (float[B,H,L,S] scores) => (float[B,H,L,S] changed) <float cap = {2.0}> {
    part = Div (scores, cap)
    turned = Tanh (part)
    changed = Mul (turned, cap)
}
"""
SHARPER = """
sharper (float[B,H,L,S] probs) => (float[B,H,L,S] changed) {
    changed = Mul (probs, probs)
}
"""


def floats(kind: type, *dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(kind)


def body(text: str) -> GraphProto:
    return parser.parse_graph(text)


def write(name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, **attrs: Any) -> None:
    given = {"Q": q, "K": k, "V": v}
    kind = int(helper.np_dtype_to_tensor_dtype(q.dtype))
    node = helper.make_node(
        "FlexAttention",
        list(given),
        ["Y"],
        name="attention",
        domain="ai.onnx.preview",
        **attrs,
    )
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_tensor_value_info(n, kind, x.shape) for n, x in given.items()],
        [helper.make_tensor_value_info("Y", kind, None)],
    )
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=13)
    results = [np.asarray(y) for y in ReferenceEvaluator(model).run(None, given)]
    write_case(CASES / name, model, given, results)


def main() -> None:
    with archived(CASES):
        q, k, v = (floats(np.float32, 2, 4, n, 8) for n in (3, 5, 5))
        v = v[..., :6].copy()
        write("flex", q, k, v)
        write("flex_scale", q, k, v, scale=0.3)
        write("flex_groups", q, k[:, :2].copy(), v[:, :2].copy())
        write("flex_one_head", q, k[:, :1].copy(), v[:, :1].copy(), score_mod=body(CAUSAL))
        write("flex_bias", q, k, v, score_mod=body(BIAS))
        write("flex_causal", q, k, v, score_mod=body(CAUSAL))
        write("flex_capped", q, k, v, score_mod=body(CAPPED), prob_mod=body(SHARPER))
        half = [x.astype(np.float16) for x in (q, k, v)]
        write("flex_half", *half, score_mod=body(CAPPED))


if __name__ == "__main__":
    main()
