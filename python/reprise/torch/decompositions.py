"""Which operators PyTorch rewrites as simpler ones before the table sees them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel

from .formulas import FORMULAS, formulas_of_others, whole

#: Beyond core ATen: layers whose formulas fuse better than a kernel of their own.
_ALSO = (

    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional", "native_layer_norm", "native_group_norm",
    *whole.RESAMPLING,
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "reflection_pad1d_backward",
    "reflection_pad2d_backward", "reflection_pad3d_backward", "logaddexp", "logaddexp2", "trace",
    "tril_indices", "triu_indices", "softplus", "softplus_backward", "smooth_l1_loss",
    "smooth_l1_loss_backward", "soft_margin_loss", "soft_margin_loss_backward",
    "rrelu_with_noise_backward", "addmv", "nansum", "_softmax_backward_data",
    "_log_softmax_backward_data", "select_backward", "slice_backward", "threshold",
    "threshold_backward", "sinc", "sgn", "special_entr", "special_log_ndtr", "xlogy",
    "special_xlog1py", "dist", "renorm", "std_mean", "roll", "rot90", "log_sigmoid_forward",
    "unfold_backward", "unfold_copy", "im2col", "col2im", "pixel_shuffle",
    "pixel_unshuffle", "tril", "heaviside", "lcm", "nan_to_num",
    "isposinf", "isneginf", "bernoulli", "mvlgamma", "glu", "glu_backward", "hardshrink",
    "softshrink", "softshrink_backward", "hardswish", "hardsigmoid", "mish", "mish_backward",
    "celu", "silu_backward", "gelu_backward", "elu_backward", "_prelu_kernel",
    "_prelu_kernel_backward", "aminmax", "floor_divide_", "block_diag", "addr", "_euclidean_dist",
    "multi_margin_loss", "_fused_adam", "_fused_adamw", "_fused_sgd", "norm",
    "binary_cross_entropy_with_logits", "rad2deg", "deg2rad", "logit", "diag_embed",
    "split_with_sizes_copy", "unbind_copy", "_chunk_cat", "lerp", "frac", "zero",
)  # fmt: skip
#: Rewritten by core ATen, but the table has a shorter way.
_NOT = (

    "aten.embedding_dense_backward", "aten.index_add", "aten.index_copy", "aten.arange",
    "aten.masked_fill", "aten.logsumexp", "aten.tril", "aten.triu", "aten.floor_divide", "aten.eye",
    "aten.lerp", "aten.elu", "aten.clamp_min", "aten.clamp_max", "aten.dot", "aten.mv", "aten.vdot",
    "aten.var_mean", "aten.std", "aten.var", "aten.baddbmm", "aten.addcmul", "aten.addcdiv",
    "aten.unsafe_split", "aten._scaled_dot_product_flash_attention_for_cpu",
    # These keep the strides of the tensor that is written to.
    "aten.select_scatter", "aten.slice_scatter", "aten.diagonal_scatter", "aten.as_strided_scatter",
)  # fmt: skip


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns the table that AOTAutograd gets."""
    return {**_decompositions(), **formulas_of_others()}


@functools.lru_cache(maxsize=1)
def _decompositions() -> dict[Any, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    aten = torch.ops.aten
    packets = [getattr(aten, name, None) for name in _ALSO]
    table.update(get_decompositions([p for p in packets if p is not None]))
    for name in _NOT:
        packet = getattr(aten, name.removeprefix("aten."), None)
        if packet is None:
            continue
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            if not _is_composite(operator):
                table.pop(operator, None)
    table.update(FORMULAS)
    return table


def _is_composite(operator: Any) -> bool:
    """Returns whether PyTorch always writes an overload with others, such as `std.dim`.

    AOTAutograd never sees such an overload, but `torch.export` keeps it if no formula is there.
    """
    return torch._C._dispatch_has_kernel_for_dispatch_key(
        operator.name(), "CompositeImplicitAutograd"
    )


@contextlib.contextmanager
def traced_forms() -> Iterator[None]:
    """In this block, attention and resampling are traced as operators that have a row or a formula.

    Attention is its formula for what the operator does not take, such as dropout and gradients of
    masks.
    """
    # PyTorch remembers which operators it can rewrite when it first makes a table. This block changes
    # some of them, so the table must be made first.
    _decompositions()
    forms = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(forms), whole.resampling():
        yield
