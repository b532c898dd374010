"""Formulas of linear algebra for small matrices, one column after another.

The steps are those of LAPACK, so that signs and the choice of pivots are the same. A large matrix
would make a large graph, and PyTorch keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from .registry import formula

#: The most rows and columns of a matrix that is factored in a graph.
_MOST = 16
_F = TypeVar("_F", bound=Callable[..., Any])


def _small(*matrices: torch.Tensor) -> bool:
    """Returns whether matrices are small."""
    for matrix in matrices:
        if matrix.is_complex() or matrix.dim() < 2:
            return False
        if not all(isinstance(s, int) for s in matrix.shape):
            return False
        if max(matrix.shape[-2:]) > _MOST:
            return False
    return True


def _matrix_formula(*names: str, matrices: int = 1) -> Callable[[_F], _F]:
    """A formula whose first arguments are matrices; it is not used if one is large."""

    def register(function: _F) -> _F:
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not _small(*args[:matrices]):
                return NotImplemented
            return function(*args, **kwargs)

        formula(*names)(checked)
        return function

    return register


def _columns(x: torch.Tensor) -> torch.Tensor:
    """Gives a matrix the order of memory that LAPACK's results have, column by column."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _zero_like(x: torch.Tensor) -> torch.Tensor:
    """Returns an int32 for each matrix of a batch."""
    return torch.zeros(x.shape[:-2], dtype=torch.int32)


# Triangular systems


def _substituted(
    a: torch.Tensor, b: torch.Tensor, upper: bool, unit: bool
) -> torch.Tensor:
    """Solves a @ x = b for a triangular a, one row after another."""
    n = int(a.shape[-1])
    rows = torch.arange(n).unsqueeze(-1)
    x = b
    for i in reversed(range(n)) if upper else range(n):
        line = x[..., i : i + 1, :]
        if not unit:
            line = line / a[..., i : i + 1, i : i + 1]
        later = rows < i if upper else rows > i
        rest = torch.where(later, x - a[..., :, i : i + 1] * line, x)
        x = torch.where(rows == i, line, rest)
    return x


def _solve_triangular(
    a: torch.Tensor, b: torch.Tensor, upper: bool, left: bool, unit: bool
) -> torch.Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    a, b = (t.expand([*batch, *t.shape[-2:]]) for t in (a, b))
    if left:
        return _substituted(a, b, upper, unit)
    turned = _substituted(a.transpose(-1, -2), b.transpose(-1, -2), not upper, unit)
    return turned.transpose(-1, -2)


