#!/usr/bin/env python3
"""Times a call of a small compiled model, and what of it is Python's.

Needs the package `reprise` (PYTHONPATH=build/python) and torch:

    bench/torch_call.py --device vulkan:0 --calls 3000
    bench/torch_call.py --device vulkan:0 --layers 16    # instead: linear layers, 2 parameters each

Three calls alternate: of the compiled model, of its session with the same tensors, and of the
compiled model with a session that does nothing, which is what Dynamo's guards, AOTAutograd and the
compiled region take. The table has least and median times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from reprise.torch import backend, engine

Times = dict[str, list[float]]


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * torch.sigmoid(x) + 1


class Nothing:
    """A session that does not run."""

    def run_raw(self, inputs: Any, outputs: Any) -> None:
        """Returns at once."""


def last_run(call: Callable[[], Any]) -> tuple[engine._PackageProgram, Any, Any]:
    """Returns the program that a call runs, with its inputs and outputs."""
    ran: list[tuple[engine._PackageProgram, Any, Any]] = []
    original = engine._PackageProgram.run

    def noting(self: Any, inputs: Any, outputs: Any) -> None:
        ran.append((self, inputs, outputs))
        original(self, inputs, outputs)

    with mock.patch.object(engine._PackageProgram, "run", noting):
        call()
    return ran[-1]


def timed(call: Callable[[], Any], into: list[float]) -> None:
    start = time.perf_counter()
    call()
    into.append(1e6 * (time.perf_counter() - start))


def measure(device: str, calls: int, layers: int) -> Times:
    """Returns microseconds by what was timed."""
    x = torch.randn(16, 64) if layers == 0 else torch.randn(2, 8)
    linear = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(layers)))
    compiled = torch.compile(
        linear if layers else model, backend=backend, options={"device": device}
    )
    times: Times = {"compiled call": [], "run of the session": [], "Python": []}
    with torch.no_grad():
        program, inputs, outputs = last_run(lambda: compiled(x))
        session = program._session
        for _ in range(calls):
            timed(lambda: compiled(x), times["compiled call"])
            timed(lambda: session.run_raw(inputs, outputs), times["run of the session"])
            program._session = Nothing()  # type: ignore[assignment]
            timed(lambda: compiled(x), times["Python"])
            program._session = session
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--layers", type=int, default=0)
    arguments = parser.parse_args()
    times = measure(arguments.device, arguments.calls, arguments.layers)
    print("| | least us | median us |\n|---|---|---|")
    for name, list_ in times.items():
        print(f"| {name} | {min(list_):.1f} | {statistics.median(list_):.1f} |")


if __name__ == "__main__":
    main()
