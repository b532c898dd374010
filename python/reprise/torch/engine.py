"""What executes compiled regions: packages of Reprise on a device, kept in memory and on disk."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

import reprise

from . import cache, phases, profiling
from .model import Model
from .options import Options
from .residents import Resident, Residents
from .tally import counters


class CompileError(Exception):
    """The compiler refuses a model. `nodes` are those of the model that the error concerns."""

    def __init__(self, message: str, nodes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


class RunRefused(Exception):
    """A device cannot run a program with these inputs. `nodes` are as those of a CompileError."""

    def __init__(self, message: str, nodes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


@dataclass
class Kernels:
    """What `explain` shows of a program: kernels in the order of their launches, and host nodes."""

    names: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)

    @property
    def launches(self) -> int:
        """How many kernels a run launches."""
        return len(self.names)


class Program(Protocol):
    """A compiled model. `weights` says how changes of parameters are noticed; see `Snapshot`."""

    weights: str

    def run(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        """Runs on contiguous tensors, or copies that `resident` returned, and fills the outputs.

        Raises RunRefused if the device cannot run it, such as for its driver's limits.
        """

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> Resident | None:
        """Returns a copy for `run` to take instead of `stored`, a form of `tensor`, if it keeps one."""

    def kernels(self) -> Kernels:
        """Describes the program."""


class Engine(Protocol):
    """Compiles models for one device. `weights` is as that of programs."""

    weights: str

    def compile(self, model: Model) -> Program:
        """Compiles a model, or raises CompileError."""


class _PackageProgram:
    """A package in a session."""

    def __init__(self, package: reprise.Package, engine: PackageEngine) -> None:
        self._package, self._engine = package, engine
        self.weights = engine.weights
        self._session = engine.session(package)
        self._has_run = False

    def run(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        try:
            if profiling.enabled():
                profiling.run(self._timed, inputs, outputs)
            elif self._has_run:
                self._session.run_raw(inputs, outputs)
            else:
                with phases.phase("first run"):
                    self._session.run_raw(inputs, outputs)
                self._has_run = True
        except reprise.Unsupported as error:
            raise RunRefused(str(error), error.nodes) from error

    @functools.cached_property
    def _timed(self) -> reprise.Session:
        return self._engine.session(self._package, timestamps=True)

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> Resident | None:
        residents = self._engine.residents
        return None if residents is None else residents.get(tensor, stored)

    @functools.lru_cache(maxsize=1)  # noqa: B019
    def kernels(self) -> Kernels:
        explained = self._package.explain(self._engine.device)
        host = [f"{h.op} ({h.node}): {h.reason}" for h in explained.host]
        return Kernels([launch.kernel for launch in explained.launches], host)


_MODES = {
    "max-autotune-no-cudagraphs": "max-autotune-no-graphs",
    "default": "reduce-overhead",
}
#: How many programs stay in memory for graphs that are captured again.
_MAX_PROGRAMS = 256


class PackageEngine:
    """Compiles with `reprise.compile`. Equal models are compiled once."""

    def __init__(self, options: Options) -> None:
        self.device = reprise.open_device(options.device)
        self.session_mode = _MODES.get(options.mode, options.mode)
        self.precision, self.weights = options.precision, options.weights
        self.residents = (
            None
            if self.device.id == "host"
            else Residents(self.device, options.weights)
        )
        self._options = options
        self._shelf = cache.Shelf(cache.folder_of(options.cache_dir))
        self._programs: OrderedDict[bytes, Program] = OrderedDict()
        self._lock = threading.Lock()

    def session(
        self, package: reprise.Package, timestamps: bool = False
    ) -> reprise.Session:
        """Makes a session, which measures each kernel if it has timestamps."""
        with phases.phase("opened"):
            return reprise.Session(
                package, self.device, mode=self.session_mode, timestamps=timestamps
            )

    def package(self, model: Model, states: Mapping[str, str]) -> reprise.Package:
        """Returns the package of a model with states, from disk or newly compiled."""
        key = self._key(model.digest + repr(sorted(states.items())).encode())
        with phases.phase("loaded"):
            package = self._shelf.find(key)
        if package is not None:
            counters.from_disk += 1
            return package
        return self._made(model, key, states)

    def _made(
        self, model: Model, key: bytes, states: Mapping[str, str] | None = None
    ) -> reprise.Package:
        """Compiles a package, and keeps it on disk."""
        with phases.phase("compiled"):
            package = model.compile(
                states, device=self.device, mode=self.session_mode, precision=self.precision,
                progress=phases.progress(),
            )  # fmt: skip
            counters.compiled += 1
            self._shelf.keep(key, package)
        return package

    def compile(self, model: Model) -> Program:
        """Returns a program from memory or disk, or compiles it."""
        key = self._key(model.digest)
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                counters.from_memory += 1
                self._programs.move_to_end(key)
                return found
        try:
            program = self._from_disk(key)
            if program is None:
                program = _PackageProgram(self._made(model, key), self)
        except (
            reprise.Unsupported,
            reprise.InvalidModel,
            reprise.InternalError,
        ) as error:
            raise CompileError(str(error), error.nodes) from error
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > _MAX_PROGRAMS:
                self._programs.popitem(last=False)
        return program

    def _key(self, digest: bytes) -> bytes:
        device = self.device.info
        parts = (
            cache.build_id(), self.session_mode, self._options.precision, device.id, device.name,
            device.driver,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode() + digest).digest()

    def _from_disk(self, key: bytes) -> Program | None:
        with phases.phase("loaded"):
            package = self._shelf.find(key)
        if package is None:
            return None
        try:
            program = _PackageProgram(package, self)
        except reprise.DeviceError:
            raise
        except reprise.Error:  # a session checks weights and kernels when it loads them
            self._shelf.drop(key)
            return None
        counters.from_disk += 1
        return program


@functools.lru_cache(maxsize=8)
def open_engine(options: Options) -> Engine:
    """Opens the device that the options name; equal options share an engine."""
    return PackageEngine(options)
