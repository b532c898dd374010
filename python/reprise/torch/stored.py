"""Compiled graphs that PyTorch keeps for later processes, beside the code that Dynamo has made.

With `torch._dynamo.config.caching_precompile`, PyTorch saves Dynamo's guards and code together with
what backends have compiled, so that a later process does not trace the program again. A backend takes
part if its compilers return an `OutputCode` that can be pickled.
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._higher_order_ops.effects import with_effects
from torch._inductor.output_code import OutputCode
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx._graph_pickler import GraphPickler
from torch.fx._graph_pickler import Options as GraphOptions
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

from . import cache, engine
from .compiler import Adapting, Job, counted, lower_graph
from .lowering import Lowered
from .options import Options
from .symbols import expression

log = logging.getLogger("reprise.torch")
_lock = threading.Lock()


@dataclass(frozen=True)
class _Form:
    """What is saved: the lowered graph, and for what a device refuses to run, the graph itself."""

    build: str
    options: Options
    kind: str
    static: frozenset[int]
    names: dict[str, str]
    operators: int
    lowered: bytes
    graph: bytes


class StoredGraph(OutputCode):
    """A compiled graph in AOTAutograd's boxed convention."""

    def __init__(self, gm: GraphModule, job: Job, options: Options) -> None:
        super().__init__()
        self._boxed_call = True
        self._form: _Form | None = None
        self._reason = "PyTorch runs a part of the graph"
        kept: list[Lowered] = []

        def lowered() -> Lowered:
            kept.append(lower_graph(gm, job))
            return kept[0]

        self._run: Adapting | None = Adapting(lambda: gm, job, counted(gm), lowered)
        if any(n.target is with_effects for n in gm.graph.nodes):
            # AOTAutograd passes no tokens to programs that it has loaded.
            self._reason = "the graph has assertions or other effects"
        elif self._run.is_whole:
            self._form = self._saved(gm, kept[0], job, options)

    def _saved(
        self, gm: GraphModule, lowered: Lowered, job: Job, options: Options
    ) -> _Form | None:
        graph_options = GraphOptions(None, ("val", "stack_trace").__contains__)
        try:
            with _disable_current_modes():  # constants are real tensors, not fake ones
                graph = GraphPickler.dumps(gm, graph_options)
                return _Form(
                    build_id(), options, job.kind, job.static, dict(job.names), counted(gm),
                    _dumped(lowered), graph,
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001  # the program runs, whether or not it is saved
            self._reason = f"the graph cannot be pickled: {error}"
            log.debug("a graph is not saved: %s", error)
            return None

    def __call__(self, inputs: Sequence[Any]) -> Any:
        run = self._run
        if run is None:
            with _lock:
                run = self._run = self._run or self._opened()
        return run(*inputs)

    def _opened(self) -> Adapting:
        """Opens a program that was saved."""
        form = self._form
        assert form is not None
        job = Job(engine.open_engine(form.options), form.kind, form.static, form.names)
        graph = functools.cache(lambda: _graph(form.graph))
        return Adapting(graph, job, form.operators, lambda: pickle.loads(form.lowered))

    def prepare_for_serialization(self) -> None:
        """Drops what cannot be saved; PyTorch calls this for a copy."""
        if self._form is None:
            raise BypassAOTAutogradCache(self._reason)
        self._run = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Loads what was saved. PyTorch traces a function again if this raises an exception."""
        form = state["_form"]
        if form.build != build_id():
            raise RuntimeError("another build of Reprise has saved the program")
        self.__dict__.update(state)

    def post_compile(
        self, example_inputs: Sequence[Any], constants: object, graph_kwargs: object
    ) -> None:
        """Does nothing: the first call opens the program, and reports what fails on the device."""

    def set_triton_bundle(self, triton_bundle: object) -> None:
        """There are no kernels of Triton."""


def serializable(
    compiler: Callable[[GraphModule, Sequence[Any]], StoredGraph],
) -> SerializableAOTDispatchCompiler:
    """Tells AOTAutograd that what a compiler returns can be saved."""
    return SerializableAOTDispatchCompiler(StoredGraph, compiler)


def mark(gm: GraphModule, options: Options) -> None:
    """Lets AOTAutograd's key of a graph depend on the options and on this build.

    The keys of functions that Dynamo saves are unique anyway. Others are those of functions that
    torch.compile() was called for before the setting was changed.
    """
    gm.reprise = f"{build_id()} {options}"  # type: ignore[assignment]


@functools.cache
def build_id() -> str:
    """Returns what tells this build, with its Python sources, from all others."""
    digest = hashlib.sha256(cache.build_id().encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


class _Pickler(pickle.Pickler):
    """Pickles sizes as expressions, and operators by their names."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return _same, (expression(value),)
        if isinstance(value, torch._ops.OpOverload):
            return _operator, (value.namespace, value._opname, value._overloadname)
        return NotImplemented


def _same(value: Any) -> Any:
    return value


def _operator(namespace: str, name: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def _dumped(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


def _graph(saved: bytes) -> GraphModule:
    gm = GraphPickler.loads(saved, FakeTensorMode(shape_env=ShapeEnv()))
    assert isinstance(gm, GraphModule)
    gm.recompile()
    return gm
