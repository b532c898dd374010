"""What was compiled, and what was left to PyTorch: the data behind `explain`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import phases
from .engine import Program


@dataclass
class Fallback:
    """An operator that PyTorch runs: its name, the reason and the user's line."""

    operator: str
    reason: str
    source: str


@dataclass
class GraphReport:
    """A graph that AOTAutograd made: forward, backward or inference.

    `seconds` has the times of its phases, without those of PyTorch.
    """

    kind: str
    operators: int
    regions: list[Program] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Times a phase of the graph, and those inside it."""
        with phases.noted(self.seconds), phases.phase(what):
            yield


@dataclass
class GraphBreak:
    """A place where Dynamo ends a graph, with the user's line."""

    reason: str
    source: str


_local = threading.local()


def _add(name: str, entry: object) -> None:
    """Notes an entry in every collection of this name that is open in this thread."""
    for found in getattr(_local, name, []):
        found.append(entry)


@contextmanager
def _collect(name: str) -> Iterator[list[Any]]:
    found: list[Any] = []
    stack = _local.__dict__.setdefault(name, [])
    stack.append(found)
    try:
        yield found
    finally:
        stack[:] = [s for s in stack if s is not found]


def add(entry: GraphReport) -> None:
    """Notes a graph that is compiled."""
    _add("graphs", entry)


def add_end(gm: object) -> None:
    """Notes why Dynamo ended a graph, if a part of the program had to stay outside."""
    why = getattr(gm, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return
    lines = str(why.reason).strip().splitlines() or [""]
    stack = why.user_stack
    source = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
    _add("breaks", GraphBreak(lines[0], source))


def collect() -> AbstractContextManager[list[GraphReport]]:
    """Collects the graphs that are compiled in a block."""
    return _collect("graphs")


def collect_breaks() -> AbstractContextManager[list[GraphBreak]]:
    """Collects the places in a block where Dynamo ends a graph."""
    return _collect("breaks")
