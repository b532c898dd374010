"""Whether the values of a tensor may have changed."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from reprise._native import memory_sample


class Snapshot:
    """The state of a tensor, outside of inference mode, by which later changes are noticed.

    PyTorch counts changes by a tensor's operators in its version. Writing through `tensor.data` or a
    NumPy array is not counted, so a sample of the memory is compared as well. The sample has a few
    words, so that an uncounted change of a small part of a large tensor is missed.
    """

    __slots__ = ("_address", "_memory", "_sample", "_version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._version, self._address = tensor._version, tensor.data_ptr()
        self._memory = (0, 0)
        if tensor.is_cpu and tensor.is_contiguous():
            self._memory = (self._address, tensor.nbytes)
        elif tensor.is_cpu:
            storage = tensor.untyped_storage()
            self._memory = (storage.data_ptr(), storage.nbytes())
        self._sample = memory_sample(*self._memory)

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has not changed. Its dims, strides and dtype must still be the same."""
        return tensor._version == self._version and self.is_in(tensor)

    def is_in(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in the same memory, with the same sample of values."""
        return (
            tensor.data_ptr() == self._address
            and memory_sample(*self._memory) == self._sample
        )


def _count_fused_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Counts the changes by fused optimisers, whose kernels do not count them."""
    if torch.compiler.is_compiling():
        return
    for group in optimizer.param_groups:
        if group.get("fused"):
            torch.autograd.graph.increment_version(group["params"])


register_optimizer_step_post_hook(_count_fused_step)
