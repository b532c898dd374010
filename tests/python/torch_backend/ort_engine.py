"""Runs the models of the backend with ONNX Runtime, to tell faults of the table from others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import proto
import sympy
import torch
from reprise.torch.dtypes import elem_type
from reprise.torch.engine import CompileError, Kernels
from reprise.torch.model import OPSET, Attribute, Body, Model, Node, SizeNode
from reprise.torch.symbols import linear


class _Writer:
    """Writes a model as ONNX, in which sizes are those of dims of inputs."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._constants: list[bytes] = []
        self._count = 0

    def bytes(self) -> bytes:
        model = self._model
        nodes = [b for n in model.nodes for b in self._node(n)]
        constants = [
            proto.tensor(c.name, elem_type(c.dtype), c.dims, c.raw)
            for c in model.constants
        ]
        inputs = [
            proto.value_info(
                i.name,
                elem_type(i.dtype),
                [int(d) if getattr(d, "is_Integer", False) else str(d) for d in i.dims],
            )
            for i in model.inputs
        ]
        outputs = [proto.output_info(name) for name, _ in model.outputs]
        return proto.model(
            nodes,
            [*constants, *self._constants],
            inputs,
            outputs,
            {"": OPSET, "com.microsoft": 1},
        )

    def _node(self, node: Node | SizeNode) -> list[bytes]:
        if isinstance(node, SizeNode):
            found: list[bytes] = []
            sizes = [self._size(s, found) for s in node.sizes]
            if node.scalar:
                found.append(self._op("Identity", sizes, node.output))
                return found
            parts = [self._new() for _ in sizes]
            one = self._vector([1])
            for size, part in zip(sizes, parts, strict=True):
                found.append(self._op("Reshape", [size, one], part))
            found.append(self._op("Concat", parts, node.output, axis=0))
            return found
        attributes = [
            proto.attribute(k, self._attribute(v)) for k, v in node.attributes.items()
        ]
        return [
            proto.node(node.op, node.inputs, node.outputs, node.name, "", attributes)
        ]

    def _attribute(self, value: Attribute) -> proto.Attribute:
        if not isinstance(value, Body):
            return value
        nodes = [b for n in value.nodes for b in self._node(n)]
        inputs = [proto.output_info(i) for i in value.inputs]
        outputs = [proto.output_info(o) for o in value.outputs]
        return proto.graph(nodes, [], inputs, outputs, value.name)

    def _new(self) -> str:
        self._count += 1
        return f"written_{self._count}"

    def _op(
        self, op: str, inputs: Sequence[str], output: str, **attributes: int
    ) -> bytes:
        encoded = [proto.attribute(k, v) for k, v in attributes.items()]
        return proto.node(op, inputs, [output], output, "", encoded)

    def _number(self, number: int) -> str:
        name = self._new()
        self._constants.append(
            proto.tensor(name, 7, [], int(number).to_bytes(8, "little", signed=True))
        )
        return name

    def _vector(self, numbers: Sequence[int]) -> str:
        name = self._new()
        raw = b"".join(int(n).to_bytes(8, "little", signed=True) for n in numbers)
        self._constants.append(proto.tensor(name, 7, [len(numbers)], raw))
        return name

    def _symbol(self, symbol: sympy.Symbol, to: list[bytes]) -> str:
        for given in self._model.inputs:
            for axis, dim in enumerate(given.dims):
                form = linear(dim) if isinstance(dim, sympy.Expr) else None
                if form is None or form.symbol != symbol:
                    continue
                shape, size = self._new(), self._new()
                to.append(self._op("Shape", [given.name], shape))
                to.append(self._op("Gather", [shape, self._number(axis)], size, axis=0))
                for op, number in (("Sub", form.offset), ("Div", form.scale)):
                    result = self._new()
                    to.append(self._op(op, [size, self._number(number)], result))
                    size = result
                return size
        raise CompileError(f"no input has the size {symbol}")

    def _size(self, size: sympy.Expr, to: list[bytes]) -> str:
        if size.is_Integer:
            return self._number(size)
        if size.is_Symbol:
            return self._symbol(size, to)
        parts = [self._size(a, to) for a in size.args]
        if size.is_Pow:
            parts = [parts[0]] * int(size.args[1])
        op = {"FloorDiv": "Div", "CleanDiv": "Div", "PythonMod": "Mod", "Pow": "Mul"}
        name = type(size).__name__
        total = parts[0]
        for part in parts[1:]:
            result = self._new()
            to.append(self._op(op.get(name, name), [total, part], result))
            total = result
        return total


class OrtProgram:
    weights = "watch"

    def __init__(self, model: Model) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        try:
            self._session = onnxruntime.InferenceSession(
                _Writer(model).bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise CompileError(str(error)) from error
        self._names = [i.name for i in self._session.get_inputs()]

    def run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        feed = {
            n: np.asarray(t.numpy()) for n, t in zip(self._names, inputs, strict=True)
        }
        for made, output in zip(self._session.run(None, feed), outputs, strict=True):
            assert tuple(made.shape) == tuple(output.shape), (made.shape, output.shape)
            output.copy_(torch.from_numpy(np.array(made, order="C")))

    def kernels(self) -> Kernels:
        return Kernels()

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
        return stored


class OrtEngine:
    def compile(self, model: Model) -> OrtProgram:
        return OrtProgram(model)
