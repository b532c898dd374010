#!/usr/bin/env python3
"""What fusion gains: a model of many pointwise operators, and one of matrix products.

Runs both with eager PyTorch, with Inductor (where it finds the C++ compiler that it needs) and with
Reprise. Prints the time of a call, how many kernels a call launches with and without fusion, and
their names, which say what was fused. Draws the times.

The pointwise model reads and writes its tensor once for each operator when operators run one by one;
as one kernel it does so once. The products gain nothing from fusion alone, and must not lose.

    pip install '.[examples]'                          # PyTorch, matplotlib, tqdm
    apps/python/fusion.py --device vulkan:0
    apps/python/fusion.py --rows 8 --columns 1000      # small tensors: what a launch costs
    apps/python/fusion.py --size 4096                  # the products on a GPU

On a CPU-type Vulkan device (lavapipe) Reprise shares the cores that eager PyTorch and Inductor use,
and copies tensors to and from the device; times of a GPU say more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import reprise.torch
    import torch
    import torch._dynamo
    from torch import nn
except ImportError as error:
    sys.exit(
        f"fusion: {error.name} is missing: pip install '.[examples]' in the source tree"
    )


class Pointwise(nn.Module):
    """42 operators that each read and write the whole tensor when run one by one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x * 1.01 + 0.1
            x = torch.sin(x) + torch.cos(x) * torch.tanh(x)
            x = x * torch.sigmoid(x) + torch.relu(x)
            x = x / (1 + torch.abs(x))
        return x


def products(size: int) -> nn.Module:
    """Four linear layers, each with a ReLU."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(size, size), nn.ReLU()]
    return nn.Sequential(*layers)


@dataclass
class Case:
    """A model, an input, and what was measured of it: milliseconds, or why there are none."""

    name: str
    model: nn.Module
    x: torch.Tensor
    times: dict[str, float | str]


def median_ms(run: Callable[[], object], runs: int) -> float:
    """The median time of a call, after a first one that compiles."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def measure(case: Case, name: str, options: argparse.Namespace) -> None:
    """Times one way to run a model and checks its results against eager's."""
    torch._dynamo.reset()
    run: Callable[..., Any] = case.model
    if name != "eager":
        settings = {"device": options.device} if name == "reprise" else None
        run = torch.compile(case.model, backend=name, options=settings)
    try:
        with torch.no_grad():
            torch.testing.assert_close(
                run(case.x), case.model(case.x), rtol=1e-3, atol=1e-3
            )
            case.times[name] = median_ms(lambda: run(case.x), options.runs)
    except Exception as error:
        if name != "inductor":
            raise
        case.times[name] = str(error).strip().splitlines()[0]  # it needs a compiler


def report(case: Case, options: argparse.Namespace) -> None:
    """Prints times, launches and the names of kernels."""
    print(f"\n{case.name} {list(case.x.shape)}")
    for name, ms in case.times.items():
        print(f"  {name:9}" + (ms if isinstance(ms, str) else f"{ms:9.2f} ms"))
    with torch.no_grad():
        settings = {"device": options.device}
        found = reprise.torch.explain(case.model, case.x, options=settings)
    if not found.launches:
        print("  no kernels: Reprise ran the model on the host")
        return
    operators = sum(graph.operators for graph in found.graphs)
    print(f"  {operators} operators in {found.launches} launches:")
    for graph in found.graphs:
        for region in graph.regions:
            for kernel in region.kernels().names:
                print(f"    {kernel}")
    for fallback in found.fallbacks:
        print(f"  PyTorch runs {fallback.operator}: {fallback.reason}")


def draw(cases: list[Case], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(cases), figsize=(4 * len(cases), 4))
    for case, panel in zip(cases, panels, strict=True):
        bars = {k: v for k, v in case.times.items() if not isinstance(v, str)}
        panel.bar(list(bars), list(bars.values()))
        panel.set_title(f"{case.name} {list(case.x.shape)}")
        panel.set_ylabel("ms per call")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"\nchart: {path}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto", help="of Reprise (auto)")
    parser.add_argument(
        "--runs", type=int, default=10, help="to take the median of (10)"
    )
    parser.add_argument(
        "--rows", type=int, default=1024, help="of the pointwise model's input"
    )
    parser.add_argument("--columns", type=int, default=4096, help="of that input")
    parser.add_argument(
        "--size", type=int, default=512, help="of the matrix products (512)"
    )
    parser.add_argument("--plot", type=Path, default=Path("fusion.png"))
    return parser.parse_args()


def main() -> None:
    from tqdm.auto import tqdm

    options = arguments()
    torch.manual_seed(0)
    cases = [
        Case("pointwise", Pointwise(), torch.randn(options.rows, options.columns), {}),
        Case(
            "products",
            products(options.size),
            torch.randn(options.size, options.size),
            {},
        ),
    ]
    work = [(case, name) for case in cases for name in ("eager", "inductor", "reprise")]
    with tqdm(work, unit="run", leave=False, disable=None) as bar:
        for case, name in bar:
            bar.set_description(f"{case.name}, {name}")
            measure(case, name, options)
    for case in cases:
        report(case, options)
    draw(cases, options.plot)


if __name__ == "__main__":
    main()
