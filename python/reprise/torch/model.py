"""A lowered graph as data: what `reprise.GraphBuilder` is called with.

A model is pickled and hashed for caches before anything is built, and it is built for each
compilation.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

import reprise

from .dtypes import dtype_name, raw_bytes
from .errors import Unsupported

#: The newest version of ai.onnx whose operators rows use.
OPSET = 26
#: A dim of an input: an expression (sympy.Expr), or the name of a size of its own (str).
Dim = Any


@dataclass(frozen=True)
class Input:
    """An input of the model."""

    name: str
    dtype: torch.dtype
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Constant:
    """A constant of the model, or the first value of a state; `raw` has its elements in C order."""

    name: str
    dtype: torch.dtype
    dims: tuple[int, ...]
    raw: bytes = field(repr=False)
    digest: str

    @staticmethod
    def of(name: str, value: torch.Tensor) -> Constant:
        """Copies the elements of a tensor."""
        raw = raw_bytes(value)
        dims = tuple(int(d) for d in value.shape)
        return Constant(name, value.dtype, dims, raw, hashlib.sha256(raw).hexdigest())


@dataclass(frozen=True)
class Node:
    """A node of ONNX. An empty name among the inputs is an operand that is left out."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    attributes: dict[str, Attribute]


@dataclass(frozen=True)
class SizeNode:
    """Sizes as a tensor of int64: a vector, or one of them as a scalar."""

    output: str
    sizes: tuple[sympy.Expr, ...]
    scalar: bool


@dataclass(frozen=True)
class Body:
    """The body of an If or a Loop. Its nodes may read values around it."""

    name: str
    inputs: tuple[str, ...]
    nodes: tuple[Node | SizeNode, ...]
    outputs: tuple[str, ...]


#: What an attribute of a node may be.
Attribute = int | float | str | Sequence[int] | Sequence[float] | Body


@dataclass(frozen=True)
class Model:
    """The calls that build a graph, in order."""

    inputs: tuple[Input, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node | SizeNode, ...]
    #: The names of outputs, and the values that they are.
    outputs: tuple[tuple[str, str], ...]
    #: Names of sizes; others have those of their symbols.
    size_names: dict[sympy.Symbol, str] = field(default_factory=dict)
    #: The smallest values of symbols that may be negative.
    smallest: dict[sympy.Symbol, int] = field(default_factory=dict)
    #: Limits of sizes by their names.
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: First values of inputs that are states.
    values: tuple[Constant, ...] = ()

    def with_values(self, values: Mapping[str, torch.Tensor]) -> Model:
        """Returns a model in which states have these first values."""
        given = tuple(Constant.of(n, v) for n, v in values.items())
        return dataclasses.replace(self, values=given)

    def with_limits(self, limits: Mapping[str, tuple[int, int]]) -> Model:
        """Returns a model in which sizes have limits."""
        return dataclasses.replace(self, limits=dict(limits))

    @functools.cached_property
    def digest(self) -> bytes:
        """A hash of everything. Equal models have equal ones."""
        parts: list[Any] = [getattr(self, f.name) for f in dataclasses.fields(self)]
        return hashlib.sha256(repr(parts).encode()).digest()

    def compile(
        self, states: Mapping[str, str] | None = None, **options: Any
    ) -> reprise.Package:
        """Compiles the model; `states` are inputs with the outputs that are their next values."""
        pairs = dict(states or {})
        valued = {v.name for v in self.values}
        graph = _Building(self).graph({s: n for s, n in pairs.items() if s in valued})
        rest = {s: n for s, n in pairs.items() if s not in valued}
        return reprise.compile(graph, states=rest, **options)


#: What expressions of sizes consist of, by sympy's names.
_EXPRESSIBLE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: _sized(a, b, "__floordiv__"),
    "CleanDiv": lambda a, b: _sized(a, b, "__floordiv__"),
    "Mod": lambda a, b: _sized(a, b, "__mod__"),
    "PythonMod": lambda a, b: _sized(a, b, "__mod__"),
    "Max": lambda a, b: _sized(a, b, "maximum"),
    "Min": lambda a, b: _sized(a, b, "minimum"),
}


