#!/usr/bin/env python3
"""Writes the cases of this folder: models of which the inputs of a run decide ranks, plans, or whether
a branch fits; and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import parser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, write_case

CASES = Path(__file__).resolve().parent / "cases"

# name: (model in ONNX's text form, inputs)
MODELS: dict[str, tuple[str, dict[str, np.ndarray]]] = {}
# The results of models that ONNX Runtime refuses.
OUTPUTS: dict[str, list[np.ndarray]] = {}


def case(name: str, model: str, **inputs: np.ndarray) -> None:
    MODELS[name] = (model, inputs)


def floats(*dims: int) -> np.ndarray:
    count = int(np.prod(dims))
    return (
        (np.arange(count, dtype=np.float32) * 0.37 % 2 - 0.9)
        .reshape(dims)
        .astype(np.float32)
    )


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


HEAD = '<ir_version: 8, opset_import: ["" : 13]>\n'
LEAST, MOST = -(2**63), 2**63 - 1

# --- Slices near the limits of int64 ---------------------------------------------------------------

for name, start, end, step in (
    ("step", 0, MOST, MOST),
    ("step_from_the_middle", 2, MOST, MOST),
    ("step_below_the_most", 1, 5, MOST - 1),
    ("step_backwards", MOST, LEAST, -MOST),
    ("step_of_the_least", -1, LEAST, LEAST),
    ("start", LEAST, 3, 2),
    ("end", -2, MOST, 1),
    ("end_backwards", MOST, LEAST, -2),
):
    case(
        f"slice_far_{name}",
        HEAD
        + f"""g (float[n,6] x) => (float[m,k] y) <int64[2] s = {{{start}, {start}}},
  int64[2] e = {{{end}, {end}}}, int64[2] a = {{0, 1}}, int64[2] t = {{{step}, {step}}}> {{
  y = Slice(x, s, e, a, t)
}}""",
        x=floats(5, 6),
    )
case(
    "slice_far_step_by_inputs",
    HEAD
    + """g (float[n,6] x, int64[1] s, int64[1] e, int64[1] t) => (float[n,k] y)
<int64[1] a = {1}> {
  y = Slice(x, s, e, a, t)
}""",
    x=floats(2, 6),
    s=ints(4),
    e=ints(MOST),
    t=ints(MOST),
)

# --- Inputs with default values --------------------------------------------------------------------

DEFAULTS = (
    HEAD
    + """g (float[n,3] x, float[3] b, float[m] c) => (float[n,3] y, float[k] z)
<float[3] b = {1, 2, 3}, float[2] c = {5, 7}> {
  sum = Add(x, b)
  y = Tanh(sum)
  z = Mul(c, c)
}"""
)
case("default_left_out", DEFAULTS, x=floats(2, 3))
case("default_given", DEFAULTS, x=floats(2, 3), b=floats(3))
case("default_of_another_size_given", DEFAULTS, x=floats(2, 3), c=floats(4))
case("defaults_all_given", DEFAULTS, x=floats(4, 3), b=floats(3), c=floats(1))
DEFAULT_SHAPE = (
    HEAD
    + """g (float[n] x, int64[r] s) => (float[] y) <int64[2] s = {2, -1}> {
  a = Reshape(x, s)
  y = Neg(a)
}"""
)
case("default_shape_left_out", DEFAULT_SHAPE, x=floats(12))
case("default_shape_given", DEFAULT_SHAPE, x=floats(12), s=ints(2, 3, -1))

# --- Squeeze without axes --------------------------------------------------------------------------

SQUEEZE = (
    HEAD
    + """g (float[b,3,1] x) => (float[] y) {
  s = Squeeze(x)
  y = Sigmoid(s)
}"""
)
case("squeeze_of_one", SQUEEZE, x=floats(1, 3, 1))
case("squeeze_of_more", SQUEEZE, x=floats(4, 3, 1))
POOLED = (
    HEAD
    + """g (float[n,3,h,w] x, float[3,2] m) => (float[] y) {
  p = GlobalAveragePool(x)
  s = Squeeze(p)
  y = MatMul(s, m)
}"""
)
case("squeeze_of_a_global_pool_of_one", POOLED, x=floats(1, 3, 4, 5), m=floats(3, 2))
case("squeeze_of_a_global_pool", POOLED, x=floats(2, 3, 4, 5), m=floats(3, 2))
SQUEEZE_COMPUTED = (
    HEAD
    + """g (float[n] x, int64[3] s) => (float[] y) {
  a = Reshape(x, s)
  b = Squeeze(a)
  y = Exp(b)
}"""
)
case("squeeze_of_sizes_by_values", SQUEEZE_COMPUTED, x=floats(6), s=ints(2, 1, -1))
case(
    "squeeze_of_sizes_by_values_all_kept",
    SQUEEZE_COMPUTED,
    x=floats(12),
    s=ints(2, 3, -1),
)

# --- Branches --------------------------------------------------------------------------------------

IF_SIZE = (
    HEAD
    + """g (float[b,3,4] x) => (float[] y) <int64[1] zero = {0}, int64 first = {0}, int64 one = {1}> {
  shape = Shape(x)
  size = Gather(shape, first)
  c = Equal(size, one)
  q = If (c) <then_branch = t () => (float[] t1) { t1 = Squeeze(x, zero) },
    else_branch = e () => (float[] e1) { e1 = Identity(x) }>
  y = Neg(q)
}"""
)
case("if_squeeze_of_one", IF_SIZE, x=floats(1, 3, 4))
case("if_squeeze_of_two", IF_SIZE, x=floats(2, 3, 4))
case("if_squeeze_of_none", IF_SIZE, x=floats(0, 3, 4))
IF_FLAG = (
    HEAD
    + """g (float[n,3] x, bool flag) => (float[] y) <int64[1] zero = {0}> {
  q = If (flag) <then_branch = t () => (float[] t1) { t1 = Unsqueeze(x, zero) },
    else_branch = e () => (float[] e1) { e1 = Exp(x) }>
  y = Neg(q)
}"""
)
for flag in (True, False):
    case(f"if_rank_by_a_flag_{int(flag)}", IF_FLAG, x=floats(2, 3), flag=np.array(flag))
INVALID_AFTER = (
    HEAD
    + """g (float[n,4] x, float[k] d, int64[n,1] i, float[1] w) => (float[k] y)
