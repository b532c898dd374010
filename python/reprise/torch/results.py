"""What a region takes and returns, and how it lies in the memory of PyTorch."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from .errors import Unsupported
from .symbols import SYMBOLIC, Size, evaluator, expression, static


@dataclass
class Layout:
    """Where memory that is not dense has the elements of a tensor; the base begins at 0."""

    strides: tuple[Size, ...]
    offset: Size


@dataclass
class TensorSpec:
    """An input or output of the model, and how it lies in the memory of a PyTorch tensor.

    The model sees the dims in the order of decreasing strides, `order`, so that a tensor with
    channels last is passed as it is. A complex tensor is a real one with a last dim of 2. It is
    `fixed` if its dims and strides are the same in each run. A result with a `layout` is copied to
    memory that has it.
    """

    dtype: torch.dtype
    dims: tuple[Size, ...]
    order: tuple[int, ...]
    fixed: bool = False
    layout: Layout | None = None

    @property
    def stored(self) -> tuple[Size, ...]:
        """The dims in the order of memory."""
        return tuple(self.dims[a] for a in self.order)

    @property
    def inverse(self) -> list[int]:
        """For each dim, its place in memory."""
        return [self.order.index(a) for a in range(len(self.order))]

    @property
    def in_order(self) -> bool:
        """Whether memory has the order of the dims."""
        return self.order == tuple(range(len(self.order)))


@dataclass
class SizeResult:
    """A result of the FX graph that is a size."""

    size: Size


#: An operator that makes a view, and its arguments after the tensor.
_Step = tuple[Any, Sequence[Any], dict[str, Any]]


@dataclass
class ViewOf:
    """A result that shares the memory of an argument or of another result.

    `steps` are the operators, with their further arguments, that make the view of the tensor. Sizes
    among the arguments may be expressions.
    """

    number: int
    is_argument: bool
    steps: list[_Step]

    @property
    def sizes(self) -> list[Size]:
        """The sizes that depend on the run."""
        leaves = pytree.tree_leaves([(args, kwargs) for _, args, kwargs in self.steps])
        return [leaf for leaf in leaves if isinstance(leaf, SYMBOLIC)]

    def maker(
        self, symbols: Sequence[sympy.Symbol]
    ) -> Callable[[torch.Tensor, Sequence[int]], torch.Tensor]:
        """Returns what makes the view of a tensor from the values of symbols."""
        sizes, steps = self.sizes, self.steps
        if not sizes:
            return lambda tensor, values: _follow(steps, tensor)
        evaluate, numbers = evaluator(sizes, symbols), itertools.count()
        fillers = [
            (op, _filler(args, numbers), _filler(kw, numbers)) for op, args, kw in steps
        ]

        def make(tensor: torch.Tensor, values: Sequence[int]) -> torch.Tensor:
            known = evaluate(values)
            return _follow(
                [(op, args(known), kw(known)) for op, args, kw in fillers], tensor
            )

        return make


def _follow(steps: list[_Step], tensor: torch.Tensor) -> torch.Tensor:
    for operator_, args, kwargs in steps:
        tensor = operator_(tensor, *args, **kwargs)
    return tensor


def _filler(tree: Any, numbers: Iterator[int]) -> Callable[[Sequence[int]], Any]:
    """Returns what puts sizes into a tree of arguments, in the order of its leaves."""
    if isinstance(tree, SYMBOLIC):
        number = next(numbers)
        return lambda sizes: sizes[number]
    if isinstance(tree, (list, tuple)):
        parts = [_filler(t, numbers) for t in tree]
        return lambda sizes: [part(sizes) for part in parts]
    if isinstance(tree, dict):
        named = {key: _filler(t, numbers) for key, t in tree.items()}
        return lambda sizes: {key: part(sizes) for key, part in named.items()}
    return lambda sizes: tree


#: What a region returns in the place of a result of its FX graph.
Result: TypeAlias = "TensorSpec | int | SizeResult | ViewOf | None"


def fake_value(node: Node) -> Any:
    """Returns the fake result of a node: a tensor, a size, or a list of these."""
    return node.meta.get("val")


def memory_order(fake: torch.Tensor) -> tuple[int, ...]:
    """Returns the dims by decreasing stride if the tensor is dense in that order, else 0, 1, ..."""
    order = _dense_order(fake)
    return tuple(range(fake.dim())) if order is None else order


def _dense_order(fake: torch.Tensor) -> tuple[int, ...] | None:
    sizes = [expression(s) for s in fake.shape]
    strides = [expression(s) for s in fake.stride()]
    sampled = [_sample(s) for s in fake.stride()]
    if any(s is None for s in sampled):
        return None
    order = sorted(range(fake.dim()), key=lambda a: (-(sampled[a] or 0), a))
    expected = sympy.Integer(1)
    for axis in reversed(order):
        if sizes[axis] != 1:
            stride = strides[axis]
            if stride != expected and sympy.expand(stride - expected) != 0:
                return None
            expected *= sizes[axis]
    return tuple(order)


def layout_of(node: Node) -> Layout | None:
    """Returns the layout of a result that an operator makes in memory that is not dense.

    Writes to a part of a tensor do so, as they keep its strides. AOTAutograd makes the tensor that
    was written to from them.
    """
    base, fake = fake_value(_base(node)[0]), fake_value(node)
    if not all(
        isinstance(t, torch.Tensor) and t.layout == torch.strided for t in (base, fake)
    ):
        return None
    if _dense_order(base) is not None:
        return None
    if _overlaps(fake):
        return None
    return Layout(tuple(fake.stride()), fake.storage_offset() - base.storage_offset())


def _overlaps(fake: torch.Tensor) -> bool:
    """Returns whether elements may share memory, as those of an expanded tensor do."""
    dims = [
        (_sample(st), _sample(d))
        for st, d in zip(fake.stride(), fake.shape, strict=True)
    ]
    reach = 0
    for stride, size in sorted((st or 0, d or 2) for st, d in dims):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _sample(size: Size) -> int | None:
    """Returns a size, or if it depends on the inputs, that of those which were traced."""
    if static(size):
        return int(expression(size))
    hint = size.node.hint if isinstance(size, torch.SymInt) else None
    return hint if isinstance(hint, int) else None


def find_views(
    listed: Sequence[Any], numbers: dict[Node, int], hidden: Sequence[Node] = ()
) -> dict[int, ViewOf]:
    """Returns the results that are views of arguments or of other results, by position.

    PyTorch makes them without a copy, as it does when it runs the graph itself. The results `hidden`
    follow those that are listed.
    """
    places: dict[Node, int] = {}
    for place, node in enumerate([*listed, *hidden]):
        if isinstance(node, Node) and node not in numbers:
            places.setdefault(node, place)
    found: dict[int, ViewOf] = {}
    for place, node in enumerate(listed):
        if not isinstance(node, Node):
            continue
        base, steps = _base(node, numbers.keys() | places.keys())
        if base in numbers and steps:
            found[place] = ViewOf(numbers[base], True, steps)
        elif base not in numbers and places[base] != place:
            found[place] = ViewOf(places[base], False, steps)
    return found


def shared_bases(listed: Sequence[Any], numbers: dict[Node, int]) -> list[Node]:
    """Returns the bases of several results that are no results themselves."""
    views: dict[Node, set[Node]] = {}
    for node in listed:
        if isinstance(node, Node):
            views.setdefault(_base(node)[0], set()).add(node)
    return [
        b for b, of in views.items() if len(of) > 1 and b not in of | numbers.keys()
    ]


def _base(node: Node, known: Container[Node] | None = None) -> tuple[Node, list[_Step]]:
    """Returns the farthest base of a view, of those that are known, and the steps to the view."""
    base, steps = node, list[_Step]()
    all_steps: list[_Step] = []
    while (found := _view(node)) is not None:
        node, *step = found
        all_steps.insert(0, tuple(step))
        if known is None or node in known:
            base, steps = node, list(all_steps)
    return base, steps


def check_aliases(
    listed: Sequence[Any], numbers: dict[Node, int], views: dict[int, ViewOf]
) -> None:
    """Raises Unsupported if a result shares the memory of an argument, but is no known view of it.

    AOTAutograd takes sizes and strides from such a result, and reads the argument's memory with them.
    """
    arguments = {_memory(node): node.name for node in numbers}
    arguments.pop(None, None)
    for place, node in enumerate(listed):
        if not isinstance(node, Node) or node in numbers or place in views:
            continue
        argument = arguments.get(_memory(node))
        if argument is not None:
            raise Unsupported(
                f"the result {node.name} is a view of {argument} that is not supported"
            )


def _memory(node: Node) -> int | None:
    fake = fake_value(node)
    if not isinstance(fake, torch.Tensor) or fake.layout != torch.strided:
        return None
    return int(fake.untyped_storage()._cdata)


def _view(node: Node) -> tuple[Node, Any, tuple[Any, ...], dict[str, Any]] | None:
    """Returns the tensor that a node is a view of, and the operator that makes it."""
    if node.target is operator.getitem:
        return _part(node)
    if _is_view(node) and isinstance(fake_value(node), torch.Tensor):
        args, kwargs = pytree.tree_map_only(
            Node, _size_of, (tuple(node.args[1:]), dict(node.kwargs))
        )
        return node.args[0], node.target, args, kwargs  # type: ignore[return-value]
    return None


def _size_of(node: Node) -> Size:
    """Returns the size that a node is: a number if it is the same in all runs."""
    size = fake_value(node)
    return int(expression(size)) if static(size) else size


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
    first: Size = sum(sizes[:number])
    place = (dim, first, first + sizes[number])
    return split.args[0], torch.ops.aten.slice.Tensor, place, {}  # type: ignore[return-value]


_SPLITS = {
    torch.ops.aten.split.Tensor, torch.ops.aten.split_with_sizes.default,
}  # fmt: skip


def _is_view(node: Node) -> bool:
    """Returns whether a node makes views whose form depends on nothing but sizes."""
    others = pytree.tree_leaves((node.args[1:], node.kwargs))
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.is_view
        and isinstance(node.args[0], Node)
        and all(_is_size(a) for a in others if isinstance(a, Node))
    )


def _is_size(node: Node) -> bool:
    fake = fake_value(node)
    return isinstance(fake, torch.SymInt) or type(fake) is int
