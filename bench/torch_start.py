#!/usr/bin/env python3
"""Times the start of PyTorch models: the first compiled call of a process, with and without packages.

Needs the package `reprise` (PYTHONPATH=build/python), torch, torchvision for resnet18 and
transformers for BERT:

    bench/torch_start.py --device vulkan:0 --cases resnet18,bert

Each case runs in two processes that share a new folder of compiled packages. The time begins after
PyTorch, its compiler and the model are loaded, and ends with the first result. Processor time is
that of all threads, which other load on the machine affects less than wall time. With `--precompile`,
PyTorch also saves what Dynamo has traced (docs/pytorch.md, "A second process").
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch


class Model(torch.nn.Module):
    """What PyTorch can save: a forward that no decorator has replaced and that returns a tensor."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *arguments: Any) -> Any:
        result = self.inner(*arguments)
        return result if isinstance(result, torch.Tensor) else result[0]


def resnet18() -> tuple[Any, tuple[Any, ...]]:
    from torchvision.models import resnet18 as make

    return make(), (torch.randn(1, 3, 64, 64),)


def bert() -> tuple[Any, tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), (torch.randint(2, 1000, (2, 32)),)


def linear() -> tuple[Any, tuple[Any, ...]]:
    return torch.nn.Linear(8, 8), (torch.randn(2, 8),)


CASES = {"resnet18": resnet18, "bert": bert, "linear": linear}


def child(case: str, device: str, folder: str, training: bool) -> None:
    """Prints wall time, processor time and the number of compiled packages of one process."""
    import torch._dynamo.backends.common
    from reprise.torch import backend, counters

    if torch._dynamo.config.caching_precompile:
        # This imports more of PyTorch's compiler, which is not part of the measured time.
        importlib.import_module("reprise.torch.stored")
    model, inputs = CASES[case]()
    model = Model(model).eval()
    options = {"device": device, "cache_dir": folder}
    wall, processor = time.perf_counter(), time.process_time()
    compiled = torch.compile(model, backend=backend, options=options)
    with torch.set_grad_enabled(training):
        result = compiled(*inputs)
        if training:
            result.square().mean().backward()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    if torch._dynamo.config.caching_precompile:
        torch.compiler.save_cache_artifacts()
    print(wall, processor, counters().compiled)


def process(
    case: str, device: str, folder: str, training: bool, precompile: bool
) -> tuple[float, float, int]:
    """Runs a child and returns what it prints."""
    command = [sys.executable, __file__, "--device", device, "--child", case, folder]
    if training:
        command.append("--training")
    environment = dict(
        os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "pytorch")
    )
    if precompile:
        environment["TORCH_CACHING_PRECOMPILE"] = "1"
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    wall, processor, compiled = out.splitlines()[-1].split()
    return float(wall), float(processor), int(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cases", default="resnet18,bert")
    parser.add_argument(
        "--training", action="store_true", help="forward and backward with one call"
    )
    parser.add_argument(
        "--precompile", action="store_true", help="let PyTorch save what it has traced"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        case, folder = arguments.child
        child(case, arguments.device, folder, arguments.training)
        return
    print(f"| case | process | wall s | processor s | compiled |\n|{'---|' * 5}")
    for case in arguments.cases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("first", "second"):
                wall, processor, compiled = process(
                    case, arguments.device, folder, arguments.training,
                    arguments.precompile,
                )  # fmt: skip
                print(
                    f"| {case} | {name} | {wall:.2f} | {processor:.2f} | {compiled} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
