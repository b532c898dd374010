"""Compiles one functional graph: lowers it, or what of it can be and leaves PyTorch the rest."""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

import reprise

from . import phases, report
from .blame import detailed
from .engine import CompileError, Engine, RunRefused
from .errors import MISFITS, Unsupported
from .freezing import Frozen
from .lowering import Lowered, lower, source_of
from .partition import PREFIX, cut, unsupported
from .region import Region, owners_of
from .results import TensorSpec

log = logging.getLogger("reprise.torch")

#: How many nodes the compiler may refuse before the whole graph is left to PyTorch.
_MAX_REFUSALS = 16


@dataclass(frozen=True)
class Job:
    """How a graph is compiled: the engine, what the report calls it, and its unchanging arguments.

    `static` are the positions of parameters and buffers, which stay on the device between runs.
    `names` are the user's names of arguments by those of their nodes.
    """

    engine: Engine
    kind: str
    static: frozenset[int] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)


def compile_graph(
    gm: GraphModule, job: Job, freeze: bool = False
) -> Callable[..., Any]:
    """Returns a callable in AOTAutograd's boxed convention.

    With `freeze`, static arguments become constants, which are known when it is called first.
    """
    if freeze and job.static:
        free = Job(job.engine, job.kind, names=job.names)
        return make_boxed_func(  # type: ignore[no-any-return]
            Frozen(
                gm,
                sorted(job.static),
                lambda frozen: _adapting(frozen, free),
                job.engine.weights,
            )
        )
    return make_boxed_func(_adapting(gm, job))  # type: ignore[no-any-return]


def _adapting(gm: GraphModule, job: Job) -> Adapting:
    return Adapting(lambda: gm, job, counted(gm), lambda: lower_graph(gm, job))


def counted(gm: GraphModule) -> int:
    """Returns how many operators a graph has."""
    return sum(n.op == "call_function" for n in gm.graph.nodes)


class Adapting:
    """Runs a graph. What a device refuses only in a run, PyTorch runs from then on.

    `lowered` is called once. `graph` is called only if something refuses a part of the graph.
    """

    def __init__(
        self, graph: Callable[[], GraphModule], job: Job, operators: int,
        lowered: Callable[[], Lowered],
    ) -> None:  # fmt: skip
        self._graph, self._job = graph, job
        self._entry = report.GraphReport(job.kind, operators)
        self._refused: dict[str, str] = {}
        self._lock = threading.Lock()
        report.add(self._entry)
        with _disable_current_modes():  # constants are real tensors, not fake ones
            self._call = self._compiled(lowered)

    @property
    def is_whole(self) -> bool:
        """Whether PyTorch runs no part of the graph."""
        return not self._entry.fallbacks

    def _compiled(self, lowered: Callable[[], Lowered]) -> Callable[..., Any]:
        try:
            with self._entry.timed("translated"):
                model = lowered()
            region = _region(model, self._job, self._entry, self._job.static)
            # Calling forward() skips the hooks of modules, which take time in each call.
            return region.forward
        except (Unsupported, CompileError) as error:
            log.debug("the graph is cut: %s", error)
            self._entry.regions.clear()
            refused = _blamed(self._graph(), error)
        return _partitioned(self._graph(), self._job, self._entry, refused)

    def __call__(self, *arguments: Any) -> Any:
        while True:
            call = self._call
            try:
                return call(*arguments)
            except RunRefused as error:
                with self._lock:
                    if self._call is call:
                        self._call = self._without(error)
            except reprise.Error as error:
                gm = self._graph()
                note_sources(gm, error)
                nodes = gm.graph.find_nodes(op="placeholder")
                given = dict(zip(nodes, arguments, strict=False))
                names = {
                    n: self._job.names[n.name]
                    for n in nodes
                    if n.name in self._job.names
                }
                raise detailed(error, gm, given.__getitem__, names) from None

    def _without(self, error: RunRefused) -> Callable[..., Any]:
        gm = self._graph()
        blamed = _blamed_in_run(gm, error)
        log.info("a device refuses to run a graph, which is cut: %s", error)
        with _disable_current_modes():
            if not set(blamed) - set(self._refused):
                return _eager(gm, self._entry, str(error))
            self._refused.update(blamed)
            return _partitioned(gm, self._job, self._entry, self._refused)