@_matrix_formula("linalg_solve_triangular", matrices=2)
def _linalg_solve_triangular(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> torch.Tensor:  # fmt: skip
    result = _solve_triangular(a, b, upper, left, unitriangular)
    return _columns(result)


@_matrix_formula("triangular_solve", matrices=2)
def _triangular_solve(
    b: torch.Tensor, a: torch.Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    matrix = a.transpose(-1, -2) if transpose else a
    wide = upper != transpose
    result = _solve_triangular(matrix, b, wide, True, unitriangular)
    batch = result.shape[:-2]
    return _columns(result), _columns(a.expand([*batch, *a.shape[-2:]]).clone())


# LU


def _swapped(
    order: torch.Tensor, k: int, pivot: torch.Tensor, count: int
) -> torch.Tensor:
    """Returns numbers of rows after row k and the row `pivot` have changed places."""
    at = torch.arange(count)
    places = torch.where(at == k, pivot, torch.where(at == pivot, k, at))
    return order.gather(-1, places)


def _lu(
    a: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns both factors in one matrix, the pivots, the order of rows, and the first zero."""
    m, n = int(a.shape[-2]), int(a.shape[-1])
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    order = torch.arange(m).expand([*a.shape[:-2], m])
    info = _zero_like(a)
    pivots = []
    for k in range(min(m, n)):
        largest = a[..., k:, k].abs().argmax(-1, keepdim=True) + k
        own = torch.arange(m).expand([*a.shape[:-2], m])
        places = _swapped(own, k, largest, m)
        a = a.gather(-2, places.unsqueeze(-1).expand(a.shape))
        order = order.gather(-1, places)
        pivots.append(largest + 1)
        pivot = a[..., k : k + 1, k : k + 1]
        singular = pivot == 0
        at_fault = singular[..., 0, 0] & (info == 0)
        info = torch.where(at_fault, k + 1, info).to(torch.int32)
        factor = a[..., :, k : k + 1] / torch.where(singular, 1.0, pivot)
        rest = a - factor * a[..., k : k + 1, :]
        below = rows > k
        a = torch.where(below & (columns > k), rest, a)
        a = torch.where(below & (columns == k), factor, a)
    none = torch.zeros([*a.shape[:-2], 0], dtype=torch.int64)
    return a, torch.cat([none, *pivots], -1).to(torch.int32), order, info


def _order_of(pivots: torch.Tensor, count: int) -> torch.Tensor:
    """Returns the order of rows that exchanges one after another lead to."""
    order = torch.arange(count).expand([*pivots.shape[:-1], count])
    for k in range(int(pivots.shape[-1])):
        chosen = pivots[..., k : k + 1].to(torch.int64) - 1
        order = _swapped(order, k, chosen, count)
    return order


def _take_rows(b: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return b.gather(-2, order.unsqueeze(-1).expand(b.shape))


def _lu_solved(
    lu: torch.Tensor, order: torch.Tensor, b: torch.Tensor, transposed: bool
) -> torch.Tensor:
    """Solves a @ x = b, or with the transpose of a, for a[order] = L @ U."""
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    lu, b = (t.expand([*batch, *t.shape[-2:]]) for t in (lu, b))
    order = order.expand([*batch, order.shape[-1]])
    if not transposed:
        y = _substituted(lu, _take_rows(b, order), upper=False, unit=True)
        return _substituted(lu, y, upper=True, unit=False)
    turned = lu.transpose(-1, -2)
    y = _substituted(turned, b, upper=False, unit=False)
    z = _substituted(turned, y, upper=True, unit=True)
    at = torch.arange(int(order.shape[-1])).expand(order.shape)
    back = torch.zeros_like(order).scatter(-1, order, at)
    return _take_rows(z, back)


def _solved(
    lu: torch.Tensor, order: torch.Tensor, b: torch.Tensor, left: bool, adjoint: bool
) -> torch.Tensor:
    if left:
        return _columns(_lu_solved(lu, order, b, adjoint))
    turned = _lu_solved(lu, order, b.transpose(-1, -2), not adjoint)
    return turned.transpose(-1, -2).contiguous()


@_matrix_formula("linalg_lu_factor_ex")
def _lu_factor(
    a: torch.Tensor, *, pivot: bool = True, check_errors: bool = False
) -> Any:
    if not pivot or check_errors:
        return NotImplemented
    lu, pivots, _, info = _lu(a)
    return _columns(lu), pivots, info


def _parts(lu: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = int(lu.shape[-2]), int(lu.shape[-1])
    k = min(m, n)
    unit = torch.eye(m, k, dtype=lu.dtype)
    return lu[..., :, :k].tril(-1) + unit, lu[..., :k, :].triu()


def _permutation(order: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    at = torch.arange(int(order.shape[-1])).unsqueeze(-1)
    return (order.unsqueeze(-2) == at).to(dtype)


@_matrix_formula("linalg_lu")
def _linalg_lu(a: torch.Tensor, *, pivot: bool = True) -> Any:
    if not pivot:
        return NotImplemented
    lu, _, order, _ = _lu(a)
    lower, upper = _parts(lu)
    return _permutation(order, a.dtype), lower.contiguous(), upper.contiguous()


@_matrix_formula("lu_unpack")
def _lu_unpack(
    lu: torch.Tensor,
    pivots: torch.Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Any:
    nothing = torch.empty((0,), dtype=lu.dtype)
    lower = upper = order = nothing
    if unpack_data:
        lower, upper = (t.contiguous() for t in _parts(lu))
    if unpack_pivots:
        order = _permutation(_order_of(pivots, int(lu.shape[-2])), lu.dtype)
    return order, lower, upper


@_matrix_formula("linalg_lu_solve")
def _lu_solve(
    lu: torch.Tensor,
    pivots: torch.Tensor,
    b: torch.Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Any:
    if not _small(b):
        return NotImplemented
    return _solved(lu, _order_of(pivots, int(lu.shape[-2])), b, left, adjoint)


@_matrix_formula("_linalg_solve_ex")
def _solve(
    a: torch.Tensor, b: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> Any:
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if vector else b
    if check_errors or not _small(right):
        return NotImplemented
    lu, pivots, order, info = _lu(a)
    x = _solved(lu, order, right, left or vector, adjoint=False)
    result = x.squeeze(-1).contiguous() if vector else x
    return result, _columns(lu), pivots, info


@_matrix_formula("linalg_inv_ex")
def _inverse(a: torch.Tensor, *, check_errors: bool = False) -> Any:
    if check_errors:
        return NotImplemented
    lu, _, order, info = _lu(a)
    unit = torch.eye(int(a.shape[-1]), dtype=a.dtype).expand(a.shape)
    return _solved(lu, order, unit, left=True, adjoint=False), info


def _diagonal_and_sign(
    lu: torch.Tensor, pivots: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the diagonal of U, and the sign of the permutation."""
    at = torch.arange(1, int(pivots.shape[-1]) + 1)
    odd = (pivots != at).sum(-1) % 2 == 1
    sign = torch.where(odd, -1.0, 1.0).to(lu.dtype)
    return lu.diagonal(0, -2, -1), sign


def _as_stored(a: torch.Tensor) -> torch.Tensor:
    """Returns the matrix that PyTorch factors, the transpose of one whose rows are contiguous."""
    return a.transpose(-1, -2) if a.is_contiguous() else a


@_matrix_formula("_linalg_det")
def _determinant(a: torch.Tensor) -> Any:
    lu, pivots, _, _ = _lu(_as_stored(a))
    diagonal, sign = _diagonal_and_sign(lu, pivots)
    return diagonal.prod(-1) * sign, _columns(lu), pivots


@_matrix_formula("_linalg_slogdet")
def _log_determinant(a: torch.Tensor) -> Any:
    lu, pivots, _, _ = _lu(_as_stored(a))
    diagonal, sign = _diagonal_and_sign(lu, pivots)
    total = diagonal.abs().log().sum(-1)
    return diagonal.sgn().prod(-1) * sign, total, _columns(lu), pivots


# Cholesky


@_matrix_formula("linalg_cholesky_ex")
def _cholesky(
    a: torch.Tensor, *, upper: bool = False, check_errors: bool = False
) -> Any:
    if check_errors:
        return NotImplemented
    n = int(a.shape[-1])
    rows, columns = torch.arange(n).unsqueeze(-1), torch.arange(n)
    matrix = a.transpose(-1, -2) if upper else a
    info = _zero_like(a)
    for j in range(n):
        pivot = matrix[..., j : j + 1, j : j + 1]
        at_fault = (~(pivot > 0))[..., 0, 0] & (info == 0)
        info = torch.where(at_fault, j + 1, info).to(torch.int32)
        line = matrix[..., :, j : j + 1] / pivot.sqrt()
        rest = matrix - line * line.transpose(-1, -2)
        matrix = torch.where((columns > j) & (rows >= columns), rest, matrix)
        matrix = torch.where((columns == j) & (rows >= j), line, matrix)
    lower = matrix.tril()
    return (lower.transpose(-1, -2) if upper else _columns(lower)), info


def _cholesky_solved(factor: torch.Tensor, b: torch.Tensor, upper: bool) -> Any:
    lower = factor.transpose(-1, -2) if upper else factor
    half = _solve_triangular(lower, b, False, True, False)
    return _solve_triangular(lower.transpose(-1, -2), half, True, True, False)


@_matrix_formula("cholesky_solve", matrices=2)
def _cholesky_solve(b: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> Any:
    return _columns(_cholesky_solved(factor, b, upper))


@_matrix_formula("cholesky_inverse")
def _cholesky_inverse(factor: torch.Tensor, upper: bool = False) -> Any:
    unit = torch.eye(int(factor.shape[-1]), dtype=factor.dtype).expand(factor.shape)
    return _columns(_cholesky_solved(factor, unit, upper))


# QR


def _reflected(x: torch.Tensor, line: torch.Tensor, factor: torch.Tensor) -> Any:
    """Applies the reflection I - factor * line @ line.T to the columns of x."""
    return x - factor * line * (line * x).sum(-2, keepdim=True)


@_matrix_formula("geqrf")
def _geqrf(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = int(a.shape[-2]), int(a.shape[-1])
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    factors = []
    for j in range(min(m, n)):
        first = a[..., j : j + 1, j : j + 1]
        below = torch.where(rows > j, a[..., :, j : j + 1], 0.0)
        scale = below.abs().amax(-2, keepdim=True)
        none = scale == 0
        safe = torch.where(none, 1.0, scale)
        size = (below / safe).square().sum(-2, keepdim=True).sqrt() * safe
        length = torch.hypot(first, size)
        diagonal = torch.where(none, first, torch.where(first < 0, length, -length))
        beyond = torch.where(none, 1.0, first - diagonal)
        line = torch.where(rows == j, 1.0, below / beyond)
        divisor = torch.where(none, 1.0, diagonal)
        factor = torch.where(none, 0.0, (diagonal - first) / divisor)
        factors.append(factor.squeeze(-1))
        a = torch.where(columns > j, _reflected(a, line, factor), a)
        own = torch.where(
            rows == j, diagonal, torch.where(rows > j, line, a[..., :, j : j + 1])
        )
        a = torch.where(columns == j, own, a)
    none = torch.zeros([*a.shape[:-2], 0], dtype=a.dtype)
    return _columns(a), torch.cat([none, *factors], -1)


def _reflection(a: torch.Tensor, factors: torch.Tensor, j: int) -> Any:
    """Returns the vector and the factor of reflection j."""
    rows = torch.arange(int(a.shape[-2])).unsqueeze(-1)
    column = a[..., :, j : j + 1]
    line = torch.where(rows == j, 1.0, torch.where(rows > j, column, 0.0))
    return line, factors[..., j : j + 1].unsqueeze(-1)


def _product(a: torch.Tensor, factors: torch.Tensor, width: int) -> torch.Tensor:
    """Returns the first columns of the product of all reflections."""
    q = torch.eye(int(a.shape[-2]), width, dtype=a.dtype)
    q = q.expand([*a.shape[:-2], *q.shape])
    for j in reversed(range(int(factors.shape[-1]))):
        q = _reflected(q, *_reflection(a, factors, j))
    return q


@_matrix_formula("linalg_householder_product")
def _householder_product(a: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return _columns(_product(a, factors, int(a.shape[-1])))


@_matrix_formula("linalg_qr")
def _qr(a: torch.Tensor, mode: str = "reduced") -> tuple[torch.Tensor, torch.Tensor]:
    m, n = int(a.shape[-2]), int(a.shape[-1])
    made, factors = _geqrf(a)
    width = m if mode == "complete" else min(m, n)
    upper = _columns(made[..., :width, :].triu())
    if mode == "r":
        return torch.empty((0,), dtype=a.dtype), upper
    return _columns(_product(made, factors, width)), upper


@_matrix_formula("ormqr")
def _ormqr(
    a: torch.Tensor, factors: torch.Tensor, other: torch.Tensor, left: bool = True,
    transpose: bool = False,
) -> Any:  # fmt: skip
    if not _small(other):
        return NotImplemented
    x = other if left else other.transpose(-1, -2)
    count = int(factors.shape[-1])
    # The last reflection is the first to be applied, unless the product is transposed.
    forward = transpose if left else not transpose
    for j in range(count) if forward else reversed(range(count)):
        x = _reflected(x, *_reflection(a, factors, j))
    return _columns(x if left else x.transpose(-1, -2))
