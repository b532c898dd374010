"""The engine: packages in memory and on disk, and runs that a device refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
import torch._dynamo
from reprise import Unsupported, devices
from reprise.torch import backend, cache, counters, engine, explain, report

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
LLVMPIPE = next((d.id for d in devices() if "llvmpipe" in d.name and d.usable), "")

PROGRAM = """
import sys, torch
from reprise.torch import backend, counters
options = {"device": sys.argv[1], "cache_dir": sys.argv[2]}
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(0.25)
y = torch.compile(model, backend=backend, options=options)(torch.ones(2, 8))
y.sum().backward()
print(counters().compiled, counters().from_disk, float(y.sum()))
"""


def run_program(folder: str) -> tuple[int, int, float]:
    """Returns what a process has compiled and read from disk, and its result."""
    command = [sys.executable, "-c", PROGRAM, DEVICE, folder]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    compiled, from_disk, result = out.split()
    return int(compiled), int(from_disk), float(result)


class Disk(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        engine.open_engine.cache_clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, addend: float = 1.0) -> tuple[int, int]:
        """Compiles a program as a new process would; returns what was compiled and read."""
        torch._dynamo.reset()
        engine.open_engine.cache_clear()
        before = counters().compiled, counters().from_disk
        options = {"device": DEVICE, "cache_dir": self.folder}
        run = torch.compile(lambda x: x * 2 + addend, backend=backend, options=options)
        self.assertTrue(torch.equal(run(torch.ones(3)), torch.full((3,), 2 + addend)))
        return counters().compiled - before[0], counters().from_disk - before[1]

    def files(self) -> list[Path]:
        return list(Path(self.folder).glob("*.rpk"))

    def test_second_process_compiles_nothing(self) -> None:
        compiled, from_disk, first = run_program(self.folder)
        self.assertEqual((compiled, from_disk), (2, 0))
        self.assertEqual(run_program(self.folder), (0, 2, first))

    def test_another_build_of_the_compiler_compiles_again(self) -> None:
        self.assertEqual(self.compile(), (1, 0))
        self.assertEqual(self.compile(), (0, 1))
        with mock.patch.object(cache, "build_id", lambda: "another build"):
            self.assertEqual(self.compile(), (1, 0))
        self.assertEqual(self.compile(), (0, 1))

    def test_damaged_packages_are_made_anew(self) -> None:
        self.compile()
        (path,) = self.files()
        intact = path.read_bytes()
        for size in (0, 1, 40, len(intact) // 2, len(intact) - 1):
            path.write_bytes(intact[:size])
            self.assertEqual(self.compile(), (1, 0), f"the first {size} bytes")
        harmless = 0  # bytes that nothing reads, or a hash that is not needed
        for place in range(0, len(intact), 1 + len(intact) // 60):
            damaged = bytearray(intact)
            damaged[place] ^= 0x55
            path.write_bytes(damaged)
            found = self.compile()  # its result must be right
            self.assertIn(found, ((1, 0), (0, 1)), f"byte {place}")
            harmless += found[0] == 0
        self.assertLess(harmless, 30)

    def test_the_folder_is_bounded(self) -> None:
        self.compile(1.0)
        (first,) = self.files()
        bound = 2 * first.stat().st_size + 1000
        os.utime(first, (1, 1))  # the one that was used longest ago
        with mock.patch.object(cache, "MAX_BYTES", bound):
            for addend in (2.0, 3.0, 4.0):
                self.compile(addend)
        self.assertFalse(first.exists())
        total = sum(f.stat().st_size for f in self.files())
        self.assertTrue(0 < total <= bound, total)

    def test_a_folder_that_cannot_be_written_is_none(self) -> None:
        blocked = Path(self.folder) / "file"
        blocked.write_bytes(b"")
        self.folder = str(blocked)
        self.assertEqual(self.compile(), (1, 0))
        self.assertEqual(self.compile(), (1, 0))


class Refusals(unittest.TestCase):
    """A run that the device refuses is repeated without what it refuses."""

    def setUp(self) -> None:
        torch._dynamo.reset()
        engine.open_engine.cache_clear()
        self.options = {"device": DEVICE, "cache_dir": ""}

    @unittest.skipUnless(LLVMPIPE, "needs llvmpipe, the driver that limits loops")
    def test_loops_beyond_the_limit_of_a_driver(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return ((x * 0.5) @ x.T).cos()

        run = torch.compile(
            function,
            backend=backend,
            options=self.options | {"device": LLVMPIPE},
            dynamic=True,
        )
        with report.collect() as graphs:
            for columns in (40, 400_000, 50):
                x = torch.rand(2, columns) / columns
                self.assertLess(float((run(x) - function(x)).abs().max()), 1e-5)
        (graph,) = graphs
        for fallback in graph.fallbacks:
            self.assertIn("longer loops", fallback.reason)
            self.assertIn("test_engine.py", fallback.source)
        self.assertEqual([f.operator for f in graph.fallbacks], ["aten.mm.default"])
        self.assertGreater(len(graph.regions), 0)

    def test_every_operator_that_is_refused_is_left_out(self) -> None:
        """With a stand-in for the limits: programs with a certain operator refuse each run."""

        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.tan(torch.sin(x.cumsum(0)) @ x) + 1

        refused = {"tan": "it is too long", "mm": "it is too long"}
        real = engine._PackageProgram.run

        def run_or_refuse(program, inputs, outputs):  # type: ignore[no-untyped-def]
            names = str(program.kernels().names).lower()
            for operator, reason in refused.items():
                if operator.replace("mm", "matmul") in names:
                    raise engine.RunRefused(reason, [operator])
            real(program, inputs, outputs)

        x = torch.rand(4, 4)
        with mock.patch.object(engine._PackageProgram, "run", run_or_refuse):
            found = explain(function, x, options=self.options)
        reasons = {f.operator: f.reason for f in found.fallbacks}
        self.assertEqual(set(reasons), {"aten.tan.default", "aten.mm.default"})
        for operator, reason in reasons.items():
            self.assertIn("is too long", reason, operator)

    def test_the_words_of_a_message_decide_nothing(self) -> None:
        """The same refusals with other messages cut a graph at the same places."""

        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.tan(torch.sin(x.cumsum(0)) @ x) + 1

        def refuse(words: str) -> list[str]:
            compiled = engine.reprise.compile

            def compile_or_refuse(graph, **options):  # type: ignore[no-untyped-def]
                if "MatMul" in str(graph):
                    error = Unsupported(words)
                    error.nodes = ("mm",)
                    raise error
                return compiled(graph, **options)

            torch._dynamo.reset()
            with mock.patch.object(engine.reprise, "compile", compile_or_refuse):
                found = explain(function, torch.rand(4, 4), options=self.options)
            return [f.operator for f in found.fallbacks]

        for words in ("node 'tan' is wrong", "sin cumsum 'add' tan", ""):
            self.assertEqual(refuse(words), ["aten.mm.default"], words)

    def test_a_refusal_without_a_name_leaves_the_graph_to_pytorch(self) -> None:
        def refuse(program, inputs, outputs):  # type: ignore[no-untyped-def]
            raise Unsupported("the driver has a limit")

        session = engine.reprise.Session
        with mock.patch.object(session, "run_raw", refuse):
            found = explain(torch.sin, torch.ones(3), options=self.options)
        self.assertEqual([f.operator for f in found.fallbacks], ["aten.sin.default"])
        self.assertIn("the driver has a limit", found.fallbacks[0].reason)


if __name__ == "__main__":
    unittest.main()
