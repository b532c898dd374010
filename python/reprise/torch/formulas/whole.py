"""Keeps resampling one operator until its gradient has been derived.

PyTorch traces it as gathers of elements, whose gradient is a scatter with colliding indices. The
operator's own gradient has a formula that gathers as well (`resampling`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size

#: Operators that have a formula each, and a formula of their gradient.
RESAMPLING = (

    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def _with_known_sizes(operator: Any, traced: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a form of an operator that takes factors: the whole operator if all sizes are known."""

    def call(x: torch.Tensor, output_size: Any, *rest: Any) -> Any:
        *corners, factors = rest
        sizes = upsample_compute_output_size(x.size(), output_size, factors)  # type: ignore[no-untyped-call]
        if not all(isinstance(s, int) for s in [*sizes, *x.shape[2:]]):
            return traced(x, output_size, *rest)
        return operator(x, sizes, *corners, *(factors or [None] * len(sizes)))

    return call


@contextlib.contextmanager
def resampling() -> Iterator[None]:
    """In this block, autograd sees the operators of PyTorch's resampling."""
    kept: list[tuple[Any, dict[Any, Any]]] = []
    try:
        for name in RESAMPLING:
            packet = getattr(torch.ops.aten, name, None)
            if packet is None:
                continue
            kept += [(o, dict(o.py_kernels)) for o in (packet.default, packet.vec)]
            for key in _KEYS:
                packet.default.py_kernels.pop(key, None)
                traced = packet.vec.py_kernels.get(key)
                if traced is not None:
                    form = _with_known_sizes(packet.default, traced)
                    packet.vec.py_kernels[key] = form
            for operator in (packet.default, packet.vec):
                operator._dispatch_cache.clear()
        yield
    finally:
        for operator, kernels in kept:
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()
