"""Models for the tests, written as bytes of ONNX, so that no other package is needed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

FLOAT, UINT8, INT64, STRING, BOOL, FLOAT16, BFLOAT16 = 1, 2, 7, 8, 9, 10, 16
Dims = Sequence[int | str]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def attribute(name: str, value: int) -> bytes:
    """An attribute of a node with an integer."""
    return _bytes(1, name) + _number(3, value) + _number(20, 2)


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], *attributes: bytes
) -> bytes:
    """A node, named by its operator and first output."""
    body = b"".join(_bytes(1, name) for name in inputs)
    body += b"".join(_bytes(2, name) for name in outputs)
    body += _bytes(3, f"{op}_{outputs[0]}") + _bytes(4, op)
    return body + b"".join(_bytes(5, a) for a in attributes)


def value(name: str, dtype: int, dims: Dims) -> bytes:
    """An input or output."""
    shape = b"".join(
        _bytes(1, _number(1, d) if isinstance(d, int) else _bytes(2, d)) for d in dims
    )
    tensor = _number(1, dtype) + _bytes(2, shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


def floats(name: str, dims: Sequence[int], values: Sequence[float]) -> bytes:
    """A constant of float32."""
    body = b"".join(_number(1, d) for d in dims) + _number(2, FLOAT)
    return body + _bytes(8, name) + _bytes(9, struct.pack(f"<{len(values)}f", *values))


def model(
    nodes: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    constants: Sequence[bytes] = (),
    opset: int = 18,
) -> bytes:
    """A model file."""
    graph = b"".join(_bytes(1, n) for n in nodes) + _bytes(2, "test")
    graph += b"".join(_bytes(5, c) for c in constants)
    graph += b"".join(_bytes(11, i) for i in inputs)
    graph += b"".join(_bytes(12, o) for o in outputs)
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, opset))


def unary(op: str, dtype: int = FLOAT, dims: Dims = (2, 3)) -> bytes:
    """y = op(x)."""
    return model(
        [node(op, ["x"], ["y"])], [value("x", dtype, dims)], [value("y", dtype, dims)]
    )


def binary(op: str, dtype: int = FLOAT, dims: Dims = (2, 3)) -> bytes:
    """c = op(a, b)."""
    return model(
        [node(op, ["a", "b"], ["c"])],
        [value("a", dtype, dims), value("b", dtype, dims)],
        [value("c", dtype, dims)],
    )


def pointwise() -> bytes:
    """y = relu(x * x + x) of [batch, 4], as one kernel."""
    dims = ("batch", 4)
    return model(
        [
            node("Mul", ["x", "x"], ["s"]),
            node("Add", ["s", "x"], ["t"]),
            node("Relu", ["t"], ["y"]),
        ],
        [value("x", FLOAT, dims)],
        [value("y", FLOAT, dims)],
    )
