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
from reprise.torch import backend, engine, explain, report, stored
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
    return torch.linalg.eigvalsh(x.sin()) + torch.linalg.inv(x + torch.eye(3)) + 1

def constant(x):
    return x + torch.tensor([1.0, 2.0, 3.0])

options = {"device": sys.argv[1], "cache_dir": sys.argv[2]}
torch.manual_seed(0)
model = Model()
trained, shaped, parted, added = (
    torch.compile(f, backend=backend, options=options, dynamic=f is shapes)
    for f in (model, shapes, parts, constant))
y = trained(torch.ones(2, 8))
y.sum().backward()
sums = [y.sum(), *(p.grad.sum() for p in model.parameters())]
sums += [t.sum() for n in (5, 7) for t in shaped(torch.ones(n, 3))]
sums += [parted(torch.eye(3)).sum(), added(torch.ones(3)).sum()]
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
        self.assertEqual(traced, 4)
        self.assertGreaterEqual(compiled, 5)
        self.assertEqual(self.run_program(), (1, 0, results))

    def test_program_of_another_build(self) -> None:
        """It is traced again, and PyTorch says why."""
        results = self.run_program()[2]
        build, changed = stored.build_id().encode(), 0
        for entry in self.folder.rglob("entry"):
            content = entry.read_bytes()
            changed += build in content
            entry.write_bytes(content.replace(build, b"0" * len(build)))
        self.assertGreaterEqual(changed, 3)
        self.assertEqual(self.run_program(), (4, 0, results))


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
        again = self.loaded(graph)
        with report.collect() as graphs:
            for size in (5, 7):
                self.same(again, torch.randn(size, 3))
        self.assertEqual([len(g.regions) for g in graphs], [1])

    def test_what_a_device_refuses(self) -> None:
        """The graph is loaded when a run is refused, and PyTorch runs the node that is named."""
        again = self.loaded(self.stored(shapes, torch.randn(5, 3)))
        run, refusals = engine._PackageProgram.run, ["cat"]

        def refused_once(program: Any, *arguments: Any) -> None:
            if refusals:
                raise engine.RunRefused("it is too long", [refusals.pop()])
            run(program, *arguments)

        with (
            mock.patch.object(engine._PackageProgram, "run", refused_once),
            report.collect() as graphs,
        ):
            self.same(again, torch.randn(6, 3))
        self.assertEqual(
            [f.operator for f in graphs[0].fallbacks], ["aten.cat.default"]
        )
        self.assertTrue(graphs[0].regions)

    def test_graphs_in_parts_are_not_saved(self) -> None:
        graph = self.stored(lambda x: torch.linalg.eigvalsh(x.sin()), torch.eye(3))
        with self.assertRaisesRegex(stored.BypassAOTAutogradCache, "PyTorch runs"):
            graph.prepare_for_serialization()


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x) * 2


class Caches(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for context in (
            mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder.name),
            torch._dynamo.config.patch(caching_precompile=True),
        ):
            context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)

    def hits(self, **options: str) -> int:
        """Compiles as programs do that change the setting late, and returns what was found."""
        torch._dynamo.reset()
        found = torch._dynamo.utils.counters["aot_autograd"]
        before = found["autograd_cache_hit"]
        with torch._dynamo.config.patch(caching_precompile=False):
            program = torch.compile(
                doubled, backend=backend, options={"device": "host", **options}
            )
        with torch.no_grad():
            program(torch.ones(3))
        return found["autograd_cache_hit"] - before

    def test_other_options_find_nothing(self) -> None:
        self.assertEqual(self.hits(), 0)
        self.assertEqual(self.hits(), 1)
        self.assertEqual(self.hits(precision="fp16"), 0)

    def test_explain_traces(self) -> None:
        with torch.no_grad():
            found = explain(doubled, torch.ones(3), options={"device": "host"})
        self.assertEqual(len(found.graphs), 1)


if __name__ == "__main__":
    unittest.main()
