"""How op_db_child.py compares results: with eager's values, or by what random results must satisfy.

Every entry that is not compared with eager's values is listed here with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: Largest differences: relative, and absolute in parts of the largest value.
TOLERANCE = {
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-9, 1e-10),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (4e-2, 4e-2),
}
#: Memory that nothing has written to: dtypes and shapes are all that is defined.
UNINITIALISED = (

    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
)  # fmt: skip
#: Random numbers that do not depend on one another: the values of many runs must have eager's
#: distribution. Gradients are compared, because they do not depend on the random numbers.
DISTRIBUTED = (

    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "uniform",
)  # fmt: skip
#: Few outcomes are possible: each element must be one that eager has in some of many runs.
CHOSEN = (

    "multinomial", "nn.functional.alpha_dropout", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
)  # fmt: skip
#: Results are the input times a random factor, which the gradient must show as well.
SCALED = (

    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.rrelu",
)  # fmt: skip
#: Random only with dropout, where the sums of what is left differ from eager's in every element:
#: dtypes and shapes are compared. Samples without dropout are compared as others are.
ATTENTION = (
    "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention",
)
#: Factors of a matrix that a random projection finds: their product is compared, unless a matrix M
#: is subtracted, after which the rank is higher than that of the projection, and the product is
#: random, too. Their gradients depend on the signs of the factors, which differ.
LOW_RANK = ("pca_lowrank", "svd_lowrank")
#: Entries that return places as well. Which of several equal elements they name is not defined,
#: so the elements at the places are compared, and gradients summed over equal elements.
PLACES = ("argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk")
#: Entries whose results are not compared with eager's values.
RANDOM = {*UNINITIALISED, *DISTRIBUTED, *CHOSEN, *SCALED, *ATTENTION}
RUNS = 200


class Wrong(Exception):
    """A result differs from eager's."""


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in a result."""
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def layouts(results: Any) -> list[tuple[int, ...]]:
    """Returns the strides of each tensor that has elements, in dims of more than one."""
    tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
    return [
        tuple(s for s, d in zip(t.stride(), t.shape, strict=True) if d != 1)
        if t.layout == torch.strided and t.numel()
        else ()
        for t in tensors
    ]


def compare(
    got: Any, want: Any, dtype: torch.dtype, what: str, values: bool = True, wide: Any = None
) -> None:  # fmt: skip
    """Compares results. An element may be that of `want` or that of `wide`."""
    mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    if len(mine) != len(theirs):
        raise Wrong(f"{what}: {len(mine)} results instead of {len(theirs)}")
    others = theirs if wide is None else pytree.tree_leaves(wide)
    for a, b, c in zip(mine, theirs, others, strict=True):
        if not isinstance(b, torch.Tensor):
            if values and a != b and str(a) != str(b):  # NaN differs from itself
                raise Wrong(f"{what}: {a} instead of {b}")
            continue
        if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
            raise Wrong(
                f"{what}: {a.dtype} {list(a.shape)} instead of {b.dtype} {list(b.shape)}"
            )
        if values:
            _compare_tensor(a.detach(), b.detach(), c.detach(), dtype, what)


def _close(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    rtol, part = TOLERANCE.get(dtype, TOLERANCE[torch.float32])
    finite = b.abs()[torch.isfinite(b.abs())]
    scale = float(finite.max()) if finite.numel() else 1.0
    return torch.isclose(a, b, rtol=rtol, atol=part * max(scale, 1.0), equal_nan=True)


def _compare_tensor(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, dtype: torch.dtype, what: str
) -> None:
    if b.layout != torch.strided:
        a, b, c = a.to_dense(), b.to_dense(), c.to_dense()
    if a.numel() == 0:
        return
    if not (b.dtype.is_floating_point or b.dtype.is_complex):
        if not torch.equal(a, b):
            raise Wrong(f"{what}: {int((a != b).sum())} of {a.numel()} elements differ")
        return
    wide = torch.complex128 if b.dtype.is_complex else torch.float64
    a, b, c = a.to(wide), b.to(wide), c.to(wide)
    close = _close(a, b, dtype)
    if c is not b:
        close |= _close(a, c, dtype)
    if not bool(close.all()):
        worst = (a - b).abs()[~close].reshape(-1)[0]
        raise Wrong(
            f"{what}: {int((~close).sum())} of {a.numel()} elements differ, as {a[~close][0]}"
            f" from {b[~close][0]} by {float(worst):.3g}"
        )


def has_dropout(given: Any) -> bool:
    """Returns whether a sample of attention drops anything."""
    _, args, kwargs = given
    share = kwargs.get(
        "dropout_p", max([a for a in args if isinstance(a, float)], default=0)
    )
    return bool(share) and bool(kwargs.get("training", True))


def same_distribution(
    mine: Callable[[], Any], theirs: Callable[[], Any], what: str
) -> None:
    """Compares the values of many runs by the test of Kolmogorov and Smirnov.

    The limit is exceeded once in 10**9 comparisons of equal distributions.
    """
    a, b = (
        torch.cat([t.detach().double().reshape(-1) for _ in range(40) for t in tensors(f())])
        for f in (mine, theirs)
    )  # fmt: skip
    if a.numel() != b.numel():
        raise Wrong(f"{what}: {a.numel()} random numbers instead of {b.numel()}")
    if a.numel() == 0:
        return
    a, b = (torch.nan_to_num(t).sort().values for t in (a, b))
    points = torch.cat([a, b])
    shares = [torch.searchsorted(t, points, right=True) / t.numel() for t in (a, b)]
    difference = float((shares[0] - shares[1]).abs().max())
    limit = 3.3 * (2 / a.numel()) ** 0.5
    if difference > limit:
        raise Wrong(
            f"{what}: distributions differ by {difference:.3g}, at most {limit:.3g}"
        )


def among_outcomes(
    got: Any, theirs: Callable[[], Any], dtype: torch.dtype, what: str
) -> None:
    """Checks that each element of a result is one that eager has in some run."""
    mine = tensors(got)
    seen = [torch.zeros_like(t, dtype=torch.bool) for t in mine]
    wide = torch.float64
    for _ in range(RUNS):
        for found, a, b in zip(seen, mine, tensors(theirs()), strict=True):
            found |= _close(a.detach().to(wide), b.detach().to(wide), dtype)
        if all(bool(s.all()) for s in seen):
            return
    missing = sum(int((~s).sum()) for s in seen)
    raise Wrong(f"{what}: {missing} elements that eager has in none of {RUNS} runs")


def same_factor(
    given: Any, got: Any, gradients: Any, seeds: list[torch.Tensor], what: str
) -> None:
    """Checks that the gradient has the factors of the result: dx * x is y * dy."""
    x, y = given[0].detach().double(), tensors(got)[0].detach().double()
    pull = gradients[0].detach().double()
    left, right = pull * x, y * seeds[0].double()
    if not torch.allclose(left, right, rtol=1e-2, atol=1e-3, equal_nan=True):
        raise Wrong(f"{what}: the gradient has other random factors than the result")


def slopes_inside(given: Any, got: Any, what: str) -> None:
    """Checks that rrelu multiplies negative numbers by factors in its range, and no others."""
    x, y = given[0].detach().double(), tensors(got)[0].detach().double()
    low, high = given[2].get("lower", 1 / 8), given[2].get("upper", 1 / 3)
    if not given[2].get("training", False):
        low = high = (low + high) / 2
    left, right = (torch.where(x < 0, x * s, x) for s in (high, low))
    room = 1e-2 * x.abs() + 1e-6
    if not bool(((y >= left - room) & (y <= right + room)).all()):
        raise Wrong(f"{what}: a slope is out of range")


def distinct(given: Any, got: Any, what: str) -> None:
    """Checks that draws without replacement have no number twice."""
    lines = tensors(got)[0].sort(-1).values
    if not given[2].get("replacement", False) and bool(
        (lines[..., 1:] == lines[..., :-1]).any()
    ):
        raise Wrong(f"{what}: a number is drawn twice")


def products(result: Any) -> Any:
    """Returns singular values, and the product of the factors."""
    u, s, v = result
    return s, (u * s.unsqueeze(-2)) @ v.mT


def _dim(given: Any, name: str, default: int) -> int | None:
    """Returns the axis along which a sample sorts, None if it flattens."""
    _, args, kwargs = given
    if name == "msort":
        return 0
    if "dim" in kwargs:
        return int(kwargs["dim"])
    place = 1 if name in ("kthvalue", "topk") else 0
    if len(args) > place and not isinstance(args[place], bool):
        return int(args[place])
    return None if name in ("median", "nanmedian") else default


def by_places(name: str, given: Any, result: Any) -> Any:
    """Replaces the places in a result by the elements at these places."""
    x = given[0]
    if name == "argsort":
        values, places = None, result
    elif isinstance(result, tuple) and len(result) == 2:
        values, places = result
    else:
        return result
    x = x.detach()
    if x.dim() == 0:
        found = x.expand(places.shape)
        inside = places == 0
    else:
        dim = _dim(given, name, -1)
        assert dim is not None
        reduced = places.dim() < x.dim()
        index = places.unsqueeze(dim) if reduced else places
        inside = (index >= 0) & (index < x.shape[dim])
        found = x.gather(dim, index.clamp(0, max(x.shape[dim] - 1, 0)))
        if name in ("argsort", "sort"):
            order = torch.arange(x.shape[dim]).reshape(
                [-1 if a == dim % x.dim() else 1 for a in range(x.dim())]
            )
            inside = inside & (index.sort(dim).values == order)
    return values, found.reshape(places.shape), bool(inside.all())


def summed_over_equals(
    name: str, given: Any, gradients: list[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """Returns gradients of the input, summed over elements that are equal along the axis."""
    x = given[0].detach()
    dim = _dim(given, name, -1)
    pull = gradients[0]
    if pull is None or x.dim() == 0:
        return gradients
    if dim is None:
        x, pull, dim = x.reshape(-1), pull.reshape(-1), 0
    lines, grads = x.movedim(dim, -1), pull.movedim(dim, -1)
    same = lines.unsqueeze(-1) == lines.unsqueeze(-2)
    same |= lines.isnan().unsqueeze(-1) & lines.isnan().unsqueeze(-2)
    total = (same * grads.double().unsqueeze(-2)).sum(-1).to(pull.dtype)
    return [total, *gradients[1:]]
