"""What executes compiled regions: packages of Reprise on a device, kept in memory and on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

import reprise

from .options import Options


class CompileError(Exception):
    """The compiler refuses a model. The message names the node."""


@dataclass
class Kernels:
    """What `explain` shows of a program: kernels in the order of their launches, and host nodes."""

    names: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)

    @property
    def launches(self) -> int:
        """How many kernels a run launches."""
        return len(self.names)


@dataclass
class Counters:
    """How programs were made since the process began."""

    compiled: int = 0
    from_memory: int = 0
    from_disk: int = 0
    uploads: int = 0


counters = Counters()


class Program(Protocol):
    """A compiled model."""

    def run(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        """Runs on contiguous tensors, or what `resident` returned, and fills the outputs."""

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> Any:
        """Returns what `run` may take for `stored`, a form of `tensor`, without copying it."""

    def kernels(self) -> Kernels:
        """Describes the program."""


class Engine(Protocol):
    """Compiles models for one device."""

    def compile(self, model: bytes) -> Program:
        """Compiles an ONNX model, or raises CompileError."""


#: The id of a tensor, and the dims in which it is stored.
_ResidentKey = tuple[int, tuple[int, ...]]


class _Residents:
    """Tensors of PyTorch that have a copy on a device, as long as they do not change."""

    def __init__(self, device: reprise.Device) -> None:
        self._device = device
        self._kept: dict[_ResidentKey, tuple[Any, int, int, reprise.Tensor]] = {}
        self._lock = threading.Lock()

    def get(self, tensor: torch.Tensor, stored: torch.Tensor) -> reprise.Tensor:
        """Uploads a tensor that is new or has changed since."""
        key = (id(tensor), tuple(stored.shape))
        state = (tensor._version, tensor.data_ptr())
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[0]() is tensor:
                if found[1:3] == state:
                    return found[3]
                copy = found[3]
                copy.write(stored)
            else:
                copy = reprise.Tensor(stored, device=self._device)
            counters.uploads += 1
            forget = functools.partial(self._kept.pop, key, None)
            self._kept[key] = (weakref.ref(tensor, lambda _: forget()), *state, copy)
            return copy


class _PackageProgram:
    """A package in a session."""

    def __init__(self, package: reprise.Package, engine: PackageEngine) -> None:
        self._package, self._engine = package, engine
        self._session = reprise.Session(
            package, engine.device, mode=engine.session_mode
        )

    def run(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        self._session.run_raw(inputs, outputs)

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> Any:
        if self._engine.residents is None:
            return stored
        return self._engine.residents.get(tensor, stored)

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
        self.residents = None if self.device.id == "host" else _Residents(self.device)
        self._options = options
        self._programs: OrderedDict[bytes, Program] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, model: bytes) -> Program:
        """Returns a program from memory or disk, or compiles it."""
        key = self._key(model)
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                counters.from_memory += 1
                self._programs.move_to_end(key)
                return found
        try:
            program = _PackageProgram(self._package(model, key), self)
        except (
            reprise.Unsupported,
            reprise.InvalidModel,
            reprise.InternalError,
        ) as error:
            raise CompileError(str(error)) from error
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > _MAX_PROGRAMS:
                self._programs.popitem(last=False)
        return program

    def _key(self, model: bytes) -> bytes:
        device = self.device.info
        parts = (
            reprise.__version__, self.session_mode, self._options.precision, device.id,
            device.name, device.driver,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode() + model).digest()

    def _package(self, model: bytes, key: bytes) -> reprise.Package:
        folder = cache_folder(self._options)
        path = folder / f"{key.hex()}.rpk" if folder is not None else None
        if path is not None and path.exists():
            try:
                package = reprise.Package.open(path)
                path.touch()
            except (reprise.Error, OSError):
                path.unlink(missing_ok=True)  # damaged, or of another version
            else:
                counters.from_disk += 1
                return package
        package = reprise.compile(
            model, device=self.device, mode=self.session_mode, precision=self._options.precision,
            progress=False,
        )  # fmt: skip
        counters.compiled += 1
        if path is not None:
            _keep(package, path)
        return package


#: How many bytes of packages the folder on disk keeps.
_MAX_DISK = 1 << 30


def cache_folder(options: Options) -> Path | None:
    """Returns the folder of compiled packages, or None if the option "cache_dir" is empty."""
    if options.cache_dir is not None:
        return Path(options.cache_dir) if options.cache_dir else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache"
    )
    return Path(base) / "reprise" / "torch"


def _keep(package: reprise.Package, path: Path) -> None:
    """Saves a package, and deletes those that were not used for the longest time if it is full."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        package.save(path)
        files = sorted(
            path.parent.glob("*.rpk"), key=lambda p: p.stat().st_mtime, reverse=True
        )
        total = 0
        for file in files:
            total += file.stat().st_size
            if total > _MAX_DISK and file != path:
                file.unlink(missing_ok=True)
    except (reprise.Error, OSError):
        return  # a cache that cannot be written is no cache


@functools.lru_cache(maxsize=8)
def open_engine(options: Options) -> Engine:
    """Opens the device that the options name; equal options share an engine."""
    return PackageEngine(options)
