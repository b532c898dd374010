"""Which index of a program is out of range: what a device reports only as the operator's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

import reprise

from .lowering import attribute_of, line_of_caller, source_of

_aten: Any = torch.ops.aten

#: Operators that read or write rows of `table` at `index`: which arguments are table, index and dim.
_ALONG: dict[Any, tuple[int, int, int | None]] = {
    _aten.embedding.default: (0, 1, None),
    _aten.index_select.default: (0, 2, 1),
    _aten.gather.default: (0, 2, 1),
    _aten.scatter.src: (0, 2, 1),
    _aten.scatter.value: (0, 2, 1),
    _aten.scatter.reduce: (0, 2, 1),
    _aten.scatter.value_reduce: (0, 2, 1),
    _aten.scatter_add.default: (0, 2, 1),
    _aten.scatter_reduce.two: (0, 2, 1),
    _aten.index_add.default: (0, 2, 1),
    _aten.index_copy.default: (0, 2, 1),
    _aten.index_fill.int_Scalar: (0, 2, 1),
}
#: Operators with a list of indices, one for each of the first dims.
_LISTED = (_aten.index.Tensor, _aten.index_put.default, _aten._unsafe_index.Tensor)
#: Operators whose result is their argument.
_SAME = (_aten.alias.default, _aten.detach.default)


class _Values:
    """Computes the values of nodes in eager PyTorch, those that are asked for and what they need."""

    def __init__(self, gm: GraphModule, given: Callable[[Node], Any]) -> None:
        self._gm, self._given = gm, given
        self._known: dict[Node, Any] = {}

    def of(self, node: Node) -> Any:
        open_ = [node]
        while open_:
            now = open_[-1]
            missing = [n for n in now.all_input_nodes if n not in self._known]
            if now in self._known or not missing:
                self._known.setdefault(open_.pop(), self._compute(now))
            else:
                open_ += missing
        return self._known[node]

    def _compute(self, node: Node) -> Any:
        if node.op == "placeholder":
            return self._given(node)
        if node.op == "get_attr":
            return attribute_of(self._gm, str(node.target))
        known: Mapping[Node, Any] = self._known
        args = torch.fx.node.map_arg(node.args, lambda n: known[n])
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: known[n])
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _indices(node: Node) -> Iterator[tuple[Node, Node, int]]:
    """Yields the tables that a node reads with indices, these indices, and the dims."""
    if node.target in _ALONG:
        table, index, dim = _ALONG[node.target]
        along = 0 if dim is None else node.args[dim]
        yield node.args[table], node.args[index], along  # type: ignore[misc]
    elif node.target in _LISTED:
        listed: Any = node.args[1]
        for dim, index in enumerate(listed):
            if isinstance(index, Node):
                yield node.args[0], index, dim  # type: ignore[misc]


def _name_of(node: Node, names: Mapping[Node, str]) -> str:
    """Returns the user's name of a tensor, or what computes it."""
    while node.target in _SAME and isinstance(node.args[0], Node):
        node = node.args[0]
    described = getattr(node.meta.get("desc"), "target", None)
    name = names.get(node) or (described if isinstance(described, str) else None)
    if name is None and isinstance(node.target, torch._ops.OpOverload):
        return f"the result of {node.target._opname.strip('_')}"
    return f"'{name or node.name}'"


def _bad_index(
    gm: GraphModule, given: Callable[[Node], Any], names: Mapping[Node, str]
) -> tuple[str, Node] | None:
    """Finds an index that is out of range, and the operator that has it."""
    values = _Values(gm, given)
    for node in gm.graph.nodes:
        for table, index, dim in _indices(node):
            indices = values.of(index)
            fake = table.meta.get("val")
            if not isinstance(fake, torch.Tensor) or indices.dtype == torch.bool:
                continue
            axis = dim % max(fake.dim(), 1)
            dims = fake.shape if all(isinstance(d, int) for d in fake.shape) else None
            limit = int(
                dims[axis] if dims is not None else values.of(table).shape[axis]
            )
            wrong = indices[(indices < -limit) | (indices >= limit)]
            if wrong.numel():
                return (
                    f"index {int(wrong.flatten()[0])} is out of range for dimension {axis} of "
                    f"{_name_of(table, names)} with size {limit}"
                ), node
    return None


def detailed(
    error: reprise.Error,
    gm: GraphModule,
    given: Callable[[Node], Any],
    names: Mapping[Node, str] | None = None,
) -> reprise.Error:
    """Returns the error with the index that it is about, as far as that can be found, and a line.

    `given` returns the values of arguments, and `names` has names of them.
    """
    better = _detailed(error, gm, given, names)
    if not getattr(better, "__notes__", []):
        better.add_note(f"from {line_of_caller()}")
    return better


def _detailed(
    error: reprise.Error,
    gm: GraphModule,
    given: Callable[[Node], Any],
    names: Mapping[Node, str] | None,
) -> reprise.Error:
    if not isinstance(error, reprise.IndexOutOfRange):
        return error
    try:
        found = _bad_index(gm, given, names or {})
    except Exception:  # noqa: BLE001  # the error itself is what matters
        return error
    if found is None:
        return error
    better = reprise.IndexOutOfRange(f"{found[0]}; {error}")
    lines = [f"from {source_of(found[1])}", *getattr(error, "__notes__", [])]
    for line in dict.fromkeys(lines):
        if line != "from ":
            better.add_note(line)
    return better