def _sized(a: Any, b: Any, method: str) -> Any:
    """Calls a method of a size; a number is one if the other operand is."""
    if isinstance(a, int):
        if isinstance(b, int):
            return {
                "__floordiv__": a // b if b else 0,
                "__mod__": a % b if b else 0,
                "maximum": max(a, b),
                "minimum": min(a, b),
            }[method]
        a = b - b + a
    return getattr(a, method)(b)


def is_expressible(size: sympy.Expr) -> bool:
    """Returns whether the builder has sizes of this form."""
    for part in sympy.preorder_traversal(size):
        if part.is_Symbol or part.is_Integer:
            continue
        if part.is_Pow and part.args[1].is_Integer and part.args[1] > 0:
            continue
        if type(part).__name__ not in _EXPRESSIBLE:
            return False
    return True


class _Building:
    """Calls a builder with what a model consists of."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._builder = reprise.GraphBuilder("torch", {"": OPSET, "com.microsoft": 1})
        self._values: dict[str, reprise.GraphValue] = {}
        self._sizes: dict[sympy.Symbol, reprise.Size] = {}

    def graph(self, states: Mapping[str, str]) -> reprise.BuiltGraph:
        """Builds the graph. `states` are those with a first value."""
        builder, model = self._builder, self._model
        first = {v.name: v for v in model.values}
        for item in model.inputs:
            if item.name in states:
                start = first[item.name]
                made = builder.state(
                    item.name, start.raw, dtype=dtype_name(start.dtype), dims=start.dims
                )
            else:
                dims = [self._dim(d) for d in item.dims]
                made = builder.input(item.name, dtype_name(item.dtype), dims)
            self._values[item.name] = made
        for constant in model.constants:
            self._values[constant.name] = builder.constant(
                constant.raw, name=constant.name, dtype=dtype_name(constant.dtype),
                dims=constant.dims,
            )  # fmt: skip
        self._nodes(model.nodes)
        next_values = {output: state for state, output in states.items()}
        for name, value in model.outputs:
            if name in next_values:
                builder.next_state(
                    self._values[next_values[name]], self._values[value], name
                )
            else:
                builder.output(name, self._values[value])
        return builder.finish()

    def _nodes(self, nodes: Sequence[Node | SizeNode]) -> None:
        for node in nodes:
            if isinstance(node, SizeNode):
                sizes = [self.size(s) for s in node.sizes]
                self._values[node.output] = self._builder.sizes(
                    sizes[0] if node.scalar else sizes
                )
                continue
            inputs = [self._values[i] if i else None for i in node.inputs]
            attributes = {
                k: self._body(v) if isinstance(v, Body) else v
                for k, v in node.attributes.items()
            }
            made = self._builder.node(
                node.op, inputs, attributes, outputs=node.outputs, name=node.name
            )
            self._values.update(zip(node.outputs, made, strict=True))

    def _body(self, body: Body) -> reprise.GraphBody:
        self._builder.begin_body(body.name)
        for name in body.inputs:
            self._values[name] = self._builder.body_input(name)
        self._nodes(body.nodes)
        return self._builder.end_body([self._values[o] for o in body.outputs])

    def _dim(self, dim: Dim) -> int | reprise.Size:
        if isinstance(dim, str):
            return self._builder.symbol(dim)
        return self.size(dim)

    def _symbol(self, symbol: sympy.Symbol) -> reprise.Size:
        found = self._sizes.get(symbol)
        if found is None:
            name = self._model.size_names.get(symbol, str(symbol))
            low, high = self._model.limits.get(name, (0, 2**31 - 1))
            low = self._model.smallest.get(symbol, low)
            found = self._builder.symbol(name, min=low, max=high)
            self._sizes[symbol] = found
        return found

    def size(self, expr: sympy.Expr) -> int | reprise.Size:
        """Returns an expression as the builder has it."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._symbol(expr)
        if expr.is_Pow:
            power: int | reprise.Size = functools.reduce(
                _EXPRESSIBLE["Mul"], [self.size(expr.args[0])] * int(expr.args[1])
            )
            return power
        combine = _EXPRESSIBLE.get(type(expr).__name__)
        if combine is None:
            raise Unsupported(f"the size {expr} has a form that is not supported")
        found: int | reprise.Size = functools.reduce(
            combine, [self.size(a) for a in expr.args]
        )
        return found
