"""A compiled region: a callable over PyTorch tensors that runs one program."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .checks import Place
from .engine import Program
from .lowering import Lowered, SizeResult, TensorSpec
from .symbols import evaluator


def _stored(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """Returns a tensor in the order of memory that the model reads, without a copy if it can."""
    tensor = tensor.detach()
    if (
        tensor.dtype != spec.dtype
    ):  # a few operators have results of other dtypes than they say
        tensor = tensor.to(spec.dtype)
    if not spec.in_order:
        tensor = tensor.permute(spec.order)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    tensor = tensor.contiguous()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


class Region(torch.nn.Module):
    """Runs a program with the arguments of the FX graph that it was lowered from.

    Parameters, and the arguments whose positions `static` lists, stay on the device between runs.
    """

    def __init__(
        self, lowered: Lowered, program: Program, static: frozenset[int] = frozenset()
    ) -> None:
        super().__init__()
        self._static = static
        self._lowered, self.program = lowered, program
        symbols = list(lowered.symbols)
        self._places = [lowered.symbols[s] for s in symbols]
        self._extra = [None if s is None else symbols.index(s) for s in lowered.extra]
        self._outputs = [
            (spec, evaluator(spec.stored, symbols))
            if isinstance(spec, TensorSpec)
            else None
            for spec in lowered.results
        ]
        read = sum(isinstance(a, Place) for c in lowered.checks for a in c.args)
        self._visible = len(lowered.results) - read
        self._sizes = [
            evaluator([r.size], symbols) if isinstance(r, SizeResult) else None
            for r in lowered.results
        ]

    def forward(self, *arguments: object) -> tuple[object, ...]:
        """Runs the program. Results are new tensors, except for arguments that are returned."""
        values = [self._value(arguments, *place) for place in self._places]
        inputs = [self._input(n, arguments[n], s) for n, s in self._lowered.inputs]
        inputs += [
            _seed() if i is None else torch.empty((values[i], 0)) for i in self._extra
        ]
        outputs: list[torch.Tensor] = []
        results: list[object] = []
        for number, result in enumerate(self._lowered.results):
            made = self._outputs[number]
            size = self._sizes[number]
            if made is not None:
                spec, dims = made
                output = torch.empty(dims(values), dtype=spec.dtype)
                outputs.append(
                    torch.view_as_real(output) if output.is_complex() else output
                )
                results.append(_logical(output, spec))
            elif size is not None:
                results.append(size(values)[0])
            else:
                results.append(None if result is None else arguments[result])  # type: ignore[index]
        if outputs:
            self.program.run(inputs, outputs)
        for check in self._lowered.checks:
            check.run(results)
        return tuple(results[: self._visible])

    def _input(self, number: int, argument: object, spec: TensorSpec) -> object:
        assert isinstance(argument, torch.Tensor)
        stored = _stored(argument, spec)
        if isinstance(argument, torch.nn.Parameter) or number in self._static:
            return self.program.resident(argument, stored)
        return stored

    @staticmethod
    def _value(arguments: Sequence[object], number: int, axis: int) -> int:
        argument = arguments[number]
        if axis < 0:
            return int(argument)  # type: ignore[call-overload, no-any-return]
        assert isinstance(argument, torch.Tensor)
        return argument.shape[axis]


def _seed() -> torch.Tensor:
    """Draws the words that decide a run's random numbers from PyTorch's generator."""
    return torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)


def _logical(output: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    if spec.in_order:
        return output
    return output.permute([spec.order.index(a) for a in range(len(spec.order))])
