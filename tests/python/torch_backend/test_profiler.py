"""What torch.profiler shows of compiled models: kernels by name, with times of the device."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from reprise.torch import TrainStep, backend, explain
from torch import nn
from torch.profiler import ProfilerActivity, profile

OPTIONS = {"device": os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")}
CPU = [ProfilerActivity.CPU]


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8)
    )


class Profiler(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def kernels(self, prof: Any) -> dict[str, int]:
        """Returns how often each kernel ran, after checking that all have times."""
        found = {
            e.key: e.count
            for e in prof.key_averages()
            if e.device_type != torch.autograd.DeviceType.CPU
        }
        for e in prof.events():
            if e.name in found:
                self.assertGreater(e.self_device_time_total, 0, e.name)
        return found

    def test_table_and_trace(self) -> None:
        model, x = _model(), torch.randn(16, 32)
        names = [
            name
            for g in explain(model, x, options=OPTIONS).graphs
            for r in g.regions
            for name in r.kernels().names
        ]
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend, options=OPTIONS)
        run(x).sum().backward()
        with profile(activities=CPU) as prof:
            for _ in range(3):
                run(x).sum().backward()
        found = self.kernels(prof)
        self.assertEqual(set(found), set(names))
        self.assertEqual(sum(found.values()), 3 * len(names))
        self.assertIn(names[0], prof.key_averages().table(max_name_column_width=200))
        ranges = [e for e in prof.events() if e.name.startswith("reprise ")]
        self.assertEqual(len(ranges), 6)
        for e in ranges:
            self.assertGreater(e.device_time_total, 0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            prof.export_chrome_trace(str(path))
            self.check_trace(json.loads(path.read_text())["traceEvents"], len(names))

    def check_trace(self, events: list[dict[str, Any]], launches: int) -> None:
        spans = [
            (e["ts"], e["ts"] + e["dur"])
            for e in events
            if str(e.get("name", "")).startswith("reprise ") and "dur" in e
        ]
        ours = [e for e in events if e.get("pid") == "Reprise"]
        self.assertEqual(len(ours), 3 * launches)
        for e in ours:
            self.assertTrue(any(a <= e["ts"] <= b for a, b in spans), e)

    def test_a_block_without_compiled_models_is_as_before(self) -> None:
        run = torch.compile(_model(), backend=backend, options=OPTIONS)
        x = torch.randn(16, 32)
        with profile(activities=CPU):
            run(x)
        with profile(activities=CPU) as prof:
            torch.sin(x)
        self.assertEqual(self.kernels(prof), {})
        self.assertIn("aten::sin", prof.key_averages().table())

    def test_train_step_keeps_its_states(self) -> None:
        models = [_model(), _model()]
        models[1].load_state_dict(models[0].state_dict())
        losses = []
        for model, watched in zip(models, (False, True), strict=True):
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            step = TrainStep(model, nn.functional.mse_loss, optimizer, options=OPTIONS)
            torch.manual_seed(1)
            batches = [(torch.randn(16, 32), torch.randn(16, 8)) for _ in range(4)]
            found = [step(*batches[0]), step(*batches[1])]
            if watched:
                with profile(activities=CPU) as prof:
                    found.append(step(*batches[2]))
                self.assertEqual(
                    sum(self.kernels(prof).values()),
                    len(step.package.explain(OPTIONS["device"]).launches),
                )
            else:
                found.append(step(*batches[2]))
            losses.append([*found, step(*batches[3])])
        self.assertEqual(losses[0], losses[1])


if __name__ == "__main__":
    unittest.main()
