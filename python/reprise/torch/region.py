"""A compiled region: a callable over PyTorch tensors that runs one program.

Everything here happens in each call, so what is known beforehand is prepared when a region is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import reprise

from .engine import Program, RunRefused
from .lowering import Lowered
from .results import Layout, Result, SizeResult, TensorSpec, ViewOf
from .statics import Static, Statics, storing
from .symbols import LARGEST, SHIFT, evaluator, static

#: Reads an input, or makes a result, from the arguments of a call and the values of its symbols.
_Reader = Callable[[Sequence[Any], Sequence[int]], Any]


def _maker(
    spec: TensorSpec, symbols: Sequence[Any]
) -> Callable[[Sequence[int]], torch.Tensor]:
    """Returns what makes memory for a result from the values of symbols."""
    dtype = spec.dtype
    if all(static(d) for d in spec.dims):
        dims = tuple(int(d) for d in spec.stored)
        strides = torch.empty(dims, device="meta").stride()
        return lambda values: torch.empty_strided(dims, strides, dtype=dtype)
    evaluate = evaluator(spec.stored, symbols)
    return lambda values: torch.empty(evaluate(values), dtype=dtype)


def _reader(program: Program, number: int, spec: TensorSpec) -> _Reader:
    resident = Static(program, number, spec)
    stored, plain, parameter = storing(spec), torch.Tensor, torch.nn.Parameter

    def read(arguments: Sequence[Any], values: Sequence[int]) -> Any:
        tensor = arguments[number]
        # The first test is the faster one.
        if type(tensor) is not plain and isinstance(tensor, parameter):
            return resident(arguments)
        return stored(tensor)

    return read


def _extra(index: int | None, shift: int) -> _Reader:
    """An input that follows those of arguments: the seed, or a tensor that carries a symbol."""
    if index is None:
        return lambda arguments, values: _seed()

    def carry(arguments: Sequence[Any], values: Sequence[int]) -> torch.Tensor:
        size = values[index] + shift
        if not 0 <= size <= LARGEST:
            raise RunRefused(f"the number {values[index]} is beyond those of sizes")
        return torch.empty((size, 0))

    return carry


def _symbol(number: int, axis: int) -> Callable[[Sequence[Any]], int]:
    if axis < 0:
        return lambda arguments: int(arguments[number])
    return lambda arguments: int(arguments[number].shape[axis])


class Region(torch.nn.Module):
    """Runs a program with the arguments of the FX graph that it was lowered from.

    Parameters, and the arguments whose positions `static` lists, stay on the device between runs.
    Without a program, all results are arguments, views of them, or sizes.
    """

    def __init__(
        self, lowered: Lowered, program: Program | None, static: frozenset[int] = frozenset()
    ) -> None:  # fmt: skip
        super().__init__()
        self.program = program
        self._owners = lowered.owners
        symbols = list(lowered.symbols)
        self._symbols = [_symbol(*lowered.symbols[s]) for s in symbols]
        self._readers: list[tuple[int, _Reader]] = []
        self._statics = Statics([], "frozen")
        if program is not None:
            places = list(enumerate(lowered.inputs))
            self._statics = Statics(
                [(p, Static(program, *i)) for p, i in places if i[0] in static],
                program.weights,
            )
            self._readers += [
                (p, _reader(program, *i)) for p, i in places if i[0] not in static
            ]
            self._readers += [
                (
                    p,
                    _extra(
                        None if s is None else symbols.index(s),
                        SHIFT if s in lowered.signed else 0,
                    ),
                )
                for p, s in enumerate(lowered.extra, len(places))
            ]
        made = [r for r in lowered.results if isinstance(r, TensorSpec)]
        self._makers = [_maker(r, symbols) for r in made]
        self._complex = any(r.dtype.is_complex for r in made)
        self._checks = lowered.checks
        self._visible = lowered.listed
        self._plain = len(made) == lowered.listed == len(lowered.results) and all(
            r.in_order and r.layout is None for r in made
        )
        numbers = iter(range(len(made)))
        self._results = [_result(r, symbols, numbers) for r in lowered.results]
        self._views = [
            (i, r, r.maker(symbols))
            for i, r in enumerate(lowered.results)
            if isinstance(r, ViewOf)
        ]

    def forward(self, *arguments: object) -> tuple[object, ...]:
        """Runs the program. Results are new tensors, except for arguments that are returned."""
        values = [value(arguments) for value in self._symbols]
        outputs = [make(values) for make in self._makers]
        if self.program is not None:
            self._run(self.program, arguments, values, outputs)
        if self._plain:
            return tuple(outputs)
        results = [result(arguments, values, outputs) for result in self._results]
        for place, view, make in self._views:
            if view.is_argument:
                results[place] = make(arguments[view.number], values)  # type: ignore[arg-type]
            else:
                # For autograd it is a result of its own, which may need no gradient.
                base: Any = results[view.number]
                results[place] = make(base, values).detach()
        for check in self._checks:
            check.run(results)
        return tuple(results[: self._visible])

    def _run(
        self, program: Program, arguments: Sequence[Any], values: Sequence[int],
        outputs: list[torch.Tensor],
    ) -> None:  # fmt: skip
        others = [(place, read(arguments, values)) for place, read in self._readers]
        written = outputs
        if self._complex:
            written = [torch.view_as_real(o) if o.is_complex() else o for o in outputs]

        def run(inputs: list[Any]) -> None:
            for place, value in others:
                inputs[place] = value
            try:
                program.run(inputs, written)
            except (reprise.Error, RunRefused) as error:
                error.nodes = owners_of(self._owners, error.nodes)
                raise

        self._statics.run(arguments, len(others), run)


def owners_of(owners: Mapping[str, str], nodes: Sequence[str]) -> tuple[str, ...]:
    """Returns the FX nodes that nodes of a model compute."""
    return tuple(dict.fromkeys(owners[n] for n in nodes if n in owners))


#: Makes a result from the arguments, the values of symbols and the outputs of the program.
_Maker = Callable[[Sequence[Any], Sequence[int], Sequence[torch.Tensor]], Any]


def _result(
    result: Result,
    symbols: Sequence[Any],
    numbers: Iterator[int],
) -> _Maker:
    """`numbers` has the numbers of the program's outputs that no result has taken."""
    if isinstance(result, TensorSpec):
        number = next(numbers)
        if result.layout is not None:
            return _laid_out(result, result.layout, symbols, number)
        if result.in_order:
            return lambda arguments, values, outputs: outputs[number]
        order = result.inverse
        return lambda arguments, values, outputs: outputs[number].permute(order)
    if isinstance(result, SizeResult):
        size = evaluator([result.size], symbols)
        return lambda arguments, values, outputs: size(values)[0]
    if result is None or isinstance(result, ViewOf):  # views are made afterwards
        return lambda arguments, values, outputs: None
    argument = result
    return lambda arguments, values, outputs: arguments[argument]


def _laid_out(
    spec: TensorSpec, layout: Layout, symbols: Sequence[Any], number: int
) -> _Maker:
    """Copies an output to memory with a layout."""
    rank = len(spec.dims)
    evaluate = evaluator([*spec.dims, *layout.strides, layout.offset], symbols)
    order = spec.inverse

    def make(
        arguments: Sequence[Any], values: Sequence[int], outputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        *numbers, offset = evaluate(values)
        dims, strides = numbers[:rank], numbers[rank:]
        last = sum((d - 1) * s for d, s in zip(dims, strides, strict=True))
        memory = outputs[number].new_empty(offset + last + 1 if all(dims) else offset)
        result = memory.as_strided(dims, strides, offset).detach()
        return result.copy_(outputs[number].permute(order))

    return make


def _seed() -> torch.Tensor:
    """Draws the words that decide a run's random numbers from PyTorch's generator."""
    return torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)
