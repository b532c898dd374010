"""What it costs to notice changes of parameters: runs with each value of the option "weights".

    PYTHONPATH=build/python bench/torch_weights.py --device vulkan:0

The ways take turns, so that load on the machine affects all of them alike. Prints medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from reprise._native import memory_hashes
from reprise.torch import backend
from torch import nn

#: Width, layers, rows of the input.
CASES = ((64, 4, 8), (512, 4, 8), (1024, 4, 8), (1024, 4, 64))
WAYS = ("frozen", "sample", "watch")


def seconds(call: object) -> float:
    """Returns how long a call takes."""
    start = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="vulkan:0")
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    memory = torch.zeros(64 << 20, dtype=torch.uint8)
    place = [memory.data_ptr(), memory.nbytes]
    rate = memory.nbytes / statistics.median(
        seconds(lambda: memory_hashes(place)) for _ in range(15)
    )
    print(f"hashing: {rate / 1e9:.1f} GB/s")
    for width, layers, rows in CASES:
        model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        x = torch.randn(rows, width)
        runs = {}
        for way in WAYS:
            torch._dynamo.reset()
            options = {"device": given.device, "weights": way}
            runs[way] = torch.compile(model, backend=backend, options=options)
            with torch.no_grad():
                runs[way](x)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        with torch.no_grad():
            for _ in range(given.rounds):
                for way, run in runs.items():
                    times[way].append(seconds(lambda run=run, x=x: run(x)))
        size = sum(p.nbytes for p in model.parameters()) / 1e6
        found = ", ".join(
            f"{w} {statistics.median(t) * 1e3:.2f} ms" for w, t in times.items()
        )
        print(f"{layers} x {width}, {rows} rows, {size:.1f} MB: {found}", flush=True)


if __name__ == "__main__":
    main()
