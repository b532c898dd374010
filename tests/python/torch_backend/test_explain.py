"""`reprise.torch.explain` tells what became of a model, and changes nothing."""

from __future__ import annotations

import io
import sys
import unittest
from typing import Any, ClassVar
from unittest import mock

import torch
import torch._dynamo
import torch.nn.functional as F
from reprise import _progress
from reprise.torch import TrainStep, backend, counters, explain
from test_backend import OPTIONS, Case
from torch import nn


class Explanations(Case):
    def test_recurrent_layers(self) -> None:
        model = nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8))
        text = str(explain(model, torch.randn(3, 2, 8), options=OPTIONS))
        self.assertIn("LSTM runs in PyTorch", text)
        self.assertIn("torch._dynamo.config.allow_rnn = True", text)
        with torch._dynamo.config.patch(allow_rnn=True):
            found = explain(model, torch.randn(3, 2, 8), options=OPTIONS)
        self.assertGreater(found.launches, 0)
        self.assertNotIn("allow_rnn", str(found))

    def test_nothing_to_compile(self) -> None:
        @torch._dynamo.disable
        def hidden(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        def function(x: torch.Tensor) -> torch.Tensor:
            return hidden(x)

        self.assertIn(
            "nothing was compiled",
            str(explain(function, torch.ones(3), options=OPTIONS)),
        )

    def test_the_model_runs_once_and_keeps_its_state(self) -> None:
        class Counted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.norm, self.drop = (
                    nn.Linear(8, 8),
                    nn.BatchNorm1d(8),
                    nn.Dropout(),
                )

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.drop(self.norm(self.layer(x)))

        model, calls = Counted(), []
        model.register_forward_hook(lambda *_: calls.append(1))
        before = {name: value.clone() for name, value in model.state_dict().items()}
        random = torch.get_rng_state()
        explain(model, torch.ones(5, 8), options=OPTIONS)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(torch.equal(torch.get_rng_state(), random))
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_what_others_have_compiled_stays(self) -> None:
        other = torch.compile(nn.Linear(8, 8), backend=backend, options=OPTIONS)
        same: Any = nn.Linear(8, 8)
        kept = torch.compile(same, backend=backend, options=OPTIONS)
        x = torch.randn(5, 8)
        other(x)
        kept(x)
        for _ in range(12):
            self.assertEqual(len(explain(same, x, options=OPTIONS).graphs), 2)
        before = counters()
        other(x)
        kept(x)
        self.assertEqual(counters(), before)

    def test_graph_breaks(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            torch._dynamo.graph_break()
            return y.cos()

        found = explain(function, torch.randn(4), options=OPTIONS)
        self.assertEqual(len(found.graphs), 2)
        self.assertRegex(found.breaks[0].source, r"test_explain.py:\d+")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Phases(Case):
    """Where the time of a first call goes."""

    options: ClassVar = {**OPTIONS, "cache_dir": ""}

    def _spent(self, call: Any) -> dict[str, float]:
        before = counters().seconds
        call()
        after = counters().seconds
        return {name: s - before.get(name, 0.0) for name, s in after.items()}

    def test_counters_tell_the_seconds(self) -> None:
        # No other program that the engine has in memory is like it.
        model, x = nn.Linear(37, 37), torch.randn(5, 37)
        run = torch.compile(model, backend=backend, options=self.options)
        phases = ("traced", "translated", "compiled", "opened", "first run")
        spent = self._spent(lambda: run(x))
        for name in phases:
            self.assertGreater(spent[name], 0, name)
        self.assertEqual(set(self._spent(lambda: run(x)).values()), {0.0})
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        step = TrainStep(model, F.mse_loss, optimiser, options=self.options)
        spent = self._spent(lambda: step(x, x))
        for name in phases:
            self.assertGreater(spent[name], 0, name)
        self.assertEqual(set(self._spent(lambda: step(x, x)).values()), {0.0})

    def test_explain_tells_the_seconds(self) -> None:
        found = explain(nn.Linear(38, 38), torch.randn(5, 38), options=self.options)
        for name in ("other", "traced", "translated", "compiled", "opened"):
            self.assertGreater(found.seconds[name], 0, name)
        self.assertRegex(str(found), r"first call: other \d+\.\d s, traced ")

    def test_a_terminal_shows_progress(self) -> None:
        quick = {"_DELAY": 0.0, "_QUIET": 0.0, "_tqdm": lambda: None}
        model, x = nn.Linear(8, 8), torch.randn(5, 8)
        run = torch.compile(model, backend=backend, options=self.options)
        step = TrainStep(
            model, F.mse_loss, torch.optim.SGD(model.parameters()), options=self.options
        )
        for call, texts in (
            (
                lambda: run(x).sum().backward(),
                ("program: PyTorch traces it", "backward graph: compiling"),
            ),
            (lambda: step(x, x), ("training step: compiling",)),
        ):
            with (
                mock.patch.multiple(_progress, **quick),
                mock.patch.object(sys, "stderr", _Terminal()) as terminal,
            ):
                call()
            for text in texts:
                self.assertIn(text, terminal.getvalue())


if __name__ == "__main__":
    unittest.main()
