"""Rows of higher-order operators, which take graphs: branches, loops, scans, flexible attention."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import sympy  # type: ignore[import-untyped]
import torch
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .errors import Unsupported
from .graph import Graph, Value
from .symbols import Size

if TYPE_CHECKING:
    from .lowering import Lowering

#: A row gets the lowering and the node, and returns the results of the node.
Row = Callable[["Lowering", Node], Sequence[Any]]
_F = TypeVar("_F", bound=Row)
_ROWS: dict[Any, Row] = {}


def _row(name: str) -> Callable[[_F], _F]:
    """Makes a function the row of an operator, unless this version of PyTorch lacks it."""

    def register(function: _F) -> _F:
        operator = getattr(torch.ops.higher_order, name, None)
        if operator is not None:
            _ROWS[operator] = function
        return function

    return register


def lowered(lowering: Lowering, node: Node) -> Sequence[Any]:
    """Lowers the call of a higher-order operator, or raises Unsupported."""
    found = _ROWS.get(node.target)
    if found is None:
        raise Unsupported("the table has no row for it")
    if node.kwargs.get("mutated_arg_indices"):
        raise Unsupported("its graph changes its arguments")
    fakes = node.meta.get("val")
    if any(isinstance(f, (int, float, torch.SymInt)) for f in fakes or ()):
        raise Unsupported("one of its results is a number")
    return found(lowering, node)


def _values(results: Sequence[Any]) -> list[Value]:
    """Checks that all results of a graph are real tensors."""
    for result in results:
        if not isinstance(result, Value):
            raise Unsupported(
                f"a result of its graph is no real tensor, but of type {type(result).__name__}"
            )
    return list(results)


# Branches


@_row("cond")
def _cond(lowering: Lowering, node: Node) -> Sequence[Any]:
    predicate, yes, no, operands = lowering.argument(node.args)
    if isinstance(predicate, bool):
        return lowering.inline(yes if predicate else no, operands)
    return lowering.graph.choose(
        _condition(lowering.graph, predicate),
        lambda: _values(lowering.inline(yes, operands)),
        lambda: _values(lowering.inline(no, operands)),
    )


@_row("switch")
def _switch(lowering: Lowering, node: Node) -> Sequence[Any]:
    """Indices out of range take the first or the last branch."""
    index, branches, operands = lowering.argument(node.args)
    graph = lowering.graph
    if isinstance(index, int):
        return lowering.inline(
            branches[min(max(index, 0), len(branches) - 1)], operands
        )
    chosen = graph.scalar(index, torch.int64)

    def from_branch(number: int) -> list[Value]:
        found: Callable[[], list[Value]] = lambda: _values(
            lowering.inline(branches[number], operands)
        )
        if number + 1 == len(branches):
            return found()
        limit = graph.scalar(number, torch.int64)
        return graph.choose(
            graph.compare("LessOrEqual", chosen, limit), found, lambda: from_branch(number + 1)
        )  # fmt: skip

    return from_branch(0)


@_row("invoke_subgraph")
def _invoke_subgraph(lowering: Lowering, node: Node) -> Sequence[Any]:
    module, _, *operands = lowering.argument(node.args)
    return lowering.inline(module, operands)


_RELATIONS = {
    sympy.StrictLessThan: "Less", sympy.LessThan: "LessOrEqual",
    sympy.StrictGreaterThan: "Greater", sympy.GreaterThan: "GreaterOrEqual",
    sympy.Equality: "Equal",
}  # fmt: skip


def _condition(graph: Graph, predicate: Any) -> Value:
    """Returns a condition as a bool of rank 0: a tensor, or a relation of sizes."""
    if isinstance(predicate, Value):
        return graph.reshape(graph.cast(predicate, torch.bool), [])
    if not isinstance(predicate, torch.SymBool):
        raise Unsupported(f"its condition is {type(predicate).__name__}")
    return _relation(graph, predicate.node.expr)


def _relation(graph: Graph, expr: sympy.Basic) -> Value:
    if isinstance(expr, sympy.Not):
        return graph.logical_not(_relation(graph, expr.args[0]))
    if isinstance(expr, (sympy.And, sympy.Or)):
        op = "And" if isinstance(expr, sympy.And) else "Or"
        parts = [_relation(graph, a) for a in expr.args]
        return functools.reduce(lambda a, b: graph.compare(op, a, b), parts)
    if isinstance(expr, sympy.Unequality):
        return graph.logical_not(_relation(graph, sympy.Eq(*expr.args)))
    for kind, op in _RELATIONS.items():
        if isinstance(expr, kind):
            left, right = (graph.size_of(a) for a in expr.args)
            return graph.compare(op, left, right)
    raise Unsupported(f"the condition {expr} has a form that is not supported")


# Loops


@_row("while_loop")
def _while_loop(lowering: Lowering, node: Node) -> Sequence[Any]:
    going, step, carried, others = lowering.argument(node.args)
    graph = lowering.graph

    def holds(values: Sequence[Value]) -> Value:
        found = lowering.inline(going, [*values, *others])[0]
        if isinstance(found, bool):
            return graph.scalar(found, torch.bool)
        return _condition(graph, found)

    def body(_: Value, values: list[Value]) -> tuple[Value, list[Value]]:
        after = _values(lowering.inline(step, [*values, *others]))
        return holds(after), after

    first = _values(carried)
    return graph.loop(None, first, body, holds(first))


def _row_of(graph: Graph, values: Sequence[Value], number: Value) -> list[Value]:
    """Returns one row of each tensor."""
    return [graph.op("Gather", v, number, axis=0, dims=v.shape[1:]) for v in values]


def _stack(
    lowering: Lowering, count: Size, first: Sequence[Value],
    step: Callable[[Value, list[Value]], list[Any]],
) -> list[Any]:  # fmt: skip
    """Repeats a step, whose results beyond those that it hands on are stacked; None stays None."""
    missing: list[int] = []

    def body(number: Value, carried: list[Value]) -> tuple[None, list[Value]]:
        results = step(number, carried)
        missing.extend(i for i, r in enumerate(results) if r is None)
        return None, _values([r for r in results if r is not None])

    graph = lowering.graph
    found: list[Any] = graph.loop(graph.size(count), first, body)
    for place in missing:
        found.insert(place, None)
    return found


@_row("scan")
def _scan(lowering: Lowering, node: Node) -> Sequence[Any]:
    combine, first, rows, others = lowering.argument(node.args)

    def step(number: Value, carried: list[Value]) -> list[Any]:
        row = _row_of(lowering.graph, rows, number)
        return lowering.inline(combine, [*carried, *row, *others])

    return _stack(lowering, rows[0].shape[0], _values(first), step)


@_row("map_impl")
def _map(lowering: Lowering, node: Node) -> Sequence[Any]:
    function, rows, others = lowering.argument(node.args)

    def step(number: Value, _: list[Value]) -> list[Any]:
        row = _row_of(lowering.graph, rows, number)
        return lowering.inline(function, [*row, *others])

    return _stack(lowering, rows[0].shape[0], [], step)


@_row("associative_scan")
def _associative_scan(lowering: Lowering, node: Node) -> Sequence[Any]:
    """The rows are combined one after another."""
    combine, rows, others = lowering.argument(node.args)
    graph = lowering.graph
    one = graph.scalar(1, torch.int64)
    heads = [graph.slice(r, 0, 0, 1) for r in rows]
    first = [graph.reshape(h, r.shape[1:]) for h, r in zip(heads, rows, strict=True)]
    first = [
        Value(f.name, r.dtype, r.shape[1:]) for f, r in zip(first, rows, strict=True)
    ]

    def step(number: Value, carried: list[Value]) -> list[Any]:
        row = _row_of(graph, rows, graph.op("Add", number, one))
        after = _values(lowering.inline(combine, [*carried, *row, *others]))
        return [*after, *after]

    found = _stack(lowering, rows[0].shape[0] - 1, first, step)[len(rows) :]
    return [graph.op("Concat", h, f, axis=0) for h, f in zip(heads, found, strict=True)]


# What is computed by the formulas of its definition


def _by_formula(lowering: Lowering, node: Node, formula: Callable[..., Any]) -> Any:
    """Traces a formula with the node's arguments, and lowers the graph instead of the node."""
    from .decompositions import decompositions

    leaves, spec = pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
    fakes = [_traced_argument(lowering, leaf) for leaf in leaves]
    places = [i for i, f in enumerate(fakes) if isinstance(f, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(fakes)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return pytree.tree_leaves(formula(*args, **kwargs))

    given = [fakes[p] for p in places]
    with given[0].fake_mode:
        traced = make_fx(
            functionalize(call, remove="mutations_and_views"), decompositions()
        )(*given)
    return lowering.inline(traced, [lowering.argument(leaves[p]) for p in places])


def _traced_argument(lowering: Lowering, leaf: Any) -> Any:
    if not isinstance(leaf, Node):
        return leaf
    found = lowering.env[leaf]
    return found if isinstance(found, GraphModule) else leaf.meta.get("val")


@_row("flex_attention")
def _flex_attention(lowering: Lowering, node: Node) -> Any:
    return _by_formula(lowering, node, math_attention)


@_row("flex_attention_backward")
def _flex_attention_backward(lowering: Lowering, node: Node) -> Any:
    return _by_formula(lowering, node, sdpa_dense_backward)
