"""Whether the values of a tensor may have changed."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from reprise._native import memory_hashes, memory_sample


def memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address and the number of bytes of the memory that a tensor of the CPU lies in."""
    if not tensor.is_cpu:
        return 0, 0
    if tensor.is_contiguous():
        return tensor.data_ptr(), tensor.nbytes
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


class Snapshot:
    """The state of a tensor, outside of inference mode, by which later changes are noticed.

    PyTorch counts changes by a tensor's operators in its version. Writing through `tensor.data` or a
    NumPy array is not counted. `weights` says how such changes are noticed: "watch" by a hash of all
    bytes, "sample" by a few words, so that an uncounted change of a small part of a large tensor is
    missed, and "frozen" not at all: values do not change.
    """

    __slots__ = ("_address", "_hash", "_memory", "_sample", "_version")

    def __init__(self, tensor: torch.Tensor, weights: str) -> None:
        self._version, self._address = tensor._version, tensor.data_ptr()
        self._memory = memory_of(tensor)
        frozen, watch = weights == "frozen", weights == "watch"
        self._sample = None if frozen else memory_sample(*self._memory)
        self._hash = memory_hashes([*self._memory]) if watch else None

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has not changed. Its dims, strides and dtype must still be the same."""
        same = self._sample is None or tensor._version == self._version
        return same and self.is_in(tensor)

    def is_in(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in the same memory, with the same values."""
        if tensor.data_ptr() != self._address:
            return False
        if self._sample is not None and memory_sample(*self._memory) != self._sample:
            return False
        return self._hash is None or memory_hashes([*self._memory]) == self._hash


def _count_fused_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Counts the changes by fused optimisers, whose kernels do not count them."""
    if torch.compiler.is_compiling():
        return
    for group in optimizer.param_groups:
        if group.get("fused"):
            torch.autograd.graph.increment_version(group["params"])


register_optimizer_step_post_hook(_count_fused_step)
