#!/usr/bin/env python3
"""Times a model of many pointwise operators and one of matrix products.

Prints for each the time of a call with eager PyTorch, with Inductor (where it has a compiler for
the CPU) and with Reprise, and the kernels that Reprise launches.

    apps/python/fusion.py --device vulkan:0
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import reprise.torch
import torch
import torch._dynamo
from torch import nn


class Pointwise(nn.Module):
    """About 35 operators that each read and write the whole tensor when run one by one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x * 1.01 + 0.1
            x = torch.sin(x) + torch.cos(x) * torch.tanh(x)
            x = x * torch.sigmoid(x) + torch.relu(x)
            x = x / (1 + torch.abs(x))
        return x


def products(size: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(size, size), nn.ReLU()]
    return nn.Sequential(*layers)


def median_ms(run: Callable[[], object], runs: int) -> float:
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--size", type=int, default=512, help="of the matrix products")
    options = parser.parse_args()
    cases = (
        ("pointwise", Pointwise(), torch.randn(options.rows, options.columns)),
        ("products", products(options.size), torch.randn(options.size, options.size)),
    )
    settings = {"device": options.device}
    for name, model, x in cases:
        with torch.no_grad():
            print(f"{name} {list(x.shape)}")
            print(
                f"  eager    {median_ms(lambda m=model, x=x: m(x), options.runs):8.2f} ms"
            )
            for backend, extra in (("inductor", None), ("reprise", settings)):
                torch._dynamo.reset()
                try:
                    run = torch.compile(model, backend=backend, options=extra)
                    ms = median_ms(lambda r=run, x=x: r(x), options.runs)
                    print(f"  {backend:8} {ms:8.2f} ms")
                except Exception as error:  # noqa: BLE001  (Inductor needs a compiler)
                    print(f"  {backend:8} {str(error).strip().splitlines()[0]}")
            print(reprise.torch.explain(model, x, options=settings))


if __name__ == "__main__":
    main()
