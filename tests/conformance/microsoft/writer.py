"""Writes the cases of com.microsoft's operators: one node each, with random inputs."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import run_model, write_case

CASES = Path(__file__).resolve().parent / "cases"
FLOAT, INT, BYTE = TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8
INT8, BOOL = TensorProto.INT8, TensorProto.BOOL
TYPES = {
    name: int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))
    for name in (
        "float32",
        "float16",
        "int32",
        "int64",
        "uint8",
        "int8",
        "int16",
        "uint16",
        "bool",
    )
}


def model_of(
    name: str,
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[int | None],
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and its inputs."""
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    domain = attrs.pop("domain", "com.microsoft")
    constants = {f"x{i}" for i in attrs.pop("constants", [])}
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
            if n not in constants
        ],
        [
            helper.make_tensor_value_info(f"y{i}", t, None)
            for i, t in enumerate(outputs)
            if t is not None
        ],
        [numpy_helper.from_array(x, n) for n, x in given.items() if n in constants],
    )
    variable = {n: x for n, x in given.items() if n not in constants}
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), variable


def write(
    name: str,
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[int | None],
    **attrs: Any,
) -> None:
    """`outputs` are the element types. None stands for an input or output that is omitted.

    Attributes that are not those of the node: `constants` are the inputs that are initialisers,
    and `expected` are the results of operators that ONNX Runtime has on GPUs only.
    """
    expected = attrs.pop("expected", None)
    model, variable = model_of(name, op, inputs, outputs, **attrs)
    write_case(CASES / name, model, variable, expected)


def outcome(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[int | None],
    **attrs: Any,
) -> list[np.ndarray]:
    """What ONNX Runtime makes of a node."""
    return run_model(*model_of(op, op, inputs, outputs, **attrs))


def floats(*dims: int) -> np.ndarray:
    return (
        np.random.default_rng(sum(dims) + len(dims))
        .standard_normal(dims)
        .astype(np.float32)
    )


def numbers(top: int, *dims: int) -> np.ndarray:
    return (
        np.random.default_rng(top + sum(dims)).integers(0, top, dims).astype(np.int32)
    )


def quantized(signed: bool, *dims: int) -> np.ndarray:
    values = numbers(256, *dims)
    return (values - 128).astype(np.int8) if signed else values.astype(np.uint8)


def lengths(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f32(x: Any) -> np.ndarray:
    return np.asarray(x, np.float32)
