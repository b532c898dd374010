"""Compares random programs of PyTorch, compiled by the backend, with eager.

fuzz_programs.py [--device D] [--seed N] [--count N] [--minutes N]

Prints each program that differs, made as short as possible, with the seed that makes it again. Ends
with 1 if there was one.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from random_programs import Program, make, smaller
from reprise.torch import backend, report

#: The largest difference in parts of the largest value; eager in float64 decides beyond it.
PARTS = {
    torch.float64: 1e-12,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


@dataclass
class Run:
    """What a call of a program leaves: results, gradients, and arguments, which it may write to."""

    results: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    arguments: list[torch.Tensor]

    def named(self) -> dict[str, torch.Tensor]:
        found = {f"v{i}": t for i, t in enumerate(self.results)}
        found |= {
            f"gradient of x{i}": t
            for i, t in enumerate(self.gradients)
            if t is not None
        }
        return found | {f"x{i} afterwards": t for i, t in enumerate(self.arguments)}


def _loss(results: Sequence[torch.Tensor]) -> torch.Tensor | None:
    total = None
    for number, r in enumerate(results):
        if r.is_floating_point() and r.requires_grad:
            weights = torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).view(r.shape)
            part = (r * weights).sum() / (number + 1)
            total = part if total is None else total + part
    return total


def run(function: Callable[..., list[torch.Tensor]], arguments: Sequence[Any]) -> Run:
    results = list(function(*arguments))
    loss = _loss(results)
    gradients: list[torch.Tensor | None] = []
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    if loss is not None:
        leaves = [a for a in tensors if a.requires_grad]
        gradients = list(torch.autograd.grad(loss, leaves, allow_unused=True))
    return Run(results, gradients, tensors)


def _double(arguments: Sequence[Any]) -> list[Any]:
    return [
        a.detach().double().requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in copy.deepcopy(arguments)
    ]


def _memory(found: Run) -> list[list[bool]]:
    """Which results share memory with which arguments and earlier results."""
    all_tensors = [*found.arguments, *found.results]
    places = [t.untyped_storage().data_ptr() for t in all_tensors]
    return [[p == q for q in places[:i]] for i, p in enumerate(places)]


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    got, want = got.detach().double(), want.detach().double()
    same = (got == want) | (got.isnan() & want.isnan())
    return (
        float(torch.where(same, 0.0, (got - want).abs()).max()) if got.numel() else 0.0
    )


def _differs(got: Run, want: Run, exact: Run | None) -> str:
    found = got.named()
    # A result in float64 may be made of others.
    floats = [a.dtype for a in want.arguments if a.is_floating_point()]
    least = max((PARTS[d] for d in floats), default=PARTS[torch.float32])
    for name, w in want.named().items():
        g = found.get(name)
        if g is None:
            return f"{name} is missing"
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"{name}: {g.dtype}{tuple(g.shape)}, eager {w.dtype}{tuple(w.shape)}"
        if name.startswith("v") and g.requires_grad != w.requires_grad:
            return f"{name}: requires_grad is {g.requires_grad}"
        scale = max(1.0, float(w.detach().double().abs().max())) if w.numel() else 1.0
        error = _error(g, w)
        most = max(PARTS[w.dtype], least) * scale if w.is_floating_point() else 0.0
        if error <= most:
            continue
        e = (
            exact.named().get(name)
            if exact is not None and w.is_floating_point()
            else None
        )
        # Where rounding decides, eager is as far from the exact result.
        if e is not None and _error(g, e) <= 4 * _error(w, e) + most:
            continue
        return f"{name}: differs by {error:.3g}, the largest is {scale:.3g}"
    if _memory(got) != _memory(want):
        return "results share other memory than eager's"
    return ""


def check(program: Program, seed: int, device: str) -> str:
    """Returns what differs, "" if nothing does, or only what PyTorch's tracing changes."""
    options = {"device": device, "cache_dir": ""}
    found = compare(program, seed, backend=backend, options=options)
    if found and _kind(found) == _kind(compare(program, seed, backend="aot_eager")):
        return ""
    return found


def _kind(difference: str) -> str:
    """The difference, of an exception the type alone: messages name the backend."""
    return difference if difference.startswith("size") else difference.split(":")[0]


def compare(program: Program, seed: int, **options: Any) -> str:
    """Returns the first difference between eager and torch.compile with `options`."""
    torch._dynamo.reset()
    function = program.function()
    compiled = torch.compile(function, dynamic=program.dynamic, **options)
    for size in (4, 7, 1) if program.dynamic else (0,):
        for number in range(2):
            arguments = program.arguments(seed + number, size)
            try:
                want = run(function, copy.deepcopy(arguments))
            except Exception:  # noqa: BLE001
                return ""  # eager has no gradient, or refuses the size
            try:
                exact = run(function, _double(arguments))
            except Exception:  # noqa: BLE001
                exact = None  # its dtypes do not fit
            try:
                got = run(compiled, copy.deepcopy(arguments))
            except Exception as error:  # noqa: BLE001
                return f"{type(error).__name__}: {str(error)[:300]}"
            if difference := _differs(got, want, exact):
                return f"size {size}, call {number}: {difference}"
    return ""


def minimise(program: Program, seed: int, device: str) -> Program:
    """The shortest program that still differs."""
    shorter = True
    while shorter:
        shorter = False
        for candidate in smaller(program):
            if check(candidate, seed, device):
                program, shorter = candidate, True
                break
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="host")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=1.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)  # PyTorch logs what it cannot trace
    end = time.monotonic() + 60 * options.minutes
    found = done = statements = 0
    fallbacks: dict[str, int] = {}
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() > end:
            break
        program = make(seed)
        with report.collect() as graphs:
            difference = check(program, seed, options.device)
        for graph in graphs:
            for f in graph.fallbacks:
                why = f"{f.operator}: {f.reason}"
                fallbacks[why] = fallbacks.get(why, 0) + 1
        done += 1
        statements += len(program.statements)
        if difference:
            found += 1
            least = minimise(program, seed, options.device)
            kind = ("dynamic " if least.dynamic else "") + (
                "training" if least.training else ""
            )
            print(
                f"seed {seed} ({kind}): {difference}\n  {check(least, seed, options.device)}"
            )
            print(
                f"  inputs {least.inputs} {least.layouts}\n{least.text()}", flush=True
            )
    print(f"{done} programs, {statements} statements, {found} differ")
    for why, count in sorted(fallbacks.items(), key=lambda item: -item[1]):
        print(f"  {count} x left to PyTorch: {why}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
