"""Turns a functional FX graph of ATen operators into an ONNX model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import GraphModule, Node

from . import table
from .dtypes import elem_type
from .errors import Unsupported
from .graph import Graph, Meta, Value
from .symbols import Size, expression, static


@dataclass
class TensorSpec:
    """An input or output of the model, and how it lies in the memory of a PyTorch tensor.

    The model sees the dims in the order of decreasing strides, `order`, so that a tensor with
    channels last is passed as it is.
    """

    dtype: torch.dtype
    dims: tuple[Size, ...]
    order: tuple[int, ...]

    @property
    def stored(self) -> tuple[Size, ...]:
        """The dims in the order of memory."""
        return tuple(self.dims[a] for a in self.order)

    @property
    def in_order(self) -> bool:
        """Whether memory has the order of the dims."""
        return self.order == tuple(range(len(self.order)))


@dataclass
class Lowered:
    """An ONNX model with what the caller needs to run it.

    `inputs` are the positions of arguments that become inputs, with their specs; `symbols` says
    where a run finds the value of each symbol: argument and axis, or axis -1 for a SymInt.
    `extra` lists the inputs that follow those of arguments: a symbol stands for an empty tensor
    with dims [symbol, 0], None for the seed of random numbers.
    `results` has one entry for each result of the FX graph: the spec of an output, the number of
    the argument that is returned, a size, or None.
    """

    model: bytes
    inputs: list[tuple[int, TensorSpec]]
    results: list[TensorSpec | int | SizeResult | None]
    symbols: dict[sympy.Symbol, tuple[int, int]]
    extra: list[sympy.Symbol | None]


@dataclass
class SizeResult:
    """A result of the FX graph that is a size."""

    size: Size


def memory_order(fake: torch.Tensor) -> tuple[int, ...]:
    """Returns the dims by decreasing stride if the tensor is dense in that order, else 0, 1, ..."""
    identity = tuple(range(fake.dim()))
    sizes, strides = list(fake.shape), list(fake.stride())
    if not all(static(s) for s in [*sizes, *strides]):
        return identity
    order = sorted(identity, key=lambda a: (-int(strides[a]), a))
    expected = 1
    for axis in reversed(order):
        if int(sizes[axis]) != 1:
            if int(strides[axis]) != expected:
                return identity
            expected *= int(sizes[axis])
    return tuple(order)


def source_of(node: Node) -> str:
    """Returns the user's line that made a node, as "file:line, code", or "" if it is not known."""
    trace = node.meta.get("stack_trace")
    if not trace:
        return ""
    lines = [line.strip() for line in str(trace).strip().splitlines()]
    for place, line in enumerate(lines):
        if line.startswith("File "):
            last = place
    if not any(line.startswith("File ") for line in lines):
        return lines[-1]
    code = lines[last + 1] if last + 1 < len(lines) else ""
    return f"{lines[last]}: {code}" if code else lines[last]


def fake_value(node: Node) -> Any:
    """Returns the fake result of a node: a tensor, a size, or a list of these."""
    return node.meta.get("val")


