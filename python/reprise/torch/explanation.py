"""`reprise.torch.explain`: what of a model was compiled, and why not all of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

from .._tables import html_table
from . import phases, report


@dataclass
class Explanation:
    """Compiled graphs, with their kernels and what PyTorch runs, and graph breaks.

    Printed, or shown in a notebook, it is a table for people.

    Attributes:
        graphs: the compiled graphs. Each has a `kind` ("forward", "backward" or "inference"), the
            number of its `operators`, its compiled `regions`, and `fallbacks`.
        breaks: the places where Dynamo ends a graph, with a `reason` and the user's line (`source`).
        seconds: how long the phases of the first call took.
    """

    graphs: list[report.GraphReport] = field(default_factory=list)
    breaks: list[report.GraphBreak] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        """How many kernels a run of all graphs launches."""
        return sum(r.kernels().launches for g in self.graphs for r in g.regions)

    @property
    def fallbacks(self) -> list[report.Fallback]:
        """The operators that PyTorch runs, with a `reason` and the user's line (`source`)."""
        return [f for g in self.graphs for f in g.fallbacks]

    def _repr_html_(self) -> str:
        rows = []
        for number, graph in enumerate(self.graphs):
            name = f"{number}, {graph.kind}"
            for region in graph.regions:
                kernels = region.kernels()
                rows += [(name, "kernel", k, "") for k in kernels.names]
                rows += [(name, "on the host", reason, "") for reason in kernels.host]
            rows += [
                (name, "in PyTorch", f"{f.operator}: {f.reason}", f.source)
                for f in graph.fallbacks
            ]
        rows += [("", "graph break", b.reason, b.source) for b in self.breaks]
        caption = f"{len(self.graphs)} graphs, {self.launches} launches"
        return html_table(caption, ("graph", "", "what", "where"), rows)

    def __str__(self) -> str:
        lines: list[str] = []
        if not self.graphs:
            lines.append("nothing was compiled: PyTorch runs the whole program")
        for number, graph in enumerate(self.graphs):
            launches = sum(r.kernels().launches for r in graph.regions)
            lines.append(
                f"graph {number}, {graph.kind}: {graph.operators} operators, "
                f"{len(graph.regions)} compiled regions, {launches} launches"
                + (f"; {phases.listed(graph.seconds)}" if graph.seconds else "")
            )
            for region in graph.regions:
                kernels = region.kernels()
                lines += [f"  kernel {name}" for name in kernels.names]
                lines += [f"  on the host: {reason}" for reason in kernels.host]
            for f in graph.fallbacks:
                where = f" ({f.source})" if f.source else ""
                lines.append(f"  PyTorch runs {f.operator}: {f.reason}{where}")
        for found in self.breaks:
            lines.append(f"graph break: {found.reason} ({found.source})")
        if self.seconds:
            lines.append(f"first call: {phases.listed(self.seconds)}")
        return "\n".join(lines)


def _failures(since: float) -> list[report.GraphBreak]:
    """Returns why Dynamo left whole functions to PyTorch."""
    found = []
    for metrics in torch._dynamo.utils.get_compilation_metrics():
        if metrics.fail_type is None or (metrics.start_time or 0) < since:
            continue
        lines = [line.strip() for line in str(metrics.fail_reason).splitlines()] or [""]
        head = "Explanation: "
        reason = next(
            (x.removeprefix(head) for x in lines if x.startswith(head)), lines[0]
        )
        name = f"{metrics.co_name} runs in PyTorch: {metrics.fail_type}: {reason}"
        file, line = metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno
        if file is None:
            file, line = metrics.co_filename, metrics.co_firstlineno
        found.append(report.GraphBreak(name, f"{file}:{line}"))
    return found


def _recurrent(model: object) -> list[report.GraphBreak]:
    """Returns the recurrent layers that Dynamo leaves to PyTorch, without a word."""
    if not isinstance(model, torch.nn.Module) or torch._dynamo.config.allow_rnn:
        return []
    return [
        report.GraphBreak(
            f"{type(module).__name__} runs in PyTorch, unless torch._dynamo.config.allow_rnn = True "
            "is set before the model is compiled",
            f"module '{name}'",
        )
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.RNNBase)
    ]


@contextlib.contextmanager
def _unchanged(model: object) -> Iterator[None]:
    """In this block, random numbers and the buffers of a model may change; then they are put back."""
    buffers = list(model.buffers()) if isinstance(model, torch.nn.Module) else []
    before = [b.detach().clone() for b in buffers]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(buffers, before, strict=True):
                    buffer.copy_(value)


def explain(
    backend: Callable[..., Any],
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    **keywords: Any,
) -> Explanation:
    """Compiles `model` with our backend, runs it once, and tells what became of it.

    If a result needs a gradient, the backward graph is compiled and run as well. Gradients, buffers
    such as the statistics of a BatchNorm, and the state of random numbers are left as they were, and
    so is what other models have compiled.
    """
    # PyTorch does not trace a program that it has saved, and there would be nothing to explain.
    saves = getattr(torch._dynamo.config, "caching_precompile", False)
    with torch._dynamo.config.patch({"caching_precompile": False} if saves else {}):
        return _explained(backend, model, inputs, keywords, mode, options)


def _explained(
    backend: Callable[..., Any],
    model: Callable[..., Any],
    inputs: Any,
    keywords: Any,
    mode: Any,
    options: Any,
) -> Explanation:
    def own(gm: Any, example_inputs: Any, **chosen: Any) -> Any:
        return backend(gm, example_inputs, **chosen)

    # Dynamo compiles for each backend anew, and keeps what it has compiled for others.
    limits = {"recompile_limit": _MANY, "accumulated_recompile_limit": _MANY}
    since, start = time.time(), time.perf_counter()
    seconds = {"other": 0.0}
    with (
        torch._dynamo.config.patch(limits),
        _unchanged(model),
        phases.noted(seconds),
        report.collect() as graphs,
        report.collect_breaks() as breaks,
    ):
        compiled = torch.compile(model, backend=own, mode=mode, options=options)
        result = compiled(*inputs, **keywords)
        outputs = [
            t
            for t in pytree.tree_leaves(result)
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        if outputs:
            leaves = _leaves(model, inputs, keywords)
            seeds = [torch.ones_like(o) for o in outputs]
            torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    seconds["other"] = time.perf_counter() - start - sum(seconds.values())
    failures = [*breaks, *_recurrent(model), *_failures(since)]
    return Explanation(graphs, failures, seconds)


#: How many programs of one function Dynamo may keep, those of other backends included.
_MANY = 1 << 16


def _leaves(model: Any, inputs: Any, keywords: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    if isinstance(model, torch.nn.Module):
        found += model.parameters()
    found += [
        t for t in pytree.tree_leaves((inputs, keywords)) if isinstance(t, torch.Tensor)
    ]
    return [t for t in found if t.requires_grad]
