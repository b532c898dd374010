"""Turns a functional FX graph of ATen operators into an ONNX model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import GraphModule, Node

from . import complexes, table
from .checks import Check, Place, is_check, is_token, note
from .complexes import PARTS, Complex
from .dtypes import elem_type
from .errors import Unsupported
from .graph import Graph, Meta, Value
from .symbols import Size, expression, static


@dataclass
class TensorSpec:
    """An input or output of the model, and how it lies in the memory of a PyTorch tensor.

    The model sees the dims in the order of decreasing strides, `order`, so that a tensor with
    channels last is passed as it is. A complex tensor is a real one with a last dim of 2.
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
    the argument that is returned, a size, or None. Those that `checks` read follow.
    """

    model: bytes
    inputs: list[tuple[int, TensorSpec]]
    results: list[TensorSpec | int | SizeResult | None]
    symbols: dict[sympy.Symbol, tuple[int, int]]
    extra: list[sympy.Symbol | None]
    checks: list[Check]


@dataclass
class Names:
    """Names for arguments and results, by position, and for the seed of the next run.

    A result with a name becomes an output even if it is an argument.
    """

    arguments: dict[int, str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    seed: str | None = None


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
        self.env[node] = constant_value(self.graph, self._constants(str(node.target)))

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
        if is_check(node):
            self.env[node] = self.check(node)
            return
        graph = self.graph
        graph.name, graph.target, graph.outs = node.name, str(node.target), _meta(fake)
        first = next((a for a in node.args if isinstance(a, Node)), None)
        first_fake = fake_value(first) if first is not None else None
        graph.fake = first_fake if isinstance(first_fake, torch.Tensor) else None
        for meta in graph.outs:
            elem_type(PARTS.get(meta.dtype, meta.dtype))
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
        result = self._result(node.target, self.argument(node.args), kwargs)
        if isinstance(fake, torch.Tensor):
            value = result if isinstance(result, (Value, Complex)) else result[0]
            self.env[node] = self._finish(value, graph.outs[0])
        else:
            assert not isinstance(result, (Value, Complex))
            self.env[node] = [
                self._finish(r, m) for r, m in zip(result, graph.outs, strict=True)
            ]

    def _result(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        function = table.find(target)
        if complexes.involved([args, kwargs], self.graph.outs):
            return complexes.call(self.graph, target, args, kwargs)
        if function is None:
            raise Unsupported("the table has no row for it")
        return function(self.graph, *args, **kwargs)

    def check(self, node: Node) -> Any:
        """Notes an assertion, which is made after the run."""
        return note(self.graph, node, self.argument)

    def _finish(self, value: Any, meta: Meta) -> Any:
        """Gives a result the dtype and shape that PyTorch has found."""
        if isinstance(value, Complex):
            part = Meta(PARTS[meta.dtype], meta.shape)
            real, imag = (self._finish(p, part) for p in (value.real, value.imag))
            return Complex(real, imag, meta.dtype)
        if value is None:
            return None
        cast = self.graph.cast(value, meta.dtype)
        return Value(cast.name, meta.dtype, meta.shape)


def constant_value(graph: Graph, constant: torch.Tensor) -> Value | Complex:
    """Returns a constant, real or complex."""
    if constant.dtype in PARTS:
        return complexes.constant(graph, constant)
    elem_type(constant.dtype)
    return graph.constant(constant)


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
    names: Names | None = None,
) -> Lowered:
    """Lowers a whole graph module. Raises Unsupported if a node of it cannot be lowered.

    `frozen` gives arguments that become constants, by position. With `in_order`, inputs and outputs
    of the model have the order of their dims whatever their strides are. `names` are those of inputs
    and outputs.
    """
    frozen, names = frozen or {}, names or Names()
    lowering = Lowering(lambda target: constant_of(gm, target))
    graph = lowering.graph
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    inputs: list[tuple[int, TensorSpec]] = []
    numbers: dict[Node, int] = {}
    for number, node in enumerate(placeholders):
        numbers[node] = number
        fake = fake_value(node)
        if number in frozen:
            lowering.env[node] = constant_value(graph, frozen[number])
        elif is_size(fake):
            lowering.env[node] = _known_size(fake)
        elif not isinstance(fake, torch.Tensor):
            raise Unsupported(f"the argument {node.name} is not a tensor")
        elif node.users and not is_token(node):
            spec = _spec(fake, in_order)
            inputs.append((number, spec))
            name = names.arguments.get(number, node.name)
            lowering.env[node] = _input(graph, name, spec)
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
            results = [
                _result(lowering, r, numbers, in_order, names.results.get(i))
                for i, r in enumerate(listed)
            ]
            if names.seed is not None:
                graph.next_seed(names.seed)
    checks = _checks(graph, results)
    symbols = _find_symbols(placeholders)
    for symbol in graph.extra_inputs:
        if symbol is not None and symbol not in symbols:
            raise Unsupported(f"no input has the size {symbol}")
    return Lowered(graph.model(), inputs, results, symbols, graph.extra_inputs, checks)


def _input(graph: Graph, name: str, spec: TensorSpec) -> Value | Complex:
    inverse = [spec.order.index(a) for a in range(len(spec.order))]
    part = PARTS.get(spec.dtype)
    if part is not None:
        pairs = graph.add_input(name, part, [*spec.stored, 2])
        graph.name = name
        moved = graph.transpose(pairs, [*inverse, len(inverse)])
        return complexes.unpack(graph, moved, spec.dims, spec.dtype)
    stored = graph.add_input(name, spec.dtype, spec.stored)
    graph.name = name
    value = graph.transpose(stored, inverse)
    return Value(value.name, spec.dtype, spec.dims)


def _spec(fake: torch.Tensor, in_order: bool) -> TensorSpec:
    order = tuple(range(fake.dim())) if in_order else memory_order(fake)
    return TensorSpec(fake.dtype, tuple(fake.shape), order)


def _result(
    lowering: Lowering, node: Any, numbers: dict[Node, int], in_order: bool,
    name: str | None,
) -> TensorSpec | int | SizeResult | None:  # fmt: skip
    if node is None:
        return None
    if not isinstance(node, Node):
        return SizeResult(node)
    if node in numbers and name is None:
        return numbers[node]
    fake, value = fake_value(node), lowering.env[node]
    if is_size(fake):
        return SizeResult(fake)
    if value is None:
        return None
    spec = _spec(fake, in_order)
    _add_output(lowering.graph, value, spec, name)
    return spec


def _checks(
    graph: Graph, results: list[TensorSpec | int | SizeResult | None]
) -> list[Check]:
    """Makes what assertions read results of the region."""

    def place(value: Value) -> Place:
        order = tuple(range(value.rank))
        spec = TensorSpec(value.dtype, value.shape, order)
        _add_output(graph, value, spec)
        results.append(spec)
        return Place(len(results) - 1)

    return [check.placed(place) for check in graph.checks]


def _add_output(
    graph: Graph, value: Value | Complex, spec: TensorSpec, name: str | None = None
) -> None:
    if isinstance(value, Complex):
        pairs = complexes.pack(graph, value)
        rank = len(spec.order)
        moved = graph.transpose(pairs, [*spec.order, rank])
        graph.add_output(Value(moved.name, pairs.dtype, (*spec.stored, 2)), name)
        return
    moved = graph.transpose(value, spec.order)
    graph.add_output(Value(moved.name, spec.dtype, spec.stored), name)
