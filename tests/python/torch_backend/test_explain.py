"""`reprise.torch.explain` tells what became of a model, and changes nothing."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch._dynamo
from reprise.torch import backend, counters, explain
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


if __name__ == "__main__":
    unittest.main()
