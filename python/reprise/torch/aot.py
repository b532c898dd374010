"""The backend that Dynamo calls: AOTAutograd around the compiler of single graphs."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch._dynamo
import torch._functorch.config
from functorch.compile import (  # type: ignore[import-untyped]
    min_cut_rematerialization_partition,
)
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import (
    list_backends,
    lookup_backend,
    register_backend,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._guards import TracingContext
from torch.fx import GraphModule, Node

from . import engine, phases, report
from .compiler import Job, compile_graph
from .decompositions import decompositions, traced_forms
from .options import Options

log = logging.getLogger("reprise.torch")


def compile_module(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; see `reprise.torch.backend`."""
    report.add_end(gm)
    chosen = Options.of(mode, options)
    opened = engine.open_engine(chosen)

    # A frozen program contains the values that parameters have in this process, so it is not saved.
    stored = None if chosen.freeze else _stored()
    if stored is not None:
        stored.mark(gm, chosen)

    names = [_name_of(node) for node in gm.graph.find_nodes(op="placeholder")]

    def compiler(
        kind: str,
    ) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        def run(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            if kind == "forward":
                _allow_backward_twice()
            static = _static_inputs() if kind != "backward" else frozenset()
            job = Job(opened, kind, static, _named(graph, names))
            with phases.shown(f"{kind} graph"):
                if stored is not None:
                    return stored.StoredGraph(graph, job, chosen)  # type: ignore[no-any-return]
                return compile_graph(graph, job, chosen.freeze and kind == "inference")

        return run if stored is None else stored.serializable(run)

    trace = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=_partitioned,
    )
    seconds: dict[str, float] = {}
    with (
        phases.shown("program"),
        phases.noted(seconds),
        phases.phase("traced"),
        traced_forms(),
    ):
        program: Callable[..., Any] = trace(gm, example_inputs)
    log.info("a program: %s", phases.listed(seconds))
    return program


#: How the sources of Dynamo write the members of a module.
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")


def _name_of(node: Node) -> str:
    """Returns the user's name of an argument of Dynamo's graph, such as "words.weight"."""
    source = getattr(getattr(node, "_dynamo_source", None), "name", None)
    if not isinstance(source, str):
        return ""
    name = re.sub(r"^[LG]\['(\w+)'\]", r"\1", source)
    name = _MEMBER.sub(r".\1", name)
    # Dynamo calls the modules of PyTorch as "fn".
    return re.sub(r"^(self|fn)\.", "", name)


def _named(graph: GraphModule, names: Sequence[str]) -> dict[str, str]:
    """Returns the user's names of the arguments of AOTAutograd's graph by those of their nodes."""
    found = {}
    for node in graph.graph.find_nodes(op="placeholder"):
        described = node.meta.get("desc")
        if isinstance(described, PlainAOTInput) and described.idx < len(names):
            found[node.name] = names[described.idx] or node.name
    return found


def _partitioned(*arguments: Any, **keywords: Any) -> Any:
    """Divides a joint graph into forward and backward.

    The compiler finds equal nodes itself. PyTorch would import Inductor to find them, which takes
    longer than all else that it does for a small model.
    """
    with torch._functorch.config.patch(cse=False):
        return min_cut_rematerialization_partition(
            *arguments, compiler="inductor", **keywords
        )


def _stored() -> ModuleType | None:
    """Returns what makes graphs that PyTorch saves, if it is to save them."""
    if not getattr(torch._dynamo.config, "caching_precompile", False):
        return None
    try:
        from . import stored  # imports Inductor
    except ImportError:  # a version of PyTorch that saves only what Inductor compiles
        return None
    return stored


@functools.cache
def register(backend: Callable[..., Any]) -> None:
    """Makes the backend known by its name even where its function is passed.

    After it has compiled with a backend that it knows, Dynamo drops the weak references to
    parameters, which `torch.utils.swap_tensors` refuses.
    """
    if "reprise" in list_backends():
        lookup_backend("reprise")
    else:
        register_backend(backend, name="reprise")


def _static_inputs() -> frozenset[int]:
    """Returns the positions of parameters and buffers among the arguments of the forward graph."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return frozenset()
    return frozenset(context.fw_metadata.static_input_indices)


def _allow_backward_twice() -> None:
    """Tells AOTAutograd that backward does not overwrite what forward has saved."""
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []
