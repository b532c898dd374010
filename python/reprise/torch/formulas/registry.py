"""Operators that the backend writes in terms of others of PyTorch, before the table sees them.

These are formulas where PyTorch has none of its own that leads to operators of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

aten = torch.ops.aten
FORMULAS: dict[Any, Callable[..., Any]] = {}
#: Formulas of operators that other packages define, perhaps later.
_OF_OTHERS: dict[str, Callable[..., Any]] = {}


_F = TypeVar("_F", bound=Callable[..., Any])


def _find(name: str) -> Any:
    namespace, _, rest = name.rpartition("::")
    packet, _, overload = rest.partition(".")
    operators = getattr(torch.ops, namespace or "aten")
    return getattr(getattr(operators, packet, None), overload or "default", None)


def formula(*names: str) -> Callable[[_F], _F]:
    """Makes a function the formula of overloads, by name; "aten::" and "default" may be left out."""

    def register(function: _F) -> _F:
        for name in names:
            if "::" in name:
                _OF_OTHERS[name] = function
            elif (found := _find(name)) is not None:
                FORMULAS[found] = function
        return function

    return register


def formulas_of_others() -> dict[Any, Callable[..., Any]]:
    """Returns the formulas of operators that other packages have defined by now."""
    found = {_find(name): function for name, function in _OF_OTHERS.items()}
    found.pop(None, None)
    return found


# Numbers of Python that vary, such as betas of an optimiser with a scheduler, are inputs only where
# PyTorch's pass over them knows the operator: that of sums and products, but not these.


@formula("add.Tensor")
def _add(x: torch.Tensor, other: Any, *, alpha: Any = 1) -> Any:
    return x + other * alpha if isinstance(alpha, torch.SymFloat) else NotImplemented


@formula("sub.Tensor")
def _sub(x: torch.Tensor, other: Any, *, alpha: Any = 1) -> Any:
    return x - other * alpha if isinstance(alpha, torch.SymFloat) else NotImplemented


@formula("addcmul")
def _addcmul(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: Any = 1
) -> Any:
    return x + a * b * value if isinstance(value, torch.SymFloat) else NotImplemented


@formula("addcdiv")
def _addcdiv(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: Any = 1
) -> Any:
    return x + a / b * value if isinstance(value, torch.SymFloat) else NotImplemented


@formula("lerp.Scalar")
def _lerp(start: torch.Tensor, end: torch.Tensor, weight: Any) -> Any:
    if not isinstance(weight, torch.SymFloat):
        return NotImplemented
    return start + (end - start) * weight


@formula("pow.Scalar")
def _power(base: Any, exponent: torch.Tensor) -> Any:
    if not isinstance(base, torch.SymFloat) or not exponent.is_floating_point():
        return NotImplemented
    return aten.pow.Tensor_Tensor(torch.ones_like(exponent) * base, exponent)


@formula("channel_shuffle")
def _channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """As PyTorch's formula, but never a view: the operator makes a new tensor."""
    size, channels, *rest = x.shape
    parts = x.view(size, groups, channels // groups, *rest)
    return parts.transpose(1, 2).reshape(x.shape).clone()


@formula("native_dropout")
def _native_dropout(
    x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As PyTorch's formula, but the result is a new tensor even without training."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = torch.rand_like(x) > p
    return mask * x * (1.0 / (1.0 - p)), mask


@formula("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(
    x: torch.Tensor, dim: int, index: torch.Tensor, value: Any
) -> torch.Tensor:
    """As PyTorch's formula, which leaves negative indices, counted from the end, to `index_copy`.

    That operator refuses them.
    """
    size = x.shape[dim] if x.dim() else 1
    places = torch.where(index < 0, index + size, index)
    return torch._refs.index_fill(x, dim, places, value)  # type: ignore[no-any-return]


@formula("_cdist_forward")
def _cdist(
    a: torch.Tensor, b: torch.Tensor, p: float, _mode: int | None = None
) -> torch.Tensor:
    size = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    return _norm(size, p)


def _norm(size: torch.Tensor, p: float) -> torch.Tensor:
    """The p-norm of the last dim of numbers that are not negative."""
    if p == 0:
        return (size != 0).to(size.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == float("inf"):
        return size.amax(-1) if size.shape[-1] else size.sum(-1)
    return size.square().sum(-1).sqrt() if p == 2 else size.pow(p).sum(-1).pow(1 / p)


@formula("_cdist_backward")
def _cdist_backward(
    grad: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    p: float,
    distance: torch.Tensor,
) -> torch.Tensor:
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    share = _norm_gradient(difference, p, distance.unsqueeze(-1))
    return (grad.unsqueeze(-1) * share).sum(-2)


def _norm_gradient(
    difference: torch.Tensor, p: float, norm: torch.Tensor
) -> torch.Tensor:
    """The derivative of the p-norm of `difference`; 0 where the norm is 0."""
    sign = difference.sign()
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return sign
    size = difference.abs()
    if p == float("inf"):
        return sign * (size == norm)
    safe = torch.where(norm == 0, 1.0, norm)
    share = difference / safe if p == 2 else sign * (size / safe).pow(p - 1)
    return torch.where(norm == 0, 0.0, share)


@formula("_weight_norm_interface_backward")
def _weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    others = [a for a in range(v.dim()) if a != dim % v.dim()]
    shape = [s if a not in others else 1 for a, s in enumerate(v.shape)]
    scale, norm = g.reshape(shape), norms.reshape(shape).to(v.dtype)
    along = (grad * v).sum(others, keepdim=True) / norm
    return (grad - v * (along / norm)) * (scale / norm), along.reshape(g.shape)


@formula("embedding_renorm")
def _embedding_renorm(
    weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:
    places = indices.reshape(-1)
    lines = weight.index_select(0, places)
    norm = torch.linalg.vector_norm(lines, norm_type, -1, keepdim=True)
    scale = torch.where(norm > max_norm, max_norm / (norm + 1e-7), 1.0)
    return weight.index_copy(0, places, (lines * scale).to(weight.dtype))


def _pairs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.triu_indices(count, count, 1)
    return first, second


@formula("_pdist_forward")
def _pdist(x: torch.Tensor, p: float = 2) -> torch.Tensor:
    first, second = _pairs(x.shape[0])
    return _norm((x[first] - x[second]).abs(), p)


@formula("_pdist_backward")
def _pdist_backward(
    grad: torch.Tensor, x: torch.Tensor, p: float, distance: torch.Tensor
) -> torch.Tensor:
    first, second = _pairs(x.shape[0])
    share = _norm_gradient(
        x[first] - x[second], p, distance.unsqueeze(-1)
    ) * grad.unsqueeze(-1)
    return torch.zeros_like(x).index_add(0, first, share).index_add(0, second, -share)


@formula("isin.Tensor_Tensor")
def _isin(
    x: torch.Tensor,
    among: torch.Tensor,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> torch.Tensor:
    found = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~found if invert else found


@formula("searchsorted.Tensor")
def _searchsorted(
    lines: torch.Tensor, values: torch.Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    if sorter is not None:
        lines = lines.gather(-1, sorter)
    last = right if side is None else side == "right"
    spread = values.unsqueeze(-1)
    if lines.dim() > 1:
        lines = lines.unsqueeze(-2)
    # A NaN comes after all numbers.
    before = lines <= spread if last else lines < spread
    if spread.is_floating_point():
        before = before | spread.isnan() & (~lines.isnan() | last)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@formula("searchsorted.Scalar")
def _searchsorted_number(
    lines: torch.Tensor, value: float, **options: Any
) -> torch.Tensor:
    values = torch.full((1,), value, dtype=lines.dtype)
    return _searchsorted(lines, values, **options).reshape(())


@formula("bucketize.Tensor")
def _bucketize(
    x: torch.Tensor,
    bounds: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> torch.Tensor:
    return _searchsorted(bounds, x, out_int32=out_int32, right=right)


@formula("ldexp.Tensor")
def _ldexp(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    return (x.to(wide) * torch.pow(2.0, exponent.to(wide))).to(dtype)


@formula("index_reduce")
def _index_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *,
    include_self: bool = True,
) -> torch.Tensor:  # fmt: skip
    if x.dim() == 0:
        source = source.reshape(index.shape)
        spread = x.reshape(1).scatter_reduce(
            0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self
        )
        return spread.reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.reshape(shape).expand_as(source)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@formula("cummax")
def _cummax(x: torch.Tensor, dim: int) -> Any:
    return _cumulative_extreme(x, dim, largest=True)


@formula("cummin")
def _cummin(x: torch.Tensor, dim: int) -> Any:
    return _cumulative_extreme(x, dim, largest=False)


def _cumulative_extreme(x: torch.Tensor, dim: int, largest: bool) -> Any:
    """Compares each element with all before it; of equal ones the last counts."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    lines = x.movedim(dim, -1)
    count = lines.shape[-1]
    if count > 1024 or count == 0:
        return NotImplemented
    later, earlier = lines.unsqueeze(-1), lines.unsqueeze(-2)
    at = torch.arange(count)
    # Element j is the extreme of 0..i if no element of 0..i is better, or equal and after j.
    better = earlier > later if largest else earlier < later
    if x.is_floating_point():
        better = (better & ~later.isnan()) | (earlier.isnan() & ~later.isnan())
        equal = (earlier == later) | (earlier.isnan() & later.isnan())
    else:
        equal = earlier == later
    beats = better | (equal & (at.unsqueeze(-2) > at.unsqueeze(-1)))
    beaten = beats.to(torch.int32).cumsum(-1) > 0
    best = ~beaten & (at.unsqueeze(-2) >= at.unsqueeze(-1))
    places = best.to(torch.int32).argmax(-2)
    found = (lines.gather(-1, places), places)
    return tuple(t.movedim(-1, dim).contiguous() for t in found)


@formula("masked_scatter")
def _masked_scatter(
    x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor
) -> torch.Tensor:
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    flat = mask.reshape(-1)
    number = flat.to(torch.int64).cumsum(0) - 1
    taken = source.reshape(-1)[number.clamp(0, max(source.numel() - 1, 0))]
    return torch.where(flat, taken, x.reshape(-1)).reshape(x.shape)


@formula("masked_scatter_backward")
def _masked_scatter_backward(
    grad: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]
) -> torch.Tensor:
    count = 1
    for s in sizes:
        count *= s
    flat = mask.expand_as(grad).reshape(-1)
    number = flat.to(torch.int64).cumsum(0) - 1
    places = torch.where(flat, number, count)
    room = torch.zeros(count + 1 + flat.numel(), dtype=grad.dtype)
    return room.scatter(0, places, grad.reshape(-1))[:count].reshape(list(sizes))


@formula("logcumsumexp")
def _logcumsumexp(x: torch.Tensor, dim: int) -> Any:
    if x.dim() == 0:
        return x.clone()
    lines = x.movedim(dim, -1)
    count = lines.shape[-1]
    if count > 1024 or count == 0:
        return NotImplemented
    at = torch.arange(count)
    earlier = at <= at.unsqueeze(-1)
    spread = torch.where(earlier, lines.unsqueeze(-2), float("-inf"))
    return spread.logsumexp(-1).movedim(-1, dim).contiguous()


@formula("_trilinear")
def _trilinear(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, expand_a: Sequence[int],
    expand_b: Sequence[int], expand_c: Sequence[int], sum_dims: Sequence[int], _unroll: int = 1,
) -> torch.Tensor:  # fmt: skip
    def spread(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        for axis in axes:
            x = x.unsqueeze(axis)
        return x

    product = spread(a, expand_a) * spread(b, expand_b) * spread(c, expand_c)
    return product.sum(list(sum_dims)) if sum_dims else product


@formula("narrow_copy")
def _narrow_copy(x: torch.Tensor, dim: int, start: int, length: int) -> torch.Tensor:
    return x.narrow(dim, start, length).clone()


@formula("take")
def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[index]


@formula("put")
def _put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    places, values = index.reshape(-1), source.reshape(-1)
    flat = x.reshape(-1).index_put((places,), values, accumulate)
    return flat.reshape(x.shape)


@formula("nanmedian.dim")
def _nanmedian_dim(
    x: torch.Tensor, dim: int, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = x.sort(dim)
    count = (~x.isnan()).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    value, place = values.gather(dim, middle), places.gather(dim, middle)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@formula("nanmedian")
def _nanmedian(x: torch.Tensor) -> Any:
    if x.numel() == 0:
        return NotImplemented
    return _nanmedian_dim(x.reshape(-1), 0)[0]


@formula("_batch_norm_with_update_functional")
def _batch_norm_with_update(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor,
    variance: torch.Tensor, momentum: float, eps: float,
) -> Any:  # fmt: skip
    out, saved, spread, new_mean, new_variance = (
        aten._native_batch_norm_legit_functional(
            x, weight, bias, mean, variance, True, momentum, eps
        )
    )
    reserve = torch.empty((0,), dtype=torch.uint8)
    return out, saved, spread, reserve, new_mean, new_variance


@formula("batch_norm_backward")
def _batch_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor | None,
    variance: torch.Tensor | None, saved_mean: torch.Tensor | None,
    saved_spread: torch.Tensor | None, update: bool, eps: float, mask: Sequence[bool],
    reserve: torch.Tensor,
) -> Any:  # fmt: skip
    return aten.native_batch_norm_backward(
        grad, x, weight, mean, variance, saved_mean, saved_spread, update, eps, mask
    )
