"""Complex tensors in a region: a real part and an imaginary part, which are tensors of their own.

Operators that only move elements, or that are linear over the real numbers, are the rows of real
tensors for both parts. The others have rows of their own in `ops/complex.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from . import table
from .errors import Unsupported
from .graph import Graph, Meta, Value
from .symbols import Size

#: The dtype of the parts of each complex dtype.
PARTS = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor of the graph."""

    real: Value
    imag: Value
    dtype: torch.dtype

    @property
    def dims(self) -> tuple[Size, ...] | None:
        """The dims, if they are known."""
        return self.real.dims

    @property
    def shape(self) -> tuple[Size, ...]:
        """The dims, as the traced program knows them."""
        return self.real.shape

    @property
    def rank(self) -> int:
        """The number of dims."""
        return self.real.rank


_F = TypeVar("_F", bound=Callable[..., Any])
_ROWS: dict[Any, Callable[..., Any]] = {}

#: Each part of the result is the operator of the same part of its complex operands.
_OF_PARTS = (

    "view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "flatten",
    "expand", "broadcast_to", "permute", "transpose", "swapaxes", "t", "numpy_T", "slice",
    "select", "split", "unsafe_split", "split_with_sizes", "unsafe_split_with_sizes", "unbind",
    "repeat", "tile", "flip", "as_strided", "unfold", "diagonal", "tril", "triu", "clone",
    "alias", "detach", "lift_fresh", "lift_fresh_copy", "positive", "contiguous", "gather",
    "index_select", "index", "_unsafe_index", "neg", "sum", "mean", "cumsum",
)  # fmt: skip
#: The same, where all tensors that hold values become complex first; None stands for all of them.
_OF_ALL_PARTS: dict[str, tuple[int, ...]] = {
    "cat": (0,), "concat": (0,), "stack": (0,), "copy": (0, 1), "slice_scatter": (0, 1),
    "select_scatter": (0, 1), "diagonal_scatter": (0, 1), "as_strided_scatter": (0, 1),
    "index_put": (0, 2), "_unsafe_index_put": (0, 2), "index_add": (0, 3),
    "index_copy": (0, 3), "scatter_add": (0, 3),
}  # fmt: skip


def complex_row(*names: str) -> Callable[[_F], _F]:
    """Makes a function the row of overloads where an operand or the result is complex."""

    def register(function: _F) -> _F:
        for name in names:
            for overload in table.overloads(name):
                _ROWS[overload] = function
        return function

    return register


def as_complex(g: Graph, operand: Any, dtype: torch.dtype) -> Complex:
    """Returns a number or a tensor as a complex tensor."""
    part = PARTS[dtype]
    if isinstance(operand, Complex):
        real, imag = g.cast(operand.real, part), g.cast(operand.imag, part)
        return Complex(real, imag, dtype)
    if isinstance(operand, complex):
        return Complex(
            g.scalar(operand.real, part), g.scalar(operand.imag, part), dtype
        )
    real = g.scalar(operand, part)
    zero = g.scalar(0.0, part)
    if isinstance(operand, Value) and operand.dims is not None:
        real = Value(real.name, part, operand.dims)
        zero = g.expand(zero, operand.dims)
    return Complex(real, zero, dtype)


def _part(argument: Any, imag: bool) -> Any:
    if isinstance(argument, Complex):
        return argument.imag if imag else argument.real
    if isinstance(argument, (list, tuple)):
        return [_part(a, imag) for a in argument]
    return argument


def _widened(g: Graph, argument: Any, dtype: torch.dtype) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_widened(g, a, dtype) for a in argument]
    return as_complex(g, argument, dtype)


def _of_parts(
    g: Graph, target: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Calls the row of real tensors for the real parts and for the imaginary parts."""
    function = table.find(target)
    if function is None:
        raise Unsupported("the table has no row for it")
    metas = g.outs
    dtype = metas[0].dtype
    if dtype not in PARTS:
        raise Unsupported("it is not supported for complex numbers")
    g.outs = [Meta(PARTS[m.dtype], m.shape) for m in metas]
    real, imag = (
        function(g, *_part(args, part), **{k: _part(v, part) for k, v in kwargs.items()})
        for part in (False, True)
    )  # fmt: skip
    g.outs = metas
    if isinstance(real, Value):
        assert isinstance(imag, Value)
        return Complex(real, imag, dtype)
    assert not isinstance(imag, Value)
    return [
        None if r is None or i is None else Complex(r, i, dtype)
        for r, i in zip(real, imag, strict=True)
    ]


def involved(arguments: Any, metas: Sequence[Meta]) -> bool:
    """Returns whether an argument or a result is complex."""
    if any(m.dtype.is_complex for m in metas):
        return True
    return _has_complex(arguments)


def _has_complex(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(_has_complex(a) for a in argument)
    if isinstance(argument, dict):
        return any(_has_complex(a) for a in argument.values())
    return isinstance(argument, Complex)


def call(g: Graph, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Lowers an operator with complex operands or results."""
    function = _ROWS.get(target)
    if function is not None:
        return function(g, *args, **kwargs)
    name = str(target).split(".")[1] if str(target).startswith("aten.") else ""
    name = name.removesuffix("_copy")
    if name in _OF_PARTS:
        return _of_parts(g, target, args, kwargs)
    places = _OF_ALL_PARTS.get(name)
    if places is None:
        raise Unsupported("it is not supported for complex numbers")
    dtype = g.out.dtype
    if dtype not in PARTS:
        raise Unsupported("its result is not complex")
    wide = [_widened(g, a, dtype) if i in places else a for i, a in enumerate(args)]
    return _of_parts(g, target, wide, kwargs)


def pack(g: Graph, value: Complex) -> Value:
    """Returns a real tensor whose last dim has the real and the imaginary part."""
    rank = value.rank
    parts = [g.unsqueeze(p, [rank]) for p in (value.real, value.imag)]
    packed = g.op("Concat", *parts, axis=rank)
    return Value(packed.name, packed.dtype, (*value.shape, 2))


def unpack(g: Graph, pairs: Value, dims: Sequence[Size], dtype: torch.dtype) -> Complex:
    """Returns the complex tensor whose parts the last dim of `pairs` has."""
    parts = []
    for i in (0, 1):
        line = g.op("Gather", pairs, g.constant(torch.tensor(i)), axis=len(dims))
        parts.append(Value(line.name, pairs.dtype, tuple(dims)))
    return Complex(parts[0], parts[1], dtype)


def constant(g: Graph, value: torch.Tensor) -> Complex:
    """Returns a complex constant."""
    pairs = torch.view_as_real(value.detach().resolve_conj())
    parts = [g.constant(pairs[..., i].contiguous()) for i in (0, 1)]
    return Complex(parts[0], parts[1], value.dtype)
