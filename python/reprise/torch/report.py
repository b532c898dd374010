"""What was compiled, and what was left to PyTorch: the data behind `explain`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .engine import Program


@dataclass
class Fallback:
    """An operator that PyTorch runs: its name, the reason and the user's line."""

    operator: str
    reason: str
    source: str


@dataclass
class GraphReport:
    """A graph that AOTAutograd made: forward, backward or inference."""

    kind: str
    operators: int
    regions: list[Program] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)


_local = threading.local()


def add(entry: GraphReport) -> None:
    """Notes a graph in every collection that is open in this thread."""
    for found in getattr(_local, "open", []):
        found.append(entry)


@contextmanager
def collect() -> Iterator[list[GraphReport]]:
    """Collects the graphs that are compiled in a block."""
    found: list[GraphReport] = []
    stack = _local.__dict__.setdefault("open", [])
    stack.append(found)
    try:
        yield found
    finally:
        stack.remove(found)
