"""Collects the graph of one compiled region: values, nodes, constants and symbolic sizes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy  # type: ignore[import-untyped]
import torch

from .dtypes import elem_type, raw_bytes
from .errors import Unsupported
from .model import (
    Attribute,
    Body,
    Constant,
    Dim,
    Input,
    Model,
    Node,
    SizeNode,
    is_expressible,
)
from .symbols import SHIFT, Size, expression, linear, static

if TYPE_CHECKING:
    from .checks import Check

#: The operators of ONNX for those of floats in expressions of sizes.
_FLOAT_OPERATORS = {
    "Add": "Add", "Mul": "Mul", "FloatTrueDiv": "Div", "IntTrueDiv": "Div", "Pow": "Pow",
    "FloatPow": "Pow", "Max": "Max", "Min": "Min", "OpaqueUnaryFn_sqrt": "Sqrt",
    "OpaqueUnaryFn_exp": "Exp", "OpaqueUnaryFn_log": "Log",
}  # fmt: skip


#: The operators of ONNX for relations of sizes.
_RELATIONS = {
    "StrictGreaterThan": "Greater", "GreaterThan": "GreaterOrEqual", "StrictLessThan": "Less",
    "LessThan": "LessOrEqual", "Equality": "Equal",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph. `dims` is None where no row needed to know the shape."""

    name: str
    dtype: torch.dtype
    dims: tuple[Size, ...] | None = None

    @property
    def shape(self) -> tuple[Size, ...]:
        """The dims, as the traced program knows them."""
        if self.dims is None:
            raise AssertionError(f"the shape of {self.name} is not known")
        return self.dims

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)


#: The body of a loop: takes the number of the iteration and what the one before it returned.
LoopBody = Callable[[Value, list[Value]], tuple[Value | None, Sequence[Value]]]
#: What a row may use as an operand: a number is a constant of the other operand's dtype.
Operand = Value | int | float | bool | torch.SymInt | torch.SymFloat


@dataclass
class Meta:
    """Dtype and shape of a result, as PyTorch's fake tensors have them."""

    dtype: torch.dtype
    shape: tuple[Size, ...]


