"""What a region takes and returns, and how it lies in the memory of PyTorch."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from .symbols import Size, expression, static


@dataclass
class TensorSpec:
    """An input or output of the model, and how it lies in the memory of a PyTorch tensor.

    The model sees the dims in the order of decreasing strides, `order`, so that a tensor with
    channels last is passed as it is. A complex tensor is a real one with a last dim of 2. It is
    `fixed` if its dims and strides are the same in each run.
    """

    dtype: torch.dtype
    dims: tuple[Size, ...]
    order: tuple[int, ...]
    fixed: bool = False

    @property
    def stored(self) -> tuple[Size, ...]:
        """The dims in the order of memory."""
        return tuple(self.dims[a] for a in self.order)

    @property
    def in_order(self) -> bool:
        """Whether memory has the order of the dims."""
        return self.order == tuple(range(len(self.order)))


@dataclass
class SizeResult:
    """A result of the FX graph that is a size."""

    size: Size


@dataclass
class ViewOf:
    """A result that shares the memory of an argument or of an earlier result.

    `steps` are the operators, with their further arguments, that make the view of the tensor.
    """

    number: int
    is_argument: bool
    steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Makes the view."""
        for operator_, args, kwargs in self.steps:
            tensor = operator_(tensor, *args, **kwargs)
        return tensor


#: What a region returns in the place of a result of its FX graph.
Result: TypeAlias = "TensorSpec | int | SizeResult | ViewOf | None"


def fake_value(node: Node) -> Any:
    """Returns the fake result of a node: a tensor, a size, or a list of these."""
    return node.meta.get("val")


def memory_order(fake: torch.Tensor) -> tuple[int, ...]:
    """Returns the dims by decreasing stride if the tensor is dense in that order, else 0, 1, ..."""
    identity = tuple(range(fake.dim()))
    sizes = [expression(s) for s in fake.shape]
    strides = [expression(s) for s in fake.stride()]
    sampled = [_sample(s) for s in fake.stride()]
    if any(s is None for s in sampled):
        return identity
    order = sorted(identity, key=lambda a: (-(sampled[a] or 0), a))
    expected = sympy.Integer(1)
    for axis in reversed(order):
        if sizes[axis] != 1:
            stride = strides[axis]
            if stride != expected and sympy.expand(stride - expected) != 0:
                return identity
            expected *= sizes[axis]
    return tuple(order)


def _sample(size: Size) -> int | None:
    """Returns a size, or if it depends on the inputs, that of those which were traced."""
    if static(size):
        return int(expression(size))
    hint = size.node.hint if isinstance(size, torch.SymInt) else None
    return hint if isinstance(hint, int) else None


def find_views(listed: Sequence[Any], numbers: dict[Node, int]) -> dict[int, ViewOf]:
    """Returns the results that are views of arguments or of earlier results, by position.

    PyTorch makes them without a copy, as it does when it runs the graph itself.
    """
    places: dict[Node, int] = {}
    found: dict[int, ViewOf] = {}
    for place, node in enumerate(listed):
        if not isinstance(node, Node):
            continue
        steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        base = node
        while base not in numbers and base not in places:
            found_step = _view(base)
            if found_step is None:
                break
            base, *step = found_step
            steps.insert(0, tuple(step))
        if base in places:
            found[place] = ViewOf(places[base], False, steps)
        elif base in numbers and steps:
            found[place] = ViewOf(numbers[base], True, steps)
        elif base not in numbers:
            places[node] = place
    return found


def _view(node: Node) -> tuple[Node, Any, tuple[Any, ...], dict[str, Any]] | None:
    """Returns the tensor that a node is a view of, and the operator that makes it."""
    if node.target is operator.getitem:
        return _part(node)
    if _is_view(node) and isinstance(fake_value(node), torch.Tensor):
        return node.args[0], node.target, node.args[1:], node.kwargs  # type: ignore[return-value]
    return None


def _part(node: Node) -> tuple[Node, Any, tuple[Any, ...], dict[str, Any]] | None:
    """The same for one of the parts that a tensor is split into, as a slice."""
    split, number = node.args
    fake = fake_value(node)
    if (
        not isinstance(split, Node) or split.target not in _SPLITS or not _is_view(split)
        or not isinstance(number, int) or not isinstance(fake, torch.Tensor)
    ):  # fmt: skip
        return None
    dim = split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)
    sizes = [f.shape[dim] for f in fake_value(split)]
    if not all(static(s) for s in sizes):
        return None
    ends = list(itertools.accumulate(int(s) for s in sizes))
    place = (dim, ends[number] - int(sizes[number]), ends[number])
    return split.args[0], torch.ops.aten.slice.Tensor, place, {}  # type: ignore[return-value]


_SPLITS = {
    torch.ops.aten.split.Tensor, torch.ops.aten.split_with_sizes.default,
}  # fmt: skip


def _is_view(node: Node) -> bool:
    """Returns whether a node makes views whose form does not depend on the run."""
    fixed = pytree.tree_leaves((node.args[1:], node.kwargs))
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.is_view
        and isinstance(node.args[0], Node)
        and not any(isinstance(a, Node) for a in fixed)
    )
