"""Tensors of PyTorch that have a copy on a device."""

from __future__ import annotations

import functools
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

import reprise

from .changes import Snapshot
from .tally import counters


class Resident:
    """A copy of a tensor on a device, and the state of the tensor that it is a copy of.

    It belongs to memory, not to a tensor object: several tensors may lie in the same memory, and
    each counts its own changes. Nothing here refers to a tensor, not even weakly, because
    `torch.utils.swap_tensors` refuses such tensors.
    """

    __slots__ = ("_memory", "_versions", "_weights", "copy")
    #: How many were released in this process.
    released: ClassVar[int] = 0

    def __init__(self, weights: str) -> None:
        self.copy: reprise.Tensor | None = None
        self._weights = weights
        self._memory: Snapshot | None = None
        self._versions: dict[int, int] = {}

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether it has the values of a tensor, whose form must be the one it was made for."""
        memory, version = self._memory, self._versions.get(id(tensor))
        return (
            memory is not None
            and version is not None
            and (version == tensor._version or self._weights == "frozen")
            and memory.is_in(tensor)
        )

    def update(
        self, tensor: torch.Tensor, stored: torch.Tensor, device: reprise.Device
    ) -> None:
        """Copies a tensor, in the form that programs read, to the device."""
        before, version = Snapshot(tensor, self._weights), tensor._version
        if self.copy is None:
            self.copy = reprise.Tensor(stored, device=device)
        else:
            self.copy.write(stored)
        if len(self._versions) >= _MAX_VERSIONS:
            self._versions.clear()
        self._versions[id(tensor)], self._memory = version, before

    def release(self) -> None:
        """Frees the copy, because the tensor's memory is free."""
        self.copy = self._memory = None
        Resident.released += 1


#: Of how many tensors in the same memory the versions are known.
_MAX_VERSIONS = 64


@dataclass
class _Kept:
    """What is kept of a storage: a reference that tells its end, and the copies by their form."""

    alive: weakref.ref[torch.UntypedStorage]
    copies: dict[tuple[Any, ...], Resident] = field(default_factory=dict)


def _forget(
    kept: dict[int, _Kept], key: int, _: weakref.ref[torch.UntypedStorage]
) -> None:
    for resident in kept.pop(key).copies.values():
        resident.release()


class Residents:
    """The tensors that have a copy on one device, as long as their storages live."""

    def __init__(self, device: reprise.Device, weights: str) -> None:
        self._device, self._weights = device, weights
        self._kept: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def get(self, tensor: torch.Tensor, stored: torch.Tensor) -> Resident:
        """Returns the copy of a tensor, and copies it if it is new or has changed since."""
        storage = tensor.untyped_storage()
        form = (
            tensor.storage_offset(), tensor.stride(), tensor.dtype, tensor.is_neg(), tensor.is_conj(),
            tuple(stored.shape), stored.dtype,
        )  # fmt: skip
        with self._lock:
            key = id(storage)
            kept = self._kept.get(key)
            if kept is None:
                forget = functools.partial(_forget, self._kept, key)
                kept = self._kept[key] = _Kept(weakref.ref(storage, forget))
            resident = kept.copies.setdefault(form, Resident(self._weights))
            if not resident.is_of(tensor):
                resident.update(tensor, stored, self._device)
                counters.uploads += 1
            return resident