@dataclass
class Graph:
    """Collects nodes. Rows of the operator table get it as their first argument.

    `outs` has the results that the current node must have, `name` and `target` are its name and
    operator in the FX graph, and `fake` is the fake tensor of its first operand.
    """

    nodes: list[Node | SizeNode] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    #: The FX nodes that the nodes of the model compute.
    owners: dict[str, str] = field(default_factory=dict)
    outs: list[Meta] = field(default_factory=list)
    name: str = "graph"
    target: str = ""
    fake: Any = None
    _names: set[str] = field(default_factory=set)
    _constants: dict[bytes, Value] = field(default_factory=dict)
    #: The symbols that inputs have as dims.
    _symbols: set[sympy.Symbol] = field(default_factory=set)
    #: The values of expressions of sizes, and of numbers that are elements of tensors.
    _sizes: dict[sympy.Expr, Value] = field(default_factory=dict)
    #: Inputs that follow those of arguments: a symbol that no argument has as a dim is one of an
    #: empty tensor with dims [symbol, 0], and None is the seed of random numbers.
    extra_inputs: list[sympy.Symbol | None] = field(default_factory=list)
    #: Symbols that may be negative: the dim is SHIFT + symbol.
    signed: set[sympy.Symbol] = field(default_factory=set)
    #: Assertions that are made after each run.
    checks: list[Check] = field(default_factory=list)
    #: Names of sizes; others have those of their symbols.
    size_names: dict[sympy.Symbol, str] = field(default_factory=dict)
    #: The model is a whole program, so that its dims may be declared as expressions.
    exported: bool = False
    #: How many random nodes there are; each draws from a stream of its own.
    streams: int = 0
    _seed: Value | None = None
    _seed_words: tuple[Value, Value] | None = None
    #: The numbers of the iterations of the loops around the current node.
    _iterations: list[Value] = field(default_factory=list)

    @property
    def out(self) -> Meta:
        """The first result of the current node."""
        return self.outs[0]

    def unique(self, stem: str) -> str:
        """Returns a name that no other node or value has."""
        name, count = stem, 1
        while name in self._names:
            name, count = f"{stem}.{count}", count + 1
        self._names.add(name)
        return name

    # Inputs and outputs

    def add_input(self, name: str, dtype: torch.dtype, dims: Sequence[Size]) -> Value:
        """Adds an input. Its symbolic dims give later nodes the values of their symbols."""
        value = Value(self.unique(name), dtype, tuple(dims))
        declared: list[Dim] = []
        for axis, dim in enumerate(dims):
            expr = expression(dim)
            form = linear(expr) if self.exported or expr.is_Symbol else None
            if form is not None:
                self._symbols.add(form.symbol)
            known = expr.is_Integer or expr.is_Symbol or self._is_declared(expr)
            declared.append(expr if known else self.unique(f"{value.name}_dim{axis}"))
        elem_type(dtype)
        self.inputs.append(Input(value.name, dtype, tuple(declared)))
        return value

    def _is_declared(self, size: sympy.Expr) -> bool:
        """Returns whether the model declares a dim as an expression.

        An exported model has those of sizes that this input or one before it has.
        """
        known = self.exported and size.free_symbols <= self._symbols
        return known and is_expressible(size)

    def seed_words(self) -> tuple[Value, Value]:
        """Returns two words for random numbers, as uint32.

        Each run draws them anew, and the second one differs between the iterations of a loop.
        """
        if self._seed is None:
            self._seed = self.add_input("seed", torch.uint32, [2])
            self.extra_inputs.append(None)
        if self._seed_words is None:
            first, second = (
                self.op("Gather", self._seed, self.constant(torch.tensor(i)), axis=0)
                for i in (0, 1)
            )
            odd = self.constant(torch.tensor(0x85EBCA6B).to(torch.uint32))
            for iteration in self._iterations:
                step = self.op("Mul", self.cast(iteration, torch.uint32), odd)
                second = self.op("Add", second, step)
            self._seed_words = (first, second)
        return self._seed_words

    def next_seed(self, name: str) -> str | None:
        """Adds an output with the seed of the next run; returns the name of the seed's input."""
        if self._seed is None:
            return None
        odd = self.constant(torch.tensor([0x9E3779B9, 1]).to(torch.uint32))
        self.add_output(self.op("Add", self._seed, odd, dims=(2,)), name)
        return self._seed.name

    def add_output(self, value: Value, name: str | None = None) -> str:
        """Makes a value an output, under a name of its own."""
        name = self.unique(name or "output")
        self._emit("Identity", (value.name,), (name,), {})
        self.outputs.append((name, name))
        return name

    def model(self) -> Model:
        """Returns what was collected."""
        return Model(
            tuple(self.inputs), tuple(self.constants), tuple(self.nodes),
            tuple(self.outputs), dict(self.size_names), {s: -SHIFT for s in self.signed},
        )  # fmt: skip

    # Nodes

    def _emit(
        self,
        op: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        attributes: dict[str, Attribute],
    ) -> None:
        name = self.unique(self.name)
        self.owners[name] = self.name
        self.nodes.append(Node(op, tuple(inputs), tuple(outputs), name, attributes))

    def op(
        self,
        op: str,
        *inputs: Value | None,
        dtype: torch.dtype | None = None,
        dims: Sequence[Size] | None = None,
        **attributes: Attribute,
    ) -> Value:
        """Adds a node with one result. Its dtype is that of the first input unless it is given."""
        if dtype is None:
            first = next((i for i in inputs if i is not None), None)
            dtype = first.dtype if first is not None else self.out.dtype
        out = Value(
            self.unique(f"{self.name}_v"), dtype, None if dims is None else tuple(dims)
        )
        names = ["" if i is None else i.name for i in inputs]
        self._emit(op, names, (out.name,), attributes)
        return out

    def ops(
        self,
        op: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[torch.dtype],
        **attributes: Attribute,
    ) -> list[Value]:
        """Adds a node with several results, whose dtypes are given."""
        outs = [Value(self.unique(f"{self.name}_v"), d) for d in dtypes]
        names = ["" if i is None else i.name for i in inputs]
        self._emit(op, names, [o.name for o in outs], attributes)
        return outs

    @contextlib.contextmanager
    def _inside(self) -> Iterator[list[Node | SizeNode]]:
        """In this block, nodes go to a list of their own, and are not known to those outside it."""
        outer = (self.nodes, self._sizes, self._seed_words, self._iterations)
        self.nodes, self._sizes = [], dict(self._sizes)
        self._iterations = list(self._iterations)
        try:
            yield self.nodes
        finally:
            self.nodes, self._sizes, self._seed_words, self._iterations = outer

    def _named_results(self, values: Sequence[Value]) -> list[str]:
        """Gives the results of a body names of their own."""
        names = [self.unique("result") for _ in values]
        for value, name in zip(values, names, strict=True):
            self._emit("Identity", (value.name,), (name,), {})
        return names

    def loop(
        self, count: Value | None, carried: Sequence[Value], body: LoopBody, start: Value | None = None
    ) -> list[Value]:  # fmt: skip
        """Repeats a body `count` times, or as long as the condition that it returns holds.

        `start` is the condition before the first iteration. A body that returns no condition goes on.
        What it returns beyond the values for the next iteration is stacked along a new first axis.
        """
        number = Value(self.unique("iteration"), torch.int64, ())
        going = Value(self.unique("going"), torch.bool, ())
        given = [Value(self.unique("carried"), c.dtype, c.dims) for c in carried]
        with self._inside() as nodes:
            self._seed_words = None
            self._iterations.append(number)
            condition, results = body(number, given)
            ends = [going if condition is None else condition, *results]
            names = self._named_results(ends)
        inputs = tuple(v.name for v in (number, going, *given))
        inside = Body(names[0], inputs, tuple(nodes), tuple(names))
        return self.ops(
            "Loop", [count, start, *carried], [r.dtype for r in results], body=inside
        )

    def choose(
        self, condition: Value, yes: Callable[[], Sequence[Value]], no: Callable[[], Sequence[Value]]
    ) -> list[Value]:  # fmt: skip
        """Computes one of two lists of values, which have the same dtypes."""
        bodies, results = [], []
        for branch in (yes, no):
            with self._inside() as nodes:
                results = list(branch())
                names = self._named_results(results)
            name = self.unique(f"{self.name}_branch")
            bodies.append(Body(name, (), tuple(nodes), tuple(names)))
        return self.ops(
            "If", [condition], [r.dtype for r in results], then_branch=bodies[0], else_branch=bodies[1]
        )  # fmt: skip

    # Constants and sizes

    def constant(self, value: torch.Tensor) -> Value:
        """Returns a constant; equal ones are one."""
        raw = raw_bytes(value)
        number = elem_type(value.dtype)
        dims = tuple(int(d) for d in value.shape)
        head = f"{number}:{dims}:".encode()
        key = head + (hashlib.sha256(raw).digest() if len(raw) > 64 else raw)
        found = self._constants.get(key)
        if found is None:
            found = Value(self.unique("constant"), value.dtype, dims)
            digest = hashlib.sha256(raw).hexdigest()
            self.constants.append(Constant(found.name, value.dtype, dims, raw, digest))
            self._constants[key] = found
        return found

    def scalar(self, value: Operand | torch.SymBool, dtype: torch.dtype) -> Value:
        """Returns a number as a 0-d tensor; a tensor is cast."""
        if isinstance(value, Value):
            return self.cast(value, dtype)
        if isinstance(value, torch.SymInt):
            return self.cast(self.size(value), dtype)
        if isinstance(value, torch.SymFloat):
            return self.cast(self._float_of(expression(value)), dtype)
        if isinstance(value, torch.SymBool):
            return self.cast(self._truth_of(value.node.expr), dtype)
        if isinstance(value, complex):
            raise Unsupported("a complex number is not supported")
        if not dtype.is_floating_point and isinstance(value, float):
            value = int(value)
        if not dtype.is_floating_point and dtype != torch.bool:
            info = torch.iinfo(dtype)
            span = info.max - info.min + 1
            value = (int(value) - info.min) % span + info.min
        return self.constant(torch.tensor(value, dtype=dtype))

    def ints(self, values: Sequence[int]) -> Value:
        """Returns a constant list of int64."""
        return self.constant(torch.tensor(list(values), dtype=torch.int64))

    def size(self, dim: Size) -> Value:
        """Returns a size as a 0-d int64 tensor."""
        return self.size_of(expression(dim))

    def shape(self, dims: Sequence[Size]) -> Value:
        """Returns sizes as a list of int64, a constant if all are known."""
        if all(static(d) for d in dims):
            return self.ints([int(d) for d in dims])
        exprs = [expression(d) for d in dims]
        if all(self._is_size(e) for e in exprs):
            return self._sizes_node(exprs, False)
        parts = [
            self.ints([int(d)])
            if static(d)
            else self.op("Reshape", self.size(d), self.ints([1]))
            for d in dims
        ]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def _need(self, symbol: sympy.Symbol) -> None:
        """Makes sure that an input has the symbol as a dim."""
        if symbol in self._symbols:
            return
        self._symbols.add(symbol)
        self.extra_inputs.append(symbol)
        dim = symbol + SHIFT if symbol in self.signed else symbol
        dims = (dim, sympy.Integer(0))
        self.inputs.append(Input(self.unique(f"size_{symbol}"), torch.float32, dims))

    def _is_size(self, expr: sympy.Expr) -> bool:
        """Returns whether inputs alone decide an expression, and the builder has sizes like it.

        Numbers that are elements of tensors are no sizes.
        """
        numbers = self._sizes.keys() - self._symbols
        return is_expressible(expr) and expr.free_symbols.isdisjoint(numbers)

    def _sizes_node(self, exprs: Sequence[sympy.Expr], scalar: bool) -> Value:
        for symbol in sorted({s for e in exprs for s in e.free_symbols}, key=str):
            self._need(symbol)
        dims = () if scalar else (len(exprs),)
        value = Value(self.unique("sizes"), torch.int64, dims)
        self.nodes.append(SizeNode(value.name, tuple(exprs), scalar))
        return value

    def size_of(self, expr: sympy.Expr) -> Value:
        """Returns the value of an expression of sizes as a 0-d int64 tensor."""
        found = self._sizes.get(expr)
        if found is None:
            found = self._sizes[expr] = self._new_expression(expr)
        return found

    def _new_expression(self, expr: sympy.Expr) -> Value:
        if expr.is_Integer:
            return self.constant(torch.tensor(int(expr)))
        if self._is_size(expr):
            return self._sizes_node([expr], True)
        name = type(expr).__name__
        if name == "Pow" and expr.args[1].is_Integer and expr.args[1] > 0:
            return self._fold("Mul", [self.size_of(expr.args[0])] * int(expr.args[1]))
        if name == "Piecewise":
            *cases, (found, _) = expr.args
            result = self.size_of(found)
            for value, condition in reversed(cases):
                chosen = self._truth_of(condition)
                result = self.where(chosen, self.size_of(value), result)
            return result
        op = {
            "Add": "Add", "Mul": "Mul", "Max": "Max", "Min": "Min", "FloorDiv": "Div",
            "CleanDiv": "Div", "IntTrueDiv": "Div", "Mod": "Mod", "PythonMod": "Mod",
        }.get(name)  # fmt: skip
        if op is None:
            raise Unsupported(f"the size {expr} has a form that is not supported")
        return self._fold(op, [self.size_of(e) for e in expr.args])

    def _fold(self, op: str, terms: list[Value]) -> Value:
        total = terms[0]
        for term in terms[1:]:
            total = self.op(op, total, term)
        return total

    def _float_of(self, expr: sympy.Expr) -> Value:
        """Returns the value of a number made of sizes as a 0-d float64 tensor, as Python computes it."""
        name = type(expr).__name__
        if expr.is_number:
            return self.constant(torch.tensor(float(expr), dtype=torch.float64))
        if expr.is_integer or expr in self._sizes:
            return self.cast(self.size_of(expr), torch.float64)
        if name == "ToFloat":
            return self._float_of(expr.args[0])
        op = _FLOAT_OPERATORS.get(name)
        if op is None:
            raise Unsupported(f"the number {expr} has a form that is not supported")
        terms = [self._float_of(e) for e in expr.args]
        return self.op(op, *terms) if len(terms) == 1 else self._fold(op, terms)

    def _truth_of(self, expr: sympy.Basic) -> Value:
        """Returns whether a relation of sizes holds as a 0-d bool."""
        name = type(expr).__name__
        if expr in (sympy.true, sympy.false):
            return self.constant(torch.tensor(bool(expr)))
        if name in _RELATIONS:
            a, b = (self.size_of(e) for e in expr.args)
            return self.compare(_RELATIONS[name], a, b)
        if name in ("And", "Or"):
            return self._fold(name, [self._truth_of(e) for e in expr.args])
        if name in ("Not", "Unequality"):
            return self.logical_not(self._truth_of(sympy.Not(expr)))
        raise Unsupported(f"the relation {expr} has a form that is not supported")

    def define(self, number: Any, value: Any) -> None:
        """Gives a number of the traced program, which is a symbol, the value of a tensor."""
        if not isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return
        expr = number.node.expr
        if isinstance(number, torch.SymBool) and isinstance(expr, sympy.Eq):
            expr = expr.args[0]  # an element of a bool is whether a number is 1
        if expr.is_Symbol and isinstance(value, Value):
            wide = torch.int64 if expr.is_integer else torch.float64
            self._sizes[expr] = self.reshape(self.cast(value, wide), [])

    # Operators that many rows use

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """Converts as PyTorch does; nothing happens if the dtype is the same."""
        if value.dtype == dtype:
            return value
        if dtype == torch.bool:
            zero = self.scalar(0, value.dtype)
            equal = self.op("Equal", value, zero, dtype=torch.bool, dims=value.dims)
            return self.op("Not", equal, dims=value.dims)
        return self.op("Cast", value, dtype=dtype, dims=value.dims, to=elem_type(dtype))

    def reshape(self, value: Value, dims: Sequence[Size]) -> Value:
        """Gives a tensor other dims; -1 is not allowed."""
        return self.op("Reshape", value, self.shape(dims), dims=dims, allowzero=1)

    def expand(self, value: Value, dims: Sequence[Size]) -> Value:
        """Broadcasts a tensor to dims."""
        return self.op("Expand", value, self.shape(dims), dims=dims)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Permutes dims."""
        if list(perm) == list(range(len(perm))):
            return value
        dims = None if value.dims is None else [value.dims[p] for p in perm]
        return self.op("Transpose", value, dims=dims, perm=[int(p) for p in perm])

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Inserts dims of 1 at axes of the result."""
        return self.op("Unsqueeze", value, self.ints(axes))

    def slice(
        self, value: Value, axis: int, start: Size, end: Size, step: int = 1
    ) -> Value:
        """Takes a range along one axis."""
        return self.op(
            "Slice", value, self.shape([start]), self.shape([end]), self.ints([axis]),
            self.ints([step]),
        )  # fmt: skip

    def full(self, value: Operand, dtype: torch.dtype, dims: Sequence[Size]) -> Value:
        """Returns a tensor with one value everywhere."""
        return self.expand(self.scalar(value, dtype), dims)

    def where(self, condition: Value, yes: Value, no: Value) -> Value:
        """Selects elements."""
        return self.op("Where", condition, yes, no, dtype=yes.dtype)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """Compares elements of one dtype."""
        return self.op(op, a, b, dtype=torch.bool)

    def logical_not(self, value: Value) -> Value:
        """Negates a bool."""
        return self.op("Not", value)
