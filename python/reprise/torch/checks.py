"""Assertions in a graph: the region computes what they check, and PyTorch checks it after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.fx import Node

from .errors import Unsupported
from .graph import Graph, Value

aten = torch.ops.aten
#: Operators that have no result: they raise an exception if a tensor has the wrong values.
_ASSERTIONS = {
    aten._assert_async.default,
    aten._assert_async.msg,
    aten._linalg_check_errors.default,
}


@dataclass(frozen=True)
class Place:
    """The number of the region's result that an assertion reads."""

    number: int


@dataclass(frozen=True)
class Check:
    """A call of an operator that asserts. Tensors among its arguments are values, or places."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def placed(self, place: Callable[[Value], Place]) -> Check:
        """Replaces values by the results that hold them."""
        args = tuple(place(a) if isinstance(a, Value) else a for a in self.args)
        return Check(self.operator, args, self.kwargs)

    def run(self, results: Sequence[object]) -> None:
        """Calls the operator, which raises an exception if the assertion does not hold."""
        args = [results[a.number] if isinstance(a, Place) else a for a in self.args]
        self.operator(*args, **self.kwargs)


def guard(graph: Graph) -> Value | None:
    """Returns a 0 whose computation is an error of the run if an assertion does not hold.

    It is read at an index that is out of range then. None: there are no assertions.
    """
    total = None
    for check in graph.checks:
        value, *texts = check.args
        graph.name = "assertion"
        flat = graph.reshape(value, [-1])
        if check.operator is aten._linalg_check_errors.default:
            holds = graph.compare("Equal", flat, graph.scalar(0, flat.dtype))
            message = f"{texts[0]}: the matrix is singular or not positive definite"
        else:
            holds = graph.cast(flat, torch.bool)
            message = str(texts[0]) if texts else "assertion"
        failed = graph.cast(graph.logical_not(holds), torch.int64)
        index = graph.op("ReduceMax", failed, graph.ints([0]), dims=[], keepdims=0)
        graph.name = message  # which the error of the run names
        found = graph.op("Gather", graph.ints([0]), index, dims=[], axis=0)
        total = found if total is None else graph.op("Add", total, found)
    graph.checks.clear()
    return total


def is_check(node: Node) -> bool:
    """Returns whether a node asserts and computes nothing."""
    if node.target is with_effects:
        return len(node.args) > 1 and node.args[1] in _ASSERTIONS
    return node.target in _ASSERTIONS


def note(graph: Graph, node: Node, argument: Callable[[Any], Any]) -> Any:
    """Notes the assertion of a node, and returns what later nodes read of it."""
    ordered = node.target is with_effects
    operator, given = (
        (node.args[1], node.args[2:]) if ordered else (node.target, node.args)
    )
    args = tuple(argument(list(given)))
    if not all(isinstance(a, (Value, str, bool, int)) for a in args):
        raise Unsupported("it checks something else than tensors")
    graph.checks.append(Check(operator, args, dict(node.kwargs)))
    return [None, None] if ordered else None


def is_token(node: Node) -> bool:
    """Returns whether an argument only says in which order effects happen; it has no value."""
    return bool(node.users) and all(
        n.target is with_effects and n.args[0] is node for n in node.users
    )
