"""Arguments of a region that stay on the device: parameters, as long as they do not change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

import reprise
from reprise._native import memory_hashes, memory_samples

from .changes import memory_of
from .engine import Program, RunRefused
from .residents import Resident
from .results import TensorSpec


def storing(spec: TensorSpec) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns what gives tensors the order of memory that the model reads, without a copy if it can."""
    dtype, order = spec.dtype, None if spec.in_order else spec.order
    is_complex = dtype.is_complex

    def stored(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.dtype != dtype:  # a few operators have results of other dtypes
            tensor = tensor.to(dtype)
        if order is not None:
            tensor = tensor.permute(order)
        if tensor.is_neg() or (is_complex and tensor.is_conj()):
            tensor = tensor.resolve_conj().resolve_neg()
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        return torch.view_as_real(tensor) if is_complex else tensor

    return stored


class Static:
    """Reads one such argument."""

    def __init__(self, program: Program, number: int, spec: TensorSpec) -> None:
        self.number, self.fixed = number, spec.fixed
        self._program, self._stored = program, storing(spec)
        self._found: Resident | None = None

    def __call__(self, arguments: Sequence[Any]) -> Any:
        tensor: torch.Tensor = arguments[self.number]
        if tensor.is_inference():  # it has no version
            return self._stored(tensor)
        found = self._found
        if found is not None and found.is_of(tensor):
            return found.copy
        stored = self._stored(tensor)
        found = self._program.resident(tensor, stored)
        if found is None:
            return stored
        if self.fixed:
            # Else the same memory may hold a tensor of another form in the next call.
            self._found = found
        return found.copy


@dataclass(frozen=True)
class _Seen:
    """What tells that no argument has changed since a call, and what the program read then."""

    ids: list[int]
    versions: list[int]
    addresses: list[int]
    released: int
    memories: list[int]
    sample: int
    hashes: list[int] | None
    inputs: list[Any]


class Statics:
    """Reads all of them, with one look at all of their memory. `readers` have their places.

    `weights` says how changes that PyTorch does not count are noticed; see `Snapshot`.
    """

    def __init__(self, readers: Sequence[tuple[int, Static]], weights: str) -> None:
        self._readers, self._weights = readers, weights
        self._numbers = [r.number for _, r in readers]
        self._fixed = all(r.fixed for _, r in readers)
        self._seen: _Seen | None = None

    def run(
        self, arguments: Sequence[Any], others: int, run: Callable[[list[Any]], None]
    ) -> None:
        """Calls `run` with the inputs of the program, in which None stands for the other ones.

        Where hashes are to tell whether values have changed, they are made meanwhile: `run` is called
        again if they have.
        """
        tensors: list[torch.Tensor] = [arguments[n] for n in self._numbers]
        seen = self._unchanged(tensors)
        if seen is None:
            run(self._read_and_note(arguments, tensors, others))
        elif seen.hashes is None:
            run(seen.inputs.copy())
        elif not _run_watched(seen, run):
            self._seen = None
            run(self._read_and_note(arguments, tensors, others))

    def _unchanged(self, tensors: Sequence[torch.Tensor]) -> _Seen | None:
        """Returns what was seen if nothing is known to have changed since then."""
        seen = self._seen
        if seen is None or not tensors:
            return None
        try:
            versions = [t._version for t in tensors]
        except RuntimeError:  # one of inference mode has no version
            return None
        same = (
            (versions == seen.versions or self._weights == "frozen")
            and list(map(id, tensors)) == seen.ids
            and [t.data_ptr() for t in tensors] == seen.addresses
            # No other storage can have come to the address of one that was not released.
            and Resident.released == seen.released
            and (self._weights == "frozen" or memory_samples(seen.memories) == seen.sample)
        )  # fmt: skip
        return seen if same else None

    def _read_and_note(
        self, arguments: Sequence[Any], tensors: Sequence[torch.Tensor], others: int
    ) -> list[Any]:
        try:
            versions = [t._version for t in tensors]
        except RuntimeError:
            return self._read(arguments, others)
        released = Resident.released
        memories = [n for t in tensors for n in memory_of(t)]
        sample = memory_samples(memories)
        inputs = self._read(arguments, others)
        if (
            tensors
            and self._fixed
            and not any(isinstance(i, torch.Tensor) for i in inputs)
        ):
            self._seen = _Seen(
                list(map(id, tensors)), versions, [t.data_ptr() for t in tensors], released,
                memories, sample,
                memory_hashes(memories) if self._weights == "watch" else None, inputs,
            )  # fmt: skip
        return inputs.copy()

    def _read(self, arguments: Sequence[Any], others: int) -> list[Any]:
        inputs: list[Any] = [None] * (len(self._readers) + others)
        for place, read in self._readers:
            inputs[place] = read(arguments)
        return inputs


#: So many bytes are hashed before a run: another thread would take longer to begin.
_FEW_BYTES = 1 << 20
_hashing = ThreadPoolExecutor(1, "reprise-hash")


def _renew() -> None:
    global _hashing  # a child has no threads of its parent
    _hashing = ThreadPoolExecutor(1, "reprise-hash")


os.register_at_fork(after_in_child=_renew)


def _run_watched(seen: _Seen, run: Callable[[list[Any]], None]) -> bool:
    """Runs and returns True if the values are those that were seen, before the run or meanwhile."""
    if sum(seen.memories[1::2]) <= _FEW_BYTES:
        if memory_hashes(seen.memories) != seen.hashes:
            return False
        run(seen.inputs.copy())
        return True
    hashes = _hashing.submit(memory_hashes, seen.memories)
    failure: reprise.Error | RunRefused | None = None
    try:
        run(seen.inputs.copy())
    except (reprise.Error, RunRefused) as error:
        failure = error
    finally:
        same = hashes.result() == seen.hashes  # the memory must live until then
    if same and failure is not None:
        raise failure
    return same