def is_size(value: Any) -> bool:
    """Returns whether a fake result is a number that the host computes."""
    return isinstance(value, (int, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def _meta(fake: Any) -> list[Meta]:
    if isinstance(fake, torch.Tensor):
        return [Meta(fake.dtype, tuple(fake.shape))]
    if isinstance(fake, (list, tuple)):
        found: list[Meta] = []
        for f in fake:
            found += (
                _meta(f) if isinstance(f, torch.Tensor) else [Meta(torch.float32, ())]
            )
        return found
    raise Unsupported("its result is not a tensor")


class Lowering:
    """Lowers nodes one after another; `env` has what each FX node became."""

    def __init__(self, constants: Callable[[str], torch.Tensor]) -> None:
        self.graph = Graph()
        self.env: dict[Node, Any] = {}
        self._constants = constants

    def argument(self, argument: Any) -> Any:
        """Replaces nodes in an argument by values, sizes and constants."""
        if isinstance(argument, Node):
            return self.env[argument]
        if isinstance(argument, (list, tuple)):
            return [self.argument(a) for a in argument]
        if isinstance(argument, dict):
            return {k: self.argument(v) for k, v in argument.items()}
        if isinstance(argument, torch.SymInt) and static(argument):
            return int(expression(argument))
        return argument

    def attribute(self, node: Node) -> None:
        """Lowers a constant of the module."""
        constant = self._constants(str(node.target))
        elem_type(constant.dtype)
        self.env[node] = self.graph.constant(constant)

    def call(self, node: Node) -> None:
        """Lowers the call of an operator, or raises Unsupported."""
        fake = fake_value(node)
        if is_size(fake):
            self.env[node] = _known_size(fake)
            return
        if node.target is operator.getitem:
            items = self.env[node.args[0]]  # type: ignore[index]
            self.env[node] = items[node.args[1]]
            return
        function = table.find(node.target)
        if function is None:
            raise Unsupported("the table has no row for it")
        graph = self.graph
        graph.name, graph.target, graph.outs = node.name, str(node.target), _meta(fake)
        first = next((a for a in node.args if isinstance(a, Node)), None)
        first_fake = fake_value(first) if first is not None else None
        graph.fake = first_fake if isinstance(first_fake, torch.Tensor) else None
        for meta in graph.outs:
            elem_type(meta.dtype)
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
        result = function(graph, *self.argument(node.args), **kwargs)
        if isinstance(fake, torch.Tensor):
            value = result if isinstance(result, Value) else result[0]
            self.env[node] = self._finish(value, graph.outs[0])
        else:
            assert not isinstance(result, Value)
            self.env[node] = [
                self._finish(r, m) for r, m in zip(result, graph.outs, strict=True)
            ]

    def _finish(self, value: Value | None, meta: Meta) -> Value | None:
        """Gives a result the dtype and shape that PyTorch has found."""
        if value is None:
            return None
        cast = self.graph.cast(value, meta.dtype)
        return Value(cast.name, meta.dtype, meta.shape)


def _known_size(fake: Any) -> Any:
    if isinstance(fake, torch.SymInt) and static(fake):
        return int(expression(fake))
    return fake


def constant_of(module: torch.nn.Module, target: str) -> torch.Tensor:
    """Returns the tensor that a get_attr node reads."""
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part)
    if not isinstance(found, torch.Tensor):
        raise Unsupported(f"the attribute {target} is not a tensor")
    return found


def _find_symbols(placeholders: Sequence[Node]) -> dict[sympy.Symbol, tuple[int, int]]:
    found: dict[sympy.Symbol, tuple[int, int]] = {}
    for number, node in enumerate(placeholders):
        fake = fake_value(node)
        if isinstance(fake, torch.SymInt):
            expr = expression(fake)
            if expr.is_Symbol:
                found.setdefault(expr, (number, -1))
        elif isinstance(fake, torch.Tensor):
            for axis, dim in enumerate(fake.shape):
                expr = expression(dim)
                if expr.is_Symbol:
                    found.setdefault(expr, (number, axis))
    return found


def lower(
    gm: GraphModule,
    frozen: dict[int, torch.Tensor] | None = None,
    in_order: bool = False,
) -> Lowered:
    """Lowers a whole graph module. Raises Unsupported if a node of it cannot be lowered.

    `frozen` gives arguments that become constants, by position. With `in_order`, inputs and outputs
    of the model have the order of their dims whatever their strides are.
    """
    frozen = frozen or {}
    lowering = Lowering(lambda target: constant_of(gm, target))
    graph = lowering.graph
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    inputs: list[tuple[int, TensorSpec]] = []
    numbers: dict[Node, int] = {}
    for number, node in enumerate(placeholders):
        numbers[node] = number
        fake = fake_value(node)
        if number in frozen:
            lowering.env[node] = graph.constant(frozen[number])
        elif is_size(fake):
            lowering.env[node] = _known_size(fake)
        elif not isinstance(fake, torch.Tensor):
            raise Unsupported(f"the argument {node.name} is not a tensor")
        elif node.users:
            spec = _spec(fake, in_order)
            inputs.append((number, spec))
            lowering.env[node] = _input(graph, node.name, spec)
    results: list[TensorSpec | int | SizeResult | None] = []
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            lowering.attribute(node)
        elif node.op == "call_function":
            lowering.call(node)
        elif node.op == "output":
            listed = node.args[0]
            listed = listed if isinstance(listed, (list, tuple)) else [listed]
            graph.name = "result"
            results = [_result(lowering, r, numbers, in_order) for r in listed]
    symbols = _find_symbols(placeholders)
    for symbol in graph.extra_inputs:
        if symbol is not None and symbol not in symbols:
            raise Unsupported(f"no input has the size {symbol}")
    return Lowered(graph.model(), inputs, results, symbols, graph.extra_inputs)


def _input(graph: Graph, name: str, spec: TensorSpec) -> Value:
    stored = graph.add_input(name, spec.dtype, spec.stored)
    inverse = [spec.order.index(a) for a in range(len(spec.order))]
    graph.name = name
    value = graph.transpose(stored, inverse)
    return Value(value.name, spec.dtype, spec.dims)


def _spec(fake: torch.Tensor, in_order: bool) -> TensorSpec:
    order = tuple(range(fake.dim())) if in_order else memory_order(fake)
    return TensorSpec(fake.dtype, tuple(fake.shape), order)


def _result(
    lowering: Lowering, node: Any, numbers: dict[Node, int], in_order: bool
) -> TensorSpec | int | SizeResult | None:
    if node is None:
        return None
    if not isinstance(node, Node):
        return SizeResult(node)
    if node in numbers:
        return numbers[node]
    fake, value = fake_value(node), lowering.env[node]
    if is_size(fake):
        return SizeResult(fake)
    if value is None:
        return None
    spec = _spec(fake, in_order)
    lowering.graph.add_output(
        Value(lowering.graph.transpose(value, spec.order).name, spec.dtype, spec.stored)
    )
    return spec
