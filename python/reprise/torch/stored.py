"""Compiled graphs that PyTorch keeps for later processes, beside the code that Dynamo has made.

With `torch._dynamo.config.caching_precompile`, PyTorch saves Dynamo's guards and code together with
what backends have compiled, so that a later process does not trace the program again. A backend takes
part if its compilers return an `OutputCode` that can be pickled.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.codecache import BypassFxGraphCache
from torch._inductor.output_code import OutputCode
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx._graph_pickler import GraphPickler
from torch.fx._graph_pickler import Options as GraphOptions
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from . import cache, engine
from .compiler import Adapting, Job, adapting, counted
from .options import Options
from .symbols import expression

#: What picklers raise.
_UNPICKLABLE = (
    AssertionError, AttributeError, BypassFxGraphCache, NotImplementedError, pickle.PicklingError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class _Form:
    """What is saved: the lowered graph, and for what a device refuses to run, the graph itself."""

    build: str
    options: Options
    kind: str
    static: frozenset[int]
    operators: int
    lowered: bytes
    graph: bytes


class StoredGraph(OutputCode):
    """A compiled graph in AOTAutograd's boxed convention."""

    def __init__(self, gm: GraphModule, job: Job, options: Options) -> None:
        super().__init__()
        self._boxed_call = True
        # A copy, because AOTAutograd empties graphs when it saves them.
        self._run: Adapting | None
        self._run, lowered = adapting(copy.deepcopy(gm), job)
        self._form: _Form | None = None
        self._reason = "PyTorch runs a part of the graph"
        if lowered is None:
            return
        try:
            self._form = _Form(
                build_id(), options, job.kind, job.static, counted(gm), _dumped(lowered),
                GraphPickler.dumps(gm, GraphOptions(None, ("val", "stack_trace").__contains__)),
            )  # fmt: skip
        except _UNPICKLABLE as error:
            self._reason = f"the graph cannot be pickled: {error}"

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self._run is not None, "post_compile was not called"
        return self._run(*inputs)

    def prepare_for_serialization(self) -> None:
        """Drops what cannot be saved; PyTorch calls this for a copy."""
        if self._form is None:
            raise BypassAOTAutogradCache(self._reason)
        self._run = None

    def post_compile(
        self, example_inputs: Sequence[Any], constants: object, graph_kwargs: object
    ) -> None:
        """Opens a program that was saved. Raises RuntimeError if another build has saved it."""
        form = self._form
        if self._run is not None or form is None:
            return
        if form.build != build_id():
            raise RuntimeError("another version of Reprise has saved the program")
        job = Job(engine.open_engine(form.options), form.kind, form.static)
        lowered = pickle.loads(form.lowered)
        self._run = Adapting(lambda: _graph(form.graph), job, form.operators, lowered)

    def set_triton_bundle(self, triton_bundle: object) -> None:
        """There are no kernels of Triton."""


def serializable(
    compiler: Callable[[GraphModule, Sequence[Any]], StoredGraph],
) -> SerializableAOTDispatchCompiler:
    """Tells AOTAutograd that what a compiler returns can be saved."""
    return SerializableAOTDispatchCompiler(StoredGraph, compiler)


def mark(gm: GraphModule, options: Options) -> None:
    """Lets AOTAutograd's key of a graph depend on the options and on this build."""
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
            return copy.copy, (expression(value),)
        if isinstance(value, torch._ops.OpOverload):
            return _operator, (value.namespace, value._opname, value._overloadname)
        return NotImplemented


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
