"""Turns a functional FX graph of ATen operators into a model."""

from __future__ import annotations

import operator
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from . import (
    complexes,
    higher_order,
    ops,  # noqa: F401  (importing the families registers their rows)
    table,
)
from .checks import Check, Place, guard, is_check, is_token, note
from .complexes import PARTS, Complex
from .dtypes import elem_type
from .errors import PYTORCH, Unsupported
from .graph import Graph, Meta, Value
from .model import Model
from .results import (
    Result,
    SizeResult,
    TensorSpec,
    ViewOf,
    check_aliases,
    fake_value,
    find_views,
    layout_of,
    memory_order,
    shared_bases,
)
from .symbols import expression, find_symbols, signed_symbols, static, symbols_of


@dataclass
class Lowered:
    """A model with what the caller needs to run it.

    `inputs` are the positions of arguments that become inputs, with their specs; `symbols` says
    where a run finds the value of each symbol: argument and axis, or axis -1 for a SymInt.
    `extra` lists the inputs that follow those of arguments: a symbol stands for an empty tensor
    with dims [symbol, 0], None for the seed of random numbers. Where the symbol may be negative, as
    `signed` says, that dim is SHIFT + symbol. `owners` has the FX node of each node of the model.
    `results` has one entry for each result of the FX graph: the spec of an output, the number of
    the argument that is returned, a view, a size, or None. These are `listed`; tensors that several
    views share, and those that `checks` read, follow.
    """

    model: Model
    owners: dict[str, str]
    inputs: list[tuple[int, TensorSpec]]
    results: list[Result]
    symbols: dict[sympy.Symbol, tuple[int, int]]
    extra: list[sympy.Symbol | None]
    signed: set[sympy.Symbol]
    checks: list[Check]
    listed: int
    #: The name of the input that random numbers come from, if its next value is an output.
    seed: str | None


