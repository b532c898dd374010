"""Parameters as constants of a compiled program, for inference."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from .changes import Snapshot


def with_constants(gm: GraphModule, values: dict[int, torch.Tensor]) -> GraphModule:
    """Returns a copy of a graph in which arguments, by position, are constants."""
    frozen = copy.deepcopy(gm)
    placeholders = [n for n in frozen.graph.nodes if n.op == "placeholder"]
    for number, value in values.items():
        node, name = placeholders[number], f"frozen_{number}"
        frozen.register_buffer(name, value.detach())
        with frozen.graph.inserting_after(placeholders[-1]):
            constant = frozen.graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
    frozen.recompile()
    return frozen


class Frozen:
    """Compiles a graph with the values that its parameters have, and again after they change.

    An argument that two calls in a row find changed, such as a statistic that the graph itself
    updates, is no constant from then on.
    """

    def __init__(
        self, gm: GraphModule, static: Sequence[int],
        compile_graph: Callable[[GraphModule], Callable[..., Any]], weights: str,
    ) -> None:  # fmt: skip
        self._gm, self._static, self._compile = gm, list(static), compile_graph
        self._weights = weights
        self._snapshots: dict[int, Snapshot] = {}
        self._changed: set[int] = set()  # since the call before the last one
        self._compiled: Callable[..., Any] | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        with self._lock:
            known = self._snapshots.items()
            changed = {i for i, seen in known if not seen.is_of(arguments[i])}
            if self._compiled is None or changed:
                twice = changed & self._changed
                self._static = [i for i in self._static if i not in twice]
                values = {i: arguments[i] for i in self._static}
                self._snapshots = {
                    i: Snapshot(t, self._weights) for i, t in values.items()
                }
                self._compiled = self._compile(with_constants(self._gm, values))
            self._changed = changed
            compiled = self._compiled
        return compiled(*arguments)
