"""`reprise.torch.export`: from a PyTorch model to a package, without a file in between."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

import reprise

from .decompositions import decompositions
from .errors import MISFITS, PYTORCH, Unsupported
from .lowering import Names, lower
from .partition import listed_reasons
from .results import fake_value
from .states import NEXT, SEED, with_values
from .symbols import LARGEST, expression, linear

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
#: Results that are new values of the model's own tensors.
_NEXT_VALUES = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclass
class _Interface:
    """What becomes of arguments and results: inputs, constants, states and outputs, by position."""

    names: Names
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    states: dict[str, torch.Tensor] = field(default_factory=dict)


def _interface(program: ExportedProgram) -> _Interface:
    signature = program.graph_signature
    changed = {
        str(s.target): number
        for number, s in enumerate(signature.output_specs)
        if s.kind in _NEXT_VALUES
    }
    found = _Interface(Names(seed=SEED + NEXT, exported=True))
    for number, spec in enumerate(signature.input_specs):
        if spec.kind not in _CONSTANTS:
            continue
        target = str(spec.target)
        value = program.state_dict.get(target)
        value = program.constants[target] if value is None else value
        if target in changed:
            found.names.arguments[number] = target
            found.names.results[changed[target]] = target + NEXT
            found.states[target] = value.detach()
        else:
            found.constants[number] = value.detach()
    named = iter(_result_names(program))
    for number, result in enumerate(signature.output_specs):
        if result.kind is OutputKind.USER_OUTPUT:
            found.names.results[number] = next(named)
        elif result.kind is OutputKind.USER_INPUT_MUTATION:
            raise reprise.Unsupported(
                f"the model writes to its argument '{result.target}', which a package cannot do; "
                "return the new value instead"
            )
        elif result.kind not in (*_NEXT_VALUES, OutputKind.TOKEN):
            raise reprise.Unsupported(
                f"a package has no results of kind {result.kind.name}"
            )
    return found


def _result_names(program: ExportedProgram) -> list[str]:
    """Returns names for the results: their keys in dicts and dataclasses, and "output" for others."""
    spec = program.call_spec.out_spec
    if spec is None:
        return []
    names = ["output"] * spec.num_leaves
    places = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    for path, place in _leaves(places, ()):
        if not all(isinstance(part, int) for part in path):
            names[place] = ".".join(map(str, path))
    return names


def _leaves(
    tree: Any, path: tuple[int | str, ...]
) -> Iterator[tuple[tuple[int | str, ...], int]]:
    """Lists the numbers in a tree of results, with the keys that lead there."""
    items: Iterable[tuple[int | str, Any]] = ()
    if isinstance(tree, int):
        yield path, tree
    elif isinstance(tree, Mapping):
        items = [(str(k), v) for k, v in tree.items()]
    elif hasattr(tree, "_fields"):  # a named tuple
        items = zip(tree._fields, tree, strict=True)
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    elif dataclasses.is_dataclass(tree):
        items = [(f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree)]
    for key, part in items:
        yield from _leaves(part, (*path, key))


class _Dims:
    """The names that the caller gave sizes, as `Dim("batch")`, by tensor and axis."""

    def __init__(
        self, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], tree: Any
    ) -> None:  # fmt: skip
        self._found: dict[tuple[int, int], str] = {}
        if tree is None:
            return
        bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
        given = {k: v for k, v in bound.items() if k not in kwargs} | dict(kwargs)
        self._walk(given, tree)

    def _walk(self, value: Any, tree: Any) -> None:
        if isinstance(value, torch.Tensor):
            dims = tree.items() if isinstance(tree, Mapping) else enumerate(tree or ())
            for axis, dim in dims:
                if isinstance(dim, Dim):  # 4*h + 1 has the root h
                    root = getattr(dim, "root", dim)
                    self._found[id(value), axis % value.dim()] = root.__name__
        elif isinstance(value, Mapping) and isinstance(tree, Mapping):
            for key in tree.keys() & value.keys():
                self._walk(value[key], tree[key])
        elif isinstance(value, (Mapping, list, tuple)) and isinstance(
            tree, (list, tuple)
        ):
            parts = value.values() if isinstance(value, Mapping) else value
            for part, subtree in zip(parts, tree, strict=False):
                self._walk(part, subtree)

    def symbols(self, program: ExportedProgram) -> dict[sympy.Symbol, str]:
        """Returns the names of the program's symbols."""
        kinds = [s.kind for s in program.graph_signature.input_specs]
        nodes = program.graph.find_nodes(op="placeholder")
        fakes = [
            fake_value(n)
            for n, kind in zip(nodes, kinds, strict=True)
            if kind is InputKind.USER_INPUT
        ]
        found: dict[sympy.Symbol, str] = {}
        leaves = pytree.tree_leaves(program.example_inputs)
        for leaf, fake in zip(leaves, fakes, strict=False):
            for axis, size in enumerate(getattr(fake, "shape", ())):
                name, form = self._found.get((id(leaf), axis)), linear(expression(size))
                if name is not None and form and name not in found.values():
                    found.setdefault(form.symbol, name)
        return found


