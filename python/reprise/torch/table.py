"""The table of operators: one row for each overload of ATen that the compiler takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from .graph import Graph, Value

#: A row gets the graph and the arguments of the node, with tensors as values. It returns a value,
#: or several where the operator does, and raises Unsupported for a form that it does not take.
Row = Callable[..., "Value | Sequence[Value | None]"]

_F = TypeVar("_F", bound=Row)

_ROWS: dict[Any, Row] = {}
#: Rows of operators that other packages define, perhaps later, by name.
_OF_OTHERS: dict[str, Row] = {}
#: Whose operators exist as soon as PyTorch is imported.
_OF_PYTORCH = ("aten", "prims")


def overloads(name: str) -> list[Any]:
    """Returns the overloads of "aten.add" or the one of "aten.add.Tensor" that this PyTorch has."""
    namespace, operator, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None:
        return []
    names = overload or packet.overloads()
    return [
        getattr(packet, o)
        for o in names
        if hasattr(packet, o) and not o.endswith("out")
    ]


def row(*names: str) -> Callable[[_F], _F]:
    """Makes a function the row of operators, named as in "aten.add" (all overloads) or with one.

    Names that this version of PyTorch lacks are left out. Operators of other packages need the
    name of their overload.
    """

    def register(function: _F) -> _F:
        for name in names:
            if name.partition(".")[0] not in _OF_PYTORCH:
                _OF_OTHERS[name] = function
                continue
            for overload in overloads(name):
                _ROWS[overload] = function
        return function

    return register


def find(target: Any) -> Row | None:
    """Returns the row of an overload, among those that importing `ops` registers."""
    return _ROWS.get(target) or _OF_OTHERS.get(str(target))


def add_copies() -> None:
    """Gives operators such as view_copy the rows of those whose results alias their operand."""
    for overload in list(_ROWS):
        namespace, operator, name = str(overload).split(".")
        for copy in overloads(f"{namespace}.{operator}_copy.{name}"):
            _ROWS.setdefault(copy, _ROWS[overload])


def find_row(name: str) -> Row | None:
    """Returns the row of an overload by its name, among those that are registered already."""
    return next((_ROWS[o] for o in overloads(name) if o in _ROWS), None)


__all__ = ["Graph", "Row", "Value", "find", "overloads", "row"]
