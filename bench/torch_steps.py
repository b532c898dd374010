#!/usr/bin/env python3
"""Times steps of PyTorch models side by side: Reprise, Reprise per operator, eager, Inductor.

Needs the package `reprise` (PYTHONPATH=build/python), torch, and transformers for BERT:

    bench/torch_steps.py --device vulkan:0 --rounds 10 --cases pointwise,bert

Each round runs one step of every contender, in an order that rotates. The table has medians of the
wall time and of the processor time of all threads, which other load on the machine affects less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import reprise
import torch
from reprise.torch import aot, backend, counters, engine

Step = Callable[[], Any]


class Pointwise(torch.nn.Module):
    """About 35 elementwise operators."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(width) + 0.5)
        self.bias = torch.nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale + self.bias
        for _ in range(3):
            x = torch.sin(x) + torch.cos(x) * torch.tanh(x)
            x = x * torch.sigmoid(x) + torch.relu(x)
            x = x / (1 + x.abs())
        return x


def bert() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), {"input_ids": torch.randint(2, 1000, (4, 64))}


class PerOperator(engine.PackageEngine):
    """Compiles without fusion, for sessions that record each run."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.session_mode = "default"

    def _compiled(self, model: bytes, key: bytes) -> engine.Program:
        package = reprise.compile(
            model, device=self.device, mode="default", disabled_passes=["fusion"],
            progress=False,
        )  # fmt: skip
        return engine._PackageProgram(package, self)


def per_operator(gm: Any, inputs: Sequence[Any], **keywords: Any) -> Any:
    opened = aot.engine.open_engine
    aot.engine.open_engine = PerOperator  # type: ignore[assignment]
    try:
        return aot.compile_module(gm, inputs, **keywords)
    finally:
        aot.engine.open_engine = opened


def contenders(call: Callable[..., Any], device: str) -> dict[str, Callable[..., Any]]:
    options = {"device": device, "cache_dir": ""}
    return {
        "Reprise": torch.compile(call, backend=backend, options=options),
        "Reprise per operator": torch.compile(
            call, backend=per_operator, options=options
        ),
        "eager": call,
        "Inductor": torch.compile(call, backend="inductor"),
    }


def training(model: Callable[..., Any], arguments: Any) -> Step:
    """Forward and backward."""

    def step() -> None:
        result = model(*arguments[0], **arguments[1])
        tensor = result if isinstance(result, torch.Tensor) else result[0]
        tensor.square().mean().backward()

    return step


def inference(model: Callable[..., Any], arguments: Any) -> Step:
    def step() -> None:
        with torch.no_grad():
            model(*arguments[0], **arguments[1])

    return step


def cases(names: Sequence[str]) -> dict[str, tuple[torch.nn.Module, Any, Any]]:
    found: dict[str, tuple[torch.nn.Module, Any, Any]] = {}
    torch.manual_seed(0)
    if "pointwise" in names:
        x = (torch.randn(1024, 1024),)
        found["pointwise, forward"] = (Pointwise(1024), (x, {}), inference)
        found["pointwise, training"] = (Pointwise(1024), (x, {}), training)
    if "bert" in names:
        model, keywords = bert()
        found["BERT, training"] = (model, ((), keywords), training)
    return found


def measure(steps: dict[str, Step], rounds: int) -> dict[str, tuple[float, float]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            wall, processor = time.perf_counter(), time.process_time()
            steps[name]()
            times[name].append(
                (time.perf_counter() - wall, time.process_time() - processor)
            )
    return {
        name: (
            1e3 * statistics.median(t[0] for t in list_),
            1e3 * statistics.median(t[1] for t in list_),
        )
        for name, list_ in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cases", default="pointwise,bert")
    arguments = parser.parse_args()
    print(
        f"| case | contender | wall ms | processor ms | first step s |\n|{'---|' * 5}"
    )
    for title, (model, inputs, kind) in cases(arguments.cases.split(",")).items():
        torch._dynamo.reset()
        steps: dict[str, Step] = {}
        first: dict[str, float] = {}
        for name, call in contenders(model, arguments.device).items():
            steps[name] = kind(call, inputs)
            start = time.perf_counter()
            steps[name]()
            first[name] = time.perf_counter() - start
        for name, (wall, processor) in measure(steps, arguments.rounds).items():
            print(
                f"| {title} | {name} | {wall:.2f} | {processor:.2f} | {first[name]:.1f} |",
                flush=True,
            )
    print(f"{counters()}, torch {torch.__version__}, reprise {reprise.__version__}")


if __name__ == "__main__":
    main()