def lower_graph(gm: GraphModule, job: Job) -> Lowered:
    """Lowers a graph, or raises Unsupported."""
    try:
        return lower(gm, share=job.kind == "inference")
    except MISFITS as error:
        raise Unsupported(
            f"its arguments have a form that is not supported ({error})"
        ) from error


def _region(
    lowered: Lowered,
    job: Job,
    entry: report.GraphReport,
    static: frozenset[int] = frozenset(),
) -> Region:
    if not any(isinstance(r, TensorSpec) for r in lowered.results):
        return Region(lowered, None)  # all results are arguments or views of them
    try:
        with entry.timed("compiled"):
            program = job.engine.compile(lowered.model)
    except CompileError as error:
        error.nodes = owners_of(lowered.owners, error.nodes)
        raise
    log.info("the %s graph: %s", job.kind, phases.listed(entry.seconds))
    entry.regions.append(program)
    return Region(lowered, program, static)


def _blamed(gm: GraphModule, error: Exception) -> dict[str, str]:
    """Returns the FX nodes that a refusal of the compiler concerns."""
    if not isinstance(error, CompileError):
        return {}
    reason = f"the compiler refuses it: {error}"
    return {n.name: reason for n in _culprits(gm, error.nodes)}


def _blamed_in_run(gm: GraphModule, error: RunRefused) -> dict[str, str]:
    """Returns the FX nodes whose kernel a device refuses to run."""
    reason = f"the device refuses it: {error}"
    return {n.name: reason for n in _culprits(gm, error.nodes)}


def _culprits(gm: GraphModule, names: Sequence[str]) -> list[Node]:
    """Returns the nodes of a kernel that are to be left out, given the names of all.

    Loops are those of reductions, products and the like, which elementwise operators and views have
    joined; the latter are left out only if the kernel consists of them.
    """
    nodes = _named(gm, names)
    return [n for n in nodes if not _is_injective(n)] or nodes


def _is_injective(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and (
        target.is_view or torch.Tag.pointwise in target.tags
    )


def note_sources(gm: GraphModule, error: reprise.Error) -> None:
    """Adds the user's lines of the nodes that an error concerns, which a traceback shows."""
    with contextlib.suppress(Exception):  # the error itself is what matters
        sources = {source_of(n): None for n in _named(gm, error.nodes)}
        for source in sources:
            if source:
                error.add_note(f"from {source}")


def _named(gm: GraphModule, names: Sequence[str]) -> list[Node]:
    """Returns the operators of these names, in the order of the graph."""
    return [n for n in gm.graph.nodes if n.op == "call_function" and n.name in names]


def _partitioned(
    gm: GraphModule, job: Job, entry: report.GraphReport, refused: dict[str, str]
) -> Callable[..., Any]:
    for _ in range(_MAX_REFUSALS):
        entry.regions.clear()
        entry.fallbacks.clear()
        reasons = unsupported(gm, refused)
        parts = cut(copy.deepcopy(gm), reasons)
        try:
            for name, module in list(parts.named_children()):
                if name.startswith(PREFIX) and isinstance(module, GraphModule):
                    setattr(parts, name, _region(lower_graph(module, job), job, entry))
        except (CompileError, Unsupported) as error:
            blamed = _blamed(gm, error)
            if not blamed or not set(blamed) - set(refused):
                return _eager(gm, entry, str(error))
            refused = {**refused, **blamed}
            continue
        parts.recompile()
        for node, reason in reasons.items():
            entry.fallbacks.append(
                report.Fallback(str(node.target), reason, source_of(node))
            )
            log.info("%s runs in PyTorch: %s. %s", node.target, reason, source_of(node))
        return parts.forward
    return _eager(gm, entry, "the compiler refuses too many of its operators")


def _eager(
    gm: GraphModule, entry: report.GraphReport, reason: str
) -> Callable[..., Any]:
    entry.regions.clear()
    entry.fallbacks.clear()
    for node in gm.graph.nodes:
        if node.op == "call_function":
            entry.fallbacks.append(
                report.Fallback(str(node.target), reason, source_of(node))
            )
    log.info("a graph of %d operators runs in PyTorch: %s", entry.operators, reason)
    return gm.forward