def _limits(program: ExportedProgram, symbol: sympy.Symbol) -> tuple[int, int] | None:
    """Returns the limits of a symbol, if it has any.

    Where a Dim such as 4*h has limits, they are those that the caller gave; PyTorch traces h, which
    is no dim itself, as a number of at least 2.
    """
    found: dict[bool, tuple[int, int]] = {}  # True: of the symbol itself
    for size, limits in program.range_constraints.items():
        form = linear(size)
        if form is None or form.symbol != symbol:
            continue
        low, high = (
            int(end) if end.is_Integer else default
            for end, default in ((limits.lower, 0), (limits.upper, LARGEST))
        )
        low = max(-((form.offset - low) // form.scale), 0)
        high = max(min((high - form.offset) // form.scale, LARGEST), 0)
        own = size.is_Symbol
        known = found.get(own, (0, LARGEST))
        found[own] = (max(known[0], low), min(known[1], high))
    return found.get(False, found.get(True))


def _ranges(
    program: ExportedProgram, names: Mapping[sympy.Symbol, str], symbols: Iterable[sympy.Symbol]
) -> dict[str, tuple[int, int]]:  # fmt: skip
    """Returns the limits of sizes that the caller gave, or that the program assumes."""
    found = {}
    for symbol in symbols:
        limits = _limits(program, symbol)
        if limits is None:
            continue
        # Where the caller gave none, 2 is what PyTorch traces with, and no limit.
        low = 0 if symbol not in names and limits[0] == 2 else limits[0]
        found[names.get(symbol, str(symbol))] = (low, limits[1])
    return found


def _shape_env(program: ExportedProgram) -> ShapeEnv | None:
    """Returns what knows about the symbols of a program, if it has any."""
    for node in program.graph.find_nodes(op="placeholder"):
        fake = fake_value(node)
        for size in getattr(fake, "shape", ()):
            if isinstance(size, torch.SymInt):
                found = size.node.shape_env
                return found if isinstance(found, ShapeEnv) else None
    return None


#: In how many points an assumption about sizes is tried.
_MAX_POINTS = 400


def _points(
    program: ExportedProgram, symbols: Sequence[sympy.Symbol]
) -> Iterator[dict[sympy.Symbol, sympy.Integer]]:
    """Lists sizes within their limits: the smallest, the largest, and those next to powers of two.

    If there are many combinations, it lists a part of them.
    """
    choices = []
    for symbol in symbols:
        low, high = _limits(program, symbol) or (0, LARGEST)
        near = {*range(low, low + 16), *range(high - 3, high + 1)}
        near |= {2**k + d for k in range(4, 31) for d in (-1, 0, 1)}
        choices.append(sorted(n for n in near if low <= n <= high))
    count = math.prod(len(c) for c in choices)
    step = max(1, count // _MAX_POINTS) | 1
    for number in range(0, count, step):
        point, rest = {}, number
        for symbol, sizes in zip(symbols, choices, strict=True):
            rest, at = divmod(rest, len(sizes))
            point[symbol] = sympy.Integer(sizes[at])
        yield point


def _counterexample(
    program: ExportedProgram, assumption: sympy.Basic
) -> dict[sympy.Symbol, sympy.Integer] | None:
    """Returns sizes within their limits for which an assumption does not hold, as far as is known."""
    symbols = sorted(assumption.free_symbols, key=str)
    for point in _points(program, symbols):
        if assumption.xreplace(point) == sympy.false:
            return point
    return None


def _of_pytorch(guard: Any) -> bool:
    """Returns whether PyTorch's own code noted an assumption.

    It does so to choose strides, and its formulas give the same values either way.
    """
    place = guard.sloc.framework_loc
    is_frame = isinstance(place, traceback.FrameSummary)
    return is_frame and place.filename.startswith(PYTORCH)


@contextlib.contextmanager
def _sizes_kept(
    program: ExportedProgram, names: Mapping[sympy.Symbol, str]
) -> Iterator[None]:
    """In this block, nothing may be assumed about sizes but what holds for all of them.

    PyTorch notes an assumption if a formula compares a size, or takes it as a number. The package
    would be wrong for other sizes.
    """
    env = _shape_env(program)
    if env is None:
        yield
        return
    guards, fixed = len(env.guards), dict(env.replacements)
    yield
    assumed = [guard.expr for guard in env.guards[guards:] if not _of_pytorch(guard)]
    for symbol, value in env.replacements.items():
        if symbol not in fixed and symbol in program.range_constraints:
            assumed.append(sympy.Eq(symbol, value))
    for assumption in assumed:
        point = _counterexample(program, assumption)
        if point is None:
            continue
        renamed = {s: sympy.Symbol(names.get(s, str(s))) for s in point}
        sizes = ", ".join(f"{renamed[s]} = {value}" for s, value in point.items())
        raise reprise.Unsupported(
            f"an operator of the model needs {assumption.xreplace(renamed)}, which does not hold for "
            f"{sizes}; narrow the limits of that Dim, or leave it out of dynamic_shapes"
        )


def export_model(
    model: torch.nn.Module,
    args: Sequence[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    targets: str | Sequence[str] | None = None,
    precision: str = "fp32",
) -> reprise.Package:
    """Compiles a model; see `reprise.torch.export`."""
    given = dict(kwargs or {})
    listed = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    exported = torch.export.export(model, listed, given, dynamic_shapes=dynamic_shapes)
    sizes = _Dims(model, listed, given, dynamic_shapes).symbols(exported)
    with _sizes_kept(exported, sizes):
        program = exported.run_decompositions(decompositions())
    interface = _interface(program)
    interface.names.sizes = sizes
    try:
        lowered = lower(
            program.graph_module, interface.constants, in_order=True, names=interface.names
        )  # fmt: skip
    except Unsupported as error:
        reasons = listed_reasons(program.graph_module)
        raise reprise.Unsupported(reasons or str(error)) from error
    except MISFITS as error:
        raise reprise.Unsupported(
            f"the model has a form that is not supported: {error}"
        ) from error
    if all(result is None for result in lowered.results):
        raise reprise.Unsupported("the model returns no tensor")
    if any(extra is not None for extra in lowered.extra):
        raise reprise.Unsupported(
            "the model has a number that changes as an argument, which a package cannot take; pass "
            "it as a tensor, or leave it out of dynamic_shapes"
        )
    states = dict(interface.states)
    if lowered.seed is not None:
        states[lowered.seed] = (
            torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)
        )
    outputs = {name: name + NEXT for name in interface.states}
    if lowered.seed is not None:
        outputs[lowered.seed] = SEED + NEXT
    limits = _ranges(
        program, sizes, [s for s, at in lowered.symbols.items() if at[1] >= 0]
    )
    built = with_values(lowered.model, states).with_limits(limits)
    package = built.compile(outputs, targets=targets, precision=precision)
    if path is not None:
        package.save(path)
    return package