<float big = {1000000}, int64[1] one = {1}, int64[1,2] both = {0, 1}> {
  s = ReduceSum <keepdims = 0> (x)
  c = Greater(s, big)
  q = If (c) <then_branch = t () => (float[] t1) { t1 = Gather <axis = 1> (x, both) },
    else_branch = e () => (float[] e1) { e1 = Mul(x, w) }>
  rows = ReduceSum <keepdims = 1> (q, one)
  u = Squeeze(rows, one)
  y = ScatterND(d, i, u)
}"""
)
case(
    "branch_that_does_not_fit_what_follows",
    INVALID_AFTER,
    x=floats(3, 4),
    d=floats(7),
    i=ints(1, 4, 2).reshape(3, 1),
    w=floats(1),
)
INVALID_INSIDE = (
    HEAD
    + """g (float[n,4] x, float limit) => (float[n,4] y) <float[3] three = {1, 2, 3}> {
  s = ReduceSum <keepdims = 0> (x)
  c = Greater(s, limit)
  q = If (c) <then_branch = t () => (float[] t1) { t2 = Exp(x)
    t1 = Mul(t2, three) },
    else_branch = e () => (float[] e1) { e1 = Tanh(x) }>
  y = Neg(q)
}"""
)
case(
    "branch_that_does_not_fit_within",
    INVALID_INSIDE,
    x=floats(3, 4),
    limit=np.array(1000, np.float32),
)
OUTPUTS["branch_that_does_not_fit_within"] = [-np.tanh(floats(3, 4))]

INVALID_ELSE = (
    HEAD
    + """g (float[n,4] x, bool c, float[4,2] w) => (float[] y) <float[3] three = {1, 2, 3}> {
  q = If (c) <then_branch = t () => (float[] t1) { t1 = Tanh(x) },
    else_branch = e () => (float[] e1) { e1 = Mul(x, three) }>
  r = If (c) <then_branch = t () => (float[] t2) { t2 = Neg(q) },
    else_branch = e () => (float[] e2) { e2 = Flatten <axis = 0> (q) }>
  s = If (c) <then_branch = t () => (float[] t3) { t3 = MatMul(r, w) },
    else_branch = e () => (float[] e3) { e3 = ReduceSum <keepdims = 0> (r) }>
  y = Concat <axis = 1> (s, x)
}"""
)
case(
    "else_branches_that_do_not_fit",
    INVALID_ELSE,
    x=floats(3, 4),
    c=np.array(True),
    w=floats(4, 2),
)
OUTPUTS["else_branches_that_do_not_fit"] = [
    np.concatenate([-np.tanh(floats(3, 4)) @ floats(4, 2), floats(3, 4)], axis=1)
]

# --- Ranks that inputs decide ----------------------------------------------------------------------

RESHAPE = (
    HEAD
    + """g (float[k] x, int64[r] s) => (float[] y, int64[1] n) {
  n = Shape(s)
  a = Exp(x)
  y = Reshape(a, s)
}"""
)
case("reshape_to_three", RESHAPE, x=floats(12), s=ints(2, -1, 3))
case("reshape_to_one", RESHAPE, x=floats(12), s=ints(-1))
case(
    "expand_by_an_input",
    HEAD
    + """g (float[3] x, int64[r] s) => (float[] y) {
  a = Expand(x, s)
  y = Neg(a)
}""",
    x=floats(3),
    s=ints(2, 4, 3),
)
case(
    "constant_of_shape_by_an_input",
    HEAD
    + """g (int64[r] s, float[1] x) => (float[] y) {
  a = ConstantOfShape <value = float[1] {2.5}> (s)
  y = Add(a, x)
}""",
    s=ints(2, 2, 3),
    x=floats(1),
)
case(
    "unsqueeze_by_an_input",
    HEAD
    + """g (float[2,3] x, int64[r] a) => (float[] y) {
  u = Unsqueeze(x, a)
  y = Relu(u)
}""",
    x=floats(2, 3),
    a=ints(0, -1),
)
case(
    "reduce_by_an_input",
    HEAD
    + """g (float[2,3,4] x, int64[r] a) => (float[] y) {
  s = ReduceSum <keepdims = 0> (x, a)
  y = Relu(s)
}""",
    x=floats(2, 3, 4),
    a=ints(0, -1),
)
WITHOUT_RANK = (
    HEAD
    + """g (float[] x) => (float[] y) <float one = {1}> {
  a = Relu(x)
  y = Add(a, one)
}"""
)
# parser.parse_model makes float[] a scalar; see without_rank().
case("without_rank_matrix", WITHOUT_RANK, x=floats(2, 3))
case("without_rank_scalar", WITHOUT_RANK, x=np.array(-2.5, np.float32))
case(
    "without_rank_matmul",
    HEAD
    + """g (float[] x, float[3,2] w) => (float[] y) {
  y = MatMul(x, w)
}""",
    x=floats(4, 2, 3),
    w=floats(3, 2),
)
case(
    "without_rank_two_inputs",
    HEAD
    + """g (float[] x, float[] z) => (float[] y) {
  a = Concat <axis = -1> (x, z)
  y = Softmax <axis = -1> (a)
}""",
    x=floats(2, 3),
    z=floats(2, 4),
)
CONV = (
    HEAD
    + """g (float[1,2,h,w] x, float[3,2,kh,kw] k) => (float[1,3,oh,ow] y) {
  c = Conv(x, k)
  y = Relu(c)
}"""
)
case("conv_of_a_kernel_by_an_input", CONV, x=floats(1, 2, 6, 5), k=floats(3, 2, 3, 2))
case("conv_of_a_kernel_of_one", CONV, x=floats(1, 2, 6, 5), k=floats(3, 2, 1, 1))
case(
    "conv_transpose_of_a_kernel_by_an_input",
    HEAD
    + """g (float[1,2,h] x, float[2,3,k] w) => (float[1,3,o] y) {
  y = ConvTranspose <strides = [2]> (x, w)
}""",
    x=floats(1, 2, 4),
    w=floats(2, 3, 3),
)

# --- Pools -----------------------------------------------------------------------------------------

for op in ("MaxPool", "AveragePool", "LpPool"):
    case(
        f"{op.lower()}_of_less_than_a_window",
        HEAD
        + f"""g (float[1,2,n] x) => (float[1,2,m] y) {{
  p = {op} <kernel_shape = [8], strides = [3]> (x)
  y = Neg(p)
}}""",
        x=floats(1, 2, 3),
    )
case(
    "maxpool_of_a_short_axis",
    HEAD
    + """g (float[1,2,5,3] x) => (float[1,2,m,k] y) {
  a = MaxPool <kernel_shape = [2, 6], strides = [1, 2]> (x)
  y = Relu(a)
}""",
    x=floats(1, 2, 5, 3),
)

# --- Scalars ---------------------------------------------------------------------------------------

case(
    "scalar_given_as_a_vector",
    HEAD
    + """g (float[n,2] x, int64 count, float scale) => (float[n,2] y, float[k] r) {
  y = Mul(x, scale)
  one = Constant <value = int64 {1}> ()
  zero = Constant <value = int64 {0}> ()
  range = Range(zero, count, one)
  r = Cast <to = 1> (range)
}""",
    x=floats(3, 2),
    count=ints(4),
    scale=np.array([[0.5]], np.float32),
)


def without_rank(name: str, model: object) -> None:
    """Drops the shapes that the text form gives inputs and outputs."""
    if name.startswith("without_rank"):
        for slot in model.graph.input:
            if slot.name in ("x", "z"):
                slot.type.tensor_type.ClearField("shape")
    for slot in model.graph.output:
        if len(slot.type.tensor_type.shape.dim) == 0 and slot.name == "y":
            slot.type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        for attribute in node.attribute:
            for slot in attribute.g.output:
                slot.type.tensor_type.ClearField("shape")


def main() -> None:
    with archived(CASES):
        for name, (text, inputs) in MODELS.items():
            model = parser.parse_model(text)
            without_rank(name, model)
            write_case(CASES / name, model, inputs, OUTPUTS.get(name))


if __name__ == "__main__":
    main()