@dataclass
class Names:
    """Names for arguments and results, by position, for the seed of the next run, and for sizes.

    A result with a name becomes an output even if it is an argument or a number. In a program that is
    `exported`, an argument that nothing reads becomes an input, too, and assertions are errors of runs.
    """

    arguments: dict[int, str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    seed: str | None = None
    sizes: dict[sympy.Symbol, str] = field(default_factory=dict)
    exported: bool = False


_OWN = os.path.join(os.path.dirname(__file__), "")


def source_of(node: Node) -> str:
    """Returns the user's line that made a node, as "file:line, code", or "" if it is not known.

    It is the innermost line that is not PyTorch's, if there is one, and never one of this package.
    """
    trace = node.meta.get("stack_trace")
    if not trace:
        return ""
    lines = [line.strip() for line in str(trace).strip().splitlines()]
    places = [p for p, line in enumerate(lines) if line.startswith("File ")]
    if not places:
        return lines[-1]
    places = [p for p in places if not lines[p].startswith(f'File "{_OWN}')]
    if not places:
        return ""
    users = [p for p in places if not lines[p].startswith(f'File "{PYTORCH}')]
    last = (users or places)[-1]
    code = lines[last + 1] if last + 1 < len(lines) else ""
    return f"{lines[last]}: {code}" if code else lines[last]


def line_of_caller() -> str:
    """Returns the innermost line of the caller that is neither PyTorch's nor of this package."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith((PYTORCH, _OWN)):
            return f'File "{frame.filename}", line {frame.lineno}, in {frame.name}: {frame.line}'
    return "a program without source"


def is_size(value: Any) -> bool:
    """Returns whether a fake result is a number that the host computes."""
    return isinstance(value, (int, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def _leaves(tree: Any) -> list[Any]:
    """Returns what nested lists of results hold."""
    found: list[Any] = pytree.tree_leaves(tree)
    return found


def check_elements(fake: torch.Tensor) -> None:
    """Raises Unsupported for a tensor of the device "meta"."""
    if fake.device.type == "meta":
        raise Unsupported("a tensor of the device meta has no elements")


def _meta(fake: Any) -> list[Meta]:
    if not isinstance(fake, (torch.Tensor, list, tuple)):
        raise Unsupported("its result is not a tensor")
    found = []
    for leaf in _leaves(fake):
        if isinstance(leaf, torch.Tensor):
            check_elements(leaf)
            found.append(Meta(leaf.dtype, tuple(leaf.shape)))
        else:
            found.append(Meta(torch.float32, ()))
    return found


class Lowering:
    """Lowers nodes one after another; `env` has what each FX node became.

    A graph that an operator has as argument is lowered as part of the operator's node, `owner`.
    """

    def __init__(
        self, module: torch.nn.Module, graph: Graph | None = None, owner: str = ""
    ) -> None:
        self.graph = Graph() if graph is None else graph
        self.env: dict[Node, Any] = {}
        self._module, self._owner = module, owner

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
        """Lowers a constant of the module, or notes a graph that an operator takes."""
        found = attribute_of(self._module, str(node.target))
        if isinstance(found, torch.Tensor):
            self.env[node] = constant_value(self.graph, found)
        else:
            self.env[node] = found

    def call(self, node: Node) -> None:
        """Lowers the call of an operator, or raises Unsupported."""
        fake = fake_value(node)
        if is_size(fake):
            self.env[node] = _known_size(fake)
            if node.target is torch.ops.aten._local_scalar_dense.default:
                self.graph.define(fake, self.argument(node.args[0]))
            return
        if node.target is operator.getitem:
            items = self.env[node.args[0]]  # type: ignore[index]
            self.env[node] = items[node.args[1]]
            return
        if is_check(node):
            self.env[node] = self.check(node)
            return
        graph, outs = self.graph, _meta(fake)
        graph.name, graph.target, graph.outs = (
            self._owner or node.name,
            str(node.target),
            outs,
        )
        first = next((a for a in node.args if isinstance(a, Node)), None)
        first_fake = fake_value(first) if first is not None else None
        graph.fake = first_fake if isinstance(first_fake, torch.Tensor) else None
        for meta in outs:
            elem_type(PARTS.get(meta.dtype, meta.dtype))
        if isinstance(node.target, HigherOrderOperator):
            result = higher_order.lowered(self, node)
        else:
            kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
            result = self._result(node.target, self.argument(node.args), kwargs)
        if isinstance(fake, torch.Tensor):
            value = result if isinstance(result, (Value, Complex)) else result[0]
            self.env[node] = self._finish(value, outs[0])
        else:
            assert not isinstance(result, (Value, Complex))
            finished = [
                self._finish(r, m) for r, m in zip(_leaves(result), outs, strict=True)
            ]
            self.env[node] = pytree.tree_unflatten(
                finished, pytree.tree_structure(fake)
            )

    def inline(self, gm: GraphModule, arguments: Sequence[Any]) -> list[Any]:
        """Lowers a graph that the current node has as argument, and returns its results.

        A result is None, a size or a value.
        """
        inner = Lowering(gm, self.graph, self._owner or self.graph.name)
        given = iter(arguments)
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                inner.env[node] = next(given)
            elif node.op == "get_attr":
                inner.attribute(node)
            elif node.op == "call_function":
                try:
                    inner.call(node)
                except Unsupported as error:
                    raise Unsupported(f"{node.target} in its graph: {error}") from error
            elif node.op == "output":
                listed = node.args[0]
                listed = listed if isinstance(listed, (list, tuple)) else [listed]
                return [inner.argument(r) for r in listed]
        raise AssertionError("the graph has no results")

    def _result(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        function = table.find(target)
        if complexes.involved([args, kwargs], self.graph.outs):
            return complexes.call(self.graph, target, args, kwargs)
        if function is None:
            raise Unsupported("the table has no row for it")
        return function(self.graph, *args, **kwargs)

    def check(self, node: Node) -> Any:
        """Notes an assertion, which is made after the run."""
        if self._owner:
            raise Unsupported(
                "it is an assertion, which the graph of an operator cannot make"
            )
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


def attribute_of(module: torch.nn.Module, target: str) -> torch.Tensor | GraphModule:
    """Returns the tensor, or the graph of an operator, that a get_attr node reads."""
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part)
    if not isinstance(found, (torch.Tensor, GraphModule)):
        raise Unsupported(f"the attribute {target} is neither a tensor nor a graph")
    return found


def lower(
    gm: GraphModule,
    frozen: dict[int, torch.Tensor] | None = None,
    in_order: bool = False,
    names: Names | None = None,
    share: bool = False,
) -> Lowered:
    """Lowers a whole graph module. Raises Unsupported if a node of it cannot be lowered.

    `frozen` gives arguments that become constants, by position. With `in_order`, inputs and outputs
    of the model have the order of their dims whatever their strides are, and views are copies.
    `names` are those of inputs and outputs. With `share`, results that are views of one tensor share
    its memory even if it is no result.
    """
    names = names or Names()
    lowering = Lowering(gm)
    graph = lowering.graph
    graph.size_names, graph.exported = names.sizes, names.exported
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    fakes = [fake_value(n) for n in placeholders]
    symbols = find_symbols(fakes, sums=names.exported)
    graph.signed = signed_symbols(fakes)
    graph.signed = {s for s in graph.signed if symbols[s][1] < 0}
    numbers = {node: number for number, node in enumerate(placeholders)}
    listed = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    count = len(listed)
    hidden = shared_bases(listed, numbers) if share else []
    views = {}
    if not in_order:
        views = find_views(listed, numbers, hidden)
        check_aliases(listed, numbers, views)
    listed = [*listed, *hidden]
    needed = _needed(gm, [r for i, r in enumerate(listed) if i not in views])
    inputs = _inputs(lowering, numbers, needed, frozen or {}, names, in_order)
    for node in gm.graph.nodes:
        if node not in needed:
            continue
        if node.op == "get_attr":
            lowering.attribute(node)
        elif node.op == "call_function":
            lowering.call(node)
    if names.exported:
        _guard(lowering, listed)
    graph.name = "result"
    results: list[Result] = [
        views.get(i) or _result(lowering, r, numbers, in_order, names.results.get(i))
        for i, r in enumerate(listed)
    ]
    seed = None if names.seed is None else graph.next_seed(names.seed)
    checks = _checks(graph, results)
    needed_symbols = {s for s in graph.extra_inputs if s is not None}
    for result in results:
        if isinstance(result, TensorSpec):
            layout = result.layout
            placed = (*layout.strides, layout.offset) if layout is not None else ()
            needed_symbols |= symbols_of(*result.dims, *placed)
        elif isinstance(result, SizeResult):
            needed_symbols |= symbols_of(result.size)
        elif isinstance(result, ViewOf):
            needed_symbols |= symbols_of(*result.sizes)
    for symbol in needed_symbols:
        if symbol not in symbols:
            raise Unsupported(
                f"a result has the size {symbol}, which is not the size of an input"
            )
    extra = graph.extra_inputs
    return Lowered(
        graph.model(), graph.owners, inputs, results, symbols, extra, graph.signed, checks, count,
        seed,
    )  # fmt: skip


def _needed(gm: GraphModule, results: Sequence[Any]) -> set[Node]:
    """Returns the nodes that results and assertions follow from."""
    found: set[Node] = set()
    open_ = [r for r in results if isinstance(r, Node)]
    open_ += [n for n in gm.graph.nodes if n.op == "call_function" and is_check(n)]
    while open_:
        node = open_.pop()
        if node not in found:
            found.add(node)
            open_ += node.all_input_nodes
    return found


def _inputs(
    lowering: Lowering, numbers: dict[Node, int], needed: set[Node],
    frozen: dict[int, torch.Tensor], names: Names, in_order: bool,
) -> list[tuple[int, TensorSpec]]:  # fmt: skip
    """Makes the arguments that are needed inputs or constants, and returns the inputs."""
    found: list[tuple[int, TensorSpec]] = []
    for node, number in numbers.items():
        fake = fake_value(node)
        if number in frozen:
            lowering.env[node] = constant_value(lowering.graph, frozen[number])
        elif is_size(fake):
            lowering.env[node] = _known_size(fake)
        elif not isinstance(fake, torch.Tensor):
            if node in needed:
                raise Unsupported(f"the argument {node.name} is not a tensor")
        elif not is_token(node) and ((node in needed and node.users) or names.exported):
            spec = _spec(fake, in_order)
            found.append((number, spec))
            name = names.arguments.get(number, node.name)
            lowering.env[node] = _input(lowering.graph, name, spec)
    return found


def _input(graph: Graph, name: str, spec: TensorSpec) -> Value | Complex:
    inverse = spec.inverse
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
    check_elements(fake)
    if fake.layout != torch.strided:
        raise Unsupported(f"a tensor with the layout {fake.layout} is not supported")
    order = tuple(range(fake.dim())) if in_order else memory_order(fake)
    fixed = all(static(s) for s in [*fake.shape, *fake.stride()])
    return TensorSpec(fake.dtype, tuple(fake.shape), order, fixed)


def _result(
    lowering: Lowering, node: Any, numbers: dict[Node, int], in_order: bool,
    name: str | None,
) -> Result:  # fmt: skip
    if node is None:
        return None
    fake = fake_value(node) if isinstance(node, Node) else node
    if name is None:
        if not isinstance(node, Node):
            return SizeResult(node)
        if node in numbers:
            return numbers[node]
        if is_size(fake):
            return SizeResult(fake)
    if is_size(fake):
        number = _number(lowering.graph, fake)
        spec = TensorSpec(number.dtype, (), ())
        _add_output(lowering.graph, number, spec, name)
        return spec
    value = lowering.env[node] if isinstance(node, Node) else None
    if value is None:
        return None
    spec = _spec(fake, in_order)
    if not in_order:
        spec.layout = layout_of(node)
    _add_output(lowering.graph, value, spec, name)
    return spec


def _number(graph: Graph, number: Any) -> Value:
    """Returns a size, or another number of the program, as a tensor."""
    if isinstance(number, (bool, torch.SymBool)):
        return graph.scalar(number, torch.bool)
    if isinstance(number, (float, torch.SymFloat)):
        return graph.scalar(number, torch.float32)
    return graph.scalar(number, torch.int64)


def _guard(lowering: Lowering, listed: Sequence[Any]) -> None:
    """Makes a result depend on what assertions check."""
    zero = guard(lowering.graph)
    if zero is None:
        return
    for node in listed:
        value = lowering.env.get(node)
        if isinstance(value, Value) and value.dtype != torch.bool:
            same = lowering.graph.op(
                "Add", value, lowering.graph.cast(zero, value.dtype)
            )
            lowering.env[node] = Value(same.name, value.dtype, value.dims)
            return
    raise Unsupported("no result can depend on its assertions")


def _checks(graph: Graph, results: list[Result]) -> list[Check]:
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
