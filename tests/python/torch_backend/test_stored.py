"""Graphs that PyTorch saves for later processes, with `caching_precompile`."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from reprise.torch import engine, report, stored
from reprise.torch.compiler import Job
from reprise.torch.options import Options
from torch.fx.experimental.proxy_tensor import make_fx

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")

PROGRAM = """
import sys, torch, torch._dynamo
from reprise.torch import backend, counters

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    def forward(self, x):
        return self.layers(x)

def shapes(x):
    y = torch.cat([x, x]) * x.shape[0]
    return y, y.t(), x[1:]

def parts(x):
    return torch.linalg.eigvalsh(x.sin()) + 1

options = {"device": sys.argv[1], "cache_dir": sys.argv[2]}
torch.manual_seed(0)
model = Model()
trained, shaped, parted = (
    torch.compile(f, backend=backend, options=options, dynamic=f is shapes)
    for f in (model, shapes, parts))
y = trained(torch.ones(2, 8))
y.sum().backward()
sums = [y.sum(), *(p.grad.sum() for p in model.parameters())]
sums += [t.sum() for n in (5, 7) for t in shaped(torch.ones(n, 3))]
sums += [parted(torch.eye(3)).sum()]
torch.compiler.save_cache_artifacts()
traced = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(traced, counters().compiled, *(round(s.item(), 4) for s in sums))
"""


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM)

    def run_program(self) -> tuple[int, int, list[str]]:
        """Returns how many graphs a process traces and compiles, and its results."""
        environment = dict(
            os.environ, TORCH_CACHING_PRECOMPILE="1",
            TORCHINDUCTOR_CACHE_DIR=str(self.folder / "pytorch"),
        )  # fmt: skip
        command = [sys.executable, str(self.program), DEVICE, str(self.folder)]
        out = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stdout
        traced, compiled, *results = out.split()
        return int(traced), int(compiled), results

    def test_second_process_traces_only_what_is_not_whole(self) -> None:
        traced, compiled, results = self.run_program()
        self.assertGreaterEqual(traced, 3)
        self.assertGreaterEqual(compiled, 3)
        self.assertEqual(self.run_program(), (1, 0, results))


def shapes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.cat([x, x]) * x.shape[0]
    return y, y.t(), x[1:], torch.view_as_complex(x[:, :2].contiguous())


class Graphs(unittest.TestCase):
    def stored(self, function: Callable[..., Any], *inputs: Any) -> stored.StoredGraph:
        graph = make_fx(function, tracing_mode="symbolic")(*inputs)
        options = Options(device=DEVICE, cache_dir="")
        job = Job(engine.open_engine(options), "inference")
        return stored.StoredGraph(graph, job, options)

    def loaded(self, graph: stored.StoredGraph) -> stored.StoredGraph:
        """Saves and loads a graph as PyTorch does."""
        saved = copy.copy(graph)
        saved.prepare_for_serialization()
        again: stored.StoredGraph = pickle.loads(pickle.dumps(saved))
        again.post_compile([], None, None)
        return again

    def same(self, graph: stored.StoredGraph, *inputs: torch.Tensor) -> None:
        for got, want in zip(graph(inputs), shapes(*inputs), strict=True):
            self.assertEqual(got.stride(), want.stride())
            self.assertTrue(torch.equal(got, want))

    def test_sizes_and_views(self) -> None:
        x = torch.randn(5, 3)
        graph = self.stored(shapes, x)
        with report.collect() as graphs:
            again = self.loaded(graph)
        self.assertEqual(len(graphs[0].regions), 1)
        for size in (5, 7):
            self.same(again, torch.randn(size, 3))

    def test_what_a_device_refuses(self) -> None:
        """The graph is loaded when a run is refused, and PyTorch runs the node that is named."""
        again = self.loaded(self.stored(shapes, torch.randn(5, 3)))
        with mock.patch.object(
            engine._PackageProgram, "run", side_effect=engine.RunRefused("node 'cat'")
        ):
            self.same(again, torch.randn(6, 3))

    def test_graphs_in_parts_are_not_saved(self) -> None:
        graph = self.stored(lambda x: torch.linalg.eigvalsh(x.sin()), torch.eye(3))
        with self.assertRaisesRegex(stored.BypassAOTAutogradCache, "PyTorch runs"):
            graph.prepare_for_serialization()

    def test_another_build(self) -> None:
        saved = copy.copy(self.stored(shapes, torch.randn(5, 3)))
        saved.prepare_for_serialization()
        with (
            mock.patch.object(stored, "build_id", return_value="another"),
            self.assertRaisesRegex(RuntimeError, "another version"),
        ):
            saved.post_compile([], None, None)


if __name__ == "__main__":
    unittest.main()
