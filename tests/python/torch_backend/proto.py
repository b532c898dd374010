"""Writes ONNX models as protobuf bytes, by the public field numbers of the messages.

ort_engine.py runs the backend's models with ONNX Runtime, which takes nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

#: A value that an attribute of a node may have.
Attribute = int | float | str | bytes | Sequence[int] | Sequence[float]
#: A dim of an input or output: a size, or the name of a size that only a run knows.
Dim = int | str

IR_VERSION = 10
_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS = 1, 2, 3, 4, 5, 6, 7


class Body(bytes):
    """A GraphProto, as an attribute of a node."""


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _number(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value)


def _data(number: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _key(number, _BYTES) + _varint(len(raw)) + raw


def _float(number: int, value: float) -> bytes:
    return _key(number, _FIXED32) + struct.pack("<f", value)


def tensor(name: str, elem_type: int, dims: Iterable[int], raw: bytes) -> bytes:
    """Returns a TensorProto; `raw` has the elements in little-endian order."""
    parts = [_number(1, d) for d in dims]
    return b"".join([*parts, _number(2, elem_type), _data(8, name), _data(9, raw)])


def attribute(name: str, value: Attribute) -> bytes:
    """Returns an AttributeProto whose type follows from the Python type of `value`.

    Bytes are a TensorProto, a Body is a GraphProto. An empty sequence is a list of ints.
    """
    head = _data(1, name)
    if isinstance(value, int):
        return head + _number(3, value) + _number(20, _INT)
    if isinstance(value, float):
        return head + _float(2, value) + _number(20, _FLOAT)
    if isinstance(value, str):
        return head + _data(4, value) + _number(20, _STRING)
    if isinstance(value, Body):
        return head + _data(6, value) + _number(20, _GRAPH)
    if isinstance(value, bytes):
        return head + _data(5, value) + _number(20, _TENSOR)
    if any(isinstance(v, float) for v in value):
        return head + b"".join(_float(7, v) for v in value) + _number(20, _FLOATS)
    return head + b"".join(_number(8, int(v)) for v in value) + _number(20, _INTS)


def node(
    op: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    name: str,
    domain: str,
    attributes: Iterable[bytes],
) -> bytes:
    """Returns a NodeProto. An empty name among the inputs is an operand that is left out."""
    parts = [_data(1, i) for i in inputs] + [_data(2, o) for o in outputs]
    parts += [_data(3, name), _data(4, op)]
    parts += [_data(5, a) for a in attributes]
    if domain:
        parts.append(_data(7, domain))
    return b"".join(parts)


def value_info(name: str, elem_type: int, dims: Iterable[Dim] | None) -> bytes:
    """Returns a ValueInfoProto of a tensor, whose shape is not known if `dims` is None."""
    tensor_type = _number(1, elem_type)
    if dims is not None:
        shape = b"".join(
            _data(1, _number(1, d) if isinstance(d, int) else _data(2, d)) for d in dims
        )
        tensor_type += _data(2, shape)
    return _data(1, name) + _data(2, _data(1, tensor_type))


def output_info(name: str) -> bytes:
    """Returns a ValueInfoProto without a type, which a runtime infers."""
    return _data(1, name)


def graph(
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    name: str,
) -> Body:
    """Returns a GraphProto."""
    parts = [_data(1, n) for n in nodes]
    parts.append(_data(2, name))
    parts += [_data(5, t) for t in initializers]
    parts += [_data(11, i) for i in inputs]
    parts += [_data(12, o) for o in outputs]
    return Body(b"".join(parts))


def model(
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    opsets: dict[str, int],
) -> bytes:
    """Returns a ModelProto of one graph. `opsets` maps domains to their versions."""
    whole = graph(nodes, initializers, inputs, outputs, "torch")
    imports = [
        _data(8, (_data(1, domain) if domain else b"") + _number(2, version))
        for domain, version in opsets.items()
    ]
    return b"".join(
        [
            _number(1, IR_VERSION),
            _data(2, "reprise.torch"),
            _data(7, whole),
            *imports,
        ]
    )
